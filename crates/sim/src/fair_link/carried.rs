//! Exact arithmetic of rates, times and work, where a rate may be a fraction.

use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

use fedrecsim_core::Bytes;

/// The units of work in one bit: the nanoseconds of a second, times 2^16 for the remainders of
/// fractional rates.
const UNITS_PER_BIT: i128 = 1_000_000_000 << FRACTION_BITS;
const FRACTION_BITS: u32 = 16;

/// The work of a link in 2^-16 bit ns / s. A rate of 1 bit/s makes 2^16 of these in 1 ns.
///
/// Sums saturate. They are exact below 2^127, which 10^14 bit/s reach after the 584 years that
/// virtual time has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Carried(i128);

impl Carried {
    pub(crate) const ZERO: Self = Self(0);

    /// Returns the work of carrying `size`.
    pub(crate) fn of(size: Bytes) -> Self {
        // The product is less than 2^(64 + 3 + 30 + 16).
        Self(i128::from(size.get()) * 8 * UNITS_PER_BIT)
    }

    /// Returns the work of a transfer of this weight while one of weight 1 is given this work.
    pub(crate) fn times(self, weight: u32) -> Self {
        Self(self.0.saturating_mul(i128::from(weight)))
    }

    /// Returns the work that a transfer of weight 1 is given while one of this weight is given this
    /// work, rounded up. [`Carried::times`] of the result is at least this work. `weight` must not be
    /// 0.
    pub(crate) fn over(self, weight: u32) -> Self {
        let weight = i128::from(weight);
        Self(self.0.div_euclid(weight) + i128::from(self.0.rem_euclid(weight) != 0))
    }

    /// Returns the whole bytes that this work carries; none if it is negative.
    pub(crate) fn bytes(self) -> Bytes {
        Bytes::new(u64::try_from(self.0.max(0) / (8 * UNITS_PER_BIT)).unwrap_or(u64::MAX))
    }
}

impl Add for Carried {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Carried {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// A rate of `bits_per_second / shares` bit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    /// The numerator, in bit/s.
    pub bits_per_second: u64,
    /// The denominator, which is not 0.
    pub shares: u64,
}

impl Rate {
    /// Returns the work that is done in `nanoseconds`, rounded down by less than one unit.
    pub(crate) fn carried_in(self, nanoseconds: u64) -> Carried {
        let shared = u128::from(self.bits_per_second) * u128::from(nanoseconds);
        let shares = u128::from(self.shares);
        // The shifted rest is less than 2^(64 + 16).
        let rest = ((shared % shares) << FRACTION_BITS) / shares;
        let whole = i128::try_from(shared / shares)
            .unwrap_or(i128::MAX)
            .saturating_mul(1 << FRACTION_BITS);
        Carried(whole.saturating_add(rest as i128))
    }

    /// Returns the number of nanoseconds after which `work` is done, rounded up: 0 if it is done
    /// already, and `u64::MAX` if it takes longer than that or the rate is zero. [`Rate::carried_in`]
    /// of the result is at least `work`.
    pub(crate) fn time_for(self, work: Carried) -> u64 {
        let Ok(work) = u128::try_from(work.0) else {
            return 0;
        };
        let per_nanosecond = u128::from(self.bits_per_second) << FRACTION_BITS;
        if work == 0 || per_nanosecond == 0 {
            return if work == 0 { 0 } else { u64::MAX };
        }
        // This is work * shares / per_nanosecond, rounded up, without the product, which may not
        // fit. The rest is less than 2^80 and the shares are less than 2^64. If even their product
        // does not fit, which takes more than 2^48 bit/s, the rest and the rate lose their last 32
        // bits, in the direction that makes the time longer.
        let shares = u128::from(self.shares);
        let whole = (work / per_nanosecond).saturating_mul(shares);
        let rest = work % per_nanosecond;
        let rest = match rest.checked_mul(shares) {
            Some(product) => product.div_ceil(per_nanosecond),
            None => (((rest >> 32) + 1) * shares).div_ceil(per_nanosecond >> 32),
        };
        u64::try_from(whole.saturating_add(rest)).unwrap_or(u64::MAX)
    }
}
