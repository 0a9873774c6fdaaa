//! Finds the saved simulation that a run starts from, in a file or in memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::MARK;
use crate::checkpoint;
use fedrecsim_core::{Error, Result};
use fedrecsim_data::dataset::registry::place_of;
use fedrecsim_model::ArchiveReader;

/// What the path of parameters in memory begins with.
const PREFIX: &str = "memory:";

/// How to have a run keep its parameters.
const REMEDY: &str = "run it again with --keep-checkpoint (`keep_checkpoint=True` in Python)";

/// Where a saved simulation is.
#[derive(Clone, Debug)]
pub(super) enum Source {
    File(PathBuf),
    Memory(Arc<Vec<u8>>),
}

impl Source {
    /// Finds what `path` names: parameters in memory, a report folder or a file, as it is given or below
    /// one of `directories`.
    pub(super) fn find(path: &Path, directories: &[PathBuf]) -> Result<Self> {
        if is_given(path) {
            return find_given(path).map(Self::Memory);
        }
        let found = place_of(path, directories, |place| place.is_dir() || place.is_file())?;
        if !found.is_dir() {
            return Ok(Self::File(found));
        }
        let end = found.join(checkpoint::END);
        if end.is_file() {
            return Ok(Self::File(end));
        }
        Err(Error::Usage(match checkpoint::newest_in(&found) {
            Some(newest) => format!(
                "{} does not hold the parameters of the end of its run. Name a checkpoint on its way, such as {}, or {REMEDY}",
                found.display(),
                newest.display()
            ),
            None => format!("{} holds no checkpoint: {REMEDY}", found.display()),
        }))
    }

    /// Opens the saved simulation, behind the header of a checkpoint.
    pub(super) fn open(&self) -> Result<ArchiveReader> {
        match self {
            Self::File(path) if begins(path, checkpoint::is_checkpoint)? => {
                Ok(checkpoint::open(path, true)?.world)
            }
            Self::File(path) if begins(path, is_saved)? => {
                let file = File::open(path).map_err(|reason| Error::read(path, reason))?;
                Ok(ArchiveReader::new(Box::new(BufReader::new(file))))
            }
            Self::File(path) => Err(Error::Usage(format!(
                "{} is neither a checkpoint nor a report folder: {REMEDY}, and name its report folder",
                path.display()
            ))),
            Self::Memory(bytes) if is_saved(bytes) => Ok(ArchiveReader::new(Box::new(
                Cursor::new(Shared(Arc::clone(bytes))),
            ))),
            Self::Memory(_) => Err(Error::Usage(
                "these bytes are not what `Simulation.save` returns".to_owned(),
            )),
        }
    }

    /// Returns the file, if it is one.
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Memory(_) => None,
        }
    }
}

/// Bytes that a reader shares.
struct Shared(Arc<Vec<u8>>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Returns whether `is` holds for the first bytes of the file.
fn begins(path: &Path, is: fn(&[u8]) -> bool) -> Result<bool> {
    let mut first = Vec::new();
    let read = File::open(path).and_then(|file| file.take(16).read_to_end(&mut first));
    read.map_err(|reason| Error::read(path, reason))?;
    Ok(is(&first))
}

/// Returns whether these are the first bytes of a saved simulation: the length of the mark, and the mark.
fn is_saved(bytes: &[u8]) -> bool {
    let length = (MARK.len() as u64).to_le_bytes();
    bytes.starts_with(&length) && bytes[length.len()..].starts_with(&MARK)
}

/// Parameters in memory, which scenarios can name as long as this is there.
pub struct GivenStart {
    path: PathBuf,
    _bytes: Arc<Vec<u8>>,
}

impl GivenStart {
    /// Returns the value of `training.start` for these parameters.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

static GIVEN: Mutex<BTreeMap<PathBuf, Weak<Vec<u8>>>> = Mutex::new(BTreeMap::new());

/// Makes a saved simulation known by the name of its content, so that a scenario says exactly from which
/// parameters it starts.
pub fn give_start(bytes: Vec<u8>) -> GivenStart {
    let digest = blake3::hash(&bytes).to_hex();
    let path = PathBuf::from(format!("{PREFIX}{}", &digest[..32]));
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    given.retain(|_, bytes| bytes.strong_count() > 0);
    let known = given.get(&path).and_then(Weak::upgrade);
    let bytes = known.unwrap_or_else(|| {
        let bytes = Arc::new(bytes);
        given.insert(path.clone(), Arc::downgrade(&bytes));
        bytes
    });
    GivenStart {
        path,
        _bytes: bytes,
    }
}

/// Returns whether a path names parameters in memory.
fn is_given(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.starts_with(PREFIX))
}

fn find_given(path: &Path) -> Result<Arc<Vec<u8>>> {
    let given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    given.get(path).and_then(Weak::upgrade).ok_or_else(|| {
        Error::read(
            path,
            "these parameters were in the memory of the process that gave them, and are in no file: give the same run \
             again as `start=` in Python, or name a report folder",
        )
    })
}
