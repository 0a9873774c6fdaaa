//! Carries out `study`: runs beside each other, each a process of its own, and the tables of all of
//! them.
//!
//! [`Work`] is a study that is under way. [`folder`](mod@folder) is what it keeps on the disk, and
//! what became of each run; [`fit`] says how much memory the runs take; [`carrier`] is the process
//! or the thread of one run; [`execute`](mod@execute) starts and watches them, as many and with as
//! many threads as [`limits`] says; `progress` is what a user sees of that; [`merge`](mod@merge)
//! puts parts together, and [`reuse`](mod@reuse) takes runs of other studies; [`slurm`] has a
//! cluster's scheduler run them; [`outside`] is for runs that something else starts.

mod carrier;
mod execute;
mod fit;
mod folder;
mod limits;
mod merge;
pub mod outside;
mod progress;
mod reuse;
mod slurm;

use std::path::{Path, PathBuf};

use super::inputs::data_directories;
use super::output_file::OutputFile;
use super::{Finished, Session, StudyArgs};
use carrier::{How, Start};
use fedrecsim_core::error::{Error, ErrorKind, Result};
use fedrecsim_data::dataset;
use fedrecsim_report::study::against;
use fedrecsim_report::study::file::{self, Changes, MissingData};
use fedrecsim_report::study::plan::{Plan, RunId};
use fedrecsim_report::study::record::StudyRecord;
use fedrecsim_report::study::results::Results;
use fedrecsim_report::study::tables;
use folder::{StudyFolder, ToDo};

/// The name of the tables' files.
const NAME: &str = "study";

/// The number of checkpoints that a run leaves if nothing else is asked for.
const CHECKPOINTS: u32 = 10;

/// Runs a study, or lists its runs, or puts its parts together, and writes its tables.
///
/// # Errors
/// Every error that keeps the study from starting: a fault of its file or of an arm, a folder that
/// holds another study, an arm that would not fit into memory. Runs that fail are no error here.
pub fn study(arguments: &StudyArgs, session: &Session) -> Result<Finished> {
    let visible = session.visible;
    carry_out(arguments, session, How::Processes { visible })
}

/// Carries out [`study`] in this way.
fn carry_out(arguments: &StudyArgs, session: &Session, how: How<'_>) -> Result<Finished> {
    let (plan, text) = planned(arguments, session)?;
    plan.warnings.iter().for_each(|text| how.warn(text));
    refuse_unknown_partners(arguments, &plan)?;
    if arguments.dry_run {
        return Ok(listed(arguments, &plan).into());
    }
    let mut work = Work::begin(arguments, session, plan, &text)?;
    if !arguments.merge.is_empty() {
        merge::merge(&work.folder, &work.plan, &work.record, &arguments.merge)?;
    }
    work.folder.write_record(&work.record)?;
    if arguments.slurm.is_some() {
        return slurm::write(&mut work);
    }
    if arguments.merge.is_empty() && !arguments.no_run {
        let runs = work.runs_with_data();
        if !arguments.reuse.is_empty() {
            let taken = reuse::reuse(&work.folder, &work.plan, &runs, &arguments.reuse)?;
            how.note(&format!(
                "{taken} of {} runs are taken from other studies",
                runs.len()
            ));
        }
        execute::execute(&mut work, runs, how)?;
    }
    let without_data = without_data(arguments, &work.plan);
    let whole = work
        .folder
        .results(&work.plan, arguments.shard, &without_data)?;
    let results = whole.clone().of_arms(|name| is_wanted(arguments, name));
    let folder = work.folder.path();
    write_files(folder, tables::files(&results, NAME)?, true)?;
    let mut finished = Finished::in_files(shown(arguments, (&whole, &results), folder)?);
    let (failed, [_, not_run, runs]) = (results.failures().len(), results.counts());
    if failed > 0 {
        finished.errors.push(Error::Told {
            kind: ErrorKind::EndOfRun,
            message: format!(
                "{failed} of {runs} runs of the study failed; the tables mark them, and the same command tries them again"
            ),
        });
    }
    if session.is_interrupted() && not_run > 0 {
        finished.errors.push(Error::Interrupted);
    }
    Ok(finished)
}

