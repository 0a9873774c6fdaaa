//! All messages, in the order in which a round uses them.
//!
//! Every message is a question with a typed answer, and the asker awaits it: nothing is fire-and-forget.

use std::sync::Arc;

use actix::prelude::*;
use bytes::Bytes;

use super::device::Device;
use super::download::OutgoingDownload;
pub use super::outcome::events::{Booking, Ending, LinkEvent};
use super::outcome::{RoundRecord, Work};
use super::training::{Assignment, Trained};
use crate::error::Result;
use crate::ids::{InvitationId, Round, Step, UserId};
use crate::model::blocks::Model;
use crate::model::magnitude::MagnitudeCounts;
pub use crate::units::Direction;
use crate::units::SimTime;

/// Users that are asked at once: enough to keep the mailboxes busy, few enough that a million users need no
/// million pending answers.
pub const ASKED_AT_ONCE: usize = 4096;

/// Users that a worker thread takes at once: few enough that all threads end together, although one user has a
/// hundred times the ratings of another; enough that handing them out costs nothing.
pub const TAKEN_AT_ONCE: usize = 8;

/// Wiring -> network: let time run until the last round is over.
#[derive(Message)]
#[rtype(result = "Result<()>")]
pub struct Run;

/// Network -> server: the time for a new step has come.
#[derive(Message)]
#[rtype(result = "Result<Orders>")]
pub struct BeginStep {
    /// The step.
    pub step: Step,
    /// The virtual time.
    pub now: SimTime,
}

/// Server -> network: what is to be done now.
#[derive(Debug, Default)]
pub struct Orders {
    /// Send this to them.
    pub invitation: Option<Invitation>,
    /// Ring the alarm then, since the step is due.
    pub deadline: Option<SimTime>,
    /// Ring the alarm then, since somebody becomes available.
    pub alarm: Option<SimTime>,
    /// Whether the step has all that it waits for: close it.
    pub step_due: bool,
}

/// Server -> network: send this to them.
#[derive(Debug)]
pub struct Invitation {
    /// The step whose model it is.
    pub step: Step,
    /// Number of the invitation.
    pub invitation_id: InvitationId,
    /// The invited users, ascending.
    pub cohort: Vec<UserId>,
    /// The global table, encoded.
    pub download: Arc<OutgoingDownload>,
}

/// Network -> client: one enum, so that a user costs one recipient.
#[derive(Message)]
#[rtype(result = "FromClient")]
pub enum ToClient {
    /// The download that is on its way to you. You will have it in time; start to train.
    Participate {
        /// The step whose model it is.
        step: Step,
        /// Number of the invitation.
        invitation_id: InvitationId,
        /// What is being downloaded.
        download: Arc<OutgoingDownload>,
        /// Whether you may need what you have now again: you may be cut off, or asked to lend it meanwhile.
        keep: bool,
    },
    /// Your download, as it came over the link.
    Downloaded(Bytes, Arc<OutgoingDownload>),
    /// Your training has come to its virtual end: take your parameters and upload.
    TrainingEnded(Box<Trained>),
    /// You are cut off. If your training had not ended, you still have what you had before it.
    CutOff,
    /// Metrics or network -> client: lend your parameters, for scoring, for the digest or for a checkpoint.
    Lend,
    /// To whom lent them: here they are again.
    Return(Box<Device>),
}

/// What a client answers.
#[derive(MessageResponse)]
pub enum FromClient {
    /// To [`ToClient::Participate`]: work for a worker thread.
    Assignment(Box<Assignment>),
    /// To [`ToClient::Downloaded`]: whether the frame is sound.
    Sound(bool),
    /// To [`ToClient::TrainingEnded`]: the frame to send.
    Upload(Bytes),
    /// To [`ToClient::Lend`]: the private parameters; `None` if they are still as the method made them.
    Lent(UserId, Option<Box<Device>>),
    /// To the others.
    Done,
    /// The message made no sense in the client's state: a defect of the simulator.
    OutOfTurn,
}

/// Network -> server: an upload has arrived whole.
#[derive(Message)]
#[rtype(result = "Result<Receipt>")]
pub struct UplinkArrived {
    /// The sender.
    pub user: UserId,
    /// The invitation that it answers.
    pub invitation_id: InvitationId,
    /// The frame, as it came over the link.
    pub frame: Bytes,
    /// The virtual time.
    pub now: SimTime,
}

