//! One participation: where it stands between invitation and upload.

use std::sync::Arc;

use bytes::Bytes as Frame;
use serde::{Deserialize, Serialize};

use crate::ids::{InvitationId, Step};
use crate::population::{Conditions, Link, Verdict};
use crate::sim::calendar::Appointment;
use crate::sim::download::OutgoingDownload;
use crate::sim::messages::{Effort, Ending, Invitation, LinkEvent};
use crate::units::{Bytes, Direction, SimDuration, SimTime};

/// A participation from invitation to upload.
pub(super) struct Participation {
    /// The step that it was invited to.
    pub step: Step,
    pub invitation_id: InvitationId,
    /// What is downloaded.
    pub download: Arc<OutgoingDownload>,
    pub conditions: Conditions,
    pub phase: Phase,
    /// How much work its training is, once that has been worked out.
    pub effort: Option<Effort>,
    /// What happens next to it, unless that hangs on others.
    pub next: Option<Appointment>,
    /// Where on its way it drops out, if it does.
    pub dropout: Option<Dropout>,
    /// When it is cut off, if that is known.
    pub cut: Option<(SimTime, Appointment)>,
}

/// What a participation is at.
pub(super) enum Phase {
    Downloading(Transfer),
    Training { began: SimTime },
    Uploading { transfer: Transfer, frame: Frame, loss: f64 },
}

/// A frame on its way.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Transfer {
    pub direction: Direction,
    pub size: Bytes,
    pub began: SimTime,
    pub way: Way,
    /// What a fault does to it; one that is cut has the bytes that it carries for its size.
    pub fault: Option<Verdict>,
}

/// Where a frame is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Way {
    /// On a link that it has for itself.
    Alone,
    /// It waits for a connection; its number tells its place in the line.
    InLine(u64),
    /// On the server's link.
    Shared,
    /// Its last byte has left; it arrives after the latency.
    Sent,
}

/// Where on its way a participation drops out: so long after the beginning of a phase, if the server's link holds
/// nobody back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Dropout {
    InTransfer(Direction, SimDuration),
    InTraining(SimDuration),
}

impl Transfer {
    pub fn elapsed(&self, now: SimTime) -> SimDuration {
        now.since(self.began)
    }

    /// How much later than on a sound link it arrives.
    pub fn delay(&self) -> SimDuration {
        match self.fault {
            Some(Verdict::Delay(delay)) => delay,
            _ => SimDuration::ZERO,
        }
    }

    /// Whether it does not arrive as it was sent.
    pub fn is_spoiled(&self) -> bool {
        !matches!(self.fault, None | Some(Verdict::Delay(_)))
    }

    /// The booking of its end after `carried` bytes.
    pub fn ended(&self, now: SimTime, ending: Ending, carried: Bytes) -> LinkEvent {
        let received = self.fault != Some(Verdict::Drop);
        let (direction, took_ns) = (self.direction, self.elapsed(now).as_nanos());
        LinkEvent::TransferEnded { direction, ending, carried: carried.get(), received, took_ns }
    }
}

impl Participation {
    /// A participation that is about to begin.
    pub fn new(invitation: &Invitation, conditions: Conditions, now: SimTime) -> Self {
        Self {
            step: invitation.step,
            invitation_id: invitation.invitation_id,
            download: Arc::clone(&invitation.download),
            conditions,
            phase: Phase::Training { began: now },
            effort: None,
            next: None,
            dropout: None,
            cut: None,
        }
    }

    /// The user's link in one direction.
    pub fn link(&self, direction: Direction) -> Link {
        match direction {
            Direction::Up => self.conditions.up,
            Direction::Down => self.conditions.down,
        }
    }

    /// Finds the phase in which the participation drops out: the instant is uniform over the time that all of it takes
    /// if the server's link holds nobody back. Without an end to its training nobody knows, and it does not.
    pub fn plan_dropout(&mut self, download: Bytes) {
        let (Some(share), Some(Effort { work, upload: Some(upload) })) = (self.conditions.dropout_at, self.effort)
        else {
            return;
        };
        let conditions = &self.conditions;
        let download = conditions.down.transfer_time(download);
        let compute = conditions.speed.time_for(work);
        let upload = conditions.up.transfer_time(upload);
        let whole = download + compute + upload;
        // In 2^-32 steps, so that the instant is an integer computation.
        let instant = SimTime::ZERO + whole.fraction((share * 4_294_967_296.0) as u64, 1 << 32);
        let (trains, uploads) = (SimTime::ZERO + download, SimTime::ZERO + download + compute);
        self.dropout = Some(if instant < trains {
            Dropout::InTransfer(Direction::Down, instant.since(SimTime::ZERO))
        } else if instant < uploads {
            Dropout::InTraining(instant.since(trains))
        } else {
            Dropout::InTransfer(Direction::Up, instant.since(uploads))
        });
    }

    /// The frame on its way.
    pub fn transfer(&self) -> Option<&Transfer> {
        match &self.phase {
            Phase::Downloading(transfer) | Phase::Uploading { transfer, .. } => Some(transfer),
            Phase::Training { .. } => None,
        }
    }

    /// The frame on its way, to change.
    pub fn transfer_mut(&mut self) -> Option<&mut Transfer> {
        match &mut self.phase {
            Phase::Downloading(transfer) | Phase::Uploading { transfer, .. } => Some(transfer),
            Phase::Training { .. } => None,
        }
    }
}
