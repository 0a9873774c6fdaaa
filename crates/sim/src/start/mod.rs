//! The parameters of another run, which a run starts from (`training.start`).
//!
//! A saved simulation begins with what it has learned: a description ([`Learned`]), the model, what the
//! server keeps beside it, and the devices. Another run reads this much of it and no more
//! (`starting`). Its rounds, its clock, its books and its randomness begin anew, and so does what codecs
//! remember.
//!
//! What the other run left as it was drawn is drawn again from that run's seed.

mod learned;
mod source;

use std::path::{Path, PathBuf};

use fedrecsim_core::{Error, Result};
use fedrecsim_model::{Archive, ArchiveReader};
use fedrecsim_scenario::Scenario;

pub(crate) use learned::Learned;
use source::Source;
pub use source::{GivenStart, give_start};

/// The first value of a saved simulation.
const MARK: [u8; 8] = *b"FEDRECSW";

/// Appends what tells whether the parameters that follow fit another run.
pub(crate) fn describe(learned: &Learned, archive: &mut Archive) {
    archive.put(&MARK);
    archive.put(learned);
}

/// Reads what [`describe`] has appended.
///
/// # Errors
/// As [`ArchiveReader::take`].
pub(crate) fn described(archive: &mut ArchiveReader) -> Result<Learned> {
    let _mark: [u8; MARK.len()] = archive.take()?;
    archive.take()
}

/// The parameters that a run starts from.
#[derive(Debug)]
pub struct Start {
    /// As the scenario names it.
    path: PathBuf,
    source: Source,
    pub(crate) learned: Learned,
    digest: blake3::Hash,
}

impl Start {
    /// Opens the parameters that `scenario` names, if it names any. A relative path is tried as given, then
    /// below each of `directories`.
    ///
    /// # Errors
    /// [`Error::Read`] and [`Error::Usage`] for what is not there or is no saved simulation, with how to
    /// get one.
    pub fn load(scenario: &Scenario, directories: &[PathBuf]) -> Result<Option<Self>> {
        let Some(path) = &scenario.training.start else {
            return Ok(None);
        };
        let open = || {
            let source = Source::find(path, directories)?;
            let learned = described(&mut source.open()?)?;
            let mut digest = blake3::Hasher::new();
            source.open()?.show_rest(&mut |bytes| {
                digest.update(bytes);
            })?;
            Ok(Self {
                path: path.clone(),
                source,
                learned,
                digest: digest.finalize(),
            })
        };
        open().map(Some).map_err(|fault| of_key(path, fault))
    }

    /// Returns a digest of the saved simulation. It does not depend on the file, its place or the program
    /// that wrote it.
    pub fn digest(&self) -> blake3::Hash {
        self.digest
    }

    /// Returns the file, if it is one.
    pub fn file(&self) -> Option<&Path> {
        self.source.file()
    }

    /// Checks that a run can start from these parameters; `ours` describes its own.
    ///
    /// # Errors
    /// [`Error::Usage`], naming what differs in both.
    pub(crate) fn check(&self, ours: &Learned) -> Result<()> {
        match self.learned.users_in(ours) {
            Ok(_) => Ok(()),
            Err(reason) => Err(self.refused(Error::Usage(reason))),
        }
    }

    /// Returns what follows the description.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub(crate) fn read(&self) -> Result<ArchiveReader> {
        let mut archive = self.source.open()?;
        described(&mut archive)?;
        Ok(archive)
    }

    /// Returns the warnings about a run that starts from these parameters; `ours` describes its own.
    pub(crate) fn remarks(&self, ours: &Learned, claims_privacy: bool) -> Vec<String> {
        let known = self.learned.users_in(ours).unwrap_or_default();
        let (here, known) = (ours.users(), known.iter().flatten().count());
        let mut remarks = Vec::new();
        if known < here {
            remarks.push(format!(
                "training.start: {} of {here} users are not in the run that this one starts from, and begin with \
                 parameters of their own",
                here - known
            ));
        }
        if claims_privacy {
            remarks.push(
                "training.start: privacy is counted from the first round of this run, and what the other run has learned \
                 from its users comes on top of it"
                    .to_owned(),
            );
        }
        remarks
    }

    /// Returns `fault` as one of these parameters.
    pub(crate) fn refused(&self, fault: Error) -> Error {
        of_key(&self.path, fault)
    }
}

/// Returns `fault` as one of the key.
fn of_key(path: &Path, fault: Error) -> Error {
    let place = format!("training.start = {:?}", path.display().to_string());
    match fault {
        Error::Read { path, reason } => Error::Read {
            path,
            reason: format!("{reason}\n(it is named by training.start)"),
        },
        Error::Usage(reason) | Error::Unrestorable(reason) => {
            Error::Usage(format!("{place}: {reason}"))
        }
        other => other,
    }
}
