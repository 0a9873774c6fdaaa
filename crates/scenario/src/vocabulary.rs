//! Holds what methods add to the scenario's language.
//!
//! This layer knows no method. Each registered one brings its name, the schema of its parameters
//! and a check for what a schema cannot say.

use serde_json::Value as Json;

use super::sizes::{BlockSize, ProblemSize};
use super::traffic::TrafficOf;

/// Fills in what a method's parameters leave out, and returns the faults that a schema cannot
/// state.
pub type Resolve = dyn Fn(&mut Json) -> Vec<ParameterFault> + Send + Sync;

/// Returns the sizes of the largest blocks that a method makes with these parameters.
pub type SizesOf = dyn Fn(&Json, ProblemSize) -> Vec<BlockSize> + Send + Sync;

/// The properties of a method that scenario files depend on.
#[derive(Clone)]
pub struct MethodVocabulary {
    /// Registered name of the method.
    pub name: &'static str,
    /// JSON schema of its table of parameters: an object without additional properties, as
    /// `schemars` derives it. Its defaults fill in what a file leaves out, so numbers with a
    /// fraction are better `f64` there: the default 0.1 of an `f32` would be written into every
    /// report as 0.10000000149011612.
    pub schema: schemars::Schema,
    /// Fills in defaults that depend on other parameters, so that a report shows what was really
    /// used, and returns the faults that the schema cannot state. The parameters obey the schema
    /// and have its defaults.
    pub resolve: &'static Resolve,
    /// Whether there is anything to train. Without training, keys that say how rounds are run have
    /// no meaning.
    pub trains: bool,
    /// Whether the method trains at the server, from the ratings that every user sends.
    pub runs_at_server: bool,
    /// Whether the server, or a third party as fast as the server, computes something that takes
    /// virtual time.
    pub server_computes: bool,
    /// Whether training draws negatives as `dataset.negatives` says.
    pub draws_negatives: bool,
    /// Why `training.aggregation` has no other value for the method than `method`; `None` if it has.
    pub without_controls: Option<&'static str>,
    /// Returns the sizes of the largest blocks that the method makes with these parameters.
    pub sizes: &'static SizesOf,
    /// Tells what the method sends in each direction, so that codecs can be checked.
    pub traffic: TrafficOf,
}

/// A fault in a method's parameters, or one of them that has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterFault {
    /// Whether the parameters cannot be used; otherwise one of them has no effect, which the user is
    /// told.
    pub is_wrong: bool,
    /// Keys below the method's table; empty for a fault of the table as a whole.
    pub path: Vec<String>,
    /// The reason, as a sentence without a full stop.
    pub message: String,
}

impl ParameterFault {
    /// Returns the fault that `key` cannot be used as it is, because of what `message` says.
    pub fn wrong(key: &str, message: impl Into<String>) -> Self {
        Self {
            is_wrong: true,
            path: vec![key.to_owned()],
            message: message.into(),
        }
    }

    /// Returns the warning that `key` has no effect, because of what `because` says. The user is
    /// told only if the file has the key. It is for keys whose value is not the default, as a
    /// printed scenario has every key.
    pub fn without_effect(key: &str, because: &str) -> Self {
        let message = format!("`{key}` has no effect: {because}");
        Self {
            is_wrong: false,
            path: vec![key.to_owned()],
            message,
        }
    }
}
