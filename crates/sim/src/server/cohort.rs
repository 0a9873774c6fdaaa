//! The choice of the users that the server invites.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use roaring::RoaringBitmap;

use super::oort::{Seen, Utilities};
use super::roster::{Roster, SelectionContext};
use crate::world::World;
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_core::{
    InvitationId, PortableDraws, Purpose, Result, SimDuration, SimTime, Step, Stream, UserId,
};
use fedrecsim_data::dataset::AliasTable;
use fedrecsim_model::blocks::Utility;
use fedrecsim_model::{Archive, ArchiveReader};
use fedrecsim_scenario::ClientSelection;

/// Chooses cohorts, and holds what it remembers from one choice to the next.
pub(super) struct Cohorts {
    world: Arc<World>,
    roster: Roster,
    /// The last step that used an update of each user or, where cohorts are invited, that invited
    /// the user. It is kept only where the kind of choice lets users rest.
    last_in: BTreeMap<UserId, Step>,
    /// The step that last removed users who have rested from `last_in`.
    forgotten_in: Step,
    /// The user whose turn it is.
    next_in_turn: u32,
    /// Draws users in proportion to their data. It is there only where the kind of choice needs it.
    by_data_size: Option<AliasTable>,
    /// What uploads have told about users. It is there only where the kind of choice needs it.
    utilities: Option<Utilities>,
}

impl Cohorts {
    pub(crate) fn new(world: Arc<World>) -> Self {
        let selection = world.scenario.training.client_selection;
        let sizes = || -> Vec<f64> {
            let ratings = |user| world.dataset.train_items(UserId::from(user)).len() as f64;
            (0..world.dataset.users_with_history())
                .map(ratings)
                .collect()
        };
        Self {
            roster: Roster::new(Arc::clone(&world)),
            last_in: BTreeMap::new(),
            forgotten_in: Step(0),
            next_in_turn: 0,
            by_data_size: (selection == ClientSelection::ByDataSize)
                .then(|| AliasTable::new(&sizes())),
            utilities: match selection {
                ClientSelection::Oort(spec) => Some(Utilities::new(spec)),
                _ => None,
            },
            world,
        }
    }

    /// Appends what the choice remembers to `archive`.
    pub(crate) fn save(&self, archive: &mut Archive) {
        archive.put(&(
            &self.last_in,
            self.next_in_turn,
            self.utilities.as_ref().map(|utilities| &utilities.seen),
        ));
    }

    /// Reads what [`Self::save`] appended.
    ///
    /// # Errors
    /// As [`ArchiveReader::take`].
    pub(crate) fn restore(&mut self, archive: &mut ArchiveReader) -> Result<()> {
        let seen: Option<BTreeMap<UserId, Seen>>;
        (self.last_in, self.next_in_turn, seen) = archive.take()?;
        if let (Some(utilities), Some(seen)) = (&mut self.utilities, seen) {
            utilities.seen = seen;
        }
        Ok(())
    }

    /// Notes that a participation of `user` has come to its end.
    pub(crate) fn released(&mut self, user: UserId) {
        self.roster.released(user);
    }

    /// Notes what an upload has told about its user.
    pub(crate) fn observe(
        &mut self,
        user: UserId,
        report: Utility,
        duration: SimDuration,
        step: Step,
    ) {
        if let Some(utilities) = &mut self.utilities {
            utilities.observe(user, report, duration, step);
        }
    }

    /// Notes that the update of `user` is used in `step`.
    pub(crate) fn used(&mut self, user: UserId, step: Step) {
        self.remember(&[user], step);
    }

    /// Lets `users` rest in `step` and the one after it, where the kind of choice lets users rest.
    fn remember(&mut self, users: &[UserId], step: Step) {
        if self.world.scenario.training.client_selection != ClientSelection::NeverTwiceInARow {
            return;
        }
        // This is done once a step, since a step of the asynchronous modes has as many choices as
        // updates.
        if self.forgotten_in != step {
            self.last_in.retain(|_, last| last.0 + 1 >= step.0);
            self.forgotten_in = step;
        }
        self.last_in.extend(users.iter().map(|user| (*user, step)));
    }

