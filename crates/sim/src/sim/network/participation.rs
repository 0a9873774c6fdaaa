//! The state of one participation between invitation and upload.

use std::sync::Arc;

use bytes::Bytes as Frame;
use serde::{Deserialize, Serialize};

use crate::sim::calendar::Appointment;
use crate::sim::consultation::Consultation;
use crate::sim::download::{AskedRows, OutgoingDownload};
use crate::sim::messages::{Effort, Ending, Invitation, LinkEvent, LossCause};
use crate::sim::upload::{UploadFrame, UploadOrigin};
use crate::sim::world::World;
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::{InvitationId, Step, UserId};
use fedrecsim_core::legs::{Job, Leg, Peer, Route};
use fedrecsim_core::units::{Bytes, Direction, SimDuration, SimTime};
use fedrecsim_core::work::Work;
use fedrecsim_data::population::{Conditions, Link, Speed, Verdict};
use fedrecsim_model::codec::FrameParts;

/// A participation and where it stands between invitation and upload.
pub(super) struct Participation {
    /// The step in which the user was invited.
    pub step: Step,
    pub invitation_id: InvitationId,
    /// The download.
    pub download: Arc<OutgoingDownload>,
    pub conditions: Conditions,
    /// The number of its present leg, among those of its phase.
    pub leg: u8,
    pub activity: Activity,
    /// The work of its training and exchange, once these have been worked out.
    pub effort: Option<Effort>,
    /// The upload, once the training has ended.
    pub upload: Option<Upload>,
    /// The event that happens next to it; `None` if that depends on other participations.
    pub next: Option<Appointment>,
    /// The place where it drops out, if it does and that is known.
    pub dropout: Option<Dropout>,
    /// The time when it is cut off, if that is known, with the event and the cause.
    pub cut: Option<Cut>,
}

/// The time when a participation is cut off.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    pub at: SimTime,
    pub appointment: Appointment,
    /// The cause, in which every departure counts as one of the user's own. Whether an outage makes
    /// the user leave is looked up when it happens.
    pub cause: LossCause,
}

/// What happens in the present leg of a participation.
pub(super) enum Activity {
    /// A frame is on its way.
    Transfer(Transfer),
    /// The device or the third party works.
    Work { began: SimTime },
}

/// The upload that a training has made.
pub(super) struct Upload {
    pub frame: UploadFrame,
    /// The mean local loss, which is counted when the server uses the update.
    pub loss: f64,
}

/// A frame on its way.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Transfer {
    pub route: Route,
    pub size: Bytes,
    pub began: SimTime,
    pub way: Way,
    /// What a fault does to the frame, or a dropout. If the frame is cut, `size` is the bytes that
    /// are carried.
    pub fault: Option<Verdict>,
}

/// The place of a frame on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Way {
    /// It is on a link that it has for itself.
    Alone,
    /// It waits for a connection. The number gives its place in the line.
    InLine(u64),
    /// It has a connection to the server's link, and its first byte has not left.
    StartingUp,
    /// It is on the server's link, which it shares with others.
    Shared,
    /// Its last byte has left, and it arrives after the latency.
    Sent,
}

/// The place where a participation drops out: a leg, and the time since the leg began, if the
/// server's link holds nobody back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Dropout {
    pub leg: u8,
    pub elapsed: SimDuration,
}

impl Transfer {
    pub(crate) fn elapsed(&self, now: SimTime) -> SimDuration {
        now.since(self.began)
    }

    /// Returns how much later than without a fault it arrives.
    pub(crate) fn delay(&self) -> SimDuration {
        match self.fault {
            Some(Verdict::Delay(delay)) => delay,
            _ => SimDuration::ZERO,
        }
    }

    /// Returns whether a fault keeps it from arriving as it was sent.
    pub(crate) fn is_spoiled(&self) -> bool {
        !matches!(self.fault, None | Some(Verdict::Delay(_)))
    }

    /// Returns `frame` as its receiver gets it; `None` if a fault keeps it from arriving whole.
    pub(crate) fn as_it_arrives(&self, frame: &Frame) -> Option<Frame> {
        match self.fault {
            None | Some(Verdict::Delay(_)) => Some(frame.clone()),
            Some(Verdict::Corrupt { draw }) => Some(with_bit_turned(frame, draw)),
            Some(Verdict::CutAt(_) | Verdict::Drop) => None,
        }
    }

    /// Returns the event of its end after `carried` bytes.
    pub(crate) fn ended(&self, now: SimTime, ending: Ending, carried: Bytes) -> LinkEvent {
        let received = self.fault != Some(Verdict::Drop);
        let (route, took_ns) = (self.route, self.elapsed(now).as_nanos());
        LinkEvent::TransferEnded {
            route,
            ending,
            carried: carried.get(),
            received,
            took_ns,
        }
    }
}

impl Participation {
    /// Makes a participation that is about to begin.
    pub(crate) fn new(invitation: &Invitation, conditions: Conditions, now: SimTime) -> Self {
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

    /// Returns what the encoding of its upload depends on.
    pub(crate) fn origin(&self, user: UserId) -> UploadOrigin<'_> {
        UploadOrigin {
            user,
            invitation_id: self.invitation_id,
            download: &self.download,
        }
    }

    /// Returns the user's link in one direction.
    pub(crate) fn link(&self, direction: Direction) -> &Link {
        match direction {
            Direction::Up => &self.conditions.up,
            Direction::Down => &self.conditions.down,
        }
    }

    /// Returns when a transfer that has its link for itself arrives.
    pub(crate) fn arrival(&self, transfer: &Transfer) -> SimTime {
        self.link(transfer.route.direction)
            .arrival(transfer.began, transfer.size)
            + transfer.delay()
    }

