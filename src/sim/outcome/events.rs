//! What happens on links and devices, as it is booked: everything that bytes, durations and pictures of a run are made of.

use crate::codec::FrameParts;
use crate::ids::{InvitationId, UserId};
use crate::units::{Direction, SimTime};

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
    Sent(Direction, FrameParts),
    /// It has to wait for a connection.
    InLine(Direction),
    /// It has waited for a connection, and has one.
    Connected(Direction),
    /// It arrived whole, after this many nanoseconds.
    Delivered(Direction, Usefulness, u64),
    /// It was lost after this many bytes: a dropout, a departure, a fault.
    Lost(Direction, u64),
    /// The server gave it up after this many bytes.
    Cancelled(Direction, u64),
    /// The run ended when this many bytes were on their way.
    Unfinished(Direction, u64),
    /// So many bytes of a frame that a fault swallows had been sent when its way ended, which is booked next: they reach
    /// nobody.
    Swallowed(Direction, u64),
    /// A training of so many row visits took this many nanoseconds.
    Computed(u64, u64),
    /// A training was cut off after so many row visits and this many nanoseconds.
    ComputeLost(u64, u64),
    /// The server gave a training up after so many row visits and this many nanoseconds.
    ComputeCancelled(u64, u64),
    /// The run ended in a training, after so many row visits and this many nanoseconds.
    ComputeUnfinished(u64, u64),
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

/// The time that a round took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundSpan {
    /// Round, from 1.
    pub round: u32,
    /// When it began.
    pub began: SimTime,
    /// When it ended.
    pub ended: SimTime,
    /// Updates in its average.
    pub aggregated: u32,
}
