//! Starts the runs of a study, as many beside each other as threads and memory allow, and watches
//! them to their ends.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::carrier::{Carrier, End, Here, How, Starter};
use super::child::{Launcher, Start, note_failure};
use super::fit::{self, Rehearsal};
use super::folder::{StudyFolder, ToDo, log_of};
use super::limits::{Limits, Taken};
use super::progress::{Ended, StudyProgress};
use crate::cli::inputs::threads_of;
use crate::cli::{StudyArgs, memory};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_methods::method::Entry;
use fedrecsim_report::study::plan::{Plan, RunId};
use fedrecsim_report::study::record::StudyRecord;

/// The time between two looks at the runs.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The number of checkpoints that a run leaves if nothing else is asked for.
pub(super) const CHECKPOINTS: u32 = 10;

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

/// What is known of a run that is about to start.
enum Next {
    /// The run starts from its beginning.
    Start,
    /// A process of an earlier study is still at work on it.
    Held,
    /// Such a process has come to its end with it.
    Done,
}

/// Runs those of the `wanted` runs of `plan` that are still to be done, and notes what arms need in
/// `record`.
///
/// # Errors
/// What keeps the study from starting, and a process or a thread that cannot be started. Runs that
/// fail are no error.
pub(crate) fn execute(
    arguments: &StudyArgs,
    methods: &[Entry],
    (plan, wanted): (&Plan, Vec<RunId>),
    record: &mut StudyRecord,
    folder: &StudyFolder,
    interrupted: &Arc<AtomicBool>,
    how: How<'_>,
) -> Result<()> {
    let mut to_do = Vec::new();
    for run in wanted {
        let state = folder.to_do(plan, run)?;
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
    let starter = starter(arguments, methods, how)?;
    let rehearsal = budget_bytes.is_some().then(|| match how {
        How::Processes { .. } => Rehearsal {
            threads: limits.least_threads(),
            beside_bytes: 0,
        },
        How::Threads { .. } => Rehearsal::in_any_process(limits.least_threads()),
    });
    fit::estimate(
        arguments,
        methods,
        plan,
        &arms,
        rehearsal,
        record,
        interrupted,
    )?;
    if let Some(budget_bytes) = budget_bytes {
        fit::refuse_what_does_not_fit(plan, record, &arms, budget_bytes)?;
        folder.write_record(record)?;
    }
    if !to_do.is_empty() {
        how.note(&fit::announcement(plan, record, &arms, to_do.len()));
    }
    let has_times = arms.iter().all(|arm| record.arms[*arm].round_s.is_some());
    // A command of `--launch` may have reserved a number of cores for each run, so that all have
    // the same number of threads.
    limits.by_length = has_times && arguments.launch.is_none();
    let queued = |(run, state)| waiting(arguments, plan, (record, has_times), folder, run, state);
    let mut waiting: Vec<Waiting> = to_do.into_iter().map(queued).collect();
    if has_times && jobs > 1 {
        // The longest run begins first, since threads would be idle if it were the last one.
        waiting.sort_by(|one, other| other.weight.total_cmp(&one.weight));
    }
    let weights: f64 = waiting.iter().map(|run| run.weight).sum();
    let progress = StudyProgress::new(waiting.len(), weights, arguments.progress, how);
    carry_on(
        (plan, folder),
        waiting.into(),
        limits,
        (&starter, how),
        progress,
        interrupted,
    )
}

/// Returns what starts runs.
fn starter(arguments: &StudyArgs, methods: &[Entry], how: How<'_>) -> Result<Starter> {
    match how {
        How::Processes { .. } => launcher(arguments).map(Starter::Processes),
        How::Threads { .. } => Ok(Starter::Threads(Here {
            methods: methods.into(),
            data_dir: arguments.data_dir.clone(),
        })),
    }
}

/// Returns how processes are started.
fn launcher(arguments: &StudyArgs) -> Result<Launcher> {
    let mut before = match &arguments.launch {
        None => Vec::new(),
        Some(text) => shlex::split(text)
            .filter(|words| !words.is_empty())
            .ok_or_else(|| {
                Error::Usage(format!(
                    "--launch {text}: expected a command; a quotation mark may be missing"
                ))
            })?,
    };
    // A program that an interpreter runs is started by more words than one.
    let (program, others) = own_words(arguments)?;
    before.extend(
        others
            .iter()
            .map(|word| word.to_string_lossy().into_owned()),
    );
    Ok(Launcher {
        before,
        program,
        data_dir: arguments.data_dir.clone(),
    })
}

/// Returns the last word that starts this program, and those before it, of which there are some
/// where an interpreter runs it.
///
/// # Errors
/// [`Error::Usage`] if the program's own file is to start it, and the system does not say which one
/// that is.
pub(crate) fn own_words(arguments: &StudyArgs) -> Result<(PathBuf, &[OsString])> {
    if let Some((last, others)) = arguments.program.split_last() {
        return Ok((PathBuf::from(last), others));
    }
    let own = std::env::current_exe();
    let own = own.map_err(|reason| {
        Error::Usage(format!("the program does not know where it is: {reason}"))
    })?;
    Ok((own, &[]))
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

fn waiting(
    arguments: &StudyArgs,
    plan: &Plan,
    (record, has_times): (&StudyRecord, bool),
    folder: &StudyFolder,
    run: RunId,
    to_do: ToDo,
) -> Waiting {
    let (planned, known) = (&plan.arms[run.arm], &record.arms[run.arm]);
    let rounds = planned.scenario.training.rounds;
    let every = arguments
        .checkpoint_every
        .map_or(rounds.div_ceil(CHECKPOINTS), u32::from);
    let start = Start {
        folder: folder.run(plan, run),
        to_do,
        base: planned.arm.base.clone(),
        set: planned.arm.set.clone(),
        seed: run.seed,
        checkpoint_every: every.max(1),
        // Their number is decided when the run starts.
        threads: 1,
    };
    // Weights are comparable only if all arms have an estimate.
    let weight = f64::from(rounds) * known.round_s.filter(|_| has_times).unwrap_or(1.0);
    let serial_share = known
        .serial_s
        .zip(known.round_s)
        .map_or(0.0, |(serial, round)| serial / round);
    let memory_bytes = known.memory_bytes.unwrap_or(0);
    Waiting {
        id: run,
        name: plan.name(run),
        start,
        memory_bytes,
        weight,
        serial_share,
    }
}

/// Looks at a run once more before it starts: what is to be done may have changed, as another
/// process may have been at work on it.
///
/// # Errors
/// Those of [`StudyFolder::to_do`].
fn look_again((plan, folder): (&Plan, &StudyFolder), run: &mut Waiting) -> Result<Next> {
    if folder.is_at_work(plan, run.id) {
        return Ok(Next::Held);
    }
    run.start.to_do = folder.to_do(plan, run.id)?;
    Ok(if run.start.to_do == ToDo::Nothing {
        Next::Done
    } else {
        Next::Start
    })
}

/// Starts runs as others end, until none is left, or until all are told to stop. A run on which
/// another process is at work waits for the end of that.
fn carry_on(
    of: (&Plan, &StudyFolder),
    mut waiting: VecDeque<Waiting>,
    limits: Limits,
    (starter, how): (&Starter, How<'_>),
    mut progress: StudyProgress<'_>,
    interrupted: &AtomicBool,
) -> Result<()> {
    let (mut running, mut held): (Vec<Running>, Vec<Waiting>) = (Vec::new(), Vec::new());
    let (mut told, mut unstarted) = (false, None);
    while !(waiting.is_empty() && running.is_empty() && held.is_empty()) {
        if (interrupted.load(Ordering::Relaxed) || unstarted.is_some()) && !told {
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
        let left: f64 = waiting
            .iter()
            .chain(&held)
            .chain(under_way)
            .map(|run| run.weight)
            .sum();
        let next = limits.next(waiting.iter().map(|run| run.memory_bytes), taken);
        if let Some(mut run) = next.and_then(|place| waiting.remove(place)) {
            run.start.threads = limits.threads_for((run.weight / left, run.serial_share), taken);
            match look_again(of, &mut run)? {
                Next::Start => {}
                Next::Held => {
                    how.note(&format!(
                        "{}: a process of an earlier study is still at work on it; waiting for its end",
                        run.name
                    ));
                    held.push(run);
                    continue;
                }
                Next::Done => {
                    progress.ended(
                        &run.name,
                        run.weight,
                        Duration::ZERO,
                        Ended::Done(&run.start.folder),
                    );
                    continue;
                }
            }
            match starter.start(&run.start) {
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
        let (still_held, free): (Vec<Waiting>, _) = held
            .into_iter()
            .partition(|run| of.1.is_at_work(of.0, run.id));
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
