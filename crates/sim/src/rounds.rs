//! The rounds of a run: which step is open, what has been counted in it, and what the server, the
//! third party and the metrics are asked.
//!
//! Nothing here knows where time comes from. The owner of a clock says when something happens, be
//! it a calendar or the real world.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix::Recipient;

use super::checkpoints::{Save, SaveLearned, WRITTEN_AT_ONCE};
use super::consultation::ReplySource;
use super::durations::Durations;
use super::invitation::Participant;
use super::messages::{
    AbsorbRequests, AskServer, AskThirdParty, Book, CloseStep, ConsultThirdParty, Forget, Happened,
    News, Orders, Receipt, RequestArrived, RoundBooked, RoundEnded, StepOutcome, UploadArrived,
};
use super::outcome::{Booking, Ending, Gauges, Level, LossCause, RoundRecord};
use super::resident::{answer_of_metrics, unanswered};
use super::upload::Upload;
use super::workers::Workers;
use super::world::World;
use fedrecsim_core::legs::Peer;
use fedrecsim_core::{Error, Result, Round, SimTime, Step, UserId};
use fedrecsim_model::Archive;

/// The actors that the owner of a clock talks to.
pub(crate) struct Peers {
    pub server: Rc<dyn AskServer>,
    /// The third party, in a method that has one.
    pub third_party: Option<Rc<dyn AskThirdParty>>,
    /// The workers, with the actors of all users.
    pub workers: Rc<dyn Workers>,
    /// Tells the metrics what has happened, in the middle of a round or at the end of the run.
    pub book: Recipient<Book>,
    pub round_ended: Recipient<RoundEnded>,
    pub save_metrics: Recipient<Save>,
}

/// The rounds of a run, with the actors that take part in them.
pub(crate) struct Rounds {
    world: Arc<World>,
    pub peers: Peers,
    interrupted: Arc<AtomicBool>,
    /// The number of rounds that are over.
    over: u32,
    /// The round that is under way; `None` between two rounds.
    open: Option<OpenRound>,
    /// The local losses of the updates that the server has taken in since its last step.
    local_losses: Vec<(Participant, f64)>,
    /// The counts of the open round.
    record: RoundRecord,
}

/// The state of a round that is under way.
struct OpenRound {
    began: SimTime,
    /// The step that is open, or begins next.
    step: u32,
    step_has_begun: bool,
    /// The outcomes of the steps before it.
    made: StepOutcome,
}

impl Rounds {
    /// Returns the rounds of a run that begins. They look at `interrupted` between events.
    pub(crate) fn new(world: Arc<World>, peers: Peers, interrupted: Arc<AtomicBool>) -> Self {
        Self {
            world,
            peers,
            interrupted,
            over: 0,
            open: None,
            local_losses: Vec::new(),
            record: RoundRecord::default(),
        }
    }

    /// Returns how many rounds are over.
    pub(crate) fn over(&self) -> u32 {
        self.over
    }

    /// Takes over the number of rounds of a checkpoint.
    pub(crate) fn resume_after(&mut self, rounds: u32) {
        self.over = rounds;
    }

    /// Returns whether a round is under way.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Returns the counts of the round that is under way, for the end of the run.
    pub(crate) fn unfinished(&self) -> RoundRecord {
        let aggregated = self.open.as_ref().map_or(0, |open| open.made.aggregated);
        RoundRecord {
            aggregated,
            lost: self.record.losses.total() as u32,
            ..self.record.clone()
        }
    }

    /// Opens the next round, unless one is open.
    pub(crate) fn open(&mut self, now: SimTime) {
        let step = self
            .world
            .scenario
            .training
            .steps_of(Round(self.over))
            .start;
        self.open.get_or_insert_with(|| OpenRound {
            began: now,
            step,
            step_has_begun: false,
            made: StepOutcome::default(),
        });
    }

    /// Returns the step that is open or begins next; `None` if no round is open, or if all steps of
    /// the open one are over.
    pub(crate) fn step(&self) -> Option<Step> {
        let end = self.world.scenario.training.steps_of(Round(self.over)).end;
        let step = self.open.as_ref()?.step;
        (step < end).then_some(Step(step))
    }

    /// Begins the open round's next step, and returns the server's orders; `None` if it has begun
    /// before.
    ///
    /// # Errors
    /// Those of the server.
    pub(crate) fn begin_step(&mut self, now: SimTime) -> Result<Option<Orders>> {
        let Some(open) = self.open.as_mut().filter(|open| !open.step_has_begun) else {
            return Ok(None);
        };
        open.step_has_begun = true;
        let step = Step(open.step);
        self.tell_server(now, News::StepBegins(step)).map(Some)
    }

    /// Has the server make the open step, and adds the outcome to the round's. Returns the users
    /// whose participations the server cancels, ascending.
    ///
    /// # Errors
    /// Those of the server and of the third party.
    pub(crate) fn end_step(&mut self) -> Result<Vec<UserId>> {
        let steps = self.world.scenario.training.steps_of(Round(self.over));
        let Some(open) = &mut self.open else {
            return Err(unanswered("network", "a step ended between two rounds"));
        };
        let ends_round = open.step + 1 == steps.end;
        let mut outcome = self.peers.server.ask(CloseStep { ends_round })?;
        if let Some(third_party) = &self.peers.third_party {
            third_party.ask(AbsorbRequests)?;
        }
        let made = &mut open.made;
        self.local_losses
            .sort_unstable_by_key(|(participant, _)| *participant);
        let losses = self.local_losses.drain(..).map(|(_, loss)| loss);
        outcome.loss_sum = losses.fold(made.loss_sum, |sum, loss| sum + loss);
        outcome.steps += made.steps;
        outcome.aggregated += made.aggregated;
        outcome.uploads.add_times(&made.uploads, 1);
        outcome.union += made.union;
        let cancelled = std::mem::take(&mut outcome.cancelled);
        *made = outcome;
        (open.step, open.step_has_begun) = (open.step + 1, false);
        Ok(cancelled)
    }

