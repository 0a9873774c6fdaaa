//! What a method says about itself: its line in a list of methods.

use serde_json::Value;

use super::{Method, Problem};
use crate::error::{Error, Result};
use crate::model::layout::{BlockLayout, Layout};
use crate::model::table::TableShape;
use crate::scenario::ParameterFault;
use crate::scenario::sizes::{BlockSize, ProblemSize};

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
    /// Returns the sizes of the largest blocks that a run makes with these parameters: those of its model, its downloads
    /// and whatever all clients start with. They are checked before any is made. [`sizes_by`] and [`no_blocks`] write it.
    pub sizes: fn(&Value, ProblemSize) -> Vec<BlockSize>,
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

/// Returns the sizes of the blocks that `layout` makes of parameters of a method's own type; for [`Entry::sizes`].
/// Parameters that do not fit make none: [`Entry::build`] refuses them.
pub fn sizes_by<T: serde::de::DeserializeOwned>(value: &Value, layout: impl FnOnce(T) -> Layout) -> Vec<BlockSize> {
    serde_json::from_value(value.clone()).map(|parameters| sizes_of(&layout(parameters))).unwrap_or_default()
}

/// Returns the size of the one item table of a method, `name`, whose width `dimension` reads from the method's own
/// parameters; for [`Entry::sizes`].
pub fn sizes_of_item_table<T: serde::de::DeserializeOwned>(
    name: &'static str,
    (value, size): (&Value, ProblemSize),
    dimension: impl FnOnce(T) -> u32,
) -> Vec<BlockSize> {
    sizes_by(value, |parameters| Layout::of_table(name, TableShape::of_items(size.items, dimension(parameters))))
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

/// Returns nothing, for the [`Entry::sizes`] of a method without blocks.
pub fn no_blocks(_: &Value, _: ProblemSize) -> Vec<BlockSize> {
    Vec::new()
}
