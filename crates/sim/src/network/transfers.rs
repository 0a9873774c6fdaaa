//! Transfers, which turn bytes into time.
//!
//! If the server's link has no limit, a transfer has its client's link for itself, and its end is
//! known when it starts. If it has one, all transfers of a direction share it ([`FairLink`]), and
//! where connections are limited, further transfers wait in line. The calendar then holds one event
//! for the next end in each direction, which moves with every start and end, and one for each
//! transfer that is still starting up or whose own link changes its rate.

use std::sync::Arc;

use super::Event;
use super::participation::{Activity, Loss, Participation, Transfer, Way};
use super::server_link::ServerLink;
use super::watch::{Unshared, Watch};
use crate::by_user::ByUser;
use crate::calendar::{Appointment, Calendar};
use crate::fair_link::FlowId;
use crate::outcome::{Booking, Gauges, LinkEvent, LossCause};
use crate::resident::unanswered;
use crate::world::World;
use fedrecsim_core::legs::{Job, Leg, Peer, Route};
use fedrecsim_core::{Bytes, Direction, Error, Result, SimDuration, SimTime, UserId};
use fedrecsim_data::population::Verdict;
use fedrecsim_model::codec::FrameParts;

/// Everything that is on its way: the calendar, the server's link, and the bookings of what has
/// happened. It does not know who takes part, so callers pass the participation.
pub(super) struct Traffic {
    pub world: Arc<World>,
    pub calendar: Calendar<Event>,
    /// The server's link; `None` if it has no limit.
    pub server_link: Option<ServerLink>,
    /// The transfers that the server's link does not hold back.
    pub unshared: Unshared,
    pub watch: Watch,
    pub bookings: Vec<Booking>,
}

impl Traffic {
    /// Returns the traffic of `world` at time zero, when nothing is on its way.
    pub(super) fn new(world: Arc<World>) -> Self {
        Self {
            calendar: Calendar::default(),
            server_link: ServerLink::new(&world.scenario.network),
            world,
            unshared: Unshared::default(),
            watch: Watch::default(),
            bookings: Vec::new(),
        }
    }

    /// Moves the clock to `time`, before which nothing may be left to happen.
    pub(super) fn wait_until(&mut self, time: SimTime) {
        if time > self.calendar.now() {
            self.calendar.schedule(time, Event::Alarm);
            self.calendar.pop();
        }
    }

    /// Begins the leg that a participation is at. By now, the frame that it sends has been made, or
    /// its work has been worked out.
    pub(crate) fn begin_leg(&mut self, participation: &mut Participation) -> Result<()> {
        // If this fails, the run ends. What was under way before has been booked, and is not again.
        participation.activity = Activity::None;
        participation.activity = match participation.leg_in(&self.world) {
            Some(Leg::Transfer(route)) => {
                let parts = participation.parts_of(route, &self.world)?;
                let parts = parts
                    .ok_or_else(|| unanswered("client", format!("it made no {}", route.name())))?;
                Activity::Transfer(self.start(participation, route, parts)?)
            }
            Some(Leg::Work(job)) => self.start_work(participation, job)?,
            None => return Err(unanswered("network", "a leg began after the last one")),
        };
        Ok(())
    }

    /// Moves a participation on to its next leg, and begins that.
    pub(crate) fn begin_next_leg(&mut self, participation: &mut Participation) -> Result<()> {
        participation.leg += 1;
        self.begin_leg(participation)
    }

    /// Starts a job of a participation.
    fn start_work(&mut self, participation: &mut Participation, job: Job) -> Result<Activity> {
        let began = self.calendar.now();
        let work = participation
            .work_of(job)
            .ok_or_else(|| unanswered("network", "work began out of turn"))?;
        let ends = began + participation.speed_of(job, &self.world).time_for(work);
        let ended = Event::WorkEnded(participation.user);
        participation.next = Some(self.calendar.schedule(ends, ended));
        if let Some(dropout) = participation.dropout_now() {
            let at = began + dropout.after(ends.since(began));
            self.schedule_loss(participation, at, LossCause::Dropout);
        }
        if participation.leg == 0 {
            self.book(participation, LinkEvent::WorkBegan(job));
        }
        Ok(Activity::Work { began })
    }

