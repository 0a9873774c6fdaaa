//! Carries out runs of studies, compares reports, and is the command `fedrecsim`.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};

use fedrecsim::cli::{self, Finished, Followed, Session, outside};
use fedrecsim_methods::Entry;
use fedrecsim_report::FolderLock;
use pyo3::prelude::*;
use serde_json::json;

use crate::error::OrRaise;
use crate::inputs::SET;
use crate::method::{MethodEntry, all};
use crate::watch::{Told, watched};

/// The folder of a study, which is held until `release` is called or this is gone.
#[pyclass(frozen, module = "fedrecsim._native")]
pub struct Held(Mutex<Option<FolderLock>>);

#[pymethods]
impl Held {
    /// Lets go of the folder.
    fn release(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// A run of a study as a tuple: arm, seed, folder, whether it is done, why it has no result,
/// method, rounds, memory in bytes, seconds of a round.
type Prepared = (
    String,
    u64,
    String,
    bool,
    Option<String>,
    String,
    u32,
    Option<u64>,
    Option<f64>,
);

fn tuple(run: outside::Prepared) -> Prepared {
    let outside::Prepared {
        arm,
        seed,
        folder,
        is_done,
        failure,
        method,
        rounds,
        memory_bytes,
        round_s,
    } = run;
    (
        arm,
        seed,
        folder,
        is_done,
        failure,
        method,
        rounds,
        memory_bytes,
        round_s,
    )
}

/// Returns the output and the errors of a study.
fn told_of(end: Finished) -> (String, Vec<String>) {
    let errors = end.errors.iter().map(ToString::to_string).collect();
    (end.output, errors)
}

/// Begins a session of a study whose overrides are an argument in Python.
fn session_of(methods: &[Entry]) -> Session<'_> {
    let mut session = Session::new(methods);
    session.overrides_are = SET;
    session
}

/// Checks a study, takes and begins its folder, and lists its runs with what each takes.
#[pyfunction]
pub fn study_prepare(
    py: Python<'_>,
    words: Vec<OsString>,
    methods: Vec<Py<MethodEntry>>,
    threads: usize,
) -> PyResult<(Held, Vec<Prepared>)> {
    let methods = all(&methods);
    let session = session_of(&methods);
    let (held, prepared) = watched(py, &session.interrupted, None, |_| {
        outside::prepare(words, &session, threads)
    })?;
    Ok((
        Held(Mutex::new(Some(held))),
        prepared.into_iter().map(tuple).collect(),
    ))
}

/// Lists the runs of a study with what has become of each.
#[pyfunction]
pub fn study_runs(
    py: Python<'_>,
    words: Vec<OsString>,
    methods: Vec<Py<MethodEntry>>,
) -> PyResult<Vec<Prepared>> {
    let methods = all(&methods);
    let session = session_of(&methods);
    let runs = watched(py, &session.interrupted, None, |_| {
        outside::listed(words, &session)
    })?;
    Ok(runs.into_iter().map(tuple).collect())
}

/// Carries out a study in threads of this process, and returns its tables as Markdown with the
/// errors that it has. `tell` is called with lines of progress.
#[pyfunction]
#[pyo3(signature = (words, methods, tell=None))]
pub fn study_here(
    py: Python<'_>,
    words: Vec<OsString>,
    methods: Vec<Py<MethodEntry>>,
    tell: Option<Bound<'_, PyAny>>,
) -> PyResult<(String, Vec<String>)> {
    let methods = all(&methods);
    let interrupted = Arc::default();
    let end = watched(py, &interrupted, tell.as_ref(), |sender| {
        let sender = Mutex::new(sender.clone());
        let told = |line: &str| {
            // If the study is being stopped, the receiver is gone, and that is no error.
            let _ = sender
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .send(Told::Line(line.to_owned()));
        };
        let mut session = session_of(&methods);
        session.interrupted = Arc::clone(&interrupted);
        session.tell = Some(&told);
        cli::carry_out(words, &session)
    })?;
    Ok(told_of(end))
}

/// Carries out one run of a study, and returns why it has no result, if it has none.
#[pyfunction]
pub fn study_carry_out(
    py: Python<'_>,
    words: Vec<OsString>,
    methods: Vec<Py<MethodEntry>>,
    arm: &str,
    seed: u64,
) -> PyResult<Option<String>> {
    let methods = all(&methods);
    let session = session_of(&methods);
    watched(py, &session.interrupted, None, |_| {
        outside::carry_out(words, &session, (arm, seed))
    })
}

/// Writes the tables of a study, whose words have `--no-run`, and returns them as Markdown with the
/// errors that it has.
#[pyfunction]
pub fn study_tables(
    py: Python<'_>,
    words: Vec<OsString>,
    methods: Vec<Py<MethodEntry>>,
) -> PyResult<(String, Vec<String>)> {
    let methods = all(&methods);
    let session = session_of(&methods);
    let end = watched(py, &session.interrupted, None, |_| {
        cli::carry_out(words, &session)
    })?;
    Ok(told_of(end))
}

/// Compares reports, and returns the tables as Markdown.
#[pyfunction]
pub fn compare(
    py: Python<'_>,
    words: Vec<OsString>,
    methods: Vec<Py<MethodEntry>>,
) -> PyResult<String> {
    let methods = all(&methods);
    py.detach(|| cli::carry_out(words, &session_of(&methods)))
        .map(|end| end.output)
        .or_raise()
}

/// Carries out a command line, prints what it prints, and returns the exit code. `itself` are the
/// words that start this command. `follow` is called with what a run tells while it goes on, as JSON: the
/// name, the scenario and the folder of the report (`null` if there is to be none) when it begins, and for
/// each round its record and the seconds that it took.
#[pyfunction]
#[pyo3(signature = (words, itself, methods, follow=None))]
pub fn main(
    py: Python<'_>,
    words: Vec<OsString>,
    itself: Vec<OsString>,
    methods: Vec<Py<MethodEntry>>,
    follow: Option<Py<PyAny>>,
) -> u8 {
    let methods = all(&methods);
    let told = |followed: Followed<'_>| {
        if let Some(follow) = &follow {
            tell(follow, &json_of(followed));
        }
    };
    let mut session = Session::new(&methods);
    session.follow = follow.is_some().then_some(&told);
    py.detach(|| cli::program_of(words, itself, session))
}

/// Returns what a run tells as JSON.
fn json_of(followed: Followed<'_>) -> String {
    let told = match followed {
        Followed::Begun { scenario, folder } => {
            json!({ "name": scenario.name, "scenario": scenario, "folder": folder })
        }
        Followed::Round { record, took } => {
            json!({ "record": record, "took_s": took.as_secs_f64() })
        }
    };
    told.to_string()
}

/// Calls a function of Python's. An exception is shown and goes no further: it is none of the run's.
fn tell(follow: &Py<PyAny>, text: &str) {
    Python::attach(|py| {
        if let Err(raised) = follow.call1(py, (text,)) {
            raised.write_unraisable(py, None);
        }
    });
}
