//! What pictures of a study show: the courses of arms, and which arms no other one beats.

use super::cost::Cost;
use fedrecsim_core::metric::Better;

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
    pub(crate) fn of(self, cost: &Cost) -> f64 {
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
pub(crate) struct Band {
    /// The cost, in bytes, seconds or rounds.
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
pub(crate) struct Curve {
    /// The name of the arm.
    pub label: String,
    /// Its points, by ascending cost.
    pub points: Vec<Band>,
}

/// An arm as a whole.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FrontPoint {
    /// The name of the arm.
    pub label: String,
    /// Its accuracy and cost.
    pub at: Band,
}

/// Returns the places of the points that no other one beats, by ascending cost. One beats another
/// if it costs at most as much and is at least as accurate, and better in one of the two.
pub(crate) fn unbeaten(points: &[FrontPoint], direction: Better) -> Vec<usize> {
    let sign = if direction == Better::Higher {
        -1.0
    } else {
        1.0
    };
    let costs: Vec<[f64; 2]> = points
        .iter()
        .map(|point| [point.at.x, sign * point.at.y])
        .collect();
    unbeaten_in_all(&costs)
}

/// Returns the places of what no other one beats, by ascending first cost. One beats another if it
/// costs at most as much in every respect, and less in one.
pub(crate) fn unbeaten_in_all<const N: usize>(costs: &[[f64; N]]) -> Vec<usize> {
    let beats = |one: &[f64; N], other: &[f64; N]| {
        let pairs = || one.iter().zip(other);
        pairs().all(|(one, other)| one <= other) && pairs().any(|(one, other)| one < other)
    };
    let is_unbeaten = |place: &usize| costs.iter().all(|other| !beats(other, &costs[*place]));
    let mut places: Vec<usize> = (0..costs.len()).filter(is_unbeaten).collect();
    places.sort_by(|one, other| costs[*one][0].total_cmp(&costs[*other][0]));
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(x: f64, y: f64) -> FrontPoint {
        FrontPoint {
            label: format!("{x}"),
            at: Band {
                x,
                y,
                low: y - 0.01,
                high: y + 0.01,
            },
        }
    }

    /// If this fails, an arm is recommended that costs more than another one and is less accurate.
    #[test]
    fn only_arms_that_no_other_beats_are_on_the_front() {
        let points = [
            point(3.0, 0.9),
            point(1.0, 0.5),
            point(2.0, 0.4),
            point(2.5, 0.9),
            point(1.0, 0.5),
        ];
        assert_eq!(
            unbeaten(&points, Better::Higher),
            [1, 4, 3],
            "equal arms do not beat each other"
        );
        assert_eq!(unbeaten(&points, Better::Lower), [1, 4, 2]);
        assert_eq!(unbeaten(&[], Better::Lower), [0; 0]);
        let costs = [
            [3.0, 1.0, 1.0],
            [1.0, 2.0, 2.0],
            [3.0, 1.0, 2.0],
            [2.0, 2.0, 1.0],
        ];
        assert_eq!(
            unbeaten_in_all(&costs),
            [1, 3, 0],
            "the third one is beaten by the first one alone"
        );
    }
}
