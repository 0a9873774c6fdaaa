//! Saves runs to files, so that they survive a crash.
//!
//! A checkpoint is a file of its own in the report folder. It is written to a hidden file beside
//! it, forced to the disk and renamed, so that the file under its name is always whole. The one
//! before it stays until then, and one longer. A checkpoint begins with the [`Header`], which says
//! which run it is of, and ends with a checksum over all of it. The module `sim::checkpoints`
//! writes and reads the simulated world's part between the two.
//!
//! # Layout
//!
//! | bytes | field |
//! |---|---|
//! | 8 | magic: `FEDRECSC` |
//! | 4 | version of the layout, little-endian |
//! | n | the values of an [`archive`](fedrecsim_model::archive): the header, then the world; and 32 bytes for each part |
//! | 8 | n, little-endian |
//! | 32 | BLAKE3 of everything before |
//!
//! A run on several machines writes a part in each process, with the magic number `FEDRECSP` and no
//! header. The checkpoint ends with the checksums of the parts.

mod build;
mod file;
mod folder;
mod keeper;
mod parts;
mod scenario_file;
#[cfg(test)]
mod tests;

pub use self::{
    build::{Build, Program, executable_digest},
    file::{Header, Opened},
    folder::{END, Found, find, is_in, open_after, remove_all, remove_others, sync_folder},
    keeper::Keeper,
    parts::PartKeeper,
    scenario_file::{FILE_NAME as SCENARIO_FILE, is_in_the_way, text_of as scenario_text},
};

pub(crate) use self::{
    file::{is_checkpoint, open},
    folder::{newest_in, open_part_of, remove_parts},
};

use std::path::Path;

use fedrecsim_core::{Error, Result};
use fedrecsim_data::dataset::Dataset;
use fedrecsim_data::population::Traces;
use fedrecsim_model::archive::damaged;
use fedrecsim_scenario::Scenario;

/// Returns a digest (hexadecimal) of what a run reads besides its scenario: the split ratings, the
/// traces and, if it starts from the parameters of another, their digest.
pub fn fingerprint(dataset: &Dataset, traces: &Traces, start: Option<blake3::Hash>) -> String {
    let mut digest = blake3::Hasher::new();
    let mut feed = |bytes: &[u8]| {
        digest.update(bytes);
    };
    dataset.visit_bytes(&mut feed);
    traces.visit_bytes(&mut feed);
    if let Some(start) = start {
        feed(start.as_bytes());
    }
    digest.finalize().to_hex().to_string()
}

impl Header {
    /// Checks that the checkpoint is of the run whose report folder this is: its scenario must be
    /// that of the folder's [`SCENARIO_FILE`], except for the number of rounds, which does not
    /// change the rounds before. A folder without that file holds no other run.
    ///
    /// # Errors
    /// [`Error::Unrestorable`], naming keys that differ, or for a scenario file that is damaged.
    pub fn check_folder(&self, folder: &Path) -> Result<()> {
        let Some(text) = scenario_file::read(folder)? else {
            return Ok(());
        };
        let differences = scenario_file::differences(&text, &self.scenario)?;
        if differences.is_empty() {
            return Ok(());
        }
        Err(Error::Unrestorable(format!(
            "the checkpoint after round {} is of another run than the one in {}: {}; remove it to go on with that run",
            self.rounds,
            folder.display(),
            differences.join(", ")
        )))
    }

    /// Returns the number of rounds that the run in this report folder is to have, according to its
    /// [`SCENARIO_FILE`]; `None` if there is no such file. It is another number than that of a
    /// checkpoint if rounds were added since.
    ///
    /// # Errors
    /// [`Error::Read`] for a file that cannot be read.
    pub fn rounds_of_run_in(folder: &Path) -> Result<Option<u32>> {
        let Some(text) = scenario_file::read(folder)? else {
            return Ok(None);
        };
        let scenario: Option<toml::Table> = text.parse().ok();
        let rounds = scenario
            .as_ref()
            .and_then(|scenario| scenario.get("training")?.get("rounds")?.as_integer());
        Ok(rounds.and_then(|rounds| u32::try_from(rounds).ok()))
    }

    /// Checks that `running` is the build that wrote the checkpoint.
    ///
    /// # Errors
    /// [`Error::Unrestorable`], with both builds.
    pub fn check_build(&self, running: &Build) -> Result<()> {
        if self.build == *running {
            return Ok(());
        }
        Err(Error::Unrestorable(format!(
            "the checkpoint after round {} was left by another build of the program, which may come to other results: \
             by {}, and this is {}; resume with that build, or by `fedrecsim resume --other-build`, which the report will say",
            self.rounds,
            self.build.describe(),
            running.describe()
        )))
    }

    /// Names `running` as the build that goes on, and the build that was there before among the
    /// others if it is another one.
    pub fn take_over(&mut self, running: Build) {
        let before = std::mem::replace(&mut self.build, running);
        if before != self.build && !self.other_builds.contains(&before.describe()) {
            self.other_builds.push(before.describe());
        }
    }

    /// Checks that a world is the one of the checkpoint.
    ///
    /// # Errors
    /// [`Error::Unrestorable`], saying what differs: the scenario, or what it reads.
    pub fn check(&self, scenario: &Scenario, fingerprint: &str) -> Result<()> {
        let refuse = |text: String| Err(Error::Unrestorable(text));
        // Scenarios are compared as tables, because the order of their keys has no meaning.
        let table = |text: &str| {
            text.parse::<toml::Table>()
                .map_err(|reason| damaged(reason.message()))
        };
        if self.name != scenario.name || table(&self.scenario)? != table(&scenario.to_toml()?)? {
            return refuse(format!(
                "the checkpoint is of another scenario, {:?}; its resolved text is not that of {:?}",
                self.name, scenario.name
            ));
        }
        if self.fingerprint != fingerprint {
            let read = match scenario.training.start {
                None => "the data set or a trace",
                Some(_) => "the data set, a trace or what the run starts from (training.start)",
            };
            return refuse(format!(
                "{read} is not what it was when the run began; use the files that it began with"
            ));
        }
        Ok(())
    }
}