/// Returns what to print: the tables of the wanted `results`, or, where other arms to compare to
/// are named, those with the differences to them, which are written beside the others.
fn shown(
    arguments: &StudyArgs,
    (whole, results): (&Results, &Results),
    folder: &Path,
) -> Result<String> {
    let mut texts = Vec::new();
    for other in &arguments.compare_to {
        // An arm that is not asked for may be one that others are now compared to.
        let against = whole.clone().against(other)?;
        let against = against.of_arms(|name| is_wanted(arguments, name));
        write_files(folder, tables::files_against(&against, NAME, other)?, true)?;
        texts.push(tables::markdown(&against));
    }
    if texts.is_empty() {
        texts.push(tables::markdown(results));
    }
    Ok(format!(
        "{}\nwritten to {}\n",
        texts.join("\n"),
        folder.display()
    ))
}

/// A study that is under way.
struct Work<'a> {
    arguments: &'a StudyArgs,
    session: &'a Session<'a>,
    plan: Plan,
    folder: StudyFolder,
    record: StudyRecord,
}

impl<'a> Work<'a> {
    /// Takes the folder of the study. Its record is not written yet.
    fn begin(
        arguments: &'a StudyArgs,
        session: &'a Session<'a>,
        plan: Plan,
        text: &str,
    ) -> Result<Self> {
        let folder = StudyFolder::open(out(arguments, &plan))?;
        let earlier = folder.record()?;
        let record = StudyRecord::of(&plan, text, arguments.shard, earlier.as_ref())?;
        let changes = earlier.map_or(Vec::new(), |earlier| earlier.changes(&record));
        if !changes.is_empty() {
            return Err(Error::Usage(format!(
                "the study has changed since its runs in {} began: {}; undo that, or name another folder with --out",
                folder.path().display(),
                changes.join("; ")
            )));
        }
        Ok(Self {
            arguments,
            session,
            plan,
            folder,
            record,
        })
    }

    /// Returns the wanted runs whose data set is there, or has to be.
    fn runs_with_data(&self) -> Vec<RunId> {
        runs_with_data(self.arguments, &self.plan)
    }
}

/// Returns what starts a run with so many threads.
fn start(
    arguments: &StudyArgs,
    plan: &Plan,
    folder: &StudyFolder,
    run: RunId,
    to_do: ToDo,
    threads: usize,
) -> Start {
    let planned = &plan.arms[run.arm];
    let every = planned.scenario.training.rounds.div_ceil(CHECKPOINTS);
    Start {
        folder: folder.run(plan, run),
        to_do,
        base: planned.arm.base.clone(),
        set: planned.arm.set.clone(),
        seed: run.seed,
        checkpoint_every: arguments.checkpoint_every.map_or(every, u32::from).max(1),
        threads,
        data_dir: arguments.data_dir.clone(),
    }
}

/// Reads the study and resolves its arms, and refuses `--arms` that no name contains.
fn planned(arguments: &StudyArgs, session: &Session) -> Result<(Plan, String)> {
    let changes = Changes {
        set: arguments.set.clone(),
        seeds: arguments.seeds.clone(),
    };
    let (study, text) = file::load(&arguments.study, &changes)?;
    let plan = Plan::of(study, &session.vocabulary())?;
    let names = names(&plan);
    let is_unknown = |text: &&String| !names.iter().any(|name| name.contains(text.as_str()));
    match arguments.arms.iter().find(is_unknown) {
        Some(text) => Err(Error::Usage(format!(
            "--arms {text}: no arm has this in its name; --dry-run lists them"
        ))),
        None => Ok((plan, text)),
    }
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.arms.iter().map(|arm| arm.arm.name.as_str()).collect()
}

