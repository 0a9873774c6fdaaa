//! One participation: where it stands between invitation and upload.

use std::sync::Arc;

use bytes::Bytes as Frame;
use serde::{Deserialize, Serialize};

use crate::codec::FrameParts;
use crate::error::Result;
use crate::ids::{InvitationId, Step, UserId};
use crate::legs::{Job, Leg, Peer, Route};
use crate::population::{Conditions, Link, Speed, Verdict};
use crate::sim::calendar::Appointment;
use crate::sim::download::OutgoingDownload;
use crate::sim::exchange::Exchanged;
use crate::sim::messages::{Effort, Ending, Invitation, LinkEvent};
use crate::sim::world::World;
use crate::units::{Bytes, Direction, SimDuration, SimTime};
use crate::work::Work;

/// A participation from invitation to upload.
pub(super) struct Participation {
    /// The step that it was invited to.
    pub step: Step,
    pub invitation_id: InvitationId,
    /// What is downloaded.
    pub download: Arc<OutgoingDownload>,
    pub conditions: Conditions,
    /// The number of the leg that it is at, among those of its phase.
    pub leg: u8,
    pub activity: Activity,
    /// How much work its training is, once that has been worked out.
    pub effort: Option<Effort>,
    /// What it uploads, once it has been trained.
    pub upload: Option<Upload>,
    /// What happens next to it, unless that hangs on others.
    pub next: Option<Appointment>,
    /// Where on its way it drops out, if it does.
    pub dropout: Option<Dropout>,
    /// When it is cut off, if that is known.
    pub cut: Option<(SimTime, Appointment)>,
}

/// What happens in the leg that a participation is at.
pub(super) enum Activity {
    /// A frame is on its way.
    Transfer(Transfer),
    /// The device works.
    Work { began: SimTime },
}

/// What a training leaves to be sent.
pub(super) struct Upload {
    pub frame: Frame,
    pub parts: FrameParts,
    /// The mean local loss, which is booked when the server uses the update.
    pub loss: f64,
}

/// A frame on its way.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Transfer {
    pub route: Route,
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

/// Where on its way a participation drops out: so long after the beginning of a leg, if the server's link holds nobody
/// back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Dropout {
    pub leg: u8,
    pub elapsed: SimDuration,
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
        let (route, took_ns) = (self.route, self.elapsed(now).as_nanos());
        LinkEvent::TransferEnded { route, ending, carried: carried.get(), received, took_ns }
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
            leg: 0,
            activity: Activity::Work { began: now },
            effort: None,
            upload: None,
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

    /// Finds the leg in which the participation of `user` drops out: the instant is uniform over the time that all of
    /// its legs take if the server's link holds nobody back. Without an end to its training nobody knows, and it does not.
    ///
    /// # Errors
    /// Those of the method that makes a download for a user.
    pub fn plan_dropout(&mut self, user: UserId, world: &World) -> Result<()> {
        let legs = world.legs(self.download.phase());
        let (Some(share), Some(Effort { upload: Some(_), .. })) = (self.conditions.dropout_at, &self.effort) else {
            return Ok(());
        };
        let durations = legs.iter().map(|leg| self.planned_duration(user, *leg, world)).collect::<Result<Vec<_>>>()?;
        let whole = durations.iter().fold(SimDuration::ZERO, |sum, duration| sum + *duration);
        // In 2^-32 steps, so that the instant is an integer computation.
        let instant = SimTime::ZERO + whole.fraction((share * 4_294_967_296.0) as u64, 1 << 32);
        let mut began = SimTime::ZERO;
        for (leg, duration) in (0u8..).zip(durations) {
            let ends = began + duration;
            if instant < ends || usize::from(leg) + 1 == legs.len() {
                self.dropout = Some(Dropout { leg, elapsed: instant.since(began) });
                break;
            }
            began = ends;
        }
        Ok(())
    }

    /// Returns how long a leg takes if the server's link holds nobody back.
    fn planned_duration(&self, user: UserId, leg: Leg, world: &World) -> Result<SimDuration> {
        let upload = self.effort.as_ref().and_then(|effort| effort.upload).unwrap_or_default();
        Ok(match leg {
            Leg::Work(job) => self.speed_of(job, world).time_for(self.work_of(job).unwrap_or_default()),
            Leg::Transfer(Route::UPLOAD) => self.conditions.up.transfer_time(upload),
            Leg::Transfer(route) => {
                let parts = self.parts_of(user, route)?.unwrap_or_default();
                self.link(route.direction).transfer_time(Bytes::new(parts.total()))
            }
        })
    }

    /// Returns the work of a job; `None` if it has not been worked out.
    pub fn work_of(&self, job: Job) -> Option<Work> {
        let effort = self.effort.as_ref()?;
        Some(match job {
            Job::Training => effort.work,
            Job::Request => effort.exchanged.as_ref().map(|exchanged| exchanged.request_work).unwrap_or_default(),
            Job::Reply => effort.exchanged.as_ref().map(|exchanged| exchanged.reply_work).unwrap_or_default(),
        })
    }

    /// Returns the speed at which a job is done.
    pub fn speed_of(&self, job: Job, world: &World) -> Speed {
        match job {
            Job::Reply => Speed::of_server(&world.scenario.server),
            // The fixed time of a participation has passed before the request.
            Job::Training if world.exchange(self.download.phase()).is_some() => {
                Speed { fixed: SimDuration::ZERO, ..self.conditions.speed }
            }
            Job::Request | Job::Training => self.conditions.speed,
        }
    }

    /// Returns the frame that travels on `route` by purpose; `None` if it has not been made.
    ///
    /// # Errors
    /// Those of the method that makes a download for a user.
    pub fn parts_of(&self, user: UserId, route: Route) -> Result<Option<FrameParts>> {
        Ok(match (route.peer, route.direction) {
            (Peer::Server, Direction::Down) => Some(self.download.parts(user)?),
            (Peer::Server, Direction::Up) => self.upload.as_ref().map(|upload| upload.parts),
            (Peer::ThirdParty, Direction::Up) => self.exchanged().map(|exchanged| exchanged.request.parts),
            (Peer::ThirdParty, Direction::Down) => self.exchanged().map(|exchanged| exchanged.reply.parts),
        })
    }

    /// Returns what is exchanged with the third party; `None` if nothing is, or if it has not been worked out.
    pub fn exchanged(&self) -> Option<&Arc<Exchanged>> {
        self.effort.as_ref()?.exchanged.as_ref()
    }

    /// Returns the frame on its way, to change.
    pub fn transfer_mut(&mut self) -> Option<&mut Transfer> {
        match &mut self.activity {
            Activity::Transfer(transfer) => Some(transfer),
            Activity::Work { .. } => None,
        }
    }
}
