//! What was found for newcomers (`[joins]`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Accuracy, RoundRecord};
use fedrecsim_core::metric::Metric;
use fedrecsim_scenario::EvaluationSpec;

/// The share of the accuracy of the users who are there from the start that newcomers have to reach.
const WARM_SHARE: f64 = 0.95;

/// What was found for newcomers after a round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NewcomersRecord {
    /// Their accuracy after so many ratings; none once they are there.
    pub after_ratings: Vec<AfterRatings>,
    /// Their accuracy and cost; absent until they are there.
    pub joined: Option<Joined>,
}

/// The accuracy of newcomers who have not come yet, as if they came now with so many ratings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AfterRatings {
    /// The number of ratings.
    pub ratings: u32,
    /// The number of evaluated newcomers who have as many.
    pub users: u64,
    /// The means over these users.
    pub test: Accuracy,
}

/// The accuracy and cost of the evaluated newcomers after they have come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Joined {
    /// The number of these users.
    pub users: u64,
    /// The virtual time since they came, in seconds.
    pub since_s: f64,
    /// The bytes that their devices have sent or received, all together.
    pub bytes: u64,
    /// The means over these users.
    pub test: Accuracy,
}

/// What was found for newcomers in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Newcomers {
    /// The number of newcomers.
    pub users: u64,
    /// The virtual time at which they come, in seconds.
    pub at_s: f64,
    /// The last evaluated round before they come; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<BeforeJoin>,
    /// The trivial baselines for the evaluated newcomers, by name.
    pub baselines: BTreeMap<String, Accuracy>,
    /// Their state after the last evaluated round; absent if they have not come by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<Joined>,
    /// The accuracy of the other users after that round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<Accuracy>,
    /// The metric by which they are held against the others: NDCG where it is measured.
    pub metric: String,
    /// When the mean over them first was 95 % of that over the others; absent if it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm: Option<Warm>,
}

/// What was found for newcomers after the last evaluated round before they come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BeforeJoin {
    /// The round.
    pub round: u32,
    /// Their accuracy after so many ratings.
    pub after_ratings: Vec<AfterRatings>,
    /// The accuracy of the other users after that round.
    pub others: Accuracy,
}

/// The cost until the mean over newcomers was 95 % of that over the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Warm {
    /// The evaluated round after which it was.
    pub round: u32,
    /// The virtual time since they came, in seconds.
    pub since_s: f64,
    /// The bytes that the device of one of them has sent or received, in the mean.
    pub bytes_per_user: f64,
}

impl NewcomersRecord {
    /// Returns every number, for the digest of a run.
    pub(crate) fn for_digest(&self) -> impl Iterator<Item = u64> {
        let after = self.after_ratings.iter().flat_map(|after| {
            let counts = [u64::from(after.ratings), after.users];
            counts.into_iter().chain(bits(&after.test))
        });
        let joined = self.joined.iter().flat_map(|joined| {
            let numbers = [joined.users, joined.since_s.to_bits(), joined.bytes];
            numbers.into_iter().chain(bits(&joined.test))
        });
        after.chain(joined)
    }
}

fn bits(accuracy: &Accuracy) -> impl Iterator<Item = u64> {
    accuracy.values().map(|value| value.to_bits())
}

impl Newcomers {
    /// Returns what the `rounds` of a run say of its `users` newcomers, who come at `at_s`.
    pub(crate) fn of(
        (users, at_s): (u64, f64),
        rounds: &[RoundRecord],
        baselines: BTreeMap<String, Accuracy>,
        evaluation: &EvaluationSpec,
    ) -> Self {
        let metric = judging(evaluation).map_or_else(String::new, |metric| metric.name());
        let found = rounds.iter().filter_map(|round| {
            let others = &round.accuracy.as_ref()?.test;
            Some((round.round, round.newcomers.as_ref()?, others))
        });
        let mut before = found.clone().filter(|(_, of, _)| of.joined.is_none());
        let mut joined = found.filter_map(|(round, of, others)| {
            let joined = of.joined.as_ref()?;
            Some((round, joined, others))
        });
        let is_warm = |(_, joined, others): &(u32, &Joined, &Accuracy)| {
            let values = joined.test.get(&metric).zip(others.get(&metric));
            values.is_some_and(|(own, others)| *own >= WARM_SHARE * others)
        };
        let last = joined.clone().next_back();
        Self {
            users,
            at_s,
            before: before.next_back().map(|(round, of, others)| BeforeJoin {
                round,
                after_ratings: of.after_ratings.clone(),
                others: others.clone(),
            }),
            baselines,
            joined: last.map(|(_, joined, _)| joined.clone()),
            others: last.map(|(_, _, others)| others.clone()),
            warm: joined.find(is_warm).map(|(round, joined, _)| Warm {
                round,
                since_s: joined.since_s,
                bytes_per_user: joined.bytes as f64 / joined.users.max(1) as f64,
            }),
            metric,
        }
    }
}

