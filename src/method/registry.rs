//! The registry: every method that a scenario can name.

use super::{Entry, Method, Problem};
use crate::error::{Error, Result};
use crate::scenario::{MethodSpec, MethodVocabulary};

/// Every method of this crate, in the order in which they are listed. A program that has methods of its own puts
/// them beside these (see [`crate::method`]).
pub const METHODS: &[Entry] = &[
    super::fedrap::ENTRY,
    super::pfedrec::ENTRY,
    super::fedmf::ENTRY,
    super::baselines::POPULARITY,
    super::baselines::RANDOM,
];

/// What scenario files may say about the methods of this crate.
pub fn vocabulary() -> Vec<MethodVocabulary> {
    vocabulary_of(METHODS)
}

/// What scenario files may say about `methods`.
pub fn vocabulary_of(methods: &[Entry]) -> Vec<MethodVocabulary> {
    let words = |entry: &Entry| MethodVocabulary { name: entry.name, schema: (entry.schema)(), resolve: entry.resolve };
    methods.iter().map(words).collect()
}

/// Builds the one of `methods` that `spec` names.
///
/// # Errors
/// [`Error::Usage`] for an unknown name or parameters that do not fit; a scenario that was read with the vocabulary
/// of `methods` has neither.
pub fn build(methods: &[Entry], spec: &MethodSpec, problem: &Problem) -> Result<Box<dyn Method>> {
    let entry = methods
        .iter()
        .find(|entry| entry.name == spec.name)
        .ok_or_else(|| Error::Usage(format!("there is no method named `{}`", spec.name)))?;
    (entry.build)(&spec.parameters, problem)
}
