//! All messages, in the order in which a round uses them.
//!
//! Every message is a question with a typed answer, and the asker awaits it: nothing is fire-and-forget.

use std::sync::Arc;

use actix::prelude::*;
use bytes::Bytes;

use super::broadcast::Broadcast;
use super::outcome::RoundRecord;
use super::training::{Assignment, Trained};
use crate::codec::FrameParts;
use crate::error::Result;
use crate::ids::{Round, UserId};
use crate::method::Client;
use crate::model::magnitude::MagnitudeCounts;
use crate::model::table::SharedTable;
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

/// Network -> server: the time for a new round has come.
#[derive(Message)]
#[rtype(result = "Result<Invitation>")]
pub struct BeginRound {
    /// The round.
    pub round: Round,
}

/// Server -> network: send this to them.
#[derive(Debug)]
pub struct Invitation {
    /// The invited users, ascending; empty if there is nothing to train.
    pub cohort: Vec<UserId>,
    /// The global table, encoded.
    pub broadcast: Arc<Broadcast>,
}

/// Network -> client: one enum, so that a user costs one recipient.
#[derive(Message)]
#[rtype(result = "FromClient")]
pub enum ToClient {
    /// The download that is on its way to you. You will have it in time; start to train.
    Participate {
        /// The round.
        round: Round,
        /// What is being downloaded.
        broadcast: Arc<Broadcast>,
    },
    /// Your training has come to its virtual end: take your parameters back and upload.
    TrainingEnded(Box<Trained>),
    /// You dropped out. Take back what you had: the state before training, or after it if it had ended.
    CutOff(Option<Box<dyn Client>>),
    /// Metrics -> client: lend your parameters for scoring.
    Lend,
    /// Metrics -> client: here they are again.
    Return(Box<dyn Client>),
}

/// What a client answers.
#[derive(MessageResponse)]
pub enum FromClient {
    /// To [`ToClient::Participate`]: work for a worker thread.
    Assignment(Box<Assignment>),
    /// To [`ToClient::TrainingEnded`]: the frame to send.
    Upload(Bytes),
    /// To [`ToClient::Lend`]: the private parameters; `None` if they are still as the method made them.
    Lent(UserId, Option<Box<dyn Client>>),
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
    /// The round that it was invited to.
    pub round: Round,
    /// The frame, as it came over the link.
    pub frame: Bytes,
}

/// Network -> server: this participation will not come to its end.
#[derive(Message)]
#[rtype(result = "Receipt")]
pub struct ParticipationLost {
    /// The user.
    pub user: UserId,
    /// The round that it was invited to.
    pub round: Round,
}

/// Server -> network: what became of a participation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, MessageResponse)]
pub struct Receipt {
    /// The use of what arrived.
    pub usefulness: Usefulness,
    /// Whether the round has all it waits for.
    pub round_complete: bool,
}

/// The use of delivered bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usefulness {
    /// Used.
    Useful,
    /// Arrived after the round was over.
    Late,
    /// Computed from a model that was too old.
    Stale,
}

/// Network -> server: nothing more will come; average.
#[derive(Message)]
#[rtype(result = "Result<RoundOutcome>")]
pub struct CloseRound;

/// Server -> network: the new model.
#[derive(Debug)]
pub struct RoundOutcome {
    /// The averaged table.
    pub table: SharedTable,
    /// Updates in the average.
    pub aggregated: u32,
    /// Magnitudes over all of them.
    pub uploads: MagnitudeCounts,
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
    /// Users invited.
    pub invited: u32,
    /// Users who dropped out.
    pub dropped: u32,
    /// Mean local losses of the averaged updates, in the order of users.
    pub losses: Vec<f64>,
    /// The server's side.
    pub outcome: RoundOutcome,
    /// Everything that happened on the links and devices.
    pub bookings: Vec<Booking>,
}

/// Network -> metrics: the run stops here, with this still open.
#[derive(Message)]
#[rtype(result = "Result<()>")]
pub struct BookUnfinished {
    /// What happened since the last round ended.
    pub bookings: Vec<Booking>,
}

/// Something to be booked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Booking {
    /// The round that it belongs to.
    pub round: Round,
    /// The user.
    pub user: UserId,
    /// What happened.
    pub event: LinkEvent,
}

/// What happens on links and devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinkEvent {
    /// A frame started on its way.
    Sent(Direction, FrameParts),
    /// It arrived whole, after this many nanoseconds.
    Delivered(Direction, Usefulness, u64),
    /// A dropout cut it off after this many bytes.
    Lost(Direction, u64),
    /// A training took this many nanoseconds.
    Computed(u64),
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
    /// Durations by phase.
    pub durations: std::collections::BTreeMap<String, super::outcome::Distribution>,
    /// The server's table after the last finished round, or the initial one if there is none.
    pub table: SharedTable,
    /// Digest of all of it and of every private parameter, hexadecimal.
    pub digest: String,
}
