//! Says how much memory and time the runs of each arm will take, and refuses arms that do not fit
//! at all.

use std::collections::BTreeMap;

use serde_json::Value;

use super::OpenStudy;
use crate::cli::estimates::Expected;
use crate::cli::inputs::{Inputs, beside_scenario, data_directories};
use crate::cli::memory;
use crate::{Bytes, Error, Result};
use fedrecsim_data::dataset;
use fedrecsim_report::study::{ArmRecord, StudyRecord};
use fedrecsim_report::words::counted;

/// The memory of a process of this program before it has read anything, which counts for every run.
const BYTES_OF_A_PROCESS: u64 = 16 << 20;

impl OpenStudy<'_> {
    /// Looks for the ratings files of `arms`, rehearses their first rounds with this many `threads`, so
    /// that their runs need not, and notes in the record what they take. Without a number of
    /// threads, and for arms that have an estimate already, nothing is rehearsed. Arms that differ in
    /// rates and weights of their method alone, as trials of a search may, are rehearsed once.
    ///
    /// A rehearsal's memory is that of this process with the arm's data, which may hold some of an
    /// earlier arm's: an estimate is rather too high than too low.
    ///
    /// # Errors
    /// [`Error::Usage`] with what keeps arms from starting, such as a data set that is not there.
    pub(super) fn estimate(
        &self,
        record: &mut StudyRecord,
        arms: &[usize],
        threads: Option<usize>,
    ) -> Result<()> {
        let directories = data_directories(self.arguments.data_dir.as_deref());
        let (mut faults, beside_bytes) = (Vec::<(String, usize, String)>::new(), beside_bytes());
        let mut warned = Vec::new();
        let mut rehearsed = BTreeMap::new();
        for &arm in arms {
            if self.session.is_interrupted() {
                break;
            }
            let (planned, known) = (&self.plan.arms[arm], &mut record.arms[arm]);
            let scenario = &planned.scenario;
            let alike = without_rates(&known.scenario).to_string();
            if known.memory_bytes.is_none()
                && let Some(costs) = rehearsed.get(&alike)
            {
                (known.memory_bytes, known.round_s, known.serial_s) = *costs;
            }
            let looked = match threads.filter(|_| known.memory_bytes.is_none()) {
                None => dataset::look_for(&scenario.dataset, &directories),
                Some(threads) => {
                    Inputs::load(scenario, &directories, self.session.methods).map(|inputs| {
                        let [_, mut warnings] = inputs.remarks();
                        warnings.retain(|text| !warned.contains(text));
                        warned.append(&mut warnings);
                        rehearse(&inputs, threads, beside_bytes, known);
                        let costs = (known.memory_bytes, known.round_s, known.serial_s);
                        rehearsed.insert(alike, costs);
                    })
                }
            };
            if let Err(error) = looked {
                let error = beside_scenario(error, &planned.arm.base).to_string();
                match faults.iter_mut().find(|(_, _, known)| *known == error) {
                    Some((_, others, _)) => *others += 1,
                    None => faults.push((planned.arm.name.clone(), 0, error)),
                }
            }
        }
        let in_words = |(first, others, error): (String, usize, String)| match others {
            0 => format!("arm `{first}`: {error}"),
            others => format!(
                "arm `{first}` and {}: {error}",
                counted(others as u64, "other arm")
            ),
        };
        let faults = faults.into_iter().map(in_words).collect();
        warned
            .iter()
            .for_each(|text: &String| self.session.warn(text));
        refused(faults, "\n", "")
    }
}

/// Rehearses the first rounds of an arm with this many threads, and notes what they take. This
/// process holds so many bytes that a process of the run's own would not have.
fn rehearse(inputs: &Inputs, threads: usize, beside_bytes: u64, known: &mut ArmRecord) {
    // If the first round fails, the run will say why.
    let Ok(expected) = Expected::of(&inputs.world, threads, false) else {
        return;
    };
    // What an earlier arm has left may be in use again, so that the process has not grown by all
    // that is needed.
    let own = expected.peak_bytes().saturating_sub(beside_bytes);
    known.memory_bytes = Some(own.max(expected.needed_bytes()));
    known.round_s = Some(expected.estimate.wall_time_per_round_s);
    known.serial_s = Some(expected.estimate.serial_time_per_round_s);
}