    /// Closes the open round, during which these were the levels and waits at the server's link, and
    /// has it booked with what was not booked before.
    ///
    /// # Errors
    /// Those of the metrics.
    pub(crate) async fn end(
        &mut self,
        now: SimTime,
        (levels, waits): (Gauges<Level>, Option<Box<Durations>>),
        bookings: Vec<Booking>,
    ) -> Result<RoundBooked> {
        let Some(open) = self.open.take() else {
            return Err(unanswered("network", "a round ended that was not open"));
        };
        self.over += 1;
        let mut record = std::mem::take(&mut self.record);
        record.round = self.over;
        (record.network.began, record.network.ended) = (open.began, now);
        record.network.levels = levels;
        let ended = RoundEnded {
            record,
            waits,
            made: open.made,
            bookings,
        };
        answer_of_metrics(self.peers.round_ended.send(ended)).await
    }

    /// Tells the server that the devices of these users have lost what they had been sent.
    pub(crate) fn forget(&self, users: Range<u32>) {
        self.peers.server.ask(Forget(users));
    }

    /// Has the metrics book what has happened, and returns the list.
    ///
    /// # Errors
    /// Those of the metrics.
    pub(crate) async fn book(&self, bookings: Vec<Booking>) -> Result<Vec<Booking>> {
        answer_of_metrics(self.peers.book.send(Book(bookings))).await
    }

    /// Tells the server what has happened, and returns its orders.
    ///
    /// # Errors
    /// Those of the server.
    pub(crate) fn tell_server(&self, now: SimTime, news: News) -> Result<Orders> {
        self.peers.server.ask(Happened { now, news })
    }

    /// Counts users who are invited.
    pub(crate) fn invited(&mut self, users: usize) {
        self.record.invited += users as u32;
    }

    /// Counts a participation that the server has cancelled.
    pub(crate) fn cancelled(&mut self) {
        self.record.cancelled += 1;
    }

    /// Counts a participation that is lost.
    pub(crate) fn count_lost(&mut self, cause: LossCause) {
        self.record.losses.count(cause);
    }

    /// Counts a participation that is lost, and tells the server.
    ///
    /// # Errors
    /// Those of the server.
    pub(crate) fn lost(
        &mut self,
        now: SimTime,
        participant: Participant,
        cause: LossCause,
    ) -> Result<Orders> {
        self.count_lost(cause);
        self.tell_server(now, News::ParticipationLost(participant))
    }

    /// Hands an upload that has arrived whole to the server, and counts it. One that the server
    /// cannot read is left to be counted as lost, for a cause that the caller knows.
    ///
    /// # Errors
    /// Those of the server.
    pub(crate) fn upload_arrived(
        &mut self,
        now: SimTime,
        participant: Participant,
        upload: Upload,
    ) -> Result<Receipt> {
        let local_loss = upload.loss;
        let arrival = UploadArrived {
            participant,
            upload,
            now,
        };
        let receipt = self.peers.server.ask(arrival)?;
        match receipt.ending {
            Ending::Done => self.local_losses.push((participant, local_loss)),
            Ending::Late => self.record.late += 1,
            Ending::Stale => {
                self.record.late += 1;
                self.record.stale += 1;
            }
            Ending::Lost | Ending::Cancelled | Ending::Unfinished => {}
        }
        Ok(receipt)
    }

    /// Hands a request to the peer that it was sent to, and returns whether that can read it.
    ///
    /// # Errors
    /// Those of the peer.
    pub(crate) fn request_arrived(&self, peer: Peer, arrived: RequestArrived) -> Result<bool> {
        match (peer, &self.peers.third_party) {
            (Peer::Server, _) => self.peers.server.ask(arrived),
            (Peer::ThirdParty, Some(third_party)) => third_party.ask(arrived),
            (Peer::ThirdParty, None) => Err(unanswered("third party", "there is none")),
        }
    }

    /// Returns the source of the third party's replies for participants who are invited now, if
    /// there is a third party.
    ///
    /// # Errors
    /// Those of the third party.
    pub(crate) fn reply_source(&self) -> Result<Option<ReplySource>> {
        let third_party = self.peers.third_party.as_ref();
        third_party
            .map(|peer| peer.ask(ConsultThirdParty).map(ReplySource::ThirdParty))
            .transpose()
    }

    /// Gives the state of all actors to `write`, in pieces, and returns the last piece. The owner of
    /// the clock appends its own.
    ///
    /// # Errors
    /// Those of `write`, and defects of the simulator.
    pub(crate) async fn saved(
        &self,
        write: &mut dyn FnMut(Vec<u8>) -> Result<()>,
    ) -> Result<Archive> {
        let peers = &self.peers;
        let mut archive = peers.server.ask(SaveLearned)?;
        let mut flush = |archive: &mut Archive| match archive.pending() >= WRITTEN_AT_ONCE {
            true => write(archive.take()?),
            false => Ok(()),
        };
        let devices = peers.workers.save(self.over, &mut archive, &mut flush);
        devices.await?;
        archive = peers.server.ask(Save(archive))?;
        if let Some(third_party) = &peers.third_party {
            archive = third_party.ask(Save(archive))?;
        }
        answer_of_metrics(peers.save_metrics.send(Save(archive))).await
    }

    /// Fails once the run is interrupted.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub(crate) fn check_interrupted(&self) -> Result<()> {
        match self.interrupted.load(Ordering::Relaxed) {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }
}
