//! Carries out `events` and `replay`, which run a scenario to see what happens on links and
//! devices.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::Finished;
use super::args::{EventFormat, EventsArgs, InputArgs, ReplayArgs};
use super::inputs::{Inputs, data_directories, threads_of};
use super::messages::warn;
use super::output_file::OutputFile;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::units::{SimDuration, SimTime};
use fedrecsim_methods::method::Entry;
use fedrecsim_methods::method::registry::vocabulary_of;
use fedrecsim_report::report::events::state::{Reached, State};
use fedrecsim_report::report::events::timeline::Timeline;
use fedrecsim_report::report::events::{EventLog, Form};
use fedrecsim_report::report::{overrides, setup};
use fedrecsim_scenario::scenario::Policy;
use fedrecsim_scenario::scenario::{self, Loaded, Scenario, Strictness};
use fedrecsim_sim::sim::outcome::events::{Booking, RoundSpan};
use fedrecsim_sim::sim::outcome::network::GaugesSince;
use fedrecsim_sim::sim::outcome::{ByDirection, Flow, RoundRecord};
use fedrecsim_sim::sim::{RoundObserver, RunControl, Simulation, Until, World};

type Sink = Box<dyn Write + Send>;

/// Runs a scenario and writes what happens on links and devices to a file, or to standard output,
/// as it goes on. The file has a temporary name until it is whole.
///
/// When `interrupted` is set the run stops; what is written by then is left whole.
///
/// # Errors
/// Returns every error that keeps the run from starting, and that of a file that cannot be written.
/// A run that stops early is no error here.
pub fn events(
    arguments: &EventsArgs,
    methods: &[Entry],
    interrupted: Arc<AtomicBool>,
) -> Result<Finished> {
    let scenario = load(&arguments.input, methods)?;
    let rounds = scenario.training.rounds;
    if arguments.from_round > rounds {
        return Err(Error::Usage(format!(
            "--from-round {}: the scenario has {rounds} rounds",
            arguments.from_round
        )));
    }
    let last = match (arguments.to_round, arguments.format) {
        (Some(last), _) => last,
        (None, EventFormat::Svg) => arguments.from_round,
        (None, _) => rounds,
    };
    if last < arguments.from_round {
        return Err(Error::Usage(format!(
            "--to-round {last} is before --from-round {}",
            arguments.from_round
        )));
    }
    let world = world_of(&scenario, &arguments.input, methods)?;
    let form = match arguments.format {
        EventFormat::Jsonl => Form::Lines,
        EventFormat::Trace => Form::Trace,
        EventFormat::Svg => Form::Picture(timeline(&scenario, &arguments.input)),
        #[cfg(feature = "parquet")]
        EventFormat::Parquet => Form::Table(Box::default()),
    };
    let place = arguments
        .out
        .as_deref()
        .unwrap_or(Path::new("standard output"));
    let output = arguments
        .out
        .as_ref()
        .map(|path| OutputFile::create(path, arguments.overwrite))
        .transpose()?;
    let (file, sink): (Option<OutputFile>, Sink) = match output {
        Some((file, sink)) => (Some(file), Box::new(sink)),
        None => (None, Box::new(io::stdout())),
    };
    let log = EventLog::begin(BufWriter::new(sink), form, arguments.from_round..=last);
    let mut log = Log {
        log: log.map_err(|error| Error::write(place, error))?,
        failure: None,
    };
    let control = RunControl {
        threads: threads_of(arguments.input.threads),
        interrupted,
    };
    let mut simulation = Simulation::new(world, &control)?;
    if log.log.shows_the_server() {
        simulation.watch_server()?;
    }
    while !log.is_done() && simulation.step_watched(&mut log)?.is_some() {}
    let outcome = simulation.finish_watched(&mut log)?;
    let Log { log, failure } = log;
    let complete = log.is_complete();
    match failure.map_or_else(|| log.finish().map(drop), Err) {
        // A reader that takes only the first lines and closes the pipe has what it wants.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe && arguments.out.is_none() => {
            return Ok(Finished::default());
        }
        written => written.map_err(|error| Error::write(place, error))?,
    }
    file.map_or(Ok(()), OutputFile::publish)?;
    // A run that is stopped because nothing that is asked for can come any more is stopped on
    // purpose.
    let stopped_by = outcome
        .stopped_by
        .filter(|error| !(complete && matches!(error, Error::Stopped { .. })));
    Ok(Finished {
        stopped_by,
        ..Finished::default()
    })
}

/// Runs a scenario up to an instant of virtual time and prints its state there.
///
/// # Errors
/// Returns every error that keeps the run from starting.
pub fn replay(
    arguments: &ReplayArgs,
    methods: &[Entry],
    interrupted: Arc<AtomicBool>,
) -> Result<Finished> {
    let scenario = load(&arguments.input, methods)?;
    let world = world_of(&scenario, &arguments.input, methods)?;
    let mut watch = StateWatch(State::default());
    let until = SimTime::ZERO + SimDuration::from_secs_f64(arguments.until_s);
    let control = RunControl {
        threads: threads_of(arguments.input.threads),
        interrupted,
    };
    let mut simulation = Simulation::new(world, &control)?;
    simulation.step_until(Until::Time(until), &mut watch)?;
    let stopped_by = simulation.finish_watched(&mut watch)?.stopped_by;
    if let Some(Error::Interrupted) = stopped_by {
        return Ok(Finished {
            stopped_by,
            ..Finished::default()
        });
    }
    let reached = match &stopped_by {
        None => Reached::LastRound,
        Some(Error::Stopped { .. }) => Reached::Instant,
        Some(_) => Reached::Failure,
    };
    let output = watch.0.describe(&scenario, until, reached);
    let stopped_by = stopped_by.filter(|error| !matches!(error, Error::Stopped { .. }));
    Ok(Finished {
        output,
        stopped_by,
        mismatch: None,
    })
}

/// Loads the scenario with as few evaluations as possible, that of one user after the last round:
/// these commands do not report accuracy, and an evaluation takes no virtual time.
fn load(input: &InputArgs, methods: &[Entry]) -> Result<Scenario> {
    let vocabulary = vocabulary_of(methods);
    let Loaded {
        mut scenario,
        warnings,
    } = scenario::load_with_warnings(
        &input.scenario,
        &input.overrides(),
        &vocabulary,
        Strictness::Lenient,
    )?;
    warnings.iter().for_each(|text| warn(text));
    scenario.evaluation.every_rounds = scenario.training.rounds;
    scenario.evaluation.users = 1;
    Ok(scenario)
}

fn world_of(scenario: &Scenario, input: &InputArgs, methods: &[Entry]) -> Result<Arc<World>> {
    Ok(Inputs::load(
        scenario,
        &data_directories(input.data_dir.as_deref()),
        methods,
    )?
    .world)
}

fn timeline(scenario: &Scenario, input: &InputArgs) -> Timeline {
    let policy = Policy::of(&scenario.training.mode);
    Timeline {
        title: format!(
            "{}: {}, seed {}",
            scenario.name, scenario.method.name, scenario.seed
        ),
        mode: setup::rounds(&policy, &scenario.training),
        overrides: overrides::sentence(&input.set, scenario.training.rounds),
        deadline: policy.deadline,
        ..Timeline::default()
    }
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
