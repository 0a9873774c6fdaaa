//! Accuracy of groups of users, which a mean over all of them hides.

use serde::{Deserialize, Serialize};

use fedrecsim_core::metric::{Metric, Needs};
use fedrecsim_scenario::EvaluationSpec;
use fedrecsim_sim::outcome::{Accuracy, UserRecord};

/// The least number of users of a group.
const LEAST: usize = 10;

/// Which users a group has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupOf {
    /// The fifth whose participations are the shortest in the mean.
    Fastest,
    /// The fifth whose participations take longest.
    Slowest,
    /// The tenth that the run serves worst, by its headline metric. Absent where more users than a tenth
    /// are served as badly, as with few held-out items, where many are at 0.
    WorstServed,
}

/// The accuracy of a group of evaluated users on the test part, at the selected round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UserGroup {
    /// Which users these are.
    pub group: GroupOf,
    /// How many there are.
    pub users: u64,
    /// How often they were invited.
    pub invited: u64,
    /// Of these, how often their update was used.
    pub used: u64,
    /// The mean of each metric of ranking over those of them who have a value.
    pub accuracy: Accuracy,
}

/// Returns the groups that have enough users.
pub(crate) fn groups(users: &[UserRecord], evaluation: &EvaluationSpec) -> Vec<UserGroup> {
    let metrics = evaluation.metrics();
    let group = |group, users: &[&UserRecord]| UserGroup {
        group,
        users: users.len() as u64,
        invited: users
            .iter()
            .map(|user| u64::from(user.account.invited))
            .sum(),
        used: users
            .iter()
            .map(|user| u64::from(user.account.completed))
            .sum(),
        accuracy: accuracy(users, &metrics),
    };
    let evaluated: Vec<&UserRecord> = users.iter().filter(|user| user.test.is_some()).collect();
    let mut groups = Vec::new();
    if let Some([fastest, slowest]) = by_time(&evaluated) {
        groups.push(group(GroupOf::Fastest, &fastest));
        groups.push(group(GroupOf::Slowest, &slowest));
    }
    let worst = evaluation.headline().and_then(|headline| {
        let place = metrics.iter().position(|metric| *metric == headline)?;
        worst_served(&evaluated, &headline, place)
    });
    groups.extend(worst.map(|worst| group(GroupOf::WorstServed, &worst)));
    groups
}

/// Returns the means over these users of the metrics whose mean is that of a group.
fn accuracy(users: &[&UserRecord], metrics: &[Metric]) -> Accuracy {
    let mean = |place: usize| {
        let tests = users.iter().filter_map(|user| user.test.as_ref());
        let values: Vec<f64> = tests.filter_map(|test| *test.values.get(place)?).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let ranking = metrics.iter().enumerate();
    let ranking = ranking.filter(|(_, metric)| metric.needs() != Needs::PredictedRatings);
    ranking
        .filter_map(|(place, metric)| Some((metric.name(), mean(place)?)))
        .collect()
}

/// Returns the fifths with the shortest and the longest participations; `None` if all are equally long.
fn by_time<'u>(users: &[&'u UserRecord]) -> Option<[Vec<&'u UserRecord>; 2]> {
    let mean_ns = |user: &&UserRecord| {
        user.account.metered.taking_part_ns / u128::from(user.account.invited.max(1))
    };
    let invited = users.iter().filter(|user| user.account.invited > 0);
    let mut invited: Vec<&UserRecord> = invited.copied().collect();
    // Who is equal keeps its order, so that a group is always the same.
    invited.sort_by_key(mean_ns);
    let fifth = invited.len() / 5;
    let differ = mean_ns(invited.first()?) < mean_ns(invited.last()?);
    let slowest = invited.len() - fifth;
    (fifth >= LEAST && differ).then(|| [invited[..fifth].to_vec(), invited[slowest..].to_vec()])
}

/// Returns the tenth with the worst values of the headline metric, which is the one at `place`.
fn worst_served<'u>(
    users: &[&'u UserRecord],
    headline: &Metric,
    place: usize,
) -> Option<Vec<&'u UserRecord>> {
    if headline.needs() == Needs::PredictedRatings {
        return None;
    }
    let value = |user: &UserRecord| *user.test.as_ref()?.values.get(place)?;
    let valued = users.iter().filter_map(|user| Some((value(user)?, *user)));
    let mut valued: Vec<(f64, &UserRecord)> = valued.collect();
    valued.sort_by(|(one, _), (other, _)| headline.better().compare(*one, *other));
    let tenth = valued.len() / 10;
    // Where more users are as badly served, nobody can say who of them is the tenth.
    let is_told = tenth >= LEAST && valued[tenth - 1].0 != valued[tenth].0;
    is_told.then(|| valued[..tenth].iter().map(|(_, user)| *user).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::records as sample;
    use fedrecsim_sim::outcome::UserTest;

    /// Returns users of whom later ones are slower and served worse. Every second participation of the
    /// slower half is used, and all of the others.
    fn users(count: u32, held_out: u64) -> (Vec<UserRecord>, EvaluationSpec) {
        let record = sample::with_users(1);
        let evaluation = record.scenario.evaluation.clone();
        let metrics = evaluation.metrics().len();
        let one = &record.per_user.unwrap()[0];
        let user = |place: u32| {
            let mut user = one.clone();
            user.account.invited = 2;
            user.account.completed = if place < count / 2 { 2 } else { 1 };
            user.account.metered.taking_part_ns = 1_000 + u128::from(place);
            let value = 1.0 - f64::from(place) / f64::from(count);
            user.test = Some(UserTest {
                held_out,
                values: vec![Some(value); metrics],
            });
            user
        };
        ((0..count).map(user).collect(), evaluation)
    }

    /// If this fails, a report does not say what a deadline costs slow devices, or whom a mean hides.
    #[test]
    fn groups_are_the_fast_the_slow_and_the_worst_served() {
        let (users, evaluation) = users(100, 3);
        let groups = groups(&users, &evaluation);
        let told = groups
            .iter()
            .map(|of| (of.group, of.users, of.invited, of.used));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                (GroupOf::Fastest, 20, 40, 40),
                (GroupOf::Slowest, 20, 40, 20),
                (GroupOf::WorstServed, 10, 20, 10)
            ]
        );
        let name = evaluation.headline().unwrap().name();
        let means: Vec<f64> = groups.iter().map(|of| of.accuracy[&name]).collect();
        for (mean, expected) in means.into_iter().zip([0.905, 0.105, 0.055]) {
            assert!(
                (mean - expected).abs() < 1e-12,
                "{mean} in place of {expected}"
            );
        }
    }

    /// If this fails, a fifth of few users, of equal ones or of single hits is shown as a finding.
    #[test]
    fn groups_that_say_nothing_are_left_out() {
        let of =
            |(users, evaluation): (Vec<UserRecord>, EvaluationSpec)| groups(&users, &evaluation);
        assert_eq!(of(users(49, 3)), []);
        let (mut hits, evaluation) = users(100, 1);
        for user in &mut hits {
            let test = user.test.as_mut().unwrap();
            let hit = test.values[0].map(f64::round);
            test.values.fill(hit);
        }
        let fifths = groups(&hits, &evaluation).len();
        assert_eq!(
            fifths, 2,
            "half of the users are at 0, and no tenth is the worst"
        );
        let (mut equal, evaluation) = users(100, 1);
        for user in &mut equal {
            user.account.metered.taking_part_ns = 5;
            user.test.as_mut().unwrap().values.fill(Some(0.5));
        }
        assert_eq!(groups(&equal, &evaluation), []);
    }
}
