//! The state of one participation between invitation and upload.

use bytes::Bytes as Frame;
use serde::{Deserialize, Serialize};

use crate::calendar::Appointment;
use crate::consultation::Consultation;
use crate::invitation::{Invitation, Participant};
use crate::messages::Effort;
use crate::outcome::{Ending, LinkEvent, LossCause};
use crate::upload::Upload;
use crate::world::World;
use fedrecsim_core::legs::{Job, Leg, Peer, Route};
use fedrecsim_core::work::Work;
use fedrecsim_core::{Bytes, Direction, Result, SimDuration, SimTime, UserId};
use fedrecsim_data::population::{Conditions, Link, Speed, Verdict};
use fedrecsim_model::codec::FrameParts;

/// A participation and where it stands between invitation and upload.
pub(super) struct Participation {
    pub user: UserId,
    pub invitation: Invitation,
    pub conditions: Conditions,
    /// The number of its present leg, among those of its phase.
    pub leg: u8,
    pub activity: Activity,
    /// What its training takes, once that has been worked out.
    pub effort: Option<Effort>,
    /// The upload, once the training has ended.
    pub upload: Option<Upload>,
    /// The event that happens next to it; `None` if that depends on other participations.
    pub next: Option<Appointment>,
    /// The place where it drops out, if it does and that is known.
    pub dropout: Option<Dropout>,
    /// The loss that is scheduled, if one is.
    pub loss: Option<Loss>,
}

/// The time when a participation is lost.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Loss {
    pub at: SimTime,
    /// `None` only while a checkpoint is read.
    #[serde(skip)]
    pub appointment: Option<Appointment>,
    /// The cause; every departure counts as the user's own. Whether an outage makes the user leave
    /// is looked up when it happens.
    pub cause: LossCause,
}

/// What happens in the present leg of a participation.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) enum Activity {
    /// A frame is on its way.
    Transfer(Transfer),
    /// The device or the third party works.
    Work { began: SimTime },
    /// Nothing, since the leg has not begun. No checkpoint is written then.
    None,
}

/// A frame on its way.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Transfer {
    pub route: Route,
    pub size: Bytes,
    pub began: SimTime,
    pub way: Way,
    /// The effect of a fault or a dropout on the frame. If the frame is cut, `size` is the bytes
    /// that are carried.
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

/// The place where a participation drops out: a leg, and the part of it that is done by then.
///
/// The plan assumes that nobody holds a leg back. A leg that begins at another time may have another
/// rate in a trace, so that only the part, and not the time that it was planned to take, is sure to
/// be within the leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Dropout {
    pub leg: u8,
    elapsed: SimDuration,
    /// The length of the leg as it was planned, which is greater than `elapsed`.
    of: SimDuration,
}

impl Dropout {
    /// Returns the time since the leg began after which the participation drops out, if the leg
    /// takes `length`.
    pub(crate) fn after(self, length: SimDuration) -> SimDuration {
        self.elapsed
            .fraction(length.as_nanos(), self.of.as_nanos().max(1))
    }
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
    pub(crate) fn new(user: UserId, invitation: Invitation, conditions: Conditions) -> Self {
        Self {
            user,
            invitation,
            conditions,
            leg: 0,
            activity: Activity::None,
            effort: None,
            upload: None,
            next: None,
            dropout: None,
            loss: None,
        }
    }

    pub(crate) fn participant(&self) -> Participant {
        (self.user, self.invitation.id)
    }

