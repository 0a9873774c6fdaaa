//! The load of the server's link, the line for connections and the users who are waited for, over
//! virtual time.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use fedrecsim_core::SimTime;

/// A value for each quantity that is watched at the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gauges<T> {
    /// The load of the server's link in the direction from the users, in bit/s.
    pub up_bits_per_s: T,
    /// The load of the server's link in the direction to the users, in bit/s.
    pub down_bits_per_s: T,
    /// The transfers between the server and users that are under way, both directions together.
    /// Where connections are limited, these are the transfers that have one.
    pub transfers: T,
    /// The users who wait in the line for a connection.
    pub line: T,
    /// The users who were invited and whose participation has not ended.
    pub waiting_users: T,
}

impl<T> Gauges<T> {
    /// Returns a reference to every value, in the order of their declaration.
    pub fn as_array(&self) -> [&T; 5] {
        let Self {
            up_bits_per_s,
            down_bits_per_s,
            transfers,
            line,
            waiting_users,
        } = self;
        [
            up_bits_per_s,
            down_bits_per_s,
            transfers,
            line,
            waiting_users,
        ]
    }

    /// Returns a reference to every value, to be changed, in the order of their declaration.
    pub fn as_mut_array(&mut self) -> [&mut T; 5] {
        let Self {
            up_bits_per_s,
            down_bits_per_s,
            transfers,
            line,
            waiting_users,
        } = self;
        [
            up_bits_per_s,
            down_bits_per_s,
            transfers,
            line,
            waiting_users,
        ]
    }
}

/// The values of all quantities from an instant until they change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GaugesSince {
    /// The first instant when they have these values.
    pub at: SimTime,
    /// The values.
    pub gauges: Gauges<u64>,
}

/// A quantity over a stretch of virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// The integral of the quantity over time, in its unit times nanoseconds.
    pub integral: u128,
    /// The largest value that it had for longer than an instant.
    pub max: u64,
}

impl Level {
    /// Adds `nanoseconds`, during which the quantity was `value`.
    pub fn pass(&mut self, value: u64, nanoseconds: u64) {
        if nanoseconds > 0 {
            self.integral += u128::from(value) * u128::from(nanoseconds);
            self.max = self.max.max(value);
        }
    }

    /// Returns the mean of the quantity over `nanoseconds`, which is the whole stretch; `None` if
    /// no time has passed.
    pub fn mean_over(&self, nanoseconds: u64) -> Option<f64> {
        (nanoseconds > 0).then(|| self.integral as f64 / nanoseconds as f64)
    }
}

impl AddAssign for Level {
    fn add_assign(&mut self, later: Self) {
        self.integral += later.integral;
        self.max = self.max.max(later.max);
    }
}

/// The times that users waited in the line for a connection. A user who got one at once did not
/// wait. Count, sum and maximum are exact; the quantiles have three significant digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// The number of waits that have ended, with a connection or without one.
    pub count: u64,
    /// The sum of all waits.
    pub total_s: f64,
    /// The median.
    pub p50_s: f64,
    /// The 95th percentile.
    pub p95_s: f64,
    /// The longest wait.
    pub max_s: f64,
}

/// What happened at the server's link in a stretch of virtual time: a round, or all finished rounds
/// of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkRecord {
    /// When the stretch began.
    pub began: SimTime,
    /// When the stretch ended.
    pub ended: SimTime,
    /// The quantities over that time.
    pub levels: Gauges<Level>,
    /// The waits in the line for a connection that ended in that time.
    pub waits: Waits,
}

impl NetworkRecord {
    /// Returns the length of the stretch, in nanoseconds.
    pub fn nanoseconds(&self) -> u64 {
        self.ended.since(self.began).as_nanos()
    }

    /// Returns the record of the rounds together, which follow one another without a gap. `waits`
    /// are those of all of them, since quantiles do not add up.
    pub fn over(rounds: impl IntoIterator<Item = Self>, waits: Waits) -> Self {
        let mut whole = Self {
            waits,
            ..Self::default()
        };
        for (number, round) in rounds.into_iter().enumerate() {
            if number == 0 {
                whole.began = round.began;
            }
            whole.ended = round.ended;
            for (sum, level) in whole
                .levels
                .as_mut_array()
                .into_iter()
                .zip(round.levels.as_array())
            {
                *sum += *level;
            }
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a mean counts a short level as much as a long one, or a value that lasted for
    /// no time is a maximum.
    #[test]
    fn a_level_is_weighted_by_its_time() {
        let mut level = Level::default();
        level.pass(10, 30);
        level.pass(99, 0);
        level.pass(40, 10);
        assert_eq!(
            (level.integral, level.max, level.mean_over(40)),
            (700, 40, Some(17.5))
        );
        assert_eq!(Level::default().mean_over(0), None);
    }

    /// If this fails, the figures of a run are not those of its rounds.
    #[test]
    fn rounds_add_up_to_the_run() {
        let round = |began, ended, value| {
            let mut levels = Gauges::<Level>::default();
            levels.line.pass(value, ended - began);
            let (began, ended) = (SimTime::from_nanos(began), SimTime::from_nanos(ended));
            NetworkRecord {
                began,
                ended,
                levels,
                waits: Waits::default(),
            }
        };
        let whole = NetworkRecord::over(
            [round(5, 15, 3), round(15, 35, 6)],
            Waits {
                count: 2,
                ..Waits::default()
            },
        );
        assert_eq!(
            (
                whole.nanoseconds(),
                whole.levels.line.max,
                whole.waits.count
            ),
            (30, 6, 2)
        );
        assert_eq!(whole.levels.line.mean_over(whole.nanoseconds()), Some(5.0));
    }
}
