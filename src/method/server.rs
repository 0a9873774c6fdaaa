//! The server side of a method: what each user downloads, how uploads are taken in, and what a step makes of them.
//!
//! A step has three parts. An [`Accumulator`] *absorbs* decoded contributions in the order of (user, invitation) once it
//! is known which updates the step consists of; accumulators of one step can be *merged*, so that any peer may hold one;
//! and the server *finishes* the step. Most methods need no server side of their own: an
//! [`Averager`](super::averager::Averager) with a rule for each block serves them.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use super::task::Phase;
use crate::error::{Error, Result};
use crate::ids::{InvitationId, Round, UserId};
use crate::model::blocks::{Model, ModelUpdate};
use crate::model::magnitude::MagnitudeCounts;
use crate::model::state::StateVisitor;
use crate::rng::{Stream, Streams};
pub use crate::scenario::{StepWeights, WeightTotals};

/// The server side of a method, with whatever state it keeps.
pub trait Server: Send {
    /// Returns the model as it is now: what is evaluated, exported and digested.
    fn model(&self) -> &Model;

    /// Replaces the model, which has the layout of [`Self::model`].
    ///
    /// # Errors
    /// [`Error::Update`] for a model of another layout.
    fn set_model(&mut self, model: Model) -> Result<()>;

    /// Returns the phase that the next participations belong to.
    fn phase(&self) -> Phase {
        Phase::default()
    }

    /// Returns what the participants of the present phase download.
    fn download(&self) -> Download {
        Download::Shared(self.model().clone())
    }

    /// Returns whether the next step is one of users' uploads. Otherwise the server steps by itself, with an empty
    /// accumulator, and nobody is invited.
    fn needs_participants(&self) -> bool {
        true
    }

    /// Returns an accumulator that has taken nothing in.
    fn accumulator(&self) -> Box<dyn Accumulator>;

    /// Makes a step of what `sums` has taken in.
    ///
    /// # Errors
    /// [`Error::Update`] for sums of another kind of accumulator, and whatever the method finds wrong, such as a singular
    /// system.
    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport>;

    /// Visits the state besides the model: moments of an optimiser, counts, embeddings that never travel.
    ///
    /// # Errors
    /// As [`StateVisitor::values`].
    fn visit_state(&mut self, _state: &mut StateVisitor<'_>) -> Result<()> {
        Ok(())
    }
}

/// What participants download.
#[derive(Clone, Debug)]
pub enum Download {
    /// Nothing: they are told to take part, and no frame travels.
    Nothing,
    /// All download the same.
    Shared(Model),
    /// Each user has a download of its own, which is made when it is needed and not held.
    PerUser(Arc<dyn PersonalDownloads>),
}

/// Makes the downloads of single users, as the server's state was at one step.
pub trait PersonalDownloads: Send + Sync + Debug {
    /// Makes the download of `user`. Called again for the same user, it returns the same bits.
    ///
    /// # Errors
    /// Whatever the method finds wrong.
    fn download(&self, user: UserId) -> Result<Model>;
}

/// One update that a step consists of, decoded.
#[derive(Clone, Copy, Debug)]
pub struct Contribution<'a> {
    /// The sender.
    pub user: UserId,
    /// The invitation that the update answers.
    pub invitation_id: InvitationId,
    /// What the frame says.
    pub update: &'a ModelUpdate,
    /// What the sender received and started from (b); rows that the update leaves out refer to it.
    pub received: &'a Model,
    /// What the server meant to send, where the downlink lost some of it; `None` if `received` is that, bit for bit.
    pub meant: Option<&'a Model>,
    /// A number that is the same for those who received the same frame, and for nobody else.
    pub download_number: u32,
    /// What the update counts by the run's policy.
    pub weight: f64,
    /// What of it is taken away of b: 0 where the update itself counts, `weight` where its difference to b does.
    pub base_weight: f64,
    /// Whether b is the server's model of now, so that the two need not be told apart.
    pub is_fresh: bool,
}

