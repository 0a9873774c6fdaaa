//! A simulation that its owner drives, be it round by round, up to an instant or to its end.
//!
//! A [`Simulation`] owns a thread for its actors, and the worker threads. Its methods send that
//! thread a command and wait for the answer. So it can be moved to another thread, and any number
//! of simulations live in one process without sharing anything. The command line, checkpoints and
//! observers all use this type.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};

use super::messages::{GetModel, GetScoring, RoundBooked};
use super::observer::RoundObserver;
use super::outcome::{Booking, ByDirection, Flow, Outcome, RoundRecord, SplitAccuracy};
use super::resident::Ask;
use super::stop::Stop;
use super::workers::{MakeWorkers, all_users_here};
use super::world::World;
use fedrecsim_core::{Error, Result, SimTime, UserId};
use fedrecsim_data::dataset::KeptItems;
use fedrecsim_methods::{PersonalTable, PersonalVector};
use fedrecsim_model::{ArchiveReader, Model};

mod actors;
mod recommended;
mod thread;

pub use recommended::Recommended;
use recommended::best;

use actors::{Advanced, Closed, Started};
use thread::ActorThread;

/// Settings of how a simulation is carried out. They do not affect the result.
#[derive(Clone, Debug)]
pub struct RunControl {
    /// The number of worker threads, at least 1.
    pub threads: usize,
    /// Set this to true to stop the simulation. The finished rounds remain.
    pub interrupted: Arc<AtomicBool>,
}

impl RunControl {
    /// Returns settings with this many worker threads, and no way to interrupt the simulation.
    pub fn with_threads(threads: usize) -> Self {
        Self {
            threads,
            interrupted: Arc::default(),
        }
    }
}

/// The point that a simulation is to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Everything up to this instant of virtual time has happened, and nothing later. A round may
    /// be open then.
    Time(SimTime),
    /// This number of rounds are over.
    Round(u32),
}

/// A simulated world that is under way.
///
/// It is between two rounds, or in the middle of one if [`Self::step_until`] has gone to an
/// instant. It is over after its last round, or when something has stopped it
/// ([`Self::stopped_by`]).
pub struct Simulation {
    world: Arc<World>,
    actors: ActorThread,
    baselines: BTreeMap<String, SplitAccuracy>,
    rounds: u32,
    /// Whether accuracy has not become better for so long that no round follows.
    is_settled: bool,
    now: SimTime,
    round_is_open: bool,
    stopped_by: Option<Error>,
    /// What to do if the loss of another process ends the simulation.
    way_on: Option<String>,
    /// A list of bookings to be filled again.
    spare: Vec<Booking>,
    total: ByDirection<Flow>,
}

impl Simulation {
    /// Starts the actors of `world` at virtual time zero.
    ///
    /// # Errors
    /// An error if the system does not give the threads, or a baseline cannot be scored.
    pub fn new(world: impl Into<Arc<World>>, control: &RunControl) -> Result<Self> {
        Self::with_workers(world, control, None, all_users_here())
    }

    /// Restores a simulation that [`Self::save`] wrote for the same world. Its outcome is that of
    /// the simulation that was saved.
    ///
    /// # Errors
    /// As [`Self::new`], and [`Error::Unrestorable`] if `reader` gives something other than a
    /// simulation of this world.
    pub fn restore(
        world: World,
        control: &RunControl,
        reader: impl Read + Send + 'static,
    ) -> Result<Self> {
        let resumed = Some(ArchiveReader::new(Box::new(reader)));
        Self::with_workers(world, control, resumed, all_users_here())
    }

    /// Starts a simulation, or resumes it from a checkpoint.
    ///
    /// # Errors
    /// As [`Self::restore`].
    pub fn resumed(
        world: impl Into<Arc<World>>,
        control: &RunControl,
        resumed: Option<ArchiveReader>,
    ) -> Result<Self> {
        Self::with_workers(world, control, resumed, all_users_here())
    }

