//! Protects the users who send updates: mechanisms that change an update between training and
//! encoding, noise that the server adds to a sum, and the accountant that says what they are worth.
//!
//! The scenario's table `[privacy]` names what is done ([`of_devices`], [`SumNoise`]), and
//! [`PrivacyClaim`] says what follows from it, or why nothing does. docs/reference/privacy.md has the definitions.

use std::fmt::Debug;
use std::sync::Arc;

use fedrecsim_core::Result;
use fedrecsim_model::codec::Randomness;
use fedrecsim_model::{Layout, Model, ModelUpdate};
use fedrecsim_scenario::{CodecSpec, PrivacySpec, Trust};

mod accountant;
mod change;
mod claim;
mod noise;
mod virtual_items;

pub use self::{
    accountant::Curve,
    claim::{NoEpsilon, PrivacyRecord, Sampling},
    noise::SumNoise,
};
pub(crate) use claim::{Circumstances, PrivacyClaim, Spent};
use noise::DeviceNoise;
use virtual_items::VirtualItems;

/// Describes the update that a mechanism protects.
#[derive(Clone, Copy, Debug)]
pub struct Protection<'a> {
    /// The layout of the update, before and after.
    pub layout: &'a Layout,
    /// The model that the device has downloaded.
    pub base: &'a Model,
    /// The items that the user has rated, ascending; an item may stand several times.
    pub rated: &'a [u32],
    /// The randomness that gives draws their streams.
    pub randomness: Randomness,
}

/// Changes an update before it is encoded, for example by clipping it, by adding noise, or by
/// adding rows that hide others. The device's own parameters stay as training left them.
pub trait Mechanism: Send + Sync + Debug {
    /// Changes `update`.
    ///
    /// # Errors
    /// Contributions that the mechanism cannot work with.
    fn protect(&self, update: &mut ModelUpdate, protection: &Protection<'_>) -> Result<()>;
}

/// Applies mechanisms one after the other.
#[derive(Debug)]
struct Chain(Vec<Box<dyn Mechanism>>);

impl Mechanism for Chain {
    fn protect(&self, update: &mut ModelUpdate, protection: &Protection<'_>) -> Result<()> {
        self.0
            .iter()
            .try_for_each(|mechanism| mechanism.protect(update, protection))
    }
}

/// Returns what devices do to their updates, if anything: they add virtual items first, so that
/// noise does not leave these out.
pub(crate) fn of_devices(spec: &PrivacySpec, codec: &CodecSpec) -> Option<Arc<dyn Mechanism>> {
    let mut chain: Vec<Box<dyn Mechanism>> = Vec::new();
    if let Some(virtual_items) = spec.virtual_items {
        chain.push(Box::new(VirtualItems::new(virtual_items)));
    }
    if let Some(laplace) = spec.laplace {
        chain.push(Box::new(DeviceNoise::laplace(laplace, codec)));
    }
    if let Some(gaussian) = spec
        .gaussian
        .filter(|gaussian| gaussian.trust == Trust::Local)
    {
        chain.push(Box::new(DeviceNoise::gaussian(gaussian, codec)));
    }
    (!chain.is_empty()).then(|| Arc::new(Chain(chain)) as Arc<dyn Mechanism>)
}
