//! What pictures of a study show: the courses of arms, and which arms no other one beats.

use super::cost::Cost;
use crate::metric::Direction;

/// What the horizontal axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Against {
    /// Finished rounds.
    Rounds,
    /// Bytes sent so far, up and down.
    Bytes,
    /// Bytes sent by clients so far.
    Uploads,
    /// Virtual time so far.
    VirtualTime,
}

impl Against {
    /// Returns what is counted, in rounds, bytes or seconds.
    pub fn of(self, cost: &Cost) -> f64 {
        match self {
            Self::Rounds => cost.round.into(),
            Self::Bytes => cost.bytes() as f64,
            Self::Uploads => cost.up_bytes as f64,
            Self::VirtualTime => cost.virtual_time_s,
        }
    }
}

/// A mean with its interval, at what it cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// The cost, in bytes or seconds.
    pub x: f64,
    /// The mean.
    pub y: f64,
    /// The lower end of the interval; the mean if there is none.
    pub low: f64,
    /// The upper end of the interval; the mean if there is none.
    pub high: f64,
}

/// The course of an arm.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The name of the arm.
    pub label: String,
    /// Its points, by ascending cost.
    pub points: Vec<Band>,
}

/// An arm as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct FrontPoint {
    /// The name of the arm.
    pub label: String,
    /// Its accuracy and cost.
    pub at: Band,
}

/// Returns the places of the points that no other one beats, by ascending cost. One beats another if it costs at most as
/// much and is at least as accurate, and better in one of the two.
pub fn unbeaten(points: &[FrontPoint], direction: Direction) -> Vec<usize> {
    let beats = |one: &Band, other: &Band| {
        let better = direction.compare(one.y, other.y);
        one.x <= other.x && better.is_ge() && (one.x < other.x || better.is_gt())
    };
    let is_unbeaten = |place: &usize| points.iter().all(|other| !beats(&other.at, &points[*place].at));
    let mut places: Vec<usize> = (0..points.len()).filter(is_unbeaten).collect();
    places.sort_by(|one, other| points[*one].at.x.total_cmp(&points[*other].at.x));
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(x: f64, y: f64) -> FrontPoint {
        FrontPoint { label: format!("{x}"), at: Band { x, y, low: y - 0.01, high: y + 0.01 } }
    }

    /// If this fails, an arm is recommended that costs more than another one and is less accurate.
    #[test]
    fn only_arms_that_no_other_beats_are_on_the_front() {
        let points = [point(3.0, 0.9), point(1.0, 0.5), point(2.0, 0.4), point(2.5, 0.9), point(1.0, 0.5)];
        assert_eq!(unbeaten(&points, Direction::HigherIsBetter), [1, 4, 3], "equal arms do not beat each other");
        assert_eq!(unbeaten(&points, Direction::LowerIsBetter), [1, 4, 2]);
        assert_eq!(unbeaten(&[], Direction::LowerIsBetter), [0; 0]);
    }
}
