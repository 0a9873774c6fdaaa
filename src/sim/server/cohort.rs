//! Whom the server picks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Open;
use super::oort::{Seen, Utilities};
use crate::dataset::alias::AliasTable;
use crate::error::Result;
use crate::ids::{Round, UserId, Wave};
use crate::model::archive::{Archive, ArchiveReader};
use crate::population::AvailabilityClock;
use crate::rng::{PortableDraws, Purpose, Stream};
use crate::scenario::ClientSelection;
use crate::sim::by_user::ByUser;
use crate::sim::utility_report::UtilityReport;
use crate::sim::world::World;
use crate::stages::{Stage, enter};
use crate::units::{SimDuration, SimTime};

/// The choice of cohorts, with what it remembers from one to the next.
pub(super) struct Cohorts {
    world: Arc<World>,
    availability: AvailabilityClock,
    /// The round in which a user was invited last; kept only where the choice asks for it.
    last_invited: BTreeMap<UserId, Round>,
    /// The user whose turn it is.
    next_in_turn: u32,
    /// Draws users in proportion to their data; only where the choice asks for it.
    by_data_size: Option<AliasTable>,
    /// What uploads said of users; only where the choice asks for it.
    utilities: Option<Utilities>,
}

/// An instant at which users are picked.
#[derive(Clone, Copy)]
pub(super) struct Occasion<'a> {
    pub now: SimTime,
    pub round: Round,
    pub wave: Wave,
    /// Those who are at it already.
    pub open: &'a ByUser<Open>,
}

impl Cohorts {
    pub fn new(world: Arc<World>) -> Self {
        let selection = world.scenario.training.client_selection;
        let sizes = || -> Vec<f64> {
            let ratings = |user| world.dataset.train_items(UserId::from(user)).len() as f64;
            (0..world.dataset.users()).map(ratings).collect()
        };
        Self {
            availability: world.population.availability().clock(),
            last_invited: BTreeMap::new(),
            next_in_turn: 0,
            by_data_size: (selection == ClientSelection::ByDataSize).then(|| AliasTable::new(&sizes())),
            utilities: match selection {
                ClientSelection::Oort(spec) => Some(Utilities::new(spec)),
                _ => None,
            },
            world,
        }
    }

    /// Appends what it remembers to `archive`.
    pub fn save(&self, archive: &mut Archive) {
        archive.put(&(&self.last_invited, self.next_in_turn, self.utilities.as_ref().map(Utilities::seen)));
    }

    /// Reads what [`Self::save`] appended.
    ///
    /// # Errors
    /// [`Error::Checkpoint`](crate::error::Error::Checkpoint) for anything else.
    pub fn restore(&mut self, archive: &mut ArchiveReader) -> Result<()> {
        let seen: Option<BTreeMap<UserId, Seen>>;
        (self.last_invited, self.next_in_turn, seen) = archive.take()?;
        if let (Some(utilities), Some(seen)) = (&mut self.utilities, seen) {
            utilities.restore(seen);
        }
        Ok(())
    }

    /// Notes what an upload said of its user.
    pub fn observe(&mut self, user: UserId, report: UtilityReport, duration: SimDuration, round: Round) {
        if let Some(utilities) = &mut self.utilities {
            utilities.observe(user, report, duration, round);
        }
    }

