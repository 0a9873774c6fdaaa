//! A run with its clock: the coordinator is told what happens, and its orders are carried out.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;

use super::connections::Connections;
use super::host::Lost;
use super::message::{Head, Message, Participant, to};
use super::news::News;
use super::processes::Processes;
use super::sorting::Happened;
use fedrecsim_core::{Error, Result, SimTime};
use fedrecsim_model::ArchiveReader;
use fedrecsim_sim::deployment::{
    Arrivals, Coordinator, Event, Invite, Order, Shaped, Told, remote_workers,
};
use fedrecsim_sim::{CheckpointStore, Outcome, World};

/// Opens the file of what arrives, once the run begins. If it goes on from a checkpoint, the first
/// bytes of the file, as many as this, stay.
pub type OpenArrivals = Box<dyn FnOnce(u64) -> Result<Arrivals>>;

/// What a run starts with once all users are there.
pub(crate) struct Starting {
    pub world: Arc<World>,
    pub threads: usize,
    pub interrupted: Arc<AtomicBool>,
    pub arrivals: Option<OpenArrivals>,
    pub resumed: Option<ArchiveReader>,
    pub shape: bool,
}

/// The run, with its clock.
pub(crate) struct Run<'t> {
    connections: Rc<Connections>,
    happened: UnboundedReceiver<Happened>,
    /// What has happened and is handled next.
    put_off: VecDeque<Happened>,
    store: Box<dyn CheckpointStore>,
    /// When this process began with its rounds, and what time of the run that was.
    began: Instant,
    began_at: SimTime,
    alarm: Sender<Instant>,
    tell: &'t mut dyn FnMut(News<'_>),
    /// The users whose processes are away, as it was said last.
    missing: Option<String>,
    /// The participations that were lost with a connection.
    losses: VecDeque<Participant>,
}