/// Returns a scenario without what changes no size and no number of steps: the fractions among its method's
/// parameters, such as rates and weights. A share may say how much is sent, and stays.
fn without_rates(scenario: &Value) -> Value {
    fn clear(value: &mut Value) {
        match value {
            Value::Object(parameters) => {
                let costs = |name: &str| name.ends_with("share");
                let parameters = parameters.iter_mut().filter(|(name, _)| !costs(name));
                parameters.for_each(|(_, value)| clear(value));
            }
            Value::Number(number) if number.is_f64() => *value = Value::Null,
            _ => {}
        }
    }
    let mut scenario = scenario.clone();
    scenario.get_mut("method").into_iter().for_each(clear);
    scenario
}

/// Returns the memory that this process holds beside a run, such as an interpreter with data frames.
fn beside_bytes() -> u64 {
    let resident = memory::resident_bytes().unwrap_or(0);
    resident.saturating_sub(BYTES_OF_A_PROCESS)
}

/// Refuses arms whose single runs need more than `budget_bytes`.
///
/// # Errors
/// [`Error::Usage`] with all of them.
pub(super) fn refuse_what_does_not_fit(
    record: &StudyRecord,
    arms: &[usize],
    budget_bytes: u64,
) -> Result<()> {
    let too_large = |arm: &usize| {
        let known = &record.arms[*arm];
        let needed = known.memory_bytes.filter(|needed| *needed > budget_bytes)?;
        let needed = Bytes::new(needed);
        Some(format!("arm `{}` needs {needed} of memory", known.name))
    };
    let budget = format!("; a run may have {} (--memory)", Bytes::new(budget_bytes));
    refused(arms.iter().filter_map(too_large).collect(), "; ", &budget)
}

fn refused(faults: Vec<String>, between: &str, end: &str) -> Result<()> {
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Error::Usage(faults.join(between) + end)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// If this fails, trials that take as long are each rehearsed, or one that takes more memory is taken for
    /// another one.
    #[test]
    fn rates_and_weights_cost_nothing() {
        let of = |parameters: &str| {
            let text = format!(
                r#"{{ "method": {{ "m": {parameters} }}, "dataset": {{ "share": 0.5 }} }}"#
            );
            without_rates(&serde_json::from_str(&text).unwrap())
        };
        let one = of(r#"{ "rate": 0.1, "rank": 8, "recency": { "tau": 2.0 }, "row_share": 0.1 }"#);
        for (other, is_alike) in [
            (
                r#"{ "rate": 0.2, "rank": 8, "recency": { "tau": 5.0 }, "row_share": 0.1 }"#,
                true,
            ),
            (
                r#"{ "rate": 0.2, "rank": 9, "recency": { "tau": 5.0 }, "row_share": 0.1 }"#,
                false,
            ),
            (
                r#"{ "rate": 0.2, "rank": 8, "recency": { "tau": 5.0 }, "row_share": 0.2 }"#,
                false,
            ),
            (r#"{ "rate": 0.2, "rank": 8, "row_share": 0.1 }"#, false),
        ] {
            assert_eq!(one == of(other), is_alike, "{other}");
        }
        assert_eq!(one["dataset"]["share"], 0.5);
    }

    /// If this fails, every run of a study is told to need the memory of the notebook that has
    /// begun it.
    #[test]
    fn what_a_process_holds_beside_is_no_part_of_a_run() {
        let beside = beside_bytes();
        let held = vec![1_u8; 256 << 20];
        let more = beside_bytes();
        assert_eq!(held[held.len() / 2], 1);
        if memory::resident_bytes().is_some() {
            assert!(
                more > beside + (128 << 20),
                "{beside} bytes before, {more} with 256 MiB more"
            );
        }
    }
}
