//! The handling of the calendar's events: what each of them changes, and who is told of it.

use bytes::Bytes as Frame;

use super::event::Event;
use super::participation::{Activity, Participation, Transfer, Upload, Way};
use super::server_link::ServerLink;
use super::transfers::absent;
use super::{Network, answered, unanswered};
use crate::sim::consultation;
use crate::sim::download::FrameFormat;
use crate::sim::messages::{
    AlarmRang, Effort, Ending, FromClient, LinkEvent, LossCause, Orders, ParticipationLost,
    Receipt, RequestArrived, RowRequestArrived, ToClient, UplinkArrived,
};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::ids::UserId;
use fedrecsim_core::legs::{Job, Leg, Peer, Route};
use fedrecsim_core::units::{Direction, SimTime};
use fedrecsim_data::population::Verdict;

/// The action that follows an event.
pub(super) enum Followup {
    /// Nothing follows.
    Nothing,
    /// The orders of the server are to be carried out.
    Obey(Orders),
    /// The event has not been handled, since the trainings that were submitted must be worked out
    /// first.
    WorkOutTrainings,
}

impl Network {
    /// Handles `event`, which happens now, and returns what follows.
    pub(super) fn happen(&mut self, now: SimTime, event: Event) -> Result<Followup> {
        match event {
            Event::FrameArrived(user) => self.frame_arrived(now, user),
            Event::WorkEnded(user) => self.work_ended(now, user).map(|()| Followup::Nothing),
            Event::StartUpEnded(user) => {
                let participation = self
                    .taking_part
                    .get_mut(&user)
                    .ok_or_else(|| absent(user))?;
                self.traffic.start_up_ended(user, participation);
                Ok(Followup::Nothing)
            }
            Event::RateChanges(user) => {
                let participation = self
                    .taking_part
                    .get_mut(&user)
                    .ok_or_else(|| absent(user))?;
                self.traffic.change_rate(user, participation);
                Ok(Followup::Nothing)
            }
            Event::TransfersEnded(direction) => self
                .traffic
                .end_transfers(now, direction, &mut self.taking_part)
                .map(|()| Followup::Nothing),
            Event::CutOff(user) => self.cut_off(now, user).map(Followup::Obey),
            Event::Alarm => answered(&self.peers.alarm_rang, AlarmRang { now }).map(Followup::Obey),
        }
    }

