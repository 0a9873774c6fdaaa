//! A simulation that Python drives step by step.

use std::io::Cursor;
use std::mem;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fedrecsim::cli::Keeping;
use fedrecsim_core::{Error, SimDuration, SimTime};
use fedrecsim_data::dataset::with_reason;
use fedrecsim_model::ArchiveReader;
use fedrecsim_report::Wall;
use fedrecsim_scenario::{Loaded, Scenario};
use fedrecsim_sim::outcome::RoundRecord;
use fedrecsim_sim::{self as sim, RunControl, Until};
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arrays;
use crate::error::{FedrecsimError, OrRaise, refused};
use crate::inputs::Given;
use crate::report::Report;
use crate::running::{Folder, Running, claim, saved};
use crate::vectors::{Vectors, name_all, vectors_of};
use crate::watch::watched;

/// A simulation under way. It has threads of its own, and lets other threads of Python go on while
/// it works.
#[pyclass(frozen, module = "fedrecsim._native")]
pub struct Simulation {
    /// `None` after the end.
    inner: Mutex<Option<Running>>,
    scenario: Scenario,
    /// The folders that the ratings were looked for in.
    directories: Vec<PathBuf>,
    warnings: Vec<String>,
    /// The users whose vectors the report is to have: all of them if none is named.
    saves: Option<Vec<String>>,
    control: RunControl,
    /// The process whose threads carry the simulation out.
    process: u32,
}

impl Simulation {
    /// Starts a simulation: from `saved` if there is something, or from a checkpoint in the folder.
    pub fn start(
        py: Python<'_>,
        given: &Given,
        threads: Option<NonZeroUsize>,
        saved: Option<Vec<u8>>,
        (folder, mut saves): (Option<Folder>, Option<Vec<String>>),
    ) -> PyResult<Self> {
        let (
            Loaded {
                scenario,
                mut warnings,
            },
            inputs,
        ) = given.inputs(py)?;
        let (directories, interrupted) = (given.directories(), Arc::new(AtomicBool::new(false)));
        let control = RunControl {
            threads: given.threads(threads, &inputs.world),
            interrupted,
        };
        let (running, more) = watched(py, &control.interrupted, None, |_| {
            if let Some(saves) = &mut saves {
                let dataset = &inputs.world.dataset;
                name_all(dataset, saves)
                    .map_err(|error| with_reason(error, &scenario, &directories))?;
            }
            let mut keeping = folder
                .map(|folder| claim(folder, &inputs, (&warnings, &directories)))
                .transpose()?;
            let more = keeping
                .as_ref()
                .map_or(Vec::new(), |keeping| keeping.warnings().to_vec());
            let of_folder = keeping.as_mut().and_then(Keeping::take_resumed);
            let given = saved.map(|saved| ArchiveReader::new(Box::new(Cursor::new(saved))));
            let resumed = given.or(of_folder);
            let is_new = resumed.is_none();
            let world = Arc::clone(&inputs.world);
            let mut simulation = sim::Simulation::resumed(world, &control, resumed)?;
            if let (true, Some(keeping)) = (is_new, &mut keeping) {
                simulation.begin_keeping(keeping.store())?;
            }
            let running = Running {
                simulation,
                inputs,
                keeping,
            };
            Ok((running, more))
        })?;
        warnings.extend(more);
        Ok(Self {
            inner: Mutex::new(Some(running)),
            scenario,
            directories,
            warnings,
            saves,
            control,
            process: std::process::id(),
        })
    }

    /// Refuses to go on in another process than the one that started the simulation: a fork copies
    /// memory, and no threads.
    fn check_process(&self) -> PyResult<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        Err(FedrecsimError::new_err(format!(
            "the simulation was started in process {}, and a fork has not brought its threads along; start it after the \
             fork, or use the start method `spawn`",
            self.process
        )))
    }

    /// Waits until no other thread is at work with the simulation.
    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the simulation when no other thread is at work with it.
    fn look<T: Send>(
        &self,
        py: Python<'_>,
        look: impl FnOnce(&sim::Simulation) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        self.check_process()?;
        let reason = |error| with_reason(error, &self.scenario, &self.directories);
        py.detach(|| {
            let inner = self.lock();
            look(&inner.as_ref().ok_or_else(finished)?.simulation).map_err(reason)
        })
        .or_raise()
    }

    /// Works with the simulation on another thread, while this one looks for signals.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Running) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        self.check_process()?;
        watched(py, &self.control.interrupted, None, |_| {
            let mut inner = self.lock();
            work(inner.as_mut().ok_or_else(finished)?)
        })
    }
}

/// Returns the error of a simulation that has no end left.
fn finished() -> Error {
    Error::Usage("the simulation has been finished".to_owned())
}

/// Returns the record of a round as JSON.
fn json_of(record: &RoundRecord) -> PyResult<String> {
    serde_json::to_string(record).map_err(|reason| FedrecsimError::new_err(reason.to_string()))
}

