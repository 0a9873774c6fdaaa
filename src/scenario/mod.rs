//! Scenario files: reads the user's TOML and makes one checked and immutable [`Scenario`] of it.
//!
//! ```text
//!  file + overrides --tree--> values with places --rules (JSON schema)--> raw mirror --check--> Scenario
//!                                    |                    |                              |
//!                                    +---- syntax --------+---- keys, types, ranges -----+-- across keys
//!                                                 faults, each with line, column and excerpt
//! ```
//!
//! A stage reports all of its faults at once. The next one runs only when there are none, as it could only guess at
//! what a broken text means. The checked form has every preset resolved and every default filled in; it is what the
//! program uses, and what a report prints ([`Scenario::to_toml`]).
//!
//! This layer knows no method: [`MethodVocabulary`] brings the keys of each one.

use std::path::Path;

use serde::{Serialize, Serializer};

use crate::error::{Error, Result};

mod check;
mod difference;
mod faults;
pub mod listing;
mod modes;
mod overrides;
pub mod participants;
mod plain_schema;
mod policy;
pub mod presets;
mod raw;
pub mod reference;
mod rules;
pub mod sizes;
mod spec;
mod suggest;
mod tree;
mod vocabulary;

#[cfg(test)]
mod tests;

pub use difference::{Difference, differences};
pub use modes::{
    ClientSelection, FedAsyncSpec, FedBuffSpec, Mode, OortSpec, OverSelectionSpec, SemiSynchronousSpec,
    StalenessWeight, Stragglers,
};
pub use policy::{Invitations, LateUpdates, Policy, StepWeights, UpdateRule, UpdatesNeeded, WeightTotals};
pub use spec::{
    AvailabilityPattern, AvailabilitySpec, AvailabilityTraceSpec, CodecName, CodecSpec, ColumnRef, DailySpec,
    DatasetSpec, DelimitedSpec, DeviceClassSpec, DevicesSpec, EvaluationSpec, FaultEffect, FaultSpec, FaultUsers,
    GeneratorSpec, LinkTraceSpec, MemorySpec, MethodSpec, NegativePool, NegativesSpec, NetworkSpec, OnOffSpec,
    Participation, Ranking, RecurringOutageSpec, Scenario, Selection, ServerLinkSpec, ServerSpec, Sharing, SourceSpec,
    SpeedSpec, SplitSpec, TrainingSpec,
};
pub use vocabulary::{MethodVocabulary, ParameterFault, schema, unchecked_rules};

use faults::{Fault, Place, Sources};
use raw::RawScenario;
use rules::Rules;

/// Reads and checks the scenario file at `path`, with `overrides` of the form `table.key=value` put in.
///
/// The scenario's name is the file's stem.
///
/// # Errors
/// [`Error::Read`] if the file cannot be read, [`Error::Usage`] for an override without a key or a value,
/// and [`Error::Scenario`] with every fault otherwise.
pub fn load(path: &Path, overrides: &[String], vocabulary: &[MethodVocabulary]) -> Result<Scenario> {
    let bytes = std::fs::read(path).map_err(|reason| Error::read(path, reason))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let sound = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = sound.iter().filter(|byte| **byte == b'\n').count() + 1;
        Error::read(path, format!("line {line} is not UTF-8; save the file as UTF-8"))
    })?;
    // Editors on Windows put a byte order mark first; it is not part of the text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    parse(text, &path.display().to_string(), overrides, vocabulary)
}

/// Checks the scenario in `text`. `file` is the name that faults are reported under; its stem is the
/// scenario's name.
///
/// # Errors
/// The same as [`load`], except for reading.
pub fn parse(text: &str, file: &str, overrides: &[String], vocabulary: &[MethodVocabulary]) -> Result<Scenario> {
    let sources = Sources::new(file, text, overrides);
    let mut faults = Vec::new();
    let mut root = tree::parse_file(text, &mut faults).map_err(|errors| sources.report(errors))?;
    for (index, text) in overrides.iter().enumerate() {
        overrides::apply(&mut root, text, Sources::FILE + 1 + index, &mut faults)?;
    }
    let schema = schema(vocabulary);
    Rules::new(&schema).check(&root, &mut faults);
    if !faults.is_empty() {
        return Err(sources.report(faults));
    }
    let raw: RawScenario = serde_json::from_value(root.to_json())
        .map_err(|refused| sources.report(vec![Fault::new(&Place::FILE, refused.to_string())]))?;
    let name = Path::new(file).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    check::check(raw, name, &root, &schema, vocabulary).map_err(|faults| sources.report(faults))
}

impl Scenario {
    /// Returns the scenario as a file, with presets resolved and defaults written out. Loading the text under the same
    /// name gives an equal scenario.
    ///
    /// # Errors
    /// [`Error::Usage`] for what TOML cannot express, which no scenario made by [`load`] or [`parse`] holds: a seed of
    /// 2^63 or more, or a null among the method's parameters.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(&RawScenario::from(self)).map_err(|e| Error::Usage(format!("scenario {}: {e}", self.name)))
    }
}

impl Serialize for Scenario {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawScenario::from(self).serialize(serializer)
    }
}
