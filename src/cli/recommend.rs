//! Carries out `recommend`, which prints what a trained run would show a user.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Session;
use super::args::{InputArgs, ProgressArg, RecommendArgs};
use super::inputs::{Inputs, threads_of};
use super::resume::placed;
use super::screen::in_column;
use super::task::Task;
use super::watch::Watch;
use crate::{Error, Result};
use fedrecsim_core::shell_word;
use fedrecsim_data::dataset::{Dataset, with_reason};
use fedrecsim_report::SavedRun;
use fedrecsim_report::words::{counted, thousands};
use fedrecsim_scenario::{Scenario, Strictness};
use fedrecsim_sim::checkpoint::{self, Build, Opened, SCENARIO_FILE};
use fedrecsim_sim::{Recommended, RunControl, Simulation, Until};

/// The file that makes a folder the report of a run.
const RUN_JSON: &str = "run.json";

/// Returns the lists of the method and of popularity, side by side.
///
/// # Errors
/// [`Error::Usage`] for a user who is not there and for a run that is not complete, those of reading
/// a report, and an error if the repeated run has another digest.
pub(crate) fn recommend(arguments: &RecommendArgs, session: &Session) -> Result<String> {
    session.listen()?;
    let run = run_of(&arguments.report)?;
    let folder = arguments.report.display();
    if !run.complete {
        return Err(stopped(&run, &arguments.report));
    }
    let input = InputArgs {
        scenario: arguments.report.join(SCENARIO_FILE),
        data_dir: arguments.data_dir.clone(),
        threads: arguments.threads,
        ..InputArgs::default()
    };
    let mut task = Task::of(&input, Strictness::Lenient, session)?;
    let is_elsewhere = |path: &PathBuf| path.is_relative() && !path.exists();
    if task
        .scenario
        .dataset
        .path
        .as_ref()
        .is_some_and(is_elsewhere)
    {
        // The run began in another folder: in that of its checkpoint, or mostly in that of the report.
        let parent = arguments.report.join("..");
        let began =
            checkpoint::find(&arguments.report).map(|found| found.checkpoint.header.directory);
        task.placed = placed(&task.scenario, &began.unwrap_or(parent), &task.directories);
    }
    let inputs = task.inputs(None, session.methods)?;
    let user = inputs
        .world
        .dataset
        .user_named(&arguments.user)
        .map_err(|unknown| with_reason(unknown, &task.scenario, &task.directories))?;
    // What is shown is what the accuracy is of.
    let shown = run.selected_round.unwrap_or(run.rounds);
    let mut watch = Watch::new(&task.scenario, ProgressArg::Auto, session);
    let mut simulation = begun(
        (&run, shown),
        (&arguments.report, &input),
        &task,
        &inputs,
        session,
    )
    .map_err(|error| not_of_the_report(error, &arguments.report))?;
    simulation.step_until(Until::Round(shown), &mut watch)?;
    let top = arguments.top as usize;
    let [own, popular] = [
        simulation.recommend(user, top)?,
        simulation.recommend_popular(user, top)?,
    ];
    simulation.step_until(Until::Round(u32::MAX), &mut watch)?;
    let outcome = simulation.finish()?;
    if let Some(error) = outcome.stopped_by {
        return Err(error);
    }
    if outcome.digest != run.digest {
        return Err(Error::Usage(format!(
            "the run in {folder} has the digest {}, and repeated it comes to {}: the ratings or the \
             program are not those of the report",
            run.digest, outcome.digest
        )));
    }
    let method = &task.scenario.method.name;
    let after = counted(shown.into(), "round");
    let head = format!(
        "{} would be shown by {method} after {after}, and by popularity. What the user has rated is left out.\n",
        in_column(&arguments.user)
    );
    Ok(head + &table(&inputs.world.dataset, method, &own, &popular))
}

/// Returns the error of a run that has stopped early. Nobody is resuming it here, and some runs would stop at
/// the same place again.
fn stopped(run: &SavedRun, report: &Path) -> Error {
    let why = run.stopped_by.as_deref().unwrap_or("nobody knows why");
    let remedy = match checkpoint::is_in(report) {
        true => format!(
            "if that lies outside of the scenario, go on with `fedrecsim resume {}` first",
            shell_word(&report.to_string_lossy())
        ),
        false => "it has left no checkpoint: run it again without that cause".to_owned(),
    };
    Error::Usage(format!(
        "the run in {} stopped early ({why}); {remedy}",
        report.display()
    ))
}

