//! The events on links and devices as they are booked. The bytes, durations and pictures of a run
//! are made of them.

use serde::{Deserialize, Serialize};

use crate::privacy::PrivacyRecord;
use fedrecsim_core::legs::{Job, Route};
use fedrecsim_core::work::Work;
use fedrecsim_core::{InvitationId, SimTime, UserId};
use fedrecsim_model::codec::FrameParts;

/// An event, with its time and its user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Booking {
    /// When the event happened.
    pub at: SimTime,
    /// The invitation that it belongs to.
    pub invitation_id: InvitationId,
    /// The user.
    pub user: UserId,
    /// The event.
    pub event: LinkEvent,
}

/// An event on a link or a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinkEvent {
    /// A frame started on its way, or got into the line for a connection.
    Sent(Route, FrameParts),
    /// The frame has to wait for a connection.
    InLine(Route),
    /// The frame has waited for a connection, and got one.
    Connected(Route),
    /// A frame's way ended.
    TransferEnded {
        /// The route of the frame.
        route: Route,
        /// How its way ended.
        ending: Ending,
        /// The bytes that a link carried until then.
        carried: u64,
        /// Whether these bytes reached the receiver, since a fault may swallow them all.
        received: bool,
        /// The time since the frame started on its way, in nanoseconds.
        took_ns: u64,
    },
    /// A participation began with work, since nothing is downloaded in its phase. Other work begins
    /// when the transfer before it ends.
    WorkBegan(Job),
    /// The work of a device or of a third party ended.
    WorkEnded {
        /// The job.
        job: Job,
        /// How it ended.
        ending: Ending,
        /// The part of the work that was done until then.
        work: Work,
        /// The time since it began, in nanoseconds.
        took_ns: u64,
    },
}

impl LinkEvent {
    /// Returns how long the transfer or the work took that ended, in nanoseconds; 0 if nothing ended.
    pub(crate) fn took_ns(&self) -> u64 {
        match self {
            Self::TransferEnded { took_ns, .. } | Self::WorkEnded { took_ns, .. } => *took_ns,
            Self::Sent(..) | Self::InLine(_) | Self::Connected(_) | Self::WorkBegan(_) => 0,
        }
    }
}

/// How a transfer or work ended. The last of them ends its participation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Ending {
    /// It ended as planned: the work was done, or the frame arrived and was used.
    Done,
    /// The upload arrived after its step was over, and was not used.
    Late,
    /// The upload arrived but was computed from a model too old to be used.
    Stale,
    /// A dropout, a departure or a fault ended it.
    Lost,
    /// The server cancelled it.
    Cancelled,
    /// The run ended first.
    Unfinished,
}

impl Ending {
    /// All endings, in the order of their declaration.
    pub const ALL: [Self; 6] = [
        Self::Done,
        Self::Late,
        Self::Stale,
        Self::Lost,
        Self::Cancelled,
        Self::Unfinished,
    ];

    /// Returns the name that reports use.
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

    /// Returns whether a frame with this ending arrived whole, whether or not it was used.
    pub fn is_arrival(self) -> bool {
        matches!(self, Self::Done | Self::Late | Self::Stale)
    }
}

/// The time that a round took, with what its steps used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundSpan {
    /// The number of the round, from 1.
    pub round: u32,
    /// When the round began.
    pub began: SimTime,
    /// When the round ended.
    pub ended: SimTime,
    /// The number of updates that its steps used.
    pub aggregated: u32,
    /// The number of its steps that had an update.
    pub steps: u32,
    /// The privacy claim up to its end, if there is a protection.
    pub privacy: Option<PrivacyRecord>,
}
