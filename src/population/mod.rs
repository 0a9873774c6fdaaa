//! Who the users are as machines: device, link and dropout, when they are available, and what goes wrong with their
//! transfers.
//!
//! What is not read from a trace is drawn from the user's own streams when it is asked for, so a population of any size
//! costs no memory, and one more user changes nobody else (contract 1).

use std::sync::Arc;

use crate::error::Result;
use crate::ids::{UserId, Wave};
use crate::rng::Streams;
use crate::scenario::Scenario;
use crate::units::{Bytes, SimDuration};

mod availability;
mod columns;
mod device;
mod faults;
mod link;
mod traces;

pub use availability::{Availability, AvailabilityClock};
pub use device::Device;
pub use faults::{FaultRules, Verdict};
pub use link::Link;
pub use traces::Traces;

use device::Devices;
use link::Links;

/// The users of a run.
#[derive(Clone, Debug)]
pub struct Population {
    links: Links,
    devices: Devices,
    availability: Arc<Availability>,
    faults: FaultRules,
}

/// One participation, as far as it can be known before training: speeds, and whether it will be cut off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// The download.
    pub down: Link,
    /// The upload.
    pub up: Link,
    /// Time per row visit, in picoseconds.
    pub picoseconds_per_row_visit: u64,
    /// Where the participation is cut off, as a share of its whole duration; `None` if it is not.
    pub dropout_at: Option<f64>,
}

impl Conditions {
    /// The virtual time that `row_visits` take on this device.
    pub fn compute_time(&self, row_visits: u64) -> SimDuration {
        let picoseconds = u128::from(row_visits) * u128::from(self.picoseconds_per_row_visit);
        SimDuration::from_nanos(u64::try_from(picoseconds.div_ceil(1000)).unwrap_or(u64::MAX))
    }

    /// Row visits that this device has finished after `elapsed`.
    pub fn row_visits_in(&self, elapsed: SimDuration) -> u64 {
        let picoseconds = u128::from(elapsed.as_nanos()) * 1000;
        u64::try_from(picoseconds / u128::from(self.picoseconds_per_row_visit.max(1))).unwrap_or(u64::MAX)
    }
}

impl Population {
    /// So many users in the world of `scenario`, with the traces that it names.
    ///
    /// # Errors
    /// [`Error::Usage`](crate::error::Error::Usage) for a trace that the scenario names and `traces` does not have, and
    /// for a rule of faults about a user whom there is not.
    pub fn new(scenario: &Scenario, users: usize, traces: &Traces, streams: Streams) -> Result<Self> {
        // Data sets with 2^32 users or more are refused on reading.
        let users = users as u32;
        let availability = Availability::new(&scenario.availability, users, traces.availability.clone(), streams)?;
        Ok(Self {
            links: Links::new(&scenario.network, streams),
            devices: Devices::new(&scenario.devices, traces.devices.clone(), streams)?,
            availability: Arc::new(availability),
            faults: FaultRules::new(&scenario.faults, users, streams)?,
        })
    }

    /// The conditions of a participation of `user`, whom `wave` tells from its others.
    ///
    /// Device speed and link belong to the user; the variation of a transfer and a dropout to the participation.
    pub fn conditions(&self, user: UserId, wave: Wave) -> Conditions {
        self.links.conditions(user, wave, self.devices.speed(user).0)
    }

    /// The device of `user`.
    pub fn device(&self, user: UserId) -> Device {
        self.devices.device(user)
    }

    /// Those of the first `users` users whose device has no room for `needed`, ascending.
    pub fn too_small_for(&self, needed: Bytes, users: usize) -> Vec<UserId> {
        if !self.devices.limit_memory() {
            return Vec::new();
        }
        let too_small = |user: &UserId| self.device(*user).memory.is_some_and(|memory| memory < needed);
        (0..users).map(UserId::from).filter(too_small).collect()
    }

    /// When users can take part.
    pub fn availability(&self) -> &Arc<Availability> {
        &self.availability
    }

    /// What goes wrong with transfers.
    pub fn faults(&self) -> &FaultRules {
        &self.faults
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::math;
    use crate::rng::{PortableDraws, Purpose};
    use crate::scenario::{self, MethodVocabulary};
    use crate::units::BitsPerSecond;

    /// The users of a scenario with these tables.
    pub(super) fn users_of(tables: &str, seed: u64) -> Population {
        let schema = schemars::json_schema!({ "type": "object", "additionalProperties": false });
        let vocabulary = [MethodVocabulary { name: "popularity", schema, resolve: |_| Vec::new() }];
        let text = format!("method = \"popularity\"\ndataset.name = \"ml-100k\"\ntraining.rounds = 1\n{tables}");
        let scenario = scenario::parse(&text, "test.toml", &[], &vocabulary).unwrap();
        Population::new(&scenario, 20_000, &Traces::default(), Streams::new(seed)).unwrap()
    }

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
                let conditions = population.conditions(UserId(user), Wave(0));
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
        // Distributions alone would not tell a formula from its mirror image, and every digest rests on the draws.
        let streams = Streams::new(1);
        let conditions = population(1).conditions(UserId(5), Wave(2));
        let mut link = streams.stream(Purpose::Link, 5, 0);
        let (first, second) = (link.standard_normal(), link.standard_normal());
        let correlated = 0.45 * first + (1.0 - 0.45 * 0.45_f64).sqrt() * second;
        let close = |rate: BitsPerSecond, mbit: f64| (rate.get() as f64 - mbit * 1e6).abs() < 1.0;
        assert!(close(conditions.down.rate, 34.5 * (0.47 * first).exp()));
        assert!(close(conditions.up.rate, 26.3 * (0.68 * correlated).exp()));
        assert_eq!(conditions.down.latency, SimDuration::from_millis_f64(20.0), "half a round trip");
        assert_eq!(conditions.up.latency, conditions.down.latency);
        let nanoseconds = 50.0 * (0.6 * streams.stream(Purpose::Device, 5, 0).standard_normal()).exp();
        assert!((conditions.picoseconds_per_row_visit as f64 - 1000.0 * nanoseconds).abs() <= 0.5);
    }

    #[test]
    fn dropout_has_its_probability_and_a_uniform_instant() {
        let population = population(1);
        let instants: Vec<f64> =
            (0..20_000).filter_map(|user| population.conditions(UserId(user), Wave(3)).dropout_at).collect();
        let share = instants.len() as f64 / 20_000.0;
        assert!((share - 0.25).abs() < 0.01, "share {share}");
        let early = instants.iter().filter(|instant| **instant < 0.5).count() as f64 / instants.len() as f64;
        assert!((early - 0.5).abs() < 0.02, "{early} of the dropouts in the first half");
    }

    #[test]
    fn a_users_machine_is_its_own_and_does_not_change_between_rounds() {
        let population = population(1);
        let speed = |user, round| population.conditions(UserId(user), Wave(round)).picoseconds_per_row_visit;
        assert_eq!(speed(3, 0), speed(3, 9));
        assert_ne!(speed(3, 0), speed(4, 0));
        let rate = |round| population.conditions(UserId(3), Wave(round)).down.rate;
        assert_eq!(rate(0), rate(9), "without transfer variation a user's rate is constant");
    }

    #[test]
    fn compute_time_is_work_times_speed() {
        let mut conditions = population(1).conditions(UserId(0), Wave(0));
        conditions.picoseconds_per_row_visit = 1_500;
        assert_eq!(conditions.compute_time(3).as_nanos(), 5, "4.5 ns rounded up");
    }
}
