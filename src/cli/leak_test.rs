//! Carries out `leak-test`, which tells whether training knows what is held out.

use std::sync::Arc;

use super::args::{InputArgs, ProgressArg};
use super::inputs::threads_of;
use super::task::Task;
use super::watch::Watch;
use super::{Finished, Session, screen, wrapped};
use crate::Result;
use crate::scenario::Scenario;
use crate::sim::World;
use fedrecsim_data::dataset::Dataset;
use fedrecsim_methods::registry::find;
use fedrecsim_scenario::Strictness;
use fedrecsim_sim::{LeakFinding, LeakTest, LeakVerdict, RunControl};

/// Returns a verdict for each test. One that finds a leak ends the command with exit code 1.
///
/// # Errors
/// Those of the scenario, and what stops one of the runs.
pub(crate) fn leak_test(input: &InputArgs, session: &Session) -> Result<Finished> {
    session.begin_runs("leak-test")?;
    let task = Task::of(input, Strictness::Lenient, session)?;
    task.warnings
        .iter()
        .for_each(|warning| session.warn(warning));
    let entry = find(session.methods, &task.scenario.method)?;
    let inputs = task.inputs(None, session.methods)?;
    let place = (&task.directories[..], session.methods);
    let world_of = |scenario: Scenario, dataset: Arc<Dataset>| -> Result<World> {
        inputs.world_with(&scenario, dataset, place)
    };
    let control = RunControl {
        threads: threads_of(input.threads),
        interrupted: Arc::clone(&session.interrupted),
    };
    let test = LeakTest::new(
        (&task.scenario, &inputs.world.dataset),
        entry.without_controls,
        &world_of,
        &control,
    )?;
    let mut watch = Watch::new(&task.scenario, ProgressArg::Off, session);
    let findings = test.findings(&mut watch)?;
    let leaks = findings
        .iter()
        .filter(|finding| finding.verdict == LeakVerdict::Leak)
        .count();
    let method = &task.scenario.method.name;
    let is_early = findings
        .iter()
        .any(|finding| finding.verdict == LeakVerdict::TooEarly);
    let sum = match leaks {
        0 if is_early => format!("{method}: no verdict; it has to learn more first.\n"),
        0 => format!("{method}: no leak was found.\n"),
        _ => format!("{method}: training knows what is held out, and its accuracy says nothing.\n"),
    };
    Ok(Finished {
        differs: leaks > 0,
        ..(findings.iter().map(told).collect::<String>() + &sum).into()
    })
}

/// Returns a finding as lines for a terminal.
fn told(finding: &LeakFinding) -> String {
    let LeakFinding {
        test,
        verdict,
        sentence,
    } = finding;
    format!(
        "{verdict:10}  {test}\n{}",
        wrapped(sentence, "            ", screen::of_text())
    )
}
