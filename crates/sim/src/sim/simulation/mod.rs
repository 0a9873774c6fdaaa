//! A simulation that its owner drives, be it round by round, up to an instant or to its end.
//!
//! A [`Simulation`] owns a thread on which its actors live, and the worker threads. Its methods
//! send that thread a command and wait for the answer. So it can be moved to another thread, and
//! any number of simulations live in one process without sharing anything. The command line,
//! checkpoints and observers all use this type.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use tokio::sync::mpsc::UnboundedSender;

use super::messages::{Booking, Collected, RoundBooked};
use super::observer::RoundObserver;
use super::outcome::events::RoundSpan;
use super::outcome::{ByDirection, Flow, Outcome, ProblemSize, RoundRecord, SplitAccuracy};
use super::selection::select;
use super::world::World;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::units::SimTime;
use fedrecsim_model::model::archive::ArchiveReader;

mod actors;
mod control;
mod empty_uploads;
mod ending;
mod on_ranks;
mod parameters;
mod rehearsal;

pub use control::{RunControl, Until};
pub use on_ranks::{check_on_ranks, server_needs_ratings};

use actors::{Advanced, Cast, Closed, Command, Started};
use ending::Ending;

/// A simulated world that is under way.
///
/// It is between two rounds, or in the middle of one if [`Self::step_until`] has gone to an
/// instant. It is over after its last round, or when something has stopped it
/// ([`Self::stopped_by`]).
pub struct Simulation {
    world: Arc<World>,
    /// `None` while the simulation is being dropped.
    commands: Option<UnboundedSender<Command>>,
    thread: Option<JoinHandle<()>>,
    ending: Ending,
    baselines: BTreeMap<String, SplitAccuracy>,
    rounds: u32,
    now: SimTime,
    round_is_open: bool,
    stopped_by: Option<Error>,
    /// What to do if the loss of another process ends the simulation.
    way_on: Option<String>,
    happened: Option<(RoundSpan, Vec<Booking>)>,
    total: ByDirection<Flow>,
}

impl Simulation {
    /// Starts the actors of `world` at virtual time zero.
    ///
    /// # Errors
    /// An error if the system does not give the threads, or a baseline cannot be scored.
    pub fn new(world: impl Into<Arc<World>>, control: &RunControl) -> Result<Self> {
        Self::start(world.into(), control, None, Cast::Everybody)
    }

    /// Restores a simulation that [`Self::save`] wrote for the same world. Its outcome is that of
    /// the simulation that was saved.
    ///
    /// # Errors
    /// As [`Self::new`], and [`Error::Checkpoint`] if `reader` gives something other than a
    /// simulation of this world.
    pub fn restore(
        world: World,
        control: &RunControl,
        reader: impl Read + Send + 'static,
    ) -> Result<Self> {
        Self::resume(world, control, ArchiveReader::new(Box::new(reader)))
    }

    /// Restores a simulation as [`Self::restore`] does, from an archive.
    pub(super) fn resume(
        world: impl Into<Arc<World>>,
        control: &RunControl,
        archive: ArchiveReader,
    ) -> Result<Self> {
        Self::start(world.into(), control, Some(archive), Cast::Everybody)
    }

    fn start(
        world: Arc<World>,
        control: &RunControl,
        resumed: Option<ArchiveReader>,
        cast: Cast,
    ) -> Result<Self> {
        let (commands, inbox) = tokio::sync::mpsc::unbounded_channel();
        let (reply, started) = mpsc::channel();
        let (shared, control) = (Arc::clone(&world), control.clone());
        let ending = Ending::default();
        let told = ending.clone();
        let thread = std::thread::Builder::new()
            .name("simulation".to_owned())
            .spawn(move || {
                told.tell_after(|| actors::live(shared, control, resumed, cast, inbox, &reply))
            })
            .map_err(|reason| {
                Error::Usage(format!("cannot start the simulation's thread: {reason}"))
            })?;
        let Started {
            baselines,
            rounds,
            now,
            total,
        } = started.recv().map_err(|_| ending.error())??;
        Ok(Self {
            world,
            commands: Some(commands),
            thread: Some(thread),
            ending,
            baselines,
            rounds,
            now,
            round_is_open: false,
            stopped_by: None,
            way_on: None,
            happened: None,
            total,
        })
    }

    /// Has observers told of all changes at the server's link from now on
    /// ([`RoundObserver::server_changed`]). This affects no result, and takes memory for the
    /// changes of a round.
    ///
    /// # Errors
    /// Defects of the simulator.
    pub fn watch_server(&self) -> Result<()> {
        self.send(Command::KeepChanges)
    }

