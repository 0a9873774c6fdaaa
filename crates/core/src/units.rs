//! Represents quantities of the simulated world as integer newtypes.
//!
//! Virtual time and bytes are integers so that sums are exact and the same on every machine
//! (contract 1), and newtypes so that a bandwidth cannot be added to a size.

use std::fmt;
use std::ops::Add;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// The direction of a frame.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From client to server.
    Up,
    /// From server to client.
    Down,
}

/// A length of virtual time, in nanoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct SimDuration(u64);

impl SimDuration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// Returns a duration of `nanoseconds` ns.
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Returns a duration of `milliseconds` ms, rounded to the nearest nanosecond. Negative and
    /// non-finite input gives zero; the scenario check refuses both before they get here.
    pub fn from_millis_f64(milliseconds: f64) -> Self {
        // `as` saturates, so NaN and negative numbers become 0, and a number that is too large
        // becomes u64::MAX.
        Self((milliseconds * 1e6 + 0.5) as u64)
    }

    /// Returns a duration of `seconds` s, rounded to the nearest nanosecond. Invalid numbers are
    /// treated as by [`from_millis_f64`](Self::from_millis_f64).
    pub fn from_secs_f64(seconds: f64) -> Self {
        Self((seconds * 1e9 + 0.5) as u64)
    }

    /// Returns the duration in whole nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the duration in seconds, for reports only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOSECONDS_PER_SECOND as f64
    }

    /// Returns the part `numerator / denominator` of this duration, rounded down. `denominator`
    /// must not be 0.
    pub fn fraction(self, numerator: u64, denominator: u64) -> Self {
        Self((u128::from(self.0) * u128::from(numerator) / u128::from(denominator)) as u64)
    }
}

impl Add for SimDuration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// An instant of virtual time, in nanoseconds since the start of the run.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct SimTime(u64);

impl SimTime {
    /// The last instant that the clock can show, after 584 years.
    pub const END: Self = Self(u64::MAX);
    /// The start of the run.
    pub const ZERO: Self = Self(0);

    /// Returns the instant `nanoseconds` ns after the start of the run.
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Returns the whole nanoseconds since the start of the run.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the seconds since the start of the run, for reports only.
    pub fn as_secs_f64(self) -> f64 {
        SimDuration(self.0).as_secs_f64()
    }

    /// Returns the time that has passed since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> SimDuration {
        SimDuration(self.0.saturating_sub(earlier.0))
    }
}

impl Add<SimDuration> for SimTime {
    type Output = Self;
    fn add(self, duration: SimDuration) -> Self {
        Self(self.0.saturating_add(duration.0))
    }
}

/// A number of bytes on the wire.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Bytes(u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// Returns a count of `bytes` bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Returns the length of an encoded buffer.
    pub const fn of(buffer: &[u8]) -> Self {
        Self(buffer.len() as u64)
    }

    /// Returns the count as a plain integer.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Bytes {
    /// Writes the count in decimal units with three significant digits, as links are sold:
    /// `1.53 MB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        // 999.5 would print as 1000 with three digits, so it moves on to the next unit.
        while value >= 999.5 && unit + 1 < UNITS.len() {
            value /= 1000.0;
            unit += 1;
        }
        let decimals = match (unit, value) {
            (0, _) => 0,
            (_, v) if v < 9.995 => 2,
            (_, v) if v < 99.95 => 1,
            _ => 0,
        };
        write!(f, "{value:.decimals$} {}", UNITS[unit])
    }
}

/// The rate of a link, in bits per second. At zero nothing moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BitsPerSecond(u64);

impl BitsPerSecond {
    /// Returns a rate of `bits_per_second` bit/s.
    pub const fn new(bits_per_second: u64) -> Self {
        Self(bits_per_second)
    }

    /// Returns a rate of `mbit` Mbit/s (10^6 bit/s), rounded to the nearest bit/s. A rate above
    /// zero has at least 1 bit/s, so that it does not become an outage.
    pub fn from_mbit_f64(mbit: f64) -> Self {
        Self(((mbit * 1e6 + 0.5) as u64).max(u64::from(mbit > 0.0)))
    }

