//! The messages between actors, in the order in which a step uses them.
//!
//! Every message is a question with a typed answer, for which the asker waits.

use std::sync::Arc;

use actix::prelude::*;
use bytes::Bytes;

use super::consultation::{Consultation, ReplySource};
use super::download::{AskedRows, FrameFormat, OutgoingDownload};
use super::durations::Durations;
use super::outcome::events::RoundSpan;
pub use super::outcome::events::{Booking, Ending, LinkEvent};
pub use super::outcome::losses::{LossCause, Losses};
use super::outcome::network::{Gauges, Level, NetworkRecord};
use super::outcome::users::{DeviceBytes, UserRecord};
use super::outcome::{
    AuditRecord, ByDirection, Flow, PrivacyRecord, RoundRecord, VersionsCost, Work,
};
use super::upload::UploadFrame;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::ids::{InvitationId, Round, Step, UserId};
pub use fedrecsim_core::units::Direction;
use fedrecsim_core::units::{Bytes as Size, SimTime};
use fedrecsim_methods::method::{PersonalTable, Phase, ThirdParty};
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::magnitude::{MagnitudeCounts, SupportCount};

/// Network -> server: begin a new step.
#[derive(Message)]
#[rtype(result = "Result<Orders>")]
pub(crate) struct BeginStep {
    /// The step.
    pub step: Step,
    /// The virtual time.
    pub now: SimTime,
}

/// Server -> network: do this now.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// The users to invite, and what is sent to them.
    pub invitation: Option<Invitation>,
    /// When to ring the alarm because the step is due.
    pub deadline: Option<SimTime>,
    /// When to ring the alarm because somebody becomes available.
    pub alarm: Option<SimTime>,
    /// Whether the step has all that it waits for, and is to be closed.
    pub step_due: bool,
}

/// Server -> network: invite these users, and send them this.
#[derive(Debug)]
pub(crate) struct Invitation {
    /// The step whose model is downloaded.
    pub step: Step,
    /// The number of the invitation.
    pub invitation_id: InvitationId,
    /// The invited users, ascending.
    pub cohort: Vec<UserId>,
    /// The model, encoded.
    pub download: Arc<OutgoingDownload>,
}

/// Network -> client. A user's actor has no mailbox but is called directly, see [`super::workers`].
pub enum ToClient {
    /// You are invited, and this download is on its way to you. Submit your training, since its
    /// inputs are fixed by now.
    Participate {
        /// The step whose model is downloaded.
        step: Step,
        /// The number of the invitation.
        invitation_id: InvitationId,
        /// The download.
        download: Arc<OutgoingDownload>,
        /// The source of the third party's reply, if the method has one.
        reply_source: Option<ReplySource>,
        /// Whether to keep a copy of the parameters, since you may be cut off, or be scored
        /// meanwhile.
        keep: bool,
    },
    /// This frame came over the link for you, and is to be read in this format.
    Received(Bytes, FrameFormat),
    /// Your training has come to its virtual end, so upload its result.
    TrainingEnded,
    /// Somebody who studies the method asks for the item table that you keep for yourself, if you
    /// have taken part.
    ShowPersonalTable,
    /// You are cut off. If your training has not ended, go back to the parameters from before it.
    CutOff,
}

/// Client -> network: the answer to a [`ToClient`].
pub enum FromClient {
    /// The answer to [`ToClient::Received`]: whether the frame can be read.
    Sound(bool),
    /// The answer to [`ToClient::TrainingEnded`] if the training has succeeded: what is to be sent.
    Upload {
        /// The frame.
        frame: UploadFrame,
        /// The mean local loss of the training, which is booked when the server uses the update.
        loss: f64,
    },
    /// The answer to [`ToClient::TrainingEnded`] if the training has failed.
    Failed(Error),
    /// The answer to [`ToClient::ShowPersonalTable`]; `None` if the parameters are still as the
    /// method makes them.
    PersonalTable(Option<Result<Option<PersonalTable>>>),
    /// The answer to the other messages.
    Done,
    /// The answer to a message that makes no sense in the client's state, which is a defect of the
    /// simulator.
    OutOfTurn,
}

/// Workers -> network: the work of a training, which decides how long it takes in virtual time.
#[derive(Clone, Debug)]
pub struct Effort {
    /// The work of the training. A training that fails does so at once, so it has none.
    pub work: fedrecsim_core::work::Work,
    /// The length of the frame that will be uploaded; `None` if the training fails.
    pub upload: Option<Size>,
    /// The exchange with the third party before the training; `None` if there is none, or if it
    /// failed.
    pub consultation: Option<Arc<Consultation>>,
    /// The rows that the user has asked the server for; `None` where nothing has to be asked for.
    pub asked_rows: Option<Arc<AskedRows>>,
}