    /// Starts the transfer of a frame of a participation, and returns it.
    pub(super) fn start(
        &mut self,
        participation: &mut Participation,
        route: Route,
        parts: FrameParts,
    ) -> Result<Transfer> {
        let whole = Bytes::new(parts.total());
        let (now, user) = (self.calendar.now(), participation.user);
        let faults = &self.world.population.faults;
        let hit = faults.verdict(user, participation.invitation.id, route, now);
        let (size, fault) = match hit.map(|hit| hit.verdict) {
            Some(Verdict::CutAt(bytes)) if bytes < whole => (bytes, Some(Verdict::CutAt(bytes))),
            Some(Verdict::CutAt(_)) => (whole, None),
            verdict => (whole, verdict),
        };
        let dropout = participation.begin_dropout(route, whole, now);
        // The third party's link has no limit.
        let server_link = self
            .server_link
            .as_mut()
            .filter(|_| route.peer == Peer::Server);
        let (size, fault) = match dropout {
            // The bytes that are carried before a dropout do not depend on how many share the
            // server's link.
            Some(at) if server_link.is_some() => {
                let link = participation.link(route.direction);
                let carried = link.carried(size, now, at);
                let fault = fault.filter(|fault| *fault == Verdict::Drop);
                (carried, fault.or(Some(Verdict::CutAt(carried))))
            }
            _ => (size, fault),
        };
        let mut transfer = Transfer {
            route,
            size,
            began: now,
            way: Way::Alone,
            fault,
        };
        match server_link {
            None => {
                let arrives = participation.arrival(&transfer);
                let arrived = Event::FrameArrived(user);
                participation.next = Some(self.calendar.schedule(arrives, arrived));
                self.unshared.enter(&transfer, arrives);
                if let Some(at) = dropout {
                    self.schedule_loss(participation, at, LossCause::Dropout);
                }
            }
            Some(server) if server.has_a_connection_free() => {
                server.in_progress += 1;
                transfer.way = self.connect(participation, &transfer);
            }
            Some(server) => {
                transfer.way = Way::InLine(server.next_in_line);
                server.line.insert(server.next_in_line, user);
                server.next_in_line += 1;
            }
        }
        self.book(participation, LinkEvent::Sent(route, parts));
        if let Way::InLine(_) = transfer.way {
            self.book(participation, LinkEvent::InLine(route));
        }
        Ok(transfer)
    }

    /// Handles the end of transfers in a direction. Their frames arrive after the latency.
    pub(crate) fn end_transfers(
        &mut self,
        now: SimTime,
        direction: Direction,
        taking_part: &mut ByUser<Box<Participation>>,
    ) -> Result<()> {
        // The event of this appointment is happening, so it must not be cancelled below.
        if let Some(server) = &mut self.server_link {
            server.lanes.of_mut(direction).next_end = None;
        }
        let take_ended = |traffic: &mut Self| {
            let server = traffic.server_link.as_mut()?;
            server.lanes.of_mut(direction).link.take_ended(now)
        };
        while let Some(FlowId(user)) = take_ended(self) {
            let user = UserId(user);
            let participation = taking_part.get_mut(&user).ok_or_else(|| absent(user))?;
            let mut arrives = now + participation.link(direction).latency_after();
            if let Some(transfer) = participation.transfer_mut().copied() {
                arrives = match self.dropout_of(participation, &transfer) {
                    // The last bytes may have left long before, if the link has carried nothing
                    // since. They tell nobody of the dropout.
                    Some(at) => at.max(now),
                    None => arrives + transfer.delay(),
                };
                let way = Way::Sent;
                participation.activity = Activity::Transfer(Transfer { way, ..transfer });
            }
            let arrival = self.calendar.schedule(arrives, Event::FrameArrived(user));
            if let Some(change) = participation.next.replace(arrival) {
                self.calendar.cancel(change);
            }
            self.free_connection(taking_part)?;
        }
        self.reschedule(direction);
        Ok(())
    }

