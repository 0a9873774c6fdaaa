//! Methods: what is shared and what is private, the client side and the server side; one file each, and a registry.
//!
//! A method knows nothing of time, network or bytes. It says what travels ([`Layout`]s of named blocks, which may differ
//! by phase), makes the private side of a user ([`Method::client`]) and the server side ([`Method::server`]).
//!
//! # Writing a method
//!
//! One file holds all of it. `fedmf.rs` is the shortest that trains; `examples/item_mean.rs`, shorter still, is a
//! program of its own.
//!
//! 1. **Parameters**: a type that derives `Serialize`, `Deserialize` and `JsonSchema`, with a `Default`. It is the table
//!    `[method.NAME]` of scenario files: doc comments document the keys, `#[schemars(range(...))]` bounds them,
//!    and a mistake in a file is shown at its line without a word of yours. Rates are `f64` there.
//! 2. **[`Method`]**: the model at its start, and a user's private side. What all clients share is in an `Arc`; draw what
//!    is random from a stream of [`Problem::streams`] of its own.
//! 3. **[`Client`]**: what [`Private`](crate::model::private::Private) parameters it holds, how it trains (return an
//!    update that lists the rows that were touched), how it scores, and its state, named once. Check magnitudes with
//!    [`LocalTask::check_magnitude`]; take `exp`, `ln` and `pow` from [`crate::math`].
//! 4. **Server side**: the default takes the mean of every block. Another [`rule`] for a block is one line
//!    ([`averager::Averager::with_rules`]); whatever else a server does is a [`server::Server`] of the method's own;
//!    `examples/trimmed_mean.rs` gives FedMF one.
//! 5. **[`Entry`]**: name, one line about it, its source, where it runs, how large its blocks are, and how it is built from
//!    checked [`parameters`].
//!
//! Then it is named, with one line: in this crate in [`registry::METHODS`] (beside its `mod` line here); in a program
//! of your own that line is its `main`, `fedrecsim::cli::program(&[METHODS, &[ENTRY]].concat())`. Every command then
//! knows it, and it runs over every network, codec and data set. Without the commands, [`registry::vocabulary_of`] is
//! what [`crate::scenario::parse`] needs to read its scenarios, and
//! [`World::with_methods`](crate::sim::World::with_methods) runs them. `tests/it/contract_suite.rs` holds every method
//! of this crate, and the example, to the promises of a method.

use std::fmt::Debug;
use std::sync::Arc;

use crate::dataset::Dataset;
use crate::error::Result;
use crate::ids::UserId;
use crate::model::batch::RoundRows;
use crate::model::blocks::{Model, ModelUpdate};
use crate::model::kernel::logistic::BatchRows;
use crate::model::kernel::{PackedRows, RowWeights};
use crate::model::layout::Layout;
use crate::model::least_squares::LeastSquares;
use crate::model::state::StateVisitor;
use crate::rng::Streams;

pub mod averager;
pub mod baselines;
pub mod central;
mod entry;
pub mod fcf;
pub mod fedgram;
pub mod fedmf;
pub mod fedncf;
pub mod fedrap;
pub mod fedrec;
pub mod fedrecon;
mod implicit;
pub mod metamf;
pub mod mf;
mod minibatch;
mod network;
pub mod pfedrec;
pub mod registry;
pub mod rule;
pub mod server;
pub mod task;
#[cfg(test)]
pub(crate) mod tests;

pub use averager::Averager;
pub use entry::{Entry, Placement, no_blocks, parameters, sizes_by, sizes_of};
pub use server::Server;
pub use task::{LocalTask, LocalUpdate, Phase, SampleScratch, Scorer, ScoringContext};

/// What a method may know when it is built: sizes, and nobody's ratings.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Problem {
    /// Users of the run.
    pub users: usize,
    /// Items of the catalogue.
    pub items: usize,
    /// The run's randomness.
    pub streams: Streams,
    /// Everybody's ratings, for methods that are placed nowhere in the simulated world ([`Placement::Untrained`]).
    everybodys_ratings: Option<Arc<Dataset>>,
}

impl Problem {
    /// Describes the problem that `dataset` poses, for a method of this placement.
    pub fn new(dataset: &Arc<Dataset>, streams: Streams, placement: Placement) -> Self {
        let everybodys_ratings = (placement == Placement::Untrained).then(|| Arc::clone(dataset));
        Self { users: dataset.users(), items: dataset.items(), streams, everybodys_ratings }
    }

