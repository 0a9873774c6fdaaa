//! Scenario files: reads the user's TOML and makes one checked and immutable [`Scenario`] of it.
//!
//! ```text
//!  file + overrides --tree--> values with places --rules (JSON schema)--> raw mirror --check--> Scenario
//!                                    |                    |                              |
//!                                    +---- syntax --------+---- keys, types, ranges -----+-- across keys
//!                                                 faults, each with line, column and excerpt
//! ```
//!
//! A stage reports all of its faults at once. The next one runs only when there are none, or none
//! but numbers out of range, as it could only guess at what a broken text means. What is sound but
//! has no effect is a warning, which the last stage finds. The checked form has every preset
//! resolved and every default filled in; it is what the program uses, and what a report prints
//! ([`Scenario::to_toml`]).
//!
//! This layer knows no method: [`MethodVocabulary`] brings the keys of each one.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::{Serialize, Serializer};
use serde_json::Value as Json;

use fedrecsim_core::error::{Error, Result};

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
mod repair;
mod rules;
pub mod sizes;
mod spec;
mod suggest;
mod traffic;
mod tree;
mod vocabulary;
mod weights;

#[cfg(test)]
mod tests;

pub use difference::{Difference, differences};
pub use modes::{
    ClientSelection, FedAsyncSpec, FedBuffSpec, Mode, OortSpec, OverSelectionSpec,
    SemiSynchronousSpec, StalenessWeight, Stragglers,
};
pub use policy::{Invitations, LateUpdates, Policy, UpdateRule, UpdatesNeeded};
pub use spec::{
    Adjacency, AuditSpec, AvailabilityPattern, AvailabilitySpec, AvailabilityTraceSpec,
    BlockCodecSpec, CodecChoice, CodecName, CodecSpec, ColumnRef, CompositionSpec, DailySpec,
    DatasetSpec, DeadZoneSpec, DelimitedSpec, DeviceClassSpec, DevicesSpec, EntropySpec,
    EvaluationSpec, FaultEffect, FaultSpec, FaultUsers, FirstDownload, GaussianSpec, GeneratorSpec,
    ItemTable, Kept, LaplaceSpec, LinkTraceSpec, MemorySpec, MethodSpec, NegativePool,
    NegativesSpec, NetworkSpec, OnOffSpec, OverheadsSpec, PaillierSpec, Participation,
    PositionsSpec, PrivacySpec, PublicDataset, Ranking, RecurringOutageSpec, ReportSpec,
    RoundingSpec, ScaleSpec, Scenario, SecureAggregationSpec, SelectSpec, Selection,
    ServerLinkSpec, ServerSpec, Sharing, SourceSpec, SpeedSpec, SplitSpec, SubsetSpec,
    TrainingSpec, TransportSpec, Trust, ValuesSpec, VirtualItemsSpec, usual_delta,
};
pub use traffic::{CodecContradiction, Traffic, TrafficBlock, TrafficOf, UploadUse};
pub use vocabulary::{
    MethodVocabulary, ParameterFault, ParameterFaultKind, Resolve, SizesOf, schema, unchecked_rules,
};
pub use weights::{StepWeights, WeightTotals};

pub use faults::{Fault, Place, Sources};

use faults::MOST_SHOWN;
use raw::RawScenario;
use rules::Rules;
use tree::Node;

/// The most bytes of a scenario file, 1 MiB. The longest one that a person has written has a
/// hundredth of it.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// A checked scenario, and what its file says in vain.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The scenario.
    pub scenario: Scenario,
    /// A line for each key that has no effect or that an override has removed, with file, line and
    /// column.
    pub warnings: Vec<String>,
}

/// Says what becomes of a key that has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// There is a warning about the key, and the scenario is taken.
    Lenient,
    /// The key is a fault, and the scenario is refused.
    Strict,
}

/// Reads and checks the scenario file at `path`, with `overrides` of the form `table.key=value` put
/// in.
///
/// The scenario's name is the file's stem.
///
/// # Errors
/// [`Error::Read`] if the file cannot be read or is longer than [`MAX_FILE_BYTES`],
/// [`Error::Usage`] for an override without a key or a value, and [`Error::Scenario`] with every
/// fault otherwise.
pub fn load(
    path: &Path,
    overrides: &[String],
    vocabulary: &[MethodVocabulary],
) -> Result<Scenario> {
    load_with_warnings(path, overrides, vocabulary, Strictness::Lenient)
        .map(|loaded| loaded.scenario)
}

/// Reads and checks the scenario file as [`load`] does, and returns it with the warnings about it.
///
/// # Errors
/// The same as [`load`]. With [`Strictness::Strict`] what would be a warning is a fault.
pub fn load_with_warnings(
    path: &Path,
    overrides: &[String],
    vocabulary: &[MethodVocabulary],
    strictness: Strictness,
) -> Result<Loaded> {
    let file = File::open(path).map_err(|reason| Error::read(path, reason))?;
    let mut bytes = Vec::new();
    // One byte more shows that the file is too long, and no more of it is read.
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|reason| Error::read(path, reason))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(too_long(path));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let sound = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = sound.iter().filter(|byte| **byte == b'\n').count() + 1;
        Error::read(
            path,
            format!("line {line} is not UTF-8; save the file as UTF-8"),
        )
    })?;
    // Editors on Windows put a byte order mark first; it is not part of the text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    parse_with_warnings(
        text,
        &path.display().to_string(),
        overrides,
        vocabulary,
        strictness,
    )
}

