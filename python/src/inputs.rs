//! Reads scenarios and what they need.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fedrecsim::cli::{Inputs, beside_scenario, data_directories};
use fedrecsim_methods::Entry;
use fedrecsim_methods::registry::vocabulary_of;
use fedrecsim_report::study::file::or_study;
use fedrecsim_scenario::reference::{self, Key};
use fedrecsim_scenario::{self as scenario, Loaded, Override, REPLACES_SOURCE, Strictness};
use fedrecsim_sim::{self as sim, GivenStart, RehearsalLength, World, give_start};
use pyo3::prelude::*;
use serde_json::json;

use crate::error::{OrRaise, refused};
use crate::method::{MethodEntry, all};
use crate::ratings::Ratings;
use crate::watch::watched;

/// The length of a rehearsal for an estimate, which is that of the command.
const REHEARSAL: RehearsalLength = RehearsalLength {
    rounds: 3,
    at_least: Duration::from_secs(2),
    at_most: Duration::from_secs(20),
};

/// What Python code calls overrides.
pub const SET: &str = "set";

/// A scenario as Python code gives it: a file, or a text with the name under which its faults are
/// told.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Given {
    /// The file; it is read if there is no text.
    path: PathBuf,
    text: Option<String>,
    /// Overrides: keys, and values as JSON.
    set: Vec<(String, String)>,
    data_dir: Option<PathBuf>,
    methods: Vec<Py<MethodEntry>>,
    /// Ratings in memory, which the overrides name.
    ratings: Option<Py<Ratings>>,
    /// Parameters in memory, which the overrides name.
    #[allow(dead_code)]
    start: Option<Py<Start>>,
}

/// Parameters of another run that are in memory, as long as this is there.
#[pyclass(frozen, module = "fedrecsim._native")]
pub struct Start(GivenStart);

#[pymethods]
impl Start {
    /// Takes what `Simulation.save` returns.
    #[new]
    fn new(saved: Vec<u8>) -> Self {
        Self(give_start(saved))
    }

    /// The value of `training.start` for these parameters.
    #[getter]
    fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }
}

impl Given {
    /// Returns the methods that the scenario may name: those of the simulator, and those in Python.
    pub fn methods(&self) -> Vec<Entry> {
        all(&self.methods)
    }

    /// Returns the folders to look for data sets in.
    pub fn directories(&self) -> Vec<PathBuf> {
        data_directories(self.data_dir.as_deref())
    }

    /// Reads and checks the scenario, without the interpreter's lock.
    ///
    /// # Errors
    /// The exception of every fault.
    pub fn load(&self, py: Python<'_>) -> PyResult<Loaded> {
        let (methods, path, text) = (self.methods(), &self.path, &self.text);
        let overrides = self.set.iter().map(|(key, value)| {
            Ok(Override {
                text: format!("{key}={}", inline(value)?),
                written: Some((SET.to_owned(), None)),
            })
        });
        let overrides = overrides.collect::<PyResult<Vec<Override>>>()?;
        let mut loaded = watched(py, &Arc::new(AtomicBool::new(false)), None, |_| {
            let vocabulary = vocabulary_of(&methods);
            match text {
                Some(text) => {
                    let name = path.display().to_string();
                    scenario::parse_with_warnings(
                        text,
                        &name,
                        &overrides,
                        &vocabulary,
                        Strictness::Lenient,
                    )
                }
                None => {
                    scenario::load_with_warnings(path, &overrides, &vocabulary, Strictness::Lenient)
                        .map_err(|error| or_study(error, path))
                }
            }
        })?;
        let is_meant = |text: &String| self.ratings.is_some() && text.contains(REPLACES_SOURCE);
        loaded.warnings.retain(|text| !is_meant(text));
        Ok(loaded)
    }

    /// Reads the scenario and everything that it needs, without the interpreter's lock.
    ///
    /// # Errors
    /// The exception of every fault.
    pub fn inputs(&self, py: Python<'_>) -> PyResult<(Loaded, Inputs)> {
        let mut loaded = self.load(py)?;
        let (methods, directories) = (self.methods(), self.directories());
        let load = || {
            let inputs = Inputs::load(&loaded.scenario, &directories, &methods);
            inputs.map_err(|error| beside_scenario(error, &self.path))
        };
        let inputs = watched(py, &Arc::new(AtomicBool::new(false)), None, |_| load())?;
        let [_, warnings] = inputs.remarks();
        loaded.warnings.extend(warnings);
        Ok((loaded, inputs))
    }

