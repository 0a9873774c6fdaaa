//! Carries out `study`: runs beside each other, each a process of its own, and the tables of all of
//! them.
//!
//! [`OpenStudy`] is a study with its folder. [`folder`](mod@folder) is what it keeps there, and what became
//! of each run; [`fit`] says how much memory the runs take; [`carrier`] is the process
//! or the thread of one run; [`execute`](mod@execute) starts and watches them, as many and with as
//! many threads as [`limits`] says; `progress` is what a user sees of that; [`merge`](mod@merge)
//! takes runs of parts and of other studies; [`slurm`] has a cluster's scheduler run them; [`outside`] is for runs that something else starts.

mod carrier;
mod execute;
mod fit;
mod folder;
mod limits;
mod merge;
pub mod outside;
mod progress;
mod slurm;

use std::path::{Path, PathBuf};

use super::args::StudyArgs;
use super::inputs::data_directories;
use super::output_file::write_files;
use super::{Finished, Session, ranks};
use carrier::Start;
use fedrecsim_core::{Error, ErrorKind, Result};
use fedrecsim_data::dataset;
use fedrecsim_report::study::file::{self, Changes, MissingData};
use fedrecsim_report::study::{Plan, Results, RunId, against, tables};
use fedrecsim_report::words::counted;
use folder::ToDo;

/// The name of the tables' files.
const NAME: &str = "study";

/// The number of checkpoints that a run leaves if nothing else is asked for.
const CHECKPOINTS: u32 = 10;

/// Runs a study, or lists its runs, or puts its parts together, and writes its tables.
///
/// # Errors
/// Every error that keeps the study from starting: a fault of its file or of an arm, a folder that
/// holds another study, an arm that would not fit into memory. Runs that fail are no error here.
pub(crate) fn study(arguments: &StudyArgs, session: &Session) -> Result<Finished> {
    if session.is_program {
        ranks::refuse_several("study")?;
    }
    session.listen()?;
    let work = OpenStudy::of(arguments, session)?;
    work.plan
        .warnings
        .iter()
        .for_each(|text| session.warn(text));
    work.refuse_unknown_partners()?;
    if arguments.dry_run {
        return Ok(work.listed().into());
    }
    let (_lock, mut record) = work.begin()?;
    if !arguments.merge.is_empty() {
        merge::merge(&work, &record, &arguments.merge)?;
    }
    work.write_record(&record)?;
    if arguments.slurm.is_some() {
        return slurm::write(&work, &mut record);
    }
    if arguments.merge.is_empty() && !arguments.no_run {
        let runs = work.runs_with_data();
        if !arguments.reuse.is_empty() {
            let taken = merge::reuse(&work, &runs, &arguments.reuse)?;
            let all = runs.len();
            session.note(&format!(
                "{taken} of {all} runs are taken from other studies"
            ));
        }
        let power = work.plan.power();
        if !power.is_empty() && !work.left_of(&runs)?.is_empty() {
            session.note(&power);
        }
        execute::execute(&work, &mut record, runs)?;
    }
    let whole = work.results()?;
    let results = whole.clone().of_arms(|name| work.is_wanted(name));
    write_files(&work.path, tables::files(&results, NAME)?, true)?;
    let mut finished = Finished::in_files(work.shown(&whole, &results)?);
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

/// A study whose file was read and whose arms are resolved, and its folder.
struct OpenStudy<'a> {
    arguments: &'a StudyArgs,
    session: &'a Session<'a>,
    plan: Plan,
    /// The text of its file.
    text: String,
    /// The folder.
    path: PathBuf,
}

impl<'a> OpenStudy<'a> {
    /// Reads the study and resolves its arms, and refuses `--arms` that no name contains.
    fn of(arguments: &'a StudyArgs, session: &'a Session<'a>) -> Result<Self> {
        let changes = Changes {
            set: arguments.set.clone(),
            seeds: arguments.seeds.clone(),
        };
        let (study, text) = file::load(&arguments.study, &changes)?;
        let plan = Plan::of(study, &session.vocabulary())?;
        let name = match arguments.shard {
            None => plan.study.name.clone(),
            Some(part) => format!("{}-part-{}-of-{}", plan.study.name, part.index, part.count),
        };
        let by_default = || Path::new("reports").join(name);
        let work = Self {
            path: arguments.out.clone().unwrap_or_else(by_default),
            arguments,
            session,
            plan,
            text,
        };
        let names = work.names();
        let is_unknown = |text: &&String| !names.iter().any(|name| name.contains(text.as_str()));
        match arguments.arms.iter().find(is_unknown) {
            None => Ok(work),
            Some(text) => Err(Error::Usage(format!(
                "--arms {text}: no arm has this in its name; --dry-run lists them"
            ))),
        }
    }

