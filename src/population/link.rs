//! Links of users: rates, latency, and whether a participation is cut off.

use super::Conditions;
use crate::ids::{UserId, Wave};
use crate::math;
use crate::rng::{PortableDraws, Purpose, Streams};
use crate::scenario::NetworkSpec;
use crate::units::{BitsPerSecond, Bytes, SimDuration};

/// One direction of a user's link during one transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Rate of this transfer.
    pub rate: BitsPerSecond,
    /// One-way latency.
    pub latency: SimDuration,
}

impl Link {
    /// From the first byte's departure to the last byte's arrival.
    pub fn transfer_time(&self, size: Bytes) -> SimDuration {
        self.latency + self.rate.time_for(size)
    }

    /// Bytes of a frame of `size` that have left the sender `elapsed` after the first one: what a cut-off loses.
    pub fn carried(&self, size: Bytes, elapsed: SimDuration) -> Bytes {
        let bit_nanoseconds = u128::from(elapsed.as_nanos()) * u128::from(self.rate.get());
        let carried = bit_nanoseconds / 8_000_000_000;
        Bytes::new(u64::try_from(carried).unwrap_or(u64::MAX).min(size.get()))
    }
}

/// The links of all users.
#[derive(Clone, Debug)]
pub(super) struct Links {
    network: NetworkSpec,
    streams: Streams,
}

impl Links {
    pub(super) fn new(network: &NetworkSpec, streams: Streams) -> Self {
        Self { network: network.clone(), streams }
    }

    /// Link and dropout of one participation; the speed of the device is passed on.
    pub(super) fn conditions(&self, user: UserId, wave: Wave, picoseconds_per_row_visit: u64) -> Conditions {
        let [down_mbit, up_mbit, rtt_ms] = self.link_of(user);
        let network = &self.network;
        let mut transfer = self.streams.stream(Purpose::Transfer, u64::from(user.0), u64::from(wave.0));
        let mut vary = |mbit: f64| BitsPerSecond::from_mbit_f64(transfer.lognormal(mbit, network.transfer_log_sigma));
        let latency = SimDuration::from_millis_f64(rtt_ms / 2.0);
        let down = Link { rate: vary(down_mbit), latency };
        let up = Link { rate: vary(up_mbit), latency };
        let mut dropout = self.streams.stream(Purpose::Dropout, u64::from(user.0), u64::from(wave.0));
        let dropout_at = (dropout.open_unit() < network.dropout).then(|| dropout.open_unit());
        Conditions { down, up, picoseconds_per_row_visit, dropout_at }
    }

    /// Downlink and uplink in Mbit/s, round-trip time in ms.
    fn link_of(&self, user: UserId) -> [f64; 3] {
        let network = &self.network;
        let mut stream = self.streams.stream(Purpose::Link, u64::from(user.0), 0);
        let (first, second) = (stream.standard_normal(), stream.standard_normal());
        let correlation = network.correlation;
        let correlated = correlation * first + math::sqrt(1.0 - correlation * correlation) * second;
        let lognormal = |median: f64, log_sigma: f64, normal: f64| median * math::exp(log_sigma * normal);
        [
            lognormal(network.downlink_median_mbit_per_s, network.downlink_log_sigma, first),
            lognormal(network.uplink_median_mbit_per_s, network.uplink_log_sigma, correlated),
            stream.lognormal(network.rtt_ms, network.rtt_log_sigma),
        ]
    }
}
