//! Computes axes: their ends, their ticks and the unit of their labels.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use fedrecsim_core::math;

/// An axis from `start` to `end`. Its fields are in the axis's own unit; what is drawn on it is in
/// the unit of the data.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    /// The measured figure, with the unit that it is shown in.
    pub title: String,
    /// The size of the axis's unit, in the unit of the data.
    pub unit: f64,
    /// Where the axis begins, which is zero except for errors.
    pub start: f64,
    /// Where the axis ends.
    pub end: f64,
    /// Where its ticks are.
    pub ticks: Vec<f64>,
    /// Number of decimals in a tick's label, if the axis is linear.
    pub decimals: usize,
    /// How values become places.
    pub scale: Scale,
}

/// How values become places on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Equal differences have equal lengths.
    Linear,
    /// Equal ratios have equal lengths, and ticks are labelled with bytes in the unit that suits
    /// each.
    LogarithmicBytes,
    /// Equal ratios have equal lengths, and ticks are labelled with numbers.
    LogarithmicNumbers,
}

/// The units of bytes, ascending.
const BYTES: [(f64, &str); 6] = [
    (1.0, "bytes"),
    (1e3, "kB"),
    (1e6, "MB"),
    (1e9, "GB"),
    (1e12, "TB"),
    (1e15, "PB"),
];

/// The units of time, ascending.
const SECONDS: [(f64, &str); 5] = [
    (1e-3, "ms"),
    (1.0, "s"),
    (60.0, "min"),
    (3600.0, "h"),
    (86_400.0, "days"),
];

/// How far a logarithmic axis extends beyond the values at both ends, as a factor.
const LOGARITHMIC_ROOM: f64 = 1.15;

/// How far an axis extends beyond the largest value, as a factor, so that a line or a marker there
/// is not cut off.
const HEADROOM: f64 = 1.02;

impl Axis {
    /// Returns an axis from 0 to `last` with ticks at whole numbers. `title` says what is counted.
    pub(crate) fn count(title: &str, last: f64) -> Self {
        Self::new(title, 1.0, last, 1.0)
    }

    /// Returns an axis of bytes from 0 to `last`, in the decimal unit that suits them. `title` says
    /// which bytes.
    pub(crate) fn bytes(title: &str, last: f64) -> Self {
        let (unit, name) = largest_unit(&BYTES, last / 1.2);
        let step_min = if unit == 1.0 { 1.0 } else { 0.0 };
        Self::new(&format!("{title} [{name}]"), unit, last, step_min)
    }

    /// Returns an axis of seconds from 0 to `last`, in the unit that suits them. `title` says which
    /// time.
    pub(crate) fn seconds(title: &str, last: f64) -> Self {
        let (unit, name) = largest_unit(&SECONDS, last / 2.0);
        Self::new(&format!("{title} [{name}]"), unit, last, 0.0)
    }

    /// Returns a logarithmic axis of bytes from `first`, which is positive, to `last`. `title` says
    /// which bytes.
    pub(crate) fn logarithmic_bytes(title: &str, [first, last]: [f64; 2]) -> Self {
        Self::logarithmic(
            &format!("{title}, logarithmic"),
            1.0,
            [first, last],
            Scale::LogarithmicBytes,
        )
    }

    /// Returns a logarithmic axis of seconds from `first`, which is positive, to `last`. `title`
    /// says which time.
    pub(crate) fn logarithmic_seconds(title: &str, [first, last]: [f64; 2]) -> Self {
        let (unit, name) = largest_unit(&SECONDS, last / 2.0);
        Self::logarithmic(
            &format!("{title} [{name}], logarithmic"),
            unit,
            [first, last],
            Scale::LogarithmicNumbers,
        )
    }

