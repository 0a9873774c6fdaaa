//! The registry: every method that a scenario can name.

pub use super::entry::Entry;
use super::{Method, Problem, baselines, fedmf, fedrap, pfedrec};
use crate::error::{Error, Result};
use crate::scenario::{MethodSpec, MethodVocabulary};

/// Every method, in the order in which they are listed.
pub const METHODS: &[Entry] = &[fedrap::ENTRY, pfedrec::ENTRY, fedmf::ENTRY, baselines::POPULARITY, baselines::RANDOM];

/// What scenario files may say about methods.
pub fn vocabulary() -> Vec<MethodVocabulary> {
    METHODS
        .iter()
        .map(|entry| MethodVocabulary { name: entry.name, schema: (entry.schema)(), resolve: entry.resolve })
        .collect()
}

/// Builds the method that `spec` names.
///
/// # Errors
/// [`Error::Usage`] for an unknown name or parameters that do not fit; a loaded scenario has neither.
pub fn build(spec: &MethodSpec, problem: &Problem) -> Result<Box<dyn Method>> {
    let entry = METHODS
        .iter()
        .find(|entry| entry.name == spec.name)
        .ok_or_else(|| Error::Usage(format!("there is no method named `{}`", spec.name)))?;
    (entry.build)(&spec.parameters, problem)
}
