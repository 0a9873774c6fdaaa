//! The folder of a study: its record, the reports of its runs, and what became of each.
//!
//! The report of a run is in `runs/ARM/SEED/`, what its process printed in `runs/ARM/SEED.log`, and
//! why it failed, if it did, in `runs/ARM/SEED.failed`.

use std::fs;
use std::path::{Path, PathBuf};

use super::OpenStudy;
use crate::cli::output_file::write_files;
use crate::{Error, Result};
use fedrecsim_report::study::{
    ArmResults, PlannedArm, Results, RunId, RunResult, RunState, StudyRecord, as_saved,
    depends_on_timing,
};
use fedrecsim_report::{FolderLock, SavedReport, SavedRun};
use fedrecsim_sim::checkpoint::{self, Build};

/// The task of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToDo {
    /// Nothing: its report is complete.
    Nothing,
    /// The run goes on from a checkpoint.
    Resume,
    /// The run begins, and replaces the contents of its folder.
    Begin,
    /// The run begins although there is a checkpoint of it, since another build of the program has
    /// left that.
    BeginAnew,
}

impl OpenStudy<'_> {
    /// Takes the folder, which is made if it is not there, until the lock is dropped, and is removed
    /// then if it was made and nothing is in it. Returns the
    /// record of the study that goes on there or begins, which is not written yet.
    ///
    /// # Errors
    /// [`Error::Usage`] if something else than this study is in the folder, or another process is at
    /// work there.
    pub(super) fn begin(&self) -> Result<(FolderLock, StudyRecord)> {
        let path = &self.path;
        let lock = FolderLock::make_and_take(path)?;
        let mut entries = fs::read_dir(path).map_err(|reason| Error::read(path, reason))?;
        let is_ours = |entry: fs::DirEntry| {
            let name = entry.file_name();
            name.to_string_lossy().starts_with(".fedrecsim")
        };
        if !path.join(StudyRecord::FILE_NAME).exists()
            && !entries.all(|entry| entry.is_ok_and(is_ours))
        {
            return Err(Error::Usage(format!(
                "{} is there already and holds no study; name another folder with --out",
                path.display()
            )));
        }
        let (record, earlier) = self.record()?;
        let changes = earlier.map_or(Vec::new(), |earlier| {
            earlier.changes(&record, &self.session.vocabulary())
        });
        if !changes.is_empty() {
            return Err(Error::Usage(format!(
                "the study has changed since its runs in {} began: {}; undo that, or name another folder with --out",
                path.display(),
                changes.join("; ")
            )));
        }
        Ok((lock, record))
    }

    /// Returns the record of this study, and that of the study that was begun in the folder, if
    /// there is one.
    ///
    /// # Errors
    /// [`Error::Read`] or [`Error::Usage`] for a record that cannot be read.
    pub(super) fn record(&self) -> Result<(StudyRecord, Option<StudyRecord>)> {
        let is_begun = self.path.join(StudyRecord::FILE_NAME).exists();
        let earlier = is_begun
            .then(|| StudyRecord::read(&self.path))
            .transpose()?;
        let shard = self.arguments.shard;
        let record = StudyRecord::of(&self.plan, &self.text, shard, earlier.as_ref())?;
        Ok((record, earlier))
    }

    /// Writes the record.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub(super) fn write_record(&self, record: &StudyRecord) -> Result<()> {
        let files = vec![(
            StudyRecord::FILE_NAME.to_owned(),
            record.render()?.into_bytes(),
        )];
        write_files(&self.path, files, true)
    }

    /// Returns the folder of a run's report.
    pub(super) fn folder_of(&self, run: RunId) -> PathBuf {
        self.path.join(self.plan.folder(run))
    }

    /// Returns what is to be done for a run.
    ///
    /// # Errors
    /// Those of a scenario that cannot be written, which no file gives, and of a program that
    /// cannot read its own file.
    pub(super) fn to_do(&self, run: RunId) -> Result<ToDo> {
        let (folder, scenario) = (self.folder_of(run), self.plan.scenario(run));
        let saved = as_saved(&scenario)?;
        let vocabulary = self.session.vocabulary();
        if SavedRun::read(&folder).is_ok_and(|report| report.completes(&saved, &vocabulary)) {
            return Ok(ToDo::Nothing);
        }
        let table = |text: &str| text.parse::<toml::Table>().ok();
        let ours = table(&scenario.to_toml()?);
        let found = checkpoint::is_in(&folder).then(|| checkpoint::find(&folder).ok());
        let header = found.flatten().map(|found| found.checkpoint.header);
        let Some(header) = header.filter(|header| table(&header.scenario) == ours) else {
            return Ok(ToDo::Begin);
        };
        // The version of a method that changes by itself is compared by the run.
        let running = Build::running(&crate::PROGRAM, &header.build.method)?;
        Ok(match header.check_build(&running) {
            Ok(()) => ToDo::Resume,
            Err(_) => ToDo::BeginAnew,
        })
    }

    /// Returns those of `runs` that are still to be done, each with what that is.
    ///
    /// # Errors
    /// As [`Self::to_do`].
    pub(super) fn left_of(&self, runs: &[RunId]) -> Result<Vec<(RunId, ToDo)>> {
        let mut left = Vec::new();
        for &run in runs {
            left.push((run, self.to_do(run)?));
        }
        left.retain(|(_, to_do)| *to_do != ToDo::Nothing);
        Ok(left)
    }

    /// Returns whether a process is at work on a run, as one does that a killed study has left
    /// behind.
    pub(super) fn is_at_work(&self, run: RunId) -> bool {
        // A folder that is not there, or that nobody can write to, has nobody at work.
        matches!(FolderLock::take(&self.folder_of(run)), Err(Error::Usage(_)))
    }

    /// Returns the results of the runs of the part, or of all of them.
    ///
    /// # Errors
    /// [`Error::Read`] for a report that is complete and cannot be read.
    pub(super) fn results(&self) -> Result<Results> {
        let (plan, shard, without_data) = (&self.plan, self.arguments.shard, self.without_data());
        let results_of = |arm: &PlannedArm| ArmResults {
            name: arm.arm.name.clone(),
            experiment: (arm.arm.experiment != arm.arm.name).then(|| arm.arm.experiment.clone()),
            timing: depends_on_timing(&arm.scenario),
            compare_to: arm.arm.compare_to,
            chosen_from: arm.arm.chosen_from,
            runs: Vec::new(),
        };
        let mut arms: Vec<ArmResults> = plan.arms.iter().map(results_of).collect();
        for run in plan.runs(shard) {
            let mut result = self.result(run)?;
            if result.state == RunState::NotRun && without_data.contains(&run.arm) {
                result.state = RunState::NoData;
            }
            arms[run.arm].runs.push(result);
        }
        Ok(Results {
            title: plan.study.title.clone(),
            arms,
            metrics: plan.metrics.clone(),
            references: plan.study.references.clone(),
            courses: plan.study.courses.clone(),
            shard: shard.map(|shard| shard.to_string()),
        })
    }

    /// Returns what has become of a run.
    ///
    /// # Errors
    /// [`Error::Read`] for a report that is complete and cannot be read.
    pub(super) fn result(&self, run: RunId) -> Result<RunResult> {
        let folder = self.folder_of(run);
        let shown = self.plan.folder(run);
        if self.to_do(run)? == ToDo::Nothing {
            return Ok(RunResult::of(shown, SavedReport::read(&folder)?));
        }
        // A run that is not complete and has not failed was stopped with the study.
        let failure = fs::read_to_string(failure_of(&folder));
        let failed = |reason: String| RunState::Failed(reason.trim().to_owned());
        Ok(RunResult {
            seed: run.seed,
            folder: shown,
            state: failure.map_or(RunState::NotRun, failed),
            report: None,
        })
    }
}

/// Returns the arms of runs, each once.
pub(super) fn arms_of<'r>(runs: impl Iterator<Item = &'r RunId>) -> Vec<usize> {
    let mut arms: Vec<usize> = runs.map(|run| run.arm).collect();
    arms.dedup();
    arms
}

/// Returns the file with what a run's process prints.
pub(crate) fn log_of(folder: &Path) -> PathBuf {
    beside(folder, "log")
}

/// Returns the file that says why a run failed.
pub(crate) fn failure_of(folder: &Path) -> PathBuf {
    beside(folder, "failed")
}

/// Returns the file beside a run's folder, which is named after its seed.
fn beside(folder: &Path, extension: &str) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!("{name}.{extension}"))
}

/// Writes down why a run failed.
///
/// # Errors
/// [`Error::Write`].
pub(crate) fn note_failure(folder: &Path, reason: &str) -> Result<()> {
    let path = failure_of(folder);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let file = (name.into_owned(), format!("{reason}\n").into_bytes());
    write_files(path.parent().unwrap_or(Path::new("")), vec![file], true)
}
