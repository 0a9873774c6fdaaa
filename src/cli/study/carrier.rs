//! What carries out one run of a study: a process of its own, or a thread of this one.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use super::folder::{ToDo, failure_of, log_of};
use crate::cli::output_file::remove_if_there;
use crate::cli::{self, Session};
use crate::method::Entry;
use crate::{Error, Result};
use fedrecsim_core::memory;
use fedrecsim_report::{MadeFolders, SavedReport, SavedRun};

/// The most characters of a reason.
const LONGEST_REASON: usize = 600;

/// A run that is about to start.
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
    /// The memory that its arm is known to need.
    pub known_bytes: Option<u64>,
    /// The folder with data sets, if it is named.
    pub data_dir: Option<PathBuf>,
}

impl Start {
    /// Returns the words of the run's command, after those that start this program.
    fn words(&self, progress: &str) -> Vec<OsString> {
        let (resumes, folder) = (self.to_do == ToDo::Resume, self.folder.as_os_str());
        let mut words: Vec<OsString> = match resumes {
            true => vec!["resume".into(), folder.into()],
            false => vec!["run".into(), self.base.clone().into(), "--overwrite".into()],
        };
        let mut option = |name: &str, value: &OsStr| words.extend([name.into(), value.into()]);
        if !resumes {
            self.set
                .iter()
                .for_each(|set| option("--set", set.as_ref()));
            option("--seed", self.seed.to_string().as_ref());
            option("--out", folder);
        }
        let every = self.checkpoint_every.to_string();
        option("--checkpoint-every", every.as_ref());
        option("--threads", self.threads.to_string().as_ref());
        option("--progress", progress.as_ref());
        if let Some(folder) = &self.data_dir {
            option("--data-dir", folder.as_ref());
        }
        if let Some(bytes) = self.known_bytes.filter(|_| !resumes) {
            words.extend(["--known-memory".into(), bytes.to_string().into()]);
        }
        words
    }

    /// Makes room for the run's report, forgets why it failed before, and returns the log, which a
    /// run that goes on appends to.
    fn begin(&self) -> Result<File> {
        let log = log_of(&self.folder);
        let unwritten = |reason| Error::write(&log, reason);
        let _made = MadeFolders::make(self.folder.parent().unwrap_or(Path::new(".")))?;
        remove_if_there(&failure_of(&self.folder))?;
        // A link that somebody has put there is not followed.
        if self.to_do != ToDo::Resume || log.is_symlink() {
            remove_if_there(&log)?;
        }
        let opened = File::options().create(true).append(true).open(&log);
        opened.map_err(unwritten)
    }

    /// Starts a process. `program` are the words that start this program, and what comes before
    /// them. Its output goes to its log.
    ///
    /// # Errors
    /// [`Error::Write`] for a folder or a log that cannot be made, [`Error::Usage`] for a command
    /// that cannot be started.
    pub(crate) fn process(&self, program: &[OsString]) -> Result<Carrier> {
        let log = self.begin()?;
        let unwritten = |reason| Error::write(log_of(&self.folder), reason);
        let words = [program, &self.words("rounds")].concat();
        let spawned = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(unwritten)?)
            .stderr(log)
            .spawn();
        spawned.map(Carrier::Process).map_err(|reason| {
            let command: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            Error::Usage(format!("cannot start `{}`: {reason}", command.join(" ")))
        })
    }

    /// Starts a thread of this process.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system refuses one.
    pub(crate) fn thread(&self, methods: &[Entry]) -> Result<Carrier> {
        let stop = Arc::new(AtomicBool::new(false));
        let (start, methods, interrupted) = (self.clone(), methods.to_vec(), Arc::clone(&stop));
        let thread = thread::Builder::new()
            .name("run".to_owned())
            .spawn(move || start.carry_out(&methods, &interrupted))
            .map_err(|reason| memory::no_threads("the thread of a run", reason))?;
        Ok(Carrier::Thread {
            thread: Some(thread),
            stop,
        })
    }

    /// Carries out the run in this thread, and returns why it has no result; `None` if it has one.
    /// It parses the same command line as a process would, so both give the same run.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if `interrupted` was set.
    pub(crate) fn carry_out(
        &self,
        methods: &[Entry],
        interrupted: &Arc<AtomicBool>,
    ) -> Result<Option<String>> {
        let (every, mut log) = (self.checkpoint_every, self.begin()?);
        let begins = match self.to_do {
            ToDo::Resume => "goes on from its last checkpoint",
            ToDo::Begin | ToDo::BeginAnew | ToDo::Nothing => "begins",
        };
        let noted = writeln!(log, "{begins}, with a checkpoint every {every} rounds");
        noted.map_err(|reason| Error::write(log_of(&self.folder), reason))?;
        let session = Session {
            interrupted: Arc::clone(interrupted),
            ..Session::new(methods)
        };
        match cli::carry_out(self.words("off"), &session) {
            Ok(finished) if matches!(finished.errors[..], [Error::Interrupted, ..]) => {
                Err(Error::Interrupted)
            }
            Ok(_) => Ok(failure_of_report(&self.folder)),
            Err(Error::Interrupted) => Err(Error::Interrupted),
            Err(error) => Ok(Some(error.to_string())),
        }
    }
}

