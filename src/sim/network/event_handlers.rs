//! What happens at an instant of the calendar, and to whom it is told.

use std::sync::Arc;

use bytes::Bytes as Frame;

use super::event::Event;
use super::participation::{Dropout, Participation, Phase, Transfer, Way};
use super::transfers::{ServerLink, absent};
use super::{Network, answered, unanswered};
use crate::error::{Error, Result};
use crate::ids::UserId;
use crate::population::Verdict;
use crate::sim::messages::{
    AlarmRang, Effort, Ending, FromClient, LinkEvent, Orders, ParticipationLost, Receipt, ToClient, UplinkArrived,
};
use crate::units::{Direction, SimTime};
use crate::work::Work;

/// What is to be done after an event.
pub(super) enum Followup {
    /// Nothing.
    Nothing,
    /// What the server orders.
    Obey(Orders),
    /// The event has not happened: the trainings that were submitted have to be worked out first.
    WorkOutTrainings,
}

impl Network {
    /// Lets `event` happen.
    pub(super) fn happen(&mut self, now: SimTime, event: Event) -> Result<Followup> {
        match event {
            Event::DownloadArrived(user) => self.download_arrived(now, user),
            Event::TrainingEnded(user) => self.training_ended(now, user).map(|()| Followup::Nothing),
            Event::UploadArrived(user) => self.upload_arrived(now, user).map(Followup::Obey),
            Event::TransfersEnded(direction) => {
                self.traffic.end_transfers(now, direction, &mut self.taking_part).map(|()| Followup::Nothing)
            }
            Event::CutOff(user) => self.cut_off(now, user).map(Followup::Obey),
            Event::Alarm => answered(&self.peers.alarm_rang, AlarmRang { now }).map(Followup::Obey),
        }
    }

    fn download_arrived(&mut self, now: SimTime, user: UserId) -> Result<Followup> {
        let (taking_part, traffic) = (&mut self.taking_part, &mut self.traffic);
        let participation = taking_part.get_mut(&user).ok_or_else(|| absent(user))?;
        let Phase::Downloading(transfer) = participation.phase else { return Err(out_of_turn("a download arrived")) };
        if transfer.is_spoiled() {
            return self.download_failed(user, transfer).map(Followup::Obey);
        }
        let Some(Effort { work, .. }) = participation.effort else { return Ok(Followup::WorkOutTrainings) };
        traffic.book(participation.invitation_id, user, transfer.ended(now, Ending::Done, transfer.size));
        let ends = now + participation.conditions.speed.time_for(work);
        let ends = traffic.within_time(ends, user, participation.step)?;
        participation.phase = Phase::Training { began: now };
        participation.next = Some(traffic.calendar.schedule(ends, Event::TrainingEnded(user)));
        if let Some(Dropout::InTraining(elapsed)) = participation.dropout {
            traffic.schedule_cut(user, participation, now + elapsed);
        }
        Ok(Followup::Nothing)
    }

    /// A download does not arrive as it was sent, and the client notices.
    fn download_failed(&mut self, user: UserId, transfer: Transfer) -> Result<Orders> {
        let participation = self.take(user)?;
        if let Some(Verdict::Corrupt { draw }) = transfer.fault {
            let download = Arc::clone(&participation.download);
            let frame = with_bit_turned(&download.frame(user)?.bytes, draw);
            match self.tell(user, ToClient::Downloaded(frame, download)) {
                FromClient::Sound(false) => {}
                FromClient::Sound(true) => return Err(Error::Frame("a corrupted download was not noticed".to_owned())),
                _ => return Err(unanswered("client", "it does not say whether its download is sound")),
            }
        }
        self.failed(user, &participation, transfer)
    }

    /// A transfer has come to nothing, and the participation with it.
    fn failed(&mut self, user: UserId, participation: &Participation, transfer: Transfer) -> Result<Orders> {
        let ended = transfer.ended(self.now(), Ending::Lost, transfer.size);
        self.lose(user, participation, ended)
    }

    fn training_ended(&mut self, now: SimTime, user: UserId) -> Result<()> {
        let (frame, parts, loss) = match self.tell(user, ToClient::TrainingEnded) {
            FromClient::Upload { frame, parts, loss } => (frame, parts, loss),
            FromClient::Failed(error) => return Err(error),
            _ => return Err(unanswered("client", "it did not upload after training")),
        };
        let (participation, traffic) =
            (self.taking_part.get_mut(&user).ok_or_else(|| absent(user))?, &mut self.traffic);
        let (Phase::Training { began }, Some(Effort { work, .. })) = (&participation.phase, participation.effort)
        else {
            return Err(out_of_turn("a training ended"));
        };
        let took_ns = now.since(*began).as_nanos();
        let ended = LinkEvent::TrainingEnded { ending: Ending::Done, work, took_ns };
        traffic.book(participation.invitation_id, user, ended);
        let transfer = traffic.start(user, participation, Direction::Up, parts)?;
        participation.phase = Phase::Uploading { transfer, frame, loss };
        Ok(())
    }

