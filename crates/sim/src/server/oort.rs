//! The choice of cohorts by utility (Lai et al., Oort: Efficient Federated Learning via Guided
//! Participant Selection, OSDI 2021).
//!
//! A user's utility is the worth of its data, times a penalty for being slow, plus a bonus for not
//! having been seen for long. A part of each cohort explores users who were never seen. The rest is
//! drawn, in proportion to utility, from those whose utility is at least 95 % of that of the last
//! of the best. There are three differences from the paper. The worth of a user's data is |B| x
//! mean loss, which clients report, instead of |B| x root mean square of the losses of its samples.
//! The preferred duration is a quantile of the durations seen, and is not paced. No user is
//! blacklisted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use fedrecsim_core::{PortableDraws, SimDuration, Step, Stream, UserId, math};
use fedrecsim_model::blocks::Utility;
use fedrecsim_scenario::OortSpec;

/// A user may be drawn if its utility is at least this share of that of the last of the best (c in
/// the paper's section 4.4).
const CUT_OFF: f64 = 0.95;
/// The weight of the bonus for not having been seen (algorithm 1, line 10).
const STALENESS_BONUS: f64 = 0.1;

/// The server's knowledge about users from their uploads.
#[derive(Debug)]
pub(super) struct Utilities {
    spec: OortSpec,
    /// The last participation of every user.
    pub seen: BTreeMap<UserId, Seen>,
}

/// The last participation of a user.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Seen {
    worth: f64,
    duration_s: f64,
    step: Step,
}

impl Utilities {
    pub(crate) fn new(spec: OortSpec) -> Self {
        Self {
            spec,
            seen: BTreeMap::new(),
        }
    }

    /// Notes the report of an upload, whose participation took `duration`.
    pub(crate) fn observe(
        &mut self,
        user: UserId,
        report: Utility,
        duration: SimDuration,
        step: Step,
    ) {
        let worth = f64::from(report.ratings) * f64::from(report.loss.max(0.0));
        self.seen.insert(
            user,
            Seen {
                worth,
                duration_s: duration.as_secs_f64(),
                step,
            },
        );
    }

    /// Returns whether `user` was ever seen.
    pub(crate) fn has_seen(&self, user: UserId) -> bool {
        self.seen.contains_key(&user)
    }

    /// Returns how many of `places` go to users who were never seen. The share that is explored may
    /// not give a whole number; what is left of one decides by a draw, so that the share holds
    /// where places come one at a time.
    pub(crate) fn to_explore(&self, places: usize, step: Step, stream: &mut Stream) -> usize {
        let decayed =
            self.spec.exploration * math::pow(self.spec.exploration_decay, f64::from(step.0));
        let explored = decayed.max(self.spec.least_exploration) * places as f64;
        let whole = explored as usize;
        whole + usize::from(stream.open_unit() < explored - whole as f64)
    }

    /// Draws at most `places` of the users seen who are `eligible`, by utility.
    pub(crate) fn exploit(
        &self,
        places: usize,
        step: Step,
        stream: &mut Stream,
        mut eligible: impl FnMut(UserId) -> bool,
    ) -> Vec<UserId> {
        // This saves the work below in the asynchronous modes, where places come one at a time and
        // most go to unseen users.
        if places == 0 {
            return Vec::new();
        }
        let preferred = self.preferred_duration_s();
        let mut utilities: Vec<(f64, UserId)> = self
            .seen
            .iter()
            .filter(|(user, _)| eligible(**user))
            .map(|(user, seen)| (self.utility(seen, step, preferred), *user))
            .collect();
        if utilities.is_empty() {
            return Vec::new();
        }
        let best_first =
            |a: &(f64, UserId), b: &(f64, UserId)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        let last = places.min(utilities.len()) - 1;
        let last = utilities.select_nth_unstable_by(last, best_first).1.0;
        utilities.retain(|(utility, _)| *utility >= CUT_OFF * last);
        utilities.sort_by(best_first);
        // The largest values of ln(u) / utility are a draw in proportion to utility without
        // replacement (Efraimidis and Spirakis 2006).
        let mut keys: Vec<(f64, UserId)> = utilities
            .into_iter()
            .map(|(utility, user)| {
                (
                    math::ln(stream.open_unit()) / utility.max(f64::MIN_POSITIVE),
                    user,
                )
            })
            .collect();
        keys.sort_by(best_first);
        keys.into_iter()
            .take(places)
            .map(|(_, user)| user)
            .collect()
    }

