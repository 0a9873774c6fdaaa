//! Carries out `study` and `search`: runs beside each other, each a process of its own, and the tables of all of
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

use super::args::{StudyArgs, StudyRunsArgs};
use super::inputs::data_directories;
use super::output_file::write_files;
use super::{Finished, Session, screen};
use carrier::Start;
use fedrecsim_core::{Error, ErrorKind, Result, Streams};
use fedrecsim_data::dataset;
use fedrecsim_report::study::file::{self, Changes, MissingData};
use fedrecsim_report::study::search::SearchPlan;
use fedrecsim_report::study::{Plan, Results, RunId, StudyRecord, against, explained, tables};
use fedrecsim_report::words::counted;
use fedrecsim_scenario::instead_of;
use fedrecsim_scenario::{DatasetSpec, Scenario};
use folder::ToDo;

/// The name of the tables' files.
const NAME: &str = "study";

/// The columns of the table that `--explain` writes to a file.
const COLUMNS_OF_A_FILE: usize = 120;

/// The number of checkpoints that a run leaves if nothing else is asked for.
const CHECKPOINTS: u32 = 10;

/// Runs a study, or lists its runs, or puts its parts together, and writes its tables.
///
/// # Errors
/// Every error that keeps the study from starting: a fault of its file or of an arm, a folder that
/// holds another study, an arm that would not fit into memory. Runs that fail are no error here.
pub(crate) fn study(arguments: &StudyArgs, session: &Session) -> Result<Finished> {
    session.begin_runs("study")?;
    let work = OpenStudy::of(&arguments.runs, &arguments.compare_to, session)?;
    work.refuse_unknown_partners()?;
    work.carry_out(|work| {
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
        finished.errors.extend(work.interruption(not_run));
        Ok(finished)
    })
}

/// Searches for the settings of a study's arms, and writes what it found and chose.
///
/// # Errors
/// As [`study()`], and for a study without a search, and for arms that a search cannot choose for.
pub(crate) fn search(arguments: &StudyRunsArgs, session: &Session) -> Result<Finished> {
    session.begin_runs("search")?;
    let (work, plan) = OpenStudy::of_search(arguments, session)?;
    work.carry_out(|work| {
        let results = work.results()?;
        let found = tables::Found::of(&plan, &results);
        write_files(&work.path, found.files()?, true)?;
        let (text, folder) = (found.markdown(), work.path.display());
        let mut finished = Finished::in_files(format!("{text}\nwritten to {folder}\n"));
        let (failed, [_, not_run, _]) = (results.failures().len(), results.counts());
        if failed > 0 {
            let failed = counted(failed as u64, "run");
            finished.warnings.push(format!(
                "{failed} of the search failed, and the trials count all the same; search.md has the reasons, and the same command tries them again"
            ));
        }
        let hopeless = found.hopeless();
        if !hopeless.is_empty() {
            let message = format!(
                "every trial has failed of {}; widen the search space, or mend what search.md tells",
                hopeless.join("; ")
            );
            finished.errors.push(Error::Told {
                kind: ErrorKind::EndOfRun,
                message,
            });
        }
        finished.errors.extend(work.interruption(not_run));
        Ok(finished)
    })
}

/// A study whose file was read and whose arms are resolved, and its folder.
struct OpenStudy<'a> {
    arguments: &'a StudyRunsArgs,
    /// The further arms to compare to.
    compare_to: &'a [String],
    session: &'a Session<'a>,
    plan: Plan,
    /// Whether the arms are the trials of a search.
    is_search: bool,
    /// The text of its file.
    text: String,
    /// The folder.
    path: PathBuf,
}

impl<'a> OpenStudy<'a> {
    /// Reads the study and resolves its arms, and refuses `--arms` that no name contains.
    fn of(
        arguments: &'a StudyRunsArgs,
        compare_to: &'a [String],
        session: &'a Session<'a>,
    ) -> Result<Self> {
        let (study, text) = file::load(&arguments.study, &changes(arguments, session, false))?;
        let plan = Plan::of(study, &session.vocabulary(), wanted_by(arguments))?;
        let work = Self {
            compare_to,
            ..Self::opened(arguments, session, (plan, text), false)
        };
        work.refuse_unknown_arms().map(|()| work)
    }

