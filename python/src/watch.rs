//! Waits for work on another thread, and looks for signals and progress meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fedrecsim_core::Error;
use pyo3::prelude::*;

use crate::error::{FedrecsimError, exception};

/// The time between two looks for signals.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The time between two calls of a function that shows progress.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// What work tells while it goes on.
pub enum Told {
    /// A round is over.
    Round(RoundOver),
    /// A line for the user, such as the end of a run of a study.
    Line(String),
}

/// The report on a finished round.
pub struct RoundOver {
    /// The number of the round, from 1.
    pub round: u32,
    /// The number of rounds of the scenario.
    pub rounds: u32,
    /// The virtual time.
    pub virtual_time_s: f64,
    /// The bytes that were sent so far.
    pub bytes: u64,
    /// The name of a figure of accuracy and its value, where the round was evaluated.
    pub accuracy: Option<(String, f64)>,
}

/// The work that is under way in this process, for its end.
#[derive(Default)]
struct UnderWay {
    /// What interrupts each piece of work.
    flags: Vec<Arc<AtomicBool>>,
    /// Whether the interpreter is about to end, so that nothing may begin any more.
    is_closed: bool,
}

static UNDER_WAY: Mutex<UnderWay> = Mutex::new(UnderWay {
    flags: Vec::new(),
    is_closed: false,
});

/// Tells that a piece of work is over.
static OVER: Condvar = Condvar::new();

fn under_way() -> MutexGuard<'static, UnderWay> {
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A piece of work, which is under way for as long as this is there.
struct Work(Arc<AtomicBool>);

impl Work {
    /// Begins work that this flag interrupts.
    ///
    /// # Errors
    /// [`FedrecsimError`] if the interpreter is about to end.
    fn begin(interrupted: &Arc<AtomicBool>) -> PyResult<Self> {
        let mut under_way = under_way();
        if under_way.is_closed {
            return Err(FedrecsimError::new_err("the interpreter is about to end"));
        }
        under_way.flags.push(Arc::clone(interrupted));
        Ok(Self(Arc::clone(interrupted)))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let mut under_way = under_way();
        if let Some(place) = under_way
            .flags
            .iter()
            .position(|flag| Arc::ptr_eq(flag, &self.0))
        {
            under_way.flags.swap_remove(place);
        }
        OVER.notify_all();
    }
}

/// Interrupts all work of this process, and waits until it is over: its threads must not ask for
/// the interpreter's lock when the interpreter is gone. Later work is refused.
#[pyfunction]
pub fn end_all(py: Python<'_>) {
    py.detach(|| {
        let mut under_way = under_way();
        under_way.is_closed = true;
        under_way
            .flags
            .iter()
            .for_each(|flag| flag.store(true, Ordering::Relaxed));
        while !under_way.flags.is_empty() {
            under_way = OVER.wait(under_way).unwrap_or_else(PoisonError::into_inner);
        }
    });
}

/// Carries out `work` on a thread of its own, without the interpreter's lock, so that no exception
/// of a signal is raised within it. Meanwhile this thread looks for signals, and calls `progress`
/// with what the work tells. A signal sets `interrupted`, and its exception is raised when the work
/// has ended.
///
/// # Errors
/// The exception of a signal or of `progress`, that of the work's error, and [`FedrecsimError`] for
/// a work that panics.
pub fn watched<T: Send>(
    py: Python<'_>,
    interrupted: &Arc<AtomicBool>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Sender<Told>) -> Result<T, Error> + Send,
) -> PyResult<T> {
    match watched_with_result(py, interrupted, progress, work)? {
        (_, Some(raised)) => Err(raised),
        (result, None) => result.map_err(exception),
    }
}

/// Carries out `work` as [`watched`] does, and returns what has become of it beside the exception of a
/// signal or of `progress`, if there was one.
///
/// # Errors
/// [`FedrecsimError`] for a work that panics.
pub fn watched_with_result<T: Send>(
    py: Python<'_>,
    interrupted: &Arc<AtomicBool>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Sender<Told>) -> Result<T, Error> + Send,
) -> PyResult<(Result<T, Error>, Option<PyErr>)> {
    let progress = progress.map(|function| function.clone().unbind());
    // It is over when this thread has the interpreter's lock again.
    let _work = Work::begin(interrupted)?;
    let outcome = py.detach(|| {
        thread::scope(|scope| {
            let (tell, told) = channel::<Told>();
            let worker = scope.spawn(move || work(&tell));
            let (mut raised, mut latest, mut shown): (Option<PyErr>, Option<Told>, _) =
                (None, None, Instant::now());
            loop {
                let ended = match told.recv_timeout(LOOK_EVERY) {
                    Ok(round @ Told::Round(_)) => {
                        latest = Some(round);
                        shown.elapsed() < TELL_EVERY
                    }
                    // Every line is shown.
                    Ok(line @ Told::Line(_)) => {
                        latest = Some(line);
                        false
                    }
                    Err(RecvTimeoutError::Timeout) => false,
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                if ended || raised.is_some() {
                    continue;
                }
                shown = Instant::now();
                if let Err(error) = Python::attach(|py| look(py, progress.as_ref(), latest.take()))
                {
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
        (Ok(result), raised) => Ok((result, raised)),
        (Err(_), Some(raised)) => Err(raised),
        (Err(_), None) => Err(FedrecsimError::new_err(
            "fedrecsim has a defect: the work panicked, as was printed",
        )),
    }
}

/// Looks for signals, and shows what was told last.
fn look(py: Python<'_>, progress: Option<&Py<PyAny>>, told: Option<Told>) -> PyResult<()> {
    py.check_signals()?;
    match (progress, told) {
        (Some(show), Some(Told::Round(over))) => {
            let RoundOver {
                round,
                rounds,
                virtual_time_s,
                bytes,
                accuracy,
            } = over;
            show.call1(py, (round, rounds, virtual_time_s, bytes, accuracy))?;
        }
        (Some(show), Some(Told::Line(line))) => {
            show.call1(py, (line,))?;
        }
        _ => {}
    }
    Ok(())
}