/// Network -> server: this participation will not come to its end.
#[derive(Message)]
#[rtype(result = "Result<Orders>")]
pub struct ParticipationLost {
    /// The user.
    pub user: UserId,
    /// The invitation.
    pub invitation_id: InvitationId,
    /// The virtual time.
    pub now: SimTime,
}

/// Network -> server: the time that you asked to be woken at.
#[derive(Message)]
#[rtype(result = "Result<Orders>")]
pub struct AlarmRang {
    /// The virtual time.
    pub now: SimTime,
}

/// Server -> network: what became of an upload.
#[derive(Debug)]
pub struct Receipt {
    /// What came of it: used, late, stale, or, if the frame is damaged, lost.
    pub ending: Ending,
    /// What to do now, or why the run ends.
    pub orders: Result<Orders>,
}

/// Network -> server: the step is due: make it.
#[derive(Message)]
#[rtype(result = "Result<StepOutcome>")]
pub struct CloseStep {
    /// Whether the round ends with it.
    pub ends_round: bool,
}

/// Server -> network: the new model.
#[derive(Debug)]
pub struct StepOutcome {
    /// The model after the step, and as participants will download it, where a round ends with it.
    pub model: Option<(Model, Arc<OutgoingDownload>)>,
    /// Updates in the average.
    pub aggregated: u32,
    /// Magnitudes over all of them.
    pub uploads: MagnitudeCounts,
    /// Participations that the server waits for no longer, by user, ascending.
    pub given_up: Vec<UserId>,
}

/// Participations of a round by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Participations {
    /// Invitations sent.
    pub invited: u32,
    /// Cut off: by a dropout, a departure or a fault.
    pub dropped: u32,
    /// Given up by the server.
    pub cancelled: u32,
    /// Arrived after their round, or from a model too old to be used.
    pub late: u32,
}

/// What the steps of a round made.
#[derive(Debug, Default)]
pub struct StepsMade {
    /// Steps with an update.
    pub steps: u32,
    /// Updates in all of them.
    pub aggregated: u32,
    /// Magnitudes over all of these.
    pub uploads: MagnitudeCounts,
    /// Sum of the mean local losses of these, step by step in the order of users.
    pub loss_sum: f64,
    /// The model after the last step, and as participants will download it.
    pub model: Option<(Model, Arc<OutgoingDownload>)>,
}

/// Network -> metrics: book what has happened in the open round, before there is too much of it.
#[derive(Message)]
#[rtype(result = "Result<()>")]
pub struct Book {
    /// What has happened.
    pub bookings: Vec<Booking>,
}

/// Network -> metrics: a round is over.
#[derive(Message)]
#[rtype(result = "Result<()>")]
pub struct RoundEnded {
    /// The round.
    pub round: Round,
    /// When it began.
    pub began: SimTime,
    /// When it ended.
    pub ended: SimTime,
    /// Participations by what became of them.
    pub participations: Participations,
    /// What its steps made.
    pub made: StepsMade,
    /// Everything that happened on the links and devices, less what was booked before.
    pub bookings: Vec<Booking>,
}

/// Network -> metrics: the run stops here, with this still open.
#[derive(Message)]
#[rtype(result = "Result<()>")]
pub struct BookUnfinished {
    /// What happened since the last round ended.
    pub bookings: Vec<Booking>,
}

/// Wiring -> metrics: the run is over; what came of it?
#[derive(Message)]
#[rtype(result = "Result<Collected>")]
pub struct Collect {
    /// Whether every user has its private parameters, so that they can be part of the digest. After a run that
    /// was stopped within a round some are lost with their trainings, and the digest is that of the rounds.
    pub private_parameters: bool,
}

/// Metrics -> wiring: everything recorded.
#[derive(Debug)]
pub struct Collected {
    /// Every finished round.
    pub rounds: Vec<RoundRecord>,
    /// Bytes of the whole run.
    pub bytes: super::outcome::ByDirection<super::outcome::Flow>,
    /// Training work of the whole run.
    pub work: Work,
    /// Durations by phase.
    pub durations: std::collections::BTreeMap<String, super::outcome::Distribution>,
    /// The server's model after the last finished round, or the initial one if there is none.
    pub model: Model,
    /// Digest of all of it and of every private parameter, hexadecimal.
    pub digest: String,
}
