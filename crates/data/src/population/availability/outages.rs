//! Outages, which keep groups of users away at the same times.

use std::sync::Arc;

use super::groups::{Groups, Rule};
use super::on_off::OnOff;
use fedrecsim_core::{Purpose, SimTime, Streams, UserId};
use fedrecsim_scenario::{FaultEffect, FaultSpec, OnOffSpec};

/// The outages among the fault rules of a scenario.
#[derive(Clone, Debug)]
pub(super) struct Outages {
    outages: Vec<Outage>,
}

/// A rule that keeps its users away: all the time between two instants, or again and again between
/// them.
#[derive(Clone, Debug)]
struct Outage {
    rule: Rule,
    /// The times without an outage, if it recurs.
    calm: Option<OnOff>,
}

impl Outages {
    pub(super) fn new(specs: &[FaultSpec], groups: &Arc<Groups>, streams: Streams) -> Self {
        let outage = |rule: Rule| {
            let calm = match rule.spec.effect {
                FaultEffect::RecurringOutage {
                    mean_gap_s,
                    mean_duration_s,
                } => {
                    let times = OnOffSpec {
                        mean_on_s: mean_gap_s,
                        mean_off_s: mean_duration_s,
                    };
                    Some(OnOff::new(&times, Purpose::Outage, streams))
                }
                _ => None,
            };
            Outage { rule, calm }
        };
        Self {
            outages: Rule::of(specs, true, groups).map(outage).collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.outages.is_empty()
    }

    /// Returns the first instant from `at` on when no outage concerns `user`; `None` if there is
    /// none before the end of time.
    pub(super) fn first_without(&self, user: UserId, mut at: u64) -> Option<u64> {
        loop {
            let covering = self
                .of(user)
                .filter_map(|outage| outage.next(at))
                .filter(|(begins, _)| *begins <= at);
            // An outage that never ends ends after all others.
            let Some(ends) = covering.map(|(_, ends)| ends.unwrap_or(u64::MAX)).max() else {
                return Some(at);
            };
            if ends == u64::MAX {
                return None;
            }
            at = ends;
        }
    }

    /// Returns the beginning of the first outage after `at` that concerns `user`; `None` if there
    /// is none.
    pub(super) fn first_after(&self, user: UserId, at: u64) -> Option<u64> {
        self.of(user)
            .filter_map(|outage| outage.next(at))
            .map(|(begins, _)| begins)
            .filter(|begins| *begins > at)
            .min()
    }

    /// Returns the number of the first rule with an outage that concerns `user` at `at`; `None` if
    /// there is none.
    pub(super) fn rule_at(&self, user: UserId, at: u64) -> Option<u32> {
        let covers = |outage: &&Outage| outage.next(at).is_some_and(|(begins, _)| begins <= at);
        self.of(user).find(covers).map(|outage| outage.rule.number)
    }

    fn of(&self, user: UserId) -> impl Iterator<Item = &Outage> {
        let outages = self.outages.iter();
        outages.filter(move |outage| outage.rule.hits(user))
    }
}

impl Outage {
    /// Returns the beginning and the end of the outage that covers `at`, or of the first one after
    /// it; the beginning of one that covers `at` may be given as `at`. An end of `None` is never.
    fn next(&self, at: u64) -> Option<(u64, Option<u64>)> {
        let (from, until) = (
            self.rule.from.as_nanos(),
            self.rule.until.map(SimTime::as_nanos),
        );
        let at = at.max(from);
        if until.is_some_and(|until| at >= until) {
            return None;
        }
        let Some(calm) = &self.calm else {
            return Some((from, until));
        };
        // The rule stands in the place of a user, so that all its users have the same times.
        let stay_after = |at| calm.stay_after(UserId(self.rule.number), at);
        let (mut begins, mut calm_from) = (at, stay_after(at));
        // A calm that covers the instant ends with the next outage. One that ends when the next
        // begins, within a nanosecond, is followed by another.
        while let Some(stay) = calm_from.filter(|stay| stay.from <= begins) {
            begins = stay.until?;
            calm_from = stay_after(begins);
        }
        let ends = [calm_from.map(|stay| stay.from), until]
            .into_iter()
            .flatten()
            .min();
        until
            .is_none_or(|until| begins < until)
            .then_some((begins, ends))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::population::Population;
    use crate::population::tests::sample::users_of;
    use fedrecsim_core::InvitationId;
    use fedrecsim_core::SimDuration;

    const SECOND: u64 = 1_000_000_000;

    fn at(seconds: f64) -> SimTime {
        SimTime::ZERO + SimDuration::from_secs_f64(seconds)
    }

    /// Returns the users from 0 to 99 who are there at a second.
    fn there(population: &Population, second: f64) -> Vec<u32> {
        let mut clock = population.availability.clock();
        (0..100)
            .filter(|user| clock.is_available(UserId(*user), at(second)))
            .collect()
    }

    /// If this fails, an outage begins early or late, ends early or late, or concerns others than
    /// its users.
    #[test]
    fn an_outage_keeps_its_users_away_from_its_first_to_its_last_instant() {
        let rule =
            "{ effect = \"outage\", users = { numbers = [3, 7] }, from_s = 10, until_s = 20 }";
        let population = users_of(&format!("faults = [{rule}]\n"), 1);
        let all: Vec<u32> = (0..100).collect();
        let others: Vec<u32> = all
            .iter()
            .copied()
            .filter(|user| ![3, 7].contains(user))
            .collect();
        assert_eq!(there(&population, 9.999_999_999), all);
        assert_eq!(there(&population, 10.0), others);
        assert_eq!(there(&population, 19.999_999_999), others);
        assert_eq!(there(&population, 20.0), all);
        let mut clock = population.availability.clock();
        assert_eq!(clock.leaves_at(UserId(3), at(2.0)), Some(at(10.0)));
        assert_eq!(clock.next_arrival(UserId(3), at(12.0)), Some(at(20.0)));
        assert_eq!(clock.leaves_at(UserId(3), at(20.0)), None);
        assert_eq!(clock.leaves_at(UserId(4), at(2.0)), None);
        assert!(
            population.faults.is_empty(),
            "no transfer of itself is spoiled"
        );
        assert!(!population.availability.is_always());
    }

    /// If this fails, a loss is put down to another rule than the one that caused it, or to an
    /// outage although the user would have left anyway.
    #[test]
    fn whoever_is_away_is_kept_away_by_the_pattern_or_by_the_first_rule_with_an_outage() {
        let rules = "faults = [{ effect = \"drop\" }, { effect = \"outage\", users = { numbers = [1] }, from_s = 30, \
                     until_s = 50 }, { effect = \"outage\", from_s = 40, until_s = 60 }]\n";
        let population = users_of(rules, 1);
        let of = |user, second| population.availability.outage_at(UserId(user), at(second));
        assert_eq!(
            [
                of(1, 29.0),
                of(1, 30.0),
                of(1, 45.0),
                of(1, 50.0),
                of(1, 60.0)
            ],
            [None, Some(1), Some(1), Some(2), None]
        );
        assert_eq!([of(0, 30.0), of(0, 45.0)], [None, Some(2)]);
        let both = users_of(
            &format!(
                "availability.pattern.on-off = {{ mean_on_s = 50, mean_off_s = 50 }}\n{rules}"
            ),
            1,
        );
        let pattern = users_of(
            "availability.pattern.on-off = { mean_on_s = 50, mean_off_s = 50 }\n",
            1,
        );
        let mut there = pattern.availability.clock();
        for user in (2..50).map(UserId) {
            let expected = there.is_available(user, at(45.0)).then_some(2);
            assert_eq!(
                both.availability.outage_at(user, at(45.0)),
                expected,
                "{user}"
            );
        }
    }

    /// If this fails, outages that overlap leave gaps between them, or one forever ends.
    #[test]
    fn outages_that_overlap_or_touch_are_one_and_one_without_an_end_never_ends() {
        let population = users_of(
            "faults = [{ effect = \"outage\", from_s = 10, until_s = 20 }, \
             { effect = \"outage\", from_s = 20, until_s = 25 }, { effect = \"outage\", from_s = 5, until_s = 12 }, \
             { effect = \"outage\", from_s = 50, users = { numbers = [1] } }]\n",
            1,
        );
        let mut clock = population.availability.clock();
        for user in [UserId(0), UserId(1)] {
            assert_eq!(clock.leaves_at(user, at(0.0)), Some(at(5.0)));
            assert_eq!(clock.next_arrival(user, at(6.0)), Some(at(25.0)));
        }
        assert_eq!(clock.leaves_at(UserId(1), at(30.0)), Some(at(50.0)));
        assert_eq!(clock.next_arrival(UserId(1), at(50.0)), None);
        assert_eq!(clock.leaves_at(UserId(0), at(60.0)), None);
    }

    /// If this fails, users of one region lose the network one by one, or outages are rarer or
    /// shorter than stated.
    #[test]
    fn recurring_outages_hit_all_their_users_at_once_for_their_share_of_the_time() {
        let rule = "{ effect = { recurring_outage = { mean_gap_s = 300, mean_duration_s = 100 } }, users = { share = \
                    0.4 }, from_s = 1000 }";
        let population = users_of(&format!("faults = [{rule}]\n"), 1);
        let mut clock = population.availability.clock();
        let region: Vec<UserId> = (0..100)
            .map(UserId)
            .filter(|user| clock.leaves_at(*user, at(1000.0)).is_some())
            .collect();
        assert!(
            (25..55).contains(&region.len()),
            "{} of 100 users",
            region.len()
        );
        let (mut out, samples) = (0, 40_000);
        for sample in 0..samples {
            let now = at(1000.0 + 7.0 * f64::from(sample));
            let gone = region
                .iter()
                .filter(|user| !clock.is_available(**user, now))
                .count();
            assert!(
                gone == 0 || gone == region.len(),
                "{gone} of {} users are gone",
                region.len()
            );
            out += u32::from(gone > 0);
        }
        let share = f64::from(out) / f64::from(samples);
        assert!((share - 0.25).abs() < 0.02, "{share} of the time");
        assert!(
            region
                .iter()
                .all(|user| clock.is_available(*user, at(999.0))),
            "before the rule begins"
        );
    }

    /// If this fails, an answer depends on what was asked before, or outages break the stays of a
    /// pattern.
    #[test]
    fn a_stay_is_what_a_pattern_leaves_less_all_outages() {
        let pattern = "availability.pattern.on-off = { mean_on_s = 50, mean_off_s = 30 }\n";
        let rules = "faults = [{ effect = { recurring_outage = { mean_gap_s = 40, mean_duration_s = 20 } }, until_s = \
                     3000 }, { effect = \"outage\", users = { share = 0.5 }, from_s = 200, until_s = 400 }]\n";
        let (plain, both) = (
            users_of(pattern, 1),
            users_of(&format!("{pattern}{rules}"), 1),
        );
        let alone = users_of(rules, 1);
        let [mut plain_clock, mut alone_clock] =
            [&plain, &alone].map(|users| users.availability.clock());
        for user in (0..20).map(UserId) {
            let mut clock = both.availability.clock();
            for step in 0..2000_u64 {
                let now = SimTime::from_nanos(step * 2 * SECOND);
                let expected =
                    plain_clock.is_available(user, now) && alone_clock.is_available(user, now);
                assert_eq!(clock.is_available(user, now), expected, "{user} at {now:?}");
                let fresh = both.availability.clock().leaves_at(user, now);
                assert_eq!(clock.leaves_at(user, now), fresh, "{user} at {now:?}");
                let arrival = clock.next_arrival(user, now).unwrap_or(SimTime::END);
                let first = [&mut plain_clock, &mut alone_clock]
                    .map(|clock| clock.is_available(user, arrival));
                assert_eq!(first, [true, true], "{user} arrives at {arrival:?}");
            }
        }
        assert_eq!(
            plain.conditions(UserId(1), InvitationId(2)),
            both.conditions(UserId(1), InvitationId(2))
        );
    }
}
