//! Reads what a run needs: data, traces, and the number of threads.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::method::{Entry, check};
use crate::scenario::Scenario;
use crate::sim::World;
use crate::{Error, Result};
use fedrecsim_core::shell_word;
use fedrecsim_data::dataset::{self, Dataset};
use fedrecsim_data::population::Traces;
use fedrecsim_methods::registry::find;
use fedrecsim_scenario::Strictness;
use fedrecsim_sim::{Start, checkpoint};

/// What can be read from any place.
pub(super) trait Seekable: Read + Seek {}

impl<R: Read + Seek> Seekable for R {}

/// Opens a file that is not read from its beginning to its end. A pipe, which can only be read so, is
/// taken into memory.
///
/// # Errors
/// [`Error::Read`] for what cannot be opened or read.
pub(super) fn seekable(path: &Path) -> Result<Box<dyn Seekable>> {
    let opened = || -> io::Result<Box<dyn Seekable>> {
        let mut file = File::open(path)?;
        if file.metadata()?.is_file() {
            return Ok(Box::new(BufReader::new(file)));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Box::new(Cursor::new(bytes)))
    };
    opened().map_err(|reason| Error::read(path, reason))
}

/// The files that a run reads.
pub struct Inputs {
    /// The scenario and everything that was read for it.
    pub world: Arc<World>,
    traces: Traces,
}

impl Inputs {
    /// Reads the ratings and traces of a scenario, and puts its world together.
    pub fn load(scenario: &Scenario, directories: &[PathBuf], methods: &[Entry]) -> Result<Self> {
        let draws = find(methods, &scenario.method)?.draws_negatives;
        let dataset = Arc::new(dataset::load_for((scenario, draws), directories)?);
        Self::of(scenario, dataset, directories, methods)
    }

    /// Reads the traces of a scenario, and puts its world together with these ratings.
    pub(crate) fn of(
        scenario: &Scenario,
        dataset: Arc<Dataset>,
        directories: &[PathBuf],
        methods: &[Entry],
    ) -> Result<Self> {
        let traces = Traces::load(scenario, &dataset, directories)?;
        let world = world_of((scenario, dataset), &traces, directories, methods)?;
        Ok(Self {
            world: Arc::new(world),
            traces,
        })
    }

    /// Returns the world of a scenario that differs in what changes no file, with these ratings.
    pub(crate) fn world_with(
        &self,
        scenario: &Scenario,
        dataset: Arc<Dataset>,
        (directories, methods): (&[PathBuf], &[Entry]),
    ) -> Result<World> {
        world_of((scenario, dataset), &self.traces, directories, methods)
    }

    /// Returns what was told from the ratings file, and what somebody should look at before relying on
    /// the ratings, or on what the run starts from.
    pub fn remarks(&self) -> [Vec<String>; 2] {
        let World {
            dataset, scenario, ..
        } = &*self.world;
        let [told, mut warnings] = dataset.remarks(&scenario.dataset);
        warnings.extend(self.world.remarks_on_start());
        [told, warnings]
    }

    /// Returns the fingerprint of everything but the scenario. It reads all ratings once more.
    pub(crate) fn fingerprint(&self) -> String {
        let world = &self.world;
        let start = world.start.as_ref().map(Start::digest);
        checkpoint::fingerprint(&world.dataset, &self.traces, start)
    }
}

fn world_of(
    (scenario, dataset): (&Scenario, Arc<Dataset>),
    traces: &Traces,
    directories: &[PathBuf],
    methods: &[Entry],
) -> Result<World> {
    let start = Start::load(scenario, directories)?;
    let runnable = check(scenario.clone(), methods)?;
    World::with_start(runnable, dataset, traces, start)
        .map_err(|error| dataset::with_reason(error, scenario, directories))
}

/// Returns the folders to look for data sets and traces in, in this order.
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

/// Says of a file that was not found that it stands beside the scenario, if it does.
pub fn beside_scenario(error: Error, scenario: &Path) -> Error {
    match error {
        Error::Read { path, reason } => {
            let folder = scenario
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty());
            let is_lost = path.is_relative() && !path.exists();
            match folder.filter(|folder| is_lost && folder.join(&path).exists()) {
                Some(folder) => {
                    let option = shell_word(&folder.to_string_lossy());
                    Error::read(
                        path,
                        format!(
                            "{reason}\nIt stands beside the scenario, where it is not looked for: add `--data-dir {option}`, or \
                             start the command in that folder"
                        ),
                    )
                }
                None => Error::Read { path, reason },
            }
        }
        other => other,
    }
}

/// Returns the file or folder as an absolute path, which is valid for a process that starts in
/// another folder.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns the file as an absolute path, or the name of one that comes with the program.
pub(crate) fn absolute_or_name(path: &Path) -> PathBuf {
    match path.exists() {
        true => absolute(path),
        false => path.to_owned(),
    }
}

/// Returns as many worker threads as were asked for, or one for every core.
pub(crate) fn threads_of(asked: Option<u16>) -> usize {
    match asked {
        Some(threads) => threads.into(),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Returns what becomes of keys without an effect if `strict` was given or not.
pub(crate) fn strictness(strict: bool) -> Strictness {
    if strict {
        Strictness::Strict
    } else {
        Strictness::Lenient
    }
}
