//! The handling of the calendar's events: what each event changes, and whom it is reported to.

use super::participation::{Activity, Participation, Transfer, Way};
use super::transfers::{Traffic, absent};
use super::{Event, Network};
use crate::consultation;
use crate::messages::{Effort, News, Orders, Receipt, RequestArrived};
use crate::outcome::{Ending, LinkEvent, LossCause};
use crate::resident::unanswered;
use fedrecsim_core::legs::{Job, Leg, Peer, Route};
use fedrecsim_core::{Direction, Error, Result, SimTime, UserId};
use fedrecsim_data::population::Verdict;

impl Network {
    /// Returns whether `event` is the arrival of a frame whose user's training has not been worked
    /// out. The duration of the training must be known before the event is handled.
    pub(super) fn needs_trainings(&self, event: Event) -> bool {
        let Event::FrameArrived(user) = event else {
            return false;
        };
        let participation = self.taking_part.get(&user);
        participation.is_some_and(|of_user| of_user.effort.is_none() && of_user.upload.is_none())
    }

    /// Handles `event`, which happens now, and returns the server's orders.
    pub(super) fn happen(&mut self, now: SimTime, event: Event) -> Result<Orders> {
        match event {
            Event::FrameArrived(user) => return self.frame_arrived(now, user),
            Event::Lost(user) => return self.drop_out_or_depart(now, user),
            Event::Alarm => return self.rounds.tell_server(now, News::AlarmRings),
            Event::WorkEnded(user) => self.work_ended(now, user)?,
            Event::StartUpEnded(user) => {
                let (traffic, participation) = self.participant(user)?;
                traffic.start_up_ended(participation);
            }
            Event::RateChanges(user) => {
                let (traffic, participation) = self.participant(user)?;
                traffic.change_rate(participation);
            }
            Event::TransfersEnded(direction) => {
                let traffic = &mut self.traffic;
                traffic.end_transfers(now, direction, &mut self.taking_part)?;
            }
        }
        Ok(Orders::default())
    }

    /// Returns the participation of `user`, and the traffic that it is a part of.
    pub(super) fn participant(
        &mut self,
        user: UserId,
    ) -> Result<(&mut Traffic, &mut Participation)> {
        let participation = self.taking_part.get_mut(&user);
        Ok((
            &mut self.traffic,
            participation.ok_or_else(|| absent(user))?,
        ))
    }

    /// Handles the arrival of a frame at its peer. If the receiver can read it, the next leg
    /// begins.
    fn frame_arrived(&mut self, now: SimTime, user: UserId) -> Result<Orders> {
        let participation = self.taking_part.get(&user).ok_or_else(|| absent(user))?;
        let Activity::Transfer(transfer) = participation.activity else {
            return Err(out_of_turn("a frame arrived"));
        };
        self.traffic.unshared.leave(&transfer, now);
        if transfer.route == Route::UPLOAD {
            return self.upload_arrived(now, user, transfer);
        }
        if !self.is_read(participation, &transfer)? {
            let participation = self.take(user)?;
            return self.failed(&participation, transfer);
        }
        if transfer.is_spoiled() {
            return Err(unnoticed(transfer.route));
        }
        let (traffic, participation) = self.participant(user)?;
        traffic.book(
            participation,
            transfer.ended(now, Ending::Done, transfer.size),
        );
        traffic.begin_next_leg(participation)?;
        Ok(Orders::default())
    }

    /// Returns whether the receiver of a download, a request or a reply can read it as it arrives.
    fn is_read(&self, participation: &Participation, transfer: &Transfer) -> Result<bool> {
        let is_request = transfer.route.direction == Direction::Up;
        if !is_request && !transfer.is_spoiled() {
            // The client decodes it where it trains.
            return Ok(true);
        }
        let (route, download) = (transfer.route, &participation.invitation.download);
        let asked = participation.consultation_with(route.peer);
        let frame = match (route, asked) {
            (Route::DOWNLOAD, _) => download.frame(participation.user)?.bytes,
            (_, Some(asked)) => asked.frame(route.direction).bytes.clone(),
            (_, None) => return Err(out_of_turn("a request or a reply arrived")),
        };
        let Some(frame) = transfer.as_it_arrives(&frame) else {
            return Ok(false);
        };
        let phase = download.phase();
        if is_request {
            let arrived = RequestArrived {
                participant: participation.participant(),
                phase,
                frame,
            };
            return self.rounds.request_arrived(route.peer, arrived);
        }
        Ok(match (route.peer, self.world.exchange(phase)) {
            (Peer::ThirdParty, Some(exchange)) => {
                consultation::decode(&frame, &exchange.reply).is_ok()
            }
            _ => download.is_sound(
                &frame,
                participation.participant().0,
                asked.map(|asked| asked.rows),
            ),
        })
    }

