//! What the calendar holds.

use serde::{Deserialize, Serialize};

use crate::ids::UserId;
use crate::units::Direction;

/// Something that the calendar holds an appointment for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Event {
    /// The last byte of the frame that the user's participation sends or waits for has arrived.
    FrameArrived(UserId),
    /// The user's device has done the work that it was at.
    WorkEnded(UserId),
    /// The next transfer on the server's link, in this direction, ends.
    TransfersEnded(Direction),
    /// The user drops out, or departs.
    CutOff(UserId),
    /// The server asked to be woken.
    Alarm,
}