    /// Makes a logarithmic axis whose ticks are the powers of ten, and twice and five times these
    /// where they are few.
    fn logarithmic(title: &str, unit: f64, ends: [f64; 2], scale: Scale) -> Self {
        let [start, end] = [
            ends[0] / unit / LOGARITHMIC_ROOM,
            ends[1] / unit * LOGARITHMIC_ROOM,
        ];
        let mut power = 1.0;
        while power > start {
            power /= 10.0;
        }
        while power * 10.0 <= start {
            power *= 10.0;
        }
        let mut powers = Vec::new();
        while power <= end {
            powers.push(power);
            power *= 10.0;
        }
        let all = |factors: &[f64]| -> Vec<f64> {
            let all = powers
                .iter()
                .flat_map(|power| factors.iter().map(move |factor| factor * power));
            all.filter(|tick| (start..=end).contains(tick)).collect()
        };
        let mut ticks = all(&[1.0]);
        if ticks.len() < 3 {
            ticks = all(&[1.0, 2.0, 5.0]);
        }
        Self {
            title: title.to_owned(),
            unit,
            start,
            end,
            ticks,
            decimals: 0,
            scale,
        }
    }

    /// Returns whether a value in the unit of the data has a place on the axis; a logarithmic one
    /// has none for 0.
    pub(crate) fn holds(&self, value: f64) -> bool {
        self.scale == Scale::Linear || value > 0.0
    }

    /// Returns an axis of a share from 0 to `largest`, or to 1 if that is near.
    pub(crate) fn share(title: &str, largest: f64) -> Self {
        // Above half the range, the rest of the range shows how far there is to go.
        let last = if largest > 0.6 {
            1.0
        } else {
            largest.max(0.05) * 1.05
        };
        Self::new(title, 1.0, last, 0.0)
    }

    /// Returns an axis of errors from a tick below `smallest` to `largest`. It does not begin at
    /// zero, which no error comes near: all lines would look like one.
    pub(crate) fn errors(title: &str, smallest: f64, largest: f64) -> Self {
        let spread = (largest - smallest).max(largest * 1e-3);
        if !(smallest > 0.0 && spread > 0.0) {
            return Self::new(title, 1.0, largest, 0.0);
        }
        let (step, decimals) = nice_step(spread / 6.0);
        let first = (smallest / step).floor().max(0.0);
        let count = ((largest - first * step) / step).ceil().max(1.0) as u32;
        let ticks: Vec<f64> = (0..=count)
            .map(|tick| (first + f64::from(tick)) * step)
            .collect();
        let (start, last) = (first * step, (first + f64::from(count)) * step);
        Self {
            start,
            end: start + (last - start) * HEADROOM,
            ..Self::linear(title, 1.0, last, ticks, decimals)
        }
    }

    /// Makes an axis from 0 to `last`, which is in the unit of the data. `step_min` is the smallest
    /// distance of ticks, in the axis's unit.
    fn new(title: &str, unit: f64, last: f64, step_min: f64) -> Self {
        if last <= 0.0 {
            // There is nothing to measure, so the axis has a length to draw on and no tick but
            // zero.
            return Self::linear(title, unit, 1.0, vec![0.0], 0);
        }
        let end = last / unit;
        let (mut step, mut decimals) = nice_step(end / 8.0);
        if step < step_min {
            (step, decimals) = (step_min, 0);
        }
        // The tolerance keeps the tick at the very end in spite of rounding.
        let count = ((end + step * 1e-6) / step) as u32;
        let ticks = (0..=count).map(|i| f64::from(i) * step).collect();
        Self::linear(title, unit, end * HEADROOM, ticks, decimals)
    }

    /// Makes a linear axis from 0 to `end`, which is in the axis's unit.
    fn linear(title: &str, unit: f64, end: f64, ticks: Vec<f64>, decimals: usize) -> Self {
        Self {
            title: title.to_owned(),
            unit,
            start: 0.0,
            end,
            ticks,
            decimals,
            scale: Scale::Linear,
        }
    }