    /// Ends a participation because its transfer has failed.
    fn failed(&mut self, participation: &Participation, transfer: Transfer) -> Result<Orders> {
        let ended = transfer.ended(self.now(), Ending::Lost, transfer.size);
        let cause = self.cause_of_failure(participation, &transfer)?;
        self.lose(participation, Some(ended), cause)
    }

    /// Handles the end of a job, which is making a request, making a reply or training.
    fn work_ended(&mut self, now: SimTime, user: UserId) -> Result<()> {
        let participation = self.taking_part.get(&user).ok_or_else(|| absent(user))?;
        let leg = participation.leg_in(&self.world);
        let (Activity::Work { began }, Some(Leg::Work(job))) = (&participation.activity, leg)
        else {
            return Err(out_of_turn("work ended"));
        };
        let took_ns = now.since(*began).as_nanos();
        // A training that fails before it has asked anybody fails when the first work of its
        // participation ends.
        let failed = |effort: &Effort| effort.upload_size.is_none() && effort.third_party.is_none();
        let has_failed = participation.effort.as_ref().is_some_and(failed);
        let upload = match job == Job::Training || has_failed {
            true => Some(self.rounds.peers.workers.end_training(user)?),
            false => None,
        };
        let (traffic, participation) = self.participant(user)?;
        participation.upload = upload;
        let work = participation
            .work_of(job)
            .ok_or_else(|| out_of_turn("work ended"))?;
        let ended = LinkEvent::WorkEnded {
            job,
            ending: Ending::Done,
            work,
            took_ns,
        };
        traffic.book(participation, ended);
        traffic.begin_next_leg(participation)
    }

    /// Handles the arrival of an upload at the server.
    fn upload_arrived(&mut self, now: SimTime, user: UserId, transfer: Transfer) -> Result<Orders> {
        let mut participation = self.take(user)?;
        let mut upload = participation
            .upload
            .take()
            .ok_or_else(|| out_of_turn("an upload arrived"))?;
        match transfer.fault {
            None | Some(Verdict::Delay(_)) => {}
            Some(Verdict::CutAt(_) | Verdict::Drop) => {
                return self.failed(&participation, transfer);
            }
            Some(Verdict::Corrupt { .. }) => {
                let whole = upload.bytes(user, &participation.invitation, &self.world)?;
                upload = upload.damaged(transfer.as_it_arrives(&whole).unwrap_or_default());
            }
        }
        if let Some(loss) = participation.loss {
            self.traffic.cancel(loss.appointment);
        }
        let participant = participation.participant();
        let Receipt { ending, orders } = self.rounds.upload_arrived(now, participant, upload)?;
        if ending.is_arrival() && transfer.is_spoiled() {
            return Err(unnoticed(transfer.route));
        }
        let ended = transfer.ended(now, ending, transfer.size);
        self.traffic.book(&participation, ended);
        if !ending.is_arrival() {
            let cause = self.cause_of_failure(&participation, &transfer)?;
            self.rounds.count_lost(cause);
        }
        orders
    }

    /// Ends a participation because of a dropout or a departure.
    fn drop_out_or_depart(&mut self, now: SimTime, user: UserId) -> Result<Orders> {
        let participation = self.take(user)?;
        let cause = match participation.loss.map(|loss| loss.cause) {
            None | Some(LossCause::Departure) => {
                let outage = self.world.population.availability.outage_at(user, now);
                outage.map_or(LossCause::Departure, LossCause::Fault)
            }
            Some(cause) => cause,
        };
        let interrupted_at = self.interrupt(now, &participation, Ending::Lost)?;
        self.lose(&participation, interrupted_at, cause)
    }

    /// Ends a participation that is lost for this cause, and tells the server. `interrupted_at` is
    /// the end of the activity that it was at, if it was at one.
    fn lose(
        &mut self,
        participation: &Participation,
        interrupted_at: Option<LinkEvent>,
        cause: LossCause,
    ) -> Result<Orders> {
        self.break_off(participation, interrupted_at)?;
        let now = self.now();
        self.rounds.lost(now, participation.participant(), cause)
    }