/// Returns the metric by which newcomers are held against others: NDCG with the cutoff of the
/// headline if it is among the metrics, else the headline.
fn judging(evaluation: &EvaluationSpec) -> Option<Metric> {
    let headline = evaluation.headline()?;
    let ndcg = Metric::named(&format!("ndcg@{}", headline.cutoff.unwrap_or(10)));
    let mut metrics = evaluation.metrics().into_iter();
    let found = metrics.find(|metric| Some(*metric) == ndcg);
    found.or(Some(headline))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::SplitAccuracy;

    fn value(of: f64) -> Accuracy {
        Accuracy::from([("ndcg@10".to_owned(), of), ("hr@10".to_owned(), 0.0)])
    }

    /// Returns the record of a round: NDCG of the users who are there from the start and, in a round
    /// that was evaluated, of two newcomers. They come after round 2, and each second costs 100 bytes.
    fn round(round: u32, others: f64, own: Option<f64>) -> RoundRecord {
        let newcomers = own.map(|own| match round {
            ..=2 => NewcomersRecord {
                after_ratings: vec![AfterRatings {
                    ratings: 3,
                    users: 2,
                    test: value(own),
                }],
                joined: None,
            },
            _ => NewcomersRecord {
                after_ratings: Vec::new(),
                joined: Some(Joined {
                    users: 2,
                    since_s: f64::from(round - 2),
                    bytes: 100 * u64::from(round - 2),
                    test: value(own),
                }),
            },
        });
        RoundRecord {
            round,
            accuracy: newcomers.is_some().then(|| SplitAccuracy {
                validation: None,
                test: value(others),
            }),
            newcomers,
            ..RoundRecord::default()
        }
    }

    /// If this fails, newcomers count as warm too early or too late, by another metric, or by the
    /// accuracy of another round, or their figures without training are those of a stale model.
    #[test]
    fn newcomers_are_warm_at_the_first_round_with_95_percent_of_the_others() {
        let found = |rounds: &[RoundRecord]| {
            let evaluation = EvaluationSpec::default();
            Newcomers::of((5, 2.5), rounds, BTreeMap::new(), &evaluation)
        };
        let rounds = [
            round(1, 0.1, Some(0.1)),
            round(2, 0.2, Some(0.15)),
            round(3, 0.4, Some(0.379)),
            round(4, 0.0, None),
            round(5, 0.4, Some(0.38)),
            round(6, 0.5, Some(0.2)),
        ];
        let all = found(&rounds);
        let before = all.before.clone().unwrap_or_default();
        assert_eq!((before.round, before.others), (2, value(0.2)));
        assert_eq!(before.after_ratings[0].test, value(0.15));
        let warm = Warm {
            round: 5,
            since_s: 3.0,
            bytes_per_user: 150.0,
        };
        assert_eq!(all.warm, Some(warm));
        assert_eq!(all.joined.map(|joined| joined.test), Some(value(0.2)));
        assert_eq!(all.others, Some(value(0.5)));
        assert_eq!((all.users, &*all.metric), (5, "ndcg@10"));
        let early = found(&rounds[..3]);
        assert_eq!((early.warm, early.joined.is_some()), (None, true));
        let never = found(&rounds[..2]);
        assert_eq!(
            (never.joined, never.before.map(|of| of.round)),
            (None, Some(2))
        );
        assert_eq!(found(&rounds[2..]).before, None);
    }
}