    /// Reads the study and resolves the trials of its search, as [`Self::of`] does the arms.
    fn of_search(
        arguments: &'a StudyRunsArgs,
        session: &'a Session<'a>,
    ) -> Result<(Self, SearchPlan)> {
        let (study, text) = file::load(&arguments.study, &changes(arguments, session, true))?;
        let file = arguments.study.display().to_string();
        let search = SearchPlan::of(study, &file, &session.vocabulary(), wanted_by(arguments))?;
        let work = Self::opened(arguments, session, (search.plan.clone(), text), true);
        work.refuse_unknown_arms().map(|()| (work, search))
    }

    fn opened(
        arguments: &'a StudyRunsArgs,
        session: &'a Session<'a>,
        (plan, text): (Plan, String),
        is_search: bool,
    ) -> Self {
        let mut work = Self {
            arguments,
            compare_to: &[],
            session,
            plan,
            is_search,
            text,
            path: PathBuf::new(),
        };
        let mut name = work.name();
        if let Some(part) = arguments.shard {
            name += &format!("-part-{}-of-{}", part.index, part.count);
        }
        let by_default = || Path::new("reports").join(name);
        work.path = arguments.out.clone().unwrap_or_else(by_default);
        work
    }

    /// Returns the name of the study or of the search.
    fn name(&self) -> String {
        let name = &self.plan.study.name;
        match self.is_search {
            true => format!("{name}-search"),
            false => name.clone(),
        }
    }

    /// Refuses `--arms` that no name contains.
    fn refuse_unknown_arms(&self) -> Result<()> {
        let names = self.names();
        let is_unknown = |text: &&String| !names.iter().any(|name| is_named(name, text));
        match self.arguments.arms.iter().find(is_unknown) {
            None => Ok(()),
            Some(text) => Err(Error::Usage(format!(
                "--arms {text}: no arm has this in its name{}",
                instead_of(text, &names)
            ))),
        }
    }

    /// Makes the runs that are asked for, and then what `tables` makes of them.
    fn carry_out(&self, tables: impl FnOnce(&Self) -> Result<Finished>) -> Result<Finished> {
        let (arguments, session) = (self.arguments, self.session);
        let warnings = self.plan.warnings.iter();
        warnings.for_each(|text| session.warn(text));
        if arguments.dry_run || arguments.explain {
            return Ok(self.listed().into());
        }
        let (_lock, mut record) = self.begin()?;
        if !arguments.merge.is_empty() {
            merge::merge(self, &record, &arguments.merge)?;
        }
        self.write_record(&record)?;
        if arguments.slurm.is_some() {
            return slurm::write(self, &mut record);
        }
        if arguments.merge.is_empty() && !arguments.no_run {
            self.make_runs(&mut record)?;
        }
        tables(self)
    }

    /// Takes runs from other studies, if it may, and makes the others.
    fn make_runs(&self, record: &mut StudyRecord) -> Result<()> {
        let runs = self.runs_with_data();
        let left_out = self.wanted_runs().len() - runs.len();
        if left_out > 0 {
            self.session.note(&format!(
                "{} left out, since the data set is not here: --data-dir says where it is",
                counted(left_out as u64, "run")
            ));
        }
        if !self.arguments.reuse.is_empty() {
            let taken = merge::reuse(self, &runs, &self.arguments.reuse)?;
            let all = runs.len();
            self.session.note(&format!(
                "{taken} of {all} runs are taken from other studies"
            ));
        }
        if !self.left_of(&runs)?.is_empty()
            && let Some(power) = self.power()
        {
            self.session.note(&power);
        }
        execute::execute(self, record, runs)
    }

    /// Returns what difference the study can show, if anything is known of it. A search compares
    /// nothing.
    fn power(&self) -> Option<String> {
        if self.is_search {
            return None;
        }
        let directories = data_directories(self.arguments.data_dir.as_deref());
        let mut read: Vec<(DatasetSpec, Option<u64>)> = Vec::new();
        let tested = |scenario: &Scenario| {
            // Nothing draws negatives here, so that how they are drawn does not decide who is tested.
            let spec = DatasetSpec {
                negatives: Default::default(),
                ..scenario.dataset.clone()
            };
            if let Some((_, users)) = read.iter().find(|(known, _)| *known == spec) {
                return *users;
            }
            // A fault of the data is told by the run that meets it.
            let data = dataset::load(&spec, &directories, Streams::new(scenario.seed));
            let users = data.ok().map(|data| data.tested_users().len() as u64);
            read.push((spec, users));
            users
        };
        let power = self.plan.power(|arm| self.is_wanted(arm), tested);
        Some(power).filter(|power| !power.is_empty())
    }

