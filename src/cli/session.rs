//! What every command is given beside its arguments, and what it leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use fedrecsim_core::error::Error;
use fedrecsim_methods::method::Entry;
use fedrecsim_methods::method::registry::vocabulary_of;
use fedrecsim_scenario::scenario::MethodVocabulary;

/// What a command is given beside its arguments.
pub struct Session<'m> {
    /// The methods that scenarios may name.
    pub methods: &'m [Entry],
    /// Tells the command to stop once it is set.
    pub interrupted: Arc<AtomicBool>,
    /// Whether somebody watches standard error, so that a bar may be shown there.
    pub visible: bool,
    /// When the command began, from which its wall-clock time counts.
    pub started: Instant,
}

impl<'m> Session<'m> {
    /// Begins a session that nobody watches.
    pub fn new(methods: &'m [Entry]) -> Self {
        Self {
            methods,
            interrupted: Arc::default(),
            visible: false,
            started: Instant::now(),
        }
    }

    pub(crate) fn vocabulary(&self) -> Vec<MethodVocabulary> {
        vocabulary_of(self.methods)
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

/// What a command leaves when it ends.
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
            output,
            is_in_files: true,
            ..Self::default()
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
