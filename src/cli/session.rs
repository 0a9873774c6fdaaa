//! The inputs of every command beside its arguments, and its outputs.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{ranks, screen, signals};
use crate::method::{Entry, vocabulary_of};
use crate::scenario::{MethodVocabulary, Scenario};
use crate::sim::RoundRecord;
use crate::{Error, Result};
use fedrecsim_scenario::Override;

/// The inputs of a command beside its arguments.
pub struct Session<'s> {
    /// The methods that scenarios may name.
    pub methods: &'s [Entry],
    /// Tells the command to stop once it is set.
    pub interrupted: Arc<AtomicBool>,
    /// Has a study carry out its runs in threads of this process, and receives their progress, line
    /// by line. Without it each run is a process, and standard error is told.
    pub tell: Option<&'s (dyn Fn(&str) + Sync)>,
    /// Receives what `run` and `resume` come to while they go on. It is called between two rounds, so
    /// that it must not take long, and nothing of it reaches the result.
    pub follow: Option<&'s (dyn Fn(Followed<'_>) + Sync)>,
    /// What faults call the overrides of a command.
    pub overrides_are: &'s str,
    /// Whether the command has the process to itself, and so its signals and its ranks.
    pub(crate) is_program: bool,
    /// Whether somebody watches standard error, so that a bar may be shown there.
    pub(crate) visible: bool,
    /// The command that starts this program, such as an interpreter and its script; empty for a
    /// plain executable.
    pub(crate) itself: Vec<OsString>,
    /// When the command began; its wall-clock time counts from here.
    pub(crate) started: Instant,
}

impl<'s> Session<'s> {
    /// Begins a session of a command within another program, with these methods.
    pub fn new(methods: &'s [Entry]) -> Self {
        Self {
            methods,
            interrupted: Arc::default(),
            tell: None,
            follow: None,
            overrides_are: "--set",
            is_program: false,
            visible: false,
            itself: Vec::new(),
            started: Instant::now(),
        }
    }

    pub(crate) fn vocabulary(&self) -> Vec<MethodVocabulary> {
        vocabulary_of(self.methods)
    }

    /// Returns overrides with what faults call them.
    pub(crate) fn overrides(&self, texts: &[String]) -> Vec<Override> {
        let of = |text: &String| Override {
            text: text.clone(),
            written: Some((self.overrides_are.to_owned(), None)),
        };
        texts.iter().map(of).collect()
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Has signals stop the command, if it has the process to itself.
    ///
    /// # Errors
    /// [`Error::Usage`] if the system does not let this process listen.
    pub(crate) fn listen(&self) -> Result<()> {
        if self.is_program {
            signals::listen(&self.interrupted)?;
        }
        Ok(())
    }

    /// Begins a command that starts processes of its own: refuses to be one of several processes,
    /// and listens.
    ///
    /// # Errors
    /// [`Error::Usage`], also if the system does not let this process listen.
    pub(super) fn begin_runs(&self, command: &str) -> Result<()> {
        if self.is_program {
            ranks::refuse_several(command)?;
        }
        self.listen()
    }

    /// Tells a note.
    pub(crate) fn note(&self, text: &str) {
        self.told(text, screen::note, text);
    }

    /// Tells a warning.
    pub(crate) fn warn(&self, text: &str) {
        self.told(text, screen::warn, &format!("warning: {text}"));
    }

    /// Tells a line as it is.
    pub(crate) fn line(&self, text: &str) {
        self.told(&format!("{text}\n"), screen::line, text);
    }

    /// Has standard error show `text`, unless this session tells `line` to somebody else.
    fn told(&self, text: &str, on_stderr: fn(&str), line: &str) {
        match self.tell {
            None => on_stderr(text),
            Some(tell) => tell(line),
        }
    }
}

/// What a run tells while it goes on. Of several processes of a run, the first one tells it.
#[derive(Clone, Copy, Debug)]
pub enum Followed<'r> {
    /// The run begins.
    Begun {
        /// Its scenario, with every preset and default.
        scenario: &'r Scenario,
        /// The folder of its report, if there is to be one.
        folder: Option<&'r Path>,
    },
    /// A round is over.
    Round {
        /// What has happened in it.
        record: &'r RoundRecord,
        /// The wall-clock time since the round before it, or since the run began.
        took: Duration,
    },
}

/// The outputs of a command when it ends.
#[derive(Debug, Default)]
pub struct Finished {
    /// What to print on standard output.
    pub output: String,
    /// Whether files have what the output says, so that it may get lost.
    pub is_in_files: bool,
    /// What to warn of before the output.
    pub warnings: Vec<String>,
    /// What went wrong without being a reason to withhold the output: what stopped a run early, then
    /// what its result differs in from what was expected of it.
    pub errors: Vec<Error>,
    /// Whether things that were compared differ.
    pub differs: bool,
}

impl Finished {
    /// Returns the end of a command whose files have what `output` says.
    pub(crate) fn in_files(output: String) -> Self {
        Self {
            is_in_files: true,
            ..output.into()
        }
    }

    /// Returns the exit code: that of the worst error.
    pub(crate) fn exit_code(&self) -> u8 {
        let of_errors = self.errors.iter().map(Error::exit_code).max();
        of_errors.unwrap_or(u8::from(self.differs))
    }
}

impl From<String> for Finished {
    fn from(output: String) -> Self {
        Self {
            output,
            ..Self::default()
        }
    }
}

impl From<Error> for Finished {
    fn from(error: Error) -> Self {
        Self {
            errors: vec![error],
            ..Self::default()
        }
    }
}
