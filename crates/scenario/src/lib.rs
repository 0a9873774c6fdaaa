//! Scenario files: reads the user's TOML and makes one checked [`Scenario`] of it.
//!
//! ```text
//!  file + overrides --tree--> values with places --rules--> presets, defaults --keys--> Scenario
//!                                  |                   |                          |
//!                                  +---- syntax -------+-- keys, types, ranges ---+-- across keys
//!                                            faults, each with line, column and excerpt
//! ```
//!
//! A key is declared once, in [`mod@keys`]: the JSON schema of these types holds the rules of single
//! keys, and the rules between keys stand beside them. [`presets`] are layers that are put under
//! the user's keys. A scenario is printed by the same types ([`Scenario::to_toml`]), with every
//! default filled in.
//!
//! All faults of a file are reported at once. What is sound but has no effect is a warning.
//!
//! This layer knows no method: [`MethodVocabulary`] brings the keys of each one.

use std::path::Path;

use fedrecsim_core::{Error, Result};

mod check;
mod declared;
mod difference;
mod faults;
mod form;
mod keys;
pub mod migrate;
mod overrides;
mod policy;
pub mod presets;
pub mod reference;
mod rules;
mod schema;
pub mod shipped;
pub mod sizes;
mod suggest;
mod traffic;
mod tree;
mod vocabulary;
mod weights;

#[cfg(test)]
mod tests;

pub use keys::participants::{Users, too_few_users};
pub use keys::*;
pub use {
    difference::{Difference, differences},
    faults::{Fault, Override, Place, Sources},
    overrides::{REPLACES_METHOD, REPLACES_SOURCE},
    policy::{Invitations, LateUpdates, Policy, UpdateRule, UpdatesNeeded},
    schema::{schema, unchecked_rules},
    suggest::{instead_of, nearest},
    traffic::{Traffic, TrafficBlock, TrafficOf, UploadUse},
    vocabulary::{MethodVocabulary, ParameterFault, Resolve, SizesOf},
    weights::{StepWeights, WeightTotals},
};

use check::Checker;
use faults::MOST_SHOWN;
use rules::Rules;
use schema::shared_schema;
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
/// in. `path` may be the name of a scenario that comes with the program, such as `quickstart`.
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
    load_with_warnings(
        path,
        &Override::of_line(overrides),
        vocabulary,
        Strictness::Lenient,
    )
    .map(|loaded| loaded.scenario)
}

/// Reads and checks the scenario file as [`load`] does, and returns it with the warnings about it.
///
/// # Errors
/// The same as [`load`]. With [`Strictness::Strict`] what would be a warning is a fault.
pub fn load_with_warnings(
    path: &Path,
    overrides: &[Override],
    vocabulary: &[MethodVocabulary],
    strictness: Strictness,
) -> Result<Loaded> {
    let (text, _) = shipped::read(path, &shipped::SCENARIOS, "scenario")?;
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
    parse_with_warnings(
        text,
        file,
        &Override::of_line(overrides),
        vocabulary,
        Strictness::Lenient,
    )
    .map(|loaded| loaded.scenario)
}

