//! What was found for newcomers (`[joins]`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Accuracy, RoundRecord};
use fedrecsim_core::metric::Metric;
use fedrecsim_scenario::EvaluationSpec;

/// The share of the accuracy of what is there from the start that newcomers have to reach.
const WARM_SHARE: f64 = 0.95;

/// What was found for newcomers after a round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NewcomersRecord {
    /// Their accuracy after so many ratings: of users until they are there, as if they came now, and of
    /// items until they have all of their ratings.
    pub after_ratings: Vec<AfterRatings>,
    /// Their accuracy and cost; absent until they are there.
    pub joined: Option<Joined>,
    /// The accuracy of items that are there from the start and have as many ratings; absent where users
    /// come, who are held against all others.
    pub others: Option<Accuracy>,
}

/// The accuracy of newcomers with so many ratings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AfterRatings {
    /// The number of ratings.
    pub ratings: u32,
    /// The number of evaluated newcomers who have as many, or of users who look for an item that has.
    pub users: u64,
    /// The means over these users.
    pub test: Accuracy,
}

/// The accuracy and cost of newcomers after they have come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Joined {
    /// The number of evaluated newcomers, or of users who look for a new item.
    pub users: u64,
    /// The virtual time since they came, in seconds.
    pub since_s: f64,
    /// The bytes that the devices of these newcomers have sent or received, all together. Where items
    /// come, those of all devices since then, with the round in which they came.
    pub bytes: u64,
    /// The means over these users.
    pub test: Accuracy,
}

/// What was found for newcomers in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Newcomers {
    /// The number of users who come.
    pub users: u64,
    /// The number of items that come.
    pub items: u64,
    /// The number of devices that train on new items; absent where users come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<u64>,
    /// The virtual time at which they come, in seconds.
    pub at_s: f64,
    /// Their accuracy after so many ratings, each at the last evaluated round that has it.
    pub after_ratings: Vec<AfterRatings>,
    /// The last evaluated round before they come; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<BeforeJoin>,
    /// The trivial baselines for those who are judged as newcomers, or by new items, by name.
    pub baselines: BTreeMap<String, Accuracy>,
    /// Their state after the last evaluated round; absent if they have not come by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<Joined>,
    /// The accuracy of what they are held against after that round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<Accuracy>,
    /// The metric by which they are held against the others: NDCG where it is measured.
    pub metric: String,
    /// When the mean over them first was 95 % of that over the others; absent if it never was. New items
    /// also push those from the start down, so that these count with what they had before, if that was
    /// more. An item without ratings is not warm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm: Option<Warm>,
}

/// What was found in the last evaluated round before newcomers come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BeforeJoin {
    /// The round.
    pub round: u32,
    /// The accuracy of what they are held against.
    pub others: Accuracy,
}

/// The cost until the mean over newcomers was 95 % of that over the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Warm {
    /// The evaluated round after which it was.
    pub round: u32,
    /// The virtual time since they came, in seconds.
    pub since_s: f64,
    /// The bytes that the device of one of them has sent or received, in the mean; where items come,
    /// one of all devices since then.
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
        after.chain(joined).chain(self.others.iter().flat_map(bits))
    }
}

fn bits(accuracy: &Accuracy) -> impl Iterator<Item = u64> {
    accuracy.values().map(|value| value.to_bits())
}