    /// At most `places` users who can take part now and are not at it already, ascending.
    pub fn choose(&mut self, places: usize, at: Occasion<'_>) -> Vec<UserId> {
        let _stage = enter(Stage::Select);
        let users = self.world.dataset.users();
        let places = places.min(users - self.world.excluded.len() - at.open.len());
        if places == 0 {
            return Vec::new();
        }
        let mut stream = self.world.streams.stream(Purpose::Cohort, 0, u64::from(at.wave.0));
        let selection = self.world.scenario.training.client_selection;
        let everybody_can = at.open.is_empty() && self.world.everybody_can_take_part();
        let users = users as u32;
        let mut chosen = match selection {
            ClientSelection::Uniform if everybody_can && places == users as usize => (0..users).map(UserId).collect(),
            ClientSelection::Uniform if everybody_can => {
                sample_without_replacement(users, places as u32, &mut stream).into_iter().map(UserId).collect()
            }
            ClientSelection::RoundRobin => self.in_turn(places, at),
            ClientSelection::LongestAvailable => self.longest_available(places, at),
            ClientSelection::ByDataSize => self.by_data_size(places, at, &mut stream),
            ClientSelection::Oort(_) => self.by_utility(places, at, &mut stream),
            ClientSelection::Uniform | ClientSelection::NeverTwiceInARow => {
                drawn(users, places, &mut stream, |stream| stream.below(users), |user| self.can(user, at))
            }
        };
        chosen.sort_unstable();
        if selection == ClientSelection::NeverTwiceInARow {
            self.last_invited.retain(|_, last| last.0 + 1 >= at.round.0);
            chosen.iter().for_each(|user| {
                self.last_invited.insert(*user, at.round);
            });
        }
        chosen
    }

    /// When the next of those becomes available who are not at it; `None` if nobody does, or nobody would be picked.
    pub fn next_arrival(&mut self, at: Occasion<'_>) -> Option<SimTime> {
        if self.availability_is_always() {
            return None;
        }
        let users = (0..self.world.dataset.users()).map(UserId::from);
        let arrivals = users.filter_map(|user| {
            let idle = !at.open.contains_key(&user) && self.world.has_memory(user);
            let arrival = idle.then(|| self.availability.next_arrival(user, at.now))??;
            // Who is there and was not picked has a reason that time alone does not mend.
            (arrival > at.now).then_some(arrival)
        });
        arrivals.min()
    }

    fn availability_is_always(&self) -> bool {
        self.world.population.availability().is_always()
    }

    /// Whether `user` may be picked.
    fn can(&mut self, user: UserId, at: Occasion<'_>) -> bool {
        !at.open.contains_key(&user)
            && self.world.has_memory(user)
            && self.last_invited.get(&user).is_none_or(|last| last.0 + 1 < at.round.0)
            && self.availability.is_available(user, at.now)
    }

    fn in_turn(&mut self, places: usize, at: Occasion<'_>) -> Vec<UserId> {
        let users = self.world.dataset.users() as u32;
        let first = self.next_in_turn;
        let mut chosen = Vec::with_capacity(places);
        for user in (first..users).chain(0..first).map(UserId) {
            if self.can(user, at) {
                chosen.push(user);
                self.next_in_turn = (user.0 + 1) % users;
                if chosen.len() == places {
                    break;
                }
            }
        }
        chosen
    }

    fn longest_available(&mut self, places: usize, at: Occasion<'_>) -> Vec<UserId> {
        let mut stays = Vec::new();
        for user in (0..self.world.dataset.users()).map(UserId::from) {
            if self.can(user, at) {
                let leaves = self.availability.leaves_at(user, at.now).unwrap_or(SimTime::END);
                stays.push((Reverse(leaves), user));
            }
        }
        stays.sort_unstable();
        stays.into_iter().take(places).map(|(_, user)| user).collect()
    }

    /// Some never seen before, the rest by utility; where there are too few of either, more of the other.
    fn by_utility(&mut self, places: usize, at: Occasion<'_>, stream: &mut Stream) -> Vec<UserId> {
        let users = self.world.dataset.users() as u32;
        let Some(utilities) = self.utilities.take() else { return Vec::new() };
        let draw = |stream: &mut Stream| stream.below(users);
        let unseen = |cohorts: &mut Self, user| !utilities.has_seen(user) && cohorts.can(user, at);
        let to_explore = utilities.to_explore(places, at.round, stream);
        let mut explored = drawn(users, to_explore, stream, draw, |user| unseen(self, user));
        let best = utilities.exploit(places - explored.len(), at.round, stream, |user| self.can(user, at));
        let missing = places - explored.len() - best.len();
        if missing > 0 {
            let more = drawn(users, missing, stream, draw, |user| !explored.contains(&user) && unseen(self, user));
            explored.extend(more);
        }
        self.utilities = Some(utilities);
        explored.into_iter().chain(best).collect()
    }