    /// Returns the label of a tick.
    pub(crate) fn label(&self, tick: f64) -> String {
        match self.scale {
            Scale::Linear => format!("{tick:.*}", self.decimals),
            Scale::LogarithmicBytes => {
                let (unit, name) = largest_unit(&BYTES, tick * 1.000_001);
                format!("{} {name}", (tick / unit).round())
            }
            Scale::LogarithmicNumbers if tick < 0.999 => {
                // The decimals are those of the first digit that is not zero.
                let decimals = math::log2(1.0 / tick) / math::log2(10.0);
                format!("{tick:.*}", (decimals - 1e-6).ceil() as usize)
            }
            Scale::LogarithmicNumbers => format!("{}", tick.round()),
        }
    }

    /// Returns the share of the axis's length at which a value in the axis's unit is; those beyond
    /// an end are there.
    fn share_at(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.start) / (self.end - self.start),
            // A logarithmic axis begins above 0.
            _ if value <= 0.0 => 0.0,
            _ => math::ln(value / self.start) / math::ln(self.end / self.start),
        };
        share.clamp(0.0, 1.0)
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (first, last): (i32, i32)) -> i32 {
        // The place is clamped to the axis, so that nothing is drawn outside of it. `end` lies
        // beyond `start`.
        first + (f64::from(last - first) * self.share_at(value / self.unit)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // There are no light grid lines between the ticks.
        if hint.weight().allow_light_points() {
            return Vec::new();
        }
        self.ticks.iter().map(|tick| tick * self.unit).collect()
    }

    fn range(&self) -> Range<f64> {
        self.start * self.unit..self.end * self.unit
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        self.label(value / self.unit)
    }
}

/// Returns the largest of `units` (ascending) that is at most `size`, or the first.
fn largest_unit<'a>(units: &[(f64, &'a str)], size: f64) -> (f64, &'a str) {
    let mut found = (1.0, "");
    for (place, &(unit, name)) in units.iter().enumerate() {
        if place == 0 || unit <= size {
            found = (unit, name);
        }
    }
    found
}

