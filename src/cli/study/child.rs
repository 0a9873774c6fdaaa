//! The process of one run: its command, how it is told to stop, and why it failed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use super::folder::{ToDo, failure_of, log_of};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_report::report::read::{SavedReport, SavedRun};

/// The most characters of a reason.
const LONGEST_REASON: usize = 600;

/// What is needed to start a run.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    /// The folder of its report.
    pub folder: PathBuf,
    /// Whether it begins or goes on.
    pub to_do: ToDo,
    /// The scenario file.
    pub base: PathBuf,
    /// The overrides.
    pub set: Vec<String>,
    /// The seed.
    pub seed: u64,
    /// The number of rounds from one checkpoint to the next.
    pub checkpoint_every: u32,
    /// The number of its threads.
    pub threads: usize,
}

/// How all runs of a study are started.
#[derive(Clone, Debug)]
pub(crate) struct Launcher {
    /// The words before the program: what starts it.
    pub before: Vec<String>,
    /// The program, which is the one that runs the study.
    pub program: PathBuf,
    /// The folder with data sets, if it is named.
    pub data_dir: Option<PathBuf>,
}

impl Launcher {
    /// Returns the words of a run's command.
    pub(crate) fn words(&self, start: &Start) -> Vec<OsString> {
        let mut words: Vec<OsString> = self.before.iter().map(OsString::from).collect();
        words.push(self.program.clone().into());
        let mut option = |name: &str, value: OsString| words.extend([name.into(), value]);
        match start.to_do {
            ToDo::Resume => option("resume", start.folder.clone().into()),
            ToDo::Begin | ToDo::BeginAnew | ToDo::Nothing => {
                option("run", start.base.clone().into());
                start.set.iter().for_each(|set| option("--set", set.into()));
                option("--seed", start.seed.to_string().into());
                option("--out", start.folder.clone().into());
            }
        }
        option(
            "--checkpoint-every",
            start.checkpoint_every.to_string().into(),
        );
        option("--threads", start.threads.to_string().into());
        option("--progress", "rounds".into());
        if let Some(folder) = &self.data_dir {
            option("--data-dir", folder.clone().into());
        }
        if start.to_do != ToDo::Resume {
            words.push("--overwrite".into());
        }
        words
    }

    /// Starts a run. What it prints goes to its log.
    ///
    /// # Errors
    /// [`Error::Write`] for a folder or a log that cannot be made, [`Error::Usage`] for a command
    /// that cannot be started.
    pub(crate) fn start(&self, start: &Start) -> Result<Child> {
        let log = log_of(&start.folder);
        let unwritten = |reason| Error::write(&log, reason);
        fs::create_dir_all(start.folder.parent().unwrap_or(Path::new("."))).map_err(unwritten)?;
        forget_failure(&start.folder)?;
        let file = match start.to_do {
            ToDo::Resume => File::options()
                .create(true)
                .append(true)
                .open(&log)
                .map_err(unwritten)?,
            ToDo::Begin | ToDo::BeginAnew | ToDo::Nothing => {
                File::create(&log).map_err(unwritten)?
            }
        };
        let words = self.words(start);
        let mut command = Command::new(&words[0]);
        let other = file.try_clone().map_err(unwritten)?;
        command
            .args(&words[1..])
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(other);
        command.spawn().map_err(|reason| {
            let command: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            Error::Usage(format!("cannot start `{}`: {reason}", command.join(" ")))
        })
    }
}

/// Tells a run to stop: it gives up its round and reports those before.
#[cfg(unix)]
pub(crate) fn tell_to_stop(child: &Child) {
    // A process that has just ended is not there to be told.
    let _ = rustix::process::kill_process(
        rustix::process::Pid::from_child(child),
        rustix::process::Signal::TERM,
    );
}

/// Does nothing: elsewhere Ctrl-C reaches all processes of a console.
#[cfg(not(unix))]
pub(crate) fn tell_to_stop(_child: &Child) {}