/// Network -> third party: hand yourself out as you are now, for the users who are invited now.
#[derive(Message)]
#[rtype(result = "Result<Arc<dyn ThirdParty>>")]
pub(crate) struct ConsultThirdParty;

/// Network -> third party: a request has arrived whole. The answer says whether it could be read.
#[derive(Message)]
#[rtype(result = "Result<bool>")]
pub(crate) struct RequestArrived {
    /// The sender.
    pub user: UserId,
    /// The invitation to which the request belongs.
    pub invitation_id: InvitationId,
    /// The phase of the method in which the sender takes part.
    pub phase: Phase,
    /// The frame as it came over the link.
    pub frame: Bytes,
}

/// Network -> third party: a step of the server is over; take in what has arrived.
#[derive(Message)]
#[rtype(result = "Result<()>")]
pub(crate) struct AbsorbRequests;

/// Network -> server: a request for rows has arrived. The answer says whether it could be read.
#[derive(Message)]
#[rtype(result = "Result<bool>")]
pub(crate) struct RowRequestArrived {
    /// The sender.
    pub user: UserId,
    /// The invitation to which the request belongs.
    pub invitation_id: InvitationId,
    /// The frame as it came over the link.
    pub frame: Bytes,
}

/// Network -> server: an upload has arrived whole.
#[derive(Message)]
#[rtype(result = "Result<Receipt>")]
pub(crate) struct UplinkArrived {
    /// The sender.
    pub user: UserId,
    /// The invitation to which the upload is the answer.
    pub invitation_id: InvitationId,
    /// The frame as it came over the link.
    pub frame: UploadFrame,
    /// The virtual time.
    pub now: SimTime,
}

/// Network -> server: this participation was cut off.
#[derive(Message)]
#[rtype(result = "Result<Orders>")]
pub(crate) struct ParticipationLost {
    /// The user.
    pub user: UserId,
    /// The invitation.
    pub invitation_id: InvitationId,
    /// The virtual time.
    pub now: SimTime,
}

/// Network -> server: you asked to be woken at this time.
#[derive(Message)]
#[rtype(result = "Result<Orders>")]
pub(crate) struct AlarmRang {
    /// The virtual time.
    pub now: SimTime,
}

/// Server -> network: what became of an upload.
#[derive(Debug)]
pub(crate) struct Receipt {
    /// How it ended: used, late, stale, or lost if the frame is damaged.
    pub ending: Ending,
    /// The orders for now, or the reason why the run ends.
    pub orders: Result<Orders>,
}

/// Network -> server: the step is due, so make it.
#[derive(Message)]
#[rtype(result = "Result<StepOutcome>")]
pub(crate) struct CloseStep {
    /// Whether the round ends with this step.
    pub ends_round: bool,
}

/// Server -> network: the step is made.
#[derive(Debug)]
pub(crate) struct StepOutcome {
    /// The model after the step, and the download that participants will have of it; `None` unless
    /// a round ends here.
    pub model: Option<(Model, Arc<OutgoingDownload>)>,
    /// The number of updates in the average.
    pub aggregated: u32,
    /// The magnitudes of the values of all these updates.
    pub uploads: MagnitudeCounts,
    /// How many values are not 0 in at least one of these updates, which were averaged as whole
    /// tables.
    pub union: SupportCount,
    /// The users whose participations the server waits for no longer, ascending.
    pub given_up: Vec<UserId>,
    /// What it has cost so far to keep versions of the model; `None` if that is not done.
    pub versions: Option<VersionsCost>,
    /// What an audit has found in the uploads of the round; `None` unless a round ends here and was
    /// looked at.
    pub audit: Option<AuditRecord>,
    /// What is claimed of users' privacy so far; `None` if nothing is done to protect it.
    pub privacy: Option<PrivacyRecord>,
}

/// The numbers of participations in a round, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Participations {
    /// Users invited.
    pub invited: u32,
    /// Participations that a dropout, a departure or a fault cut off.
    pub dropped: u32,
    /// Participations that the server gave up.
    pub cancelled: u32,
    /// Updates that arrived after their step was over, or were computed from a model too old to be
    /// used.
    pub late: u32,
    /// Those of the late ones that were computed from a model too old to be used.
    pub stale: u32,
}

/// What was watched at the server's link in a round.
#[derive(Debug, Default)]
pub(crate) struct RoundNetwork {
    /// The quantities over the time of the round.
    pub levels: Gauges<Level>,
    /// The waits in the line for a connection that ended in the round; `None` if there were none.
    pub waits: Option<Box<Durations>>,
}

