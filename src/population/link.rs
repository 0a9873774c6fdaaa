//! Draws the links of users: rates, latency, and whether a participation is cut off.

use super::{Conditions, Speed};
use crate::ids::{InvitationId, UserId};
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
    /// Returns the time from the first byte's departure to the last byte's arrival.
    pub fn transfer_time(&self, size: Bytes) -> SimDuration {
        self.latency + self.rate.time_for(size)
    }

    /// Returns how many bytes of a frame of `size` have left the sender `elapsed` after the first one, which is what a
    /// cut-off loses.
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

    /// Draws link and dropout of one participation; the speed of the device is passed on.
    pub(super) fn conditions(&self, user: UserId, invitation_id: InvitationId, speed: Speed) -> Conditions {
        let [down_mbit, up_mbit, rtt_ms] = self.link_of(user);
        let network = &self.network;
        let mut transfer = self.streams.stream(Purpose::Transfer, u64::from(user.0), u64::from(invitation_id.0));
        let mut vary = |mbit: f64| BitsPerSecond::from_mbit_f64(transfer.lognormal(mbit, network.transfer_log_sigma));
        let latency = SimDuration::from_millis_f64(rtt_ms / 2.0);
        let down = Link { rate: vary(down_mbit), latency };
        let up = Link { rate: vary(up_mbit), latency };
        let mut dropout = self.streams.stream(Purpose::Dropout, u64::from(user.0), u64::from(invitation_id.0));
        let dropout_at = (dropout.open_unit() < network.dropout).then(|| dropout.open_unit());
        Conditions { down, up, speed, dropout_at }
    }

    /// Draws downlink and uplink in Mbit/s, and the round-trip time in ms.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::population::Population;
    use crate::population::tests::users_of;

    fn population(seed: u64) -> Population {
        let network = "preset = \"wifi-2020\"\ntransfer_log_sigma = 0\ndropout = 0.25";
        users_of(&format!("[network]\n{network}\n[devices]\nlog_sigma = 0.6\n"), seed)
    }

    #[test]
    fn a_transfer_takes_latency_plus_size_over_rate() {
        let link = Link { rate: BitsPerSecond::from_mbit_f64(8.0), latency: SimDuration::from_millis_f64(20.0) };
        let size = Bytes::new(1_000_000);
        assert_eq!(link.transfer_time(size).as_secs_f64(), 1.02);
        assert_eq!(link.carried(size, SimDuration::from_millis_f64(500.0)), Bytes::new(500_000));
        assert_eq!(link.carried(size, SimDuration::from_millis_f64(1_010.0)), size, "the rest is on its way");
    }

    #[test]
    fn rates_have_the_stated_medians_spread_and_correlation() {
        let population = population(1);
        let logs: Vec<(f64, f64)> = (0..20_000)
            .map(|user| {
                let conditions = population.conditions(UserId(user), InvitationId(0));
                let log_mbit = |link: Link| math::ln(link.rate.get() as f64 / 1e6);
                (log_mbit(conditions.down), log_mbit(conditions.up))
            })
            .collect();
        let count = logs.len() as f64;
        let mean = |values: &dyn Fn(&(f64, f64)) -> f64| logs.iter().map(values).sum::<f64>() / count;
        let (down, up) = (mean(&|log| log.0), mean(&|log| log.1));
        let sigma_down = math::sqrt(mean(&|log| (log.0 - down) * (log.0 - down)));
        let sigma_up = math::sqrt(mean(&|log| (log.1 - up) * (log.1 - up)));
        let correlation = mean(&|log| (log.0 - down) * (log.1 - up)) / (sigma_down * sigma_up);
        // The mean of the logarithm is the logarithm of the median.
        assert!((math::exp(down) - 34.5).abs() < 0.6, "median down {}", math::exp(down));
        assert!((math::exp(up) - 26.3).abs() < 0.6, "median up {}", math::exp(up));
        assert!((sigma_down - 0.47).abs() < 0.01 && (sigma_up - 0.68).abs() < 0.015);
        assert!((correlation - 0.45).abs() < 0.02, "correlation {correlation}");
    }

    #[test]
    fn conditions_are_the_stated_functions_of_the_users_streams() {
        // The distributions alone would not tell a formula from its mirror image, and every digest depends on the
        // draws.
        let streams = Streams::new(1);
        let conditions = population(1).conditions(UserId(5), InvitationId(2));
        let mut link = streams.stream(Purpose::Link, 5, 0);
        let (first, second) = (link.standard_normal(), link.standard_normal());
        let correlated = 0.45 * first + (1.0 - 0.45 * 0.45_f64).sqrt() * second;
        let close = |rate: BitsPerSecond, mbit: f64| (rate.get() as f64 - mbit * 1e6).abs() < 1.0;
        assert!(close(conditions.down.rate, 34.5 * (0.47 * first).exp()));
        assert!(close(conditions.up.rate, 26.3 * (0.68 * correlated).exp()));
        assert_eq!(conditions.down.latency, SimDuration::from_millis_f64(20.0), "half a round trip");
        assert_eq!(conditions.up.latency, conditions.down.latency);
        let nanoseconds = 50.0 * (0.6 * streams.stream(Purpose::Device, 5, 0).standard_normal()).exp();
        assert!((conditions.speed.picoseconds_per_row_visit as f64 - 1000.0 * nanoseconds).abs() <= 0.5);
    }

    #[test]
    fn dropout_has_its_probability_and_a_uniform_instant() {
        let population = population(1);
        let instants: Vec<f64> =
            (0..20_000).filter_map(|user| population.conditions(UserId(user), InvitationId(3)).dropout_at).collect();
        let share = instants.len() as f64 / 20_000.0;
        assert!((share - 0.25).abs() < 0.01, "share {share}");
        let early = instants.iter().filter(|instant| **instant < 0.5).count() as f64 / instants.len() as f64;
        assert!((early - 0.5).abs() < 0.02, "{early} of the dropouts in the first half");
    }

    #[test]
    fn a_users_machine_is_its_own_and_does_not_change_between_rounds() {
        let population = population(1);
        let speed = |user, round| population.conditions(UserId(user), InvitationId(round)).speed;
        assert_eq!(speed(3, 0), speed(3, 9));
        assert_ne!(speed(3, 0), speed(4, 0));
        let rate = |round| population.conditions(UserId(3), InvitationId(round)).down.rate;
        assert_eq!(rate(0), rate(9), "without transfer variation a user's rate is constant");
    }
}