    /// Handles the arrival of a frame at the peer to which it was sent.
    fn frame_arrived(&mut self, now: SimTime, user: UserId) -> Result<Followup> {
        let participation = self.taking_part.get(&user).ok_or_else(|| absent(user))?;
        let Activity::Transfer(transfer) = participation.activity else {
            return Err(out_of_turn("a frame arrived"));
        };
        let followup = match (transfer.route.peer, transfer.route.direction) {
            (Peer::Server, Direction::Up) if transfer.route == Route::ROW_REQUEST => {
                self.row_request_arrived(now, user, transfer)
            }
            (Peer::Server, Direction::Up) => {
                self.upload_arrived(now, user, transfer).map(Followup::Obey)
            }
            (Peer::ThirdParty, Direction::Up) => self.request_arrived(now, user, transfer),
            (_, Direction::Down) => self.frame_reached_client(now, user, transfer),
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
        let participation = self
            .taking_part
            .get_mut(&user)
            .ok_or_else(|| absent(user))?;
        if participation.effort.is_none() {
            return Ok(Followup::WorkOutTrainings);
        }
        let ended = transfer.ended(now, Ending::Done, transfer.size);
        self.traffic.book(participation.invitation_id, user, ended);
        self.traffic
            .begin_next_leg(user, participation)
            .map(|()| Followup::Nothing)
    }

    /// Handles a download or a reply that a fault has spoiled, which the client notices.
    fn failed_to_reach_client(&mut self, user: UserId, transfer: Transfer) -> Result<Orders> {
        let participation = self.take(user)?;
        if let Some(Verdict::Corrupt { .. }) = transfer.fault {
            let (frame, format) = self.sent_to_client(user, &participation, transfer.route)?;
            match self.tell(
                user,
                ToClient::Received(transfer.as_it_arrives(&frame).unwrap_or_default(), format),
            ) {
                FromClient::Sound(false) => {}
                FromClient::Sound(true) => {
                    return Err(Error::Frame("a corrupted frame was not noticed".to_owned()));
                }
                _ => {
                    return Err(unanswered(
                        "client",
                        "it does not say whether its frame is sound",
                    ));
                }
            }
        }
        self.failed(user, &participation, transfer)
    }

    /// Returns the frame that was sent to `user` on this route, and the format in which the user
    /// reads it.
    fn sent_to_client(
        &self,
        user: UserId,
        participation: &Participation,
        route: Route,
    ) -> Result<(Frame, FrameFormat)> {
        if let (Route::ASKED_ROWS, Some(asked)) = (route, participation.asked_rows()) {
            let FrameFormat { codecs, .. } = participation.download.format();
            let layout = participation.download.layout_of_rows(asked.count);
            return Ok((asked.download.bytes.clone(), FrameFormat { codecs, layout }));
        }
        if route.peer == Peer::Server {
            return Ok((
                participation.download.frame(user)?.bytes,
                participation.download.format(),
            ));
        }
        let exchange = self
            .world
            .exchange(participation.download.phase())
            .zip(participation.consultation());
        let (exchange, consultation) = exchange.ok_or_else(|| out_of_turn("a reply arrived"))?;
        Ok((
            consultation.reply.bytes.clone(),
            consultation::format(&exchange.reply),
        ))
    }

    /// Ends a participation because its transfer has failed.
    fn failed(
        &mut self,
        user: UserId,
        participation: &Participation,
        transfer: Transfer,
    ) -> Result<Orders> {
        let ended = transfer.ended(self.now(), Ending::Lost, transfer.size);
        let cause = self.cause_of_failure(user, participation, &transfer)?;
        self.lose(user, participation, ended, cause)
    }

    /// Handles the arrival of a request for rows at the server.
    fn row_request_arrived(
        &mut self,
        now: SimTime,
        user: UserId,
        transfer: Transfer,
    ) -> Result<Followup> {
        let participation = self.taking_part.get(&user).ok_or_else(|| absent(user))?;
        let invitation_id = participation.invitation_id;
        if participation.effort.is_none() {
            return Ok(Followup::WorkOutTrainings);
        }
        let asked = participation
            .asked_rows()
            .ok_or_else(|| out_of_turn("a request for rows arrived"))?;
        let is_sound = match transfer.as_it_arrives(&asked.request.bytes) {
            None => false,
            Some(frame) => answered(
                &self.peers.row_request_arrived,
                RowRequestArrived {
                    user,
                    invitation_id,
                    frame,
                },
            )?,
        };
        self.request_was_read(now, user, (transfer, is_sound))
    }

    /// Ends a participation whose request could not be read, and has any other go on.
    fn request_was_read(
        &mut self,
        now: SimTime,
        user: UserId,
        (transfer, is_sound): (Transfer, bool),
    ) -> Result<Followup> {
        if !is_sound {
            let participation = self.take(user)?;
            return self
                .failed(user, &participation, transfer)
                .map(Followup::Obey);
        }
        if transfer.is_spoiled() {
            return Err(Error::Frame(
                "a corrupted request was not noticed".to_owned(),
            ));
        }
        let participation = self
            .taking_part
            .get_mut(&user)
            .ok_or_else(|| absent(user))?;
        self.traffic.book(
            participation.invitation_id,
            user,
            transfer.ended(now, Ending::Done, transfer.size),
        );
        self.traffic
            .begin_next_leg(user, participation)
            .map(|()| Followup::Nothing)
    }

    /// Handles the arrival of a request at the third party.
    fn request_arrived(
        &mut self,
        now: SimTime,
        user: UserId,
        transfer: Transfer,
    ) -> Result<Followup> {
        let participation = self.taking_part.get(&user).ok_or_else(|| absent(user))?;
        let consultation = participation
            .consultation()
            .ok_or_else(|| out_of_turn("a request arrived"))?;
        let frame = transfer.as_it_arrives(&consultation.request.bytes);
        let (invitation_id, phase) = (participation.invitation_id, participation.download.phase());
        let is_sound = match (frame, &self.peers.third_party) {
            (None, _) => false,
            (Some(frame), Some(third_party)) => answered(
                &third_party.request_arrived,
                RequestArrived {
                    user,
                    invitation_id,
                    phase,
                    frame,
                },
            )?,
            (Some(_), None) => return Err(unanswered("third party", "there is none")),
        };
        self.request_was_read(now, user, (transfer, is_sound))
    }

    /// Handles the end of a job, which is making a request, making a reply or training.
    fn work_ended(&mut self, now: SimTime, user: UserId) -> Result<()> {
        let participation = self.taking_part.get(&user).ok_or_else(|| absent(user))?;
        let leg = self
            .world
            .legs(participation.download.phase())
            .get(usize::from(participation.leg));
        let (Activity::Work { began }, Some(Leg::Work(job))) = (&participation.activity, leg)
        else {
            return Err(out_of_turn("work ended"));
        };
        let (job, took_ns) = (*job, now.since(*began).as_nanos());
        // A training that fails before it has asked anybody fails when the first work of its
        // participation ends.
        let failed = |effort: &Effort| effort.upload.is_none() && effort.consultation.is_none();
        let has_failed = participation.effort.as_ref().is_some_and(failed);
        let upload = if job == Job::Training || has_failed {
            Some(self.trained(user)?)
        } else {
            None
        };
        let participation = self
            .taking_part
            .get_mut(&user)
            .ok_or_else(|| absent(user))?;
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
        self.traffic.book(participation.invitation_id, user, ended);
        self.traffic.begin_next_leg(user, participation)
    }

    /// Tells a client that its training has come to its virtual end, and returns what it uploads.
    pub(super) fn trained(&self, user: UserId) -> Result<Upload> {
        match self.tell(user, ToClient::TrainingEnded) {
            FromClient::Upload { frame, loss } => Ok(Upload { frame, loss }),
            FromClient::Failed(error) => Err(error),
            _ => Err(unanswered("client", "it did not upload after training")),
        }
    }

    /// Handles the arrival of an upload at the server.
    fn upload_arrived(&mut self, now: SimTime, user: UserId, transfer: Transfer) -> Result<Orders> {
        let mut participation = self.take(user)?;
        let upload = participation
            .upload
            .take()
            .ok_or_else(|| out_of_turn("an upload arrived"))?;
        let frame = match transfer.fault {
            None | Some(Verdict::Delay(_)) => upload.frame,
            Some(Verdict::CutAt(_) | Verdict::Drop) => {
                return self.failed(user, &participation, transfer);
            }
            Some(Verdict::Corrupt { .. }) => {
                let whole = upload
                    .frame
                    .bytes(&participation.origin(user), &self.world)?;
                upload
                    .frame
                    .damaged(transfer.as_it_arrives(&whole).unwrap_or_default())
            }
        };
        if let Some(cut) = participation.cut {
            self.traffic.calendar.cancel(cut.appointment);
        }
        let invitation_id = participation.invitation_id;
        let arrival = UplinkArrived {
            user,
            invitation_id,
            frame,
            now,
        };
        let Receipt { ending, orders } = answered(&self.peers.uplink_arrived, arrival)?;
        if ending.is_arrival() && transfer.is_spoiled() {
            return Err(Error::Frame(
                "a corrupted upload was not noticed".to_owned(),
            ));
        }
        self.traffic.book(
            invitation_id,
            user,
            transfer.ended(now, ending, transfer.size),
        );
        match ending {
            Ending::Done => self.losses.push((user, invitation_id, upload.loss)),
            Ending::Late => self.counts.late += 1,
            Ending::Stale => {
                self.counts.late += 1;
                self.counts.stale += 1;
            }
            Ending::Lost | Ending::Cancelled | Ending::Unfinished => {
                self.count_lost(self.cause_of_failure(user, &participation, &transfer)?)
            }
        }
        orders
    }

    /// Ends a participation because of a dropout or a departure.
    fn cut_off(&mut self, now: SimTime, user: UserId) -> Result<Orders> {
        let participation = self.take(user)?;
        let cause = match participation
            .cut
            .map_or(LossCause::Departure, |cut| cut.cause)
        {
            LossCause::Departure => {
                let outage = self.world.population.availability().outage_at(user, now);
                outage.map_or(LossCause::Departure, LossCause::Fault)
            }
            cause => cause,
        };
        let interrupted_at = self.interrupt(now, user, &participation, Ending::Lost)?;
        self.lose(user, &participation, interrupted_at, cause)
    }

    /// Ends a participation that is lost for this cause, and tells the server. `interrupted_at` is
    /// the end of the activity that it was at.
    fn lose(
        &mut self,
        user: UserId,
        participation: &Participation,
        interrupted_at: LinkEvent,
        cause: LossCause,
    ) -> Result<Orders> {
        let (invitation_id, now) = (participation.invitation_id, self.traffic.calendar.now());
        self.break_off(user, participation, interrupted_at)?;
        self.count_lost(cause);
        let lost = ParticipationLost {
            user,
            invitation_id,
            now,
        };
        answered(&self.peers.participation_lost, lost)
    }

    /// Returns the cause for which a transfer fails, be it a dropout on the server's link or a
    /// fault rule. Nothing is remembered for this, since rules give the same answer whenever they
    /// are asked.
    fn cause_of_failure(
        &self,
        user: UserId,
        participation: &Participation,
        transfer: &Transfer,
    ) -> Result<LossCause> {
        let faults = self.world.population.faults();
        let hit = faults.verdict(
            user,
            participation.invitation_id,
            transfer.route,
            transfer.began,
        );
        let by_rule = hit.map(|hit| LossCause::Fault(hit.rule));
        // On a link of its own, a transfer does not get to its end if its user drops out before.
        let drops_out = participation
            .dropout
            .is_some_and(|dropout| dropout.leg == participation.leg);
        let cause = if drops_out && transfer.way != Way::Alone {
            // Of a dropout and a rule that cuts, the one that lets fewer bytes pass comes first.
            let is_cut_by_rule =
                hit.is_some_and(|hit| hit.verdict == Verdict::CutAt(transfer.size));
            by_rule
                .filter(|_| is_cut_by_rule)
                .or(Some(LossCause::Dropout))
        } else {
            by_rule
        };
        cause.ok_or_else(|| {
            unanswered(
                "network",
                format!("a sound {} was refused", transfer.route.name()),
            )
        })
    }

    fn count_lost(&mut self, cause: LossCause) {
        self.counts.dropped += 1;
        self.lost.count(cause);
    }

    /// Ends the participations of `users`, for which the server waits no longer.
    pub(super) fn give_up(&mut self, users: &[UserId]) -> Result<()> {
        // Those who wait for a connection leave first. Otherwise they would be given the
        // connections that the others leave.
        let (waiting, others): (Vec<UserId>, Vec<UserId>) =
            users.iter().partition(|user| self.is_in_line(user));
        for user in waiting.into_iter().chain(others) {
            let participation = self.take(user)?;
            self.counts.cancelled += 1;
            let now = self.traffic.calendar.now();
            let interrupted_at = self.interrupt(now, user, &participation, Ending::Cancelled)?;
            self.break_off(user, &participation, interrupted_at)?;
        }
        Ok(())
    }

    fn is_in_line(&self, user: &UserId) -> bool {
        let activity = self
            .taking_part
            .get(user)
            .map(|participation| &participation.activity);
        matches!(
            activity,
            Some(Activity::Transfer(Transfer {
                way: Way::InLine(_),
                ..
            }))
        )
    }

    /// Ends a participation before its last leg has ended. `interrupted_at` is the end of the
    /// activity that it was at.
    fn break_off(
        &mut self,
        user: UserId,
        participation: &Participation,
        interrupted_at: LinkEvent,
    ) -> Result<()> {
        let cut = participation.cut.map(|cut| cut.appointment);
        for appointment in [participation.next, cut].into_iter().flatten() {
            self.traffic.calendar.cancel(appointment);
        }
        self.traffic
            .book(participation.invitation_id, user, interrupted_at);
        match self.tell(user, ToClient::CutOff) {
            FromClient::Done => Ok(()),
            _ => Err(unanswered("client", "it cannot be cut off in its state")),
        }
    }

    /// Stops the activity of a participation, and returns the event of its end.
    fn interrupt(
        &mut self,
        now: SimTime,
        user: UserId,
        participation: &Participation,
        ending: Ending,
    ) -> Result<LinkEvent> {
        Ok(match &participation.activity {
            Activity::Work { began } => {
                let elapsed = now.since(*began);
                let leg = self
                    .world
                    .legs(participation.download.phase())
                    .get(usize::from(participation.leg));
                let job = if let Some(Leg::Work(job)) = leg {
                    *job
                } else {
                    Job::Training
                };
                let work = participation.work_of(job).unwrap_or_default();
                let work = participation
                    .speed_of(job, &self.world)
                    .done_in(elapsed, work);
                LinkEvent::WorkEnded {
                    job,
                    ending,
                    work,
                    took_ns: elapsed.as_nanos(),
                }
            }
            Activity::Transfer(transfer) => {
                let carried =
                    self.traffic
                        .stop(user, participation, transfer, &mut self.taking_part)?;
                transfer.ended(now, ending, carried)
            }
        })
    }

    /// Books the participations that are under way when the run ends.
    pub(super) fn book_unfinished(&mut self) -> Result<()> {
        let now = self.traffic.calendar.now();
        // No user in the line takes a connection that becomes free now.
        self.traffic
            .server_link
            .iter_mut()
            .for_each(ServerLink::close);
        for (user, participation) in self.taking_part.drain() {
            let interrupted_at = self.interrupt(now, user, &participation, Ending::Unfinished)?;
            self.traffic
                .book(participation.invitation_id, user, interrupted_at);
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