    /// Chooses at most `places` users who can take part now and do not take part already. Returns
    /// them in ascending order.
    pub(crate) fn choose(&mut self, places: usize, at: SelectionContext<'_>) -> Vec<UserId> {
        let _stage = enter(Stage::Select);
        let users = self.world.dataset.users_with_history();
        let places = places.min(users - self.world.excluded.len() - at.open.len());
        if places == 0 {
            return Vec::new();
        }
        self.roster.catch_up(at);
        if let Some(drawn) = self.drawn_apart(at.invitation_id) {
            let chosen: Vec<UserId> = drawn
                .into_iter()
                .filter(|user| self.can(*user, at))
                .collect();
            self.roster.invited(&chosen, at.now);
            return chosen;
        }
        let mut stream = self.stream(at.invitation_id);
        let selection = self.world.scenario.training.client_selection;
        let everybody_can = at.open.is_empty() && self.world.everybody_can_take_part();
        let population = users as u32;
        let anybody = |stream: &mut Stream| stream.below(population);
        let mut chosen = match selection {
            ClientSelection::Uniform if everybody_can && places == users => {
                (0..population).map(UserId).collect()
            }
            ClientSelection::Uniform if everybody_can => {
                sample_without_replacement(population, places as u32, &mut stream)
                    .map(UserId)
                    .collect()
            }
            ClientSelection::Uniform => self.uniform(places, at, &mut stream),
            ClientSelection::RoundRobin => self.in_turn(places, at),
            ClientSelection::LongestAvailable => {
                self.roster.idle(at).longest_first().take(places).collect()
            }
            ClientSelection::ByDataSize => self.by_data_size(places, at, &mut stream),
            ClientSelection::Oort(_) => self.by_utility(places, at, &mut stream),
            ClientSelection::NeverTwiceInARow => {
                self.drawn(places, at, &mut stream, anybody, |_| true)
            }
        };
        chosen.sort_unstable();
        // Elsewhere a participation that comes to nothing needs no rest, since the server has
        // learned nothing from it, and one that lasts for many steps counts for the step that uses
        // its update.
        if self.world.policy.has_cohorts() {
            self.remember(&chosen, at.step);
        }
        self.roster.invited(&chosen, at.now);
        chosen
    }

    /// Returns whether users are drawn for a cohort each by itself.
    pub(crate) fn draws_each_apart(&self) -> bool {
        self.world.scenario.training.drawn_apart().is_some()
    }

    /// Returns the users who are drawn for an invitation, each by itself with the same probability,
    /// ascending; `None` if users are found in another way.
    fn drawn_apart(&self, invitation_id: InvitationId) -> Option<Vec<UserId>> {
        let probability = self.world.scenario.training.drawn_apart()?;
        let mut stream = self.stream(invitation_id);
        let users = (0..self.world.dataset.users_with_history()).map(UserId::from);
        Some(users.filter(|_| stream.open_unit() < probability).collect())
    }

    fn stream(&self, invitation_id: InvitationId) -> Stream {
        self.world
            .streams
            .stream(Purpose::Cohort, 0, u64::from(invitation_id.0))
    }

    /// Returns when the next user becomes available who might be picked and is neither available
    /// now nor taking part; `None` if none does. A user who is available but was not picked has
    /// another reason, which time alone does not change.
    pub(crate) fn next_arrival(&mut self, at: SelectionContext<'_>) -> Option<SimTime> {
        if self.world.population.availability.is_always() {
            return None;
        }
        let Self {
            roster, last_in, ..
        } = self;
        let mut arrivals = roster.idle(at).arrivals();
        arrivals
            .find(|(_, user)| !rests(last_in, *user, at.step))
            .map(|(arrives, _)| arrives)
    }

