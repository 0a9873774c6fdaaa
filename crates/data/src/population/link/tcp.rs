//! The rates of TCP transfers, after the network model LV08 of SimGrid.
//!
//! Velho and Legrand (Accuracy Study and Improvement of Network Simulation in the SimGrid
//! Framework, SIMUTools 2009) fitted a fluid model to packet-level simulations of TCP. The
//! constants are its defaults as SimGrid 3.32 has them:
//!
//! - Before its first byte, a transfer takes [`LATENCY_FACTOR_PERCENT`] of the one-way latency,
//!   which stands for the handshake and the slow start. The latency itself is part of it.
//! - Of the bits that travel, [`PAYLOAD_PERCENT`] are the frame's; the rest are headers. This holds
//!   for the user's link and for the server's.
//! - No more than a window of [`WINDOW_BYTES`] (`network/TCP-gamma`) is under way in one round
//!   trip.
//! - Transfers share a link in inverse proportion to their *penalty*, which is the one-way latency
//!   plus the time that [`QUEUE_BYTES`] (`network/weight-S`) take on every link of the route.
//!
//! Arrivals agree with recordings of SimGrid within 20 us, and within 6e-6 of a transfer's duration
//! (`tests/fixtures/simgrid/`). Rates of whole bits per second and the weights make the difference.
//!
//! Three things of SimGrid are left out. Acknowledgements take nothing of the opposite direction
//! (there, the option `network/crosstraffic` turns them off). SimGrid gives a transfer without
//! latency the weight of a penalty of 1 s, here the queues alone count. Weights are whole numbers
//! here, which rounds a penalty of p s by a part of p * 2^-15 at most, and takes any below 4.1 us
//! for that.

use std::num::NonZeroU32;

use super::{LinkShare, SharingModel};
use fedrecsim_core::{BitsPerSecond, SimDuration};

/// The start-up cost in percent of the one-way latency (`network/latency-factor` 13.01).
const LATENCY_FACTOR_PERCENT: u128 = 1301;
/// The part of what a link carries that is payload, in percent (`network/bandwidth-factor` 0.97).
const PAYLOAD_PERCENT: u128 = 97;
/// The largest window, in bytes (`network/TCP-gamma`).
const WINDOW_BYTES: u128 = 4_194_304;
/// The bytes that are taken to wait in front of every link (`network/weight-S`).
const QUEUE_BYTES: u128 = 20_537;

/// The weight of a penalty of one picosecond, if there were weights as large.
const WEIGHT_PICOSECONDS: u128 = 1000 << 44;

/// TCP transfers.
pub(super) struct Tcp;

impl SharingModel for Tcp {
    fn start_up(&self, latency: SimDuration) -> SimDuration {
        let nanoseconds = u128::from(latency.as_nanos()) * LATENCY_FACTOR_PERCENT / 100;
        SimDuration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// The latency is part of the start-up.
    fn latency_after(&self, _latency: SimDuration) -> SimDuration {
        SimDuration::ZERO
    }

    fn share(
        &self,
        rate: BitsPerSecond,
        server: Option<BitsPerSecond>,
        latency: SimDuration,
    ) -> LinkShare {
        if rate.get() == 0 {
            return LinkShare::equal(rate);
        }
        let latency_ns = u128::from(latency.as_nanos());
        let window = (WINDOW_BYTES * 8 * 1_000_000_000)
            .checked_div(2 * latency_ns)
            .map(at_least_one);
        let cap = self.capacity(window.map_or(rate, |window| window.min(rate)));
        let queue_ps =
            |rate: BitsPerSecond| QUEUE_BYTES * 8 * 1_000_000_000_000 / u128::from(rate.get());
        let penalty_ps = 1000 * latency_ns + queue_ps(rate) + server.map_or(0, queue_ps);
        let weight = ((WEIGHT_PICOSECONDS + penalty_ps / 2) / penalty_ps.max(1))
            .min(u128::from(u32::MAX)) as u32;
        let weight = NonZeroU32::new(weight).unwrap_or(NonZeroU32::MIN);
        LinkShare { cap, weight }
    }

    /// Returns the rate at which a link of `rate` carries payload, rounded down.
    fn capacity(&self, rate: BitsPerSecond) -> BitsPerSecond {
        match u128::from(rate.get()) {
            0 => rate,
            rate => at_least_one(rate * PAYLOAD_PERCENT / 100),
        }
    }
}

/// Returns a rate of so many bit/s, and at least 1: what is slow does not stand still.
fn at_least_one(rate: u128) -> BitsPerSecond {
    BitsPerSecond::new(u64::try_from(rate).unwrap_or(u64::MAX).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, TCP transfers have other rates, weights or start-ups than LV08 gives them.
    #[test]
    fn a_share_is_what_the_formulas_of_lv08_say() {
        let mbit = BitsPerSecond::from_mbit_f64;
        let latency = SimDuration::from_millis_f64(20.0);
        assert_eq!(Tcp.start_up(latency), SimDuration::from_nanos(260_200_000));
        assert_eq!(Tcp.capacity(mbit(100.0)), mbit(97.0));
        // 4 MiB in 40 ms are 838.9 Mbit/s.
        assert_eq!(Tcp.share(mbit(10.0), None, latency).cap, mbit(9.7));
        assert_eq!(
            Tcp.share(mbit(10_000.0), None, latency).cap,
            BitsPerSecond::new(838_860_800 / 100 * 97)
        );
        // 20,537 bytes take 16.4296 ms at 10 Mbit/s and 1.64296 ms at 100 Mbit/s.
        let penalty_ns = 20e6 + 16_429_600.0 + 1_642_960.0;
        let weight = f64::from(
            Tcp.share(mbit(10.0), Some(mbit(100.0)), latency)
                .weight
                .get(),
        );
        assert!(
            (weight * penalty_ns / (1_u64 << 44) as f64 - 1.0).abs() < 1.0 / weight,
            "{weight}"
        );
    }

    #[test]
    fn the_ends_of_the_scale_have_a_weight_and_a_cap() {
        let far = Tcp.share(
            BitsPerSecond::new(1),
            None,
            SimDuration::from_nanos(u64::MAX),
        );
        assert_eq!(
            far,
            LinkShare::equal(BitsPerSecond::new(1)),
            "the slowest link is not an outage, and no weight is zero"
        );
        let none = BitsPerSecond::new(0);
        let latency = SimDuration::from_millis_f64(20.0);
        assert_eq!(
            Tcp.share(none, Some(far.cap), latency),
            LinkShare::equal(none)
        );
        let near = Tcp.share(BitsPerSecond::new(u64::MAX), None, SimDuration::ZERO);
        assert_eq!(near.weight, NonZeroU32::MAX);
        assert_eq!(near.cap.get(), (u128::from(u64::MAX) * 97 / 100) as u64);
    }
}
