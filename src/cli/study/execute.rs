//! Starts the runs of a study, as many beside each other as threads and memory allow, and watches
//! them to their ends.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use super::OpenStudy;
use super::carrier::{Carrier, End, Start};
use super::fit::refuse_what_does_not_fit;
use super::folder::{ToDo, arms_of, log_of, note_failure};
use super::limits::{Limits, Taken};
use super::progress::StudyProgress;
use crate::cli::args::StudyRunsArgs;
use crate::cli::inputs::threads_of;
use crate::cli::{Session, memory};
use crate::{Bytes, Error, Result};
use fedrecsim_report::study::{RunId, StudyRecord};

/// The time that a run takes beside its rounds, to start, read the ratings and write its report: the
/// least of the runs of this repository's studies.
const BESIDE_ROUNDS_S: f64 = 0.2;

/// The time between two looks at the runs.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A run that waits for its turn.
struct Waiting {
    id: RunId,
    name: String,
    start: Start,
    memory_bytes: u64,
    /// Its weight in the progress over all runs: its expected seconds, or its rounds.
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
pub(super) fn execute(
    work: &OpenStudy,
    record: &mut StudyRecord,
    wanted: Vec<RunId>,
) -> Result<()> {
    let (arguments, session) = (work.arguments, work.session);
    let left = work.left_of(&wanted)?;
    let arms = arms_of(left.iter().map(|(run, _)| run));
    let threads = threads_of(arguments.threads);
    let jobs = arguments.jobs.map_or(threads, usize::from);
    let budget_bytes = budget(arguments);
    let mut limits = Limits {
        runs: jobs,
        threads,
        memory_bytes: budget_bytes.unwrap_or(u64::MAX),
        by_length: false,
    };
    let program = match session.tell {
        None => program(work)?,
        Some(_) => Vec::new(),
    };
    let threads_of_a_run = budget_bytes.map(|_| limits.least_threads());
    work.estimate(record, &arms, threads_of_a_run)?;
    if let Some(budget_bytes) = budget_bytes {
        refuse_what_does_not_fit(record, &arms, budget_bytes)?;
        work.write_record(record)?;
    }
    if !left.is_empty() {
        session.note(&announcement(work, record, &arms, left.len()));
    }
    let has_times = arms.iter().all(|arm| record.arms[*arm].round_s.is_some());
    // A command of `--launch` may have reserved a number of cores for each run, so that all have
    // the same number of threads.
    limits.by_length = has_times && arguments.launch.is_none();
    let queued = |(run, state)| waiting(work, record, has_times, run, state);
    let mut waiting: Vec<Waiting> = left.into_iter().map(queued).collect();
    if has_times && jobs > 1 {
        // The longest run begins first, since threads would be idle if it were the last one.
        waiting.sort_by(|one, other| other.weight.total_cmp(&one.weight));
    }
    let weights = waiting.iter().map(|run| run.weight).sum();
    let at_once = jobs.min(waiting.len()).max(1);
    let pace_s = has_times.then(|| 1.0 / at_once as f64);
    let work_of_all = (weights, pace_s);
    let mut progress = StudyProgress::new(waiting.len(), work_of_all, arguments.progress, session);
    if work.is_search {
        progress.hide_results();
    }
    carry_on(work, waiting.into(), limits, &program, progress)
}

/// Returns how many runs there are to do and what they are expected to take, in words.
fn announcement(work: &OpenStudy, record: &StudyRecord, arms: &[usize], runs: usize) -> String {
    let needed = arms.iter().filter_map(|arm| record.arms[*arm].memory_bytes);
    let memory = needed.max().map_or(String::new(), |bytes| {
        format!("; the largest needs {} of memory", Bytes::new(bytes))
    });
    let (title, all) = (&work.plan.study.title, work.plan.runs(None).len());
    format!("{title}: {runs} of {all} runs to do{memory}")
}

/// Returns the words that start a run's process: those of `--launch`, then those of this program.
fn program(work: &OpenStudy) -> Result<Vec<OsString>> {
    let mut words = Vec::new();
    if let Some(text) = &work.arguments.launch {
        let before = shlex::split(text).filter(|words| !words.is_empty());
        let before = before.ok_or_else(|| {
            Error::Usage(format!(
                "--launch {text}: expected a command; a quotation mark may be missing"
            ))
        })?;
        words.extend(before.into_iter().map(OsString::from));
    }
    words.extend(own_words(work.session)?);
    Ok(words)
}

/// Returns the words that start this program; there are several where an interpreter runs it.
///
/// # Errors
/// [`Error::Usage`] if the program's own file is to start it, and the system does not say which one
/// that is.
pub(super) fn own_words(session: &Session) -> Result<Vec<OsString>> {
    if !session.itself.is_empty() {
        return Ok(session.itself.clone());
    }
    let own = std::env::current_exe().map_err(|reason| {
        Error::Usage(format!(
            "the program cannot find its own executable: {reason}"
        ))
    })?;
    Ok(vec![own.into()])
}

/// Returns the memory that all runs together may have; `None` if nobody knows, as when another
/// command starts them, perhaps on another machine.
fn budget(arguments: &StudyRunsArgs) -> Option<u64> {
    match (arguments.memory, &arguments.launch) {
        (Some(gigabytes), _) => Some((gigabytes * 1e9) as u64),
        (None, Some(_)) => None,
        (None, None) => memory::free_bytes(),
    }
}

fn waiting(
    work: &OpenStudy,
    record: &StudyRecord,
    has_times: bool,
    run: RunId,
    to_do: ToDo,
) -> Waiting {
    let known = &record.arms[run.arm];
    let rounds = work.plan.arms[run.arm].scenario.training.rounds;
    let serial = known.serial_s.zip(known.round_s);
    Waiting {
        id: run,
        name: work.plan.name(run),
        // The number of threads is decided when the run starts.
        start: Start {
            known_bytes: known.memory_bytes,
            ..work.start(run, to_do, 1)
        },
        memory_bytes: known.memory_bytes.unwrap_or(0),
        // Weights are comparable only if all arms have an estimate.
        weight: match known.round_s.filter(|_| has_times) {
            Some(round_s) => f64::from(rounds) * round_s + BESIDE_ROUNDS_S,
            None => f64::from(rounds),
        },
        serial_share: serial.map_or(0.0, |(serial, round)| serial / round),
    }
}

/// Starts runs as others end, until none is left, or until all are told to stop. A run that another
/// process is working on waits for the end of that process.
fn carry_on(
    work: &OpenStudy,
    mut waiting: VecDeque<Waiting>,
    limits: Limits,
    program: &[OsString],
    mut progress: StudyProgress<'_>,
) -> Result<()> {
    let session = work.session;
    let (mut running, mut held): (Vec<Running>, Vec<Waiting>) = (Vec::new(), Vec::new());
    let (mut told, mut unstarted) = (false, None);
    let is_at_work = |run: &Waiting| work.is_at_work(run.id);
    while !(waiting.is_empty() && running.is_empty() && held.is_empty()) {
        if (session.is_interrupted() || unstarted.is_some()) && !told {
            waiting.clear();
            held.clear();
            running.iter().for_each(|run| run.carrier.tell_to_stop());
            told = true;
        }
        let under_way = running.iter().map(|running| &running.run);
        let shares = under_way.clone();
        let taken = Taken::by(shares.map(|run| (run.start.threads, run.memory_bytes)));
        let unfinished = waiting.iter().chain(&held).chain(under_way);
        let left: f64 = unfinished.map(|run| run.weight).sum();
        let next = limits.next(waiting.iter().map(|run| run.memory_bytes), taken);
        if let Some(mut run) = next.and_then(|place| waiting.remove(place)) {
            run.start.threads = limits.threads_for((run.weight / left, run.serial_share), taken);
            if is_at_work(&run) {
                session.note(&format!(
                    "{}: a process of an earlier study is still at work on it; waiting for its end",
                    run.name
                ));
                held.push(run);
                continue;
            }
            // The task may have changed, since another process may have been at work on it.
            run.start.to_do = work.to_do(run.id)?;
            if run.start.to_do == ToDo::Nothing {
                let folder = &run.start.folder;
                progress.ended(&run.name, folder, run.weight, Duration::ZERO, &End::Done);
                continue;
            }
            let started = match session.tell {
                None => run.start.process(program),
                Some(_) => run.start.thread(session.methods),
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
        let under_way = running.iter().map(|running| &running.run);
        progress.look(under_way.map(|run| (log_of(&run.start.folder), run.weight)));
        std::thread::sleep(LOOK_EVERY);
    }
    progress.finish();
    unstarted.map_or(Ok(()), Err)
}

/// Tells of a run that has ended, and notes why it failed if it did. One that was told to stop has
/// not failed.
fn end(run: &Running, how: &End, progress: &mut StudyProgress<'_>) -> Result<()> {
    let Running { run, began, .. } = run;
    let folder = &run.start.folder;
    if let End::Failed(reason) = how {
        note_failure(folder, reason)?;
    }
    let anew = match run.start.to_do {
        ToDo::BeginAnew => " (begun anew, as another build of the program left its checkpoint)",
        _ => "",
    };
    let name = format!("{}{anew}", run.name);
    progress.ended(&name, folder, run.weight, began.elapsed(), how);
    Ok(())
}
