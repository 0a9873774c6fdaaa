//! What carries a run out: a process of its own, or a thread of this one.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use super::child::{self, Launcher, Start, failure, tell_to_stop};
use super::within::carry;
use crate::cli::messages;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_methods::method::Entry;

/// How the runs of a study are carried out, and who is told of it.
#[derive(Clone, Copy)]
pub(crate) enum How<'a> {
    /// Each run is a process of its own. Standard error is told; `visible` shows a bar there.
    Processes {
        /// Whether somebody is looking at standard error.
        visible: bool,
    },
    /// Each run is a thread of this process. This function is told, line by line.
    Threads {
        /// What takes the lines.
        tell: &'a (dyn Fn(&str) + Sync),
    },
}

impl How<'_> {
    /// Returns whether a bar shows the progress.
    pub(crate) fn has_bar(&self) -> bool {
        matches!(self, Self::Processes { visible: true })
    }

    /// Tells a note.
    pub(crate) fn note(&self, text: &str) {
        match self {
            Self::Processes { .. } => messages::note(text),
            Self::Threads { tell } => tell(text),
        }
    }

    /// Tells a warning.
    pub(crate) fn warn(&self, text: &str) {
        match self {
            Self::Processes { .. } => messages::warn(text),
            Self::Threads { tell } => tell(&format!("warning: {text}")),
        }
    }

    /// Tells a line as it is.
    pub(crate) fn line(&self, text: &str) {
        match self {
            Self::Processes { .. } => messages::print(&format!("{text}\n")),
            Self::Threads { tell } => tell(text),
        }
    }
}

/// What starts the runs of a study.
pub(crate) enum Starter {
    /// Starts a process for each.
    Processes(Launcher),
    /// Starts a thread for each.
    Threads(Here),
}

impl Starter {
    /// Starts a run.
    ///
    /// # Errors
    /// Those of [`Launcher::start`], and [`Error::Usage`] for a thread that the system refuses.
    pub(crate) fn start(&self, start: &Start) -> Result<Carrier> {
        match self {
            Self::Processes(launcher) => Ok(Carrier::Process(launcher.start(start)?)),
            Self::Threads(here) => here.start(start),
        }
    }
}

/// What runs in threads of this process have in common.
#[derive(Clone)]
pub(crate) struct Here {
    /// The methods that scenarios may name.
    pub methods: Arc<[Entry]>,
    /// The folder with data sets, if it is named.
    pub data_dir: Option<PathBuf>,
}

impl Here {
    fn start(&self, start: &Start) -> Result<Carrier> {
        let stop = Arc::new(AtomicBool::new(false));
        let (here, start, interrupted) = (self.clone(), start.clone(), Arc::clone(&stop));
        let thread = thread::Builder::new()
            .name("run".to_owned())
            .spawn(move || {
                carry(
                    &start,
                    here.data_dir.as_deref(),
                    &here.methods,
                    &interrupted,
                )
            });
        let thread = thread
            .map_err(|reason| Error::Usage(format!("cannot start a thread for a run: {reason}")))?;
        Ok(Carrier::Thread {
            thread: Some(thread),
            stop,
        })
    }
}

/// What carries a run out that is under way.
pub(crate) enum Carrier {
    /// A process.
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
            Self::Process(child) => tell_to_stop(child),
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
                Ok(Some(status)) => Some(match failure(folder, status) {
                    None => End::Done,
                    Some(_) if told && child::was_stopped(folder) => End::Stopped,
                    Some(reason) => End::Failed(reason),
                }),
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
