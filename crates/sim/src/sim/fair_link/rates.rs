//! The present rates on the server's link.

use super::{FairLink, FlowId};

impl FairLink {
    /// Returns the present rate of a transfer in whole bit/s, rounded down, which is 0 if it has
    /// less than 1 bit/s; `None` if the transfer is not in progress.
    pub fn rate_of(&self, flow: FlowId) -> Option<u64> {
        let class = self
            .flows
            .get(&flow)
            .filter(|flow| flow.ended.is_none())?
            .class;
        Some(if self.is_capped(class) {
            class.cap
        } else {
            self.share().times(class.weight)
        })
    }

    /// Returns the present rate of all transfers in progress together, in whole bit/s. The rates
    /// that single transfers lose to rounding are part of it.
    pub(crate) fn rate(&self) -> u64 {
        match self.capacity {
            Some(capacity) if self.sharing > 0 => capacity,
            _ => u64::try_from(self.capped_sum).unwrap_or(u64::MAX),
        }
    }
}
