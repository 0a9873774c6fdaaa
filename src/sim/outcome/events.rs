//! What happens on links and devices, as it is booked: everything that bytes, durations and pictures of a run are made of.

use serde::{Deserialize, Serialize};

use crate::codec::FrameParts;
use crate::ids::{InvitationId, UserId};
use crate::legs::{Job, Route};
use crate::units::SimTime;
use crate::work::Work;

/// Something to be booked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Booking {
    /// When it happened.
    pub at: SimTime,
    /// The invitation that it belongs to.
    pub invitation_id: InvitationId,
    /// The user.
    pub user: UserId,
    /// What happened.
    pub event: LinkEvent,
}

/// What happens on links and devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinkEvent {
    /// A frame started on its way, or in the line for a connection.
    Sent(Route, FrameParts),
    /// It has to wait for a connection.
    InLine(Route),
    /// It has waited for a connection, and has one.
    Connected(Route),
    /// A frame's way ended.
    TransferEnded {
        /// Which way it was, and between whom.
        route: Route,
        /// How it ended.
        ending: Ending,
        /// Bytes that a link carried until then.
        carried: u64,
        /// Whether these bytes reached the receiver: a fault may swallow them all.
        received: bool,
        /// Time since the frame started on its way, in nanoseconds.
        took_ns: u64,
    },
    /// A participation began with work, since nothing is downloaded in its phase. Other work begins when the transfer
    /// before it ends.
    WorkBegan(Job),
    /// A device's work ended, or a third party's.
    WorkEnded {
        /// What it worked on.
        job: Job,
        /// How it ended.
        ending: Ending,
        /// What of it was done until then.
        work: Work,
        /// Time since it began, in nanoseconds.
        took_ns: u64,
    },
}

/// How a transfer or a training ended, and with the last of them its participation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Ending {
    /// As planned: the training came to its end, the frame arrived and was used.
    Done,
    /// The upload arrived after its round was over, and was not used.
    Late,
    /// The upload arrived, computed from a model that was too old to be used.
    Stale,
    /// A dropout, a departure or a fault cut it off.
    Lost,
    /// The server gave it up.
    Cancelled,
    /// The run ended first.
    Unfinished,
}

impl Ending {
    /// Every one of them, in the order in which they are listed.
    pub const ALL: [Self; 6] = [Self::Done, Self::Late, Self::Stale, Self::Lost, Self::Cancelled, Self::Unfinished];

    /// Returns it in a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Late => "late",
            Self::Stale => "stale",
            Self::Lost => "lost",
            Self::Cancelled => "cancelled",
            Self::Unfinished => "unfinished",
        }
    }

    /// Returns whether a frame whose way ended like this arrived whole, used or not.
    pub fn is_arrival(self) -> bool {
        matches!(self, Self::Done | Self::Late | Self::Stale)
    }
}

/// The time that a round took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundSpan {
    /// Round, from 1.
    pub round: u32,
    /// When it began.
    pub began: SimTime,
    /// When it ended.
    pub ended: SimTime,
    /// Updates that its steps used.
    pub aggregated: u32,
    /// Steps with an update.
    pub steps: u32,
}