/// What carries out a run that is under way.
pub(crate) enum Carrier {
    Process(Child),
    /// A thread of this process, which ends with the reason why the run has no result, if it has
    /// none.
    Thread {
        /// The thread; `None` after its end.
        thread: Option<JoinHandle<Result<Option<String>>>>,
        /// Tells it to stop.
        stop: Arc<AtomicBool>,
    },
}

/// How a run has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With a result.
    Done,
    /// Because it was told to stop.
    Stopped,
    /// Without a result, for this reason.
    Failed(String),
}

impl Carrier {
    /// Tells the run to stop: it gives up its round, and reports those before.
    pub(crate) fn tell_to_stop(&self) {
        match self {
            // Elsewhere Ctrl-C reaches all processes of a console. A process that has just ended is
            // not there to be told.
            #[cfg(unix)]
            Self::Process(child) => drop(rustix::process::kill_process(
                rustix::process::Pid::from_child(child),
                rustix::process::Signal::TERM,
            )),
            #[cfg(not(unix))]
            Self::Process(_) => {}
            Self::Thread { stop, .. } => stop.store(true, Ordering::Relaxed),
        }
    }

    /// Returns how the run with its report in `folder` has ended; `None` if it is under way. `told`
    /// says whether it was told to stop.
    pub(crate) fn ended(&mut self, folder: &Path, told: bool) -> Option<End> {
        match self {
            Self::Process(child) => match child.try_wait() {
                Ok(None) => None,
                Err(reason) => Some(End::Failed(format!("the process was lost: {reason}"))),
                Ok(Some(status)) => Some(end_of_process(folder, status, told)),
            },
            Self::Thread { thread, .. } => {
                let over = thread.take_if(|thread| thread.is_finished())?;
                Some(match over.join() {
                    Ok(Ok(None)) => End::Done,
                    Ok(Ok(Some(reason))) => End::Failed(reason),
                    Ok(Err(Error::Interrupted)) => End::Stopped,
                    Ok(Err(error)) => End::Failed(error.to_string()),
                    Err(_) => End::Failed(
                        "fedrecsim has a defect: the run panicked, as was printed".to_owned(),
                    ),
                })
            }
        }
    }
}

fn end_of_process(folder: &Path, status: ExitStatus, told: bool) -> End {
    let log = fs::read(log_of(folder)).unwrap_or_default();
    let said = last_error(&String::from_utf8_lossy(&log));
    // A process that was told before it listened to signals has said nothing.
    let was_stopped = said
        .as_ref()
        .is_none_or(|said| *said == Error::Interrupted.to_string() || !said.contains("error"));
    // The report may be that of an earlier run, so the words of the process come first.
    let by_report = || SavedRun::read(folder).ok()?.failure();
    let without_words = || format!("the process ended with {status} and no message");
    let failure = match status.success() {
        true => failure_of_report(folder),
        false => Some(said.or_else(by_report).unwrap_or_else(without_words)),
    };
    match failure {
        None => End::Done,
        Some(_) if told && was_stopped => End::Stopped,
        Some(reason) => End::Failed(reason),
    }
}

/// Returns why the report in `folder` is that of a run without a result; `None` if it has one.
pub(crate) fn failure_of_report(folder: &Path) -> Option<String> {
    match SavedReport::read(folder) {
        Ok(report) => report.run.failure(),
        Err(error) => Some(error.to_string()),
    }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::cli::args::parsed;

    /// If this fails, a run of a study has another scenario than its arm, or a command that the
    /// program refuses.
    #[test]
    fn the_command_of_a_run_is_one_that_the_program_takes() {
        let mut start = Start {
            folder: "o/3".into(),
            to_do: ToDo::Begin,
            base: "b.toml".into(),
            set: vec!["codec.uplink={ delta = true }".to_owned()],
            seed: 3,
            checkpoint_every: 4,
            threads: 2,
            known_bytes: Some(5 << 20),
            data_dir: Some("d".into()),
        };
        let command = |start: &Start| parsed(start.words("off")).unwrap();
        let cli::args::Command::Run(run) = command(&start) else {
            panic!("{:?}", start.words("off"))
        };
        assert_eq!(
            run.input.overrides(),
            ["codec.uplink={ delta = true }", "seed=3"]
        );
        assert_eq!((run.out, run.overwrite), (Some("o/3".into()), true));
        assert_eq!((run.known_memory, run.force), (Some(5 << 20), false));
        let words = start.words("off");
        start.to_do = ToDo::BeginAnew;
        assert_eq!(
            words,
            start.words("off"),
            "a checkpoint of another build is not in the way"
        );
        start.to_do = ToDo::Resume;
        let cli::args::Command::Resume(resume) = command(&start) else {
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