    /// Returns the error of a study that was interrupted, if it was and runs are missing.
    fn interruption(&self, not_run: usize) -> Option<Error> {
        (self.session.is_interrupted() && not_run > 0).then_some(Error::Interrupted)
    }

    fn names(&self) -> Vec<&str> {
        let arms = self.plan.arms.iter();
        arms.map(|arm| arm.arm.name.as_str()).collect()
    }

    /// Returns whether an arm of this name is asked for.
    fn is_wanted(&self, arm: &str) -> bool {
        wanted_by(self.arguments)(arm)
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
        let mut others = self.compare_to.iter();
        others.try_for_each(|other| against::places(&names, other).map(drop))
    }

    /// Returns the runs of the study in words.
    fn listed(&self) -> String {
        let (arguments, plan) = (self.arguments, &self.plan);
        let seeds: Vec<String> = plan.study.seeds.iter().map(u64::to_string).collect();
        let mut text = format!(
            "{}: valid, {} with the {} {}: {}",
            arguments.study.display(),
            counted(
                plan.arms.len() as u64,
                if self.is_search { "trial" } else { "arm" },
            ),
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
        if arguments.explain {
            let study = &plan.study;
            let columns = screen::of_stdout().unwrap_or(COLUMNS_OF_A_FILE);
            return format!(
                "{text}\n\n{}",
                explained(study, columns, |arm| self.is_wanted(&arm.name))
            );
        }
        let arms = plan.arms.iter().map(|planned| &planned.arm);
        for arm in arms.filter(|arm| self.is_wanted(&arm.name)) {
            text += &format!("\n  {}: {}", arm.name, arm.base.display());
            for set in arm.overrides() {
                text += &format!(" --set {set}");
            }
        }
        if let Some(power) = self.power() {
            text += &format!("\n{power}");
        }
        text + "\n"
    }

    /// Returns what to print: the tables of the wanted `results`, or, where other arms to compare to
    /// are named, those with the differences to them, which are written beside the others.
    fn shown(&self, whole: &Results, results: &Results) -> Result<String> {
        let mut texts = Vec::new();
        for other in self.compare_to {
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
            set: planned.arm.overrides(),
            seed: run.seed,
            checkpoint_every: arguments.checkpoint_every.unwrap_or(every.max(1)),
            threads,
            known_bytes: None,
            data_dir: arguments.data_dir.clone(),
        }
    }
}

/// Returns what says whether an arm is asked for, by its name.
fn wanted_by(arguments: &StudyRunsArgs) -> impl Fn(&str) -> bool {
    let wanted = &arguments.arms;
    move |arm| wanted.is_empty() || wanted.iter().any(|text| is_named(arm, text))
}

/// Returns whether the name of an arm contains `text`, whose parts between asterisks may have anything
/// between them.
pub(super) fn is_named(arm: &str, text: &str) -> bool {
    let mut rest = Some(arm);
    for part in text.split('*') {
        rest = rest.and_then(|rest| Some(rest.split_once(part)?.1));
    }
    rest.is_some()
}

/// Returns what the command line changes in the study.
fn changes(arguments: &StudyRunsArgs, session: &Session, searches: bool) -> Changes {
    Changes {
        set: session.overrides(&arguments.set),
        seeds: arguments.seeds.clone(),
        searches,
    }
}

#[cfg(test)]
mod tests {
    use super::is_named;

    /// If this fails, arms are chosen that nobody has asked for, or others are left out.
    #[test]
    fn asterisks_stand_for_anything() {
        let arm = "data=ml-100k, method=fedmf, softmax, cut=0.6";
        for text in ["fedmf", "ml-100k*cut=0.6", "data=*fedmf*cut", "*", ""] {
            assert!(is_named(arm, text), "{text}");
        }
        for text in ["fedmf, cut", "cut=0.6*data", "ml-100k*cut=0.7"] {
            assert!(!is_named(arm, text), "{text}");
        }
    }
}