    /// Returns the preferred quantile of the durations of the users seen; infinity if no user was
    /// seen.
    fn preferred_duration_s(&self) -> f64 {
        let mut durations: Vec<f64> = self.seen.values().map(|seen| seen.duration_s).collect();
        let place = ((self.spec.preferred_quantile * durations.len() as f64).ceil() as usize)
            .saturating_sub(1);
        if place >= durations.len() {
            return f64::INFINITY;
        }
        *durations.select_nth_unstable_by(place, f64::total_cmp).1
    }

    fn utility(&self, seen: &Seen, step: Step, preferred_s: f64) -> f64 {
        // The paper's formula counts steps from 1.
        let (now, last) = (f64::from(step.0 + 1), f64::from(seen.step.0 + 1));
        let bonus = math::sqrt(STALENESS_BONUS * math::ln(now) / last);
        let utility = seen.worth + bonus;
        if seen.duration_s > preferred_s {
            return utility * math::pow(preferred_s / seen.duration_s, self.spec.straggler_penalty);
        }
        utility
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedrecsim_core::{Purpose, Streams};

    fn seen(users: &[(u32, f32, f64)]) -> Utilities {
        let mut utilities = Utilities::new(OortSpec::default());
        for &(user, loss, seconds) in users {
            let report = Utility { loss, ratings: 10 };
            utilities.observe(
                UserId(user),
                report,
                SimDuration::from_secs_f64(seconds),
                Step(0),
            );
        }
        utilities
    }

    /// Returns how often each user is picked in 2,000 steps of one place.
    fn picked(utilities: &Utilities, users: usize) -> Vec<u32> {
        let mut counts = vec![0; users];
        for step in 0..2000 {
            let mut stream = Streams::new(1).stream(Purpose::Cohort, 0, step);
            let chosen = utilities.exploit(1, Step(1), &mut stream, |_| true);
            counts[chosen[0].index()] += 1;
        }
        counts
    }

    /// If this fails, a run that goes on from a checkpoint explores users that it has seen.
    #[test]
    fn what_was_seen_survives_a_checkpoint() {
        let before = seen(&[(0, 1.0, 1.0), (4, 0.98, 1.0)]);
        let mut restored = seen(&[]);
        restored.seen.clone_from(&before.seen);
        assert!(
            restored.has_seen(UserId(0))
                && restored.has_seen(UserId(4))
                && !restored.has_seen(UserId(1))
        );
    }

    #[test]
    fn users_with_nearly_the_highest_loss_are_picked_and_others_are_not() {
        let counts = picked(&seen(&[(0, 1.0, 1.0), (1, 0.98, 1.0), (2, 0.5, 1.0)]), 3);
        assert!(counts[0] > 900 && counts[1] > 800, "{counts:?}");
        assert_eq!(counts[2], 0, "below 95 % of the best");
    }

    #[test]
    fn slow_users_have_less_utility() {
        // User 0 takes twice as long as the other four. With an exponent of 2, a quarter of its
        // utility is left.
        let users = [
            (0, 1.0, 2.0),
            (1, 0.3, 1.0),
            (2, 0.1, 1.0),
            (3, 0.1, 1.0),
            (4, 0.1, 1.0),
        ];
        assert_eq!(picked(&seen(&users), 5)[1], 2000);
    }

    #[test]
    fn a_user_not_seen_for_long_has_a_bonus() {
        let mut utilities = seen(&[(0, 0.0, 1.0)]);
        let report = Utility {
            loss: 0.0,
            ratings: 10,
        };
        utilities.observe(UserId(1), report, SimDuration::from_secs_f64(1.0), Step(90));
        let mut stream = Streams::new(1).stream(Purpose::Cohort, 0, 0);
        assert_eq!(
            utilities.exploit(1, Step(100), &mut stream, |_| true),
            [UserId(0)]
        );
    }

    #[test]
    fn exploration_fades_to_its_least_share() {
        let utilities = seen(&[]);
        let mut stream = Streams::new(1).stream(Purpose::Cohort, 0, 0);
        let mut explored = |places, step| utilities.to_explore(places, Step(step), &mut stream);
        assert_eq!([explored(100, 0), explored(100, 1000)], [90, 20]);
        let one_at_a_time: usize = (0..5000).map(|_| explored(1, 1000)).sum();
        assert!(
            (900..1100).contains(&one_at_a_time),
            "a fifth of 5000: {one_at_a_time}"
        );
    }

    #[test]
    fn only_eligible_users_are_picked() {
        let utilities = seen(&[(0, 1.0, 1.0), (1, 0.5, 1.0), (2, 0.4, 1.0)]);
        let mut stream = Streams::new(1).stream(Purpose::Cohort, 0, 0);
        assert_eq!(
            utilities.exploit(3, Step(1), &mut stream, |user| user.0 == 2),
            [UserId(2)]
        );
        assert!(
            utilities
                .exploit(0, Step(1), &mut stream, |_| true)
                .is_empty()
        );
    }
}