    /// Finds the leg in which the participation of `user`, which begins at `now`, drops out. The
    /// instant is uniform over the time that all legs take if the server's link holds nobody back.
    /// A participation whose training fails does not drop out, since its duration is not known.
    ///
    /// # Errors
    /// Those of the method, where it makes a download for each user.
    pub(crate) fn plan_dropout(&mut self, user: UserId, world: &World, now: SimTime) -> Result<()> {
        let legs = world.legs(self.download.phase());
        let (
            Some(share),
            Some(Effort {
                upload: Some(_), ..
            }),
        ) = (self.conditions.dropout_at, &self.effort)
        else {
            return Ok(());
        };
        let mut ends_of_legs = Vec::with_capacity(legs.len());
        let mut last = now;
        for leg in legs {
            last = self.planned_end(user, *leg, world, last)?;
            ends_of_legs.push(last);
        }
        // The share is taken in units of 2^-32, so that the instant is an integer computation.
        let instant = now
            + last
                .since(now)
                .fraction((share * 4_294_967_296.0) as u64, 1 << 32);
        let mut began = now;
        for (leg, ends) in (0u8..).zip(ends_of_legs) {
            if instant < ends || usize::from(leg) + 1 == legs.len() {
                self.dropout = Some(Dropout {
                    leg,
                    elapsed: instant.since(began),
                });
                break;
            }
            began = ends;
        }
        Ok(())
    }

    /// Returns when a leg that begins at `began` ends if the server's link holds nobody back.
    fn planned_end(
        &self,
        user: UserId,
        leg: Leg,
        world: &World,
        began: SimTime,
    ) -> Result<SimTime> {
        let upload = self
            .effort
            .as_ref()
            .and_then(|effort| effort.upload)
            .unwrap_or_default();
        Ok(match leg {
            Leg::Work(job) => {
                began
                    + self
                        .speed_of(job, world)
                        .time_for(self.work_of(job).unwrap_or_default())
            }
            Leg::Transfer(Route::UPLOAD) => self.conditions.up.arrival(began, upload),
            Leg::Transfer(route) => {
                let parts = self.parts_of(user, route, world)?.unwrap_or_default();
                self.link(route.direction)
                    .arrival(began, Bytes::new(parts.total()))
            }
        })
    }

    /// Returns the work of a job; `None` if it has not been worked out.
    pub(crate) fn work_of(&self, job: Job) -> Option<Work> {
        let effort = self.effort.as_ref()?;
        Some(match job {
            Job::Training => effort.work,
            Job::Request => effort
                .consultation
                .as_ref()
                .map(|consultation| consultation.request_work)
                .unwrap_or_default(),
            Job::Reply => effort
                .consultation
                .as_ref()
                .map(|consultation| consultation.reply_work)
                .unwrap_or_default(),
        })
    }

    /// Returns the speed at which a job is done.
    pub(crate) fn speed_of(&self, job: Job, world: &World) -> Speed {
        match job {
            Job::Reply => Speed::of_server(&world.scenario.server),
            // The fixed time of a participation has passed before the request was made.
            Job::Training if world.exchange(self.download.phase()).is_some() => Speed {
                fixed: SimDuration::ZERO,
                ..self.conditions.speed
            },
            Job::Request | Job::Training => self.conditions.speed,
        }
    }

    /// Returns the bytes by purpose of the frame that travels on `route`; `None` if it has not been
    /// made.
    ///
    /// # Errors
    /// Those of the method, where it makes a download for each user.
    pub(crate) fn parts_of(
        &self,
        user: UserId,
        route: Route,
        world: &World,
    ) -> Result<Option<FrameParts>> {
        let parts = match (route.peer, route.direction) {
            (Peer::Server, _) if route.is_of_asked_rows => self
                .asked_rows()
                .map(|asked| asked.frame_on(route.direction).parts),
            (Peer::Server, Direction::Down) => Some(self.download.parts(user)?),
            (Peer::Server, Direction::Up) => {
                self.upload.as_ref().map(|upload| upload.frame.parts())
            }
            (Peer::ThirdParty, Direction::Up) => self
                .consultation()
                .map(|consultation| consultation.request.parts),
            (Peer::ThirdParty, Direction::Down) => self
                .consultation()
                .map(|consultation| consultation.reply.parts),
        };
        Ok(parts.map(|parts| world.overheads.added_to(route, parts)))
    }

    /// Returns the exchange with the third party; `None` if there is none, or if it has not been
    /// worked out.
    pub(crate) fn consultation(&self) -> Option<&Arc<Consultation>> {
        self.effort.as_ref()?.consultation.as_ref()
    }

    /// Returns what the user has asked the server for; `None` if nothing has to be asked for, or if
    /// it has not been worked out.
    pub(crate) fn asked_rows(&self) -> Option<&Arc<AskedRows>> {
        self.effort.as_ref()?.asked_rows.as_ref()
    }

    /// Returns the frame on its way, to be changed; `None` if none is on its way.
    pub(crate) fn transfer_mut(&mut self) -> Option<&mut Transfer> {
        match &mut self.activity {
            Activity::Transfer(transfer) => Some(transfer),
            Activity::Work { .. } => None,
        }
    }
}

/// Returns `frame` with one bit turned, as a fault does; `draw` decides which bit.
fn with_bit_turned(frame: &Frame, draw: u64) -> Frame {
    let mut bytes = frame.to_vec();
    let bits = 8 * bytes.len() as u64;
    if let Some(bit) = draw.checked_rem(bits) {
        bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
    bytes.into()
}
