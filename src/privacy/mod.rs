//! Privacy mechanisms: what is done to an update between training and encoding.

use std::fmt::Debug;

use crate::codec::Randomness;
use crate::error::Result;
use crate::model::blocks::ModelUpdate;
use crate::model::layout::Layout;

/// Changes an update before it is encoded: clips it, adds noise, adds rows that hide others. The device's own parameters
/// are as training left them.
pub trait Mechanism: Send + Sync + Debug {
    /// Changes `update`, which is one of `layout` and stays one. What is drawn at random comes from a stream of
    /// `randomness`.
    ///
    /// # Errors
    /// Whatever the mechanism cannot work with.
    fn protect(&self, update: &mut ModelUpdate, layout: &Layout, randomness: Randomness) -> Result<()>;
}