/// Returns the error of a checkpoint that is not of the report's run, or damaged, without a word on resuming.
fn not_of_the_report(error: Error, report: &Path) -> Error {
    match error {
        Error::Unrestorable(reason) => Error::Usage(format!(
            "the checkpoint in {} cannot be used: {reason}",
            report.display()
        )),
        other => other,
    }
}

/// Returns the run whose report is in a folder.
///
/// # Errors
/// [`Error::Usage`] for a folder without one, with the first report within it, and those of reading it.
fn run_of(folder: &Path) -> Result<SavedRun> {
    let has_run = |folder: &Path| folder.join(RUN_JSON).exists();
    if has_run(folder) {
        return SavedRun::read(folder);
    }
    let inner = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let within = inner
        .map(|entry| entry.path())
        .filter(|path| has_run(path))
        .min();
    let example = within.map_or_else(String::new, |path| {
        let path = path.to_string_lossy().into_owned();
        format!(", as {}", shell_word(&path))
    });
    let what = match folder.exists() {
        true => format!(
            "{} is no report of a run, for it has no {RUN_JSON}",
            folder.display()
        ),
        false => format!("there is no folder {}", folder.display()),
    };
    Err(Error::Usage(format!(
        "{what}: name the folder that `fedrecsim run` has written{example}"
    )))
}

/// Returns the simulation of a run, at the round of its checkpoint or, without one of a round up to that
/// which is `shown`, at its beginning.
fn begun(
    (run, shown): (&SavedRun, u32),
    (report, input): (&Path, &InputArgs),
    task: &Task,
    inputs: &Inputs,
    session: &Session,
) -> Result<Simulation> {
    let (mut resumed, mut held) = (None, 0);
    if checkpoint::is_in(report) {
        let Opened { header, world } = checkpoint::find(report)?.checkpoint;
        // The copy in the report is named after itself.
        let named = Scenario {
            name: header.name.clone(),
            ..task.scenario.clone()
        };
        let running = Build::running(&crate::PROGRAM, &inputs.world.method.version())?;
        header.check(&named, &inputs.fingerprint())?;
        // Another build trains from the beginning, and may come to the same.
        if header.check_build(&running).is_ok() && header.rounds <= shown {
            resumed = Some(world);
            held = header.rounds;
        }
    }
    let left = counted(run.rounds.saturating_sub(held).into(), "round");
    if held > 0 {
        session.line(&format!(
            "the report holds the parameters of users after round {held}; to train once more: {left}"
        ));
    } else if run.rounds > 0 {
        session.line(&format!(
            "the report does not hold the parameters of users; to train once more: {left} \
             (`run --keep-checkpoint` keeps those of before the last round)"
        ));
    }
    let control = RunControl {
        threads: threads_of(input.threads),
        interrupted: Arc::clone(&session.interrupted),
    };
    Simulation::resumed(Arc::clone(&inputs.world), &control, resumed)
}

/// Returns both lists as a table in columns, with a mark at test items.
fn table(dataset: &Dataset, method: &str, own: &[Recommended], popular: &[Recommended]) -> String {
    let name = |shown: &Recommended| {
        let mark = if shown.is_test_item { " *" } else { "" };
        in_column(&dataset.item_name(shown.item)) + mark
    };
    let mut rows = vec![["", method, "score", "popularity", "ratings"].map(str::to_owned)];
    let both = (1..).zip(own.iter().zip(popular));
    rows.extend(both.map(|(place, (own, popular))| {
        [
            format!("{place}"),
            name(own),
            format!("{:.4}", own.score),
            name(popular),
            thousands(popular.score as u64),
        ]
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; 5] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let mut text = String::new();
    for row in &rows {
        let [place, own, score, popular, ratings] = row;
        let [w0, w1, w2, w3, w4] = widths;
        text +=
            &format!("{place:>w0$}  {own:<w1$}  {score:>w2$}  {popular:<w3$}  {ratings:>w4$}\n");
    }
    if let [first, .., last] = own
        && first.score.total_cmp(&last.score).is_eq()
    {
        text +=
            &format!("all of these have the same score of {method}: their order says nothing\n");
    }
    if own.iter().chain(popular).any(|shown| shown.is_test_item) {
        text += "* held out for the test: the user did take it\n";
    }
    text
}
