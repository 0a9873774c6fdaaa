//! Transfers, which turn bytes into time.
//!
//! If the server's link has no limit, a transfer has its client's link for itself, and its end is known when it starts.
//! If it has one, all transfers of a direction share it ([`FairLink`]), and where connections are limited, further
//! transfers wait in line. The calendar then holds one event for the next end in each direction, which moves with every
//! start and end.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::event::Event;
use super::participation::{Activity, Participation, Transfer, Way};
use super::unanswered;

use crate::codec::FrameParts;
use crate::error::{Error, Result};
use crate::ids::{InvitationId, Step, UserId};
use crate::legs::{Job, Leg, Peer, Route};
use crate::population::Verdict;
use crate::scenario::ServerLinkSpec;
use crate::sim::by_user::ByUser;
use crate::sim::calendar::{Appointment, Calendar};
use crate::sim::fair_link::{FairLink, FlowId};
use crate::sim::messages::{Booking, LinkEvent};
use crate::sim::world::World;
use crate::units::{Bytes, Direction, SimTime};

/// The positions of appointments in a checkpoint's list of pending events.
pub(super) type Places = BTreeMap<Appointment, u32>;

/// The server's link, if it is limited.
pub(super) struct ServerLink {
    up: Lane,
    down: Lane,
    /// The limit of transfers at a time, both directions together.
    connections: Option<u32>,
    in_progress: u32,
    /// The users who wait for a connection, by a number that grows, so that the first to come is the first to be
    /// served.
    line: BTreeMap<u64, UserId>,
    next_in_line: u64,
}

/// The server's link in a checkpoint. Each direction has the time of its next end and the position of that event.
#[derive(Serialize, Deserialize)]
pub(super) struct SavedLink {
    up: (FairLink, Option<(SimTime, u32)>),
    down: (FairLink, Option<(SimTime, u32)>),
    in_progress: u32,
    line: BTreeMap<u64, UserId>,
    next_in_line: u64,
}

/// One direction of the server's link.
struct Lane {
    link: FairLink,
    /// The next end that is in the calendar.
    next_end: Option<(SimTime, Appointment)>,
}

impl ServerLink {
    /// Makes the server's link; `None` if it has no limit.
    pub fn new(spec: &ServerLinkSpec) -> Option<Self> {
        let limited = spec.uplink.is_some() || spec.downlink.is_some() || spec.connections.is_some();
        let lane = |capacity| Lane { link: FairLink::new(capacity), next_end: None };
        limited.then(|| Self {
            up: lane(spec.uplink),
            down: lane(spec.downlink),
            connections: spec.connections,
            in_progress: 0,
            line: BTreeMap::new(),
            next_in_line: 0,
        })
    }

    /// Returns what a checkpoint stores of the link.
    pub fn save(&self, places: &Places) -> SavedLink {
        let lane = |lane: &Lane| {
            let next_end = lane.next_end.and_then(|(time, next)| Some((time, *places.get(&next)?)));
            (lane.link.clone(), next_end)
        };
        SavedLink {
            up: lane(&self.up),
            down: lane(&self.down),
            in_progress: self.in_progress,
            line: self.line.clone(),
            next_in_line: self.next_in_line,
        }
    }

    /// Returns the link that was saved, for the same scenario.
    ///
    /// # Errors
    /// Those of `appointment`, which finds an event's appointment by its position.
    pub fn restore(
        saved: SavedLink,
        spec: &ServerLinkSpec,
        appointment: impl Fn(u32) -> Result<Appointment>,
    ) -> Result<Option<Self>> {
        let lane = |(link, next_end): (FairLink, Option<(SimTime, u32)>)| -> Result<Lane> {
            let next_end = next_end.map(|(time, place)| Ok::<_, Error>((time, appointment(place)?))).transpose()?;
            Ok(Lane { link, next_end })
        };
        let (up, down) = (lane(saved.up)?, lane(saved.down)?);
        let SavedLink { in_progress, line, next_in_line, .. } = saved;
        Ok(Self::new(spec).map(|link| Self { up, down, in_progress, line, next_in_line, ..link }))
    }

    /// Clears the line, so that no user in it gets a connection any more.
    pub fn close(&mut self) {
        self.line.clear();
    }