    fn upload_arrived(&mut self, now: SimTime, user: UserId) -> Result<Orders> {
        let mut participation = self.take(user)?;
        let Phase::Uploading { transfer, frame, loss } = &mut participation.phase else {
            return Err(out_of_turn("an upload arrived"));
        };
        let (transfer, loss) = (*transfer, *loss);
        let frame = match transfer.fault {
            None | Some(Verdict::Delay(_)) => std::mem::take(frame),
            Some(Verdict::Corrupt { draw }) => with_bit_turned(frame, draw),
            Some(Verdict::CutAt(_) | Verdict::Drop) => return self.failed(user, &participation, transfer),
        };
        if let Some((_, cut)) = participation.cut {
            self.traffic.calendar.cancel(cut);
        }
        let invitation_id = participation.invitation_id;
        let arrival = UplinkArrived { user, invitation_id, frame, now };
        let Receipt { ending, orders } = answered(&self.peers.uplink_arrived, arrival)?;
        if ending.is_arrival() && transfer.is_spoiled() {
            return Err(Error::Frame("a corrupted upload was not noticed".to_owned()));
        }
        self.traffic.book(invitation_id, user, transfer.ended(now, ending, transfer.size));
        match ending {
            Ending::Done => self.losses.push((user, invitation_id, loss)),
            Ending::Late | Ending::Stale => self.counts.late += 1,
            Ending::Lost | Ending::Cancelled | Ending::Unfinished => self.counts.dropped += 1,
        }
        orders
    }

    /// A dropout or a departure ends a participation.
    fn cut_off(&mut self, now: SimTime, user: UserId) -> Result<Orders> {
        let participation = self.take(user)?;
        let interrupted_at = self.interrupt(now, user, &participation, Ending::Lost)?;
        self.lose(user, &participation, interrupted_at)
    }

    /// A participation is lost; `interrupted_at` is what it was at.
    fn lose(&mut self, user: UserId, participation: &Participation, interrupted_at: LinkEvent) -> Result<Orders> {
        let (invitation_id, now) = (participation.invitation_id, self.traffic.calendar.now());
        self.break_off(user, participation, interrupted_at)?;
        self.counts.dropped += 1;
        let lost = ParticipationLost { user, invitation_id, now };
        answered(&self.peers.participation_lost, lost)
    }

    /// The server waits for these participations no longer.
    pub(super) fn give_up(&mut self, users: &[UserId]) -> Result<()> {
        // Whoever waits for a connection leaves the line first, or would be given one that another leaves.
        let (waiting, others): (Vec<UserId>, Vec<UserId>) = users.iter().partition(|user| self.is_in_line(user));
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
        let transfer = self.taking_part.get(user).and_then(|participation| participation.transfer());
        transfer.is_some_and(|transfer| matches!(transfer.way, Way::InLine(_)))
    }

    /// Ends a participation where it stands.
    fn break_off(&mut self, user: UserId, participation: &Participation, interrupted_at: LinkEvent) -> Result<()> {
        let cut = participation.cut.map(|(_, appointment)| appointment);
        for appointment in [participation.next, cut].into_iter().flatten() {
            self.traffic.calendar.cancel(appointment);
        }
        self.traffic.book(participation.invitation_id, user, interrupted_at);
        match self.tell(user, ToClient::CutOff) {
            FromClient::Done => Ok(()),
            _ => Err(unanswered("client", "it cannot be cut off in its state")),
        }
    }

    /// Stops what a participation is at, and says what came of it.
    fn interrupt(
        &mut self,
        now: SimTime,
        user: UserId,
        participation: &Participation,
        ending: Ending,
    ) -> Result<LinkEvent> {
        Ok(match &participation.phase {
            Phase::Training { began } => {
                let elapsed = now.since(*began);
                let work = participation.effort.map_or_else(Work::default, |effort| effort.work);
                let work = participation.conditions.speed.done_in(elapsed, work);
                LinkEvent::TrainingEnded { ending, work, took_ns: elapsed.as_nanos() }
            }
            Phase::Downloading(transfer) | Phase::Uploading { transfer, .. } => {
                let carried = self.traffic.stop(user, participation, transfer, &mut self.taking_part)?;
                transfer.ended(now, ending, carried)
            }
        })
    }

    /// Books what is under way when the run ends.
    pub(super) fn book_unfinished(&mut self) -> Result<()> {
        let now = self.traffic.calendar.now();
        // Nobody takes a connection that becomes free now.
        self.traffic.server_link.iter_mut().for_each(ServerLink::close);
        for (user, participation) in self.taking_part.drain() {
            let interrupted_at = self.interrupt(now, user, &participation, Ending::Unfinished)?;
            self.traffic.book(participation.invitation_id, user, interrupted_at);
        }
        Ok(())
    }

    /// Takes a participation that comes to its end.
    fn take(&mut self, user: UserId) -> Result<Box<Participation>> {
        self.taking_part.remove(&user).ok_or_else(|| absent(user))
    }
}

/// `frame` as a fault leaves it.
fn with_bit_turned(frame: &Frame, draw: u64) -> Frame {
    let mut bytes = frame.to_vec();
    let bits = 8 * bytes.len() as u64;
    if let Some(bit) = draw.checked_rem(bits) {
        bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
    bytes.into()
}

fn out_of_turn(what: &str) -> Error {
    unanswered("network", format!("{what} out of turn"))
}
