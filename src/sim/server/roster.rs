//! Who is there and idle.
//!
//! Where many can take part, a cohort is drawn and looked at, and nobody needs a list. Where few can, looking at
//! everybody at every event would cost the population; this list costs what has changed. It follows from the clock and
//! from who is at work, so a checkpoint has no part in it, and it is made when it is first asked for.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use roaring::RoaringBitmap;

use super::Open;
use crate::ids::{InvitationId, Step, UserId};
use crate::population::AvailabilityClock;
use crate::sim::by_user::ByUser;
use crate::sim::world::World;
use crate::units::SimTime;

/// An instant at which users are picked.
#[derive(Clone, Copy)]
pub(super) struct SelectionContext<'a> {
    pub now: SimTime,
    pub step: Step,
    pub invitation_id: InvitationId,
    /// Those who are at it already.
    pub open: &'a ByUser<Open>,
}

/// Users who can take part, by what the clock says of them.
pub(super) struct Roster {
    world: Arc<World>,
    availability: AvailabilityClock,
    idle: Option<Idle>,
}

/// Those who are not at work and whose devices have the memory for it.
#[derive(Default)]
pub(super) struct Idle {
    here: RoaringBitmap,
    /// Those who are here, the longest to stay first; [`SimTime::END`] for good.
    stays: BTreeSet<(Reverse<SimTime>, UserId)>,
    /// Those who are away and come back, by when.
    arrivals: BTreeSet<(SimTime, UserId)>,
    /// Those whose participation has ended since the list was brought up to date.
    released: Vec<UserId>,
}

impl Roster {
    /// Nobody has asked for the list.
    pub fn new(world: Arc<World>) -> Self {
        Self { availability: world.population.availability().clock(), world, idle: None }
    }

    /// Whether `user` is there and its device has the memory.
    pub fn is_there(&mut self, user: UserId, now: SimTime) -> bool {
        self.world.has_memory(user) && self.availability.is_available(user, now)
    }

    /// These are at work from now on.
    pub fn invited(&mut self, users: &[UserId], now: SimTime) {
        let Some(idle) = &mut self.idle else { return };
        for &user in users {
            idle.here.remove(user.0);
            // The longest to stay are the first to be picked: left in their place, they would be passed over every time.
            let leaves = self.availability.leaves_at(user, now).unwrap_or(SimTime::END);
            idle.stays.remove(&(Reverse(leaves), user));
        }
    }

    /// This one is not any more.
    pub fn released(&mut self, user: UserId) {
        if let Some(idle) = &mut self.idle {
            idle.released.push(user);
        }
    }

    /// Brings the list up to date, if there is one.
    pub fn catch_up(&mut self, at: SelectionContext<'_>) {
        if self.idle.is_some() {
            self.idle(at);
        }
    }

    /// The list, up to date.
    pub fn idle(&mut self, at: SelectionContext<'_>) -> &Idle {
        let Self { world, availability, idle } = self;
        let mut place = |idle: &mut Idle, user| {
            if !at.open.contains_key(&user) {
                idle.place(user, at.now, availability);
            }
        };
        let Some(idle) = idle else {
            let mut all = Idle::default();
            let users = (0..world.dataset.users()).map(UserId::from);
            users.filter(|user| world.has_memory(*user)).for_each(|user| place(&mut all, user));
            return idle.insert(all);
        };
        for user in std::mem::take(&mut idle.released) {
            place(idle, user);
        }
        while let Some(&(leaves, user)) = idle.stays.last().filter(|(leaves, _)| leaves.0 <= at.now) {
            idle.stays.remove(&(leaves, user));
            idle.here.remove(user.0);
            place(idle, user);
        }
        while let Some(&(arrives, user)) = idle.arrivals.first().filter(|(arrives, _)| *arrives <= at.now) {
            idle.arrivals.remove(&(arrives, user));
            place(idle, user);
        }
        idle
    }
}

impl Idle {
    /// Enters an idle user where the clock says; who never comes again is left out.
    fn place(&mut self, user: UserId, now: SimTime, availability: &mut AvailabilityClock) {
        match availability.next_arrival(user, now) {
            Some(arrives) if arrives > now => {
                self.arrivals.insert((arrives, user));
            }
            Some(_) => {
                let leaves = availability.leaves_at(user, now).unwrap_or(SimTime::END);
                self.here.insert(user.0);
                self.stays.insert((Reverse(leaves), user));
            }
            None => {}
        }
    }

    /// How many are here.
    pub fn len(&self) -> usize {
        self.here.len() as usize
    }

