//! What happens at an instant of the calendar, and to whom it is told.

use std::sync::Arc;

use bytes::Bytes as Frame;

use super::event::Event;
use super::participation::{Dropout, Participation, Phase, Training, Transfer, Way};
use super::transfers::ServerLink;
use super::{Timeline, asked, unanswered};
use crate::error::{Error, Result};
use crate::ids::UserId;
use crate::population::Verdict;
use crate::sim::messages::{
    AlarmRang, Ending, FromClient, LinkEvent, ParticipationLost, Receipt, ToClient, UplinkArrived,
};
use crate::units::{Direction, SimTime};

impl Timeline {
    /// Lets `event` happen; whether the open round is complete with it.
    pub(super) async fn happen(&mut self, now: SimTime, event: Event) -> Result<bool> {
        match event {
            Event::DownloadArrived(user) => self.download_arrived(now, user).await,
            Event::TrainingEnded(user) => self.training_ended(now, user).await.map(|()| false),
            Event::UploadArrived(user) => self.upload_arrived(now, user).await,
            Event::TransfersEnded(direction) => self.transfers_ended(now, direction).map(|()| false),
            Event::CutOff(user) => self.cut_off(now, user).await,
            Event::Alarm => {
                let orders = asked(self.peers.alarm_rang.send(AlarmRang { now }), "server").await??;
                self.obey(orders).await
            }
        }
    }

    async fn download_arrived(&mut self, now: SimTime, user: UserId) -> Result<bool> {
        let mut participation = self.take(user)?;
        let Phase::Downloading(transfer) = participation.phase else { return Err(out_of_turn("a download arrived")) };
        if transfer.is_spoiled() {
            return self.download_failed(user, participation, transfer).await;
        }
        if matches!(participation.training, Training::Untrained(_)) {
            self.put(user, participation);
            self.work_out_trainings()?;
            participation = self.take(user)?;
        }
        self.book(participation.invitation_id, user, transfer.ended(now, Ending::Done, transfer.size));
        let ends = now + participation.conditions.speed.time_for(participation.training.work());
        let ends = self.within_time(ends, user, participation.step)?;
        participation.phase = Phase::Training { began: now };
        participation.next = Some(self.calendar.schedule(ends, Event::TrainingEnded(user)));
        if let Some(Dropout::InTraining(elapsed)) = participation.dropout {
            self.schedule_cut(user, &mut participation, now + elapsed);
        }
        self.put(user, participation);
        Ok(false)
    }

    /// A download does not arrive as it was sent, and the client notices.
    async fn download_failed(
        &mut self,
        user: UserId,
        participation: Box<Participation>,
        transfer: Transfer,
    ) -> Result<bool> {
        if let Some(Verdict::Corrupt { draw }) = transfer.fault {
            let download = Arc::clone(&participation.download);
            let frame = with_bit_turned(&download.frame(user)?.bytes, draw);
            match self.ask(user, ToClient::Downloaded(frame, download)).await? {
                FromClient::Sound(false) => {}
                FromClient::Sound(true) => return Err(Error::Frame("a corrupted download was not noticed".to_owned())),
                _ => return Err(unanswered("client", "it does not say whether its download is sound")),
            }
        }
        self.failed(user, participation, transfer).await
    }

    /// A transfer has come to nothing, and the participation with it.
    async fn failed(&mut self, user: UserId, participation: Box<Participation>, transfer: Transfer) -> Result<bool> {
        let ended = transfer.ended(self.calendar.now(), Ending::Lost, transfer.size);
        self.lose(user, participation, ended).await
    }

    async fn training_ended(&mut self, now: SimTime, user: UserId) -> Result<()> {
        let mut participation = self.take(user)?;
        let Phase::Training { began } = participation.phase else { return Err(out_of_turn("a training ended")) };
        let Training::Trained(trained) = std::mem::replace(&mut participation.training, Training::Over) else {
            return Err(out_of_turn("a training ended that nobody worked out"));
        };
        let trained = trained?;
        let (parts, loss, work) = (trained.frame.parts, trained.loss, trained.work);
        let FromClient::Upload(frame) = self.ask(user, ToClient::TrainingEnded(trained)).await? else {
            return Err(unanswered("client", "it did not upload after training"));
        };
        let took_ns = now.since(began).as_nanos();
        let ended = LinkEvent::TrainingEnded { ending: Ending::Done, work, took_ns };
        self.book(participation.invitation_id, user, ended);
        let transfer = self.start_transfer(user, &mut participation, Direction::Up, parts)?;
        participation.phase = Phase::Uploading { transfer, frame, loss };
        self.put(user, participation);
        Ok(())
    }

