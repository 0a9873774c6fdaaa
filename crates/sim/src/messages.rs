//! The messages between actors, in the order of a step.
//!
//! Every message is a question with a typed answer, and the asker waits for it.

use std::ops::Range;
use std::sync::Arc;

use actix::prelude::*;
use bytes::Bytes;

use super::checkpoints::{Save, SaveLearned};
use super::consultation::Consultation;
use super::download::Download;
use super::durations::Durations;
use super::invitation::{Invitation, Participant};
use super::outcome::{
    AuditRecord, Booking, ByDirection, Ending, Flow, Outcome, PrivacyRecord, RoundRecord,
    RoundSpan, VersionsCost,
};
use super::resident::Ask;
use super::upload::Upload;
use fedrecsim_core::legs::Peer;
use fedrecsim_core::work::Work;
use fedrecsim_core::{Bytes as Size, Result, SimTime, Step, UserId};
use fedrecsim_methods::{Phase, ThirdParty};
use fedrecsim_model::Model;
use fedrecsim_model::magnitude::{MagnitudeCounts, SupportCount};

/// Network -> server: this has happened now.
#[derive(Message)]
#[rtype(result = "Result<Orders>")]
pub(crate) struct Happened {
    pub now: SimTime,
    pub news: News,
}

/// The events that the server is told of, besides the frames that arrive.
pub(crate) enum News {
    /// A new step begins.
    StepBegins(Step),
    /// This participation is lost.
    ParticipationLost(Participant),
    /// The server wanted to be woken at this time.
    AlarmRings,
}

/// Server -> network: do this now.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// Invite these users, in ascending order.
    pub invitation: Option<(Invitation, Vec<UserId>)>,
    /// Ring the alarm at this time, since the step is due.
    pub deadline: Option<SimTime>,
    /// Ring the alarm at this time, since somebody becomes available.
    pub alarm: Option<SimTime>,
    /// Close the step, which has all that it waits for.
    pub step_due: bool,
}

/// Workers -> network: what a training takes, which decides how long it lasts in virtual time.
#[derive(Clone, Debug, Default)]
pub struct Effort {
    /// The work of the training. A training that fails does so at once, without any work.
    pub work: Work,
    /// The size of the upload; `None` if the training fails.
    pub upload_size: Option<Size>,
    /// The request for rows and the server's answer, where rows have to be asked for.
    pub rows: Option<Arc<Consultation>>,
    /// The consultation of the third party; `None` if there is none, or if it failed.
    pub third_party: Option<Arc<Consultation>>,
}

impl Effort {
    /// Returns the consultation of this peer before the training.
    pub(crate) fn consultation_with(&self, peer: Peer) -> Option<&Consultation> {
        match peer {
            Peer::Server => self.rows.as_deref(),
            Peer::ThirdParty => self.third_party.as_deref(),
        }
    }
}

/// A question of the network to the server.
pub(crate) trait AskServer:
    Ask<Happened>
    + Ask<RequestArrived>
    + Ask<UploadArrived>
    + Ask<CloseStep>
    + Ask<Forget>
    + Ask<SaveLearned>
    + Ask<Save>
{
}

/// A question of the network to the third party.
pub(crate) trait AskThirdParty:
    Ask<ConsultThirdParty> + Ask<RequestArrived> + Ask<AbsorbRequests> + Ask<Save>
{
}

/// Network -> third party: hand yourself out as you are now, for the users who are invited now.
#[derive(Message)]
#[rtype(result = "Result<Arc<dyn ThirdParty>>")]
pub(crate) struct ConsultThirdParty;

/// Network -> server or third party: a request has arrived. The answer says whether it could be
/// read.
#[derive(Message)]
#[rtype(result = "Result<bool>")]
pub(crate) struct RequestArrived {
    pub participant: Participant,
    /// The phase of the method that the sender takes part in.
    pub phase: Phase,
    /// The frame as it came over the link.
    pub frame: Bytes,
}

