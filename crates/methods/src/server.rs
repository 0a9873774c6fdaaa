//! Defines the server side of a method: what each user downloads, how uploads are added up, and how
//! the server steps.
//!
//! A step has three parts. Once it is known which updates the step consists of, an [`Accumulator`]
//! *absorbs* them, decoded, in the order of (user, invitation). Accumulators of one step can be
//! *merged*, so that any peer may hold one. The server then *finishes* the step. Most methods need
//! no server of their own, since an [`Averager`](super::averager::Averager) with a rule for each
//! block serves them.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use super::task::Phase;
use fedrecsim_core::{Error, InvitationId, Result, Round, Stream, Streams, UserId};
use fedrecsim_model::algebra::AlgebraError;
use fedrecsim_model::magnitude::{MagnitudeCounts, SupportCount};
use fedrecsim_model::noisy_sum::NoisySum;
use fedrecsim_model::{Model, ModelUpdate, StateVisitor};
pub use fedrecsim_scenario::{StepWeights, UploadUse, WeightTotals};

/// Steps the model of a method, and keeps the state that this takes.
pub trait Server: Send {
    /// Returns the present model, which is evaluated, exported and digested.
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

    /// Returns what users download who are evaluated now, if that is something else than
    /// [`Self::download`]; `None`, which is the default, if it is the same. Participants may get a
    /// part of the model that is not enough to score with. A method that returns something says so
    /// in its traffic ([`sends_chosen_rows`](fedrecsim_scenario::Traffic::sends_chosen_rows)).
    fn download_to_score(&self) -> Option<Download> {
        None
    }

    /// Returns whether the next step needs uploads. Otherwise nobody is invited, and the server
    /// steps with an empty accumulator.
    fn needs_participants(&self) -> bool {
        true
    }

    /// Returns what a step uses of the updates. Only where that is their plain sum can noise for
    /// privacy be added to it, and only where it is a sum can secure aggregation hide them. The
    /// default is that it uses each.
    fn upload_use(&self) -> UploadUse {
        UploadUse::Each
    }

    /// Returns an empty accumulator.
    fn accumulator(&self) -> Box<dyn Accumulator>;

    /// Returns an empty accumulator for a step with noise for privacy, if the server adds up values
    /// that it computes from each update, such as a gradient that it back-propagates. Each part of
    /// that sum goes through `noise`, and the sum gets the noise. Other servers have none, and the
    /// noise is in the sum of their uploads if that is what they use.
    fn noisy_accumulator(&self, _noise: NoisySum) -> Option<Box<dyn Accumulator>> {
        None
    }

    /// Makes a step from what `sums` has absorbed.
    ///
    /// # Errors
    /// [`Error::Update`] if `sums` is not of the kind that [`Self::accumulator`] makes, and
    /// any error of the method, such as a singular system.
    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport>;

    /// Visits the state besides the model, such as the moments of an optimiser, counts, and
    /// embeddings that never travel.
    ///
    /// # Errors
    /// As [`StateVisitor::values`].
    fn visit_state(&mut self, _state: &mut StateVisitor<'_>) -> Result<()> {
        Ok(())
    }

    /// Forgets what belongs to the run that is over, when another run starts from its parameters:
    /// ratings that users sent, sums that are not complete, the stage of a schedule. The model stays,
    /// and so does what it is no use without. The default forgets nothing.
    fn begin_anew(&mut self) {}
}

/// Says what participants download.
#[derive(Clone, Debug)]
pub enum Download {
    /// They download nothing: they are told to take part, and no frame travels.
    Nothing,
    /// All participants download this model.
    Shared(Model),
    /// Each participant has a download of its own, which is made when it is needed.
    PerUser(Arc<dyn PersonalDownloads>),
}

/// Makes the downloads of single users, as the server's state was at one step.
pub trait PersonalDownloads: Send + Sync + Debug {
    /// Makes the download of `user`. Every call for the same user returns the same bits.
    ///
    /// # Errors
    /// An error of the method.
    fn download(&self, user: UserId) -> Result<Model>;

    /// Makes the downloads of `users`, one for each and in their order, with the bits of
    /// [`Self::download`]. Override this if several users at a time are less work than one after
    /// another.
    ///
    /// # Errors
    /// As [`Self::download`].
    fn downloads(&self, users: &[UserId]) -> Result<Vec<Model>> {
        users.iter().map(|user| self.download(*user)).collect()
    }

    /// Returns whether every download has all blocks of its user's layout. Its length may then be
    /// known before it is made.
    fn has_all_blocks(&self) -> bool {
        false
    }
}

/// Describes one of the updates that a step consists of.
#[derive(Clone, Copy, Debug)]
pub struct Contribution<'a> {
    /// The sender.
    pub user: UserId,
    /// The invitation that the update answers.
    pub invitation_id: InvitationId,
    /// The phase that the sender took part in, which may be an earlier one than the server's where
    /// rounds do not wait for everybody.
    pub phase: Phase,
    /// The update, as decoded from the frame.
    pub update: &'a ModelUpdate,
    /// The model b that the sender received and started from. Rows that the update leaves out refer
    /// to it. It has no blocks where each sender has a download of its own and sends statistics
    /// alone.
    pub received: &'a Model,
    /// The model before the downlink's codec encoded it, or `None` if `received` has the same bits.
    pub intended: Option<&'a Model>,
    /// A number that is the same for senders who received the same frame, and differs between
    /// frames.
    pub download_number: u64,
    /// The weight of the update by the run's policy.
    pub weight: f64,
    /// The weight of b, which is subtracted: 0 where the update itself counts, and `weight` where
    /// its difference to b does.
    pub base_weight: f64,
    /// Says whether b is the server's present model, so that the two need not be told apart.
    pub is_fresh: bool,
}