    /// Returns everybody's ratings; `None` unless the method is placed nowhere in the simulated world, since no server
    /// and no device has them.
    pub fn everybodys_ratings(&self) -> Option<&Dataset> {
        self.everybodys_ratings.as_deref()
    }
}

/// A method of recommendation, shared by the server and all clients.
pub trait Method: Send + Sync + Debug {
    /// Returns the model that the server starts with.
    fn initial(&self) -> Model;

    /// Returns the number of phases, at least 1.
    fn phases(&self) -> u8 {
        1
    }

    /// Returns what a participant of `phase` downloads; [`Layout::none`] if nothing. The default is the whole model.
    fn download_layout(&self, _phase: Phase) -> Layout {
        self.initial().layout().clone()
    }

    /// Returns what a participant of `phase` uploads. The default is the whole model.
    fn upload_layout(&self, _phase: Phase) -> Layout {
        self.initial().layout().clone()
    }

    /// Makes the private side of `user`, as it is before its first participation.
    fn client(&self, user: UserId) -> Box<dyn Client>;

    /// Makes the server side, as it is before the first round. The default takes the mean of every block.
    fn server(&self) -> Box<dyn Server> {
        let model = self.initial();
        Box::new(Averager::with_rules(model, self.upload_layout(Phase::default()), &[]))
    }

    /// Whether scores are predictions of ratings, in the unit of the data set. Only then can their error be measured; a
    /// method that only ranks is refused where the split holds ratings out.
    fn predicts_ratings(&self) -> bool {
        false
    }
}

/// The private side of one user. Everything in it is private: it has no way to a codec but through what
/// [`Self::train`] returns.
pub trait Client: CloneClient + Send {
    /// Trains on `task` and returns what leaves the device.
    ///
    /// # Errors
    /// [`Error::Diverged`](crate::error::Error::Diverged) if a parameter leaves the allowed range; the state is then
    /// undefined.
    fn train(&mut self, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<LocalUpdate>;

    /// Learns that what [`Self::train`] returned last has been sent as it is. Its values stand in the memory of the frame
    /// now: a client that keeps them too keeps them once by taking them from here. The default does nothing.
    fn was_sent(&mut self, _update: &ModelUpdate) {}

    /// Makes a scorer of this user for the model as the device can decode it. It may rebuild private state first, from
    /// the user's own data.
    ///
    /// # Errors
    /// Whatever the method finds wrong, such as a singular system.
    fn scorer<'a>(&'a self, context: &ScoringContext<'a>, scratch: &mut Scratch) -> Result<Box<dyn Scorer + 'a>>;

    /// Visits every private parameter, in a fixed order. This one definition serves the result's digest, checkpoints and
    /// their restoration: a client that [`Method::client`] has just made and that is restored is, to the bit, the one
    /// that was saved.
    ///
    /// # Errors
    /// As [`StateVisitor::values`].
    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()>;
}

/// Copies of clients, for a participation that may be cut off before its training ends. Every client that is `Clone` has
/// it.
pub trait CloneClient {
    /// Returns a copy.
    fn snapshot(&self) -> Box<dyn Client>;
}

impl<C: Client + Clone + 'static> CloneClient for C {
    fn snapshot(&self) -> Box<dyn Client> {
        Box::new(self.clone())
    }
}

/// Buffers of one worker thread, reused from client to client. They carry nothing from one client to the next.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The training samples of the participation at hand.
    pub samples: SampleScratch,
    /// Distinct rows and samples.
    pub round_rows: RoundRows,
    /// Gathered rows.
    pub packed: PackedRows,
    /// Weights of a batch over all gathered rows.
    pub weights: RowWeights,
    /// Distinct rows of a mini-batch.
    pub batch: BatchRows,
    /// Places of rows in a private table.
    pub slots: Vec<u32>,
    /// The rows of a participation in FedRec.
    pub fedrec: fedrec::FedRecScratch,
    /// Memory for solving for a user vector.
    pub least_squares: LeastSquares,
    /// Memory for the values of the next [`LocalUpdate`].
    pub values: Vec<u8>,
}

/// Returns the largest magnitude of `values`; NaN if there is one among them.
pub fn largest_magnitude(values: &[f32]) -> f32 {
    // Magnitudes order like their bit patterns, and every NaN sorts above infinity.
    f32::from_bits(values.iter().map(|value| value.abs().to_bits()).max().unwrap_or(0))
}
