//! Methods: private state, local update, scores; one file each, and a registry.
//!
//! A method knows nothing of time, network or bytes. It says which table travels ([`Method::shape`]), makes the
//! private side of a user ([`Method::client`]), and each [`Client`] trains on what it downloaded. The server
//! averages.
//!
//! # Writing a method
//!
//! One file holds all of it. `fedmf.rs` is the shortest that trains; `examples/item_mean.rs`, shorter still, is a
//! program of its own.
//!
//! 1. **Parameters**: a type that derives `Serialize`, `Deserialize` and `JsonSchema`, with a `Default`. It is the table
//!    `[method.NAME]` of scenario files: doc comments document the keys, `#[schemars(range(...))]` bounds them,
//!    and a mistake in a file is shown at its line without a word of yours. Rates are `f64` there.
//! 2. **[`Method`]**: the shape of the table that travels, its first state, and a user's private side. Shared by all
//!    clients; draw what is random from a stream of [`Problem::streams`] of its own.
//! 3. **[`Client`]**: what [`Private`](crate::model::private::Private) parameters it holds, how it trains (return a
//!    [`TableUpdate`] that lists the rows that were touched), and how it scores. Check magnitudes with
//!    [`LocalTask::check_magnitude`]; take `exp`, `ln` and `pow` from [`crate::math`]. What it holds is saved and
//!    restored, so that a run survives a crash.
//! 4. **[`Entry`]**: name, one line about it, its source, whether it trains, and how it is built from checked [`parameters`].
//!
//! Then it is named, with one line: in this crate in [`registry::METHODS`] (beside its `mod` line here); in a program
//! of your own that line is its `main`, `fedrecsim::cli::program(&[METHODS, &[ENTRY]].concat())`. Every command then
//! knows it, and it runs over every network, codec and data set. Without the commands, [`registry::vocabulary_of`] is
//! what [`crate::scenario::parse`] needs to read its scenarios, and
//! [`World::with_methods`](crate::sim::World::with_methods) runs them. `tests/it/contract_suite.rs` holds every method
//! of this crate, and the example, to the promises of a method.

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;

use crate::dataset::Dataset;
use crate::dataset::negatives::Samples;
use crate::error::{Error, Result};
use crate::ids::{InvitationId, Round, UserId};
use crate::model::archive::{Archive, ArchiveReader};
use crate::model::batch::RoundRows;
use crate::model::kernel::logistic::BatchRows;
use crate::model::kernel::{PackedRows, RowWeights};
use crate::model::table::{SharedTable, Table, TableShape, TableUpdate};
use crate::rng::{Purpose, Stream, Streams};
use crate::work::Work;

pub mod baselines;
mod entry;
pub mod fcf;
pub mod fedgram;
pub mod fedmf;
pub mod fedrap;
pub mod fedrec;
mod minibatch;
pub mod pfedrec;
pub mod registry;
#[cfg(test)]
mod tests;

pub use entry::{Entry, parameters};

/// What a method may know when it is built.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The split ratings. Federated methods read only its sizes; the centralised baselines read all of it.
    pub dataset: Arc<Dataset>,
    /// The run's randomness.
    pub streams: Streams,
}

/// A method of recommendation, shared by the server and all clients.
pub trait Method: Send + Sync + Debug {
    /// Shape of the table that travels; no rows if nothing does.
    fn shape(&self) -> TableShape;

    /// The table that the server broadcasts first.
    fn initial_table(&self) -> Table;

    /// The private side of `user`, as it is before its first participation.
    fn client(&self, user: UserId) -> Box<dyn Client>;

    /// Whether a client trains on samples. For a method that does not, none are drawn, and those of its tasks are empty.
    fn needs_samples(&self) -> bool {
        true
    }
}

/// The private side of one user.
pub trait Client: Send {
    /// Trains on `task` and returns what leaves the device.
    ///
    /// # Errors
    /// [`Error::Diverged`] if a parameter leaves the allowed range; the state is then undefined.
    fn train(&mut self, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<LocalUpdate>;

    /// After a training: `values` are those of its [`LocalUpdate::table`], in memory that stays with somebody else. A
    /// client that keeps what it sent can let go of its own copy. Changes no value.
    fn share_values(&mut self, _values: Bytes) {}

    /// Scores `items` (ascending, distinct) with the server's current table; higher is better.
    fn score(&self, global: &Table, items: &[u32], scores: &mut [f32]);

    /// Feeds every private parameter to `sink`, as little-endian bytes in a fixed order, for the result digest.
    fn visit_private(&self, sink: &mut dyn FnMut(&[u8]));

    /// A copy to return to, should this participation be cut off before its training ends.
    fn snapshot(&self) -> Box<dyn Client>;

    /// Appends every private parameter to a checkpoint, which nobody in the simulated world reads. A table that many
    /// clients hold is written once ([`Archive::put_table`]).
    fn save(&self, archive: &mut Archive);

    /// Turns a client that [`Method::client`] has just made into the one that [`Self::save`] was called on: to the bit,
    /// in everything that it does from now on.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for what no client of this method has saved.
    fn restore(&mut self, archive: &mut ArchiveReader) -> Result<()>;
}

/// One participation, as the client sees it.
#[derive(Clone, Copy, Debug)]
pub struct LocalTask<'a> {
    /// The user.
    pub user: UserId,
    /// The round that trains: the number of steps that the model has made, for what changes from round to round.
    pub round: Round,
    /// Number of the invitation: what this participation draws is named by it.
    pub invitation_id: InvitationId,
    /// The table as decoded from the download.
    pub global: &'a SharedTable,
    /// Training samples of this round.
    pub samples: &'a Samples,
    /// The run's randomness.
    pub streams: Streams,
    /// Largest magnitude that a parameter may have.
    pub divergence_limit: f32,
}

impl LocalTask<'_> {
    /// This participation's randomness for `purpose`.
    pub fn stream(&self, purpose: Purpose) -> Stream {
        self.streams.stream(purpose, u64::from(self.user.0), u64::from(self.invitation_id.0))
    }

    /// Refuses a parameter whose largest magnitude is not below the limit (or is NaN).
    ///
    /// # Errors
    /// [`Error::Diverged`], naming the round, the user and the parameter.
    pub fn check_magnitude(&self, parameter: &'static str, largest: f32) -> Result<()> {
        if largest <= self.divergence_limit {
            return Ok(());
        }
        let (round, user, limit) = (self.round, self.user, self.divergence_limit);
        Err(Error::Diverged { round, user, parameter, value: largest, limit })
    }
}

/// What a participation yields.
#[derive(Clone, Debug)]
pub struct LocalUpdate {
    /// The client's table.
    pub table: TableUpdate,
    /// Mean local loss, as the method defines it.
    pub loss: f64,
    /// What the training took: at the device's speed, this is its virtual duration.
    pub work: Work,
}

/// Buffers of one worker thread, reused from client to client. Holds no state between clients.
#[derive(Debug, Default)]
pub struct Scratch {
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
    /// Memory for the values of the next [`LocalUpdate`].
    pub values: Vec<u8>,
}

/// The largest magnitude of `values`; NaN if there is one among them.
pub fn largest_magnitude(values: &[f32]) -> f32 {
    // Magnitudes order like their bit patterns, and every NaN sorts above infinity.
    f32::from_bits(values.iter().map(|value| value.abs().to_bits()).max().unwrap_or(0))
}
