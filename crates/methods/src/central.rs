//! Implements methods that run at the server: users send their ratings once, and the server works
//! on them from then on.
//!
//! The ratings travel as frames, so that their bytes and the time that they take are booked like
//! those of every upload. A step is one pass of the server over all ratings, which takes virtual
//! time at the server's speed.
//!
//! A method declares its parameters, its blocks, a pass and how its devices score ([`Central`]).

use std::sync::Arc;

use super::declare::{Block, Declare, Memory, Own, item_table};
use super::network;
use super::server::{
    Accumulator, Contribution, Download, Server, StepContext, StepReport, downcast,
};
use super::user_vector::last_ratings;
use super::{
    Averager, LocalTask, Parameters, Placement, Problem, Products, Scoring, ScoringContext,
    Scratch, Trained, UserRatings,
};
use fedrecsim_core::work::Work;
use fedrecsim_core::{Result, UserId};
use fedrecsim_data::dataset::OwnData;
use fedrecsim_model::neural::optimizer::AdamParameters;
use fedrecsim_model::table::{TableShape, TableUpdate, floats};
use fedrecsim_model::{Model, ModelUpdate, StateVisitor};
use fedrecsim_scenario::ParameterFault;
use fedrecsim_scenario::sizes::ProblemSize;

/// Declares a method at the server. Users upload their ratings, and download nothing.
pub trait Central: Send + Sync + Sized + 'static {
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

    /// The formulas of the method, as [`Declare::FORMULA`].
    const FORMULA: &'static [&'static str] = &[];

    /// Where the paper, its code and this method differ, as [`Declare::DIFFERS`].
    const DIFFERS: &'static str = "";

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

    /// Returns what a user sends: items, ascending and each once, and a value for each. The default
    /// sends the last rating of every item that the user has rated.
    ///
    /// # Errors
    /// An error of the method.
    fn sent(&self, (own, _user): (&OwnData<'_>, UserId)) -> Result<(Vec<u32>, Vec<f32>)> {
        Ok(last_ratings(own))
    }

    /// Completes the initial model; `drawn` has the start of every block.
    fn initial(&self, drawn: Model) -> Model {
        drawn
    }

    /// Completes a model that the server is given.
    ///
    /// # Errors
    /// An error of the method.
    fn adopted(&self, model: Model) -> Result<Model> {
        Ok(model)
    }

    /// Makes what the server remembers before the first pass.
    fn memory(&self, _model: &Model) -> Self::Memory {
        Self::Memory::default()
    }

    /// Forgets what the server remembers of the ratings of a run that is over. The default forgets
    /// nothing.
    fn begin_anew(&self, _memory: &mut Self::Memory) {}

    /// Makes one pass over the ratings.
    ///
    /// # Errors
    /// Divergence, and any other error of the method.
    fn pass(&self, pass: Pass<'_, Self::Memory>) -> Result<StepReport>;

    /// Makes the scorer of a user. The default scores by the products of the user's row of the first
    /// block with the rows of the second one.
    ///
    /// # Errors
    /// Those of [`Client::scorer`](super::Client::scorer).
    fn scorer<'a>(&'a self, context: ScoringContext<'a>) -> Scoring<'a> {
        let (user, model) = (context.user.index(), context.model);
        let vector = model.table(0).row(user).to_vec();
        Ok(Box::new(Products::new(vector, model.table(1))))
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

/// Remembers the moments of Adam for the values of blocks of the model, one block after the other.
impl Memory for AdamParameters {
    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        self.visit_memory(state)
    }
}

impl Pass<'_, AdamParameters> {
    /// Trains the blocks from `first` on, which an error calls `name`, and reports the mean loss
    /// with `visits` row visits for each sample. `step` steps the values of these blocks by a batch
    /// of this size and returns its loss, as a sum over the batch.
    ///
    /// # Errors
    /// As [`Pass::report`].
    pub(crate) fn by_batches<T>(
        &mut self,
        (first, name): (usize, &'static str),
        (samples, size): (&[T], u32),
        visits: u64,
        mut step: impl FnMut(&mut AdamParameters, &[T]) -> f64,
    ) -> Result<StepReport> {
        self.memory.values = network::parameters(self.model, first);
        let batches = samples.chunks(size as usize);
        let loss: f64 = batches.map(|batch| step(self.memory, batch)).sum();
        let report = self.report((name, &self.memory.values), (loss, samples.len()), visits)?;
        network::set(self.model, first, &self.memory.values);
        Ok(report)
    }
}

/// The declaration that follows from one of a method at the server: the blocks stay there, and
/// devices send their ratings.
pub(crate) struct AtServer<M> {
    method: Arc<M>,
    problem: Problem,
}

impl<M: Central> Declare for AtServer<M> {
    type Parameters = M::Parameters;
    type Memory = ();

    const NAME: &str = M::NAME;
    const SUMMARY: &str = M::SUMMARY;
    const SOURCE: &str = M::SOURCE;
    const FORMULA: &[&str] = M::FORMULA;
    const DIFFERS: &str = M::DIFFERS;
    const PLACEMENT: Placement = Placement::Central;
    const DRAWS_NEGATIVES: bool = M::DRAWS_NEGATIVES;
    const PREDICTS_RATINGS: bool = M::PREDICTS_RATINGS;
    const WITHOUT_CONTROLS: Option<&str> = Some("it runs at the server");

    fn resolve(parameters: &mut M::Parameters) -> Vec<ParameterFault> {
        M::resolve(parameters)
    }

    fn new(parameters: M::Parameters, problem: &Problem) -> Self {
        Self {
            method: Arc::new(M::new(parameters, problem)),
            problem: problem.clone(),
        }
    }

    /// A device sends a number for each item that it sends, a rating or a weight.
    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let model = self.method.blocks(size).into_iter();
        let ratings = item_table("ratings", size.items, 1).upload_only();
        model.map(Block::server_only).chain([ratings]).collect()
    }

    fn initial(&self, drawn: Model) -> Model {
        self.method.initial(drawn)
    }

    fn train(&self, _: &mut Own, task: &LocalTask<'_>, _scratch: &mut Scratch) -> Result<Trained> {
        let (items, ratings) = self.method.sent((&task.own, task.user))?;
        let shape = TableShape::new(task.items(), 1);
        let update = ModelUpdate::of_table(TableUpdate::listed(shape, items, &ratings, 1.0)?);
        Ok(Trained::new(update, 0.0, Work::default()))
    }

    fn scorer<'a>(&'a self, _: &'a Own, context: ScoringContext<'a>) -> Scoring<'a> {
        self.method.scorer(context)
    }

    fn server(&self, averager: Averager) -> Box<dyn Server> {
        Box::new(CentralServer {
            memory: self.method.memory(averager.model()),
            method: Arc::clone(&self.method),
            problem: self.problem.clone(),
            model: averager.model().clone(),
            ratings: Vec::new(),
        })
    }
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

    fn begin_anew(&mut self) {
        self.ratings.clear();
        self.method.begin_anew(&mut self.memory);
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
            let rated = sent.iter();
            let rated = rated.map(|(row, of_row)| (row as u32, floats(of_row).sum::<f32>()));
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
