//! Defines how recent positives count more when a device scores with its own positives, and in what
//! it trains or sends.

use std::f64::consts::LN_2;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::user_vector::{DistinctPositives, latest_positives, single_precision};
use fedrecsim_core::{Error, ErrorKind, Result, UserId, math};
use fedrecsim_data::dataset::OwnData;
use fedrecsim_scenario::ParameterFault;

/// How recent positives count more: w_i = floor + exp(-rho_i / tau), rho_i being the number of the
/// user's positives strictly later than i, or with `half_life_days` w_i = floor + 2^(-age of i /
/// half-life). A device scores with weights that are scaled to the number of the user's positives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Recency {
    /// Number tau of positives after which a weight has fallen to 1/e.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub tau: f64,
    /// Weight that remains of the oldest positives.
    #[schemars(range(min = 0))]
    pub floor: f64,
    /// A positive weighs half when it is so many days old, in place of `tau`. Its age counts from the
    /// end of training, which `global-time` has. Other splits have no common present, and there the
    /// age counts from the user's own last training rating. Every rating needs a timestamp.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub half_life_days: Option<f64>,
    /// Whether the weights w_i count in training too, where they are not scaled. By age under
    /// `global-time`, a user who has been away then counts less than one of yesterday. What is trained
    /// and sent so tells of times; a method at the server is sent the weights. FedSpec and PriviRec do
    /// not train with them.
    pub in_training: bool,
}

impl Default for Recency {
    fn default() -> Self {
        Self {
            tau: 5.0,
            floor: 0.1,
            half_life_days: None,
            in_training: false,
        }
    }
}

/// What ages in days count from.
#[derive(Clone, Copy, PartialEq)]
enum Since {
    /// The present of the split.
    Present,
    /// The user's last positive.
    LastPositive,
}