impl Newcomers {
    /// Returns these newcomers with what the `rounds` of their run say of them.
    pub(crate) fn with(self, rounds: &[RoundRecord], evaluation: &EvaluationSpec) -> Self {
        let metric = judging(evaluation).map_or_else(String::new, |metric| metric.name());
        let found = rounds.iter().filter_map(|round| {
            let (all, own) = (round.accuracy.as_ref()?, round.newcomers.as_ref()?);
            Some((round.round, own, own.others.as_ref().unwrap_or(&all.test)))
        });
        let after = found.clone().flat_map(|(_, of, _)| &of.after_ratings);
        let after: BTreeMap<u32, &AfterRatings> =
            after.map(|after| (after.ratings, after)).collect();
        let mut before = found.clone().filter(|(_, of, _)| of.joined.is_none());
        let joined = found.filter_map(|(round, of, others)| {
            let joined = of.joined.as_ref()?;
            Some((round, of, joined, others))
        });
        let before = before.next_back();
        let of_before = before.filter(|_| self.items > 0);
        let of_before = of_before.and_then(|(_, _, others)| others.get(&metric));
        // A row that nobody has trained may come first by chance of its beginning.
        let has_ratings =
            |of: &NewcomersRecord| of.after_ratings.iter().all(|after| after.ratings > 0);
        let is_warm = |(_, of, joined, others): &(u32, &NewcomersRecord, &Joined, &Accuracy)| {
            let values = joined.test.get(&metric).zip(others.get(&metric));
            values.is_some_and(|(own, others)| {
                let others = of_before.map_or(*others, |before| before.max(*others));
                has_ratings(of) && *own >= WARM_SHARE * others
            })
        };
        let last = joined.clone().next_back();
        Self {
            after_ratings: after.into_values().cloned().collect(),
            before: before.map(|(round, _, others)| BeforeJoin {
                round,
                others: others.clone(),
            }),
            joined: last.map(|(_, _, joined, _)| joined.clone()),
            others: last.map(|(_, _, _, others)| others.clone()),
            warm: joined
                .clone()
                .find(is_warm)
                .map(|(round, _, joined, _)| Warm {
                    round,
                    since_s: joined.since_s,
                    bytes_per_user: {
                        let devices = self.devices.unwrap_or(joined.users);
                        joined.bytes as f64 / devices.max(1) as f64
                    },
                }),
            metric,
            ..self
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
                ..NewcomersRecord::default()
            },
            _ => NewcomersRecord {
                after_ratings: Vec::new(),
                joined: Some(Joined {
                    users: 2,
                    since_s: f64::from(round - 2),
                    bytes: 100 * u64::from(round - 2),
                    test: value(own),
                }),
                others: None,
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
            let who = Newcomers {
                users: 5,
                at_s: 2.5,
                ..Newcomers::default()
            };
            who.with(rounds, &EvaluationSpec::default())
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
        assert_eq!(all.after_ratings.len(), 1);
        assert_eq!(all.after_ratings[0].test, value(0.15));
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

    /// If this fails, new items are held against all others, or are warm because they have pushed others
    /// down, or what they cost is divided among those who look for one.
    #[test]
    fn new_items_are_held_against_items_with_as_many_ratings() {
        let with_others = |(round, others): (RoundRecord, f64)| RoundRecord {
            newcomers: round.newcomers.map(|newcomers| NewcomersRecord {
                others: Some(value(others)),
                ..newcomers
            }),
            ..round
        };
        let others = [0.1, 0.01, 0.1];
        let rounds = [(2, 0.05), (3, 0.09), (4, 0.095)];
        let rounds = rounds.map(|(number, own)| round(number, 0.4, Some(own)));
        let mut rounds: Vec<_> = rounds.into_iter().zip(others).map(with_others).collect();
        // The first one is also a round in which new items come, and have no rating.
        let mut first = with_others((round(3, 0.4, Some(0.3)), 0.1));
        if let Some(newcomers) = &mut first.newcomers {
            newcomers.after_ratings = vec![AfterRatings::default()];
        }
        rounds.insert(1, first);
        let who = Newcomers {
            items: 3,
            devices: Some(50),
            ..Newcomers::default()
        };
        let found = who.with(&rounds, &EvaluationSpec::default());
        let before = found.before.map(|before| before.others);
        assert_eq!((before, found.others), (Some(value(0.1)), Some(value(0.1))));
        let warm = Warm {
            round: 4,
            since_s: 2.0,
            bytes_per_user: 4.0,
        };
        assert_eq!(found.warm, Some(warm));
    }
}
