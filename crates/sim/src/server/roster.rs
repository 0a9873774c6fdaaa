//! The list of users who are available and idle.
//!
//! Where many users can take part, a cohort is drawn and then checked, and no list is needed. Where
//! few can, checking every user at every event would cost a time in proportion to the population,
//! but this list costs only what has changed. It follows from the clock and from who takes part, so
//! it is not in checkpoints. It is made when it is first asked for.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use roaring::RoaringBitmap;

use super::Open;
use crate::by_user::ByUser;
use crate::world::World;
use fedrecsim_core::{InvitationId, SimTime, Step, UserId};
use fedrecsim_data::population::AvailabilityClock;

/// An instant when users are picked.
#[derive(Clone, Copy)]
pub(super) struct SelectionContext<'a> {
    pub now: SimTime,
    pub step: Step,
    pub invitation_id: InvitationId,
    /// The participations under way.
    pub open: &'a ByUser<Open>,
}

/// Knows which users can take part.
pub(super) struct Roster {
    world: Arc<World>,
    availability: AvailabilityClock,
    idle: Option<Idle>,
}

/// The users who do not take part and whose devices have the memory for it.
#[derive(Default)]
pub(super) struct Idle {
    here: RoaringBitmap,
    /// The users who are here, by the time when they leave, the last to leave first;
    /// [`SimTime::END`] if they never do.
    stays: BTreeSet<(Reverse<SimTime>, UserId)>,
    /// The users who are away and come back, by the time when they do.
    arrivals: BTreeSet<(SimTime, UserId)>,
    /// The users whose participation has ended since the list was brought up to date.
    released: Vec<UserId>,
}

impl Roster {
    /// Makes a roster without the list, which nobody has asked for yet.
    pub(crate) fn new(world: Arc<World>) -> Self {
        Self {
            availability: world.population.availability.clock(),
            world,
            idle: None,
        }
    }

    /// Returns whether `user` is available and its device has the memory.
    pub(crate) fn is_there(&mut self, user: UserId, now: SimTime) -> bool {
        self.world.can_take_part(user) && self.availability.is_available(user, now)
    }

    /// Notes that `users` take part from now on.
    pub(crate) fn invited(&mut self, users: &[UserId], now: SimTime) {
        let Some(idle) = &mut self.idle else { return };
        for &user in users {
            idle.here.remove(user.0);
            // Those who stay longest are picked first. If they stayed in the list, they would be
            // passed over every time.
            let leaves = self
                .availability
                .leaves_at(user, now)
                .unwrap_or(SimTime::END);
            idle.stays.remove(&(Reverse(leaves), user));
        }
    }

    /// Notes that `user` does not take part any more.
    pub(crate) fn released(&mut self, user: UserId) {
        if let Some(idle) = &mut self.idle {
            idle.released.push(user);
        }
    }

    /// Brings the list up to date, if there is one.
    pub(crate) fn catch_up(&mut self, at: SelectionContext<'_>) {
        if self.idle.is_some() {
            self.idle(at);
        }
    }

    /// Returns the list, which is made or brought up to date.
    pub(crate) fn idle(&mut self, at: SelectionContext<'_>) -> &Idle {
        let Self {
            world,
            availability,
            idle,
        } = self;
        let mut place = |idle: &mut Idle, user| {
            if !at.open.contains_key(&user) {
                idle.place(user, at.now, availability);
            }
        };
        let Some(idle) = idle else {
            let mut all = Idle::default();
            let users = (0..world.dataset.users_with_history()).map(UserId::from);
            users
                .filter(|user| world.can_take_part(*user))
                .for_each(|user| place(&mut all, user));
            return idle.insert(all);
        };
        for user in std::mem::take(&mut idle.released) {
            place(idle, user);
        }
        while let Some(&(leaves, user)) = idle.stays.last().filter(|(leaves, _)| leaves.0 <= at.now)
        {
            idle.stays.remove(&(leaves, user));
            idle.here.remove(user.0);
            place(idle, user);
        }
        while let Some(&(arrives, user)) = idle
            .arrivals
            .first()
            .filter(|(arrives, _)| *arrives <= at.now)
        {
            idle.arrivals.remove(&(arrives, user));
            place(idle, user);
        }
        idle
    }
}

