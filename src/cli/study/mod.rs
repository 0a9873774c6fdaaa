//! Carries out `study`: runs beside each other, each a process of its own, and the tables of all of
//! them.
//!
//! [`folder`](mod@folder) is what a study keeps on the disk, and what became of each run; [`fit`]
//! says how much memory the runs take; [`child`] is one run's process, [`within`] its thread where
//! it has none, and [`carrier`] either; [`execute`](mod@execute) starts and watches them, as many
//! and with as many threads as [`limits`] says; `progress` is what a user sees of that;
//! [`merge`](mod@merge) puts parts together, and [`reuse`](mod@reuse) takes runs of other studies;
//! [`slurm`] has a cluster's scheduler run them; [`outside`] is for runs that something else
//! starts.

mod carrier;
mod child;
mod execute;
mod fit;
mod folder;
mod limits;
mod merge;
pub mod outside;
mod progress;
mod reuse;
mod slurm;
mod within;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::StudyArgs;
use super::inputs::data_directories;
use super::output_file::OutputFile;
use carrier::How;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_data::dataset;
use fedrecsim_methods::method::Entry;
use fedrecsim_methods::method::registry::vocabulary_of;
use fedrecsim_report::study::against;
use fedrecsim_report::study::file::{self, Changes, MissingData};
use fedrecsim_report::study::plan::{Plan, PlannedArm, RunId};
use fedrecsim_report::study::record::StudyRecord;
use fedrecsim_report::study::results::Results;
use fedrecsim_report::study::tables;
use folder::StudyFolder;

/// The name of the tables' files.
const NAME: &str = "study";

/// The end of a study.
#[derive(Debug, Default)]
pub struct StudyEnd {
    /// What to print on standard output.
    pub output: String,
    /// The error that runs failed, or that the user stopped them.
    pub errors: Vec<Error>,
}

/// Runs a study with `methods`, or lists its runs, or puts its parts together, and writes its
/// tables.
///
/// The runs are told to stop when `interrupted` is set; `visible` shows a progress bar on standard
/// error.
///
/// # Errors
/// Every error that keeps the study from starting: a fault of its file or of an arm, a folder that
/// holds another study, an arm that would not fit into memory. Runs that fail are no error here.
pub fn study(
    arguments: &StudyArgs,
    methods: &[Entry],
    interrupted: &Arc<AtomicBool>,
    visible: bool,
) -> Result<StudyEnd> {
    carried_out(arguments, methods, interrupted, How::Processes { visible })
}