impl<'a> Contribution<'a> {
    /// Describes an update that counts itself, with a weight of 1, and whose sender received the
    /// server's present model without loss and started from it.
    pub fn fresh(
        user: UserId,
        invitation_id: InvitationId,
        update: &'a ModelUpdate,
        received: &'a Model,
    ) -> Self {
        Self {
            user,
            invitation_id,
            phase: Phase::default(),
            update,
            received,
            intended: None,
            download_number: 0,
            weight: 1.0,
            base_weight: 0.0,
            is_fresh: true,
        }
    }

    /// Returns the weight that the method gives the update: 1 if it says none, and 0 instead of a
    /// negative one.
    pub fn weight_by_method(&self) -> f64 {
        self.update
            .scalars
            .weight
            .map_or(1.0, |weight| f64::from(weight.max(0.0)))
    }
}

/// Adds up the contributions of a step.
pub trait Accumulator: Any + Send {
    /// Adds these contributions. They come in the order of (user, invitation), possibly over
    /// several calls.
    ///
    /// # Errors
    /// An error of the method.
    fn absorb(&mut self, contributions: &[Contribution<'_>]) -> Result<()>;

    /// Adds what another accumulator of the same step has absorbed.
    ///
    /// # Errors
    /// [`Error::Update`] for another kind of accumulator.
    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()>;
}

/// Returns the accumulator as its own type.
///
/// # Errors
/// [`Error::Update`] if it is of another type.
pub fn downcast<A: Accumulator>(sums: Box<dyn Accumulator>) -> Result<Box<A>> {
    let any: Box<dyn Any> = sums;
    any.downcast().map_err(|_| {
        Error::Update("the sums of a step come from another kind of accumulator".to_owned())
    })
}

/// Describes the circumstances of a step.
#[derive(Clone, Copy)]
pub struct StepContext<'a> {
    /// The number of steps that were made before this one.
    pub step: u32,
    /// The number of users of the run who have something to train on.
    pub users: u32,
    /// Returns what the run's policy keeps and divides by in a step whose weights add up to these
    /// totals.
    pub normalise: &'a dyn Fn(&WeightTotals) -> StepWeights,
    /// The round of the step. Where rounds do not wait for everybody, a round may have several
    /// steps.
    pub round: Round,
    /// The largest magnitude that a parameter may have.
    pub divergence_limit: f32,
    /// The number of contributions that was expected, for use in place of the real one where noise
    /// on the sums hides whether a user took part.
    pub expected_contributions: Option<f64>,
    streams: Streams,
}

impl<'a> StepContext<'a> {
    /// Describes a step, in the round of the same number and without a limit of magnitudes.
    pub fn new(
        step: u32,
        users: u32,
        normalise: &'a dyn Fn(&WeightTotals) -> StepWeights,
        streams: Streams,
    ) -> Self {
        Self {
            step,
            users,
            normalise,
            round: Round(step),
            divergence_limit: f32::MAX,
            expected_contributions: None,
            streams,
        }
    }

    /// Refuses a parameter of the server whose largest magnitude is above the limit or NaN.
    ///
    /// # Errors
    /// [`Error::Diverged`], naming the round and the parameter.
    pub fn check_magnitude(&self, parameter: &'static str, largest: f32) -> Result<()> {
        match largest <= self.divergence_limit {
            true => Ok(()),
            false => Err(self.diverged(parameter, largest)),
        }
    }

    /// Returns the error for a parameter of the server that has reached `value`.
    pub(crate) fn diverged(&self, parameter: &'static str, value: f32) -> Error {
        Error::Diverged {
            round: self.round,
            user: None,
            parameter: parameter.into(),
            value,
            limit: self.divergence_limit,
        }
    }

    /// Returns the error for `what` the server cannot solve or decompose: it is singular, or not
    /// finite.
    pub(crate) fn unsolvable(&self, what: &'static str, cause: AlgebraError) -> Error {
        match cause {
            AlgebraError::NotFinite => self.diverged(what, f32::NAN),
            AlgebraError::NotPositiveDefinite { .. } => Error::Singular {
                round: Some(self.round),
                user: None,
                system: what.into(),
                cause: cause.to_string(),
            },
            other => Error::Update(other.to_string()),
        }
    }

    /// Returns this step's randomness of a name that the server chooses, such as that of its noise.
    pub(crate) fn named_stream(&self, name: &str) -> Stream {
        self.streams.named(name, u64::MAX, u64::from(self.step))
    }
}

/// Holds what a step reports to the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepReport {
    /// The magnitudes of all values of all uploaded tables of single precision.
    pub uploads: MagnitudeCounts,
    /// How many values are not 0 in at least one of the whole tables that were averaged.
    pub union: SupportCount,
    /// The number of item rows that the server visited, which takes virtual time.
    pub row_visits: u64,
    /// The number of multiply-adds that the server made besides.
    pub multiply_adds: u64,
    /// The mean loss, if the server knows one.
    pub loss: Option<f64>,
}
