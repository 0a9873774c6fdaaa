//! Implements the trivial baselines that every result is shown with: popularity and random scores
//! where items are ranked, the mean of all ratings and of the user's own ratings where ratings are
//! predicted.
//!
//! None of them trains or sends anything. Popularity and the global mean read the ratings of all
//! users, as no server could. They show how accurate recommendation is without any model of the
//! users.

use std::sync::Arc;

use super::entry::parameters;
use super::{
    Client, Entry, LocalTask, Method, Placement, Scoring, ScoringContext, Scratch, Trained,
};
use fedrecsim_core::{Error, Result, Timestamp, UserId, math};
use fedrecsim_data::dataset::Dataset;
use fedrecsim_model::{Model, StateVisitor};
use fedrecsim_scenario::keys;

/// Describes the method `popularity` to the registry.
pub(crate) const POPULARITY: Entry = Entry {
    name: "popularity",
    summary: "scores an item by its number of training ratings; central, untrained, sends nothing",
    formula: &["s_i = the number of ratings of i, or their sum of 2^(−age / half_life_days)"],
    schema: &|| schemars::schema_for!(PopularityParameters),
    build: &|value, problem| {
        let parameters: PopularityParameters = parameters(POPULARITY.name, value)?;
        let counts = problem.all_ratings().map(|all| parameters.counts(all));
        let counts = counts.transpose()?.unwrap_or_default();
        Ok(Box::new(Baseline::Popularity(counts.into())))
    },
    ..RANDOM
};

keys! {
    /// What `popularity` counts. All but the plain count goes by the age of ratings at the end of
    /// training, and so needs a split by one instant (`global-time`).
    #[derive(Copy)]
    pub(crate) struct PopularityParameters {
        /// Only the ratings of the last so many days before the end of training count. Left out: all
        /// do.
        window_days: Option<f64> = None, > 0.0;
        /// A rating counts half when it is so many days old. Left out: all count alike.
        half_life_days: Option<f64> = None, > 0.0;
        /// Whether only what users take when they come back counts: ratings after their first session.
        /// What an interface shows to newcomers then has no say.
        returning: bool = false;
        /// A session ends with a pause of so many days.
        session_gap_days: f64 = 1.0, > 0.0;
    }
}

impl PopularityParameters {
    /// Returns the weight of the training ratings of every item.
    ///
    /// # Errors
    /// [`Error::Dataset`] where the split goes by no instant, so that no rating has an age.
    fn counts(&self, all: &Dataset) -> Result<Vec<f32>> {
        if self.window_days.is_none() && self.half_life_days.is_none() && !self.returning {
            return Ok(all
                .popularity()
                .into_iter()
                .map(|count| count as f32)
                .collect());
        }
        let Some(end) = all.training_ends() else {
            return Err(Error::Dataset(
                "`popularity` is to count ratings by their age, but `dataset.split` has no instant at which \
                 training ends for everybody: take `global-time`"
                    .to_owned(),
            ));
        };
        if !all.is_whole() {
            return Err(Error::Usage(
                "`popularity` looks at the age of all ratings, which one process alone can do: run it without \
                 mpirun"
                    .to_owned(),
            ));
        }
        let mut counts = vec![0f64; all.items()];
        for user in (0..all.users()).map(UserId::from) {
            let own = all.own_data(user);
            let first_session_ends = self.end_of_first_session(own.instants);
            for (place, instant) in own.instants.iter().enumerate() {
                let age = end.days_since(*instant);
                let is_old = self.window_days.is_some_and(|window| age > window);
                let is_first = self.returning && Some(*instant) <= first_session_ends;
                if !is_old && !is_first && own.is_positive(place) {
                    let halvings = self.half_life_days.map_or(0.0, |half_life| age / half_life);
                    counts[own.items[place] as usize] +=
                        math::exp(-halvings * std::f64::consts::LN_2);
                }
            }
        }
        Ok(counts.into_iter().map(|count| count as f32).collect())
    }

