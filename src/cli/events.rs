//! Carries out `events` and `replay`, which run a scenario to see what happens on links and
//! devices.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

#[cfg(not(feature = "parquet"))]
use super::args::check_parquet;
use super::args::{EventFormat, EventsArgs, InputArgs, ReplayArgs};
use super::inputs::threads_of;
use super::output_file::OutputFile;
use super::task::Task;
use super::{Finished, Session};
use crate::sim::{RoundObserver, RunControl, Simulation, Stop, Until};
use crate::{Error, Result};
use fedrecsim_core::{SimDuration, SimTime};
use fedrecsim_report::events::{EventLog, Form, Reached, State, Timeline};
use fedrecsim_scenario::Strictness;
use fedrecsim_sim::outcome::{Booking, ByDirection, Flow, GaugesSince, RoundRecord, RoundSpan};

type Sink = Box<dyn Write + Send>;

/// Runs a scenario and writes what happens on links and devices to a file, or to standard output,
/// as it goes on. The file has a temporary name until it is whole.
///
/// When the session is interrupted the run stops; what is written by then is left whole.
///
/// # Errors
/// Returns every error that keeps the run from starting, and that of a file that cannot be written.
/// A run that stops early is no error here.
pub(crate) fn events(arguments: &EventsArgs, session: &Session) -> Result<Finished> {
    let task = begin(&arguments.input, session)?;
    let (scenario, from) = (&task.scenario, arguments.from_round);
    let rounds = scenario.training.rounds;
    let by_default = match arguments.format {
        EventFormat::Svg => from,
        _ => rounds,
    };
    let last = arguments.to_round.unwrap_or(by_default);
    let refuse = |text: String| Err(Error::Usage(text));
    if from > rounds {
        return refuse(format!(
            "--from-round {from}: the scenario has {rounds} rounds"
        ));
    }
    if last < from {
        return refuse(format!("--to-round {last} is before --from-round {from}"));
    }
    let form = match arguments.format {
        EventFormat::Jsonl => Form::Lines,
        EventFormat::Trace => Form::Trace,
        EventFormat::Svg => Form::Picture(Timeline::of(scenario, &arguments.input.set)),
        #[cfg(feature = "parquet")]
        EventFormat::Parquet => Form::Table(Box::default()),
        #[cfg(not(feature = "parquet"))]
        EventFormat::Parquet => return check_parquet().map(|()| Finished::default()),
    };
    let (file, sink, place): (_, Sink, _) = match &arguments.out {
        Some(path) => {
            // The lines tell when each user takes part, and with how many bytes.
            let (file, sink) = OutputFile::create(path, arguments.overwrite, true)?;
            (Some(file), Box::new(sink), path.as_path())
        }
        None => (None, Box::new(io::stdout()), Path::new("standard output")),
    };
    let unwritten = |error| Error::write(place, error);
    let mut simulation = simulation(&task, &arguments.input, session)?;
    let dataset = Arc::clone(&simulation.world().dataset);
    let who = move |user| dataset.who(user);
    let mut log = Log {
        log: EventLog::begin(BufWriter::new(sink), form, from..=last, who).map_err(unwritten)?,
        failure: None,
    };
    if log.log.shows_the_server() {
        simulation.watch_server()?;
    }
    while !log.is_done() && simulation.step_watched(&mut log)?.is_some() {}
    let outcome = simulation.finish_watched(&mut log)?;
    let Log { log, failure } = log;
    let complete = log.is_complete();
    match failure.map_or_else(|| log.finish().map(drop), Err) {
        // A reader that takes only the first lines and closes the pipe has what it wants.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe && file.is_none() => {
            return Ok(Finished::default());
        }
        written => written.map_err(unwritten)?,
    }
    file.map_or(Ok(()), OutputFile::publish)?;
    // A run that is stopped because nothing that is asked for can come any more is stopped on
    // purpose.
    let is_meant =
        |error: &Error| complete && matches!(error.ended_by(), Some(Stop::Stopped { .. }));
    let stopped_by = outcome.stopped_by.filter(|error| !is_meant(error));
    Ok(stopped_by.map_or_else(Finished::default, Finished::from))
}

/// Runs a scenario up to an instant of virtual time and prints its state there.
///
/// # Errors
/// Returns every error that keeps the run from starting.
pub(crate) fn replay(arguments: &ReplayArgs, session: &Session) -> Result<Finished> {
    let task = begin(&arguments.input, session)?;
    let mut watch = StateWatch(State::default());
    let until = SimTime::ZERO + SimDuration::from_secs_f64(arguments.until_s);
    let mut simulation = simulation(&task, &arguments.input, session)?;
    let dataset = Arc::clone(&simulation.world().dataset);
    simulation.step_until(Until::Time(until), &mut watch)?;
    let (reached, error) = match simulation.finish_watched(&mut watch)?.stopped_by {
        None => (Reached::LastRound, None),
        Some(Error::Interrupted) => return Ok(Error::Interrupted.into()),
        Some(error) if matches!(error.ended_by(), Some(Stop::Stopped { .. })) => {
            (Reached::Instant, None)
        }
        Some(error) => (Reached::Failure, Some(error)),
    };
    Ok(Finished {
        errors: error.into_iter().collect(),
        ..watch
            .0
            .describe(&task.scenario, until, reached, |user| dataset.who(user))
            .into()
    })
}

/// Loads the scenario with as few evaluations as possible, that of one user after the last round:
/// these commands do not report accuracy, and an evaluation takes no virtual time.
fn begin(input: &InputArgs, session: &Session) -> Result<Task> {
    session.listen()?;
    let mut task = Task::of(input, Strictness::Lenient, session)?;
    task.warnings.iter().for_each(|text| session.warn(text));
    let evaluation = &mut task.scenario.evaluation;
    (evaluation.every_rounds, evaluation.users) = (task.scenario.training.rounds, 1);
    task.placed = task.scenario.clone();
    Ok(task)
}

/// Reads what the scenario needs, and starts the simulation.
fn simulation(task: &Task, input: &InputArgs, session: &Session) -> Result<Simulation> {
    let world = task.inputs(None, session.methods)?.world;
    let control = RunControl {
        threads: threads_of(input.threads),
        interrupted: Arc::clone(&session.interrupted),
    };
    Simulation::new(world, &control)
}

struct Log {
    log: EventLog<BufWriter<Sink>>,
    failure: Option<io::Error>,
}

impl Log {
    /// Returns whether nothing more is to be written, because the log is complete or cannot be
    /// written.
    fn is_done(&self) -> bool {
        self.failure.is_some() || self.log.is_complete()
    }
}

/// Writes what happens to the log.
impl RoundObserver for Log {
    fn round_finished(&mut self, _round: &RoundRecord, _total: ByDirection<Flow>) {}

    fn happened(&mut self, round: Option<RoundSpan>, bookings: &[Booking]) {
        if self.failure.is_none() {
            self.failure = self.log.take(round, bookings).err();
        }
    }

    fn server_changed(&mut self, changes: &[GaugesSince]) {
        if self.failure.is_none() {
            self.failure = self.log.take_changes(changes).err();
        }
    }
}

/// Follows the events to know the state.
struct StateWatch(State);

impl RoundObserver for StateWatch {
    fn round_finished(&mut self, _round: &RoundRecord, _total: ByDirection<Flow>) {}

    fn happened(&mut self, round: Option<RoundSpan>, bookings: &[Booking]) {
        self.0.take(round, bookings);
    }
}
