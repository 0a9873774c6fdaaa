//! Starts the runs of a study, as many beside each other as threads and memory allow, and watches
//! them to their ends.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use super::carrier::{Carrier, End, How, Start};
use super::fit::Rehearsal;
use super::folder::{ToDo, log_of, note_failure};
use super::limits::{Limits, Taken};
use super::progress::{Ended, StudyProgress};
use super::{Work, start};
use crate::cli::inputs::threads_of;
use crate::cli::{StudyArgs, memory};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_report::study::plan::RunId;

/// The time between two looks at the runs.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A run that waits for its turn.
struct Waiting {
    id: RunId,
    name: String,
    start: Start,
    memory_bytes: u64,
    /// What it counts in the progress over all runs: the seconds that it is expected to take, or
    /// its rounds.
    weight: f64,
    /// The share of that time that more threads may not shorten.
    serial_share: f64,
}

/// A run that is under way.
struct Running {
    run: Waiting,
    carrier: Carrier,
    began: Instant,
}

/// Runs those of the `wanted` runs that are still to be done, and notes in the record what their
/// arms need.
///
/// # Errors
/// What keeps the study from starting, and a process or a thread that cannot be started. Runs that
/// fail are no error.
pub(super) fn execute(work: &mut Work, wanted: Vec<RunId>, how: How<'_>) -> Result<()> {
    let arguments = work.arguments;
    let mut to_do = Vec::new();
    for run in wanted {
        let state = work.folder.to_do(&work.plan, run)?;
        if state != ToDo::Nothing {
            to_do.push((run, state));
        }
    }
    let mut arms: Vec<usize> = to_do.iter().map(|(run, _)| run.arm).collect();
    arms.dedup();
    let threads = threads_of(arguments.threads);
    let jobs = arguments.jobs.map_or(threads, usize::from);
    let budget_bytes = budget(arguments);
    let mut limits = Limits {
        runs: jobs,
        threads,
        memory_bytes: budget_bytes.unwrap_or(u64::MAX),
        by_length: false,
    };
    let program = match how {
        How::Processes { .. } => program(arguments)?,
        How::Threads { .. } => Vec::new(),
    };
    let rehearsal = budget_bytes.is_some().then(|| match how {
        How::Processes { .. } => Rehearsal {
            threads: limits.least_threads(),
            beside_bytes: 0,
        },
        How::Threads { .. } => Rehearsal::in_any_process(limits.least_threads()),
    });
    work.estimate(&arms, rehearsal)?;
    if let Some(budget_bytes) = budget_bytes {
        work.refuse_what_does_not_fit(&arms, budget_bytes)?;
        work.folder.write_record(&work.record)?;
    }
    if !to_do.is_empty() {
        how.note(&work.announcement(&arms, to_do.len()));
    }
    let round_s = |arm: &usize| work.record.arms[*arm].round_s;
    let has_times = arms.iter().all(|arm| round_s(arm).is_some());
    // A command of `--launch` may have reserved a number of cores for each run, so that all have
    // the same number of threads.
    limits.by_length = has_times && arguments.launch.is_none();
    let queued = |(run, state)| waiting(work, has_times, run, state);
    let mut waiting: Vec<Waiting> = to_do.into_iter().map(queued).collect();
    if has_times && jobs > 1 {
        // The longest run begins first, since threads would be idle if it were the last one.
        waiting.sort_by(|one, other| other.weight.total_cmp(&one.weight));
    }
    let weights: f64 = waiting.iter().map(|run| run.weight).sum();
    let progress = StudyProgress::new(waiting.len(), weights, arguments.progress, how);
    carry_on(work, waiting.into(), limits, (&program, how), progress)
}

/// Returns the words that start a run's process: those of `--launch`, then those of this program.
fn program(arguments: &StudyArgs) -> Result<Vec<OsString>> {
    let before = match &arguments.launch {
        None => Vec::new(),
        Some(text) => shlex::split(text)
            .filter(|words| !words.is_empty())
            .ok_or_else(|| {
                Error::Usage(format!(
                    "--launch {text}: expected a command; a quotation mark may be missing"
                ))
            })?,
    };
    let mut words: Vec<OsString> = before.into_iter().map(OsString::from).collect();
    words.extend(own_words(arguments)?);
    Ok(words)
}

/// Returns the words that start this program, of which there are several where an interpreter runs
/// it.
///
/// # Errors
/// [`Error::Usage`] if the program's own file is to start it, and the system does not say which one
/// that is.
pub(super) fn own_words(arguments: &StudyArgs) -> Result<Vec<OsString>> {
    if !arguments.program.is_empty() {
        return Ok(arguments.program.clone());
    }
    let own = std::env::current_exe().map_err(|reason| {
        Error::Usage(format!("the program does not know where it is: {reason}"))
    })?;
    Ok(vec![own.into()])
}