    /// Starts a simulation, or resumes it from an archive, whose users are with these workers.
    ///
    /// # Errors
    /// As [`Self::restore`].
    pub(crate) fn with_workers(
        world: impl Into<Arc<World>>,
        control: &RunControl,
        resumed: Option<ArchiveReader>,
        workers: MakeWorkers,
    ) -> Result<Self> {
        let world = world.into();
        let (actors, started) = ActorThread::start(&world, control, resumed, workers)
            .map_err(|error| error.naming(|user| world.dataset.who(user)))?;
        let Started {
            baselines,
            rounds,
            is_settled,
            now,
            total,
        } = started;
        Ok(Self {
            world,
            actors,
            baselines,
            rounds,
            is_settled,
            now,
            round_is_open: false,
            stopped_by: None,
            way_on: None,
            spare: Vec::new(),
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
        self.actors
            .begin(async |actors| actors.network.keep_changes())?;
        Ok(())
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
        self.stopped_by.is_some()
            || self.is_settled
            || self.rounds >= self.world.scenario.training.rounds
    }

    /// Returns the reason why the simulation has stopped before its last round, if it has.
    pub fn stopped_by(&self) -> Option<&Error> {
        self.stopped_by.as_ref()
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
        self.advance(None, observer)
    }

    /// Goes on until `until`, or until the simulation is over. `observer` gets every round that
    /// ends on the way; a list of records is an observer that collects them.
    ///
    /// # Errors
    /// As [`Self::step`].
    pub fn step_until(&mut self, until: Until, observer: &mut dyn RoundObserver) -> Result<()> {
        match until {
            Until::Time(time) => while self.advance(Some(time), observer)?.is_some() {},
            Until::Round(round) => {
                while self.rounds < round && self.advance(None, observer)?.is_some() {}
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
        let saved = self.actors.begin(async move |actors| {
            let mut write = |piece| pieces.send(piece).map_err(|_| Error::Interrupted);
            actors.network.save(&mut write).await
        })?;
        let mut written = Ok(());
        for piece in made {
            written = write(&piece);
            if written.is_err() {
                break;
            }
        }
        written.and(self.actors.answer(&saved)?)
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
        self.spare = Vec::new();
        if !self.is_over() {
            self.stopped_by = Some(Stop::Stopped { at: self.now }.into());
        }
        // After a stop within a round, the parameters of some users are lost with their trainings.
        let private_parameters = self.stopped_by.is_none();
        let Closed {
            unfinished,
            changes,
            outcome,
        } = self
            .actors
            .ask(async move |actors| actors.finish(private_parameters).await)?
            .map_err(|error| self.in_full(error))?;
        observer.server_changed(&changes);
        observer.happened(None, &unfinished);
        let stopped_by = self.stopped_by.take();
        let uploads_were_empty = self.uploads_were_empty(&outcome);
        let used_nothing = outcome.rounds.iter().all(|round| round.aggregated == 0);
        let learned_nothing = stopped_by.is_none()
            && self.world.placement.is_on_devices()
            && (uploads_were_empty || used_nothing);
        Ok(Outcome {
            baselines: std::mem::take(&mut self.baselines),
            stopped_by,
            learned_nothing,
            uploads_were_empty,
            ..outcome
        })
    }

    /// Returns whether updates were used that have blocks, and nothing travelled up but headers,
    /// positions and scalars.
    fn uploads_were_empty(&self, outcome: &Outcome) -> bool {
        let layouts = self.world.upload_layouts();
        let most = layouts.clone().map(|layout| layout.scalar_bytes()).max();
        let up = &outcome.bytes.up;
        layouts.clone().any(|layout| layout.values() > 0)
            && outcome.rounds.iter().any(|round| round.aggregated > 0)
            && up.values <= up.frames * most.unwrap_or(0) as u64
    }

    /// Returns the server's model.
    ///
    /// # Errors
    /// Defects of the simulator.
    pub fn model(&self) -> Result<Model> {
        self.actors
            .ask(async |actors| actors.server.ask(GetModel))?
    }

    /// Returns the item table that `user` keeps for itself, for studies of the method; `None` if
    /// its users keep none.
    ///
    /// # Errors
    /// [`Error::Usage`] for a user who is not there, or is in training, and defects of the
    /// simulator.
    pub fn personal_table(&self, user: UserId) -> Result<Option<PersonalTable>> {
        self.check_is_there(user)?;
        self.actors
            .ask(async move |actors| actors.workers.personal_table(user))?
            .map_err(|error| self.in_full(error))
    }

    /// Returns the vector that `user` keeps for itself; `None` if its users keep none.
    ///
    /// # Errors
    /// As [`Self::personal_table`].
    pub fn personal_vector(&self, user: UserId) -> Result<Option<PersonalVector>> {
        self.check_is_there(user)?;
        self.actors
            .ask(async move |actors| actors.workers.personal_vector(user))?
            .map_err(|error| self.in_full(error))
    }

    /// Returns the items that `user` trains on, and those that are held out, wherever its ratings
    /// are.
    ///
    /// # Errors
    /// [`Error::Usage`] for a user who is not there, and defects of the simulator.
    pub fn items_of(&self, user: UserId) -> Result<KeptItems> {
        self.check_is_there(user)?;
        self.actors
            .ask(async move |actors| actors.workers.items_of(user))?
            .map_err(|error| self.in_full(error))
    }

    /// Returns the `top` items that `user` would be shown now and that it has not rated in training
    /// or validation, the one with the highest score first; of equal scores, the item that comes
    /// first in the catalogue.
    ///
    /// # Errors
    /// [`Error::Usage`] for a user who is not there, or is in training, [`Error::Unscorable`] for
    /// scores that cannot be ranked, and defects of the simulator.
    pub fn recommend(&self, user: UserId, top: usize) -> Result<Vec<Recommended>> {
        let kept = self.not_recommended(user)?;
        best(self.scores(user)?, &kept, top).ok_or(Error::Unscorable {
            user: self.world.dataset.who(user),
            place: "a score".into(),
        })
    }

    /// Returns the score that each item of the catalogue has for `user` now, those that it has rated
    /// included.
    ///
    /// # Errors
    /// [`Error::Usage`] for a user who is not there, or is in training, and defects of the simulator.
    pub fn scores(&self, user: UserId) -> Result<Vec<f32>> {
        self.check_is_there(user)?;
        let now = self.now;
        self.actors
            .ask(async move |actors| {
                let (model, download) = actors.server.ask(GetScoring)?;
                actors.workers.scores(user, download, model, now).await
            })?
            .map_err(|error| self.in_full(error))
    }

    /// Returns the `top` items that popularity would show `user`, as [`Self::recommend`] does.
    ///
    /// # Errors
    /// [`Error::Usage`] for a user who is not there, and defects of the simulator.
    pub fn recommend_popular(&self, user: UserId, top: usize) -> Result<Vec<Recommended>> {
        let counts = self.world.dataset.popularity();
        let scores = counts.into_iter().map(|count| count as f32).collect();
        let shown = best(scores, &self.not_recommended(user)?, top);
        Ok(shown.unwrap_or_default())
    }

    /// Returns [`Self::items_of`] a user with those that it trains on by now, and those that come later.
    fn not_recommended(&self, user: UserId) -> Result<KeptItems> {
        let mut kept = self.items_of(user)?;
        if self.world.joins.is_some() {
            let known = self.world.known_at(self.now);
            let items = [known.train_items(user), known.absent_items()];
            kept.training.extend(items.concat());
        }
        Ok(kept)
    }

    fn check_is_there(&self, user: UserId) -> Result<()> {
        let dataset = &self.world.dataset;
        if user.index() < dataset.users() {
            return Ok(());
        }
        let [first, last] = [0, dataset.users() - 1].map(|user| dataset.who(user.into()));
        Err(Error::Usage(format!(
            "there is no {user}: the first is {first}, the last {last}"
        )))
    }

    /// Replaces the server's model by `model`. The result digest is marked with it, so that it
    /// differs from that of every run without such a change.
    ///
    /// # Errors
    /// [`Error::Usage`] in the middle of a round or after a stop, and for a model of other blocks
    /// or with a value that is not finite.
    pub fn set_model(&mut self, model: Model) -> Result<()> {
        self.check_is_between_rounds("given another model")?;
        if model.layout() != self.world.method.initial().layout() {
            return Err(Error::Usage(
                "the model has other blocks than the method's".to_owned(),
            ));
        }
        let values = model.tables().flat_map(|(_, table)| table.as_slice());
        if let Some(value) = values.into_iter().find(|value| !value.is_finite()) {
            return Err(Error::Usage(format!(
                "the model has a value that is not finite: {value}"
            )));
        }
        self.actors
            .ask(async move |actors| actors.set_model(model).await)?
    }

    /// Takes in what to do if the simulation is stopped by the loss of another process, or has
    /// been.
    pub(super) fn know_way_on(&mut self, way_on: Option<String>) {
        self.way_on = way_on;
        self.stopped_by = self.stopped_by.take().map(|error| self.in_full(error));
    }

    /// Returns an error with the name of its user, and with what to do if it is the loss of another
    /// process.
    fn in_full(&self, error: Error) -> Error {
        let error = error.naming(|user| self.world.dataset.who(user));
        Stop::with_way_on(error, self.way_on.as_deref())
    }

    fn advance(
        &mut self,
        until: Option<SimTime>,
        observer: &mut dyn RoundObserver,
    ) -> Result<Option<RoundRecord>> {
        // At an instant that has passed nothing happens any more, and no round is opened.
        if self.is_over() || until.is_some_and(|until| until < self.now) {
            return Ok(None);
        }
        // The next bookings use the memory of the last ones, since a round of a million users has
        // hundreds of megabytes of them.
        let spare = std::mem::take(&mut self.spare);
        let (happened, heard) = mpsc::channel();
        let advanced = self
            .actors
            .begin(async move |actors| actors.advance(until, spare, happened).await)?;
        heard
            .into_iter()
            .for_each(|bookings| observer.happened(None, &bookings));
        let Advanced {
            round,
            now,
            changes,
        } = self.actors.answer(&advanced)?;
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
                is_settled,
            })) => {
                self.is_settled = is_settled;
                observer.happened(Some(span), &bookings);
                (self.spare, self.total) = (bookings, total);
                match record {
                    Ok(record) => {
                        (self.rounds, self.round_is_open) = (record.round, false);
                        observer.round_finished(&record, total);
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
        let error = self.in_full(error);
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
}
