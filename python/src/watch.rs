//! Waits for work on another thread, and looks for signals and progress meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use fedrecsim::error::Error;
use pyo3::prelude::*;

use crate::error::{FedrecsimError, exception};

/// The time between two looks for signals.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The time between two calls of a function that shows progress.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// What is told of a round that is over.
pub struct Told {
    /// The number of the round, from 1.
    pub round: u32,
    /// The virtual time.
    pub virtual_time_s: f64,
    /// The bytes that were sent so far.
    pub bytes: u64,
    /// The name of a figure of accuracy and its value, where the round was evaluated.
    pub accuracy: Option<(String, f64)>,
}

/// Carries out `work` on a thread of its own, without the interpreter's lock. Meanwhile this thread looks for signals,
/// and calls `progress` with what the work tells. A signal sets `interrupted`, and its exception is raised when the work
/// has ended.
///
/// # Errors
/// The exception of a signal or of `progress`, that of the work's error, and [`FedrecsimError`] for a work that panics.
pub fn watched<T: Send>(
    py: Python<'_>,
    interrupted: &Arc<AtomicBool>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Sender<Told>) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let progress = progress.map(|function| function.clone().unbind());
    let outcome = py.detach(|| {
        thread::scope(|scope| {
            let (tell, told) = channel::<Told>();
            let worker = scope.spawn(move || work(&tell));
            let (mut raised, mut latest, mut shown): (Option<PyErr>, Option<Told>, _) = (None, None, Instant::now());
            loop {
                let ended = match told.recv_timeout(LOOK_EVERY) {
                    Ok(round) => {
                        latest = Some(round);
                        shown.elapsed() < TELL_EVERY
                    }
                    Err(RecvTimeoutError::Timeout) => false,
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                if ended || raised.is_some() {
                    continue;
                }
                shown = Instant::now();
                if let Err(error) = Python::attach(|py| look(py, progress.as_ref(), latest.take())) {
                    interrupted.store(true, Ordering::Relaxed);
                    raised = Some(error);
                }
            }
            if raised.is_none() && latest.is_some() {
                raised = Python::attach(|py| look(py, progress.as_ref(), latest.take())).err();
            }
            (worker.join(), raised)
        })
    });
    match outcome {
        (_, Some(raised)) => Err(raised),
        (Ok(result), None) => result.map_err(exception),
        (Err(_), None) => Err(FedrecsimError::new_err("fedrecsim has a defect: the work panicked, as was printed")),
    }
}

/// Looks for signals, and shows what was told last.
fn look(py: Python<'_>, progress: Option<&Py<PyAny>>, told: Option<Told>) -> PyResult<()> {
    py.check_signals()?;
    if let (Some(show), Some(Told { round, virtual_time_s, bytes, accuracy })) = (progress, told) {
        show.call1(py, (round, virtual_time_s, bytes, accuracy))?;
    }
    Ok(())
}
