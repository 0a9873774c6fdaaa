//! Turns a declaration into a method.
//!
//! A method that is a [`Declare`] states its parameters, its [blocks](Block), how it
//! [scores](Score), its [loss](Loss) and how a device goes through its samples ([`Training`]).
//! From the blocks follow the initial model, what travels, the sizes, the private state of a device
//! with its digest, copies and restoration, personal tables, and the server. A method whose
//! arithmetic is its own overrides [`Declare::train`], [`Declare::scorer`] or [`Declare::server`],
//! and still gets the rest.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::averager::Averager;
pub use super::row_counts::Counts;
use super::server::Server;
use super::third_party::{Exchange, Message, ThirdParty};
use super::{
    Class, Classes, LocalTask, OwnNoise, Parameters, Placement, Problem, Scoring, ScoringContext,
    Scratch, Trained,
};
pub use blocks::{
    Block, Start, constant, each, item_table, normal, perceptron, uniform, vector, weights,
};
pub(crate) use blocks::{GoesOn, layer, orthonormal, orthonormal_columns, private_perceptron};
pub use controls::controlled;
use fedrecsim_core::Result;
use fedrecsim_model::{Layout, Model, SharedTable, StateVisitor};
use fedrecsim_scenario::sizes::ProblemSize;
use fedrecsim_scenario::{ParameterFault, Traffic};
pub use method::Declared;
pub(crate) use method::traffic_blocks;
pub use own::Own;
pub use score::{Loss, Optimizer, Product, Score, Training};

mod blocks;
mod controls;
mod flat;
pub(crate) mod learn;
mod method;
mod own;
pub(crate) mod score;
#[cfg(test)]
pub(crate) mod tests;
mod tuned_table;

/// Names something that a device keeps for itself from one participation to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// A private block.
    Block {
        /// The name of the block.
        name: String,
        /// Whether each row belongs to an item.
        has_item_rows: bool,
    },
    /// The device's own version of the shared item table of this name.
    OwnVersion(String),
    /// Anything else, in words.
    Other(&'static str),
}

