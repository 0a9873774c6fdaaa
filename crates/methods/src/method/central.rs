//! Implements methods that run at the server: users send their ratings once, and the server works
//! on them from then on.
//!
//! The ratings travel as frames, so that their bytes and the time that they take are booked like
//! those of every upload. A step is one pass of the server over all ratings, which takes virtual
//! time at the server's speed.
//!
//! A method declares its parameters, its blocks, a pass and how its devices score ([`Central`]).

use std::fmt::Debug;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::declare::{Block, Memory, layout_of, start_of, traffic_blocks};
use super::keys::Parameters;
use super::network;
use super::server::{
    Accumulator, Contribution, Download, Server, StepContext, StepReport, downcast,
};
use super::user_vector::{last_ratings, score_items};
use super::{
    Client, LocalTask, LocalUpdate, Method, Phase, Problem, Scorer, ScoringContext, Scratch,
};
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::UserId;
use fedrecsim_model::model::blocks::{Model, ModelUpdate};
use fedrecsim_model::model::layout::{BlockLayout, Layout};
use fedrecsim_model::model::neural::optimizer::AdamParameters;
use fedrecsim_model::model::state::StateVisitor;
use fedrecsim_model::model::table::{RowSet, TableShape, TableUpdate, extend_bytes, floats};
use fedrecsim_scenario::scenario::sizes::ProblemSize;
use fedrecsim_scenario::scenario::{ParameterFault, Traffic};

/// Declares a method at the server. Users upload their ratings, and download nothing.
pub trait Central: Debug + Send + Sync + Sized + 'static {
    /// The keys of the method's table in scenario files.
    type Parameters: Parameters;

    /// What the server remembers beside the model, such as the moments of an optimiser.
    type Memory: Memory;

    /// The name in scenario files.
    const NAME: &'static str;

    /// The summary that `fedrecsim methods` prints, on one line.
    const SUMMARY: &'static str;

    /// The paper and the code that the method follows.
    const SOURCE: &'static str;

    /// Whether training draws negatives as `dataset.negatives` says.
    const DRAWS_NEGATIVES: bool = true;

    /// Whether scores are predictions of ratings.
    const PREDICTS_RATINGS: bool = false;

    /// Fills in defaults that depend on other parameters, and returns the faults that bounds cannot
    /// express.
    fn resolve(_parameters: &mut Self::Parameters) -> Vec<ParameterFault> {
        Vec::new()
    }

    /// Makes the method from its parameters. It draws no model.
    fn new(parameters: Self::Parameters, problem: &Problem) -> Self;

    /// Lists the blocks of the model, which has everything that scoring needs.
    fn blocks(&self, size: ProblemSize) -> Vec<Block>;

    /// Completes the initial model, in which `drawn` has the start of every block.
    fn initial(&self, drawn: Model) -> Model {
        drawn
    }

    /// Completes a model that the server is given.
    ///
    /// # Errors
    /// Whatever the method finds wrong with it.
    fn adopted(&self, model: Model) -> Result<Model> {
        Ok(model)
    }

    /// Makes what the server remembers before the first pass.
    fn memory(&self, _model: &Model) -> Self::Memory {
        Self::Memory::default()
    }

    /// Makes one pass over the ratings.
    ///
    /// # Errors
    /// Divergence, and whatever else the method finds wrong.
    fn pass(&self, pass: Pass<'_, Self::Memory>) -> Result<StepReport>;

    /// Makes the scorer of a user. The default scores by the products of the user's row of the first
    /// block with the rows of the second one.
    ///
    /// # Errors
    /// Those of [`Client::scorer`].
    fn scorer<'a>(
        &'a self,
        context: &ScoringContext<'a>,
        _scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        let (user, model) = (context.user.index(), context.model);
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            score_items(model.table(0).row(user), model.table(1), items, scores)
        }))
    }
}

/// Holds what a pass works with.
pub struct Pass<'a, S> {
    /// The model, which the pass changes.
    pub model: &'a mut Model,
    /// What the server remembers.
    pub memory: &'a mut S,
    /// The ratings, in the order of users.
    pub ratings: &'a [UserRatings],
    /// The problem, with what the protocol of the experiment lets a server use.
    pub problem: &'a Problem,
    /// The circumstances of the step.
    pub step: &'a StepContext<'a>,
}

/// Remembers the moments of Adam for all values of the model, one block after the other, and the
/// memory of a batch.
#[derive(Clone, Debug, Default)]
pub struct Adam<B> {
    pub values: AdamParameters,
    pub buffers: B,
}

impl<B: Clone + Default + Send + 'static> Memory for Adam<B> {
    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        self.values.visit_memory(state)
    }
}

impl<B: Default> Adam<B> {
    /// Remembers nothing yet of the blocks of a model from `first` on.
    pub(crate) fn of(model: &Model, first: usize) -> Self {
        Self {
            values: AdamParameters::new(network::parameters(model, first)),
            buffers: B::default(),
        }
    }
}

/// Is the method that follows from a declaration.
#[derive(Debug)]
pub(crate) struct AtServer<M> {
    method: Arc<M>,
    problem: Problem,
    initial: Model,
}