    /// Returns why a transfer has failed: a dropout on the server's link, or a fault rule. Nothing
    /// is remembered for this, since rules give the same answer whenever they are asked.
    fn cause_of_failure(
        &self,
        participation: &Participation,
        transfer: &Transfer,
    ) -> Result<LossCause> {
        // On a link of its own, a transfer does not get to its end if its user drops out before.
        if transfer.way != Way::Alone && self.traffic.dropout_of(participation, transfer).is_some()
        {
            return Ok(LossCause::Dropout);
        }
        let (user, invitation_id) = participation.participant();
        let faults = &self.world.population.faults;
        let hit = faults.verdict(user, invitation_id, transfer.route, transfer.began);
        let cause = hit.map(|hit| LossCause::Fault(hit.rule));
        cause.ok_or_else(|| {
            let name = transfer.route.name();
            unanswered("network", format!("a sound {name} was refused"))
        })
    }

    /// Ends the participations of `users`, which the server has cancelled.
    pub(super) fn cancel(&mut self, users: &[UserId]) -> Result<()> {
        // Those who wait for a connection leave first. Otherwise they would be given the
        // connections that the others leave.
        let (waiting, others): (Vec<UserId>, Vec<UserId>) =
            users.iter().partition(|user| self.is_in_line(user));
        for user in waiting.into_iter().chain(others) {
            let participation = self.take(user)?;
            self.rounds.cancelled();
            let interrupted_at = self.interrupt(self.now(), &participation, Ending::Cancelled)?;
            self.break_off(&participation, interrupted_at)?;
        }
        Ok(())
    }

    fn is_in_line(&self, user: &UserId) -> bool {
        let participation = self.taking_part.get(user);
        participation.is_some_and(|participation| match participation.activity {
            Activity::Transfer(transfer) => matches!(transfer.way, Way::InLine(_)),
            Activity::Work { .. } | Activity::None => false,
        })
    }

    /// Ends a participation before its last leg has ended. `interrupted_at` is the end of the
    /// activity that it was at, if it was at one.
    fn break_off(
        &mut self,
        participation: &Participation,
        interrupted_at: Option<LinkEvent>,
    ) -> Result<()> {
        self.traffic.cancel(participation.next);
        self.traffic
            .cancel(participation.loss.and_then(|loss| loss.appointment));
        if let Some(ended) = interrupted_at {
            self.traffic.book(participation, ended);
        }
        self.rounds.peers.workers.break_off(participation.user)
    }

    /// Stops the activity of a participation, and returns the event of its end; `None` if it is at
    /// none.
    fn interrupt(
        &mut self,
        now: SimTime,
        participation: &Participation,
        ending: Ending,
    ) -> Result<Option<LinkEvent>> {
        Ok(match &participation.activity {
            Activity::None => None,
            Activity::Work { began } => {
                let elapsed = now.since(*began);
                let job = match participation.leg_in(&self.world) {
                    Some(Leg::Work(job)) => job,
                    _ => Job::Training,
                };
                let speed = participation.speed_of(job, &self.world);
                Some(LinkEvent::WorkEnded {
                    job,
                    ending,
                    work: speed.done_in(elapsed, participation.work_of(job).unwrap_or_default()),
                    took_ns: elapsed.as_nanos(),
                })
            }
            Activity::Transfer(transfer) => {
                let traffic = &mut self.traffic;
                let carried = traffic.stop(participation, transfer, &mut self.taking_part)?;
                Some(transfer.ended(now, ending, carried))
            }
        })
    }

    /// Books the participations that are under way when the run ends.
    pub(super) fn book_unfinished(&mut self) -> Result<()> {
        // No user in the line takes a connection that becomes free now.
        if let Some(server) = &mut self.traffic.server_link {
            server.line.clear();
        }
        for (_, participation) in self.taking_part.drain() {
            let unfinished = self.interrupt(self.now(), &participation, Ending::Unfinished)?;
            if let Some(ended) = unfinished {
                self.traffic.book(&participation, ended);
            }
        }
        Ok(())
    }

    /// Removes and returns a participation that comes to its end.
    fn take(&mut self, user: UserId) -> Result<Box<Participation>> {
        self.taking_part.remove(&user).ok_or_else(|| absent(user))
    }
}

fn out_of_turn(what: &str) -> Error {
    unanswered("network", format!("{what} out of turn"))
}

fn unnoticed(route: Route) -> Error {
    let name = route.name();
    Error::Frame(format!("a corrupted {name} was not noticed"))
}
