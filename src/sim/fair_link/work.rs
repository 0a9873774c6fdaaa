//! Exact arithmetic of rates and times: work done at a rate that is a fraction.

use std::ops::{Add, Sub};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::units::Bytes;

/// Units of work in one bit: nanoseconds per second, times 2^16 for what a fraction of a rate leaves over.
const UNITS_PER_BIT: i128 = 1_000_000_000 << FRACTION_BITS;
const FRACTION_BITS: u32 = 16;

/// Work of a link, in 2^-16 bit ns / s: 1 bit/s for 1 ns is 2^16 of them.
///
/// Sums saturate: they are exact below 2^127, which 10^14 bit/s reach after the 584 years that virtual time has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Work(i128);

impl Work {
    pub const ZERO: Self = Self(0);

    /// The work that `size` takes.
    pub fn of(size: Bytes) -> Self {
        // Less than 2^(64 + 3 + 30 + 16).
        Self(i128::from(size.get()) * 8 * UNITS_PER_BIT)
    }

    /// Whole bytes of it; none if it is negative.
    pub fn bytes(self) -> Bytes {
        Bytes::new(u64::try_from(self.0.max(0) / (8 * UNITS_PER_BIT)).unwrap_or(u64::MAX))
    }
}

impl Add for Work {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Work {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// Not every format has integers of 128 bits: the upper and the lower half.
impl Serialize for Work {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ((self.0 >> 64) as i64, self.0 as u64).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Work {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (upper, lower) = <(i64, u64)>::deserialize(deserializer)?;
        Ok(Self(i128::from(upper) << 64 | i128::from(lower)))
    }
}

/// A rate of `bits_per_second / shares` bit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    /// Not negative.
    pub bits_per_second: u64,
    /// Not 0.
    pub shares: u64,
}

impl Rate {
    /// The work of `nanoseconds` ns, rounded down by less than one unit.
    pub fn work_in(self, nanoseconds: u64) -> Work {
        let shared = u128::from(self.bits_per_second) * u128::from(nanoseconds);
        let shares = u128::from(self.shares);
        // Less than 2^(64 + 16).
        let rest = ((shared % shares) << FRACTION_BITS) / shares;
        let whole = i128::try_from(shared / shares).unwrap_or(i128::MAX).saturating_mul(1 << FRACTION_BITS);
        Work(whole.saturating_add(rest as i128))
    }

    /// The first whole nanosecond after which `work` is done, as [`Rate::work_in`] counts; at once if it is done
    /// already, and the end of time if it takes longer than that, or the rate is zero.
    pub fn time_for(self, work: Work) -> u64 {
        let Ok(work) = u128::try_from(work.0) else { return 0 };
        let per_nanosecond = u128::from(self.bits_per_second) << FRACTION_BITS;
        if work == 0 || per_nanosecond == 0 {
            return if work == 0 { 0 } else { u64::MAX };
        }
        // work * shares / per_nanosecond, rounded up, without the product: the rest is less than 2^80, and shares
        // are transfers, less than 2^48.
        let shares = u128::from(self.shares);
        let whole = (work / per_nanosecond).saturating_mul(shares);
        let rest = ((work % per_nanosecond) * shares).div_ceil(per_nanosecond);
        u64::try_from(whole.saturating_add(rest)).unwrap_or(u64::MAX)
    }
}
