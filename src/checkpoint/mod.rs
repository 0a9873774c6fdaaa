//! Checkpoints as files: runs that survive a crash.
//!
//! A checkpoint is a file of its own in the report folder. It is written to a hidden file beside it, forced to the disk
//! and renamed, so that under its name it is there whole or not at all; the one before it stays until then, and one
//! longer. It begins with the [`Header`], which says what run it is of, and ends with a checksum over all of it. The
//! simulated world's part between the two is the module `sim::checkpoints`'s.
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

/// The program's version: another one may come to other results, and does not go on with a run.
pub const PROGRAM_VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a run reads besides its scenario, as a digest, hexadecimal: the split ratings and the traces.
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
    /// Refuses a world that is not the one of the checkpoint.
    ///
    /// # Errors
    /// [`Error::Checkpoint`], saying what differs: the scenario, or what it reads.
    pub fn check(&self, scenario: &Scenario, fingerprint: &str) -> Result<()> {
        let refuse = |text: String| Err(Error::Checkpoint(text));
        // As tables: the order of keys is no part of a scenario.
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