/// Carries out [`study`] in this way.
fn carried_out(
    arguments: &StudyArgs,
    methods: &[Entry],
    interrupted: &Arc<AtomicBool>,
    how: How<'_>,
) -> Result<StudyEnd> {
    let (plan, text) = planned(arguments, methods)?;
    plan.warnings.iter().for_each(|text| how.warn(text));
    refuse_unknown_arms(arguments, &plan)?;
    refuse_unknown_partners(arguments, &plan)?;
    if arguments.dry_run {
        return Ok(StudyEnd {
            output: listed(arguments, &plan),
            errors: Vec::new(),
        });
    }
    let (folder, mut record) = begun(arguments, (&plan, &text))?;
    if !arguments.merge.is_empty() {
        merge::merge(&folder, &plan, &record, &arguments.merge)?;
    }
    folder.write_record(&record)?;
    if arguments.slurm.is_some() {
        return slurm::write(arguments, methods, &plan, &mut record, &folder, interrupted);
    }
    let without_data = without_data(arguments, &plan);
    if arguments.merge.is_empty() && !arguments.no_run {
        let mut runs = wanted_runs(arguments, &plan);
        runs.retain(|run| !without_data.contains(&run.arm));
        if !arguments.reuse.is_empty() {
            let taken = reuse::reuse(&folder, &plan, &runs, &arguments.reuse)?;
            how.note(&format!(
                "{taken} of {} runs are taken from other studies",
                runs.len()
            ));
        }
        execute::execute(
            arguments,
            methods,
            (&plan, runs),
            &mut record,
            &folder,
            interrupted,
            how,
        )?;
    }
    let whole = folder.results(&plan, arguments.shard, &without_data)?;
    let results = whole.clone().of_arms(|name| is_wanted(arguments, name));
    write_files(folder.path(), tables::files(&results, NAME)?, true)?;
    let output = shown(arguments, (&whole, &results), folder.path())?;
    let failed = results.failures().len();
    let [_, not_run, runs] = results.counts();
    let mut errors = Vec::new();
    if failed > 0 {
        errors.push(Error::RunsFailed { failed, runs });
    }
    if interrupted.load(Ordering::Relaxed) && not_run > 0 {
        errors.push(Error::Interrupted);
    }
    Ok(StudyEnd { output, errors })
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
        let against = whole
            .clone()
            .against(other)?
            .of_arms(|name| is_wanted(arguments, name));
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

/// Reads the study and resolves its arms.
fn planned(arguments: &StudyArgs, methods: &[Entry]) -> Result<(Plan, String)> {
    let changes = Changes {
        set: arguments.set.clone(),
        seeds: arguments.seeds.clone(),
    };
    let (study, text) = file::load(&arguments.study, &changes)?;
    Ok((Plan::of(study, &vocabulary_of(methods))?, text))
}

/// Takes the folder of a study, and returns it with the record, which is not written yet.
fn begun(arguments: &StudyArgs, (plan, text): (&Plan, &str)) -> Result<(StudyFolder, StudyRecord)> {
    let folder = StudyFolder::open(out(arguments, plan))?;
    let earlier = folder.record()?;
    let record = StudyRecord::of(plan, text, arguments.shard, earlier.as_ref())?;
    if let Some(earlier) = &earlier {
        refuse_changes(earlier, &record, folder.path())?;
    }
    Ok((folder, record))
}

/// Returns the folder of the study.
fn out(arguments: &StudyArgs, plan: &Plan) -> PathBuf {
    let name = &plan.study.name;
    let by_default = || match arguments.shard {
        None => Path::new("reports").join(name),
        Some(part) => {
            Path::new("reports").join(format!("{name}-part-{}-of-{}", part.index, part.count))
        }
    };
    arguments.out.clone().unwrap_or_else(by_default)
}

/// Returns the runs of the part, or of all of them, whose arms are asked for.
fn wanted_runs(arguments: &StudyArgs, plan: &Plan) -> Vec<RunId> {
    let mut runs = plan.runs(arguments.shard);
    runs.retain(|run| is_wanted(arguments, &plan.arms[run.arm].arm.name));
    runs
}

/// Returns the arms that are left out because their data set is not on this machine, by their
/// places.
fn without_data(arguments: &StudyArgs, plan: &Plan) -> Vec<usize> {
    if plan.study.missing_data == MissingData::Refuse {
        return Vec::new();
    }
    let directories = data_directories(arguments.data_dir.as_deref());
    let is_missing = |arm: &PlannedArm| {
        let wanted = &arm.scenario.dataset;
        dataset::registry::is_missing(&wanted.source, wanted.path.as_deref(), &directories)
    };
    (0..plan.arms.len())
        .filter(|arm| is_missing(&plan.arms[*arm]))
        .collect()
}

/// Returns whether an arm of this name is asked for.
fn is_wanted(arguments: &StudyArgs, arm: &str) -> bool {
    arguments.arms.is_empty() || arguments.arms.iter().any(|text| arm.contains(text))
}

/// Refuses arms that are asked for and that no name contains.
fn refuse_unknown_arms(arguments: &StudyArgs, plan: &Plan) -> Result<()> {
    let is_known = |text: &&String| {
        plan.arms
            .iter()
            .any(|arm| arm.arm.name.contains(text.as_str()))
    };
    match arguments.arms.iter().find(|text| !is_known(text)) {
        Some(text) => Err(Error::Usage(format!(
            "--arms {text}: no arm has this in its name; --dry-run lists them"
        ))),
        None => Ok(()),
    }
}

/// Refuses arms to compare to that are not there.
fn refuse_unknown_partners(arguments: &StudyArgs, plan: &Plan) -> Result<()> {
    let names: Vec<&str> = plan.arms.iter().map(|arm| arm.arm.name.as_str()).collect();
    arguments
        .compare_to
        .iter()
        .try_for_each(|other| against::places(&names, other).map(drop))
}

/// Refuses a study that is not the one that the folder's runs are of.
fn refuse_changes(earlier: &StudyRecord, now: &StudyRecord, folder: &Path) -> Result<()> {
    let changes = earlier.changes(now);
    if changes.is_empty() {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "the study has changed since its runs in {} began: {}; undo that, or name another folder with --out",
        folder.display(),
        changes.join("; ")
    )))
}

/// Returns the runs of a study in words.
fn listed(arguments: &StudyArgs, plan: &Plan) -> String {
    let runs = wanted_runs(arguments, plan);
    let seeds: Vec<String> = plan.study.seeds.iter().map(u64::to_string).collect();
    let part = arguments
        .shard
        .map(|part| format!(", of which part {part} has {}", plan.runs(Some(part)).len()));
    let wanted =
        (!arguments.arms.is_empty()).then(|| format!("; {} are to do, by --arms", runs.len()));
    let mut text = format!(
        "{}: valid, {} arms with the seeds {}: {} runs{}{}\n",
        arguments.study.display(),
        plan.arms.len(),
        seeds.join(", "),
        plan.runs(None).len(),
        part.unwrap_or_default(),
        wanted.unwrap_or_default()
    );
    for arm in plan
        .arms
        .iter()
        .filter(|arm| is_wanted(arguments, &arm.arm.name))
    {
        let changes = if arm.arm.set.is_empty() {
            String::new()
        } else {
            format!(" --set {}", arm.arm.set.join(" --set "))
        };
        text.push_str(&format!(
            "  {}: {}{changes}\n",
            arm.arm.name,
            arm.arm.base.display()
        ));
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