#[pymethods]
impl Simulation {
    #[new]
    #[pyo3(signature = (scenario, threads=None, folder=None, save_users=None))]
    fn new(
        py: Python<'_>,
        scenario: Given,
        threads: Option<NonZeroUsize>,
        folder: Option<Folder>,
        save_users: Option<Vec<String>>,
    ) -> PyResult<Self> {
        Self::start(py, &scenario, threads, None, (folder, save_users))
    }

    /// Restores a simulation of the same scenario that `save` has saved.
    #[staticmethod]
    #[pyo3(signature = (scenario, saved, threads=None))]
    fn restore(
        py: Python<'_>,
        scenario: Given,
        saved: Vec<u8>,
        threads: Option<NonZeroUsize>,
    ) -> PyResult<Self> {
        Self::start(py, &scenario, threads, Some(saved), (None, None))
    }

    /// Goes on to the end of a round, and returns its record as JSON; nothing if the simulation is
    /// over.
    fn step(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let record = self.with(py, |running| running.step(&mut ()))?;
        record.as_ref().map(json_of).transpose()
    }

    /// Goes on to the end of round `round`, or to `time_s` seconds of virtual time, and returns the
    /// records of the rounds that ended on the way, as JSON.
    #[pyo3(signature = (round=None, time_s=None))]
    fn step_until(
        &self,
        py: Python<'_>,
        round: Option<u32>,
        time_s: Option<f64>,
    ) -> PyResult<Vec<String>> {
        let until = match (round, time_s) {
            (Some(round), None) => Until::Round(round),
            (None, Some(seconds)) if (0.0..=1e10).contains(&seconds) => {
                Until::Time(SimTime::ZERO + SimDuration::from_secs_f64(seconds))
            }
            (None, Some(seconds)) => {
                return Err(refused(format!("{seconds} is no time from 0 to 1e10 s")));
            }
            _ => return Err(refused("step_until takes a round or a time, and not both")),
        };
        let records = self.with(py, |running| {
            let mut records: Vec<RoundRecord> = Vec::new();
            running.step_until(until, &mut records).map(|()| records)
        })?;
        records.iter().map(json_of).collect()
    }

    /// Leaves checkpoints in a folder from now on, and the report in the end.
    fn keep(&self, py: Python<'_>, folder: Folder) -> PyResult<()> {
        let place = (&self.warnings[..], &self.directories[..]);
        self.with(py, |running| {
            let mut keeping = claim(folder, &running.inputs, place)?;
            if running.simulation.rounds() == 0 {
                running.simulation.begin_keeping(keeping.store())?;
            }
            running.keeping = Some(keeping);
            Ok(())
        })
    }

