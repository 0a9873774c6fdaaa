//! Says how much memory and time the runs of each arm will take, and refuses arms that do not fit
//! at all.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::cli::estimates::Expected;
use crate::cli::inputs::{Inputs, data_directories};
use crate::cli::{StudyArgs, memory};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::units::Bytes;
use fedrecsim_data::dataset;
use fedrecsim_methods::method::Entry;
use fedrecsim_report::study::plan::Plan;
use fedrecsim_report::study::record::StudyRecord;

/// The memory of a process of this program before it has read anything, which counts for every run.
const BYTES_OF_A_PROCESS: u64 = 16 << 20;

/// How arms are rehearsed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rehearsal {
    /// The threads of a run.
    pub threads: usize,
    /// The memory of this process that a process of the run's own would not have.
    pub beside_bytes: u64,
}

impl Rehearsal {
    /// Describes a rehearsal in a process that holds much else, such as an interpreter with data
    /// frames: what it has now is no part of a run.
    pub(crate) fn in_any_process(threads: usize) -> Self {
        let resident = memory::resident_bytes().unwrap_or(0);
        Self {
            threads,
            beside_bytes: resident.saturating_sub(BYTES_OF_A_PROCESS),
        }
    }
}

/// Looks for the ratings files of `arms`, rehearses their first rounds as a run does before it
/// begins, and notes in `record` what they take. Without a `rehearsal`, and for arms that have an
/// estimate already, nothing is rehearsed.
///
/// A rehearsal's memory is that of this process with the arm's data, which may hold some of an
/// earlier arm's: an estimate is rather too high than too low.
///
/// # Errors
/// [`Error::Usage`] with what keeps arms from starting, such as a data set that is not there.
pub(crate) fn estimate(
    arguments: &StudyArgs,
    methods: &[Entry],
    plan: &Plan,
    arms: &[usize],
    rehearsal: Option<Rehearsal>,
    record: &mut StudyRecord,
    interrupted: &AtomicBool,
) -> Result<()> {
    let directories = data_directories(arguments.data_dir.as_deref());
    let mut faults = Vec::new();
    for &arm in arms {
        let (planned, known) = (&plan.arms[arm], &mut record.arms[arm]);
        if interrupted.load(Ordering::Relaxed) {
            continue;
        }
        let rehearsed = rehearsal.filter(|_| known.memory_bytes.is_none()).map(
            |Rehearsal {
                 threads,
                 beside_bytes,
             }| {
                let world = Inputs::load(&planned.scenario, &directories, methods)?.world;
                // If the first round fails, the run will say why.
                if let Ok(expected) = Expected::of(&world, threads, false) {
                    // What an earlier arm has left may be in use again, so that the process has not
                    // grown by all that is needed.
                    let own = expected.peak_bytes().saturating_sub(beside_bytes);
                    known.memory_bytes = Some(own.max(expected.needed_bytes()));
                    known.round_s = Some(expected.round_s());
                    known.serial_s = Some(expected.serial_s());
                }
                Ok(())
            },
        );
        let looked =
            rehearsed.unwrap_or_else(|| dataset::look_for(&planned.scenario.dataset, &directories));
        if let Err(error) = looked {
            faults.push(format!("arm `{}`: {error}", planned.arm.name));
        }
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(Error::Usage(faults.join("\n")))
    }
}

/// Refuses arms of which a single run needs more than `budget_bytes`.
///
/// # Errors
/// [`Error::Usage`] with all of them.
pub(crate) fn refuse_what_does_not_fit(
    plan: &Plan,
    record: &StudyRecord,
    arms: &[usize],
    budget_bytes: u64,
) -> Result<()> {
    let too_large = |arm: &usize| {
        let needed = record.arms[*arm]
            .memory_bytes
            .filter(|needed| *needed > budget_bytes)?;
        Some(format!(
            "arm `{}` needs {} of memory",
            plan.arms[*arm].arm.name,
            Bytes::new(needed)
        ))
    };
    let told: Vec<String> = arms.iter().filter_map(too_large).collect();
    if told.is_empty() {
        return Ok(());
    }
    let budget = Bytes::new(budget_bytes);
    Err(Error::Usage(format!(
        "{}; a run may have {budget} (--memory)",
        told.join("; ")
    )))
}

/// Returns how many runs there are and what they are expected to take, in words.
pub(crate) fn announcement(
    plan: &Plan,
    record: &StudyRecord,
    arms: &[usize],
    runs: usize,
) -> String {
    let largest = arms
        .iter()
        .filter_map(|arm| record.arms[*arm].memory_bytes)
        .max();
    let memory =
        largest.map(|bytes| format!("; the largest needs {} of memory", Bytes::new(bytes)));
    let (kept, title) = (plan.arms.len() * plan.study.seeds.len(), &plan.study.title);
    format!(
        "{title}: {runs} of {kept} runs to do{}",
        memory.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, every run of a study is told to need the memory of the notebook that has
    /// begun it.
    #[test]
    fn what_a_process_holds_beside_is_no_part_of_a_run() {
        let beside = Rehearsal::in_any_process(1).beside_bytes;
        let held = vec![1_u8; 256 << 20];
        let more = Rehearsal::in_any_process(1).beside_bytes;
        assert_eq!(held[held.len() / 2], 1);
        if memory::resident_bytes().is_some() {
            assert!(
                more > beside + (128 << 20),
                "{beside} bytes before, {more} with 256 MiB more"
            );
        }
    }
}