    /// Returns the world that is simulated.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Returns how many rounds are over.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Returns the virtual time.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// Returns the bytes that had been booked when the last round ended.
    pub fn total(&self) -> ByDirection<Flow> {
        self.total
    }

    /// Returns whether the simulation is over, because its last round is or because something has
    /// stopped it.
    pub fn is_over(&self) -> bool {
        self.stopped_by.is_some() || self.rounds >= self.world.scenario.training.rounds
    }

    /// Returns the reason why the simulation has stopped before its last round, if it has.
    pub fn stopped_by(&self) -> Option<&Error> {
        self.stopped_by.as_ref()
    }

    /// Returns what happened on links and devices in the round that has just ended, in the order of
    /// time. If very much happened in it, this is the last part, and observers were told of the
    /// rest on the way.
    pub fn happened(&self) -> Option<(&RoundSpan, &[Booking])> {
        self.happened
            .as_ref()
            .map(|(span, bookings)| (span, bookings.as_slice()))
    }

    /// Goes on to the end of the open round, or of the next one if none is open. Returns `None` if
    /// the simulation is over; [`Self::stopped_by`] then says why, and so does the outcome.
    ///
    /// # Errors
    /// Defects of the simulator. What ends a run, such as divergence or an interruption, is not an
    /// error here.
    pub fn step(&mut self) -> Result<Option<RoundRecord>> {
        self.step_watched(&mut ())
    }

    /// Goes on as [`Self::step`] does, with an observer.
    ///
    /// # Errors
    /// As [`Self::step`].
    pub fn step_watched(
        &mut self,
        observer: &mut dyn RoundObserver,
    ) -> Result<Option<RoundRecord>> {
        self.advance_watched(None, observer)
    }

    /// Goes on until `until`, or until the simulation is over. `observer` is told of every round
    /// that ends on the way; a list of records is an observer that collects them.
    ///
    /// # Errors
    /// As [`Self::step`].
    pub fn step_until(&mut self, until: Until, observer: &mut dyn RoundObserver) -> Result<()> {
        match until {
            Until::Time(time) => while self.advance_watched(Some(time), observer)?.is_some() {},
            Until::Round(round) => {
                while self.rounds < round && self.advance_watched(None, observer)?.is_some() {}
            }
        }
        Ok(())
    }

    /// Writes the state of the simulation, for [`Self::restore`].
    ///
    /// # Errors
    /// [`Error::Usage`] in the middle of a round or after a stop, and [`Error::Write`] if `writer`
    /// fails.
    pub fn save(&mut self, writer: &mut dyn Write) -> Result<()> {
        self.save_in_pieces(&mut |piece| {
            writer
                .write_all(piece)
                .map_err(|reason| Error::write("checkpoint", reason))
        })
    }

    pub(super) fn save_in_pieces(
        &mut self,
        write: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        self.check_is_between_rounds("saved")?;
        // The channel has room for one piece, so that one is written while the next is made.
        let (pieces, made) = mpsc::sync_channel(1);
        let (reply, answer) = mpsc::channel();
        self.send(Command::Save { pieces, reply })?;
        let mut written = Ok(());
        for piece in made {
            written = write(&piece);
            if written.is_err() {
                break;
            }
        }
        let saved = answer.recv().map_err(|_| self.ending.error())?;
        written.and(saved)
    }

    /// Ends the simulation where it stands, and returns its outcome. Before the last round, the
    /// outcome says why it stopped.
    ///
    /// # Errors
    /// Defects of the simulator.
    pub fn finish(self) -> Result<Outcome> {
        self.finish_watched(&mut ())
    }