    /// Returns the legs of its phase.
    fn legs<'a>(&self, world: &'a World) -> &'a [Leg] {
        world.legs(self.invitation.download.phase())
    }

    /// Returns its present leg; `None` after the last one.
    pub(crate) fn leg_in(&self, world: &World) -> Option<Leg> {
        self.legs(world).get(usize::from(self.leg)).copied()
    }

    /// Returns where in the present leg it drops out, if it does in this leg.
    pub(crate) fn dropout_now(&self) -> Option<Dropout> {
        self.dropout.filter(|dropout| dropout.leg == self.leg)
    }

    /// Returns when it drops out of a transfer of `whole` bytes that begins at `began` and that
    /// nobody holds back, if it does in the present leg, and takes that for the plan.
    pub(crate) fn begin_dropout(
        &mut self,
        route: Route,
        whole: Bytes,
        began: SimTime,
    ) -> Option<SimTime> {
        let planned = self.dropout_now()?;
        let alone = self.link(route.direction).arrival(began, whole);
        let (of, leg) = (alone.since(began), planned.leg);
        let elapsed = planned.after(of);
        self.dropout = Some(Dropout { leg, elapsed, of });
        Some(began + elapsed)
    }

    /// Returns when it drops out of this transfer, if it does and nobody holds the transfer back.
    pub(crate) fn drops_out_at(&self, transfer: &Transfer) -> Option<SimTime> {
        let dropout = self.dropout_now()?;
        Some(transfer.began + dropout.elapsed)
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

    /// Finds the leg where the participation, which begins at `now`, drops out. The instant is
    /// uniform over the time that all legs take if the server's link holds nobody back. A
    /// participation whose training fails does not drop out, since its duration is not known.
    ///
    /// # Errors
    /// Those of the method, where it makes a download for each user.
    pub(crate) fn plan_dropout(&mut self, world: &World, now: SimTime) -> Result<()> {
        let upload_size = self.effort.as_ref().and_then(|effort| effort.upload_size);
        let (Some(share), Some(upload_size)) = (self.conditions.dropout_at, upload_size) else {
            return Ok(());
        };
        let legs = self.legs(world);
        let mut ends_of_legs = Vec::with_capacity(legs.len());
        let mut last = now;
        for leg in legs {
            last = self.planned_end(*leg, world, last, upload_size)?;
            ends_of_legs.push(last);
        }
        // The share is taken in units of 2^-32, so that the instant is an integer computation.
        let share = (share * 4_294_967_296.0) as u64;
        let instant = now + last.since(now).fraction(share, 1 << 32);
        let mut began = now;
        for (leg, ends) in (0u8..).zip(ends_of_legs) {
            if instant < ends || usize::from(leg) + 1 == legs.len() {
                self.dropout = Some(Dropout {
                    leg,
                    elapsed: instant.since(began),
                    of: ends.since(began),
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
        leg: Leg,
        world: &World,
        began: SimTime,
        upload_size: Bytes,
    ) -> Result<SimTime> {
        Ok(match leg {
            Leg::Work(job) => {
                let work = self.work_of(job).unwrap_or_default();
                began + self.speed_of(job, world).time_for(work)
            }
            Leg::Transfer(Route::UPLOAD) => self.conditions.up.arrival(began, upload_size),
            Leg::Transfer(route) => {
                let parts = self.parts_of(route, world)?.unwrap_or_default();
                let size = Bytes::new(parts.total());
                self.link(route.direction).arrival(began, size)
            }
        })
    }

    /// Returns the work of a job; `None` if it has not been worked out.
    pub(crate) fn work_of(&self, job: Job) -> Option<Work> {
        let effort = self.effort.as_ref()?;
        let consultation = effort.third_party.as_ref();
        Some(match job {
            Job::Training => effort.work,
            Job::Request => consultation.map_or_else(Work::default, |made| made.request_work),
            Job::Reply => consultation.map_or_else(Work::default, |made| made.reply_work),
        })
    }

    /// Returns the speed at which a job is done.
    pub(crate) fn speed_of(&self, job: Job, world: &World) -> Speed {
        match job {
            Job::Reply => Speed::of_server(&world.scenario.server),
            // The fixed time of a participation has passed before the request was made.
            Job::Training if world.exchange(self.invitation.download.phase()).is_some() => Speed {
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
    pub(crate) fn parts_of(&self, route: Route, world: &World) -> Result<Option<FrameParts>> {
        let parts = match route {
            Route::DOWNLOAD => Some(self.invitation.download.parts(self.user)?),
            Route::UPLOAD => self.upload.as_ref().map(Upload::parts),
            _ => self
                .consultation_with(route.peer)
                .map(|consultation| consultation.frame(route.direction).parts),
        };
        Ok(parts.map(|parts| world.overheads.added_to(route, parts)))
    }

    /// Returns the consultation of this peer before the training; `None` if there is none, or if it
    /// has not been worked out.
    pub(crate) fn consultation_with(&self, peer: Peer) -> Option<&Consultation> {
        self.effort.as_ref()?.consultation_with(peer)
    }

    /// Returns the frame on its way, to be changed; `None` if none is on its way.
    pub(crate) fn transfer_mut(&mut self) -> Option<&mut Transfer> {
        match &mut self.activity {
            Activity::Transfer(transfer) => Some(transfer),
            Activity::Work { .. } | Activity::None => None,
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