impl<'a> Contribution<'a> {
    /// Describes an update that itself counts, with a weight of 1, and whose sender started from the server's model of
    /// now, which it received without loss.
    pub fn fresh(user: UserId, invitation_id: InvitationId, update: &'a ModelUpdate, received: &'a Model) -> Self {
        let (meant, download_number, weight, base_weight, is_fresh) = (None, 0, 1.0, 0.0, true);
        Self { user, invitation_id, update, received, meant, download_number, weight, base_weight, is_fresh }
    }

    /// Returns the weight that the method gives the update: 1 if it says none, and 0 instead of a negative one.
    pub fn weight_by_method(&self) -> f64 {
        self.update.scalars.weight.map_or(1.0, |weight| f64::from(weight.max(0.0)))
    }
}

/// Takes contributions in.
pub trait Accumulator: Any + Send {
    /// Takes these in; they come in the order of (user, invitation), some at a time.
    ///
    /// # Errors
    /// Whatever the method finds wrong with one of them.
    fn absorb(&mut self, contributions: &[Contribution<'_>]) -> Result<()>;

    /// Adds what another accumulator of the same step has taken in.
    ///
    /// # Errors
    /// [`Error::Update`] for another kind of accumulator.
    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()>;
}

/// Returns an accumulator as the type that it is.
///
/// # Errors
/// [`Error::Update`] if it is of another type.
pub fn downcast<A: Accumulator>(sums: Box<dyn Accumulator>) -> Result<Box<A>> {
    let any: Box<dyn Any> = sums;
    any.downcast().map_err(|_| Error::Update("the sums of a step come from another kind of accumulator".to_owned()))
}

/// The circumstances of a step.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct StepContext<'a> {
    /// Steps that were made before this one.
    pub step: u32,
    /// Users of the run.
    pub users: u32,
    /// How the run's policy brings weights to a step.
    pub normalise: &'a dyn Fn(&WeightTotals) -> StepWeights,
    streams: Streams,
    round: Round,
    divergence_limit: f32,
}

impl<'a> StepContext<'a> {
    /// Describes a step.
    pub fn new(step: u32, users: u32, normalise: &'a dyn Fn(&WeightTotals) -> StepWeights, streams: Streams) -> Self {
        Self { step, users, normalise, streams, round: Round(step), divergence_limit: f32::MAX }
    }

    /// The same as part of `round`, with the largest magnitude that the scenario allows a parameter.
    pub fn within(self, round: Round, divergence_limit: f32) -> Self {
        Self { round, divergence_limit, ..self }
    }

    /// Refuses a parameter of the server whose largest magnitude is not below the limit (or is NaN).
    ///
    /// # Errors
    /// [`Error::Diverged`], naming the round and the parameter.
    pub fn check_magnitude(&self, parameter: &'static str, largest: f32) -> Result<()> {
        match largest <= self.divergence_limit {
            true => Ok(()),
            false => Err(self.diverged(parameter, largest)),
        }
    }

    /// Returns the error of a parameter of the server that has reached `value`.
    pub fn diverged(&self, parameter: &'static str, value: f32) -> Error {
        Error::Diverged { round: self.round, user: None, parameter, value, limit: self.divergence_limit }
    }

    /// Returns this step's randomness of a name that the rule chooses, for noise.
    pub fn named_stream(&self, name: &str) -> Stream {
        self.streams.named(name, u64::MAX, u64::from(self.step))
    }
}

/// What a step tells the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepReport {
    /// Magnitudes over all uploads: every value of every whole table of single precision.
    pub uploads: MagnitudeCounts,
    /// Item rows that the server visited, in a step that takes time of its own.
    pub row_visits: u64,
    /// Multiplications with an addition each that the server made beside them.
    pub multiply_adds: u64,
    /// The mean loss, where the server knows one.
    pub loss: Option<f64>,
}