/// The results of the steps of a round.
#[derive(Debug, Default)]
pub(crate) struct StepsMade {
    /// The number of steps with an update.
    pub steps: u32,
    /// The number of updates in all steps.
    pub aggregated: u32,
    /// The magnitudes of the values of all these updates.
    pub uploads: MagnitudeCounts,
    /// How many values are not 0 in at least one update of a step, added up over the steps.
    pub union: SupportCount,
    /// The sum of their mean local losses, added step by step in the order of users.
    pub loss_sum: f64,
    /// The model after the last step, and the download that participants will have of it.
    pub model: Option<(Model, Arc<OutgoingDownload>)>,
    /// What it has cost so far to keep versions of the model; `None` if that is not done.
    pub versions: Option<VersionsCost>,
    /// What an audit has found in the uploads; `None` if they were not looked at.
    pub audit: Option<AuditRecord>,
    /// What is claimed of users' privacy after the last step; `None` if nothing is done to protect
    /// it.
    pub privacy: Option<PrivacyRecord>,
}

/// Network -> metrics: book what has happened in the open round so far, to keep the list short. The
/// answer gives the list back.
#[derive(Message)]
#[rtype(result = "Result<Vec<Booking>>")]
pub(crate) struct Book {
    /// What has happened since the last booking.
    pub bookings: Vec<Booking>,
}

/// Network -> metrics: a round is over.
#[derive(Message)]
#[rtype(result = "Result<RoundBooked>")]
pub(crate) struct RoundEnded {
    /// The number of the round.
    pub round: Round,
    /// When the round began.
    pub began: SimTime,
    /// When the round ended.
    pub ended: SimTime,
    /// The numbers of participations, by what became of them.
    pub participations: Participations,
    /// The participations that were lost, by cause.
    pub lost: Losses,
    /// What was watched at the server's link.
    pub network: RoundNetwork,
    /// The results of its steps.
    pub made: StepsMade,
    /// What has happened on the links and devices and was not booked before.
    pub bookings: Vec<Booking>,
}

/// Metrics -> network: a round has been booked.
#[derive(Debug)]
pub(crate) struct RoundBooked {
    /// The time that it took, and the number of updates that were used.
    pub span: RoundSpan,
    /// What has happened on the links and devices and was not booked before.
    pub bookings: Vec<Booking>,
    /// The bytes of the run so far.
    pub total: ByDirection<Flow>,
    /// The record of the round; an error if its model cannot be scored.
    pub record: Result<RoundRecord>,
}

/// Network -> metrics: the run stops here, so book what was still under way. The answer gives the
/// list back.
#[derive(Message)]
#[rtype(result = "Result<Vec<Booking>>")]
pub(crate) struct BookUnfinished {
    /// What has happened since the last booking.
    pub bookings: Vec<Booking>,
}

/// Simulation -> server: which model do you have?
#[derive(Message)]
#[rtype(result = "Result<Model>")]
pub(crate) struct GetModel;

/// Simulation -> server and metrics: replace the model by this one. It is sent between two rounds.
#[derive(Clone, Message)]
#[rtype(result = "Result<()>")]
pub(crate) struct SetModel(pub Model);

/// Simulation -> metrics: the run is over, so return everything recorded.
#[derive(Message)]
#[rtype(result = "Result<Collected>")]
pub(crate) struct Collect {
    /// Whether every user has its private parameters, so that these can be part of the digest.
    /// After a run that was stopped within a round some are lost with their trainings, and the
    /// digest covers the rounds alone.
    pub private_parameters: bool,
}

/// Metrics -> simulation: everything recorded.
#[derive(Debug)]
pub(crate) struct Collected {
    /// Every finished round.
    pub rounds: Vec<RoundRecord>,
    /// The bytes of the whole run.
    pub bytes: ByDirection<Flow>,
    /// Those of these bytes that were exchanged with the third party, if the method has one.
    pub third_party_bytes: Option<ByDirection<Flow>>,
    /// The training work of the whole run.
    pub work: Work,
    /// The durations by kind: transfers, computing and rounds.
    pub durations: std::collections::BTreeMap<String, super::outcome::Distribution>,
    /// The server's link over the finished rounds.
    pub network: NetworkRecord,
    /// The bytes of single devices.
    pub device_bytes: DeviceBytes,
    /// The totals of every user, if they are kept.
    pub users: Option<Vec<UserRecord>>,
    /// The server's model after the last finished round, or the initial one if there is none.
    pub model: Model,
    /// The digest of all of this and of every private parameter, hexadecimal.
    pub digest: String,
}