/// Returns why a run that has ended has no result; `None` if it has one.
pub(crate) fn failure(folder: &Path, status: ExitStatus) -> Option<String> {
    if status.success() {
        return failure_of_report(folder);
    }
    let by_report = SavedRun::read(folder).ok().and_then(|run| run.failure());
    // The report may be that of an earlier run, so the words of the process come first.
    let log = fs::read(log_of(folder)).unwrap_or_default();
    let reason = last_error(&String::from_utf8_lossy(&log)).or(by_report);
    Some(reason.unwrap_or_else(|| format!("the process ended with {status} and no message")))
}

/// Returns why the report in `folder` is that of a run without a result; `None` if it has one.
pub(crate) fn failure_of_report(folder: &Path) -> Option<String> {
    match SavedReport::read(folder) {
        Ok(report) => report.run.failure(),
        Err(error) => Some(error.to_string()),
    }
}

/// Returns whether a run that has ended was stopped by a signal rather than by an error of its own.
pub(crate) fn was_stopped(folder: &Path) -> bool {
    let log = fs::read(log_of(folder)).unwrap_or_default();
    let reason = last_error(&String::from_utf8_lossy(&log));
    let interrupted = Error::Interrupted.to_string();
    // A process that was told before it listened to signals has said nothing.
    reason.is_none_or(|reason| reason == interrupted || !reason.contains("error"))
}

/// Writes down why a run failed.
///
/// # Errors
/// [`Error::Write`].
pub(crate) fn note_failure(folder: &Path, reason: &str) -> Result<()> {
    let path = failure_of(folder);
    fs::write(&path, format!("{reason}\n")).map_err(|error| Error::write(path, error))
}

/// Returns the last error that a process has printed, or its last lines if it has printed none.
fn last_error(log: &str) -> Option<String> {
    let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    let from = lines
        .iter()
        .rposition(|line| line.starts_with("error:"))
        .unwrap_or(lines.len().saturating_sub(3));
    let text = lines[from..].join("\n");
    let text = text.strip_prefix("error:").unwrap_or(&text).trim();
    (!text.is_empty()).then(|| text.chars().take(LONGEST_REASON).collect())
}

/// Forgets why a run failed before.
///
/// # Errors
/// [`Error::Write`].
pub(crate) fn forget_failure(folder: &Path) -> Result<()> {
    let path = failure_of(folder);
    match fs::remove_file(&path) {
        Err(reason) if reason.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::write(path, reason))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    /// If this fails, a run of a study has another scenario than its arm, or a command that the
    /// program refuses.
    #[test]
    fn the_command_of_a_run_is_one_that_the_program_takes() {
        let launcher = Launcher {
            before: vec!["nice".to_owned()],
            program: "p".into(),
            data_dir: Some("d".into()),
        };
        let set = vec!["codec.uplink={ delta = true }".to_owned()];
        let mut start = Start {
            folder: "o/3".into(),
            to_do: ToDo::Begin,
            base: "b.toml".into(),
            set,
            seed: 3,
            checkpoint_every: 4,
            threads: 2,
        };
        let words = launcher.words(&start);
        assert_eq!((&words[0], &words[1]), (&"nice".into(), &"p".into()));
        let Command::Run(run) = Cli::try_parse_from(&words[1..]).unwrap().command else {
            panic!("{words:?}")
        };
        assert_eq!(
            run.input.overrides(),
            ["codec.uplink={ delta = true }", "seed=3"]
        );
        assert_eq!((run.out, run.overwrite), (Some("o/3".into()), true));
        let words = launcher.words(&Start {
            to_do: ToDo::BeginAnew,
            ..start.clone()
        });
        assert_eq!(
            words,
            launcher.words(&start),
            "a checkpoint of another build is not in the way"
        );
        start.to_do = ToDo::Resume;
        let Command::Resume(resume) = Cli::try_parse_from(&launcher.words(&start)[1..])
            .unwrap()
            .command
        else {
            panic!("not resumed")
        };
        assert_eq!(resume.folder, Path::new("o/3"));
    }

    #[test]
    fn the_reason_of_a_failure_is_what_the_process_said_last() {
        let log = "round 1/3: x\nerror: no\nround 1/3: y\nerror: training diverged\n  in round 2\n";
        assert_eq!(
            last_error(log).as_deref(),
            Some("training diverged\n  in round 2")
        );
        assert_eq!(last_error("a\nb\nc\nd\n").as_deref(), Some("b\nc\nd"));
        assert_eq!(last_error("\n"), None);
    }
}
