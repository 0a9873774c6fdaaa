//! Reads what a run needs: its scenario, data and traces, and the number of threads.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Session;
use super::args::InputArgs;
use super::ranks::{Side, load, named};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::rng::Streams;
use fedrecsim_data::dataset::{self, Dataset};
use fedrecsim_data::population::Traces;
use fedrecsim_methods::method::Entry;
use fedrecsim_methods::method::registry::check;
use fedrecsim_ranks::{self as ranks, Crew, Identity};
use fedrecsim_scenario::scenario::{self, Loaded, Scenario, Strictness};
use fedrecsim_sim::checkpoint::{self, Build};
use fedrecsim_sim::sim::World;

/// What a run reads from files.
pub struct Inputs {
    /// The scenario and everything that was read for it.
    pub world: Arc<World>,
    traces: Traces,
}

impl Inputs {
    /// Reads the ratings and traces of a scenario, and puts its world together.
    pub fn load(scenario: &Scenario, directories: &[PathBuf], methods: &[Entry]) -> Result<Self> {
        let dataset = Arc::new(dataset::load(
            &scenario.dataset,
            directories,
            Streams::new(scenario.seed),
        )?);
        Self::of(scenario, dataset, directories, methods)
    }

    /// Reads the traces of a scenario, and puts its world together with these ratings.
    pub(crate) fn of(
        scenario: &Scenario,
        dataset: Arc<Dataset>,
        directories: &[PathBuf],
        methods: &[Entry],
    ) -> Result<Self> {
        let traces = Traces::load(scenario, directories)?;
        let world = World::with_traces(check(scenario.clone(), methods)?, dataset, &traces)?;
        Ok(Self {
            world: Arc::new(world),
            traces,
        })
    }

    /// Returns the fingerprint of everything but the scenario. It reads all ratings once more.
    pub(crate) fn fingerprint(&self) -> String {
        checkpoint::fingerprint(&self.world.dataset, &self.traces)
    }

    /// Returns what all processes must have in common once they have read their data.
    pub(crate) fn identity(&self) -> Identity {
        named([
            ("method's own version", self.world.method.version()),
            ("digest of the data set and the traces", self.fingerprint()),
        ])
    }
}

/// A run that is about to begin or to go on.
pub(crate) struct Task {
    /// The scenario as the report shows it.
    pub scenario: Scenario,
    /// The same with its files where this process finds them.
    pub placed: Scenario,
    /// What is to be warned of.
    pub warnings: Vec<String>,
    /// The folders with data sets.
    pub directories: Vec<PathBuf>,
    /// The rounds of the checkpoint from which the run goes on, if it does.
    pub checkpoint: Option<u32>,
}

impl Task {
    /// Returns the task of a command that runs a scenario.
    ///
    /// # Errors
    /// Those of the scenario.
    pub(crate) fn of(input: &InputArgs, strictness: Strictness, session: &Session) -> Result<Self> {
        let Loaded { scenario, warnings } = scenario::load_with_warnings(
            &input.scenario,
            &input.overrides(),
            &session.vocabulary(),
            strictness,
        )?;
        Ok(Self {
            placed: scenario.clone(),
            scenario,
            warnings,
            directories: data_directories(input.data_dir.as_deref()),
            checkpoint: None,
        })
    }

    /// Returns what all processes must have in common before they read their data.
    ///
    /// # Errors
    /// Those of [`ranks::check`], of a program that cannot read its own file, and of a scenario that
    /// cannot be written.
    pub(crate) fn identity(&self) -> Result<Identity> {
        ranks::check(&self.scenario)?;
        let build = Build::running(&crate::PROGRAM, "")?.describe();
        let checkpoint = self.checkpoint.map_or("none".to_owned(), |rounds| {
            format!("that after round {rounds}")
        });
        Ok(named([
            ("build of the program", build.replace(", ", "\n")),
            ("scenario", self.scenario.name.clone()),
            ("resolved scenario", self.scenario.to_toml()?),
            ("checkpoint", checkpoint),
        ]))
    }

    /// Reads the data of this process. If it has others beside it, these have to agree on what they
    /// are about to run, and then on what they have read.
    ///
    /// # Errors
    /// Those of reading, and an error if another process cannot begin or is about to run something
    /// else.
    pub(crate) fn inputs(&self, crew: Option<&mut Crew>, methods: &[Entry]) -> Result<Inputs> {
        let Some(crew) = crew else {
            return Inputs::load(&self.placed, &self.directories, methods);
        };
        crew.agree(&self.identity()?, false)?;
        let inputs = load(self, methods, Side::Zero(crew))?;
        let inputs =
            inputs.ok_or_else(|| Error::Usage("the data of process 0 are not whole".to_owned()))?;
        crew.agree(&inputs.identity(), true)?;
        Ok(inputs)
    }
}

/// Returns the folders in which data sets and traces are looked for, in this order.
pub fn data_directories(data_dir: Option<&Path>) -> Vec<PathBuf> {
    if let Some(directory) = data_dir {
        return vec![directory.to_owned()];
    }
    let named = std::env::var_os("FEDRECSIM_DATA").map(PathBuf::from);
    named
        .into_iter()
        .chain(["data", "../shared/data"].map(PathBuf::from))
        .collect()
}

/// Returns the file or folder as an absolute path, which is valid for a process that starts in
/// another folder.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns as many worker threads as were asked for, or one for every core.
pub(crate) fn threads_of(asked: Option<u16>) -> usize {
    match asked {
        Some(threads) => threads.into(),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    }
}