/// Returns the memory that all runs together may have; `None` if nobody knows, as when another
/// command starts them, perhaps on another machine.
fn budget(arguments: &StudyArgs) -> Option<u64> {
    match (arguments.memory, &arguments.launch) {
        (Some(gigabytes), _) => Some((gigabytes * 1e9) as u64),
        (None, Some(_)) => None,
        (None, None) => memory::free_bytes(),
    }
}

fn waiting(work: &Work, has_times: bool, run: RunId, to_do: ToDo) -> Waiting {
    let known = &work.record.arms[run.arm];
    let rounds = work.plan.arms[run.arm].scenario.training.rounds;
    let serial = known.serial_s.zip(known.round_s);
    Waiting {
        id: run,
        name: work.plan.name(run),
        // The number of threads is decided when the run starts.
        start: start(work.arguments, &work.plan, &work.folder, run, to_do, 1),
        memory_bytes: known.memory_bytes.unwrap_or(0),
        // Weights are comparable only if all arms have an estimate.
        weight: f64::from(rounds) * known.round_s.filter(|_| has_times).unwrap_or(1.0),
        serial_share: serial.map_or(0.0, |(serial, round)| serial / round),
    }
}

/// Starts runs as others end, until none is left, or until all are told to stop. A run on which
/// another process is at work waits for the end of that.
fn carry_on(
    work: &Work,
    mut waiting: VecDeque<Waiting>,
    limits: Limits,
    (program, how): (&[OsString], How<'_>),
    mut progress: StudyProgress<'_>,
) -> Result<()> {
    let (mut running, mut held): (Vec<Running>, Vec<Waiting>) = (Vec::new(), Vec::new());
    let (mut told, mut unstarted) = (false, None);
    let is_at_work = |run: &Waiting| work.folder.is_at_work(&work.plan, run.id);
    while !(waiting.is_empty() && running.is_empty() && held.is_empty()) {
        if (work.session.is_interrupted() || unstarted.is_some()) && !told {
            waiting.clear();
            held.clear();
            running.iter().for_each(|run| run.carrier.tell_to_stop());
            told = true;
        }
        let taken = Taken::by(
            running
                .iter()
                .map(|Running { run, .. }| (run.start.threads, run.memory_bytes)),
        );
        let under_way = running.iter().map(|running| &running.run);
        let unfinished = waiting.iter().chain(&held).chain(under_way);
        let left: f64 = unfinished.map(|run| run.weight).sum();
        let next = limits.next(waiting.iter().map(|run| run.memory_bytes), taken);
        if let Some(mut run) = next.and_then(|place| waiting.remove(place)) {
            run.start.threads = limits.threads_for((run.weight / left, run.serial_share), taken);
            if is_at_work(&run) {
                how.note(&format!(
                    "{}: a process of an earlier study is still at work on it; waiting for its end",
                    run.name
                ));
                held.push(run);
                continue;
            }
            // What is to be done may have changed, as another process may have been at work on it.
            run.start.to_do = work.folder.to_do(&work.plan, run.id)?;
            if run.start.to_do == ToDo::Nothing {
                let done = Ended::Done(&run.start.folder);
                progress.ended(&run.name, run.weight, Duration::ZERO, done);
                continue;
            }
            let started = match how {
                How::Processes { .. } => run.start.process(program),
                How::Threads { .. } => run.start.thread(work.session.methods),
            };
            match started {
                Ok(carrier) => running.push(Running {
                    run,
                    carrier,
                    began: Instant::now(),
                }),
                // The others are told to stop, and keep what they have.
                Err(error) => unstarted = Some(error),
            }
            continue;
        }
        let mut still = Vec::new();
        for mut run in running {
            match run.carrier.ended(&run.run.start.folder, told) {
                None => still.push(run),
                Some(how) => end(&run, &how, &mut progress)?,
            }
        }
        running = still;
        let (still_held, free): (Vec<Waiting>, _) = held.into_iter().partition(is_at_work);
        held = still_held;
        waiting.extend(free);
        progress.look(
            running
                .iter()
                .map(|running| (log_of(&running.run.start.folder), running.run.weight)),
        );
        std::thread::sleep(LOOK_EVERY);
    }
    progress.finish();
    unstarted.map_or(Ok(()), Err)
}

/// Tells of a run that has ended, and notes why it failed if it did. One that was told to stop has
/// not failed.
fn end(run: &Running, how: &End, progress: &mut StudyProgress<'_>) -> Result<()> {
    let folder = &run.run.start.folder;
    let outcome = match how {
        End::Done => Ended::Done(folder),
        End::Stopped => Ended::Stopped,
        End::Failed(reason) => {
            note_failure(folder, reason)?;
            Ended::Failed(reason)
        }
    };
    let anew = (run.run.start.to_do == ToDo::BeginAnew)
        .then_some(" (begun anew, as another build of the program left its checkpoint)");
    let name = format!("{}{}", run.run.name, anew.unwrap_or_default());
    progress.ended(&name, run.run.weight, run.began.elapsed(), outcome);
    Ok(())
}
