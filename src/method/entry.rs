//! What a method says about itself: its line in the registry.

use serde_json::Value;

use super::{Method, Problem};
use crate::error::{Error, Result};
use crate::scenario::ParameterFault;

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
    /// Fills in defaults that hang on other parameters, and checks what a schema cannot say.
    pub resolve: fn(&mut Value) -> Vec<ParameterFault>,
    /// Builds the method from checked parameters.
    pub build: fn(&Value, &Problem) -> Result<Box<dyn Method>>,
}

/// Reads checked parameters into a method's own type.
///
/// # Errors
/// [`Error::Usage`] if they do not fit, which a loaded scenario rules out.
pub(super) fn parameters<T: serde::de::DeserializeOwned>(name: &str, value: &Value) -> Result<T> {
    serde_json::from_value(value.clone()).map_err(|fault| Error::Usage(format!("method {name}: {fault}")))
}