/// Returns the folder of the study.
fn out(arguments: &StudyArgs, plan: &Plan) -> PathBuf {
    let name = &plan.study.name;
    let name = match arguments.shard {
        None => name.clone(),
        Some(part) => format!("{name}-part-{}-of-{}", part.index, part.count),
    };
    let by_default = || Path::new("reports").join(name);
    arguments.out.clone().unwrap_or_else(by_default)
}

/// Returns the runs of the part, or of all of them, whose arms are asked for.
fn wanted_runs(arguments: &StudyArgs, plan: &Plan) -> Vec<RunId> {
    let mut runs = plan.runs(arguments.shard);
    runs.retain(|run| is_wanted(arguments, &plan.arms[run.arm].arm.name));
    runs
}

/// Returns the wanted runs whose data set is there, or has to be.
fn runs_with_data(arguments: &StudyArgs, plan: &Plan) -> Vec<RunId> {
    let without_data = without_data(arguments, plan);
    let mut runs = wanted_runs(arguments, plan);
    runs.retain(|run| !without_data.contains(&run.arm));
    runs
}

/// Returns the arms that are left out because their data set is not on this machine, by their
/// places.
fn without_data(arguments: &StudyArgs, plan: &Plan) -> Vec<usize> {
    if plan.study.missing_data == MissingData::Refuse {
        return Vec::new();
    }
    let directories = data_directories(arguments.data_dir.as_deref());
    let is_missing = |arm: &usize| {
        let wanted = &plan.arms[*arm].scenario.dataset;
        dataset::registry::is_missing(&wanted.source, wanted.path.as_deref(), &directories)
    };
    (0..plan.arms.len()).filter(is_missing).collect()
}

/// Returns whether an arm of this name is asked for.
fn is_wanted(arguments: &StudyArgs, arm: &str) -> bool {
    arguments.arms.is_empty() || arguments.arms.iter().any(|text| arm.contains(text))
}

/// Refuses arms to compare to that are not there.
fn refuse_unknown_partners(arguments: &StudyArgs, plan: &Plan) -> Result<()> {
    let names = names(plan);
    let mut others = arguments.compare_to.iter();
    others.try_for_each(|other| against::places(&names, other).map(drop))
}

/// Returns the runs of a study in words.
fn listed(arguments: &StudyArgs, plan: &Plan) -> String {
    let seeds: Vec<String> = plan.study.seeds.iter().map(u64::to_string).collect();
    let mut text = format!(
        "{}: valid, {} arms with the seeds {}: {} runs",
        arguments.study.display(),
        plan.arms.len(),
        seeds.join(", "),
        plan.runs(None).len(),
    );
    if let Some(part) = arguments.shard {
        let runs = plan.runs(Some(part)).len();
        text.push_str(&format!(", of which part {part} has {runs}"));
    }
    if !arguments.arms.is_empty() {
        let runs = wanted_runs(arguments, plan).len();
        text.push_str(&format!("; {runs} are to do, by --arms"));
    }
    text.push('\n');
    let arms = plan.arms.iter().map(|planned| &planned.arm);
    for arm in arms.filter(|arm| is_wanted(arguments, &arm.name)) {
        text.push_str(&format!("  {}: {}", arm.name, arm.base.display()));
        for set in &arm.set {
            text.push_str(&format!(" --set {set}"));
        }
        text.push('\n');
    }
    text
}

/// Writes files to a folder, each whole or not at all.
///
/// # Errors
/// [`Error::Write`], and [`Error::Usage`] for a file that is there if `overwrite` is false.
pub(super) fn write_files(folder: &Path, files: tables::Files, overwrite: bool) -> Result<()> {
    use std::io::Write as _;
    for (name, bytes) in files {
        let path = folder.join(name);
        let (output, mut file) = OutputFile::create(&path, overwrite)?;
        file.write_all(&bytes)
            .map_err(|reason| Error::write(&path, reason))?;
        output.publish()?;
    }
    Ok(())
}