    /// Returns whether users are here who take part in nothing. If nobody was picked, all of them
    /// have to rest.
    pub(crate) fn somebody_is_idle(&mut self, at: SelectionContext<'_>) -> bool {
        self.roster.idle(at).len() > 0
    }

    /// Returns how many users may not be picked in `step` because they took part in it or in the
    /// one before.
    pub(crate) fn resting(&self, step: Step) -> u32 {
        self.last_in
            .keys()
            .filter(|user| rests(&self.last_in, **user, step))
            .count() as u32
    }

    /// Returns whether `user` may be picked now.
    fn can(&mut self, user: UserId, at: SelectionContext<'_>) -> bool {
        !at.open.contains_key(&user)
            && !rests(&self.last_in, user, at.step)
            && self.roster.is_there(user, at.now)
    }

    /// Chooses uniformly among the users who may be picked. At first users are drawn from all and
    /// checked, and where that finds too few, they are drawn from the list of those who are there.
    fn uniform(
        &mut self,
        places: usize,
        at: SelectionContext<'_>,
        stream: &mut Stream,
    ) -> Vec<UserId> {
        let users = self.world.dataset.users_with_history() as u32;
        let mut found = BTreeSet::new();
        let draw = |stream: &mut Stream| Some(UserId(stream.below(users)));
        draw_into(&mut found, places, stream, draw, |user| self.can(user, at));
        if found.len() == places {
            return found.into_iter().collect();
        }
        let idle = self.roster.idle(at);
        let places = places.min(idle.len()) as u32;
        sample_without_replacement(idle.len() as u32, places, stream)
            .filter_map(|rank| idle.of_rank(rank))
            .collect()
    }

    /// Chooses users who may be picked and are `eligible` as `draw` draws them, without
    /// replacement. If this finds too few, the rest of the places is filled uniformly.
    fn drawn(
        &mut self,
        places: usize,
        at: SelectionContext<'_>,
        stream: &mut Stream,
        draw: impl Fn(&mut Stream) -> u32,
        eligible: impl Fn(UserId) -> bool,
    ) -> Vec<UserId> {
        let mut chosen = BTreeSet::new();
        let draw = |stream: &mut Stream| Some(UserId(draw(stream)));
        draw_into(&mut chosen, places, stream, draw, |user| {
            eligible(user) && self.can(user, at)
        });
        if chosen.len() == places {
            return chosen.into_iter().collect();
        }
        let Self {
            roster, last_in, ..
        } = self;
        let idle = roster.idle(at);
        let may = |user| eligible(user) && !rests(last_in, user, at.step);
        // Most of those who are there may be picked. All of them are looked at only where few may
        // be.
        let there = idle.len() as u32;
        if there > 0 {
            draw_into(
                &mut chosen,
                places,
                stream,
                |stream| idle.of_rank(stream.below(there)),
                may,
            );
        }
        let missing = places - chosen.len();
        if missing > 0 {
            let rest: Vec<UserId> = idle
                .from(UserId(0))
                .filter(|user| !chosen.contains(user) && may(*user))
                .collect();
            let ranks = sample_without_replacement(
                rest.len() as u32,
                missing.min(rest.len()) as u32,
                stream,
            );
            chosen.extend(ranks.map(|rank| rest[rank as usize]));
        }
        chosen.into_iter().collect()
    }

    fn in_turn(&mut self, places: usize, at: SelectionContext<'_>) -> Vec<UserId> {
        let first = UserId(self.next_in_turn);
        let chosen: Vec<UserId> = self.roster.idle(at).from(first).take(places).collect();
        if let Some(last) = chosen.last() {
            self.next_in_turn = (last.0 + 1) % self.world.dataset.users_with_history() as u32;
        }
        chosen
    }