    /// Returns the last instant of the first session; `None` without ratings.
    fn end_of_first_session(&self, instants: &[Timestamp]) -> Option<Timestamp> {
        let mut ascending = instants.to_vec();
        ascending.sort_unstable();
        let pauses = ascending.windows(2);
        let mut ends = pauses.filter(|pair| pair[1].days_since(pair[0]) > self.session_gap_days);
        ends.next()
            .map(|pair| pair[0])
            .or(ascending.last().copied())
    }
}

/// Describes the method `random` to the registry. The other baselines take from it what they have
/// in common.
pub(crate) const RANDOM: Entry = Entry {
    name: "random",
    summary: "scores every item at random; the floor of any accuracy",
    source: "the customary baseline",
    formula: &["s_ui = a hash of the seed, u and i, uniform in [0, 1)"],
    placement: Placement::Untrained,
    without_controls: Some("it trains nothing"),
    draws_negatives: false,
    build: &|_, problem| Ok(Box::new(Baseline::Random(problem.streams.seed()))),
    ..Entry::BY_HAND
};

/// Describes the method `global-mean` to the registry.
pub(crate) const GLOBAL_MEAN: Entry = Entry {
    name: "global-mean",
    summary: "predicts the mean of all training ratings; central, untrained, sends nothing",
    formula: &["r̂_ui = mean of all r_vj"],
    build: &|_, problem| {
        let mean = problem.all_ratings().map(Dataset::mean_training_rating);
        Ok(Box::new(Baseline::GlobalMean(
            mean.unwrap_or_default() as f32
        )))
    },
    ..RANDOM
};

/// Describes the method `user-mean` to the registry.
pub(crate) const USER_MEAN: Entry = Entry {
    name: "user-mean",
    summary: "predicts the mean of the user's own training ratings; untrained, sends nothing",
    formula: &["r̂_ui = mean of r_uj over j in I_u"],
    build: &|_, _| Ok(Box::new(Baseline::UserMean)),
    ..RANDOM
};

/// Returns the baselines that results are shown with, for a data set that holds out items (`items`)
/// or else ratings.
pub fn beside(items: bool) -> [Entry; 2] {
    match items {
        true => [POPULARITY, RANDOM],
        false => [GLOBAL_MEAN, USER_MEAN],
    }
}

/// Says how items are scored, for all users.
#[derive(Clone, Debug)]
enum Baseline {
    /// The score is the number of training ratings of the item.
    Popularity(Arc<[f32]>),
    /// The score is random, and differs between users and seeds; this is the run's seed.
    Random(u64),
    /// The score is the mean of all training ratings.
    GlobalMean(f32),
    /// The score is the mean of the user's own training ratings.
    UserMean,
}

impl Method for Baseline {
    fn predicts_ratings(&self) -> bool {
        matches!(self, Self::GlobalMean(_) | Self::UserMean)
    }

    fn initial(&self) -> Model {
        Model::none()
    }

    fn client(&self, _user: UserId) -> Box<dyn Client> {
        Box::new(self.clone())
    }
}

/// Users have no private state.
impl Client for Baseline {
    fn train(&mut self, _task: &LocalTask<'_>, _scratch: &mut Scratch) -> Result<Trained> {
        // The server never invites anybody to an untrained method.
        Err(Error::Usage("a baseline has nothing to train".to_owned()))
    }

    fn scorer<'a>(&'a self, context: ScoringContext<'a>) -> Scoring<'a> {
        let own_mean = context.own.mean_rating().unwrap_or_default() as f32;
        let user = context.user;
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            for (&item, score) in items.iter().zip(scores) {
                *score = match self {
                    Self::Popularity(counts) => counts[item as usize],
                    Self::Random(seed) => random_score(*seed, user, item),
                    Self::GlobalMean(mean) => *mean,
                    Self::UserMean => own_mean,
                };
            }
        }))
    }

    fn visit_state(&mut self, _state: &mut StateVisitor<'_>) -> Result<()> {
        Ok(())
    }
}