/// Declares a federated method. [`Entry::of`](super::Entry::of) makes an entry of it.
pub trait Declare: Send + Sync + Sized + 'static {
    /// The keys of the method's table in scenario files.
    type Parameters: Parameters;

    /// What a device remembers beside its private blocks; `()` if nothing.
    type Memory: Memory;

    /// The name in scenario files.
    const NAME: &'static str;

    /// The summary that `fedrecsim methods` prints, on one line.
    const SUMMARY: &'static str;

    /// The paper and the code that the method follows.
    const SOURCE: &'static str;

    /// The formulas of the method, in lines of plain text: how a device scores an item, and what
    /// is minimised or how it is updated. The page of methods has a table of symbols. Empty if the
    /// method states none.
    const FORMULA: &'static [&'static str] = &[];

    /// Where the paper, its code and this method differ, and the key that chooses; empty if nothing
    /// is known to differ.
    const DIFFERS: &'static str = "";

    /// The place where the method runs.
    const PLACEMENT: Placement = Placement::Federated;

    /// Whether training draws negatives as `dataset.negatives` says.
    const DRAWS_NEGATIVES: bool = true;

    /// Whether scores are predictions of ratings.
    const PREDICTS_RATINGS: bool = false;

    /// Why `training.aggregation` has no meaning for the method; `None` if it has one.
    const WITHOUT_CONTROLS: Option<&'static str> = None;

    /// Fills in defaults that depend on other parameters, and returns the faults that bounds cannot
    /// express.
    fn resolve(_parameters: &mut Self::Parameters) -> Vec<ParameterFault> {
        Vec::new()
    }

    /// Makes the method from its parameters. It draws no model.
    fn new(parameters: Self::Parameters, problem: &Problem) -> Self;

    /// Lists the blocks for a problem of this size. Their names do not depend on it.
    fn blocks(&self, size: ProblemSize) -> Vec<Block>;

    /// Returns the classes of users, whose blocks differ in shape.
    fn classes(&self) -> Classes {
        Classes::default()
    }

    /// Lists the blocks of a class, with the names and kinds of [`Self::blocks`], which are those of
    /// the first class and of the server's model.
    fn blocks_of(&self, _class: Class, size: ProblemSize) -> Vec<Block> {
        self.blocks(size)
    }

    /// Returns how a device scores. The default is that the method overrides [`Self::train`] and
    /// [`Self::scorer`].
    fn score(&self) -> Score {
        Score::Own
    }

    /// Returns the loss that training minimises.
    fn loss(&self) -> Loss {
        Loss::BinaryCrossEntropy
    }

    /// Returns how a device goes through its samples.
    fn training(&self) -> Training {
        Training::default()
    }

    /// Returns whether an upload says its number of samples and weighs as much. Otherwise all
    /// uploads weigh the same, which noise on the sum and every epsilon need.
    fn is_weighed(&self) -> bool {
        false
    }

    /// Returns what an upload says of itself beside its rows, so that the server need not count.
    fn counts(&self) -> Counts {
        Counts::Nothing
    }

    /// Names what [`Self::Memory`] holds, as in "the number of the user's participations"; empty if
    /// nothing.
    fn remembers(&self) -> &'static str {
        ""
    }

    /// Returns whether training reads no other rows of downloaded item tables than those of its
    /// samples, and a device keeps no others. Only then can it download these rows alone.
    fn trains_on_sampled_rows(&self) -> bool {
        !matches!(self.score(), Score::Own)
    }

    /// Completes the initial model; `drawn` has the start of every block.
    fn initial(&self, drawn: Model) -> Model {
        drawn
    }

    /// Trains on a participation. The update has the blocks that are uploaded, in the order of the
    /// declaration, and weighs as much as it has samples if the method is weighed.
    ///
    /// # Errors
    /// [`Error::Diverged`](fedrecsim_core::Error::Diverged) if a parameter leaves the allowed
    /// range.
    fn train(
        &self,
        own: &mut Own<Self::Memory>,
        task: &LocalTask<'_>,
        scratch: &mut Scratch,
    ) -> Result<Trained> {
        let goal = (&self.score(), self.loss());
        learn::train(goal, &self.training(), own, task, scratch)
    }

    /// Makes the scorer of a user.
    ///
    /// # Errors
    /// An error of the method, such as a singular system.
    fn scorer<'a>(
        &'a self,
        own: &'a Own<Self::Memory>,
        context: ScoringContext<'a>,
    ) -> Scoring<'a> {
        learn::scorer(self.score(), own, &context)
    }

    /// Makes the server. `averager` follows the rules of the blocks.
    fn server(&self, averager: Averager) -> Box<dyn Server> {
        Box::new(averager)
    }

    /// Returns what travels, and what the server does with it. `declared` is what follows from the
    /// blocks. A method with a server of its own corrects what this does in another way.
    fn traffic(&self, declared: Traffic) -> Traffic {
        declared
    }

    /// Tells what the noise is worth that devices add by themselves.
    fn own_noise(&self) -> Option<OwnNoise> {
        None
    }

    /// Describes what devices exchange with a third party before they train.
    fn exchange(&self) -> Option<Exchange> {
        None
    }

    /// Makes the third party, in a method with an [`Self::exchange`].
    fn third_party(&self) -> Option<Box<dyn ThirdParty>> {
        None
    }

    /// Makes the request to the third party.
    ///
    /// # Errors
    /// An error of the method; the default finds that its devices ask nobody.
    fn request(&self, _own: &Own<Self::Memory>, task: &LocalTask<'_>) -> Result<Message> {
        Err(super::no_request(task.user))
    }
}

/// A device's state beside its private blocks.
pub trait Memory: Clone + Default + Send + 'static {
    /// Visits it, as [`Client::visit_state`](super::Client::visit_state) does.
    ///
    /// # Errors
    /// As [`StateVisitor::values`].
    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()>;
}

impl Memory for () {
    fn visit_state(&mut self, _state: &mut StateVisitor<'_>) -> Result<()> {
        Ok(())
    }
}

/// Remembers anything that can be serialised.
#[derive(Clone, Debug, Default)]
pub struct Remembered<T>(pub T);

impl<T: Clone + Default + Send + Serialize + DeserializeOwned + 'static> Memory for Remembered<T> {
    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.plain(&mut self.0)
    }
}

/// Returns the table of a block of the model.
///
/// # Panics
/// If there is none, which is a defect of the method.
pub fn table_of<'m>(model: &'m Model, name: &str) -> &'m SharedTable {
    model
        .named(name)
        .unwrap_or_else(|| panic!("the model has no table {name}"))
}

/// Returns the layout of the blocks that `is_meant` accepts.
pub(crate) fn layout_of(blocks: &[Block], is_meant: impl Fn(&Block) -> bool) -> Layout {
    let meant = blocks.iter().filter(|block| is_meant(block));
    Layout::new(meant.map(|block| block.layout.clone()).collect())
}
