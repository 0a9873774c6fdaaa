//! Describes methods as entries of a list.
//!
//! The functions of an [`Entry`] are references to closures, so that a method may be made while a
//! program runs, as those that are written in another language are. In a constant
//! `&|value, problem| ...` is such a reference; a closure that holds something is made one by
//! [`Box::leak`].

use serde_json::Value;

use super::central::{AtServer, Central};
use super::declare::{Declare, Declared, Kept};
use super::{Method, Parameters, Placement, Problem};
use fedrecsim_core::{Error, Result};
use fedrecsim_model::{BlockLayout, Layout};
use fedrecsim_scenario::sizes::BlockSize;
use fedrecsim_scenario::{ParameterFault, Resolve, SizesOf, Traffic};

/// Returns the JSON schema of a method's parameters.
type SchemaOf = dyn Fn() -> schemars::Schema + Send + Sync;

/// Tells what a method with these parameters exchanges; `None` if that cannot be told before the
/// method is built.
type TrafficWith = dyn Fn(&Value) -> Option<Traffic> + Send + Sync;

/// Names what a device keeps for itself with these parameters.
type KeptWith = dyn Fn(&Value) -> Option<Vec<Kept>> + Send + Sync;

/// Builds a method from checked parameters.
type Build = dyn Fn(&Value, &Problem) -> Result<Box<dyn Method>> + Send + Sync;

/// Describes a method to scenario files, commands and the simulated world.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The name in scenario files.
    pub name: &'static str,
    /// The summary that `fedrecsim methods` prints, on one line.
    pub summary: &'static str,
    /// The paper and the code that the method follows.
    pub source: &'static str,
    /// How an item is scored and what is minimised, in lines of plain text; empty if the method
    /// does not say.
    pub formula: &'static [&'static str],
    /// Where the paper, its code and this method differ; empty if nothing is known to differ.
    pub differs: &'static str,
    /// Returns the JSON schema of the method's parameters.
    pub schema: &'static SchemaOf,
    /// Fills in defaults that depend on other parameters, and checks what a schema cannot express.
    /// Most methods need neither.
    pub resolve: &'static Resolve,
    /// The place where the method runs.
    pub placement: Placement,
    /// Whether training draws negatives as `dataset.negatives` says. Where it does not, that table
    /// has no effect, and a scenario that has it is warned of.
    pub draws_negatives: bool,
    /// Returns the sizes of the largest blocks that a run makes with these parameters: those of its
    /// model, its downloads and the start of all clients. They are checked before any block is
    /// made. [`sizes_by`] implements it for most methods.
    pub sizes: &'static SizesOf,
    /// Tells what the method exchanges. `&|_| None` has it found out from the method that is built.
    pub traffic: &'static TrafficWith,
    /// Names what a device keeps with these parameters, beside its user's ratings; `None` if the
    /// method does not say.
    pub kept: &'static KeptWith,
    /// Why `training.aggregation` has no meaning for the method; `None` if it has one.
    pub without_controls: Option<&'static str>,
    /// Builds the method from checked parameters.
    pub build: &'static Build,
}

impl Entry {
    /// Has what most methods have that implement [`Method`] by hand: no parameters, no faults that
    /// a schema cannot express, a place on the devices, negatives, and no large blocks.
    pub const BY_HAND: Self = Self {
        name: "",
        summary: "",
        source: "",
        formula: &[],
        differs: "",
        schema: &|| {
            schemars::json_schema!({
                "type": "object",
                "additionalProperties": false,
                "description": "Has no parameters.",
            })
        },
        resolve: &|_| Vec::new(),
        placement: Placement::Federated,
        draws_negatives: true,
        sizes: &|_, _| Vec::new(),
        traffic: &|_| None,
        kept: &|_| None,
        without_controls: None,
        build: &|_, _| Err(Error::Usage("this entry builds no method".to_owned())),
    };

    /// Describes a method by its declaration.
    pub const fn of<M: Declare>() -> Self {
        Self {
            name: M::NAME,
            summary: M::SUMMARY,
            source: M::SOURCE,
            formula: M::FORMULA,
            differs: M::DIFFERS,
            schema: &|| schemars::schema_for!(M::Parameters),
            resolve: &|value| resolve_with(value, M::resolve),
            placement: M::PLACEMENT,
            draws_negatives: M::DRAWS_NEGATIVES,
            sizes: &|value, size| {
                sizes_by(value, |parameters| Declared::<M>::sizes(parameters, size))
            },
            traffic: &|value| {
                let read = serde_json::from_value::<M::Parameters>(value.clone());
                read.ok().map(Declared::<M>::traffic)
            },
            kept: &|value| {
                let read = serde_json::from_value::<M::Parameters>(value.clone());
                read.ok().map(Declared::<M>::kept)
            },
            without_controls: M::WITHOUT_CONTROLS,
            build: &|value, problem| {
                let parameters = parameters(M::NAME, value)?;
                Ok(Box::new(Declared::<M>::new(parameters, problem)))
            },
        }
    }

    /// Describes a method at the server by its declaration.
    pub const fn at_server<M: Central>() -> Self {
        Self::of::<AtServer<M>>()
    }
}

/// Has `resolve` look at parameters, and writes down what it fills in.
fn resolve_with<P: Parameters>(
    value: &mut Value,
    resolve: fn(&mut P) -> Vec<ParameterFault>,
) -> Vec<ParameterFault> {
    // The schema has refused parameters that cannot be read.
    let Ok(mut parameters) = serde_json::from_value::<P>(value.clone()) else {
        return Vec::new();
    };
    let faults = resolve(&mut parameters);
    let filled = serde_json::to_value(parameters).unwrap_or_default();
    if let (Value::Object(written), Value::Object(filled)) = (value, filled) {
        for (key, value) in filled.into_iter().filter(|(_, value)| !value.is_null()) {
            written.entry(key).or_insert(value);
        }
    }
    faults
}

/// Reads checked parameters into a method's own type, for use in [`Entry::build`].
///
/// # Errors
/// [`Error::Usage`] if they do not fit, which cannot happen for a scenario that was loaded.
pub fn parameters<T: serde::de::DeserializeOwned>(name: &str, value: &Value) -> Result<T> {
    serde_json::from_value(value.clone())
        .map_err(|fault| Error::Usage(format!("method {name}: {fault}")))
}

/// Returns the sizes of the blocks of the layout that `layout` makes from a method's own
/// parameters, for use in [`Entry::sizes`]. The list is empty for parameters that do not fit, which
/// [`Entry::build`] refuses.
pub fn sizes_by<T: serde::de::DeserializeOwned>(
    value: &Value,
    layout: impl FnOnce(T) -> Layout,
) -> Vec<BlockSize> {
    serde_json::from_value(value.clone())
        .map(|parameters| sizes_of(&layout(parameters)))
        .unwrap_or_default()
}

/// Returns the sizes of the blocks of `layout`.
pub fn sizes_of(layout: &Layout) -> Vec<BlockSize> {
    let size = |block: &BlockLayout| BlockSize {
        name: block.name.clone(),
        rows: block.shape.rows as u64,
        columns: block.shape.dimension as u64,
        // A value takes at most eight bytes.
        bytes_each: block.value_type.bytes() as u32,
    };
    layout.blocks().iter().map(size).collect()
}