    /// Stops the transfer of a participation that has left `taking_part`, and returns the bytes
    /// that it has carried.
    pub(crate) fn stop(
        &mut self,
        participation: &Participation,
        transfer: &Transfer,
        taking_part: &mut ByUser<Box<Participation>>,
    ) -> Result<Bytes> {
        let (now, direction) = (self.calendar.now(), transfer.route.direction);
        match transfer.way {
            Way::Alone => {
                let arrives = participation.arrival(transfer);
                self.unshared.leave(transfer, arrives);
                let link = participation.link(direction);
                Ok(link.carried(transfer.size, transfer.began, now))
            }
            Way::Sent => Ok(transfer.size),
            Way::InLine(number) => {
                if let Some(server) = &mut self.server_link {
                    server.line.remove(&number);
                }
                self.watch.waited(transfer.elapsed(now))?;
                Ok(Bytes::new(0))
            }
            Way::StartingUp => {
                self.free_connection(taking_part)?;
                Ok(Bytes::new(0))
            }
            Way::Shared => {
                let flow = FlowId(participation.user.0);
                let server = self.server_link.as_mut();
                let carried =
                    server.and_then(|server| server.lanes.of_mut(direction).link.stop(now, flow));
                self.free_connection(taking_part)?;
                self.reschedule(direction);
                Ok(carried.unwrap_or(Bytes::new(0)))
            }
        }
    }

    /// Gives a connection that has become free to the first user in line.
    fn free_connection(&mut self, taking_part: &mut ByUser<Box<Participation>>) -> Result<()> {
        let Some(server) = &mut self.server_link else {
            return Ok(());
        };
        server.in_progress -= 1;
        let Some((_, user)) = server.line.pop_first() else {
            return Ok(());
        };
        server.in_progress += 1;
        let participation = taking_part.get_mut(&user).ok_or_else(|| absent(user))?;
        if let Some(transfer) = participation.transfer_mut().copied() {
            self.watch
                .waited(self.calendar.now().since(transfer.began))?;
            let way = self.connect(participation, &transfer);
            participation.activity = Activity::Transfer(Transfer { way, ..transfer });
            self.book(participation, LinkEvent::Connected(transfer.route));
        }
        Ok(())
    }

    /// Returns when a transfer on the server's link ends by a dropout if nobody holds it back;
    /// `None` if no dropout ends it, or if a rule of faults lets no more bytes pass.
    pub(crate) fn dropout_of(
        &self,
        participation: &Participation,
        transfer: &Transfer,
    ) -> Option<SimTime> {
        let at = participation.drops_out_at(transfer)?;
        let (user, id) = participation.participant();
        let faults = &self.world.population.faults;
        let hit = faults.verdict(user, id, transfer.route, transfer.began);
        let is_by_rule = hit.is_some_and(|hit| hit.verdict == Verdict::CutAt(transfer.size));
        (!is_by_rule).then_some(at)
    }

    /// Begins a transfer that has a connection with its start-up, if it has one, and returns where
    /// it is.
    fn connect(&mut self, participation: &mut Participation, transfer: &Transfer) -> Way {
        let direction = transfer.route.direction;
        let mut start_up = participation.link(direction).start_up();
        if let Some(at) = self.dropout_of(participation, transfer) {
            start_up = start_up.min(at.since(transfer.began));
        }
        if start_up > SimDuration::ZERO {
            let ends = self.calendar.now() + start_up;
            let ended = Event::StartUpEnded(participation.user);
            participation.next = Some(self.calendar.schedule(ends, ended));
            return Way::StartingUp;
        }
        self.share(participation, direction, transfer.size);
        Way::Shared
    }

    /// Puts a transfer on the server's link.
    fn share(&mut self, participation: &mut Participation, direction: Direction, size: Bytes) {
        let (now, user) = (self.calendar.now(), participation.user);
        let Some(server) = &mut self.server_link else {
            return;
        };
        // A user has at most one transfer in a direction, so its number is free.
        let link_share = participation.link(direction).share_at(now);
        let lane = server.lanes.of_mut(direction);
        let started = lane.link.start(now, FlowId(user.0), size, link_share);
        debug_assert!(started, "{user} has two transfers in one direction");
        self.schedule_change(participation, direction);
    }

