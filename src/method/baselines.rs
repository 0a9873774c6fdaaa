//! The trivial baselines that stand beside every result: popularity and random where items are ranked, the mean of all
//! ratings and that of the user's own where ratings are predicted.
//!
//! None of them trains or sends anything. Popularity and the global mean read everybody's ratings, as no server could:
//! they show how much of an accuracy the data gives away for nothing.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Client, Entry, LocalTask, LocalUpdate, Method, Placement, Scorer, ScoringContext, Scratch, no_blocks, parameters,
};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::ids::UserId;
use crate::model::blocks::Model;
use crate::model::state::StateVisitor;

/// The registry's line of `popularity`.
pub const POPULARITY: Entry = Entry {
    name: "popularity",
    summary: "scores an item by its number of training ratings; central, untrained, sends nothing",
    build: |value, problem| {
        let counts = problem.everybodys_ratings().map(Dataset::popularity).unwrap_or_default();
        build("popularity", value, Baseline::Popularity(counts.into_iter().map(|count| count as f32).collect()))
    },
    ..RANDOM
};

/// The registry's line of `random`, from which the other baselines take what they have in common.
pub const RANDOM: Entry = Entry {
    name: "random",
    summary: "scores every item at random; the floor of any accuracy",
    source: "the customary baseline",
    schema: || schemars::schema_for!(NoParameters),
    resolve: |_| Vec::new(),
    placement: Placement::Untrained,
    sizes: no_blocks,
    build: |value, problem| build("random", value, Baseline::Random { seed: problem.streams.seed() }),
};

/// The registry's line of `global-mean`.
pub const GLOBAL_MEAN: Entry = Entry {
    name: "global-mean",
    summary: "predicts the mean of all training ratings; central, untrained, sends nothing",
    build: |value, problem| {
        let mean = problem.everybodys_ratings().map(Dataset::mean_training_rating).unwrap_or_default();
        build("global-mean", value, Baseline::GlobalMean(mean as f32))
    },
    ..RANDOM
};

/// The registry's line of `user-mean`.
pub const USER_MEAN: Entry = Entry {
    name: "user-mean",
    summary: "predicts the mean of the user's own training ratings; untrained, sends nothing",
    build: |value, _| build("user-mean", value, Baseline::UserMean),
    ..RANDOM
};

/// Makes `baseline` the method of this name, after checking that it is given no parameters.
fn build(name: &str, value: &Value, baseline: Baseline) -> Result<Box<dyn Method>> {
    let NoParameters {} = parameters(name, value)?;
    Ok(Box::new(baseline))
}

/// The baselines that stand beside every result of a data set that holds single items out (`items`), or ratings.
pub fn beside(items: bool) -> [Entry; 2] {
    if items { [POPULARITY, RANDOM] } else { [GLOBAL_MEAN, USER_MEAN] }
}

/// A method without parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoParameters {}

/// What scores items, for all users.
#[derive(Clone, Debug)]
enum Baseline {
    /// The number of training ratings of every item.
    Popularity(Arc<[f32]>),
    /// Differently for each user and seed.
    Random { seed: u64 },
    /// The mean of all training ratings.
    GlobalMean(f32),
    /// The mean of the user's own training ratings.
    UserMean,
}

impl Method for Baseline {
    fn predicts_ratings(&self) -> bool {
        matches!(self, Self::GlobalMean(_) | Self::UserMean)
    }

    fn initial(&self) -> Model {
        Model::none()
    }

    fn client(&self, user: UserId) -> Box<dyn Client> {
        Box::new(BaselineClient { baseline: self.clone(), user })
    }
}

/// A user's view of a baseline: no private state.
#[derive(Clone)]
struct BaselineClient {
    baseline: Baseline,
    user: UserId,
}

impl Client for BaselineClient {
    fn train(&mut self, _task: &LocalTask<'_>, _scratch: &mut Scratch) -> Result<LocalUpdate> {
        // The server invites nobody to a method that is untrained.
        Err(Error::Usage("a baseline has nothing to train".to_owned()))
    }

    fn scorer<'a>(&'a self, context: &ScoringContext<'a>, _scratch: &mut Scratch) -> Result<Box<dyn Scorer + 'a>> {
        let own_mean = context.own.mean_rating().unwrap_or_default() as f32;
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            for (&item, score) in items.iter().zip(scores) {
                *score = match &self.baseline {
                    Baseline::Popularity(counts) => counts[item as usize],
                    Baseline::Random { seed } => random_score(*seed, self.user, item),
                    Baseline::GlobalMean(mean) => *mean,
                    Baseline::UserMean => own_mean,
                };
            }
        }))
    }

    fn visit_state(&mut self, _state: &mut StateVisitor<'_>) -> Result<()> {
        Ok(())
    }
}

/// A uniform score in [0, 1) that belongs to (seed, user, item), whichever other items are scored with it. A
/// stream would depend on the order of the items; this is the finaliser of SplitMix64 (Steele et al. 2014).
fn random_score(seed: u64, user: UserId, item: u32) -> f32 {
    let mut z = seed ^ (u64::from(user.0) << 32 | u64::from(item)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 40) as f32 / (1u32 << 24) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_scores_are_uniform_and_differ_between_users() {
        let scores: Vec<f32> = (0..10_000).map(|item| random_score(1, UserId(3), item)).collect();
        let mean = scores.iter().sum::<f32>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "mean {mean}");
        assert!(scores.iter().all(|score| (0.0..1.0).contains(score)));
        assert_ne!(random_score(1, UserId(3), 7), random_score(1, UserId(4), 7));
        assert_ne!(random_score(1, UserId(3), 7), random_score(2, UserId(3), 7));
    }
}