    /// Ends the simulation as [`Self::finish`] does, and tells `observer` what was still under way.
    ///
    /// # Errors
    /// As [`Self::finish`].
    pub fn finish_watched(mut self, observer: &mut dyn RoundObserver) -> Result<Outcome> {
        self.happened = None;
        if !self.is_over() {
            self.stopped_by = Some(Error::Stopped { at: self.now });
        }
        // After a stop within a round, the parameters of some users are lost with their trainings.
        let private_parameters = self.stopped_by.is_none();
        let Closed {
            unfinished,
            changes,
            collected,
        } = self
            .ask(|reply| Command::Finish {
                private_parameters,
                reply,
            })?
            .map_err(|error| self.with_way_on(error))?;
        observer.server_changed(&changes);
        observer.happened(None, &unfinished);
        let world = &self.world;
        let Collected {
            rounds,
            bytes,
            third_party_bytes,
            work,
            durations,
            network,
            device_bytes,
            users,
            model,
            digest,
        } = collected;
        let size = ProblemSize {
            users: world.dataset.users() as u64,
            items: world.dataset.items() as u64,
            training_ratings: world.dataset.training_ratings() as u64,
            evaluated_users: world.candidates.evaluated_users().len() as u64,
            excluded_users: world.excluded.len() as u64,
        };
        let selected = select(&rounds, &world.scenario.evaluation);
        let (baselines, stopped_by) = (std::mem::take(&mut self.baselines), self.stopped_by.take());
        let policy = world.policy.clone();
        let uploads_were_empty = empty_uploads::were_all(&rounds, &bytes.up, world);
        let learned_nothing = stopped_by.is_none()
            && world.placement.is_on_devices()
            && (uploads_were_empty || rounds.iter().all(|round| round.aggregated == 0));
        Ok(Outcome {
            policy,
            rounds,
            selected,
            draws_negatives: world.draws_negatives,
            baselines,
            bytes,
            third_party_bytes,
            work,
            durations,
            network,
            device_bytes,
            users,
            size,
            model,
            digest,
            stopped_by,
            learned_nothing,
            uploads_were_empty,
        })
    }

    fn advance_watched(
        &mut self,
        until: Option<SimTime>,
        observer: &mut dyn RoundObserver,
    ) -> Result<Option<RoundRecord>> {
        let record = self.advance(until, observer)?;
        if let Some((span, bookings)) = &self.happened {
            observer.happened(Some(*span), bookings);
        }
        if let Some(record) = &record {
            observer.round_finished(record, self.total);
        }
        Ok(record)
    }

    fn advance(
        &mut self,
        until: Option<SimTime>,
        observer: &mut dyn RoundObserver,
    ) -> Result<Option<RoundRecord>> {
        // The next bookings use the memory of these, since a round of a million users has hundreds
        // of megabytes of them.
        let spare = self
            .happened
            .take()
            .map(|(_, bookings)| bookings)
            .unwrap_or_default();
        // At an instant that has passed nothing happens any more, and no round is opened.
        if self.is_over() || until.is_some_and(|until| until < self.now) {
            return Ok(None);
        }
        let (happened, heard) = mpsc::channel();
        let (reply, answer) = mpsc::channel();
        self.send(Command::Advance {
            until,
            spare,
            happened,
            reply,
        })?;
        heard
            .into_iter()
            .for_each(|bookings| observer.happened(None, &bookings));
        let Advanced {
            round,
            now,
            changes,
        } = answer.recv().map_err(|_| self.ending.error())?;
        self.now = now;
        observer.server_changed(&changes);
        match round {
            Ok(None) => {
                self.round_is_open = true;
                Ok(None)
            }
            Ok(Some(RoundBooked {
                span,
                bookings,
                total,
                record,
            })) => {
                (self.happened, self.total) = (Some((span, bookings)), total);
                match record {
                    Ok(record) => {
                        (self.rounds, self.round_is_open) = (record.round, false);
                        Ok(Some(record))
                    }
                    Err(error) => self.stop_for(error).map(|()| None),
                }
            }
            Err(error) => self.stop_for(error).map(|()| None),
        }
    }

    /// Stops the simulation because of `error`.
    ///
    /// # Errors
    /// `error` itself, if it is a defect.
    pub(super) fn stop_for(&mut self, error: Error) -> Result<()> {
        if !error.leaves_a_result() {
            return Err(error);
        }
        self.stopped_by = Some(error);
        Ok(())
    }

    fn check_is_between_rounds(&self, what: &str) -> Result<()> {
        if self.round_is_open || self.stopped_by.is_some() {
            return Err(Error::Usage(format!(
                "a simulation can be {what} only between two rounds"
            )));
        }
        Ok(())
    }

    fn send(&self, command: Command) -> Result<()> {
        let sent = self
            .commands
            .as_ref()
            .is_some_and(|commands| commands.send(command).is_ok());
        if sent {
            Ok(())
        } else {
            Err(self.ending.error())
        }
    }

    /// Sends a command and waits for its answer.
    fn ask<T>(&self, command: impl FnOnce(mpsc::Sender<T>) -> Command) -> Result<T> {
        let (reply, answer) = mpsc::channel();
        self.send(command(reply))?;
        answer.recv().map_err(|_| self.ending.error())
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        // The thread ends when no command can come any more. If it has panicked, the panic has been
        // reported already.
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