/// Network -> server: the devices of these users have lost what they had been sent.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Forget(pub Range<u32>);

/// Network -> third party: a step of the server is over; take in what has arrived.
#[derive(Message)]
#[rtype(result = "Result<()>")]
pub(crate) struct AbsorbRequests;

/// Network -> server: an upload has arrived whole.
#[derive(Message)]
#[rtype(result = "Result<Receipt>")]
pub(crate) struct UploadArrived {
    pub participant: Participant,
    pub upload: Upload,
    pub now: SimTime,
}

/// Server -> network: what became of an upload.
#[derive(Debug)]
pub(crate) struct Receipt {
    /// How it ended: used, late, stale, or lost if it is damaged.
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

/// Server -> network: the step is made. The network adds up the outcomes of a round's steps.
#[derive(Debug, Default)]
pub(crate) struct StepOutcome {
    /// The number of steps with an update.
    pub steps: u32,
    /// The number of updates in the average.
    pub aggregated: u32,
    /// The magnitudes of the values of all these updates.
    pub uploads: MagnitudeCounts,
    /// How many values are not 0 in at least one of these updates, which were averaged as whole
    /// tables.
    pub union: SupportCount,
    /// The sum of the mean local losses of the updates, which the network adds in the order of
    /// users.
    pub loss_sum: f64,
    /// The users whose participations the server cancels, ascending.
    pub cancelled: Vec<UserId>,
    /// The model after the step, and the download that participants will have of it; `None` unless
    /// a round ends here.
    pub model: Option<(Model, Arc<Download>)>,
    /// The cost so far of keeping versions of the model; `None` if that is not done.
    pub versions: Option<VersionsCost>,
    /// What an audit has found in the uploads of the round; `None` unless a round ends here and was
    /// looked at.
    pub audit: Option<AuditRecord>,
    /// The privacy claim so far; `None` if nothing is done to protect it.
    pub privacy: Option<PrivacyRecord>,
}

/// Network -> metrics: book what has happened since the last booking. The answer gives the list
/// back. It is sent in the middle of a round to keep the list short, and when the run ends.
#[derive(Message)]
#[rtype(result = "Result<Vec<Booking>>")]
pub(crate) struct Book(pub Vec<Booking>);

/// Network -> metrics: a round is over.
#[derive(Message)]
#[rtype(result = "Result<RoundBooked>")]
pub(crate) struct RoundEnded {
    /// The counts of the network, and when the round began and ended. The metrics fill in the rest.
    pub record: RoundRecord,
    /// The waits in the line for a connection that ended in the round; `None` if there were none.
    pub waits: Option<Box<Durations>>,
    /// The outcomes of its steps together.
    pub made: StepOutcome,
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
    /// Whether the run ends with it, since its accuracy has not become better for long.
    pub is_settled: bool,
}

/// Simulation -> server: which model do you have?
#[derive(Message)]
#[rtype(result = "Result<Model>")]
pub(crate) struct GetModel;

/// Owner -> server: give the model, and what devices would download of it in order to score.
#[derive(Message)]
#[rtype(result = "Result<(Model, Arc<Download>)>")]
pub(crate) struct GetScoring;

/// Simulation -> server and metrics: replace the model by this one. It is sent between two rounds.
#[derive(Clone, Message)]
#[rtype(result = "Result<()>")]
pub(crate) struct SetModel(pub Model);

/// Simulation -> metrics: the run is over, so return everything recorded.
#[derive(Message)]
#[rtype(result = "Result<Outcome>")]
pub(crate) struct Collect {
    /// Whether every user has its private parameters, so that these can be part of the digest.
    /// After a run that was stopped within a round some are lost with their trainings, and the
    /// digest covers the rounds alone.
    pub private_parameters: bool,
    /// The counts of the round that is under way.
    pub unfinished: RoundRecord,
}