    /// Chooses some users who were never seen, and the rest by utility. If there are too few of
    /// either kind, more of the other are taken.
    fn by_utility(
        &mut self,
        places: usize,
        at: SelectionContext<'_>,
        stream: &mut Stream,
    ) -> Vec<UserId> {
        let users = self.world.dataset.users_with_history() as u32;
        let Some(utilities) = self.utilities.take() else {
            return Vec::new();
        };
        let draw = |stream: &mut Stream| stream.below(users);
        let to_explore = utilities.to_explore(places, at.step, stream);
        let mut explored = self.drawn(to_explore, at, stream, draw, |user| {
            !utilities.has_seen(user)
        });
        let best = utilities.exploit(places - explored.len(), at.step, stream, |user| {
            self.can(user, at)
        });
        let missing = places - explored.len() - best.len();
        let unseen = |user| !explored.contains(&user) && !utilities.has_seen(user);
        let more = self.drawn(missing, at, stream, draw, unseen);
        explored.extend(more);
        self.utilities = Some(utilities);
        explored.into_iter().chain(best).collect()
    }

    fn by_data_size(
        &mut self,
        places: usize,
        at: SelectionContext<'_>,
        stream: &mut Stream,
    ) -> Vec<UserId> {
        let Some(table) = self.by_data_size.take() else {
            return Vec::new();
        };
        let chosen = self.drawn(places, at, stream, |stream| table.draw(stream), |_| true);
        self.by_data_size = Some(table);
        chosen
    }
}

/// Returns whether `user` has to rest in `step`, because `step` or the one before it is the user's
/// last one.
fn rests(last_in: &BTreeMap<UserId, Step>, user: UserId, step: Step) -> bool {
    last_in.get(&user).is_some_and(|last| last.0 + 1 >= step.0)
}

/// Draws `size` numbers of `0..population` uniformly without replacement, and returns them in
/// ascending order, by Floyd's algorithm (Bentley and Floyd 1987).
fn sample_without_replacement(
    population: u32,
    size: u32,
    stream: &mut impl PortableDraws,
) -> impl Iterator<Item = u32> {
    let mut chosen = RoaringBitmap::new();
    for last in population - size..population {
        let candidate = stream.below(last + 1);
        if !chosen.insert(candidate) {
            chosen.insert(last);
        }
    }
    chosen.into_iter()
}

/// Fills `chosen` up to `places` with users who are `eligible`, as `draw` draws them, without
/// replacement. It makes a few draws for every place. So it takes a time that depends on the cohort
/// alone, and finds enough where many are eligible.
fn draw_into(
    chosen: &mut BTreeSet<UserId>,
    places: usize,
    stream: &mut Stream,
    draw: impl Fn(&mut Stream) -> Option<UserId>,
    mut eligible: impl FnMut(UserId) -> bool,
) {
    let mut tries = 4 * (places - chosen.len()) + 16;
    while chosen.len() < places && tries > 0 {
        tries -= 1;
        if let Some(candidate) = draw(stream)
            && !chosen.contains(&candidate)
            && eligible(candidate)
        {
            chosen.insert(candidate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedrecsim_core::Streams;

    #[test]
    fn a_sample_is_distinct_ascending_and_uniform() {
        let mut counts = [0u32; 20];
        for step in 0..4000 {
            let mut stream = Streams::new(1).stream(Purpose::Cohort, 0, step);
            let sample: Vec<u32> = sample_without_replacement(20, 5, &mut stream).collect();
            assert!(sample.len() == 5 && sample.windows(2).all(|pair| pair[0] < pair[1]));
            sample
                .into_iter()
                .for_each(|user| counts[user as usize] += 1);
        }
        assert!(
            counts.iter().all(|count| (880..1120).contains(count)),
            "{counts:?}"
        );
        let mut stream = Streams::new(1).stream(Purpose::Cohort, 0, 0);
        assert!(sample_without_replacement(4, 4, &mut stream).eq(0..4));
        assert_eq!(
            sample_without_replacement(100_000, 3, &mut stream).count(),
            3
        );
    }
}
