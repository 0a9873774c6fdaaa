//! The handling of the calendar's events: what each of them changes, and who is told of it.

use super::participation::{Activity, Participation, Transfer, Way};
use super::transfers::{Traffic, absent};
use super::{Event, Network};
use crate::consultation;
use crate::messages::{
    Effort, FromClient, News, Orders, Receipt, RequestArrived, ToClient, UploadArrived,
};
use crate::outcome::{Ending, LinkEvent, LossCause};
use crate::resident::unanswered;
use crate::upload::Upload;
use fedrecsim_core::legs::{Job, Leg, Peer, Route};
use fedrecsim_core::{Direction, Error, Result, SimTime, UserId};
use fedrecsim_data::population::Verdict;

/// The action that follows an event.
pub(super) enum Followup {
    Nothing,
    /// Carry out the orders of the server.
    Obey(Orders),
    /// Work out the trainings that were submitted, without which the event cannot be handled, and
    /// handle it again.
    WorkOutTrainings,
}

impl Network {
    /// Handles `event`, which happens now, and returns what follows.
    pub(super) fn happen(&mut self, now: SimTime, event: Event) -> Result<Followup> {
        match event {
            Event::FrameArrived(user) => return self.frame_arrived(now, user),
            Event::Lost(user) => return self.cut_off(now, user).map(Followup::Obey),
            Event::Alarm => return self.tell_server(News::AlarmRings).map(Followup::Obey),
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
        Ok(Followup::Nothing)
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

    /// Handles the arrival of a frame at the peer to which it was sent.
    fn frame_arrived(&mut self, now: SimTime, user: UserId) -> Result<Followup> {
        let (_, participation) = self.participant(user)?;
        let Activity::Transfer(transfer) = participation.activity else {
            return Err(out_of_turn("a frame arrived"));
        };
        let followup = match transfer.route {
            Route::UPLOAD => self.upload_arrived(now, user, transfer).map(Followup::Obey),
            Route {
                direction: Direction::Up,
                ..
            } => self.request_arrived(now, user, transfer),
            _ => self.frame_reached_client(now, user, transfer),
        }?;
        // An event that has not been handled comes again.
        if !matches!(followup, Followup::WorkOutTrainings) {
            self.traffic.unshared.leave(&transfer, now);
        }
        Ok(followup)
    }

    /// Handles the arrival of a download or a reply at its client.
    fn frame_reached_client(
        &mut self,
        now: SimTime,
        user: UserId,
        transfer: Transfer,
    ) -> Result<Followup> {
        if transfer.is_spoiled() {
            return self
                .failed_to_reach_client(user, transfer)
                .map(Followup::Obey);
        }
        self.go_on_after(now, user, transfer)
    }

    /// Begins the leg after a transfer that has arrived, once it is known what the training takes.
    fn go_on_after(&mut self, now: SimTime, user: UserId, transfer: Transfer) -> Result<Followup> {
        let (traffic, participation) = self.participant(user)?;
        if participation.effort.is_none() {
            return Ok(Followup::WorkOutTrainings);
        }
        traffic.book(
            participation,
            transfer.ended(now, Ending::Done, transfer.size),
        );
        traffic.begin_next_leg(participation)?;
        Ok(Followup::Nothing)
    }

    /// Handles a download or a reply that a fault has spoiled, which the client notices.
    fn failed_to_reach_client(&mut self, user: UserId, transfer: Transfer) -> Result<Orders> {
        let participation = self.take(user)?;
        if let Some(Verdict::Corrupt { .. }) = transfer.fault
            && self.client_can_read(&participation, &transfer)?
        {
            return Err(unnoticed("frame"));
        }
        self.failed(&participation, transfer)
    }

    /// Returns whether the client can read the frame of this transfer as it arrives.
    fn client_can_read(&self, participation: &Participation, transfer: &Transfer) -> Result<bool> {
        let download = &participation.invitation.download;
        let asked = participation.consultation_with(transfer.route.peer);
        let frame = match (transfer.route, asked) {
            (Route::DOWNLOAD, _) => download.frame(participation.user)?.bytes,
            (_, Some(asked)) => asked.reply.bytes.clone(),
            (_, None) => return Err(out_of_turn("a reply arrived")),
        };
        let frame = transfer.as_it_arrives(&frame).unwrap_or_default();
        let exchange = self.world.exchange(download.phase());
        Ok(match (transfer.route.peer, exchange) {
            (Peer::ThirdParty, Some(exchange)) => {
                consultation::decode(&frame, &exchange.reply).is_ok()
            }
            _ => download.is_sound(&frame, asked.map(|asked| asked.rows)),
        })
    }

    /// Ends a participation because its transfer has failed.
    fn failed(&mut self, participation: &Participation, transfer: Transfer) -> Result<Orders> {
        let ended = transfer.ended(self.now(), Ending::Lost, transfer.size);
        let cause = self.cause_of_failure(participation, &transfer)?;
        self.lose(participation, ended, cause)
    }

    /// Handles the arrival of a request at the server or the third party.
    fn request_arrived(
        &mut self,
        now: SimTime,
        user: UserId,
        transfer: Transfer,
    ) -> Result<Followup> {
        let (_, participation) = self.participant(user)?;
        if participation.effort.is_none() {
            return Ok(Followup::WorkOutTrainings);
        }
        let consultation = participation
            .consultation_with(transfer.route.peer)
            .ok_or_else(|| out_of_turn("a request arrived"))?;
        let is_sound = match transfer.as_it_arrives(&consultation.request.bytes) {
            None => false,
            Some(frame) => {
                let arrived = RequestArrived {
                    participant: (user, participation.invitation.id),
                    phase: participation.invitation.download.phase(),
                    frame,
                };
                match (transfer.route.peer, &self.peers.third_party) {
                    (Peer::Server, _) => self.peers.server.ask(arrived)?,
                    (Peer::ThirdParty, Some(third_party)) => third_party.ask(arrived)?,
                    (Peer::ThirdParty, None) => {
                        return Err(unanswered("third party", "there is none"));
                    }
                }
            }
        };
        if !is_sound {
            let participation = self.take(user)?;
            return self.failed(&participation, transfer).map(Followup::Obey);
        }
        if transfer.is_spoiled() {
            return Err(unnoticed("request"));
        }
        self.go_on_after(now, user, transfer)
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
        let failed = |effort: &Effort| effort.upload.is_none() && effort.third_party.is_none();
        let has_failed = participation.effort.as_ref().is_some_and(failed);
        let upload = if job == Job::Training || has_failed {
            Some(self.trained(user)?)
        } else {
            None
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

    /// Tells a client that its training has come to its virtual end, and returns its upload.
    pub(super) fn trained(&self, user: UserId) -> Result<Upload> {
        match self.tell(user, ToClient::TrainingEnded) {
            FromClient::Upload(upload) => Ok(upload),
            FromClient::Failed(error) => Err(error),
            _ => Err(unanswered("client", "it did not upload after training")),
        }
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
        let (participant, local_loss) = ((user, participation.invitation.id), upload.loss);
        let arrival = UploadArrived {
            participant,
            upload,
            now,
        };
        let Receipt { ending, orders } = self.peers.server.ask(arrival)?;
        if ending.is_arrival() && transfer.is_spoiled() {
            return Err(unnoticed("upload"));
        }
        let ended = transfer.ended(now, ending, transfer.size);
        self.traffic.book(&participation, ended);
        match ending {
            Ending::Done => self.local_losses.push((participant, local_loss)),
            Ending::Late => self.record.late += 1,
            Ending::Stale => {
                self.record.late += 1;
                self.record.stale += 1;
            }
            Ending::Lost | Ending::Cancelled | Ending::Unfinished => {
                let cause = self.cause_of_failure(&participation, &transfer)?;
                self.record.losses.count(cause);
            }
        }
        orders
    }

    /// Ends a participation because of a dropout or a departure.
    fn cut_off(&mut self, now: SimTime, user: UserId) -> Result<Orders> {
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
    /// the end of the activity that it was at.
    fn lose(
        &mut self,
        participation: &Participation,
        interrupted_at: LinkEvent,
        cause: LossCause,
    ) -> Result<Orders> {
        self.break_off(participation, interrupted_at)?;
        self.record.losses.count(cause);
        let participant = (participation.user, participation.invitation.id);
        self.tell_server(News::ParticipationLost(participant))
    }

    /// Returns the cause for which a transfer fails, be it a dropout on the server's link or a
    /// fault rule. Nothing is remembered for this, since rules give the same answer whenever they
    /// are asked.
    fn cause_of_failure(
        &self,
        participation: &Participation,
        transfer: &Transfer,
    ) -> Result<LossCause> {
        let (user, invitation_id) = (participation.user, participation.invitation.id);
        let faults = &self.world.population.faults;
        let hit = faults.verdict(user, invitation_id, transfer.route, transfer.began);
        let by_rule = hit.map(|hit| LossCause::Fault(hit.rule));
        // On a link of its own, a transfer does not get to its end if its user drops out before.
        let drops_out = participation.dropout_now().is_some() && transfer.way != Way::Alone;
        // Of a dropout and a rule that cuts, the one that lets fewer bytes pass comes first.
        let is_cut_by_rule = hit.is_some_and(|hit| hit.verdict == Verdict::CutAt(transfer.size));
        let cause = match drops_out && !is_cut_by_rule {
            true => Some(LossCause::Dropout),
            false => by_rule,
        };
        cause.ok_or_else(|| {
            let name = transfer.route.name();
            unanswered("network", format!("a sound {name} was refused"))
        })
    }

    /// Ends the participations of `users`, for which the server waits no longer.
    pub(super) fn give_up(&mut self, users: &[UserId]) -> Result<()> {
        // Those who wait for a connection leave first. Otherwise they would be given the
        // connections that the others leave.
        let (waiting, others): (Vec<UserId>, Vec<UserId>) =
            users.iter().partition(|user| self.is_in_line(user));
        for user in waiting.into_iter().chain(others) {
            let participation = self.take(user)?;
            self.record.cancelled += 1;
            let interrupted_at = self.interrupt(self.now(), &participation, Ending::Cancelled)?;
            self.break_off(&participation, interrupted_at)?;
        }
        Ok(())
    }

    fn is_in_line(&self, user: &UserId) -> bool {
        let participation = self.taking_part.get(user);
        participation.is_some_and(|participation| {
            matches!(
                participation.activity,
                Activity::Transfer(Transfer {
                    way: Way::InLine(_),
                    ..
                })
            )
        })
    }

    /// Ends a participation before its last leg has ended. `interrupted_at` is the end of the
    /// activity that it was at.
    fn break_off(
        &mut self,
        participation: &Participation,
        interrupted_at: LinkEvent,
    ) -> Result<()> {
        self.traffic.cancel(participation.next);
        self.traffic
            .cancel(participation.loss.and_then(|loss| loss.appointment));
        self.traffic.book(participation, interrupted_at);
        match self.tell(participation.user, ToClient::BreakOff) {
            FromClient::Done => Ok(()),
            _ => Err(unanswered("client", "it cannot be cut off in its state")),
        }
    }

    /// Stops the activity of a participation, and returns the event of its end.
    fn interrupt(
        &mut self,
        now: SimTime,
        participation: &Participation,
        ending: Ending,
    ) -> Result<LinkEvent> {
        Ok(match &participation.activity {
            Activity::Work { began } => {
                let elapsed = now.since(*began);
                let job = match participation.leg_in(&self.world) {
                    Some(Leg::Work(job)) => job,
                    _ => Job::Training,
                };
                let speed = participation.speed_of(job, &self.world);
                LinkEvent::WorkEnded {
                    job,
                    ending,
                    work: speed.done_in(elapsed, participation.work_of(job).unwrap_or_default()),
                    took_ns: elapsed.as_nanos(),
                }
            }
            Activity::Transfer(transfer) => {
                let traffic = &mut self.traffic;
                let carried = traffic.stop(participation, transfer, &mut self.taking_part)?;
                transfer.ended(now, ending, carried)
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
            let interrupted_at = self.interrupt(self.now(), &participation, Ending::Unfinished)?;
            self.traffic.book(&participation, interrupted_at);
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

fn unnoticed(what: &str) -> Error {
    Error::Frame(format!("a corrupted {what} was not noticed"))
}