    async fn upload_arrived(&mut self, now: SimTime, user: UserId) -> Result<bool> {
        let mut participation = self.take(user)?;
        let Phase::Uploading { transfer, frame, loss } = &mut participation.phase else {
            return Err(out_of_turn("an upload arrived"));
        };
        let (transfer, loss) = (*transfer, *loss);
        let frame = match transfer.fault {
            None | Some(Verdict::Delay(_)) => std::mem::take(frame),
            Some(Verdict::Corrupt { draw }) => with_bit_turned(frame, draw),
            Some(Verdict::CutAt(_) | Verdict::Drop) => return self.failed(user, participation, transfer).await,
        };
        if let Some((_, cut)) = participation.cut {
            self.calendar.cancel(cut);
        }
        let invitation_id = participation.invitation_id;
        let receipt =
            asked(self.peers.uplink_arrived.send(UplinkArrived { user, invitation_id, frame, now }), "server").await?;
        let Receipt { ending, orders } = receipt?;
        if ending.is_arrival() && transfer.is_spoiled() {
            return Err(Error::Frame("a corrupted upload was not noticed".to_owned()));
        }
        self.book(invitation_id, user, transfer.ended(now, ending, transfer.size));
        match ending {
            Ending::Done => self.losses.push((user, invitation_id, loss)),
            Ending::Late | Ending::Stale => self.counts.late += 1,
            Ending::Lost | Ending::Cancelled | Ending::Unfinished => self.counts.dropped += 1,
        }
        self.obey(orders?).await
    }

    /// A dropout or a departure ends a participation.
    async fn cut_off(&mut self, now: SimTime, user: UserId) -> Result<bool> {
        let participation = self.take(user)?;
        let interrupted_at = self.interrupt(now, user, &participation, Ending::Lost)?;
        self.lose(user, participation, interrupted_at).await
    }

    /// A participation is lost; `interrupted_at` is what it was at.
    async fn lose(
        &mut self,
        user: UserId,
        participation: Box<Participation>,
        interrupted_at: LinkEvent,
    ) -> Result<bool> {
        let (invitation_id, now) = (participation.invitation_id, self.calendar.now());
        self.break_off(user, participation, interrupted_at).await?;
        self.counts.dropped += 1;
        let lost = ParticipationLost { user, invitation_id, now };
        let orders = asked(self.peers.participation_lost.send(lost), "server").await??;
        self.obey(orders).await
    }

    /// The server waits for these participations no longer.
    pub(super) async fn give_up(&mut self, users: &[UserId]) -> Result<()> {
        // Whoever waits for a connection leaves the line first, or would be given one that another leaves.
        let (waiting, others): (Vec<UserId>, Vec<UserId>) = users.iter().partition(|user| self.is_in_line(user));
        for user in waiting.into_iter().chain(others) {
            let participation = self.take(user)?;
            self.counts.cancelled += 1;
            let interrupted_at = self.interrupt(self.calendar.now(), user, &participation, Ending::Cancelled)?;
            self.break_off(user, participation, interrupted_at).await?;
        }
        Ok(())
    }

    fn is_in_line(&self, user: &UserId) -> bool {
        let transfer = self.taking_part.get(user).and_then(|participation| participation.transfer());
        transfer.is_some_and(|transfer| matches!(transfer.way, Way::InLine(_)))
    }

    /// Ends a participation where it stands.
    async fn break_off(
        &mut self,
        user: UserId,
        participation: Box<Participation>,
        interrupted_at: LinkEvent,
    ) -> Result<()> {
        let cut = participation.cut.map(|(_, appointment)| appointment);
        for appointment in [participation.next, cut].into_iter().flatten() {
            self.calendar.cancel(appointment);
        }
        self.book(participation.invitation_id, user, interrupted_at);
        match self.ask(user, ToClient::CutOff).await? {
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
                let work = participation.conditions.speed.done_in(elapsed, participation.training.work());
                LinkEvent::TrainingEnded { ending, work, took_ns: elapsed.as_nanos() }
            }
            Phase::Downloading(transfer) | Phase::Uploading { transfer, .. } => {
                let carried = self.stop_transfer(user, participation, transfer)?;
                transfer.ended(now, ending, carried)
            }
        })
    }

    /// Books what is under way when the run ends.
    pub(super) fn book_unfinished(&mut self) -> Result<()> {
        let now = self.calendar.now();
        // Nobody takes a connection that becomes free now.
        self.server_link.iter_mut().for_each(ServerLink::close);
        for (user, participation) in self.taking_part.drain() {
            let interrupted_at = self.interrupt(now, user, &participation, Ending::Unfinished)?;
            self.book(participation.invitation_id, user, interrupted_at);
        }
        Ok(())
    }

    pub(super) fn take(&mut self, user: UserId) -> Result<Box<Participation>> {
        self.taking_part.remove(&user).ok_or_else(|| absent(user))
    }

    pub(super) fn put(&mut self, user: UserId, participation: Box<Participation>) {
        self.taking_part.insert(user, participation);
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

fn absent(user: UserId) -> Error {
    unanswered("network", format!("{user} takes no part"))
}

fn out_of_turn(what: &str) -> Error {
    unanswered("network", format!("{what} out of turn"))
}
