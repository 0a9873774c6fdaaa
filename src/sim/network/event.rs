//! What the calendar holds.

use serde::{Deserialize, Serialize};

use crate::ids::UserId;
use crate::units::Direction;

/// What the calendar holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Event {
    /// The last byte is with the client.
    DownloadArrived(UserId),
    TrainingEnded(UserId),
    /// The last byte is with the server.
    UploadArrived(UserId),
    /// The next end of a transfer on the server's link.
    TransfersEnded(Direction),
    /// A dropout, or a departure.
    CutOff(UserId),
    /// The server asked to be woken.
    Alarm,
}

impl Event {
    /// The last byte of a frame is there.
    pub fn arrived(direction: Direction, user: UserId) -> Self {
        match direction {
            Direction::Up => Self::UploadArrived(user),
            Direction::Down => Self::DownloadArrived(user),
        }
    }
}
