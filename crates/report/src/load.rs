//! The load of the server's link in units that a reader knows.

use serde::{Deserialize, Serialize};

use fedrecsim_core::{BitsPerSecond, Direction};
use fedrecsim_data::population::shared_capacity;
use fedrecsim_scenario::NetworkSpec;
use fedrecsim_sim::outcome::{Level, NetworkRecord, Waits};

/// The server's link, the line for connections and the users who were waited for, over a stretch of
/// virtual time. Means are weighted by time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkSummary {
    /// The load of the link in the direction from the users.
    pub up: Load,
    /// The load of the link in the direction to the users.
    pub down: Load,
    /// The transfers under way at once.
    pub transfers: Count,
    /// The users in the line for a connection.
    pub line: Count,
    /// The times that users waited in that line.
    pub line_waits: Waits,
    /// The users who were invited and whose participation had not ended.
    pub waiting_users: Count,
}

/// The load of one direction of the server's link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// The mean, in bytes per second.
    pub mean_bytes_per_s: f64,
    /// The maximum, in bytes per second.
    pub max_bytes_per_s: f64,
    /// The mean as a share of what the link can carry; absent if it has no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_share: Option<f64>,
    /// The maximum as a share of what the link can carry; absent if it has no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_share: Option<f64>,
}

/// A number of something over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Count {
    /// The mean.
    pub mean: f64,
    /// The maximum.
    pub max: u64,
}

impl NetworkSummary {
    /// Returns the figures of a stretch of time with these links; `None` if no time has passed in
    /// it.
    pub(crate) fn of(record: &NetworkRecord, network: &NetworkSpec) -> Option<Self> {
        let nanoseconds = record.nanoseconds();
        let mean = |level: &Level| level.mean_over(nanoseconds);
        let load = |level: &Level, direction| {
            let capacity = shared_capacity(network, direction).map(BitsPerSecond::get);
            let share = |bits_per_s: f64| capacity.map(|capacity| bits_per_s / capacity as f64);
            let (mean, max) = (mean(level)?, level.max as f64);
            Some(Load {
                mean_bytes_per_s: mean / 8.0,
                max_bytes_per_s: max / 8.0,
                mean_share: share(mean),
                max_share: share(max),
            })
        };
        let count = |level: &Level| {
            Some(Count {
                mean: mean(level)?,
                max: level.max,
            })
        };
        let levels = &record.levels;
        Some(Self {
            up: load(&levels.up_bits_per_s, Direction::Up)?,
            down: load(&levels.down_bits_per_s, Direction::Down)?,
            transfers: count(&levels.transfers)?,
            line: count(&levels.line)?,
            line_waits: record.waits,
            waiting_users: count(&levels.waiting_users)?,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::records as sample;

    /// If this fails, an engineer reads a share of another link, or bits for bytes.
    #[test]
    fn a_load_is_told_in_bytes_and_as_a_share_of_what_the_link_can_carry() {
        let record = sample::run(1);
        let mut network = record.scenario.network.clone();
        network.server.uplink_mbit_per_s = Some(480.0);
        let summary = NetworkSummary::of(&record.per_round[0].network, &network).unwrap();
        assert_eq!(
            (summary.up.mean_bytes_per_s, summary.up.max_bytes_per_s),
            (15e6, 30e6)
        );
        assert_eq!(
            (
                summary.up.mean_share,
                summary.up.max_share,
                summary.down.mean_share
            ),
            (Some(0.25), Some(0.5), None)
        );
        assert_eq!(
            (summary.waiting_users.mean, summary.waiting_users.max),
            (471.5, 943)
        );
        assert_eq!(
            NetworkSummary::of(&NetworkRecord::default(), &network),
            None,
            "no time has passed"
        );
    }
}
