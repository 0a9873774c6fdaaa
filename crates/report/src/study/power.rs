//! What difference a study can show, said before it runs.
//!
//! A difference between two arms has a standard error of `sqrt(u^2 / users + s^2 / seeds)`, where
//! `u` is the standard deviation of the difference over users and `s` that over seeds. A study shows
//! a difference of 2.8 standard errors with power .8 at the level of 5 %. Before it has run, `u` and
//! `s` are assumed. The tables have what it really could show.

use super::plan::{Plan, PlannedArm};
use super::statistics::DETECTABLE;
use crate::metrics;
use crate::words::counted;
use fedrecsim_core::metric::{Metric, Needs};
use fedrecsim_data::dataset::public;
use fedrecsim_scenario::{DatasetName, DatasetSpec, OnUnusableUser, Scenario, SplitSpec};

/// What is assumed of a user's difference in a metric from 0 to 1. A hit with the chance 1/2 deviates
/// by .5, and so does the difference of two arms that agree on three hits of four by .35.
const OF_USERS: f64 = 0.35;

/// What is assumed of a difference over seeds.
const OF_SEEDS: f64 = 0.005;

/// Returns the least difference of a metric from 0 to 1 that so many users and seeds show with power
/// .8, by the assumed deviations. A single seed is fixed.
pub(crate) fn least(users: u64, seeds: usize) -> f64 {
    let of_seeds = match seeds {
        0 | 1 => 0.0,
        seeds => OF_SEEDS * OF_SEEDS / seeds as f64,
    };
    DETECTABLE * (OF_USERS * OF_USERS / users.max(1) as f64 + of_seeds).sqrt()
}

/// Returns whether all users of the data set are tested.
fn is_whole(spec: &DatasetSpec) -> bool {
    let is_filtered = spec.minimum_interactions > 0
        || spec.k_core.is_some()
        || spec.minimum_positives.is_some()
        || spec.positive_from.is_some()
        || spec.subset.is_some()
        || spec.on_unusable_user != OnUnusableUser::Refuse;
    !is_filtered && !matches!(spec.split, SplitSpec::GlobalTime(_))
}

/// Returns the number of users that an arm evaluates, if it is known. `tested` reads the data of a
/// scenario whose filters or split decide who is tested.
fn users(arm: &PlannedArm, tested: &mut dyn FnMut(&Scenario) -> Option<u64>) -> Option<u64> {
    let scenario = &arm.scenario;
    let spec = &scenario.dataset;
    let all = match spec.name {
        _ if !is_whole(spec) => tested(scenario),
        DatasetName::Generated => spec.generated_users().map(u64::from),
        name => public::known(name).and_then(|set| set.users()),
    };
    let limit = Some(u64::from(scenario.evaluation.users)).filter(|users| *users > 0);
    match (all, limit) {
        (Some(all), Some(limit)) => Some(all.min(limit)),
        (all, limit) => all.or(limit),
    }
}

impl Plan {
    /// Returns sentences on the difference that the study can show, with the users of the arms that
    /// are `wanted` by name. Whom filters leave, and who is tested behind an instant, the data alone
    /// tell: `tested` reads them.
    pub fn power(
        &self,
        wanted: impl Fn(&str) -> bool,
        mut tested: impl FnMut(&Scenario) -> Option<u64>,
    ) -> String {
        let seeds = self.study.seeds.len();
        let mut text = match seeds {
            1 => "One seed: intervals cover users alone, with the seed fixed, and there is none by Student's t, which takes two.".to_owned(),
            _ => String::new(),
        };
        let metric = self.metrics.first().and_then(|name| Metric::named(name));
        if metric.is_none_or(|metric| metric.needs() == Needs::PredictedRatings) {
            return text;
        }
        let arms = self.arms.iter().filter(|arm| wanted(&arm.arm.name));
        let mut known: Vec<u64> = arms.filter_map(|arm| users(arm, &mut tested)).collect();
        known.sort_unstable();
        known.dedup();
        // The fewest and the most say enough of many.
        if let [fewest, _, _, .., most] = known[..] {
            known = vec![fewest, most];
        }
        let shown = known.iter().map(|&users| {
            let (least, users) = (least(users, seeds), counted(users, "user"));
            format!("{least:.4} with {users}")
        });
        let shown: Vec<String> = shown.collect();
        if !shown.is_empty() {
            let (label, seeds) = (
                metrics::label(&self.metrics[0]),
                counted(seeds as u64, "seed"),
            );
            let space = if text.is_empty() { "" } else { " " };
            text += &format!(
                "{space}The least difference in {label} that {seeds} can show with power .8: {}, if the difference deviates by \
                 {OF_USERS} over users and by {OF_SEEDS} over seeds; the tables say what it really was.",
                shown.join(", ")
            );
            let is_cut = |arm: &PlannedArm| {
                wanted(&arm.arm.name)
                    && matches!(arm.scenario.dataset.split, SplitSpec::GlobalTime(_))
            };
            if self.arms.iter().any(is_cut) {
                text += " Under `global-time` these are the users with something on both sides of the cut.";
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::results as sample;

    /// If this fails, a study is said to show more than it can, or less. The first value is that of
    /// the formula by hand.
    #[test]
    fn a_study_with_more_users_and_seeds_shows_smaller_differences() {
        assert!((least(943, 1) - 2.802 * 0.35 / 943.0_f64.sqrt()).abs() < 1e-12);
        assert!(least(943, 2) > least(943, 1), "a fixed seed does not vary");
        assert!(least(6040, 5) < least(943, 5) && least(943, 10) < least(943, 5));
    }

    #[test]
    fn a_plan_says_what_it_can_show() {
        let power = |plan: Plan| plan.power(|_| true, |_| unreachable!("no cut"));
        let text = power(sample::plan(&[("rate", &["1", "2"])], &[1, 2]));
        assert!(
            text.contains("2 seeds can show with power .8: 0.2") && text.contains("with 20 users"),
            "{text}"
        );
        let text = power(sample::plan(&[("rate", &["1", "2"])], &[1]));
        assert!(
            text.starts_with("One seed: intervals cover users alone"),
            "{text}"
        );
        let mut plan = sample::plan(&[("rate", &["1", "2"])], &[1]);
        let cut = serde_json::json!({ "global-time": { "cut": 0.8, "validation_share": 0.0, "window_share": null, "targets": "first", "session_gap_days": 1.0, "new_users": false, "new_items": false } });
        plan.arms[0].scenario.dataset.split = serde_json::from_value(cut).unwrap();
        let text = plan.power(|arm| arm == "rate=1", |_| Some(7));
        assert!(
            text.contains("with 7 users") && !text.contains("20 users"),
            "{text}"
        );
        assert!(text.contains("Under `global-time`"), "{text}");
        // The other arm has no cut, and a filter that the number of all users does not know of.
        plan.arms[1].scenario.dataset.k_core = Some(5);
        let text = plan.power(|arm| arm == "rate=2", |_| Some(9));
        assert!(
            text.contains("with 9 users") && !text.contains("global-time"),
            "{text}"
        );
    }
}