impl Recency {
    /// Returns the positives of a user, ascending and each once, and the logarithm of the weight of
    /// each without the floor.
    ///
    /// # Errors
    /// [`Error::OfUser`] where ages are wanted of ratings without timestamps.
    fn decays(
        &self,
        (own, user): (&OwnData<'_>, UserId),
        since: Since,
    ) -> Result<(Vec<u32>, Vec<f64>)> {
        let Some(half_life) = self.half_life_days else {
            let DistinctPositives { items, later } = DistinctPositives::of(own);
            let decays = later.iter().map(|rank| -f64::from(*rank) / self.tau);
            return Ok((items, decays.collect()));
        };
        let ages = own.ages_in_days().ok_or_else(|| Error::OfUser {
            kind: ErrorKind::UnfitData,
            user: user.into(),
            reason: "`recency.half_life_days` goes by the age of ratings, and this user has some \
                     without a timestamp: name the column that has them \
                     (dataset.columns.timestamp), keep the users whose ratings all have one \
                     (dataset.subset.with_timestamps = true), or go by order alone (recency.tau)"
                .to_owned(),
        })?;
        let (items, mut ages) = latest_positives(own, ages);
        if since == Since::LastPositive {
            let least = ages.iter().copied().fold(f64::INFINITY, f64::min);
            ages.iter_mut().for_each(|age| *age -= least);
        }
        let decays = ages.iter().map(|age| -LN_2 * (age / half_life));
        Ok((items, decays.collect()))
    }

    /// Returns the weights w_i of a user's positives.
    fn weights(&self, decays: &[f64]) -> Vec<f64> {
        let weight = |decay: &f64| self.floor + math::exp(*decay);
        decays.iter().map(weight).collect()
    }

    /// Returns the weights scaled so that their sum is their number.
    fn scaled_weights(&self, decays: &[f64]) -> Vec<f64> {
        let mut weights = self.weights(decays);
        let sum: f64 = weights.iter().sum();
        let scale = weights.len() as f64 / sum;
        weights.iter_mut().for_each(|weight| *weight *= scale);
        weights
    }
}

/// Returns the positives of a user, ascending and each once, and the weight of each, which is 1
/// without `recency`.
///
/// # Errors
/// [`Error::OfUser`] where ages are wanted of ratings without timestamps.
pub(super) fn weighted_positives(
    (own, user): (&OwnData<'_>, UserId),
    recency: Option<&Recency>,
) -> Result<(Vec<u32>, Vec<f64>)> {
    let Some(recency) = recency else {
        let items = DistinctPositives::of(own).items;
        let equal = vec![1.0; items.len()];
        return Ok((items, equal));
    };
    // Without a floor, differences of age alone decide. So a user who came long ago keeps weights
    // that are not all zero.
    let since = match recency.floor {
        0.0 => Since::LastPositive,
        _ => Since::Present,
    };
    let (items, decays) = recency.decays((own, user), since)?;
    let weights = recency.scaled_weights(&decays);
    Ok((items, weights))
}

/// Returns the positives of a user, ascending and each once, and the weight of each in training,
/// which is 1 unless `recency` counts there.
///
/// # Errors
/// [`Error::OfUser`] where ages are wanted of ratings without timestamps.
pub(super) fn training_weights(
    (own, user): (&OwnData<'_>, UserId),
    recency: Option<&Recency>,
) -> Result<(Vec<u32>, Vec<f64>)> {
    let Some(recency) = recency.filter(|recency| recency.in_training) else {
        return weighted_positives((own, user), None);
    };
    let (items, decays) = recency.decays((own, user), Since::Present)?;
    Ok((items, recency.weights(&decays)))
}

/// Returns what a device sends to a server that trains on positives: these, and the weight of each in
/// training.
///
/// # Errors
/// Those of [`training_weights`].
pub(super) fn sent_weights(
    own: (&OwnData<'_>, UserId),
    recency: Option<&Recency>,
) -> Result<(Vec<u32>, Vec<f32>)> {
    let (positives, weights) = training_weights(own, recency)?;
    Ok((positives, single_precision(&weights)))
}

/// Warns of a `tau` that `half_life_days` leaves without an effect.
pub(super) fn idle(recency: Option<&Recency>) -> Vec<ParameterFault> {
    let usual = Recency::default().tau;
    let is_idle = |of: &&Recency| of.half_life_days.is_some() && of.tau != usual;
    let fault = |_: &Recency| ParameterFault {
        path: vec!["recency".to_owned(), "tau".to_owned()],
        ..ParameterFault::without_effect("recency.tau", "weights go by age with `half_life_days`")
    };
    recency.filter(is_idle).map(fault).into_iter().collect()
}

/// As [`idle`], of a method that trains without these weights, and warns of `in_training`.
pub(super) fn idle_in_training(recency: Option<&Recency>) -> Vec<ParameterFault> {
    let mut faults = idle(recency);
    if recency.is_some_and(|recency| recency.in_training) {
        faults.push(ParameterFault {
            path: vec!["recency".to_owned(), "in_training".to_owned()],
            ..ParameterFault::without_effect(
                "recency.in_training",
                "the method does not train with these weights",
            )
        });
    }
    faults
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fedrecsim_core::Timestamp;

    /// If this fails, old positives count more than recent ones, or all of them together more than
    /// without recency.
    #[test]
    fn weights_fall_with_age_and_keep_their_sum() {
        let weights = Recency {
            tau: 5.0,
            ..Recency::default()
        }
        .scaled_weights(&[0.0, -0.2, -0.2, -8.0]);
        assert!((weights.iter().sum::<f64>() - 4.0).abs() < 1e-12);
        assert!(weights[0] > weights[1] && weights[1] == weights[2] && weights[2] > weights[3]);
        assert!((weights[3] / weights[0] - (0.1 + (-8f64).exp()) / 1.1).abs() < 1e-12);
    }

    /// If this fails, weights by age do not halve in the half-life, go by another present, or become
    /// NaN for a user who came long ago.
    #[test]
    fn weights_by_age_halve_with_the_half_life() {
        let day = |day: i64| Timestamp(day * 86_400_000_000_000);
        let instants = [day(10), day(20), day(15), day(15)];
        let own = OwnData {
            instants: &instants,
            training_ends: Some(day(25)),
            ..OwnData::new(&[1, 3, 3, 7])
        };
        let weights = |floor: f64, days: f64, own: &OwnData<'_>| {
            let recency = Recency {
                floor,
                half_life_days: Some(days),
                ..Recency::default()
            };
            let (items, weights) = weighted_positives((own, UserId(0)), Some(&recency)).unwrap();
            assert_eq!(items, [1, 3, 7], "an item counts by its latest rating");
            weights
        };
        let expect = |found: Vec<f64>, ratio: [f64; 2]| {
            assert!((found.iter().sum::<f64>() - 3.0).abs() < 1e-12);
            for (of, ratio) in [0, 2].into_iter().zip(ratio) {
                assert!((found[of] / found[1] - ratio).abs() < 1e-12, "{found:?}");
            }
        };
        expect(weights(0.0, 5.0, &own), [0.25, 0.5]);
        expect(weights(0.5, 5.0, &own), [0.625, 0.75]);
        // Item 3 was the user's last.
        let alone = OwnData {
            training_ends: None,
            ..own
        };
        expect(weights(0.5, 5.0, &alone), [0.75 / 1.5, 1.0 / 1.5]);
        expect(weights(0.0, 1e-4, &own), [0.0, 0.0]);
        let unknown = OwnData {
            instants: &[],
            ..own
        };
        let recency = Recency {
            half_life_days: Some(5.0),
            ..Recency::default()
        };
        let refused = weighted_positives((&unknown, UserId(4)), Some(&recency)).unwrap_err();
        assert!(refused.to_string().contains("dataset.columns.timestamp"));
    }
}