    /// Returns the state of the simulation, between two rounds, for `restore`.
    fn save<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let saved = self.with(py, |running| saved(&mut running.simulation))?;
        Ok(PyBytes::new(py, &saved))
    }

    /// Returns name, score and whether it is held out of the `top` items that a user would be shown.
    fn recommend(
        &self,
        py: Python<'_>,
        user: String,
        top: usize,
    ) -> PyResult<Vec<(String, f32, bool)>> {
        self.look(py, |simulation| {
            let dataset = &simulation.world().dataset;
            let shown = simulation.recommend(dataset.user_named(&user)?, top)?;
            let named = shown.into_iter().map(|shown| {
                let name = dataset.item_name(shown.item).into_owned();
                (name, shown.score, shown.is_test_item)
            });
            Ok(named.collect())
        })
    }

    /// Returns the scores of all items for each of some users: a row for each user.
    fn scores<'py>(
        &self,
        py: Python<'py>,
        users: Vec<String>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let (items, scores) = self.look(py, |simulation| {
            let dataset = &simulation.world().dataset;
            let mut scores = Vec::with_capacity(users.len() * dataset.items());
            for user in dataset.users_named(&users)? {
                scores.extend(simulation.scores(user)?);
            }
            Ok((dataset.items(), scores))
        })?;
        PyArray1::from_vec(py, scores).reshape([users.len(), items])
    }

    /// Returns the name of the vector that users keep for themselves, and a row for each of these users;
    /// nothing if users keep none.
    fn vectors<'py>(
        &self,
        py: Python<'py>,
        users: Vec<String>,
    ) -> PyResult<Option<(String, Bound<'py, PyArray2<f32>>)>> {
        let found = self.look(py, |simulation| vectors_of(simulation, &users))?;
        found.map(|found| found.into_array(py)).transpose()
    }

    /// Returns the names of all users and of all items, in the order of their numbers.
    fn names(&self, py: Python<'_>) -> PyResult<(Vec<String>, Vec<String>)> {
        self.look(py, |simulation| {
            let dataset = &simulation.world().dataset;
            let users =
                (0..dataset.users()).map(|user| dataset.user_name(user.into()).into_owned());
            let items =
                (0..dataset.items() as u32).map(|item| dataset.item_name(item).into_owned());
            Ok((users.collect(), items.collect()))
        })
    }

    /// Returns the names of the `top` items that popularity would show a user.
    fn recommend_popular(&self, py: Python<'_>, user: String, top: usize) -> PyResult<Vec<String>> {
        self.look(py, |simulation| {
            let dataset = &simulation.world().dataset;
            let shown = simulation.recommend_popular(dataset.user_named(&user)?, top)?;
            let names = shown.into_iter();
            Ok(names
                .map(|shown| dataset.item_name(shown.item).into_owned())
                .collect())
        })
    }

    /// The blocks of the server's model by their names.
    #[getter]
    fn model<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let model = self.look(py, sim::Simulation::model)?;
        arrays::blocks(py, &model)
    }

    /// Replaces the server's model.
    #[setter]
    fn set_model(&self, py: Python<'_>, model: Bound<'_, PyAny>) -> PyResult<()> {
        let layout = self.look(py, |simulation| {
            Ok(simulation.world().method.initial().layout().clone())
        })?;
        let model = arrays::model(&layout, &model)?;
        self.with(py, |running| running.simulation.set_model(model))
    }

    /// The name of the method.
    #[getter]
    fn method(&self) -> &str {
        &self.scenario.method.name
    }

    /// The number of rounds that are over.
    #[getter]
    fn rounds(&self, py: Python<'_>) -> PyResult<u32> {
        self.look(py, |simulation| Ok(simulation.rounds()))
    }

    /// The virtual time in seconds.
    #[getter]
    fn time_s(&self, py: Python<'_>) -> PyResult<f64> {
        self.look(py, |simulation| Ok(simulation.now().as_secs_f64()))
    }

    /// Whether the last round is over, or something has stopped the simulation.
    #[getter]
    fn is_over(&self, py: Python<'_>) -> PyResult<bool> {
        self.look(py, |simulation| Ok(simulation.is_over()))
    }

    /// Why the simulation has stopped before its last round, if it has.
    #[getter]
    fn stopped_by(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.look(py, |simulation| {
            Ok(simulation.stopped_by().map(ToString::to_string))
        })
    }

    /// Ends the simulation and its threads, with nothing left.
    fn close(&self, py: Python<'_>) {
        if self.process == std::process::id() {
            py.detach(|| drop(self.lock().take()));
        }
    }

    /// Ends the simulation where it stands, and returns what remains, also to its folder. With `keep` and
    /// without a folder, that has the parameters from which another run can start. The wall-clock times
    /// are for the record: that of the whole run, and the median of a round.
    #[pyo3(signature = (keep=false, total_s=0.0, per_round_ms=0.0))]
    fn finish(
        &self,
        py: Python<'_>,
        keep: bool,
        total_s: f64,
        per_round_ms: f64,
    ) -> PyResult<Report> {
        let wall = Wall {
            total_s,
            per_round_ms,
            threads: self.control.threads as u32,
            ..Wall::default()
        };
        self.finish_in(py, keep, wall)
    }
}

impl Simulation {
    /// Ends the simulation, which has taken this much time of the host.
    pub fn finish_in(&self, py: Python<'_>, keep: bool, wall: Wall) -> PyResult<Report> {
        self.check_process()?;
        // This takes very little time. A signal that arrives meanwhile is handled afterwards, when
        // the result is there.
        let (outcome, kept, vectors, keeping) = py
            .detach(|| {
                let running = self.lock().take().ok_or_else(finished)?;
                let (mut simulation, keeping) = (running.simulation, running.keeping);
                // After a stop within a round, some users are in training.
                let is_whole = simulation.stopped_by().is_none();
                let keeps = keep && is_whole && keeping.is_none();
                let kept = keeps.then(|| saved(&mut simulation)).transpose()?;
                let users = self.saves.as_ref().filter(|_| is_whole);
                let vectors = users
                    .map(|users| vectors_of(&simulation, users))
                    .transpose()?;
                Ok::<_, Error>((simulation.finish()?, kept, vectors, keeping))
            })
            .or_raise()?;
        let users = self.saves.clone().unwrap_or_default();
        let vectors = vectors
            .map(|found| Vectors::of(py, users, found))
            .transpose()?;
        let described = (self.scenario.clone(), self.warnings.clone());
        let report = Report::of(py, described, outcome, wall, (kept, vectors))?;
        if let (Some(keeping), Some(record)) = (keeping, report.record()) {
            py.detach(|| keeping.finish(record)).or_raise()?;
        }
        Ok(report)
    }

    /// Returns what interrupts the simulation, and the number of its threads.
    pub fn control(&self) -> &RunControl {
        &self.control
    }

    /// Returns the scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Works with the simulation on the present thread.
    pub fn hold<T>(&self, work: impl FnOnce(&mut Running) -> Result<T, Error>) -> Result<T, Error> {
        work(self.lock().as_mut().ok_or_else(finished)?)
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        let inner = self
            .inner
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if self.process != std::process::id() {
            // The threads that would have to end are those of another process.
            mem::forget(inner);
            return;
        }
        // The simulation's threads may need the interpreter to end.
        Python::attach(|py| py.detach(|| drop(inner)));
    }
}
