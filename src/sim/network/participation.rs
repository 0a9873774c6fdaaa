//! One participation: where it stands between invitation and upload.

use std::sync::Arc;

use bytes::Bytes as Frame;

use super::super::training::{Assignment, Trained};
use super::transfers::Fate;
use crate::error::Result;
use crate::ids::{Round, Wave};
use crate::population::{Conditions, Link};
use crate::sim::broadcast::Broadcast;
use crate::sim::calendar::Appointment;
use crate::units::{Bytes, Direction, SimDuration, SimTime};

/// A participation from invitation to upload.
pub(super) struct Participation {
    pub round: Round,
    pub wave: Wave,
    /// What is downloaded.
    pub broadcast: Arc<Broadcast>,
    pub conditions: Conditions,
    pub phase: Phase,
    pub work: Work,
    /// What happens next to it, unless that hangs on others.
    pub next: Option<Appointment>,
    /// When it is cut off, if that is known.
    pub cut: Option<Appointment>,
}

/// What a participation is at.
pub(super) enum Phase {
    Downloading(Transfer),
    Training { began: SimTime },
    Uploading { transfer: Transfer, frame: Frame, loss: f64 },
}

/// A frame on its way.
#[derive(Clone, Copy)]
pub(super) struct Transfer {
    pub direction: Direction,
    pub size: Bytes,
    pub began: SimTime,
    pub way: Way,
    pub fate: Fate,
    /// How much later than that it arrives.
    pub delay: SimDuration,
}

/// Where a frame is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// On a link that it has for itself.
    Alone,
    /// It waits for a connection.
    InLine,
    /// On the server's link.
    Shared,
    /// Its last byte has left; it arrives after the latency.
    Sent,
}

/// The training of a participation.
pub(super) enum Work {
    /// Its inputs are fixed; nobody has worked it out.
    Untrained(Box<Assignment>),
    /// Worked out, ahead of its virtual end.
    Trained(Result<Box<Trained>>),
    /// With the client.
    Over,
}

impl Transfer {
    pub fn elapsed(&self, now: SimTime) -> SimDuration {
        now.since(self.began)
    }
}

impl Participation {
    /// The user's link in one direction.
    pub fn link(&self, direction: Direction) -> Link {
        match direction {
            Direction::Up => self.conditions.up,
            Direction::Down => self.conditions.down,
        }
    }

    /// How long all of it would take if the server's link had no limit; `None` if its training failed.
    pub fn nominal_duration(&self, download: Bytes) -> Option<SimDuration> {
        let Work::Trained(Ok(trained)) = &self.work else { return None };
        let conditions = &self.conditions;
        let compute = conditions.compute_time(trained.row_visits);
        let upload = conditions.up.transfer_time(Bytes::of(&trained.frame.bytes));
        Some(conditions.down.transfer_time(download) + compute + upload)
    }
}
