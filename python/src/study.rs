//! Carries out runs of studies, compares reports, and is the command `fedrecsim`.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use fedrecsim::cli::{self, Cli, Command, StudyArgs, outside};
use fedrecsim::method::Entry;
use fedrecsim::method::registry::{METHODS, vocabulary_of};
use pyo3::prelude::*;

use crate::error::{OrRaise, refused};
use crate::method::MethodEntry;
use crate::watch::watched;

/// Returns the methods of the simulator and these.
fn all(methods: &[Py<MethodEntry>]) -> Vec<Entry> {
    METHODS.iter().copied().chain(methods.iter().map(|entry| entry.get().entry())).collect()
}

/// Reads the words of a command.
fn command(words: Vec<OsString>) -> PyResult<Command> {
    let words = std::iter::once(OsString::from("fedrecsim")).chain(words);
    Cli::try_parse_from(words).map(|cli| cli.command).map_err(|refusal| refused(refusal.to_string()))
}

/// Reads the words of `study`.
fn study_arguments(words: Vec<OsString>) -> PyResult<StudyArgs> {
    match command(words)? {
        Command::Study(arguments) => Ok(arguments),
        _ => Err(refused("expected the words of `study`")),
    }
}

/// Tells runs to stop, from another thread.
#[pyclass(frozen, module = "fedrecsim._native")]
#[derive(Default)]
pub struct Stop(Arc<AtomicBool>);

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Tells the runs that were given this to stop.
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A run of a study as a tuple: arm, seed, folder, whether it is done, method, rounds, memory in bytes, seconds of a round.
type Prepared = (String, u64, String, bool, String, u32, Option<u64>, Option<f64>);

/// Checks a study, begins its folder, and lists its runs with what each takes.
#[pyfunction]
pub fn study_prepare(
    py: Python<'_>,
    words: Vec<OsString>,
    methods: Vec<Py<MethodEntry>>,
    threads: usize,
) -> PyResult<Vec<Prepared>> {
    let (arguments, methods) = (study_arguments(words)?, all(&methods));
    let interrupted = Arc::new(AtomicBool::new(false));
    let prepared = watched(py, &interrupted, None, |_| outside::prepare(&arguments, &methods, threads, &interrupted))?;
    let tuple = |run: outside::Prepared| {
        (run.arm, run.seed, run.folder, run.is_done, run.method, run.rounds, run.memory_bytes, run.round_s)
    };
    Ok(prepared.into_iter().map(tuple).collect())
}

/// Carries out one run of a study, and returns why it has no result, if it has none.
#[pyfunction]
#[pyo3(signature = (words, methods, arm, seed, stop=None))]
pub fn study_carry_out(
    py: Python<'_>,
    words: Vec<OsString>,
    methods: Vec<Py<MethodEntry>>,
    arm: &str,
    seed: u64,
    stop: Option<Py<Stop>>,
) -> PyResult<Option<String>> {
    let (arguments, methods) = (study_arguments(words)?, all(&methods));
    let interrupted = stop.map_or_else(Arc::default, |stop| Arc::clone(&stop.get().0));
    watched(py, &interrupted, None, |_| outside::carry_out(&arguments, &methods, (arm, seed), &interrupted))
}

/// Writes the tables of a study, whose words have `--no-run`, and returns them as Markdown with the errors that it has.
#[pyfunction]
pub fn study_tables(
    py: Python<'_>,
    words: Vec<OsString>,
    methods: Vec<Py<MethodEntry>>,
) -> PyResult<(String, Vec<String>)> {
    let (arguments, methods) = (study_arguments(words)?, all(&methods));
    let interrupted = Arc::new(AtomicBool::new(false));
    let end = py.detach(|| cli::study(&arguments, &methods, &interrupted, false)).or_raise()?;
    Ok((end.output, end.errors.iter().map(ToString::to_string).collect()))
}

/// Compares reports, and returns the tables as Markdown.
#[pyfunction]
pub fn compare(py: Python<'_>, words: Vec<OsString>, methods: Vec<Py<MethodEntry>>) -> PyResult<String> {
    let Command::Compare(arguments) = command(words)? else { return Err(refused("expected the words of `compare`")) };
    let vocabulary = vocabulary_of(&all(&methods));
    py.detach(|| cli::compare(&arguments, &vocabulary)).or_raise()
}

/// Carries out a command line, prints what it prints, and returns the exit code. `itself` are the words that start this
/// command.
#[pyfunction]
pub fn main(py: Python<'_>, words: Vec<OsString>, itself: Vec<OsString>, methods: Vec<Py<MethodEntry>>) -> u8 {
    let methods = all(&methods);
    py.detach(|| cli::program_of(words, &methods, itself))
}