/// Checks the scenario in `text` as [`parse`] does, and returns it with the warnings about it.
///
/// # Errors
/// The same as [`load_with_warnings`].
pub fn parse_with_warnings(
    text: &str,
    file: &str,
    overrides: &[Override],
    vocabulary: &[MethodVocabulary],
    strictness: Strictness,
) -> Result<Loaded> {
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(too_long(Path::new(file)));
    }
    let sources = Sources::new(file, text, overrides);
    let (mut faults, mut warnings) = (Vec::new(), Vec::new());
    let mut root = tree::parse_file(text, &mut faults).map_err(|errors| sources.report(errors))?;
    if let Some(fault) = of_a_study(&root) {
        return Err(sources.report(vec![fault]));
    }
    let source = overrides::name_of_source(&root).map(str::to_owned);
    for (index, of) in overrides.iter().enumerate() {
        overrides::apply(
            &mut root,
            of,
            Sources::FILE + 1 + index,
            &mut faults,
            &mut warnings,
        )?;
    }
    overrides::leave_out_the_old_source(source.as_deref(), &mut root, &mut warnings);
    let schema = shared_schema(vocabulary);
    let mut rules = Rules::new(&schema);
    faults.extend(rules.check(&root));
    if !faults.is_empty() {
        let besides = across_keys_besides(&root, &faults, &rules, vocabulary);
        faults.extend(besides);
        return Err(sources.report(faults));
    }
    let (mut scenario, without_effect) =
        across_keys(&root, &[], &rules, vocabulary).map_err(|faults| sources.report(faults))?;
    scenario.name = (Path::new(file).file_stem().unwrap_or_default())
        .to_string_lossy()
        .into_owned();
    warnings.extend(without_effect);
    match strictness {
        Strictness::Strict if !warnings.is_empty() => Err(sources.report(warnings)),
        _ => Ok(Loaded {
            scenario,
            warnings: sources.lines(warnings),
        }),
    }
}

/// Returns the fault that a file is a study and no scenario, for it has keys that only a study has.
fn of_a_study(file: &Node) -> Option<Fault> {
    let key = ["axes", "arms", "seeds"]
        .into_iter()
        .find(|key| file.has(key))?;
    let message = "this is a study and no scenario: `fedrecsim study` runs it";
    (!file.has("method")).then(|| Fault::new(file.place_of(key), message))
}

/// Makes a scenario of a file whose single keys are sound but for those `at_fault`, and returns it
/// with the keys that have no effect.
///
/// # Errors
/// Every broken rule between keys.
fn across_keys(
    file: &Node,
    at_fault: &[Fault],
    rules: &Rules<'_>,
    vocabulary: &[MethodVocabulary],
) -> Result<(Scenario, Vec<Fault>), Vec<Fault>> {
    let mut values = file.to_json(at_fault);
    presets::put_under(&mut values);
    rules.complete(&mut values);
    let refused = |message: String| vec![Fault::new(&Place::FILE, message)];
    let mut scenario: Scenario =
        serde_json::from_value(values).map_err(|error| refused(error.to_string()))?;
    let method = &scenario.method.name;
    let entry = vocabulary.iter().find(|entry| entry.name == method);
    let mut checker = Checker {
        file,
        method: entry.ok_or_else(|| refused(format!("unknown method `{method}`")))?,
        traffic: None,
        rules,
        faults: Vec::new(),
        warnings: Vec::new(),
    };
    scenario.check(&mut checker);
    match checker.faults.is_empty() {
        true => Ok((scenario, checker.warnings)),
        false => Err(checker.faults),
    }
}

/// Returns the faults across keys that a file has besides `faults` of single keys, if nothing is
/// missing without these.
///
/// A contradiction with a key that is itself at fault would be a guess and is left out; so is one
/// with a table that holds such a key. A file with more faults than are shown is mended in several
/// steps anyway.
fn across_keys_besides(
    file: &Node,
    faults: &[Fault],
    rules: &Rules<'_>,
    vocabulary: &[MethodVocabulary],
) -> Vec<Fault> {
    if faults.len() > MOST_SHOWN {
        return Vec::new();
    }
    let found = across_keys(file, faults, rules, vocabulary);
    let mut found = found.err().unwrap_or_default();
    let places: Vec<&Place> = faults.iter().map(|fault| &fault.place).collect();
    found.retain(|found| {
        let about = [Some(&found.place), found.other.as_ref()];
        let is_guess = |place: &&Place| file.has_within(place, &places);
        found.place != Place::FILE && !about.iter().flatten().any(is_guess)
    });
    found
}

impl Scenario {
    /// Returns the scenario as a file, with presets resolved and defaults written out. Loading the
    /// text under the same name gives an equal scenario.
    ///
    /// # Errors
    /// [`Error::Usage`] for what TOML cannot express, which no scenario made by [`load`] or
    /// [`parse`] holds: a seed of 2^63 or more, or a null among the method's parameters.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|e| Error::Usage(format!("scenario {}: {e}", self.name)))
    }
}