    fn lane(&mut self, direction: Direction) -> &mut Lane {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    fn has_a_connection_free(&self) -> bool {
        self.connections.is_none_or(|connections| self.in_progress < connections)
    }
}

/// Everything that is on its way: the calendar, the server's link, and the bookings of what has happened. It does not
/// know who takes part, so callers pass the participation.
pub(super) struct Traffic {
    pub world: Arc<World>,
    pub calendar: Calendar<Event>,
    /// The server's link; `None` if it has no limit.
    pub server_link: Option<ServerLink>,
    pub bookings: Vec<Booking>,
}

impl Traffic {
    /// Begins the leg that a participation is at. By now, the frame that it sends has been made, or its work has been
    /// worked out.
    pub fn begin_leg(&mut self, user: UserId, participation: &mut Participation) -> Result<()> {
        let world = Arc::clone(&self.world);
        participation.activity = match world.legs(participation.download.phase()).get(usize::from(participation.leg)) {
            Some(Leg::Transfer(route)) => {
                let parts = participation.parts_of(user, *route)?;
                let parts = parts.ok_or_else(|| unanswered("client", format!("it made no {}", route.name())))?;
                Activity::Transfer(self.start(user, participation, *route, parts)?)
            }
            Some(Leg::Work(job)) => self.start_work(user, participation, *job)?,
            None => return Err(unanswered("network", "a leg began after the last one")),
        };
        Ok(())
    }

    /// Moves a participation on to its next leg, and begins that.
    pub fn begin_next_leg(&mut self, user: UserId, participation: &mut Participation) -> Result<()> {
        participation.leg += 1;
        self.begin_leg(user, participation)
    }

    /// Starts a job of a participation.
    fn start_work(&mut self, user: UserId, participation: &mut Participation, job: Job) -> Result<Activity> {
        let began = self.calendar.now();
        let work = participation.work_of(job).ok_or_else(|| unanswered("network", "work began out of turn"))?;
        let ends = began + participation.speed_of(job, &self.world).time_for(work);
        let ends = self.within_time(ends, user, participation.step)?;
        participation.next = Some(self.calendar.schedule(ends, Event::WorkEnded(user)));
        if let Some(dropout) = participation.dropout.filter(|dropout| dropout.leg == participation.leg) {
            self.schedule_cut(user, participation, began + dropout.elapsed);
        }
        if participation.leg == 0 {
            self.book(participation.invitation_id, user, LinkEvent::WorkBegan(job));
        }
        Ok(Activity::Work { began })
    }

    /// Starts the transfer of a frame for `user`, and returns it.
    pub fn start(
        &mut self,
        user: UserId,
        participation: &mut Participation,
        route: Route,
        parts: FrameParts,
    ) -> Result<Transfer> {
        let size = Bytes::new(parts.total());
        let now = self.calendar.now();
        let verdict = self.world.population.faults().verdict(user, participation.invitation_id, route, now);
        let (size, fault) = match verdict {
            Some(Verdict::CutAt(bytes)) if bytes < size => (bytes, verdict),
            Some(Verdict::CutAt(_)) => (size, None),
            _ => (size, verdict),
        };
        let direction = route.direction;
        let link = participation.link(direction);
        let dropout = participation.dropout.filter(|dropout| dropout.leg == participation.leg);
        let dropout = dropout.map(|dropout| dropout.elapsed);
        // The third party's link has no limit.
        let server_link = self.server_link.as_mut().filter(|_| route.peer == Peer::Server);
        let (size, fault) = match dropout {
            // The bytes that are carried before a dropout do not depend on how many share the server's link.
            Some(elapsed) if server_link.is_some() => {
                let carried = link.carried(size, elapsed);
                (carried, if fault == Some(Verdict::Drop) { fault } else { Some(Verdict::CutAt(carried)) })
            }
            _ => (size, fault),
        };
        let mut transfer = Transfer { route, size, began: now, way: Way::Alone, fault };
        match server_link {
            None => {
                let arrives =
                    self.within_time(now + link.transfer_time(size) + transfer.delay(), user, participation.step)?;
                participation.next = Some(self.calendar.schedule(arrives, Event::FrameArrived(user)));
                if let Some(elapsed) = dropout {
                    self.schedule_cut(user, participation, now + elapsed);
                }
            }
            Some(server) if server.has_a_connection_free() => {
                transfer.way = Way::Shared;
                server.in_progress += 1;
                // A user has at most one transfer in a direction, so its number is free.
                let started = server.lane(direction).link.start(now, FlowId(user.0), size, link.rate);
                debug_assert!(started, "{user} has two transfers in one direction");
                self.reschedule(direction);
            }
            Some(server) => {
                transfer.way = Way::InLine(server.next_in_line);
                server.line.insert(server.next_in_line, user);
                server.next_in_line += 1;
            }
        }
        self.book(participation.invitation_id, user, LinkEvent::Sent(route, parts));
        if let Way::InLine(_) = transfer.way {
            self.book(participation.invitation_id, user, LinkEvent::InLine(route));
        }
        Ok(transfer)
    }

