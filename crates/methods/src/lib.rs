//! Holds the methods of recommendation, each in a file or folder of its own, and the registry that
//! lists them.
//!
//! A method says what travels between server and clients ([`Layout`]s of named blocks, which may
//! differ by phase and by class of users), and makes the private side of a user ([`Method::client`]) and the server side
//! ([`Method::server`]). Time, network and bytes are no concern of a method.
//!
//! # Writing a method
//!
//! A method is a declaration: the type of its parameters implements [`Declare`](declare::Declare).
//! What follows from the declaration (the layouts of what travels, the start, private state and how
//! it is saved, training, scoring, the server, the sizes of blocks) is written once, in [`declare`].
//! `fedmf.rs` is the shortest method, and `examples/fedbpr` one in a crate of its own, with all of
//! its lines. `use fedrecsim::method::prelude::*` has what methods need.
//!
//! 1. **Parameters**: [`parameters!`](crate::parameters!) takes one line a key: name, type, default
//!    and bounds. It is the table `[method.NAME]` of scenario files: its doc comments document the
//!    keys, and a mistake in a file is reported with its line. Rates are `f64` there.
//! 2. **Blocks**: [`Declare::blocks`](declare::Declare::blocks) lists them, each with its shape and
//!    the distribution of its start: an [`item_table`](declare::item_table), a
//!    [`vector`](declare::vector), the layers of a [`perceptron`](declare::perceptron). A block is
//!    shared (downloaded, trained and averaged), unless it is said to be private, only downloaded,
//!    only uploaded, a gradient, or the server's alone. A rule other than the mean takes one more
//!    call.
//! 3. **Training**: [`Score`](declare::Score) and [`Loss`](declare::Loss) say how an item is scored
//!    and what is minimised; the [`Training`](declare::Training) is epochs of mini-batches with a
//!    rate for each block, or with Adam. A method with an arithmetic of its own overrides
//!    [`Declare::train`](declare::Declare::train) and [`Declare::scorer`](declare::Declare::scorer)
//!    and reads its private blocks by name. It checks magnitudes with
//!    [`LocalTask::check_magnitude`], and takes `exp`, `ln` and `pow` from
//!    [`fedrecsim_core::math`].
//! 4. **Rates**: A shared item table needs a rate of another size than a private vector, about the
//!    number of items times as large. The gradient of a batch is a mean over its samples, so a row
//!    moves by the share of its item in the batch. The server then takes the mean over all devices,
//!    and few have touched the row. With the rate 0.05 of a centralised program for both, the table
//!    hardly moves, nothing diverges, and the accuracy is that of `popularity`.
//! 5. **Server side**: The default is an [`Averager`] that follows the rules of the blocks: the
//!    mean, a sum, a mean over the senders of each row, a trimmed mean or median, with momentum or
//!    Adam ([`ServerRule`](rule::ServerRule)). `examples/trimmed_mean.rs` is FedMF with another
//!    rule. A server that does anything else is a [`server::Server`] of the method's own. A method
//!    that runs at the server, with ratings that users send, implements
//!    [`Central`](central::Central) instead: a pass over the ratings and a way of scoring.
//!    `bpr_mf.rs` is a short one. What `training.aggregation` does to a method is written in
//!    [`declare::controlled`]; a method that it has no meaning for says so in
//!    [`Declare::WITHOUT_CONTROLS`](declare::Declare::WITHOUT_CONTROLS).
//! 6. **Third party**: Where clients ask somebody that the server must not hear,
//!    [`Declare::exchange`](declare::Declare::exchange) describes what travels,
//!    [`Declare::request`](declare::Declare::request) asks, and a [`ThirdParty`] answers.
//! 7. **[`Entry`]**: `Entry::of::<MyMethod>()` is the line in a list of methods, and
//!    `Entry::at_server::<MyMethod>()` that of a method at the server.
//!
//! What a declaration cannot say is written by hand, as a [`Method`] and a [`Client`] with
//! [`Entry::BY_HAND`]; `examples/item_mean.rs` does that.
//!
//! A method of this crate is then listed in [`registry::METHODS`], besides its `mod` line here. A
//! program with methods of its own passes them to the commands in its `main`:
//! `fedrecsim::cli::program(&[METHODS, &[ENTRY]].concat())`. Every command then knows the method,
//! and it runs over every network, codec and data set. A program without the commands reads
//! scenarios by giving [`registry::vocabulary_of`] to [`fedrecsim_scenario::parse`], and runs them
//! with `World::with_methods`.
//!
//! `testing::contract` checks what every method has to fulfil, and
//! `tests/it/contract_suite.rs` has it check all methods of this crate and the examples.

use std::borrow::Cow;
use std::fmt::Debug;

use fedrecsim_core::{Error, Result, UserId};
use fedrecsim_model::kernel::{BatchRows, PackedRows, RoundRows, RowWeights};
use fedrecsim_model::least_squares::LeastSquares;
use fedrecsim_model::{Layout, Model, ModelUpdate, StateVisitor, Table};