impl<M: Central> AtServer<M> {
    /// Makes the method for a problem.
    pub(crate) fn new(parameters: M::Parameters, problem: &Problem) -> Self {
        let method = M::new(parameters, problem);
        let drawn = start_of(method.blocks(problem.size()), problem.streams);
        Self {
            initial: method.initial(drawn),
            method: Arc::new(method),
            problem: problem.clone(),
        }
    }

    /// Returns the layout of the model for a problem of this size.
    pub(crate) fn sizes(parameters: M::Parameters, size: ProblemSize) -> Layout {
        let method = M::new(
            parameters,
            &Problem::of_size(size, fedrecsim_core::rng::Streams::new(0)),
        );
        layout_of(&method.blocks(size), |_| true)
    }
}

/// Tells what methods at the server exchange.
pub(crate) fn traffic() -> Traffic {
    Traffic {
        blocks: traffic_blocks(&ratings_layout(1), true),
        ..Traffic::default()
    }
}

impl<M: Central> Method for AtServer<M> {
    fn initial(&self) -> Model {
        self.initial.clone()
    }

    fn download_layout(&self, _phase: Phase) -> Layout {
        Layout::none()
    }

    fn upload_layout(&self, _phase: Phase) -> Layout {
        ratings_layout(self.problem.items)
    }

    fn client(&self, _user: UserId) -> Box<dyn Client> {
        Box::new(CentralClient(Arc::clone(&self.method)))
    }

    fn server(&self) -> Box<dyn Server> {
        Box::new(CentralServer {
            memory: self.method.memory(&self.initial),
            method: Arc::clone(&self.method),
            problem: self.problem.clone(),
            model: self.initial.clone(),
            ratings: Vec::new(),
        })
    }

    fn predicts_ratings(&self) -> bool {
        M::PREDICTS_RATINGS
    }

    fn traffic(&self) -> Traffic {
        traffic()
    }
}

/// Holds the ratings that one user has sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UserRatings {
    /// The user.
    pub user: UserId,
    /// The items that the user has rated, ascending, each once.
    pub items: Vec<u32>,
    /// The rating of each item, which is the last one if the user has rated the item more than
    /// once.
    pub ratings: Vec<f32>,
}

/// The name of the block in which users send their ratings.
const RATINGS: &str = "ratings";

/// Returns the layout of what users of a central method upload: a rating for each item that they
/// have rated.
fn ratings_layout(items: usize) -> Layout {
    Layout::new(vec![
        BlockLayout::item_table(RATINGS, TableShape::new(items, 1)).statistic(),
    ])
}

/// Implements the server side of a central method.
struct CentralServer<M: Central> {
    method: Arc<M>,
    problem: Problem,
    model: Model,
    memory: M::Memory,
    ratings: Vec<UserRatings>,
}

impl<M: Central> Server for CentralServer<M> {
    fn model(&self) -> &Model {
        &self.model
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.model.check_same_layout(&model)?;
        self.model = self.method.adopted(model)?;
        Ok(())
    }

    fn download(&self) -> Download {
        Download::Nothing
    }

    fn needs_participants(&self) -> bool {
        self.ratings.is_empty()
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(Gathered::default())
    }

    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport> {
        let Gathered(sent) = *downcast::<Gathered>(sums)?;
        self.ratings.extend(sent);
        self.method.pass(Pass {
            model: &mut self.model,
            memory: &mut self.memory,
            ratings: &self.ratings,
            problem: &self.problem,
            step,
        })
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.plain(&mut self.ratings)?;
        self.memory.visit_state(state)
    }
}

/// Holds the ratings that have arrived, in the order of users.
#[derive(Default)]
struct Gathered(Vec<UserRatings>);

impl Accumulator for Gathered {
    fn absorb(&mut self, contributions: &[Contribution<'_>]) -> Result<()> {
        for contribution in contributions {
            let sent = &contribution.update.blocks[0];
            // A dense codec sends zeros for the items that were not rated.
            let rated = sent
                .iter()
                .map(|(row, bytes)| (row as u32, floats(bytes).next().unwrap_or(0.0)));
            let (items, ratings) = rated.filter(|(_, rating)| *rating != 0.0).unzip();
            self.0.push(UserRatings {
                user: contribution.user,
                items,
                ratings,
            });
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        self.0.extend(downcast::<Self>(other)?.0);
        self.0.sort_by_key(|ratings| ratings.user);
        Ok(())
    }
}

/// Implements the device of a user of a central method. It sends its ratings when it is invited,
/// and keeps no state.
struct CentralClient<M>(Arc<M>);

impl<M> Clone for CentralClient<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M: Central> Client for CentralClient<M> {
    fn train(&mut self, task: &LocalTask<'_>, _scratch: &mut Scratch) -> Result<LocalUpdate> {
        let shape = TableShape::new(task.items(), 1);
        let (items, ratings) = last_ratings(&task.own);
        let mut values = Vec::with_capacity(4 * ratings.len());
        extend_bytes(&mut values, &ratings);
        let update = TableUpdate::of_rows(shape, RowSet::Listed(items), values.into());
        Ok(LocalUpdate::new(ModelUpdate::of_table(update), 0.0, 0))
    }

    fn scorer<'a>(
        &'a self,
        context: &ScoringContext<'a>,
        scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        self.0.scorer(context, scratch)
    }

    fn visit_state(&mut self, _state: &mut StateVisitor<'_>) -> Result<()> {
        Ok(())
    }
}