    /// The one of this rank among those who are here, by number.
    pub fn of_rank(&self, rank: u32) -> Option<UserId> {
        self.here.select(rank).map(UserId)
    }

    /// Those who are here, ascending from `first` on and then from the first number to it.
    pub fn from(&self, first: UserId) -> impl Iterator<Item = UserId> {
        self.here.range(first.0..).chain(self.here.range(..first.0)).map(UserId)
    }

    /// Those who are here, the longest to stay first; of equals the first by number.
    pub fn longest_first(&self) -> impl Iterator<Item = UserId> {
        self.stays.iter().map(|(_, user)| *user)
    }

    /// Those who are away and come back, the next first.
    pub fn arrivals(&self) -> impl Iterator<Item = (SimTime, UserId)> {
        self.arrivals.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use crate::sim::download::OutgoingDownload;
    use crate::sim::small;
    use crate::units::SimDuration;

    /// What the list must be, by asking about everybody.
    fn by_asking(world: &World, at: SelectionContext<'_>) -> (Vec<UserId>, Vec<UserId>, Option<SimTime>) {
        let mut clock = world.population.availability().clock();
        let idle = || (0..21).map(UserId).filter(|user| world.has_memory(*user) && !at.open.contains_key(user));
        let here: Vec<UserId> = idle().filter(|user| clock.is_available(*user, at.now)).collect();
        let arrivals = idle().filter(|user| !here.contains(user)).filter_map(|user| clock.next_arrival(user, at.now));
        let next = arrivals.collect::<Vec<_>>().into_iter().min();
        let mut longest = here.clone();
        longest.sort_by_key(|user| Reverse(clock.leaves_at(*user, at.now).unwrap_or(SimTime::END)));
        (here, longest, next)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// If this fails, the server picks somebody who is gone or at work, overlooks somebody, or waits for nobody.
        #[test]
        fn the_list_is_what_asking_about_everybody_finds(
            limits_memory in any::<bool>(),
            steps in prop::collection::vec((0u64..60, prop::collection::vec(0u32..21, 0..4), 0u8..4), 1..60)
        ) {
            let classes = "devices.classes=[{ name = \"small\", share = 0.3, ns_per_row_visit = 1, memory_mb = 0.001 }, \
                           { name = \"large\", share = 0.7, ns_per_row_visit = 1 }]";
            let on_off = "availability={ on-off = { mean_on_s = 100, mean_off_s = 60 } }";
            let overrides = [on_off, classes];
            let world = small::world(&overrides[..1 + usize::from(limits_memory)]);
            let download = Arc::new(OutgoingDownload::first(&world));
            let (mut roster, mut open) = (Roster::new(Arc::clone(&world)), ByUser::default());
            let mut now = SimTime::ZERO;
            for (seconds, users, what) in steps {
                now = now + SimDuration::from_secs_f64(seconds as f64);
                // Participations begin and end, also while nobody keeps the list up to date.
                for user in users.into_iter().map(UserId) {
                    if open.remove(&user).is_some() {
                        roster.released(user);
                    } else if roster.is_there(user, now) {
                        let (step, invitation_id, download) = (Step(0), InvitationId(0), Arc::clone(&download));
                        open.insert(user, Open { step, invitation_id, began: now, download });
                        roster.invited(&[user], now);
                    }
                }
                let at = SelectionContext { now, step: Step(0), invitation_id: InvitationId(0), open: &open };
                match what {
                    0 => continue,
                    1 => roster.catch_up(at),
                    _ => {
                        let (here, longest, next) = by_asking(&world, at);
                        let idle = roster.idle(at);
                        prop_assert_eq!(idle.from(UserId(0)).collect::<Vec<_>>(), &here[..]);
                        prop_assert_eq!(idle.longest_first().collect::<Vec<_>>(), longest);
                        prop_assert_eq!(idle.arrivals().next().map(|(arrives, _)| arrives), next);
                        prop_assert_eq!((idle.len(), idle.stays.len()), (here.len(), here.len()));
                        let ranks = (0..=here.len() as u32).map(|rank| idle.of_rank(rank));
                        prop_assert!(ranks.eq(here.iter().copied().map(Some).chain([None])));
                        let after: Vec<UserId> = idle.from(UserId(9)).collect();
                        let turned = here.iter().filter(|user| user.0 >= 9).chain(here.iter().filter(|user| user.0 < 9));
                        prop_assert!(after.iter().eq(turned));
                    }
                }
            }
        }
    }
}