pub use fedrecsim_scenario::choices;
/// Declares the parameters of a method, one line a key.
pub use fedrecsim_scenario::keys as parameters;

mod adafedrec;
pub mod averager;
pub mod baselines;
mod bpr_mf;
mod central;
mod class;
mod cofedrec;
mod colr;
pub mod declare;
mod entry;
mod fcf;
mod fcf_bts;
mod fedca;
mod fedcia;
mod feddae;
mod fedem;
mod fedgram;
pub mod fedmf;
mod fedncf;
mod fedpeft;
mod fedpergnn;
pub mod fedrap;
mod fedrec;
mod fedrecon;
mod fedspec;
mod fedtide;
mod gpfedrec;
mod ials;
mod item_to_item;
mod keys;
mod lightfr;
mod lightgcn;
mod metamf;
mod mf;
mod mixtures;
mod ncf;
mod network;
mod own_noise;
mod traffic;

pub mod pfedrec;
pub mod prelude;
mod privirec;
mod problem;
mod recency;
mod recent_step;
pub mod registry;
mod robust;
mod row_counts;
pub mod rule;
mod samples;
pub mod server;
mod spectral;
mod sums;
pub mod task;
#[cfg(test)]
pub(crate) mod tests;
pub mod third_party;
mod user_tables;
mod user_vector;

pub use averager::Averager;
pub use class::{Class, Classes};
pub use declare::Kept;
pub use entry::{Entry, parameters, sizes_by, sizes_of};
pub use fedrecsim_model::magnitude::largest_magnitude;
pub use keys::Parameters;
pub(crate) use keys::without_effect;
pub use own_noise::OwnNoise;
pub use problem::{Placement, Problem, UserRatings};
pub use server::Server;
pub use task::{
    LocalTask, Phase, Products, SampleScratch, Scorer, Scoring, ScoringContext, Trained,
};
pub use third_party::{Exchange, Message, ThirdParty};

/// Describes a method of recommendation. One value is shared by the server and all clients.
pub trait Method: Send + Sync + Debug {
    /// Returns the model that the server starts with.
    fn initial(&self) -> Model;

    /// Returns a version of the method's own code, such as a digest of a script, for a method that
    /// can change while the program stays the same. A checkpoint goes on with the version that it
    /// was left by. The default is empty, which is right for a method that is compiled into the
    /// program.
    fn version(&self) -> String {
        String::new()
    }

    /// Returns the number of phases, at least 1.
    fn phases(&self) -> u8 {
        1
    }

    /// Returns the number of steps after which the model is whole, if everybody takes part in each; 0
    /// if any number will do.
    fn least_steps(&self) -> u32 {
        0
    }

    /// Returns the classes of users, between which what travels differs. A method with several makes
    /// a download for each user. By default there is one.
    fn classes(&self) -> Classes {
        Classes::default()
    }

    /// Returns the layout of what a participant of this class downloads in `phase`, which is
    /// [`Layout::none`] if it downloads nothing. The default is the layout of the whole model.
    fn download_layout(&self, _phase: Phase, _class: Class) -> Layout {
        self.initial().layout().clone()
    }

    /// Returns the layout of what a participant of this class uploads in `phase`. The default is the
    /// layout of the whole model.
    fn upload_layout(&self, _phase: Phase, _class: Class) -> Layout {
        self.initial().layout().clone()
    }

    /// Makes the private side of `user`, as it is before its first participation.
    fn client(&self, user: UserId) -> Box<dyn Client>;

    /// Makes the server side, as it is before the first round. The default server takes the mean of
    /// every block.
    fn server(&self) -> Box<dyn Server> {
        let model = self.initial();
        Box::new(Averager::with_rules(
            model,
            self.upload_layout(Phase::default(), Class::default()),
            &[],
        ))
    }

    /// Describes what clients exchange with a third party in `phase` before they train; `None`,
    /// which is the default, if they ask nobody.
    fn exchange(&self, _phase: Phase) -> Option<Exchange> {
        None
    }

    /// Makes the third party, as it is before the first round. A method with an [`Self::exchange`]
    /// has one.
    fn third_party(&self) -> Option<Box<dyn ThirdParty>> {
        None
    }

    /// Returns whether training reads no other rows of downloaded item tables than those of the
    /// participation's samples ([`LocalTask::draw_samples`]), and a client keeps no others. Only
    /// then can clients download these rows alone (`select = "needed-rows"`); all other rows are
    /// then NaN. The default is no.
    fn trains_on_sampled_rows(&self) -> bool {
        false
    }

    /// Tells what the noise is worth that devices of this method add by themselves; `None`, which
    /// is the default, if they add none. Methods that another mechanism protects need not tell.
    fn own_noise(&self) -> Option<OwnNoise> {
        None
    }

    /// Returns whether scores are predictions of ratings, in the unit of the data set. Only then
    /// can their error be measured: a method that only ranks is refused where the split holds
    /// ratings out.
    fn predicts_ratings(&self) -> bool {
        false
    }
}