impl<'t> Run<'t> {
    /// Makes a run that has not begun, over these connections, of which `happened` tells.
    pub(crate) fn new(
        connections: Rc<Connections>,
        happened: UnboundedReceiver<Happened>,
        store: Box<dyn CheckpointStore>,
        alarm: Sender<Instant>,
        tell: &'t mut dyn FnMut(News<'_>),
    ) -> Self {
        Self {
            connections,
            happened,
            put_off: VecDeque::new(),
            store,
            began: Instant::now(),
            began_at: SimTime::ZERO,
            alarm,
            tell,
            missing: None,
            losses: VecDeque::new(),
        }
    }

    /// Carries the run out, once the processes of all users are there, and returns its outcome.
    ///
    /// # Errors
    /// Errors before the first round, and defects.
    pub(crate) async fn carry_out(mut self, starting: Starting) -> Result<Outcome> {
        let interrupted = starting.interrupted;
        self.wait_for_all(&interrupted).await?;
        self.connections.settle();
        let workers = remote_workers(Processes(Rc::clone(&self.connections)));
        let (flag, threads) = (Arc::clone(&interrupted), starting.threads);
        let (world, resumed) = (starting.world, starting.resumed);
        let starting_up = Coordinator::start(world, threads, flag, workers, resumed);
        let mut coordinator = self.watching(&interrupted, starting_up).await?;
        if let Some(open) = starting.arrivals {
            coordinator.record(open(coordinator.recorded_bytes())?);
        }
        self.losses.extend(coordinator.under_way());
        self.began_at = coordinator.now();
        let mut coordinator = Shaped::new(coordinator, starting.shape);
        self.forget_what_came();
        self.began = Instant::now();
        let mut stopped_by = None;
        while !coordinator.is_over() && stopped_by.is_none() {
            let round = match self.wait_for_all(&interrupted).await {
                Ok(()) => self.round(&mut coordinator, &interrupted).await,
                Err(error) => Err(error),
            };
            let round = match round {
                Ok(()) => self.leave_checkpoint(&mut coordinator, &interrupted).await,
                Err(error) => Err(error),
            };
            if let Err(error) = round {
                if !error.leaves_a_result() {
                    return Err(error);
                }
                stopped_by = Some(error);
            }
        }
        let collecting = coordinator.collect(self.now(), stopped_by);
        let outcome = self.watching(&interrupted, collecting).await?;
        self.take_note_of_new_devices(&mut coordinator)?;
        coordinator.end(self.now())?;
        Ok(outcome)
    }

    /// Leaves a checkpoint after a round, if one is due. If devices begin anew meanwhile, it begins
    /// again: what the server believes of them and what they have to go back to would differ.
    async fn leave_checkpoint(
        &mut self,
        coordinator: &mut Shaped,
        interrupted: &AtomicBool,
    ) -> Result<()> {
        let rounds = coordinator.rounds();
        if coordinator.is_over() || !self.store.is_due(rounds) {
            return Ok(());
        }
        let mut store = std::mem::replace(&mut self.store, Box::new(()));
        let left = loop {
            self.take_note_of_new_devices(coordinator)?;
            let leaving = async {
                store.begin(rounds)?;
                let saved = coordinator.save(&mut |piece| store.write(piece)).await;
                saved.map_err(|error| store.part_unwritten(error))
            };
            match self.watching(interrupted, leaving).await {
                Ok(()) if self.connections.have_begun_anew() => {}
                Ok(()) => break store.commit(),
                Err(error) => break Err(error),
            }
        };
        self.store = store;
        left.map(|()| (self.tell)(News::Checkpoint(rounds)))
    }

    /// Forgets what came before the run, when nobody was invited to anything.
    fn forget_what_came(&mut self) {
        self.put_off_what_happened();
        self.put_off.clear();
    }

    /// Takes in what has happened while the run waits, and tells of it. What the coordinator has to
    /// hear is put off, and nothing else stays: peers may come and go for hours.
    fn put_off_what_happened(&mut self) {
        while let Ok(happened) = self.happened.try_recv() {
            match happened {
                Happened::Event(..) => self.put_off.push_back(happened),
                Happened::Gone(lost, reason) => {
                    (self.tell)(News::Left(lost.users.clone(), &reason));
                    if !self.is_lost_already(&lost) {
                        self.put_off.push_back(Happened::Lost(lost));
                    }
                }
                Happened::Lost(lost) => self.put_off.push_back(Happened::Lost(lost)),
                Happened::BeginsAnew(users) => (self.tell)(News::BeginsAnew(users)),
                // Both are said wherever the run waits.
                Happened::Joined | Happened::CutOff => {}
            }
        }
    }

    /// Returns whether a loss changes nothing: one of the same process waits to be handled, and no
    /// message came between the two.
    fn is_lost_already(&self, lost: &Lost) -> bool {
        let last = self.put_off.iter().rev().find(|happened| match happened {
            Happened::Event(_, Event::Of(participant, _), _) => {
                lost.users.contains(&participant.0.0)
            }
            Happened::Lost(other) => other.users == lost.users,
            _ => false,
        });
        lost.invited.is_empty() && matches!(last, Some(Happened::Lost(_)))
    }

    fn now(&self) -> SimTime {
        self.instant(Instant::now())
    }

    fn instant(&self, at: Instant) -> SimTime {
        let elapsed = at.saturating_duration_since(self.began).as_nanos() as u64;
        SimTime::from_nanos(self.began_at.as_nanos().saturating_add(elapsed))
    }

    /// Waits until the processes of all users are there.
    async fn wait_for_all(&mut self, interrupted: &AtomicBool) -> Result<()> {
        while self.say_who_is_missing() {
            match self.connections.is_settled() {
                true => self.put_off_what_happened(),
                false => self.forget_what_came(),
            }
            if interrupted.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            self.connections.changed.notified().await;
        }
        Ok(())
    }

    /// Says who was refused, whose processes have come, and whose are away, unless that was said.
    /// Returns whether some are away.
    fn say_who_is_missing(&mut self) -> bool {
        for reason in self.connections.were_refused() {
            (self.tell)(News::CutOff(&reason));
        }
        for users in self.connections.came() {
            (self.tell)(News::Joined(users));
        }
        let missing = self.connections.missing();
        if missing != self.missing {
            match &missing {
                Some(users) => (self.tell)(News::WaitsFor(users)),
                None => (self.tell)(News::Complete),
            }
            self.missing = missing;
        }
        self.missing.is_some()
    }

    /// Waits for work that asks devices, and says meanwhile whose processes are away. What it asks
    /// them waits until they are back, or the run is interrupted. Then the work is not left half done:
    /// its questions have no answer, and it ends with that.
    async fn watching<T>(
        &mut self,
        interrupted: &AtomicBool,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let mut work = pin!(work);
        loop {
            if self.say_who_is_missing() && interrupted.load(Ordering::Relaxed) {
                self.connections.stop_asking();
            }
            self.put_off_what_happened();
            let connections = Rc::clone(&self.connections);
            let mut changed = pin!(connections.changed.notified());
            let done = poll_fn(|context| match work.as_mut().poll(context) {
                Poll::Ready(done) => Poll::Ready(Some(done)),
                Poll::Pending => changed.as_mut().poll(context).map(|()| None),
            });
            if let Some(done) = done.await {
                return done;
            }
        }
    }

    async fn round(&mut self, coordinator: &mut Shaped, interrupted: &AtomicBool) -> Result<()> {
        self.take_note_of_new_devices(coordinator)?;
        let mut orders = coordinator.begin_round(self.now())?;
        while !self.obey(std::mem::take(&mut orders)) {
            self.take_note_of_new_devices(coordinator)?;
            // The place of a message is free once it is handled.
            let (at, event, _place) = match self.losses.pop_front() {
                Some(lost) if !coordinator.is_under_way(lost) => continue,
                Some(lost) => (Instant::now(), Event::Of(lost, Told::Lost), None),
                None => match self.next_happened().await {
                    // What has happened is handled once it is known which devices begin anew.
                    Some(happened) if self.connections.have_begun_anew() => {
                        self.put_off.push_front(happened);
                        continue;
                    }
                    Some(Happened::Event(at, event, place)) => (at, event, place),
                    Some(Happened::Gone(lost, reason)) => {
                        (self.tell)(News::Left(lost.users.clone(), &reason));
                        self.put_off.push_front(Happened::Lost(lost));
                        continue;
                    }
                    Some(Happened::Lost(lost)) => {
                        self.losses.extend(lost.invited);
                        self.losses.extend(coordinator.on_links_of(lost.users));
                        continue;
                    }
                    Some(Happened::CutOff | Happened::Joined) => {
                        self.say_who_is_missing();
                        continue;
                    }
                    Some(Happened::BeginsAnew(users)) => {
                        (self.tell)(News::BeginsAnew(users));
                        continue;
                    }
                    None => return Err(Error::Interrupted),
                },
            };
            orders = coordinator.happened(self.instant(at), event)?;
        }
        let ending = coordinator.end_round();
        let (record, total) = self.watching(interrupted, ending).await?;
        (self.tell)(News::Round(&record, &total));
        Ok(())
    }

    /// Returns what has happened next.
    async fn next_happened(&mut self) -> Option<Happened> {
        match self.put_off.pop_front() {
            None => self.happened.recv().await,
            happened => happened,
        }
    }

    /// Tells the coordinator which devices begin anew, before it makes anything for them. What they said
    /// before is of participations that are lost then.
    fn take_note_of_new_devices(&mut self, coordinator: &mut Shaped) -> Result<()> {
        for anew in self.connections.begun_anew() {
            let lost = coordinator.begin_anew(anew.users, anew.scored)?;
            self.losses.extend(lost);
        }
        Ok(())
    }

    /// Carries out orders, and returns whether the round is to end.
    fn obey(&mut self, orders: Vec<Order>) -> bool {
        let mut ends = false;
        for order in orders {
            match order {
                Order::Invite(invite) => self.invite(invite),
                Order::Reply(participant, frame) => {
                    let head = Head::Reply {
                        to: to(participant),
                    };
                    let message = Message::with(head, frame.bytes);
                    self.connections.tell(participant, message);
                }
                Order::Taken(participant) => {
                    let to = to(participant);
                    let message = Message::new(Head::Taken { to });
                    self.connections.tell(participant, message);
                }
                Order::Cancel(participant) => {
                    let to = to(participant);
                    let message = Message::new(Head::Cancel { to });
                    self.connections.tell(participant, message);
                }
                Order::WakeAt(at) => {
                    let at = Duration::from_nanos(at.since(self.began_at).as_nanos());
                    if let Some(at) = self.began.checked_add(at) {
                        // Its thread ends after this one.
                        let _ = self.alarm.send(at);
                    }
                }
                Order::EndRound => ends = true,
            }
        }
        ends
    }

    /// Sends an invitation, which waits if the process of its user is away.
    fn invite(&mut self, invite: Invite) {
        let head = Head::Invite {
            to: to(invite.participant),
            step: invite.step.0,
            number: invite.number,
            phase: invite.phase.0,
        };
        let message = Message::with(head, invite.frame.bytes);
        if !self.connections.invite(invite.participant, message) {
            self.say_who_is_missing();
        }
    }
}
