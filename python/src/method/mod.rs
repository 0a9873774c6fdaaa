//! Methods that are written in Python: a class becomes an entry in the list of methods, and its
//! objects a method and its clients.
//!
//! The module `fedrecsim._bridge` has what is easier to say in Python. An exception there, or in
//! the code of a method, ends a run as a divergence does, with the round and the user.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fedrecsim_core::{Error, PortableDraws, Result, Round, Streams, UserId};
use fedrecsim_methods::registry::METHODS;
use fedrecsim_methods::rule::ServerRule;
use fedrecsim_methods::{
    Averager, Client, Entry, Method, Problem, Server, largest_magnitude, parameters, sizes_of,
};
use fedrecsim_model::{BlockLayout, Layout, Model, TableShape};
use fedrecsim_scenario::sizes::ProblemSize;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use serde_json::Value;

use crate::arrays;
use crate::error::refused;

mod client;
mod server;
mod state;
mod task;

use client::PythonClient;
use server::PythonServer;
pub use server::Received;
pub use task::Task;

/// The state that all users of a method share.
#[derive(Debug)]
pub struct Shared {
    name: &'static str,
    /// The object of the method's class.
    object: Py<PyAny>,
    initial: Model,
    upload: Layout,
    /// The names of the model's blocks, for errors.
    model_names: Vec<&'static str>,
    /// The names of the blocks of uploads, for errors.
    block_names: Vec<&'static str>,
    rules: Vec<ServerRule>,
    facts: Facts,
    version: String,
}

/// The declarations of a class about its method.
#[derive(Clone, Copy, Debug, FromPyObject)]
#[pyo3(from_item_all)]
struct Facts {
    draws_negatives: bool,
    sampled_rows_only: bool,
    predicts_ratings: bool,
    weighted: bool,
    has_server: bool,
}

/// A block as the bridge describes it: its name, rows and columns, whether its rows are items, and
/// whether it is a statistic.
type Block = (String, usize, usize, bool, bool);

/// Imports a function of the bridge.
fn bridge<'py>(py: Python<'py>, function: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("fedrecsim._bridge")?.getattr(function)
}

/// Imports a function of the bridge that is called for every participation, once.
fn often<'a, 'py>(
    py: Python<'py>,
    place: &'a PyOnceLock<Py<PyAny>>,
    function: &str,
) -> PyResult<&'a Bound<'py, PyAny>> {
    place.import(py, "fedrecsim._bridge", function)
}

/// Returns an exception in words, with the place in the method's code where it was raised.
pub fn in_words(py: Python<'_>, raised: &PyErr) -> String {
    let words = |describe: Bound<'_, PyAny>| {
        describe
            .call1((raised.value(py), raised.traceback(py)))?
            .extract()
    };
    let told = bridge(py, "describe").and_then(words);
    told.unwrap_or_else(|_| raised.to_string())
}

/// Keeps a text for as long as the program runs, and once however often it is asked for. It is for
/// the words about methods and for the names of their blocks.
fn kept(text: &str) -> &'static str {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(text) = kept.get(text) {
        return text;
    }
    let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
    kept.insert(text);
    text
}

/// The methods that were compiled with the module beside those of the simulator.
pub(crate) static OWN: OnceLock<Vec<Entry>> = OnceLock::new();

/// Returns the methods in Rust.
fn compiled() -> impl Iterator<Item = &'static Entry> {
    METHODS.iter().chain(OWN.get().into_iter().flatten())
}

/// Returns the methods in Rust and these.
pub fn all(methods: &[Py<MethodEntry>]) -> Vec<Entry> {
    compiled()
        .copied()
        .chain(methods.iter().map(|entry| entry.get().entry()))
        .collect()
}

impl Shared {
    /// Returns the error that ends a run because of an exception.
    fn failed(
        &self,
        py: Python<'_>,
        round: Option<Round>,
        user: Option<UserId>,
        raised: &PyErr,
    ) -> Error {
        Error::MethodFailed {
            method: self.name.to_owned(),
            round,
            user: user.map(Into::into),
            reason: in_words(py, raised),
        }
    }
}

/// Returns the layout that the bridge describes.
fn layout_of(blocks: Vec<Block>) -> PyResult<Layout> {
    let mut described: Vec<BlockLayout> = Vec::new();
    for (name, rows, dimension, is_item_table, is_statistic) in blocks {
        if described.iter().any(|block| block.name == name)
            || described.len() == usize::from(u8::MAX)
        {
            return Err(refused(format!(
                "a layout has at most 255 blocks, and `{name}` is one too many or there twice"
            )));
        }
        let shape = TableShape { rows, dimension };
        let block = if is_item_table {
            BlockLayout::item_table(name, shape)
        } else {
            BlockLayout::weights(name, shape)
        };
        described.push(if is_statistic {
            block.statistic()
        } else {
            block
        });
    }
    Ok(Layout::new(described))
}

