//! The folder of a study: its record, the reports of its runs, and what became of each.
//!
//! The report of a run is in `runs/ARM/SEED/`, what its process printed in `runs/ARM/SEED.log`, and
//! why it failed, if it did, in `runs/ARM/SEED.failed`.

use std::fs;
use std::path::{Path, PathBuf};

use fedrecsim_core::error::{Error, Result};
use fedrecsim_report::report::FolderLock;
use fedrecsim_report::report::read::{SavedReport, SavedRun};
use fedrecsim_report::study::plan::{Plan, RunId, Shard, as_saved};
use fedrecsim_report::study::record::{FILE_NAME, StudyRecord};
use fedrecsim_report::study::results::{ArmResults, Results, RunResult, RunState};
use fedrecsim_report::study::sharing;
use fedrecsim_sim::checkpoint::{self, Build};

/// A study's folder, which no other process can take meanwhile if it was opened.
#[derive(Debug)]
pub(crate) struct StudyFolder {
    path: PathBuf,
    _lock: Option<FolderLock>,
}

/// What is to be done for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToDo {
    /// Nothing: its report is complete.
    Nothing,
    /// The run goes on from a checkpoint.
    Resume,
    /// The run begins, and replaces whatever is in its folder.
    Begin,
    /// The run begins although there is a checkpoint of it, since another build of the program has
    /// left that.
    BeginAnew,
}

impl StudyFolder {
    /// Takes the folder at `path`, which is made if it is not there.
    ///
    /// # Errors
    /// [`Error::Usage`] if something else than a study is in it, or another process is at work
    /// there.
    pub(crate) fn open(path: PathBuf) -> Result<Self> {
        fs::create_dir_all(&path).map_err(|reason| Error::write(&path, reason))?;
        let lock = FolderLock::take(&path)?;
        let mut entries = fs::read_dir(&path).map_err(|reason| Error::read(&path, reason))?;
        let is_ours = |entry: fs::DirEntry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with(".fedrecsim")
        };
        if !path.join(FILE_NAME).exists() && !entries.all(|entry| entry.is_ok_and(is_ours)) {
            return Err(Error::Usage(format!(
                "{} is there already and holds no study; name another folder with --out",
                path.display()
            )));
        }
        Ok(Self {
            path,
            _lock: Some(lock),
        })
    }

    /// Returns the folder at `path` without taking it, for a single run of the study, whose own
    /// folder is taken instead.
    pub(crate) fn shared(path: PathBuf) -> Self {
        Self { path, _lock: None }
    }

    /// Returns the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the record of the study that was begun here, if there is one.
    ///
    /// # Errors
    /// [`Error::Read`] or [`Error::Usage`] for a record that cannot be read.
    pub(crate) fn record(&self) -> Result<Option<StudyRecord>> {
        let path = self.path.join(FILE_NAME);
        if path.exists() {
            record_in(&self.path).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Writes the record.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub(crate) fn write_record(&self, record: &StudyRecord) -> Result<()> {
        let files = vec![(FILE_NAME.to_owned(), record.render()?.into_bytes())];
        super::write_files(&self.path, files, true)
    }

    /// Returns the folder of a run's report.
    pub fn run(&self, plan: &Plan, run: RunId) -> PathBuf {
        self.path.join(plan.folder(run))
    }

    /// Returns what is to be done for a run.
    ///
    /// # Errors
    /// Those of a scenario that cannot be written, which no file gives, and of a program that
    /// cannot read its own file.
    pub(crate) fn to_do(&self, plan: &Plan, run: RunId) -> Result<ToDo> {
        let folder = self.run(plan, run);
        let scenario = plan.scenario(run);
        let saved = as_saved(&scenario)?;
        if SavedRun::read(&folder).is_ok_and(|report| report.complete && report.scenario == saved) {
            return Ok(ToDo::Nothing);
        }
        let table = |text: &str| text.parse::<toml::Table>().ok();
        let ours = table(&scenario.to_toml()?);
        let found = if checkpoint::is_in(&folder) {
            checkpoint::find(&folder).ok()
        } else {
            None
        };
        let headers = found.map(|found| found.checkpoint.header);
        let Some(header) = headers.filter(|header| table(&header.scenario) == ours) else {
            return Ok(ToDo::Begin);
        };
        // The version of a method that changes by itself is compared by the run.
        let running = Build::running(&crate::PROGRAM, &header.build.method)?;
        Ok(if header.check_build(&running).is_ok() {
            ToDo::Resume
        } else {
            ToDo::BeginAnew
        })
    }

    /// Returns whether a process is at work on a run, as one does that a killed study has left
    /// behind.
    pub(crate) fn is_at_work(&self, plan: &Plan, run: RunId) -> bool {
        // A folder that is not there, or that nobody can write to, has nobody at work.
        matches!(FolderLock::take(&self.run(plan, run)), Err(Error::Usage(_)))
    }

    /// Returns the results of the runs of a part, or of all of them.
    ///
    /// # Errors
    /// [`Error::Read`] for a report that is complete and cannot be read.
    pub(crate) fn results(
        &self,
        plan: &Plan,
        shard: Option<Shard>,
        without_data: &[usize],
    ) -> Result<Results> {
        let mut arms: Vec<ArmResults> = plan
            .arms
            .iter()
            .map(|arm| ArmResults {
                name: arm.arm.name.clone(),
                timing: sharing::depends_on_timing(&arm.scenario),
                compare_to: arm.arm.compare_to,
                runs: Vec::new(),
            })
            .collect();
        for run in plan.runs(shard) {
            let state = match self.state(plan, run)? {
                RunState::NotRun if without_data.contains(&run.arm) => RunState::NoData,
                state => state,
            };
            arms[run.arm].runs.push(RunResult {
                seed: run.seed,
                folder: plan.folder(run),
                state,
            });
        }
        Ok(Results {
            title: plan.study.title.clone(),
            arms,
            figures: plan.figures.clone(),
            references: plan.study.references.clone(),
            courses: plan.study.courses.clone(),
            shard: shard.map(|shard| shard.to_string()),
        })
    }

    /// Returns what has become of a run.
    ///
    /// # Errors
    /// [`Error::Read`] for a report that is complete and cannot be read.
    pub(crate) fn state(&self, plan: &Plan, run: RunId) -> Result<RunState> {
        let folder = self.run(plan, run);
        if self.to_do(plan, run)? == ToDo::Nothing {
            let report = SavedReport::read(&folder)?;
            return Ok(report
                .run
                .failure()
                .map_or_else(|| RunState::Done(Box::new(report)), RunState::Failed));
        }
        // A run that is not complete and has not failed was stopped with the study.
        Ok(
            fs::read_to_string(failure_of(&folder)).map_or(RunState::NotRun, |reason| {
                RunState::Failed(reason.trim().to_owned())
            }),
        )
    }
}

/// Reads the record of the study in `folder`.
///
/// # Errors
/// [`Error::Read`] if there is none, [`Error::Usage`] for one that cannot be read.
pub(crate) fn record_in(folder: &Path) -> Result<StudyRecord> {
    let path = folder.join(FILE_NAME);
    let text = fs::read_to_string(&path).map_err(|reason| Error::read(&path, reason))?;
    StudyRecord::parse(&text)
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
    fs::write(&path, format!("{reason}\n")).map_err(|error| Error::write(path, error))
}

/// Removes a file, which may be absent.
///
/// # Errors
/// [`Error::Write`].
pub(crate) fn forget(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(reason) if reason.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::write(path, reason))
        }
        _ => Ok(()),
    }
}
