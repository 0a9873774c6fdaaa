//! The events that the calendar holds.

use serde::{Deserialize, Serialize};

use fedrecsim_core::ids::UserId;
use fedrecsim_core::units::Direction;

/// An event for which the calendar holds an appointment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Event {
    /// The frame that the user's participation sends or waits for has arrived.
    FrameArrived(UserId),
    /// The work that the user's participation was at is done.
    WorkEnded(UserId),
    /// The start-up of the user's transfer on the server's link is over.
    StartUpEnded(UserId),
    /// The user's own link changes its rate during a transfer on the server's link.
    RateChanges(UserId),
    /// The next transfer on the server's link, in this direction, ends.
    TransfersEnded(Direction),
    /// The user drops out, or departs.
    CutOff(UserId),
    /// The server is woken, as it has asked.
    Alarm,
}

impl Event {
    /// Returns the user to whose participation the event belongs; `None` if it belongs to no single
    /// one.
    pub(crate) fn user(&self) -> Option<UserId> {
        match *self {
            Self::FrameArrived(user)
            | Self::WorkEnded(user)
            | Self::StartUpEnded(user)
            | Self::RateChanges(user)
            | Self::CutOff(user) => Some(user),
            Self::TransfersEnded(_) | Self::Alarm => None,
        }
    }
}
