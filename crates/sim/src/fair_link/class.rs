//! Classes of transfers, in the order that a growing share brings them to their caps.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use fedrecsim_data::population::LinkShare;

/// The transfers of one cap and one weight, which have the same rate at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Class {
    /// The cap, in bit/s.
    pub cap: u64,
    /// The weight, which is not 0.
    pub weight: u32,
}

impl Class {
    /// A class without any rate, which comes before all others and has no transfers.
    pub(crate) const LEAST: Self = Self { cap: 0, weight: 1 };
}

impl From<LinkShare> for Class {
    fn from(link_share: LinkShare) -> Self {
        Self {
            cap: link_share.cap.get(),
            weight: link_share.weight.get(),
        }
    }
}

/// Classes are in the order of cap over weight, which is the share for a weight of 1 at which they
/// reach their caps.
impl Ord for Class {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        count::comparison();
        let product = |cap: u64, weight: u32| u128::from(cap) * u128::from(weight);
        product(self.cap, other.weight)
            .cmp(&product(other.cap, self.weight))
            .then(self.weight.cmp(&other.weight))
    }
}

impl PartialOrd for Class {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Counts the comparisons of a test, each test in its own thread.
#[cfg(test)]
pub(super) mod count {
    use std::cell::Cell;

    thread_local! {
        static COMPARISONS: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn comparison() {
        COMPARISONS.set(COMPARISONS.get() + 1);
    }

    /// Returns the comparisons of classes that this thread has made.
    pub(crate) fn comparisons() -> u64 {
        COMPARISONS.get()
    }
}
