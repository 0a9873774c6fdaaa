//! All messages, in the order in which a round uses them.
//!
//! Every message is a question with a typed answer, and the asker awaits it: nothing is fire-and-forget.

use std::sync::Arc;

use actix::prelude::*;
use bytes::Bytes;

use super::download::{FrameFormat, OutgoingDownload};
use super::exchange::{Counsel, Exchanged};
use super::outcome::events::RoundSpan;
pub use super::outcome::events::{Booking, Ending, LinkEvent};
use super::outcome::{ByDirection, Flow, RoundRecord, Work};
use crate::codec::FrameParts;
use crate::error::{Error, Result};
use crate::ids::{InvitationId, Round, Step, UserId};
use crate::method::{Phase, ThirdParty};
use crate::model::blocks::Model;
use crate::model::magnitude::MagnitudeCounts;
pub use crate::units::Direction;
use crate::units::{Bytes as Size, SimTime};

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

/// Network -> client. A user's actor has no mailbox: it answers where it stands, see [`super::workers`].
pub enum ToClient {
    /// You are invited, and this download is on its way to you. Submit your training, whose inputs are fixed by now.
    Participate {
        /// The step whose model it is.
        step: Step,
        /// Number of the invitation.
        invitation_id: InvitationId,
        /// What is being downloaded.
        download: Arc<OutgoingDownload>,
        /// Where your third party's reply comes from, if the method asks one.
        counsel: Option<Counsel>,
        /// Whether you may need what you have now again: you may be cut off, or be scored meanwhile.
        keep: bool,
    },
    /// A frame for you, as it came over the link, and how it is to be read.
    Received(Bytes, FrameFormat),
    /// Your training has come to its virtual end: upload.
    TrainingEnded,
    /// You are cut off. If your training had not ended, you have what you had before it.
    CutOff,
}

/// What a client answers.
pub enum FromClient {
    /// To [`ToClient::Received`]: whether the frame is sound.
    Sound(bool),
    /// To [`ToClient::TrainingEnded`]: what is to be sent.
    Upload {
        /// The frame.
        frame: Bytes,
        /// Its bytes by purpose.
        parts: FrameParts,
        /// Mean local loss of the training, which is booked when the server uses the update.
        loss: f64,
    },
    /// To [`ToClient::TrainingEnded`]: the training has failed.
    Failed(Error),
    /// To the others.
    Done,
    /// The message made no sense in the client's state: a defect of the simulator.
    OutOfTurn,
}

/// Workers -> network: how much work a training is, which places it in virtual time.
#[derive(Clone, Debug)]
pub struct Effort {
    /// What it takes; nothing for a training that fails, which it does on the device at once.
    pub work: crate::work::Work,
    /// Length of the frame that will be uploaded; `None` if the training fails.
    pub upload: Option<Size>,
    /// What is exchanged with the third party before it, if the method has one and the training does not fail.
    pub exchanged: Option<Arc<Exchanged>>,
}

/// Network -> third party: whom are the users to ask who are invited now?
#[derive(Message)]
#[rtype(result = "Result<Arc<dyn ThirdParty>>")]
pub struct ConsultThirdParty;

/// Network -> third party: a request has arrived whole. The answer is whether it could be read.
#[derive(Message)]
#[rtype(result = "Result<bool>")]
pub struct RequestArrived {
    /// The sender.
    pub user: UserId,
    /// The invitation that it belongs to.
    pub invitation_id: InvitationId,
    /// The phase of the method that the sender takes part in.
    pub phase: Phase,
    /// The frame, as it came over the link.
    pub frame: Bytes,
}

/// Network -> third party: a step of the server is over; take in what has arrived.
#[derive(Message)]
#[rtype(result = "Result<()>")]
pub struct AbsorbRequests;

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

/// Network -> metrics: book what has happened in the open round, before there is too much of it. The answer gives it
/// back.
#[derive(Message)]
#[rtype(result = "Result<Vec<Booking>>")]
pub struct Book {
    /// What has happened.
    pub bookings: Vec<Booking>,
}

/// Network -> metrics: a round is over.
#[derive(Message)]
#[rtype(result = "Result<RoundBooked>")]
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

/// Metrics -> network: a round has been booked.
#[derive(Debug)]
pub struct RoundBooked {
    /// When it was, and how many updates were used.
    pub span: RoundSpan,
    /// Everything that happened on the links and devices, less what was booked before.
    pub bookings: Vec<Booking>,
    /// Bytes of the run so far.
    pub total: ByDirection<Flow>,
    /// What is recorded of it; an error if its model cannot be scored.
    pub record: Result<RoundRecord>,
}

/// Network -> metrics: the run stops here, with this still open. The answer gives it back.
#[derive(Message)]
#[rtype(result = "Result<Vec<Booking>>")]
pub struct BookUnfinished {
    /// What happened since the last round ended.
    pub bookings: Vec<Booking>,
}

/// Simulation -> server: which model do you have?
#[derive(Message)]
#[rtype(result = "Result<Model>")]
pub struct GetModel;

/// Simulation -> server and metrics: between two rounds, this takes the place of the model.
#[derive(Clone, Message)]
#[rtype(result = "Result<()>")]
pub struct SetModel(pub Model);

/// Simulation -> metrics: the run is over; what came of it?
#[derive(Message)]
#[rtype(result = "Result<Collected>")]
pub struct Collect {
    /// Whether every user has its private parameters, so that they can be part of the digest. After a run that
    /// was stopped within a round some are lost with their trainings, and the digest is that of the rounds.
    pub private_parameters: bool,
}

/// Metrics -> simulation: everything recorded.
#[derive(Debug)]
pub struct Collected {
    /// Every finished round.
    pub rounds: Vec<RoundRecord>,
    /// Bytes of the whole run.
    pub bytes: ByDirection<Flow>,
    /// Of these, those that were exchanged with the third party, if the method has one.
    pub third_party_bytes: Option<ByDirection<Flow>>,
    /// Training work of the whole run.
    pub work: Work,
    /// Durations by phase.
    pub durations: std::collections::BTreeMap<String, super::outcome::Distribution>,
    /// The server's model after the last finished round, or the initial one if there is none.
    pub model: Model,
    /// Digest of all of it and of every private parameter, hexadecimal.
    pub digest: String,
}
