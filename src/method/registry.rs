//! The registry: every method that a scenario can name.

use serde_json::Value;

use super::{Method, Problem, baselines, fedmf, fedrap, pfedrec};
use crate::error::{Error, Result};
use crate::scenario::{MethodSpec, MethodVocabulary, ParameterFault};

/// A registered method.
pub struct Entry {
    /// Name in scenario files.
    pub name: &'static str,
    /// One line for `fedrecsim methods`.
    pub summary: &'static str,
    /// Paper and code that it follows.
    pub source: &'static str,
    /// JSON schema of its parameters.
    pub schema: fn() -> schemars::Schema,
    /// Checks what a schema cannot say.
    pub check: fn(&Value) -> Vec<ParameterFault>,
    /// Builds the method from checked parameters.
    pub build: fn(&Value, &Problem) -> Result<Box<dyn Method>>,
}

/// Every method, in the order in which they are listed.
pub const METHODS: &[Entry] = &[fedrap::ENTRY, pfedrec::ENTRY, fedmf::ENTRY, baselines::POPULARITY, baselines::RANDOM];

/// What scenario files may say about methods.
pub fn vocabulary() -> Vec<MethodVocabulary> {
    METHODS
        .iter()
        .map(|entry| MethodVocabulary { name: entry.name, schema: (entry.schema)(), check: entry.check })
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

/// Reads checked parameters into a method's own type.
///
/// # Errors
/// [`Error::Usage`] if they do not fit, which a loaded scenario rules out.
pub(super) fn parameters<T: serde::de::DeserializeOwned>(name: &str, value: &Value) -> Result<T> {
    serde_json::from_value(value.clone()).map_err(|fault| Error::Usage(format!("method {name}: {fault}")))
}
