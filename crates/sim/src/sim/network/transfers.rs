//! Transfers, which turn bytes into time.
//!
//! If the server's link has no limit, a transfer has its client's link for itself, and its end is
//! known when it starts. If it has one, all transfers of a direction share it ([`FairLink`]), and
//! where connections are limited, further transfers wait in line. The calendar then holds one event
//! for the next end in each direction, which moves with every start and end, and one for each
//! transfer that is still starting up or whose own link changes its rate.

use std::sync::Arc;

use super::event::Event;
use super::participation::{Activity, Cut, Participation, Transfer, Way};
use super::server_link::ServerLink;
use super::unanswered;
use super::watch::{Unshared, Watch};
use crate::sim::by_user::ByUser;
use crate::sim::calendar::Calendar;
use crate::sim::fair_link::FlowId;
use crate::sim::messages::{Booking, LinkEvent, LossCause};
use crate::sim::outcome::network::Gauges;
use crate::sim::world::World;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::ids::{InvitationId, Step, UserId};
use fedrecsim_core::legs::{Job, Leg, Peer, Route};
use fedrecsim_core::units::{Bytes, Direction, SimDuration, SimTime};
use fedrecsim_data::population::{Hit, Verdict};
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
    /// Begins the leg that a participation is at. By now, the frame that it sends has been made, or
    /// its work has been worked out.
    pub(crate) fn begin_leg(
        &mut self,
        user: UserId,
        participation: &mut Participation,
    ) -> Result<()> {
        let legs = self.world.legs(participation.download.phase());
        participation.activity = match legs.get(usize::from(participation.leg)).copied() {
            Some(Leg::Transfer(route)) => {
                let parts = participation.parts_of(user, route, &self.world)?;
                let parts = parts
                    .ok_or_else(|| unanswered("client", format!("it made no {}", route.name())))?;
                Activity::Transfer(self.start(user, participation, route, parts)?)
            }
            Some(Leg::Work(job)) => self.start_work(user, participation, job)?,
            None => return Err(unanswered("network", "a leg began after the last one")),
        };
        Ok(())
    }

    /// Moves a participation on to its next leg, and begins that.
    pub(crate) fn begin_next_leg(
        &mut self,
        user: UserId,
        participation: &mut Participation,
    ) -> Result<()> {
        participation.leg += 1;
        self.begin_leg(user, participation)
    }

    /// Starts a job of a participation.
    fn start_work(
        &mut self,
        user: UserId,
        participation: &mut Participation,
        job: Job,
    ) -> Result<Activity> {
        let began = self.calendar.now();
        let work = participation
            .work_of(job)
            .ok_or_else(|| unanswered("network", "work began out of turn"))?;
        let ends = began + participation.speed_of(job, &self.world).time_for(work);
        let ends = self.within_time(ends, user, participation.step)?;
        participation.next = Some(self.calendar.schedule(ends, Event::WorkEnded(user)));
        if let Some(dropout) = participation
            .dropout
            .filter(|dropout| dropout.leg == participation.leg)
        {
            self.schedule_cut(
                user,
                participation,
                began + dropout.elapsed,
                LossCause::Dropout,
            );
        }
        if participation.leg == 0 {
            self.book(participation.invitation_id, user, LinkEvent::WorkBegan(job));
        }
        Ok(Activity::Work { began })
    }

    /// Starts the transfer of a frame for `user`, and returns it.
    pub(crate) fn start(
        &mut self,
        user: UserId,
        participation: &mut Participation,
        route: Route,
        parts: FrameParts,
    ) -> Result<Transfer> {
        let size = Bytes::new(parts.total());
        let now = self.calendar.now();
        let hit =
            self.world
                .population
                .faults()
                .verdict(user, participation.invitation_id, route, now);
        let verdict = hit.map(|Hit { verdict, .. }| verdict);
        let (size, fault) = match verdict {
            Some(Verdict::CutAt(bytes)) if bytes < size => (bytes, verdict),
            Some(Verdict::CutAt(_)) => (size, None),
            _ => (size, verdict),
        };
        let direction = route.direction;
        let link = participation.link(direction);
        let dropout = participation
            .dropout
            .filter(|dropout| dropout.leg == participation.leg);
        let dropout = dropout.map(|dropout| dropout.elapsed);
        // The third party's link has no limit.
        let server_link = self
            .server_link
            .as_mut()
            .filter(|_| route.peer == Peer::Server);
        let (size, fault) = match dropout {
            // The bytes that are carried before a dropout do not depend on how many share the
            // server's link.
            Some(elapsed) if server_link.is_some() => {
                let carried = link.carried(size, now, now + elapsed);
                (
                    carried,
                    if fault == Some(Verdict::Drop) {
                        fault
                    } else {
                        Some(Verdict::CutAt(carried))
                    },
                )
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
                let arrives = self.within_time(arrives, user, participation.step)?;
                participation.next =
                    Some(self.calendar.schedule(arrives, Event::FrameArrived(user)));
                self.unshared.enter(&transfer, arrives);
                if let Some(elapsed) = dropout {
                    self.schedule_cut(user, participation, now + elapsed, LossCause::Dropout);
                }
            }
            Some(server) if server.has_a_connection_free() => {
                server.in_progress += 1;
                transfer.way = self.connect(user, participation, direction, size);
            }
            Some(server) => {
                transfer.way = Way::InLine(server.next_in_line);
                server.line.insert(server.next_in_line, user);
                server.next_in_line += 1;
            }
        }
        self.book(
            participation.invitation_id,
            user,
            LinkEvent::Sent(route, parts),
        );
        if let Way::InLine(_) = transfer.way {
            self.book(participation.invitation_id, user, LinkEvent::InLine(route));
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
            server.lane(direction).next_end = None;
        }
        let take_ended = |traffic: &mut Self| {
            traffic
                .server_link
                .as_mut()?
                .lane(direction)
                .link
                .take_ended(now)
        };
        while let Some(FlowId(user)) = take_ended(self) {
            let user = UserId(user);
            let participation = taking_part.get_mut(&user).ok_or_else(|| absent(user))?;
            let mut arrives = now + participation.link(direction).latency_after();
            if let Some(transfer) = participation.transfer_mut() {
                transfer.way = Way::Sent;
                arrives = arrives + transfer.delay();
            }
            let arrival = self.calendar.schedule(arrives, Event::FrameArrived(user));
            if let Some(change) = participation.next.replace(arrival) {
                self.calendar.cancel(change);
            }
            self.within_time(arrives, user, participation.step)?;
            self.free_connection(taking_part)?;
        }
        self.reschedule(direction);
        Ok(())
    }

    /// Stops the transfer of a participation that has left `taking_part`, and returns the bytes
    /// that it has carried.
    pub(crate) fn stop(
        &mut self,
        user: UserId,
        participation: &Participation,
        transfer: &Transfer,
        taking_part: &mut ByUser<Box<Participation>>,
    ) -> Result<Bytes> {
        let now = self.calendar.now();
        if transfer.way == Way::Alone {
            self.unshared
                .leave(transfer, participation.arrival(transfer));
        }
        match transfer.way {
            Way::Alone => Ok(participation.link(transfer.route.direction).carried(
                transfer.size,
                transfer.began,
                now,
            )),
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
                let server = self.server_link.as_mut();
                let carried = server.and_then(|server| {
                    server
                        .lane(transfer.route.direction)
                        .link
                        .stop(now, FlowId(user.0))
                });
                self.free_connection(taking_part)?;
                self.reschedule(transfer.route.direction);
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
        let invitation_id = participation.invitation_id;
        if let Some(Transfer {
            route, size, began, ..
        }) = participation.transfer_mut().copied()
        {
            self.watch.waited(self.calendar.now().since(began))?;
            let way = self.connect(user, participation, route.direction, size);
            if let Some(transfer) = participation.transfer_mut() {
                transfer.way = way;
            }
            self.book(invitation_id, user, LinkEvent::Connected(route));
        }
        Ok(())
    }

    /// Begins a transfer that has a connection with its start-up, if it has one, and returns where
    /// it is.
    fn connect(
        &mut self,
        user: UserId,
        participation: &mut Participation,
        direction: Direction,
        size: Bytes,
    ) -> Way {
        let start_up = participation.link(direction).start_up();
        if start_up > SimDuration::ZERO {
            let ends = self.calendar.now() + start_up;
            participation.next = Some(self.calendar.schedule(ends, Event::StartUpEnded(user)));
            return Way::StartingUp;
        }
        self.share(user, participation, direction, size);
        Way::Shared
    }

    /// Puts a transfer on the server's link.
    fn share(
        &mut self,
        user: UserId,
        participation: &mut Participation,
        direction: Direction,
        size: Bytes,
    ) {
        let now = self.calendar.now();
        let link = participation.link(direction);
        let Some(server) = &mut self.server_link else {
            return;
        };
        // A user has at most one transfer in a direction, so its number is free.
        let started =
            server
                .lane(direction)
                .link
                .start(now, FlowId(user.0), size, link.claim_at(now));
        debug_assert!(started, "{user} has two transfers in one direction");
        if let Some(changes) = link.changes_after(now) {
            participation.next = Some(self.calendar.schedule(changes, Event::RateChanges(user)));
        }
        self.reschedule(direction);
    }

    /// Handles the end of a start-up.
    pub(crate) fn start_up_ended(&mut self, user: UserId, participation: &mut Participation) {
        let Some(transfer) = participation.transfer_mut() else {
            return;
        };
        transfer.way = Way::Shared;
        let (direction, size) = (transfer.route.direction, transfer.size);
        self.share(user, participation, direction, size);
    }

    /// Handles a change of the rate of a user's own link during a transfer on the server's link.
    pub(crate) fn change_rate(&mut self, user: UserId, participation: &mut Participation) {
        let now = self.calendar.now();
        let Some(direction) = participation
            .transfer_mut()
            .map(|transfer| transfer.route.direction)
        else {
            return;
        };
        let link = participation.link(direction);
        let Some(server) = &mut self.server_link else {
            return;
        };
        // The last byte may have left at this very instant, which the next event tells.
        if !server
            .lane(direction)
            .link
            .change(now, FlowId(user.0), link.claim_at(now))
        {
            return;
        }
        if let Some(changes) = link.changes_after(now) {
            participation.next = Some(self.calendar.schedule(changes, Event::RateChanges(user)));
        }
        self.reschedule(direction);
    }

    /// Brings the calendar up to date with the next end of a direction.
    fn reschedule(&mut self, direction: Direction) {
        let Some(server) = &mut self.server_link else {
            return;
        };
        let lane = server.lane(direction);
        // A transfer that ends beyond what the clock can show has no end; nor has anything that
        // waits for it.
        let next = lane.link.next_end().filter(|end| *end < SimTime::END);
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

    /// Schedules that a participation is cut off at `at` for this cause, unless an earlier cut is
    /// scheduled.
    pub(crate) fn schedule_cut(
        &mut self,
        user: UserId,
        participation: &mut Participation,
        at: SimTime,
        cause: LossCause,
    ) {
        if participation.cut.is_some_and(|earlier| earlier.at <= at) {
            return;
        }
        let appointment = self.calendar.schedule(at, Event::CutOff(user));
        if let Some(later) = participation.cut.replace(Cut {
            at,
            appointment,
            cause,
        }) {
            self.calendar.cancel(later.appointment);
        }
    }

    /// Returns `time`, or an error if it is beyond what the clock can show.
    pub(crate) fn within_time(&self, time: SimTime, user: UserId, step: Step) -> Result<SimTime> {
        let round = self.world.scenario.training.round_of(step);
        if time == SimTime::END {
            Err(Error::TimeOverflow { round, user })
        } else {
            Ok(time)
        }
    }

    /// Counts the time until `now`, before anything changes at that instant. The server has waited
    /// for so many users.
    pub(crate) fn watch_until(&mut self, now: SimTime, waiting_users: usize) {
        if self.watch.is_before(now) {
            let gauges = self.gauges(waiting_users as u64);
            self.watch.pass(now, gauges);
        }
    }

    /// Returns the present values of all quantities that are watched.
    fn gauges(&self, waiting_users: u64) -> Gauges<u64> {
        match &self.server_link {
            Some(server) => Gauges {
                up_bits_per_s: server.load(Direction::Up),
                down_bits_per_s: server.load(Direction::Down),
                transfers: server.in_progress.into(),
                line: server.line.len() as u64,
                waiting_users,
            },
            None => {
                let Unshared {
                    transfers,
                    up_bits_per_s,
                    down_bits_per_s,
                } = self.unshared;
                Gauges {
                    up_bits_per_s,
                    down_bits_per_s,
                    transfers,
                    line: 0,
                    waiting_users,
                }
            }
        }
    }

    /// Books what has happened at this instant.
    pub(crate) fn book(&mut self, invitation_id: InvitationId, user: UserId, event: LinkEvent) {
        self.bookings.push(Booking {
            at: self.calendar.now(),
            invitation_id,
            user,
            event,
        });
    }
}

pub(super) fn absent(user: UserId) -> Error {
    Error::Actor {
        actor: "network",
        reason: format!("{user} takes no part"),
    }
}
