//! Defines privacy mechanisms, which change an update between training and encoding.

use std::fmt::Debug;

use crate::codec::Randomness;
use crate::error::Result;
use crate::model::blocks::ModelUpdate;
use crate::model::layout::Layout;

/// Changes an update before it is encoded, for example by clipping it, by adding noise, or by adding rows that hide
/// others. The device's own parameters stay as training left them.
pub trait Mechanism: Send + Sync + Debug {
    /// Changes `update`, which is an update of `layout` before and after. Random draws are taken from a stream of
    /// `randomness`.
    ///
    /// # Errors
    /// Whatever the mechanism cannot work with.
    fn protect(&self, update: &mut ModelUpdate, layout: &Layout, randomness: Randomness) -> Result<()>;
}
