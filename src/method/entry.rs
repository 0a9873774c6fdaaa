//! What a method says about itself: its line in a list of methods.

use serde_json::Value;

use super::{Method, Problem};
use crate::error::{Error, Result};
use crate::scenario::ParameterFault;

/// A method as scenario files, commands and the simulated world know it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Name in scenario files.
    pub name: &'static str,
    /// One line for `fedrecsim methods`.
    pub summary: &'static str,
    /// Paper and code that it follows.
    pub source: &'static str,
    /// JSON schema of its parameters.
    pub schema: fn() -> schemars::Schema,
    /// Fills in defaults that hang on other parameters, and checks what a schema cannot say; most methods need neither.
    pub resolve: fn(&mut Value) -> Vec<ParameterFault>,
    /// Where the method runs.
    pub placement: Placement,
    /// Builds the method from checked parameters.
    pub build: fn(&Value, &Problem) -> Result<Box<dyn Method>>,
}

/// Where a method runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Nowhere in the simulated world: it is ready at once, knows everybody's ratings, and takes part in no round.
    Untrained,
    /// At the server: users send their ratings once, and the server works on them at a speed of its own.
    Central,
    /// On the devices: users keep their ratings and send updates.
    Federated,
}

impl Placement {
    /// Returns whether there is anything to train.
    pub const fn trains(self) -> bool {
        !matches!(self, Self::Untrained)
    }
}

/// Reads checked parameters into a method's own type; for [`Entry::build`].
///
/// # Errors
/// [`Error::Usage`] if they do not fit, which a loaded scenario rules out.
pub fn parameters<T: serde::de::DeserializeOwned>(name: &str, value: &Value) -> Result<T> {
    serde_json::from_value(value.clone()).map_err(|fault| Error::Usage(format!("method {name}: {fault}")))
}