/// Returns the smallest of 1, 2, 5 times a power of ten that is at least `step` (positive), and the
/// decimals that it needs.
fn nice_step(step: f64) -> (f64, usize) {
    let (mut power, mut decimals) = (1.0, 0);
    while power > step && decimals < 12 {
        power /= 10.0;
        decimals += 1;
    }
    while power * 10.0 <= step {
        power *= 10.0;
    }
    // The tolerance is needed because 0.1 / 10 / 10 is not quite 0.001.
    let factor = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|factor| factor * power >= step * (1.0 - 1e-9));
    match factor {
        Some(factor) => (factor * power, decimals),
        None => (10.0 * power, decimals.saturating_sub(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks.iter().map(|&tick| axis.label(tick)).collect()
    }

    #[test]
    fn ticks_are_round_numbers_and_no_more_than_fit() {
        assert_eq!(
            labels(&Axis::count("", 60.0)),
            ["0", "10", "20", "30", "40", "50", "60"]
        );
        assert_eq!(
            labels(&Axis::share("", 1.0)),
            ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
        );
        for exponent in 0..40 {
            let last = 1.7f64 * f64::from(2u32).powi(exponent);
            for axis in [
                Axis::count("", last),
                Axis::bytes("", last),
                Axis::seconds("virtual time", last),
            ] {
                assert!((1..=9).contains(&axis.ticks.len()), "{last}: {axis:?}");
                let mut distinct = labels(&axis);
                distinct.dedup();
                assert_eq!(distinct.len(), axis.ticks.len(), "labels repeat: {axis:?}");
                assert!(axis.ticks.iter().all(|&tick| tick <= axis.end));
            }
        }
    }

    #[test]
    fn there_is_no_half_round() {
        assert_eq!(labels(&Axis::count("", 1.0)), ["0", "1"]);
        assert_eq!(labels(&Axis::count("", 3.0)), ["0", "1", "2", "3"]);
    }

    #[test]
    fn units_suit_the_size() {
        let title = |axis: Axis| axis.title.rsplit_once(' ').map(|(_, unit)| unit.to_owned());
        assert_eq!(title(Axis::bytes("", 950.0)).as_deref(), Some("[bytes]"));
        assert_eq!(title(Axis::bytes("", 2.5e9)).as_deref(), Some("[GB]"));
        assert_eq!(
            title(Axis::seconds("virtual time", 0.5)).as_deref(),
            Some("[ms]")
        );
        assert_eq!(
            title(Axis::seconds("virtual time", 100.0)).as_deref(),
            Some("[s]")
        );
        assert_eq!(
            title(Axis::seconds("virtual time", 300.0)).as_deref(),
            Some("[min]")
        );
        assert_eq!(
            title(Axis::seconds("virtual time", 1e6)).as_deref(),
            Some("[days]")
        );
    }

    /// If this fails, errors that differ by a few hundredths are drawn as one line at the top of
    /// the chart.
    #[test]
    fn errors_begin_below_the_smallest_one() {
        let axis = Axis::errors("", 0.9463, 1.1181);
        assert_eq!(
            labels(&axis),
            ["0.90", "0.95", "1.00", "1.05", "1.10", "1.15"]
        );
        assert_eq!((axis.start, axis.end > 1.15), (0.9, true));
        for (smallest, largest) in [(1.0, 1.0), (0.001, 5.0), (0.0, 2.0), (3.0, 1e6)] {
            let axis = Axis::errors("", smallest, largest);
            assert!(
                axis.start <= smallest
                    && axis.end > largest
                    && (2..=10).contains(&axis.ticks.len()),
                "{axis:?}"
            );
        }
    }

    /// If this fails, a point on a logarithmic axis stands at another cost than its own, or a tick
    /// has a wrong label.
    #[test]
    fn a_logarithmic_axis_has_powers_of_ten_at_equal_distances() {
        let axis = Axis::logarithmic_bytes("sent", [0.9e6, 1.1e9]);
        assert_eq!(
            (axis.title.as_str(), labels(&axis)),
            (
                "sent, logarithmic",
                vec!["1 MB", "10 MB", "100 MB", "1 GB"]
                    .into_iter()
                    .map(str::to_owned)
                    .collect()
            )
        );
        let places: Vec<i32> = axis
            .ticks
            .iter()
            .map(|tick| axis.map(tick, (0, 1000)))
            .collect();
        let lengths: Vec<i32> = places.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(
            places[0] > 0
                && places[3] < 1000
                && lengths
                    .iter()
                    .all(|length| length.abs_diff(lengths[0]) <= 1)
        );
        assert!(axis.holds(1.0) && !axis.holds(0.0) && Axis::bytes("", 1.0).holds(0.0));
        assert_eq!(
            labels(&Axis::logarithmic_bytes("", [3.1e8, 2.4e10])),
            ["500 MB", "1 GB", "2 GB", "5 GB", "10 GB", "20 GB"]
        );
        let times = Axis::logarithmic_seconds("virtual time", [0.02, 400.0]);
        assert_eq!(
            (times.title.as_str(), labels(&times).join(" ").as_str()),
            ("virtual time [min], logarithmic", "0.001 0.01 0.1 1")
        );
        for exponent in 0..40 {
            let first = 1.3e-3 * f64::from(2u32).powi(exponent);
            for axis in [31.0, 1e4, 1e7]
                .map(|ratio| Axis::logarithmic_seconds("virtual time", [first, first * ratio]))
            {
                let mut distinct = labels(&axis);
                distinct.dedup();
                assert!(
                    (3..=9).contains(&distinct.len()) && distinct.len() == axis.ticks.len(),
                    "{axis:?}"
                );
            }
        }
    }

    #[test]
    fn an_axis_of_nothing_still_has_a_length() {
        let axis = Axis::bytes("", 0.0);
        assert!(axis.end > 0.0 && axis.ticks == [0.0]);
    }
}