    fn by_data_size(&mut self, places: usize, at: Occasion<'_>, stream: &mut Stream) -> Vec<UserId> {
        let users = self.world.dataset.users() as u32;
        let Some(table) = self.by_data_size.take() else { return Vec::new() };
        let chosen = drawn(users, places, stream, |stream| table.draw(stream), |user| self.can(user, at));
        self.by_data_size = Some(table);
        chosen
    }
}

/// `size` of `0..population`, uniformly without replacement, ascending, in O(size log size): Floyd's algorithm
/// (Bentley and Floyd 1987).
fn sample_without_replacement(population: u32, size: u32, stream: &mut impl PortableDraws) -> Vec<u32> {
    let mut chosen = BTreeSet::new();
    for last in population - size..population {
        let candidate = stream.below(last + 1);
        if !chosen.insert(candidate) {
            chosen.insert(last);
        }
    }
    chosen.into_iter().collect()
}

/// At most `places` of the eligible ones of `0..users`, as `draw` draws them, without replacement.
///
/// Draws and looks, which costs nothing but the cohort where most are eligible. Where few are, or few are left that
/// are likely to be drawn, it looks at everybody, and fills the rest of the places uniformly.
fn drawn(
    users: u32,
    places: usize,
    stream: &mut Stream,
    draw: impl Fn(&mut Stream) -> u32,
    mut eligible: impl FnMut(UserId) -> bool,
) -> Vec<UserId> {
    let mut chosen = BTreeSet::new();
    if places == 0 {
        return Vec::new();
    }
    for _ in 0..4 * places + 16 {
        let candidate = UserId(draw(stream));
        if !chosen.contains(&candidate) && eligible(candidate) {
            chosen.insert(candidate);
            if chosen.len() == places {
                return chosen.into_iter().collect();
            }
        }
    }
    let mut rest: Vec<UserId> =
        (0..users).map(UserId).filter(|user| !chosen.contains(user) && eligible(*user)).collect();
    let missing = (places - chosen.len()).min(rest.len());
    for at in 0..missing {
        let other = at + stream.below((rest.len() - at) as u32) as usize;
        rest.swap(at, other);
    }
    chosen.into_iter().chain(rest.into_iter().take(missing)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Streams;

    /// If this fails, some users take part more often than others.
    #[test]
    fn cohorts_are_distinct_ascending_and_uniform() {
        let mut counts = [[0u32; 20]; 3];
        for round in 0..4000 {
            let stream = || Streams::new(1).stream(Purpose::Cohort, 0, round);
            let all = sample_without_replacement(20, 5, &mut stream()).into_iter().map(UserId).collect::<Vec<_>>();
            let most = drawn(20, 5, &mut stream(), |stream| stream.below(20), |user| user.0 != 7);
            // So few that drawing and looking gives up.
            let few = drawn(20, 5, &mut stream(), |stream| stream.below(20), |user| user.0 < 6);
            for (cohort, counts) in [all, most, few].iter_mut().zip(&mut counts) {
                assert_eq!(cohort.len(), 5);
                cohort.iter().for_each(|user| counts[user.index()] += 1);
                cohort.sort_unstable();
                assert!(cohort.windows(2).all(|pair| pair[0] < pair[1]));
            }
        }
        let within = |count: &u32, expected: u32| (expected * 22 / 25..expected * 28 / 25).contains(count);
        assert!(counts[0].iter().all(|count| within(count, 1000)), "{counts:?}");
        assert!(counts[1].iter().enumerate().all(|(user, count)| within(count, 1053) != (user == 7)), "{counts:?}");
        assert!(counts[2][..6].iter().all(|count| within(count, 3333)) && counts[2][6..] == [0; 14], "{counts:?}");
        let mut stream = Streams::new(1).stream(Purpose::Cohort, 0, 0);
        assert_eq!(sample_without_replacement(4, 4, &mut stream), [0, 1, 2, 3]);
        assert_eq!(
            drawn(20, 5, &mut stream, |stream| stream.below(20), |user| user.0 < 2).len(),
            2,
            "as many as there are"
        );
    }
}