    /// Returns the rate as a plain integer.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns how long `size` takes at this rate, rounded up to a whole nanosecond. What the clock
    /// cannot show, and any byte at a rate of zero, takes all of its 64 bits.
    pub fn time_for(self, size: Bytes) -> SimDuration {
        if self.0 == 0 {
            return SimDuration(if size.0 == 0 { 0 } else { u64::MAX });
        }
        // Up to 2 GB in 64 bits, which divide many times as fast.
        if let Some(bit_nanoseconds) = size.0.checked_mul(8 * NANOSECONDS_PER_SECOND) {
            return SimDuration(bit_nanoseconds.div_ceil(self.0));
        }
        let bit_nanoseconds = u128::from(size.0) * 8 * u128::from(NANOSECONDS_PER_SECOND);
        let nanoseconds = bit_nanoseconds.div_ceil(u128::from(self.0));
        SimDuration(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_takes_bits_over_rate_rounded_up() {
        let rate = BitsPerSecond::from_mbit_f64(8.0);
        assert_eq!(
            rate.time_for(Bytes::new(1_000_000)),
            SimDuration::from_nanos(NANOSECONDS_PER_SECOND)
        );
        // 1 byte at 3 bit/s is 8/3 s, and rounding down would let bytes arrive before they are
        // sent.
        assert_eq!(
            BitsPerSecond::new(3).time_for(Bytes::new(1)).as_nanos(),
            2_666_666_667
        );
        let none = BitsPerSecond::new(0);
        let never = SimDuration::from_nanos(u64::MAX);
        assert_eq!(none.time_for(Bytes::new(1)), never, "nothing moves");
        assert_eq!(none.time_for(Bytes::ZERO), SimDuration::ZERO);
        // On both sides of what 64 bits hold, and beyond what the clock shows.
        let gigabytes = |bytes| rate.time_for(Bytes::new(bytes)).as_nanos();
        assert_eq!(
            [gigabytes(2_305_843_009), gigabytes(2_305_843_010)],
            [2_305_843_009_000, 2_305_843_010_000]
        );
        assert_eq!(
            BitsPerSecond::new(1)
                .time_for(Bytes::new(u64::MAX))
                .as_nanos(),
            u64::MAX
        );
    }

    #[test]
    fn bytes_are_printed_with_three_digits() {
        let printed: Vec<String> = [
            0,
            999,
            1_000,
            9_994,
            9_995,
            99_940,
            99_950,
            99_960,
            999_600,
            1_234_567_890,
            10_u64.pow(19),
        ]
        .iter()
        .map(|&bytes| Bytes::new(bytes).to_string())
        .collect();
        let expected = [
            "0 B", "999 B", "1.00 kB", "9.99 kB", "10.0 kB", "99.9 kB", "100 kB", "100 kB",
            "1.00 MB", "1.23 GB", "10000 PB",
        ];
        assert_eq!(printed, expected, "the largest unit takes what is left");
    }

    #[test]
    fn a_fraction_of_a_long_duration_does_not_overflow() {
        let day = SimDuration::from_nanos(86_400 * NANOSECONDS_PER_SECOND);
        assert_eq!(day.fraction(1, 4).as_secs_f64(), 21_600.0);
        assert_eq!(day.fraction(3 << 60, 1 << 62).as_secs_f64(), 64_800.0);
        assert_eq!(
            SimDuration::from_nanos(10).fraction(2, 3).as_nanos(),
            6,
            "rounded down"
        );
    }

    #[test]
    fn instants_and_durations_add_up_and_stop_at_the_ends_of_time() {
        let instant = SimTime::from_nanos(1_500_000_000);
        assert_eq!(instant.as_secs_f64(), 1.5);
        assert_eq!(
            instant + SimDuration::from_nanos(25),
            SimTime::from_nanos(1_500_000_025)
        );
        assert_eq!(
            instant.since(SimTime::from_nanos(500_000_000)),
            SimDuration::from_nanos(1_000_000_000)
        );
        assert_eq!(
            SimTime::ZERO.since(instant),
            SimDuration::ZERO,
            "nothing happens before its cause"
        );
        assert_eq!(
            SimTime::from_nanos(u64::MAX) + SimDuration::from_nanos(1),
            SimTime::from_nanos(u64::MAX)
        );
        assert_eq!(
            SimDuration::from_nanos(2) + SimDuration::from_nanos(3),
            SimDuration::from_nanos(5)
        );
    }

    #[test]
    fn a_buffer_has_the_bytes_that_it_has() {
        assert_eq!(
            (Bytes::of(&[7; 5]), Bytes::of(&[]).get()),
            (Bytes::new(5), 0)
        );
    }

    #[test]
    fn a_rate_survives_being_written_in_mbit() {
        for bits in [
            1,
            999_999,
            1_234_567,
            999_999_999_999_999,
            1_000_000_000_000_000,
        ] {
            let rate = BitsPerSecond::new(bits);
            assert_eq!(BitsPerSecond::from_mbit_f64(rate.get() as f64 / 1e6), rate);
        }
    }

    #[test]
    fn units_are_rounded_to_the_nearest() {
        assert_eq!(
            SimDuration::from_millis_f64(1.234_567_6).as_nanos(),
            1_234_568
        );
        assert_eq!(
            SimDuration::from_millis_f64(1.234_567_4).as_nanos(),
            1_234_567
        );
        assert_eq!(
            SimDuration::from_secs_f64(1.234_567_890_6).as_nanos(),
            1_234_567_891
        );
        assert_eq!(BitsPerSecond::from_mbit_f64(2.000_000_6).get(), 2_000_001);
        assert_eq!(BitsPerSecond::from_mbit_f64(2.000_000_4).get(), 2_000_000);
        let least = [0.0, 1e-9, f64::NAN].map(|mbit| BitsPerSecond::from_mbit_f64(mbit).get());
        assert_eq!(least, [0, 1, 0], "only an outage has a rate of zero");
    }
}