    /// Returns as many threads as were asked for. Without a wish it is one for every core, and one
    /// for a method in Python, whose threads would only wait for the interpreter.
    pub fn threads(&self, asked: Option<NonZeroUsize>, world: &World) -> usize {
        let is_own = self
            .methods
            .iter()
            .any(|entry| entry.get().entry().name == world.scenario.method.name);
        match asked {
            Some(threads) => threads.get(),
            None if is_own => 1,
            None => std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// Returns a value of JSON as one of TOML, on one line.
fn inline(value: &str) -> PyResult<String> {
    let value: toml::Value =
        serde_json::from_str(value).map_err(|reason| refused(format!("{value}: {reason}")))?;
    Ok(value.to_string())
}

/// Returns an object of JSON as an inline table of TOML.
#[pyfunction]
pub fn inline_of_json(text: &str) -> PyResult<String> {
    inline(text)
}

/// Returns an object of JSON as TOML.
#[pyfunction]
pub fn toml_of_json(text: &str) -> PyResult<String> {
    let refuse = |reason: String| refused(format!("the dictionary is no scenario: {reason}"));
    let table: toml::Table =
        serde_json::from_str(text).map_err(|reason| refuse(reason.to_string()))?;
    toml::to_string(&table).map_err(|reason| refuse(reason.to_string()))
}

/// Returns the keys that `asked` may mean, or all of them, as JSON.
#[pyfunction]
pub fn explain(methods: Vec<Py<MethodEntry>>, asked: Option<&str>) -> PyResult<String> {
    let keys = reference::keys(&scenario::schema(&vocabulary_of(&all(&methods))));
    let found: Vec<&Key> = match asked {
        None => keys.iter().collect(),
        Some(asked) => reference::find(&keys, asked).map_err(|nearest| {
            let hint = nearest.map_or_else(String::new, |key| format!("; did you mean `{key}`?"));
            refused(format!("there is no key `{asked}`{hint}"))
        })?,
    };
    let described = found.iter().map(|key| {
        let mut value = serde_json::to_value(key)?;
        value["unit"] = key.unit().into();
        // A default is one of TOML.
        value["default"] = match &key.default {
            Some(text) => serde_json::to_value(toml_value(text)),
            None => Ok(serde_json::Value::Null),
        }?;
        Ok(value)
    });
    let described: Result<Vec<_>, serde_json::Error> = described.collect();
    serde_json::to_string(&described.map_err(|reason| refused(reason.to_string()))?)
        .map_err(|reason| refused(reason.to_string()))
}

/// Returns a value of TOML; a text if it is none.
fn toml_value(text: &str) -> toml::Value {
    let parsed = toml::from_str::<toml::Table>(&format!("value = {text}"));
    let value = parsed.ok().and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| text.into())
}

/// Returns the scenario as it is resolved, as TOML, with the warnings about it.
#[pyfunction]
pub fn resolve(py: Python<'_>, scenario: Given) -> PyResult<(String, Vec<String>)> {
    let Loaded { scenario, warnings } = scenario.load(py)?;
    Ok((scenario.to_toml().or_raise()?, warnings))
}

/// Returns what a run of the scenario is expected to take, as JSON.
#[pyfunction]
#[pyo3(signature = (scenario, threads=None))]
pub fn estimate(
    py: Python<'_>,
    scenario: Given,
    threads: Option<NonZeroUsize>,
) -> PyResult<String> {
    let (_, Inputs { world, .. }) = scenario.inputs(py)?;
    let threads = scenario.threads(threads, &world);
    let rehearse = || sim::estimate(&world, threads, REHEARSAL);
    let estimate = watched(py, &Arc::new(AtomicBool::new(false)), None, |_| rehearse())?;
    Ok(json!({
        "rounds": world.scenario.training.rounds,
        "threads": threads,
        "up_bytes_per_round": estimate.bytes_per_round.up,
        "down_bytes_per_round": estimate.bytes_per_round.down,
        "virtual_time_per_round_s": estimate.virtual_time_per_round_s,
        "wall_time_per_round_s": estimate.wall_time_per_round_s,
        "devices_bytes": estimate.memory.devices_bytes,
        "uploads_bytes": estimate.memory.uploads_bytes,
        "invited_per_round": estimate.invited_per_round,
    })
    .to_string())
}