/// Holds the private side of one user. Only what [`Self::train`] and [`Self::request`] return can
/// reach a codec.
pub trait Client: CloneClient + Send {
    /// Trains on `task` and returns what leaves the device.
    ///
    /// # Errors
    /// [`Error::Diverged`] if a parameter leaves the allowed range, after which the
    /// state is undefined.
    fn train(&mut self, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<Trained>;

    /// Is called after [`Self::train`] if the frame holds the update's values as they are, with a
    /// lossless codec and without a privacy mechanism. The values of `update` now share the frame's
    /// memory, so that a client that keeps them replaces its own copy by them. The default does
    /// nothing.
    fn was_sent(&mut self, _update: &ModelUpdate) {}

    /// Makes the request to the third party that precedes the training on `task`, in a method with
    /// an [`Method::exchange`]. Like [`Self::train`] it decides what leaves the device.
    ///
    /// # Errors
    /// An error of the method; the default finds that its clients ask nobody.
    fn request(&self, task: &LocalTask<'_>, _scratch: &mut Scratch) -> Result<Message> {
        Err(no_request(task.user))
    }

    /// Makes a scorer of this user for the model as the device can decode it. The client may first
    /// rebuild private state from the user's own data.
    ///
    /// # Errors
    /// An error of the method, such as a singular system.
    fn scorer<'a>(&'a self, context: ScoringContext<'a>) -> Scoring<'a>;

    /// Returns the item table that this user keeps for itself; `None`, which is the default, if
    /// there is none. It is for studies of a method, and reaches no codec.
    ///
    /// # Errors
    /// As [`TableUpdate::apply`](fedrecsim_model::table::TableUpdate::apply).
    fn personal_table(&self) -> Result<Option<PersonalTable>> {
        Ok(None)
    }

    /// Returns the vector that this user keeps for itself, such as its embedding or the weights of its
    /// score function; `None`, which is the default, if there is none. All users of a class have one of the
    /// same length. It is for studies of a method, and reaches no codec.
    ///
    /// # Errors
    /// An error of the method.
    fn personal_vector(&self) -> Result<Option<PersonalVector>> {
        Ok(None)
    }

    /// Has this user score with `values` in the place of the table that [`Self::personal_table`]
    /// returns, whose shape they have. It is for measuring what personal tables are worth, on a
    /// copy of the client.
    ///
    /// # Errors
    /// [`Error::Usage`] from a client that keeps no such table, which is the default.
    fn replace_personal_table(&mut self, _values: Table) -> Result<()> {
        Err(Error::Usage(NO_PERSONAL_TABLE.to_owned()))
    }

    /// Visits every private parameter, in a fixed order. The digest of the result, checkpoints and
    /// their restoration all use this definition. A client that [`Method::client`] has just made
    /// and that is then restored must have the same bits as the one that was saved.
    ///
    /// # Errors
    /// As [`StateVisitor::values`].
    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()>;
}

/// Says that there is no table to replace.
const NO_PERSONAL_TABLE: &str = "the users of this method keep no item table of their own";

/// Returns the error of a client that asks nobody.
fn no_request(user: UserId) -> Error {
    Error::Update(format!(
        "{user} has no request to the third party that its method names"
    ))
}

/// Holds the item table that a user keeps for itself.
#[derive(Clone, Debug, PartialEq)]
pub struct PersonalTable {
    /// The name in the papers, such as `D`.
    pub name: Cow<'static, str>,
    /// The values, with a row for each item.
    pub values: Table,
    /// Whether scores are computed with the sum of this table and the shared one, as in FedRAP.
    /// Otherwise this one stands for the shared one, as in PFedRec.
    pub is_added: bool,
}

/// Holds the vector that a user keeps for itself.
#[derive(Clone, Debug, PartialEq)]
pub struct PersonalVector {
    /// The name in the papers, such as `u`.
    pub name: Cow<'static, str>,
    /// The values.
    pub values: Vec<f32>,
}

/// Copies a client, for a participation that may be cut off before its training ends. Every client
/// that is `Clone` implements it.
pub trait CloneClient {
    /// Returns a copy of the client.
    fn snapshot(&self) -> Box<dyn Client>;
}

impl<C: Client + Clone + 'static> CloneClient for C {
    fn snapshot(&self) -> Box<dyn Client> {
        Box::new(self.clone())
    }
}

/// Holds the buffers of one worker thread, which are reused from client to client and pass nothing
/// from one to the next.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The training samples of the present participation.
    pub samples: SampleScratch,
    /// The distinct rows of a participation, and its samples.
    pub round_rows: RoundRows,
    /// The rows that were gathered for training.
    pub packed: PackedRows,
    /// The weights of a batch over all gathered rows.
    pub weights: RowWeights,
    /// The distinct rows of a mini-batch.
    pub batch: BatchRows,
    /// The places of rows in a private table.
    pub slots: Vec<u32>,
    /// The memory for solving for a user vector.
    pub least_squares: LeastSquares,
    /// The memory for the values of the next [`Trained`].
    pub values: Vec<u8>,
}