/// Refuses uploads that the server without code of its own would pass over: it steps each block of
/// the model by the block of the same name.
fn check_uploads(layout: &Layout, upload: &Layout) -> PyResult<()> {
    for block in upload.blocks() {
        let name = &block.name;
        match layout.position(name).map(|place| &layout.blocks()[place]) {
            Some(of_model) if of_model.shape == block.shape => {}
            Some(_) => {
                return Err(refused(format!(
                    "`{name}` has another shape in `upload_layout` than in `layout`"
                )));
            }
            None => {
                return Err(refused(format!(
                    "`upload_layout` names the block `{name}`, which the model does not have: nothing is done with it \
                     without a `server` of the method's own"
                )));
            }
        }
    }
    Ok(())
}

/// Refuses a model with a value that is not finite.
fn check_finite(model: &Model) -> PyResult<()> {
    for block in model.layout().blocks() {
        let largest = model
            .named(&block.name)
            .map_or(0.0, |table| largest_magnitude(table.as_slice()));
        if !largest.is_finite() {
            return Err(refused(format!(
                "the block `{}` of the initial model has a value of {largest}",
                block.name
            )));
        }
    }
    Ok(())
}

/// Returns a number for a generator of Python's, drawn from a stream of ours.
pub fn seed_of(streams: Streams, name: &str, user: u64, number: u64) -> u64 {
    fn draw(mut stream: impl PortableDraws) -> u64 {
        stream.next_u64()
    }
    draw(streams.named(&format!("python/{name}"), user, number))
}

/// The problem as a method sees it.
#[pyclass(frozen, module = "fedrecsim._native")]
pub struct ProblemFacts {
    /// The number of users.
    #[pyo3(get)]
    users: usize,
    /// The number of items.
    #[pyo3(get)]
    items: usize,
    streams: Option<Streams>,
}

#[pymethods]
impl ProblemFacts {
    /// Returns a number for a generator that nothing else uses, for a name and, if there is one, a
    /// user.
    #[pyo3(signature = (name, user=None))]
    fn seed(&self, name: &str, user: Option<u64>) -> PyResult<u64> {
        let streams = self
            .streams
            .ok_or_else(|| refused("a layout does not depend on randomness"))?;
        Ok(seed_of(
            streams,
            name,
            user.unwrap_or(u64::MAX),
            u64::MAX - 1,
        ))
    }
}

/// Makes an object of the method's class.
fn object_of<'py>(
    py: Python<'py>,
    class: &Py<PyAny>,
    value: &Value,
    problem: ProblemFacts,
) -> PyResult<Bound<'py, PyAny>> {
    bridge(py, "make")?.call1((class, value.to_string(), problem))
}

impl Shared {
    /// Makes the method of `class` with checked parameters.
    fn new(
        py: Python<'_>,
        (class, name): (&Py<PyAny>, &'static str),
        value: &Value,
        problem: &Problem,
    ) -> PyResult<Self> {
        let facts = ProblemFacts {
            users: problem.users,
            items: problem.items,
            streams: Some(problem.streams),
        };
        let object = object_of(py, class, value, facts)?;
        let layout = layout_of(bridge(py, "layout")?.call1((&object,))?.extract()?)?;
        let upload = match bridge(py, "upload_layout")?
            .call1((&object,))?
            .extract::<Option<Vec<Block>>>()?
        {
            Some(blocks) => layout_of(blocks)?,
            None => layout.clone(),
        };
        let facts: Facts = bridge(py, "facts")?.call1((&object,))?.extract()?;
        if !facts.has_server {
            check_uploads(&layout, &upload)?;
        }
        let upload = if facts.weighted {
            upload.weighted()
        } else {
            upload
        };
        let initial = arrays::model(&layout, &bridge(py, "initial")?.call1((&object,))?)?;
        check_finite(&initial)?;
        let rules: String = bridge(py, "rules")?.call1((&object,))?.extract()?;
        let mut by_block: BTreeMap<String, ServerRule> =
            serde_json::from_str(&rules).map_err(|reason| refused(format!("`rules`: {reason}")))?;
        let rules = layout
            .blocks()
            .iter()
            .map(|block| by_block.remove(&*block.name).unwrap_or(ServerRule::MEAN))
            .collect();
        if let Some((unknown, _)) = by_block.pop_first() {
            return Err(refused(format!(
                "`rules` names the block `{unknown}`, which the layout does not have"
            )));
        }
        let version: String = bridge(py, "version")?.call1((class,))?.extract()?;
        let names = |layout: &Layout| {
            layout
                .blocks()
                .iter()
                .map(|block| kept(&block.name))
                .collect()
        };
        let (model_names, block_names) = (names(&layout), names(&upload));
        let object = object.unbind();
        Ok(Self {
            name,
            object,
            initial,
            upload,
            model_names,
            block_names,
            rules,
            facts,
            version,
        })
    }
}

/// A method that is written in Python.
#[derive(Debug)]
struct PythonMethod(Arc<Shared>);

impl Method for PythonMethod {
    fn initial(&self) -> Model {
        self.0.initial.clone()
    }