    fn names(&self) -> Vec<&str> {
        let arms = self.plan.arms.iter();
        arms.map(|arm| arm.arm.name.as_str()).collect()
    }

    /// Returns whether an arm of this name is asked for.
    fn is_wanted(&self, arm: &str) -> bool {
        let wanted = &self.arguments.arms;
        wanted.is_empty() || wanted.iter().any(|text| arm.contains(text))
    }

    /// Returns the runs of the part, or of all of them, whose arms are asked for.
    fn wanted_runs(&self) -> Vec<RunId> {
        let mut runs = self.plan.runs(self.arguments.shard);
        runs.retain(|run| self.is_wanted(&self.plan.arms[run.arm].arm.name));
        runs
    }

    /// Returns the wanted runs whose data set is there, or has to be.
    fn runs_with_data(&self) -> Vec<RunId> {
        let without_data = self.without_data();
        let mut runs = self.wanted_runs();
        runs.retain(|run| !without_data.contains(&run.arm));
        runs
    }

    /// Returns the arms that are left out because their data set is not on this machine, by their
    /// places.
    fn without_data(&self) -> Vec<usize> {
        if self.plan.study.missing_data == MissingData::Refuse {
            return Vec::new();
        }
        let directories = data_directories(self.arguments.data_dir.as_deref());
        let is_missing = |arm: &usize| {
            let wanted = &self.plan.arms[*arm].scenario.dataset;
            dataset::registry::is_missing(wanted, &directories)
        };
        (0..self.plan.arms.len()).filter(is_missing).collect()
    }

    /// Refuses arms to compare to that are not there.
    fn refuse_unknown_partners(&self) -> Result<()> {
        let names = self.names();
        let mut others = self.arguments.compare_to.iter();
        others.try_for_each(|other| against::places(&names, other).map(drop))
    }

    /// Returns the runs of the study in words.
    fn listed(&self) -> String {
        let (arguments, plan) = (self.arguments, &self.plan);
        let seeds: Vec<String> = plan.study.seeds.iter().map(u64::to_string).collect();
        let mut text = format!(
            "{}: valid, {} with the {} {}: {}",
            arguments.study.display(),
            counted(plan.arms.len() as u64, "arm"),
            if seeds.len() == 1 { "seed" } else { "seeds" },
            seeds.join(", "),
            counted(plan.runs(None).len() as u64, "run"),
        );
        if let Some(part) = arguments.shard {
            let runs = plan.runs(Some(part)).len();
            text += &format!(", of which part {part} has {runs}");
        }
        if !arguments.arms.is_empty() {
            let runs = self.wanted_runs().len();
            text += &format!("; {runs} are to do, by --arms");
        }
        let arms = plan.arms.iter().map(|planned| &planned.arm);
        for arm in arms.filter(|arm| self.is_wanted(&arm.name)) {
            text += &format!("\n  {}: {}", arm.name, arm.base.display());
            for set in &arm.set {
                text += &format!(" --set {set}");
            }
        }
        let power = plan.power();
        if !power.is_empty() {
            text += &format!("\n{power}");
        }
        text + "\n"
    }

    /// Returns what to print: the tables of the wanted `results`, or, where other arms to compare to
    /// are named, those with the differences to them, which are written beside the others.
    fn shown(&self, whole: &Results, results: &Results) -> Result<String> {
        let mut texts = Vec::new();
        for other in &self.arguments.compare_to {
            // An arm that is not asked for may be one that others are now compared to.
            let against = whole.clone().against(other)?;
            let against = against.of_arms(|name| self.is_wanted(name));
            let files = tables::files_against(&against, NAME, other)?;
            write_files(&self.path, files, true)?;
            texts.push(tables::markdown(&against));
        }
        if texts.is_empty() {
            texts.push(tables::markdown(results));
        }
        let folder = self.path.display();
        Ok(format!("{}\nwritten to {folder}\n", texts.join("\n")))
    }

    /// Returns what starts a run with this many threads.
    fn start(&self, run: RunId, to_do: ToDo, threads: usize) -> Start {
        let (arguments, planned) = (self.arguments, &self.plan.arms[run.arm]);
        let every = planned.scenario.training.rounds.div_ceil(CHECKPOINTS);
        Start {
            folder: self.folder_of(run),
            to_do,
            base: planned.arm.base.clone(),
            set: planned.arm.set.clone(),
            seed: run.seed,
            checkpoint_every: arguments.checkpoint_every.unwrap_or(every.max(1)),
            threads,
            data_dir: arguments.data_dir.clone(),
        }
    }
}