impl Idle {
    /// Enters an idle user among those who are here or those who come back. A user who never comes
    /// back is left out.
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

    /// Returns how many users are here.
    pub(crate) fn len(&self) -> usize {
        self.here.len() as usize
    }

    /// Returns the user of this rank among those who are here, by number.
    pub(crate) fn of_rank(&self, rank: u32) -> Option<UserId> {
        self.here.select(rank).map(UserId)
    }

    /// Returns the users who are here, ascending from `first` on, and then from the least number up
    /// to it.
    pub(crate) fn from(&self, first: UserId) -> impl Iterator<Item = UserId> {
        self.here
            .range(first.0..)
            .chain(self.here.range(..first.0))
            .map(UserId)
    }

    /// Returns the users who are here, the last to leave first, and of equals the least number
    /// first.
    pub(crate) fn longest_first(&self) -> impl Iterator<Item = UserId> {
        self.stays.iter().map(|(_, user)| *user)
    }

    /// Returns the users who are away and come back, in the order of their return.
    pub(crate) fn arrivals(&self) -> impl Iterator<Item = (SimTime, UserId)> {
        self.arrivals.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use crate::download::Download;
    use crate::invitation::Invitation;
    use crate::tests::small;
    use fedrecsim_core::SimDuration;

    /// Returns what the list must have, found by asking the clock about every user.
    fn by_asking(
        world: &World,
        at: SelectionContext<'_>,
    ) -> (Vec<UserId>, Vec<UserId>, Option<SimTime>) {
        let mut clock = world.population.availability.clock();
        let idle = || {
            (0..21)
                .map(UserId)
                .filter(|user| world.can_take_part(*user) && !at.open.contains_key(user))
        };
        let here: Vec<UserId> = idle()
            .filter(|user| clock.is_available(*user, at.now))
            .collect();
        let arrivals = idle()
            .filter(|user| !here.contains(user))
            .filter_map(|user| clock.next_arrival(user, at.now));
        let next = arrivals.collect::<Vec<_>>().into_iter().min();
        let mut longest = here.clone();
        longest.sort_by_key(|user| Reverse(clock.leaves_at(*user, at.now).unwrap_or(SimTime::END)));
        (here, longest, next)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// If this fails, the server picks somebody who is gone or takes part, overlooks somebody,
        /// or waits in vain.
        #[test]
        fn the_list_is_what_asking_about_everybody_finds(
            limits_memory in any::<bool>(),
            steps in prop::collection::vec((0u64..60, prop::collection::vec(0u32..21, 0..4), 0u8..4), 1..60)
        ) {
            let classes = "devices.speed.classes=[{ name = \"small\", share = 0.3, ns_per_row_visit = 1, memory_mb = 0.001 }, \
                           { name = \"large\", share = 0.7, ns_per_row_visit = 1 }]";
            let on_off = "availability.pattern={ on-off = { mean_on_s = 100, mean_off_s = 60 } }";
            let overrides = [on_off, classes];
            let world = small::world(&overrides[..1 + usize::from(limits_memory)]);
            let download = Arc::new(Download::first(&world).unwrap());
            let (mut roster, mut open) = (Roster::new(Arc::clone(&world)), ByUser::default());
            let mut now = SimTime::ZERO;
            for (seconds, users, what) in steps {
                now = now + SimDuration::from_secs_f64(seconds as f64);
                // Participations begin and end, also at times when the list is not brought up to
                // date.
                for user in users.into_iter().map(UserId) {
                    if open.remove(&user).is_some() {
                        roster.released(user);
                    } else if roster.is_there(user, now) {
                        let (step, id, download) = (Step(0), InvitationId(0), Arc::clone(&download));
                        let invitation = Invitation { step, id, download, sent: now };
                        open.insert(user, Open { user, invitation, began: now, asked: None });
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