    /// Handles the end of a start-up.
    pub(crate) fn start_up_ended(&mut self, participation: &mut Participation) {
        if let Some(transfer) = participation.transfer_mut() {
            transfer.way = Way::Shared;
            let (direction, size) = (transfer.route.direction, transfer.size);
            self.share(participation, direction, size);
        }
    }

    /// Handles a change of the rate of a user's own link during a transfer on the server's link.
    pub(crate) fn change_rate(&mut self, participation: &mut Participation) {
        let now = self.calendar.now();
        let (Some(transfer), Some(server)) =
            (participation.transfer_mut().copied(), &mut self.server_link)
        else {
            return;
        };
        let (direction, flow) = (transfer.route.direction, FlowId(participation.user.0));
        let link_share = participation.link(direction).share_at(now);
        let link = &mut server.lanes.of_mut(direction).link;
        // The last byte may have left at this very instant, which the next event tells.
        if link.change(now, flow, link_share) {
            self.schedule_change(participation, direction);
        }
    }

    /// Schedules the next change of the rate of a user's own link, and the next end on the server's.
    fn schedule_change(&mut self, participation: &mut Participation, direction: Direction) {
        let link = participation.link(direction);
        if let Some(changes) = link.changes_after(self.calendar.now()) {
            let change = Event::RateChanges(participation.user);
            participation.next = Some(self.calendar.schedule(changes, change));
        }
        self.reschedule(direction);
    }

    /// Brings the calendar up to date with the next end of a direction.
    fn reschedule(&mut self, direction: Direction) {
        let Some(server) = &mut self.server_link else {
            return;
        };
        let lane = server.lanes.of_mut(direction);
        let next = lane.link.next_end();
        if lane.next_end.as_ref().map(|(time, _)| *time) == next {
            return;
        }
        if let Some((_, appointment)) = lane.next_end.take() {
            self.calendar.cancel(appointment);
        }
        lane.next_end = next.map(|time| {
            (
                time,
                self.calendar
                    .schedule(time, Event::TransfersEnded(direction)),
            )
        });
    }

    /// Schedules that a participation is lost at `at` for this cause, unless that happens earlier.
    pub(crate) fn schedule_loss(
        &mut self,
        participation: &mut Participation,
        at: SimTime,
        cause: LossCause,
    ) {
        if participation.loss.is_some_and(|earlier| earlier.at <= at) {
            return;
        }
        let lost = Event::Lost(participation.user);
        let appointment = self.calendar.schedule(at, lost);
        let loss = Loss {
            at,
            appointment: Some(appointment),
            cause,
        };
        if let Some(later) = participation.loss.replace(loss) {
            self.cancel(later.appointment);
        }
    }

    /// Cancels an appointment, unless its event has happened.
    pub(crate) fn cancel(&mut self, appointment: Option<Appointment>) {
        appointment.map(|appointment| self.calendar.cancel(appointment));
    }

    /// Counts the time until `now`, before anything changes at that instant. The server has waited
    /// for this many users.
    pub(crate) fn watch_until(&mut self, now: SimTime, waiting_users: usize) {
        if self.watch.is_before(now) {
            let gauges = self.gauges(waiting_users as u64);
            self.watch.pass(now, gauges);
        }
    }

    /// Returns the present values of everything that is watched.
    fn gauges(&self, waiting_users: u64) -> Gauges<u64> {
        match &self.server_link {
            Some(server) => Gauges {
                up_bits_per_s: server.lanes.up.link.rate(),
                down_bits_per_s: server.lanes.down.link.rate(),
                transfers: server.in_progress.into(),
                line: server.line.len() as u64,
                waiting_users,
            },
            None => Gauges {
                up_bits_per_s: self.unshared.bits_per_s.up,
                down_bits_per_s: self.unshared.bits_per_s.down,
                transfers: self.unshared.transfers,
                line: 0,
                waiting_users,
            },
        }
    }

    /// Books what has happened to a participation at this instant.
    pub(crate) fn book(&mut self, participation: &Participation, event: LinkEvent) {
        self.bookings.push(Booking {
            at: self.calendar.now(),
            invitation_id: participation.invitation.id,
            user: participation.user,
            event,
        });
    }
}

pub(super) fn absent(user: UserId) -> Error {
    unanswered("network", format!("{user} takes no part"))
}
