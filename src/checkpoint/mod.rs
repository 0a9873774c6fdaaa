//! Saves runs to files, so that they survive a crash.
//!
//! A checkpoint is a file of its own in the report folder. It is written to a hidden file beside it, forced to the disk
//! and renamed, so that the file under its name is always whole. The one before it stays until then, and one longer. A
//! checkpoint begins with the [`Header`], which says which run it is of, and ends with a checksum over all of it. The
//! module `sim::checkpoints` writes and reads the simulated world's part between the two.
//!
//! # Layout
//!
//! | bytes | field |
//! |---|---|
//! | 8 | magic: `FEDRECSC` |
//! | 4 | version of the layout, little-endian: 2 |
//! | n | the values of an [`archive`](crate::model::archive): the header, then the world |
//! | 8 | n, little-endian |
//! | 32 | BLAKE3 of everything before |

mod file;
mod folder;
#[cfg(test)]
mod tests;

pub use file::{Header, Opened, open};
pub use folder::{Found, Keeper, find, is_in, remove_all, sync_folder};

use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::model::archive::damaged;
use crate::population::Traces;
use crate::scenario::Scenario;

/// The program's version. Another one may come to other results, and therefore refuses to go on with a run.
pub const PROGRAM_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns a digest (hexadecimal) of what a run reads besides its scenario: the split ratings and the traces.
pub fn fingerprint(dataset: &Dataset, traces: &Traces) -> String {
    let mut digest = blake3::Hasher::new();
    let mut feed = |bytes: &[u8]| {
        digest.update(bytes);
    };
    dataset.visit_bytes(&mut feed);
    traces.visit_bytes(&mut feed);
    digest.finalize().to_hex().to_string()
}

impl Header {
    /// Checks that a world is the one of the checkpoint.
    ///
    /// # Errors
    /// [`Error::Checkpoint`], saying what differs: the scenario, or what it reads.
    pub fn check(&self, scenario: &Scenario, fingerprint: &str) -> Result<()> {
        let refuse = |text: String| Err(Error::Checkpoint(text));
        // Scenarios are compared as tables, because the order of their keys has no meaning.
        let table = |text: &str| text.parse::<toml::Table>().map_err(|reason| damaged(reason.message()));
        if self.name != scenario.name || table(&self.scenario)? != table(&scenario.to_toml()?)? {
            return refuse(format!(
                "the checkpoint is of another scenario, {:?}; its resolved text is not that of {:?}",
                self.name, scenario.name
            ));
        }
        if self.fingerprint != fingerprint {
            return refuse(
                "the data set or a trace is not what it was when the run began; resume it with the files that it began with"
                    .to_owned(),
            );
        }
        Ok(())
    }
}
