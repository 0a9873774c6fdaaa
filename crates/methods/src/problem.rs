//! Describes a method's problem, and what the protocol of an experiment lets a method at the server
//! use besides the ratings that users have sent.
//!
//! No real server could know what is held out. The published protocols use it, so it is here to be
//! measured: negatives that leave out the held-out items (`pool = "unrated"`), and a graph with the
//! test items among its edges.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use fedrecsim_core::{Streams, UserId};
use fedrecsim_data::dataset::Dataset;
use fedrecsim_scenario::NegativesSpec;
use fedrecsim_scenario::sizes::ProblemSize;

/// Says where a method runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The method runs nowhere in the simulated world. It is ready at once, knows the ratings of
    /// all users, and takes part in no round.
    Untrained,
    /// The method runs at the server. Users send their ratings once, and the server works on them
    /// at a speed of its own.
    Central,
    /// The method runs on the devices. Users keep their ratings and send updates.
    Federated,
    /// The method runs on the devices, and a third party computes for them at the speed of the
    /// server, as [`Method::exchange`](super::Method::exchange) describes it.
    Assisted,
}

impl Placement {
    /// Returns whether there is anything to train.
    pub const fn trains(self) -> bool {
        !matches!(self, Self::Untrained)
    }

    /// Returns whether training takes place on the devices.
    pub const fn is_on_devices(self) -> bool {
        matches!(self, Self::Federated | Self::Assisted)
    }
}

/// Holds the ratings that one user has sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UserRatings {
    /// The user.
    pub user: UserId,
    /// The items that the user has rated, or the positives among them, as the method sends them:
    /// ascending, each once.
    pub items: Vec<u32>,
    /// What the user sends of each item: the last rating of it, or a weight.
    pub ratings: Vec<f32>,
}

/// Describes a method's problem. A method learns the sizes and, if it trains, nobody's ratings, but
/// for what the protocol of the experiment leaks to a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Problem {
    /// The number of users of the run.
    pub users: usize,
    /// The number of those users who have something to train on. They are the first ones. What a
    /// method counts or divides by counts these, since the others come after training.
    pub(super) users_with_history: usize,
    /// The number of items of the catalogue.
    pub items: usize,
    /// The run's randomness.
    pub streams: Streams,
    /// The randomness of what nobody has trained. It is another one than [`Self::streams`] in a run
    /// that starts from the parameters of another: what that one left untrained has the same values.
    pub starts: Streams,
    pub(super) negatives: NegativesSpec,
    /// The data; methods on devices learn nothing of them.
    pub(super) dataset: Option<Arc<Dataset>>,
}

impl Problem {
    /// Describes the problem that `dataset` poses, for a method of this placement.
    pub fn new(dataset: &Arc<Dataset>, streams: Streams, placement: Placement) -> Self {
        let size = ProblemSize {
            users: dataset.users(),
            items: dataset.items(),
        };
        Self {
            users_with_history: dataset.users_with_history(),
            dataset: (!placement.is_on_devices()).then(|| Arc::clone(dataset)),
            ..Self::of_size(size, streams)
        }
    }

    /// Returns the same problem where a method at the server draws its negatives as `negatives`
    /// says.
    #[must_use]
    pub fn with_negatives(self, negatives: &NegativesSpec) -> Self {
        Self {
            negatives: negatives.clone(),
            ..self
        }
    }

    /// Returns the same problem where what nobody has trained is drawn from `starts`.
    #[must_use]
    pub fn with_starts(self, starts: Streams) -> Self {
        Self { starts, ..self }
    }

    /// Describes a problem of this size without data, which is enough for a method that trains on
    /// devices.
    pub fn of_size(ProblemSize { users, items }: ProblemSize, streams: Streams) -> Self {
        Self {
            users,
            users_with_history: users,
            items,
            streams,
            starts: streams,
            negatives: NegativesSpec::default(),
            dataset: None,
        }
    }

    /// Returns the numbers of users and items.
    pub fn size(&self) -> ProblemSize {
        ProblemSize {
            users: self.users,
            items: self.items,
        }
    }

    /// Returns the ratings of all users, for methods that are not trained.
    pub(super) fn all_ratings(&self) -> Option<&Dataset> {
        self.dataset.as_deref()
    }

    /// Returns the test items of `user` for a method at the server, which is a leak.
    pub(super) fn leaked_test_items(&self, user: UserId) -> &[u32] {
        let dataset = self.dataset.as_ref();
        dataset.map_or(&[], |dataset| dataset.known_test_items(user))
    }
}