/// Returns a uniform score in [0, 1) that depends on seed, user and item only. Draws from a stream
/// would depend on the order of the items as well. The hash is the finaliser of SplitMix64 (Steele
/// et al. 2014).
fn random_score(seed: u64, user: UserId, item: u32) -> f32 {
    let mut z =
        seed ^ (u64::from(user.0) << 32 | u64::from(item)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 40) as f32 / (1u32 << 24) as f32
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fedrecsim_core::Streams;
    use fedrecsim_data::dataset::{Interaction, Ratings, split};
    use fedrecsim_scenario::{Cut, GlobalTimeSpec, SplitSpec, Targets};

    /// If this fails, the baseline `random` has another list for a user than it had in published
    /// reports. The numbers are from an independent computation of the hash.
    #[test]
    fn random_scores_are_those_of_the_published_hash() {
        let numerators =
            [0, 7, 1000].map(|item| random_score(1, UserId(3), item) * (1u32 << 24) as f32);
        assert_eq!(numerators, [5_373_154.0, 16_501_883.0, 8_520_941.0]);
    }

    /// If this fails, the baseline that ties the best methods on some data counts something else. The
    /// first session of the user ends on day 11, and training on day 20.
    #[test]
    fn popularity_goes_by_age_where_it_is_asked_to() {
        let days: [(u32, i64); 5] = [(0, 10), (1, 11), (2, 15), (3, 18), (1, 30)];
        let instant = |day: i64| Timestamp(day * 86_400_000_000_000);
        let rows = days.map(|(item, day)| Interaction {
            instant: instant(day),
            ..Interaction::new(item, 1.0, day)
        });
        let ratings = Ratings {
            users: vec![0, 0, 0, 0, 1],
            interactions: rows.into(),
            user_names: vec!["a".into(), "b".into()],
            item_names: (0..4).map(|item| format!("i{item}").into()).collect(),
            ..Ratings::default()
        };
        let cut = |cut| GlobalTimeSpec {
            cut,
            validation_share: 0.0,
            window_share: None,
            targets: Targets::All,
            session_gap_days: 1.0,
            new_users: true,
            new_items: false,
        };
        let spec = SplitSpec::GlobalTime(cut(Cut::Instant(instant(20))));
        let dataset = split::split(ratings, &spec, Streams::new(1)).unwrap();
        let counted = |change: fn(&mut PopularityParameters)| {
            let mut parameters = PopularityParameters::default();
            change(&mut parameters);
            parameters.counts(&dataset).unwrap()
        };
        assert_eq!(counted(|_| ()), [1.0; 4]);
        assert_eq!(
            counted(|of| of.window_days = Some(5.0)),
            [0.0, 0.0, 1.0, 1.0]
        );
        assert_eq!(counted(|of| of.returning = true), [0.0, 0.0, 1.0, 1.0]);
        let halved = counted(|of| of.half_life_days = Some(5.0));
        assert!(
            (halved[0] - 0.25).abs() < 1e-6 && (halved[2] - 0.5).abs() < 1e-6,
            "{halved:?}"
        );
    }

    /// If this fails, a baseline that only ranks is asked for ratings.
    #[test]
    fn only_means_of_ratings_predict_ratings() {
        let predicts = [
            Baseline::Popularity([].into()),
            Baseline::Random(1),
            Baseline::GlobalMean(3.0),
            Baseline::UserMean,
        ]
        .map(|baseline| baseline.predicts_ratings());
        assert_eq!(predicts, [false, false, true, true]);
    }

    #[test]
    fn random_scores_are_uniform_and_differ_between_users() {
        let scores: Vec<f32> = (0..10_000)
            .map(|item| random_score(1, UserId(3), item))
            .collect();
        let mean = scores.iter().sum::<f32>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "mean {mean}");
        assert!(scores.iter().all(|score| (0.0..1.0).contains(score)));
        assert_ne!(random_score(1, UserId(3), 7), random_score(1, UserId(4), 7));
        assert_ne!(random_score(1, UserId(3), 7), random_score(2, UserId(3), 7));
    }
}