    fn version(&self) -> String {
        self.0.version.clone()
    }

    fn upload_layout(
        &self,
        _phase: fedrecsim_methods::Phase,
        _class: fedrecsim_methods::Class,
    ) -> Layout {
        self.0.upload.clone()
    }

    fn client(&self, user: UserId) -> Box<dyn Client> {
        Box::new(PythonClient::new(&self.0, user))
    }

    fn server(&self) -> Box<dyn Server> {
        let shared = &self.0;
        if shared.facts.has_server {
            return Box::new(PythonServer::new(shared));
        }
        Box::new(Averager::with_rules(
            shared.initial.clone(),
            shared.upload.clone(),
            &shared.rules,
        ))
    }

    fn trains_on_sampled_rows(&self) -> bool {
        self.0.facts.sampled_rows_only
    }

    fn predicts_ratings(&self) -> bool {
        self.0.facts.predicts_ratings
    }
}

/// A method that is written in Python, as a scenario can name it.
#[pyclass(frozen, module = "fedrecsim._native")]
pub struct MethodEntry(Entry);

impl MethodEntry {
    /// Returns the line in a list of methods.
    pub fn entry(&self) -> Entry {
        self.0
    }
}

#[pymethods]
impl MethodEntry {
    /// Makes the entry of a class with this name, summary and source, and this JSON schema of its
    /// parameters. Its memory is kept for as long as the program runs.
    #[new]
    fn new(
        class: Py<PyAny>,
        name: &str,
        summary: &str,
        source: &str,
        schema: &str,
        draws: bool,
    ) -> PyResult<Self> {
        if compiled().any(|entry| entry.name == name) {
            return Err(refused(format!(
                "`{name}` is a method of fedrecsim; a method of one's own has another name"
            )));
        }
        let schema: Value =
            serde_json::from_str(schema).map_err(|reason| refused(reason.to_string()))?;
        let schema =
            schemars::Schema::try_from(schema).map_err(|reason| refused(reason.to_string()))?;
        let (name, class) = (kept(name), Arc::new(class));
        let of_sizes = Arc::clone(&class);
        let sizes = move |value: &Value, size: ProblemSize| {
            Python::attach(|py| {
                let problem = ProblemFacts {
                    users: size.users,
                    items: size.items,
                    streams: None,
                };
                let blocks = object_of(py, &of_sizes, value, problem)
                    .and_then(|object| bridge(py, "layout")?.call1((object,))?.extract());
                // The caller that builds the method reports what is wrong.
                blocks
                    .and_then(layout_of)
                    .map(|layout| sizes_of(&layout))
                    .unwrap_or_default()
            })
        };
        let build = move |value: &Value, problem: &Problem| -> Result<Box<dyn Method>> {
            let value: Value = parameters(name, value)?;
            Python::attach(|py| {
                let shared = Shared::new(py, (&class, name), &value, problem);
                let shared = shared.map_err(|raised| {
                    Error::Usage(format!(
                        "the method `{name}` cannot be made: {}",
                        in_words(py, &raised)
                    ))
                })?;
                Ok(Box::new(PythonMethod(Arc::new(shared))) as Box<dyn Method>)
            })
        };
        Ok(Self(Entry {
            name,
            summary: kept(summary),
            source: kept(source),
            schema: Box::leak(Box::new(move || schema.clone())),
            draws_negatives: draws,
            sizes: Box::leak(Box::new(sizes)),
            build: Box::leak(Box::new(build)),
            ..Entry::BY_HAND
        }))
    }

    /// The name in scenarios.
    #[getter]
    fn name(&self) -> &str {
        self.0.name
    }
}

/// Returns the names, summaries and sources of the simulator's own methods.
#[pyfunction]
pub fn builtin_methods() -> Vec<(&'static str, &'static str, &'static str)> {
    compiled()
        .map(|entry| (entry.name, entry.summary, entry.source))
        .collect()
}