fn too_long(file: &Path) -> Error {
    Error::read(
        file,
        format!(
            "a scenario file has at most 1 MiB ({MAX_FILE_BYTES} bytes), and this one is longer"
        ),
    )
}

/// Checks the scenario in `text`. `file` is the name that faults are reported under; its stem is
/// the scenario's name.
///
/// # Errors
/// The same as [`load`].
pub fn parse(
    text: &str,
    file: &str,
    overrides: &[String],
    vocabulary: &[MethodVocabulary],
) -> Result<Scenario> {
    parse_with_warnings(text, file, overrides, vocabulary, Strictness::Lenient)
        .map(|loaded| loaded.scenario)
}

/// Checks the scenario in `text` as [`parse`] does, and returns it with the warnings about it.
///
/// # Errors
/// The same as [`load_with_warnings`].
pub fn parse_with_warnings(
    text: &str,
    file: &str,
    overrides: &[String],
    vocabulary: &[MethodVocabulary],
    strictness: Strictness,
) -> Result<Loaded> {
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(too_long(Path::new(file)));
    }
    let sources = Sources::new(file, text, overrides);
    let (mut faults, mut warnings) = (Vec::new(), Vec::new());
    let mut root = tree::parse_file(text, &mut faults).map_err(|errors| sources.report(errors))?;
    let overridden = overrides::Overridden::new(&root);
    for (index, text) in overrides.iter().enumerate() {
        overrides::apply(
            &mut root,
            text,
            Sources::FILE + 1 + index,
            &mut faults,
            &mut warnings,
        )?;
    }
    overridden.leave_out_the_old_source(&mut root, &mut warnings);
    let name = Path::new(file)
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let schema = schema(vocabulary);
    Rules::new(&schema).check(&root, &mut faults);
    let across_keys = |root: &Node| {
        let raw: RawScenario = serde_json::from_value(root.to_json())
            .map_err(|refused| vec![Fault::new(&Place::FILE, refused.to_string())])?;
        check::check(raw, name.clone(), root, &schema, vocabulary)
    };
    if !faults.is_empty() {
        let besides = besides_faults_of_single_keys(&root, &faults, &schema, across_keys);
        faults.extend(besides);
        return Err(sources.report(faults));
    }
    let (scenario, without_effect) = across_keys(&root).map_err(|faults| sources.report(faults))?;
    warnings.extend(without_effect);
    match strictness {
        Strictness::Strict if !warnings.is_empty() => Err(sources.report(warnings)),
        _ => Ok(Loaded {
            scenario,
            warnings: sources.lines(warnings),
        }),
    }
}

/// Returns the faults across keys that a file has besides `faults`, if something is known that
/// would do instead of each of these.
///
/// What is said of several keys may depend on what the user meant. So each fault is repaired in two
/// ways, and only what is wrong with both is returned. A file with more faults than are shown is
/// mended in several steps anyway.
fn besides_faults_of_single_keys(
    root: &Node,
    faults: &[Fault],
    schema: &Json,
    across_keys: impl Fn(&Node) -> Result<(Scenario, Vec<Fault>), Vec<Fault>>,
) -> Vec<Fault> {
    let repairs = faults
        .iter()
        .map(|fault| Some((&fault.place, fault.repair.as_ref()?)));
    let Some(repairs) = repairs
        .collect::<Option<Vec<_>>>()
        .filter(|_| faults.len() <= MOST_SHOWN)
    else {
        return Vec::new();
    };
    let [first, second] = [0, 1].map(|choice| {
        let mut mended = root.clone();
        repairs
            .iter()
            .for_each(|(place, repair)| mended.repair(place, repair, choice));
        let mut left = Vec::new();
        Rules::new(schema).check(&mended, &mut left);
        if left.is_empty() {
            across_keys(&mended).err().unwrap_or_default()
        } else {
            Vec::new()
        }
    });
    first
        .into_iter()
        .filter(|fault| second.contains(fault))
        .collect()
}

impl Scenario {
    /// Returns the scenario as a file, with presets resolved and defaults written out. Loading the
    /// text under the same name gives an equal scenario.
    ///
    /// # Errors
    /// [`Error::Usage`] for what TOML cannot express, which no scenario made by [`load`] or
    /// [`parse`] holds: a seed of 2^63 or more, or a null among the method's parameters.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(&RawScenario::from(self))
            .map_err(|e| Error::Usage(format!("scenario {}: {e}", self.name)))
    }
}

impl Serialize for Scenario {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawScenario::from(self).serialize(serializer)
    }
}
