//! Equal shares: transfers share the server's link alike, whatever their latency.

use super::{LinkShare, SharingModel};
use fedrecsim_core::units::{BitsPerSecond, SimDuration};

/// Equal shares.
pub(super) struct Equal;

impl SharingModel for Equal {
    fn start_up(&self, _latency: SimDuration) -> SimDuration {
        SimDuration::ZERO
    }

    fn latency_after(&self, latency: SimDuration) -> SimDuration {
        latency
    }

    fn share(
        &self,
        rate: BitsPerSecond,
        _server: Option<BitsPerSecond>,
        _latency: SimDuration,
    ) -> LinkShare {
        LinkShare::equal(rate)
    }

    fn capacity(&self, rate: BitsPerSecond) -> BitsPerSecond {
        rate
    }
}