    /// Handles the end of transfers in a direction. Their frames arrive after the latency.
    pub fn end_transfers(
        &mut self,
        now: SimTime,
        direction: Direction,
        taking_part: &mut ByUser<Box<Participation>>,
    ) -> Result<()> {
        // The event of this appointment is happening, so it must not be cancelled below.
        if let Some(server) = &mut self.server_link {
            server.lane(direction).next_end = None;
        }
        let take_ended = |traffic: &mut Self| traffic.server_link.as_mut()?.lane(direction).link.take_ended(now);
        while let Some(FlowId(user)) = take_ended(self) {
            let user = UserId(user);
            let participation = taking_part.get_mut(&user).ok_or_else(|| absent(user))?;
            let latency = participation.link(direction).latency;
            let mut arrives = now + latency;
            if let Some(transfer) = participation.transfer_mut() {
                transfer.way = Way::Sent;
                arrives = arrives + transfer.delay();
            }
            participation.next = Some(self.calendar.schedule(arrives, Event::FrameArrived(user)));
            self.within_time(arrives, user, participation.step)?;
            self.free_connection(taking_part)?;
        }
        self.reschedule(direction);
        Ok(())
    }

    /// Stops the transfer of a participation that has left `taking_part`, and returns the bytes that it has carried.
    pub fn stop(
        &mut self,
        user: UserId,
        participation: &Participation,
        transfer: &Transfer,
        taking_part: &mut ByUser<Box<Participation>>,
    ) -> Result<Bytes> {
        let now = self.calendar.now();
        match transfer.way {
            Way::Alone => {
                Ok(participation.link(transfer.route.direction).carried(transfer.size, transfer.elapsed(now)))
            }
            Way::Sent => Ok(transfer.size),
            Way::InLine(number) => {
                if let Some(server) = &mut self.server_link {
                    server.line.remove(&number);
                }
                Ok(Bytes::new(0))
            }
            Way::Shared => {
                let server = self.server_link.as_mut();
                let carried =
                    server.and_then(|server| server.lane(transfer.route.direction).link.stop(now, FlowId(user.0)));
                self.free_connection(taking_part)?;
                self.reschedule(transfer.route.direction);
                Ok(carried.unwrap_or(Bytes::new(0)))
            }
        }
    }

    /// Gives a connection that has become free to the first user in line.
    fn free_connection(&mut self, taking_part: &mut ByUser<Box<Participation>>) -> Result<()> {
        let now = self.calendar.now();
        let Some(server) = &mut self.server_link else { return Ok(()) };
        server.in_progress -= 1;
        let Some((_, user)) = server.line.pop_first() else { return Ok(()) };
        server.in_progress += 1;
        let participation = taking_part.get_mut(&user).ok_or_else(|| absent(user))?;
        let invitation_id = participation.invitation_id;
        let (up, down) = (participation.conditions.up.rate, participation.conditions.down.rate);
        if let Some(transfer) = participation.transfer_mut() {
            transfer.way = Way::Shared;
            let route = transfer.route;
            let direction = route.direction;
            let rate = if direction == Direction::Up { up } else { down };
            let started = server.lane(direction).link.start(now, FlowId(user.0), transfer.size, rate);
            debug_assert!(started, "{user} has two transfers in one direction");
            self.book(invitation_id, user, LinkEvent::Connected(route));
            self.reschedule(direction);
        }
        Ok(())
    }

    /// Brings the calendar up to date with the next end of a direction.
    fn reschedule(&mut self, direction: Direction) {
        let Some(server) = &mut self.server_link else { return };
        let lane = server.lane(direction);
        // A transfer that ends beyond what the clock can show has no end; nor has anything that waits for it.
        let next = lane.link.next_end().filter(|end| *end < SimTime::END);
        if lane.next_end.as_ref().map(|(time, _)| *time) == next {
            return;
        }
        if let Some((_, appointment)) = lane.next_end.take() {
            self.calendar.cancel(appointment);
        }
        lane.next_end = next.map(|time| (time, self.calendar.schedule(time, Event::TransfersEnded(direction))));
    }

    /// Schedules that a participation is cut off at `time`, unless an earlier cut is scheduled.
    pub fn schedule_cut(&mut self, user: UserId, participation: &mut Participation, time: SimTime) {
        if participation.cut.as_ref().is_some_and(|(earlier, _)| *earlier <= time) {
            return;
        }
        let appointment = self.calendar.schedule(time, Event::CutOff(user));
        if let Some((_, later)) = participation.cut.replace((time, appointment)) {
            self.calendar.cancel(later);
        }
    }

    /// Returns `time`, or an error if it is beyond what the clock can show.
    pub fn within_time(&self, time: SimTime, user: UserId, step: Step) -> Result<SimTime> {
        let round = self.world.scenario.training.round_of(step);
        if time == SimTime::END { Err(Error::TimeOverflow { round, user }) } else { Ok(time) }
    }

    /// Books what has happened at this instant.
    pub fn book(&mut self, invitation_id: InvitationId, user: UserId, event: LinkEvent) {
        self.bookings.push(Booking { at: self.calendar.now(), invitation_id, user, event });
    }
}

pub(super) fn absent(user: UserId) -> Error {
    Error::Actor { actor: "network", reason: format!("{user} takes no part") }
}
