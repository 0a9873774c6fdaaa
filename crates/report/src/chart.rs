//! Charts as data: columns of numbers, and the axes that they can be drawn along.
//!
//! A chart is made once and drawn in two forms: as a picture by `plot`, along one of its axes, and
//! as data for the script of a page by [`html`](super::html), which has a button for each axis.

use serde::Serialize;

use super::column::Unit;
use super::frame::Frame;
use super::rounds;
use fedrecsim_core::metric::{Better, Metric, Needs};

/// The number of colours of a page. Of a picture, they are the first ones.
pub(crate) const COLORS: usize = 8;

/// A chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// The name within a page.
    pub id: &'static str,
    /// The metric that it shows, if charts of the same name show others; a page has a button for each.
    pub metric: String,
    /// The heading on a page.
    pub title: String,
    /// A note on all figures of the chart, such as their protocol; on a page.
    pub note: String,
    /// Describes the chart for readers who cannot see it; on a page.
    pub description: String,
    /// How the series are drawn.
    pub kind: Kind,
    /// The choices of a horizontal axis; the first one is shown at first.
    pub across: Vec<Axis>,
    /// The vertical axis.
    pub up: Axis,
    /// The drawing.
    pub series: Vec<Series>,
    /// The text if no series has a point.
    pub remark: &'static str,
}

/// How the series of a chart are drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Kind {
    /// As the figures of one run.
    #[default]
    Lines,
    /// As the arms of a study: a picture numbers them if they are many, and has a logarithmic axis
    /// if their costs are far apart.
    Arms,
    /// The same, each arm being a point. Those that no other one beats are joined.
    Front(Better),
    /// As the parts of bars with these names.
    Bars(Vec<String>),
    /// As a time line, which has no series.
    Timeline(Timeline),
}

/// A time line: rows of bars over time, with a mark at the end of each, and vertical lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// The time from the left edge to the right one, in seconds.
    pub length_s: f64,
    /// The rows from top to bottom.
    pub rows: Vec<Row>,
    /// The vertical lines and their times, in seconds.
    pub rules: Vec<(LineStyle, f64)>,
    /// The colours of bars with their names in the legend.
    pub bars: Vec<(usize, String)>,
    /// The marks with their names in the legend.
    pub marks: Vec<(Mark, String)>,
    /// The styles of vertical lines with their names in the legend.
    pub lines: Vec<(LineStyle, String)>,
}

/// A row of a time line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The name of the user whose participation it is.
    pub label: String,
    /// The bars as (colour, from, to), in seconds.
    pub bars: Vec<(usize, f64, f64)>,
    /// The mark at the end and its time, in seconds.
    pub mark: Option<(Mark, f64)>,
}

/// How a row of a time line ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A ring.
    Ring,
    /// A filled ring.
    Disc,
    /// A cross.
    Cross,
    /// A square.
    Square,
    /// An arrow head to the right.
    Arrow,
}

/// How a vertical line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineStyle {
    /// Without gaps.
    Solid,
    /// With gaps.
    Dashed,
}

/// An axis of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// The name on the button that chooses the axis.
    pub name: &'static str,
    /// The title along the axis.
    pub title: String,
    /// How numbers are written.
    pub unit: Unit,
    /// Whether the axis begins elsewhere than at zero, as that of errors, which no error comes
    /// near: all lines would look like one.
    pub is_near: bool,
    /// The text if everything is at zero of a horizontal axis.
    pub nothing: &'static str,
}

/// A line, a set of points, or a part of every bar.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The heading in the legend of a picture.
    pub group: String,
    /// The name in the legend, which leaves out a series without one.
    pub name: String,
    /// The arm that it is of, by its place in the study.
    pub arm: Option<usize>,
    /// The seed, if it is of a single one.
    pub seed: Option<u64>,
    /// What its figures can be compared with, by a number: only those of the same class have a front.
    pub class: usize,
    /// Its figure, which stands beside its name in a picture.
    pub figure: String,
    /// The colour, by its number.
    pub color: usize,
    /// How it is drawn.
    pub stroke: Stroke,
    /// The shape of its points.
    pub marker: Marker,
    /// Whether a picture draws it in a shade, since it may lie on another one of its colour.
    pub is_shaded: bool,
    /// The horizontal places, in a column for each of the chart's axes. A series without any is a
    /// level along the whole axis. Of a bar, the lengths of its parts.
    pub x: Vec<Vec<f64>>,
    /// The vertical places.
    pub y: Vec<f64>,
    /// The lower ends of intervals; empty without intervals.
    pub low: Vec<f64>,
    /// The upper ends of intervals.
    pub high: Vec<f64>,
}

/// How a series is drawn, from the most to the least prominent: in pictures, a later one lies above
/// an earlier one, which it would not be seen below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stroke {
    /// Points with their intervals, not joined.
    Points,
    /// A thick line, with its intervals as a band.
    #[default]
    Thick,
    /// A thin line.
    Thin,
    /// A line that keeps the value of a point up to the next one.
    Steps,
    /// The same, thin and dotted.
    DotSteps,
    /// A dashed line.
    Dash,
    /// A line of dashes and dots.
    DashDot,
    /// A dotted line.
    Dot,
    /// A large ring around a point.
    Ring,
}

/// The shape of a point in a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marker {
    /// A disc.
    #[default]
    Circle,
    /// A square.
    Square,
    /// A triangle that stands on a side.
    Triangle,
}

impl Axis {
    /// Returns an axis that begins at zero.
    pub fn new(name: &'static str, title: impl Into<String>, unit: Unit) -> Self {
        Self {
            name,
            title: title.into(),
            unit,
            ..Self::default()
        }
    }

    /// Returns the vertical axis of metrics.
    pub(crate) fn of_metrics(title: String, metrics: &[Metric]) -> Self {
        Self {
            is_near: metrics.first().map(Metric::needs) == Some(Needs::PredictedRatings),
            ..Self::new("", title, Unit::Accuracy)
        }
    }
}

/// What an accuracy cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    /// Bytes sent so far, up and down.
    Bytes,
    /// Bytes sent by clients so far.
    Uploads,
    /// Virtual time so far.
    Time,
    /// Finished rounds.
    Rounds,
}

impl Cost {
    /// All costs, in the order of a page's buttons.
    pub(crate) const ALL: [Self; 4] = [Self::Bytes, Self::Uploads, Self::Time, Self::Rounds];

    /// Returns the axis of what was spent `until` then.
    pub(crate) fn axis(self, until: &str) -> Axis {
        let (name, title, unit, nothing) = match self {
            Self::Bytes => (
                "all bytes",
                format!("sent {until}, up and down"),
                Unit::Bytes,
                "no bytes were sent",
            ),
            Self::Uploads => (
                "uploads",
                format!("uploaded {until}"),
                Unit::Bytes,
                "nothing was uploaded",
            ),
            Self::Time => (
                "virtual time",
                "virtual time".to_owned(),
                Unit::Seconds,
                "no virtual time passed",
            ),
            Self::Rounds => (
                "rounds",
                "communication round".to_owned(),
                Unit::Count,
                "no round",
            ),
        };
        Axis {
            nothing,
            ..Axis::new(name, title, unit)
        }
    }

    /// Returns the cost at the end of a round, by its row in the table of rounds.
    pub(crate) fn at(self, rounds: &Frame, row: usize) -> f64 {
        let number = |name| rounds.at(name, row).unwrap_or_default();
        match self {
            Self::Bytes => number(rounds::UP) + number(rounds::DOWN),
            Self::Uploads => number(rounds::UP),
            Self::Time => number(rounds::TIME),
            Self::Rounds => number(rounds::ROUND),
        }
    }
}

/// Returns a series with the colour, the stroke and the marker of the arm with this number, which
/// no other one of the first 32 has.
pub fn arm(number: usize) -> Series {
    let strokes = [Stroke::Thick, Stroke::Dash, Stroke::Dot, Stroke::DashDot];
    let markers = [Marker::Circle, Marker::Square, Marker::Triangle];
    let turn = number / COLORS;
    Series {
        color: number % COLORS,
        stroke: strokes[turn % strokes.len()],
        marker: markers[turn % markers.len()],
        ..Series::default()
    }
}

impl Chart {
    /// Returns the horizontal axes along which something has a cost; all if that is so of none. Of
    /// a front, those along which costs differ, since its points stand above each other elsewhere.
    pub(crate) fn axes_in_use(&self) -> Vec<usize> {
        let is_front = matches!(self.kind, Kind::Front(_));
        let differs = |axis: &usize| is_front && self.ends(*axis)[0] < self.last(*axis);
        let costs = |axis: &usize| self.last(*axis) > 0.0;
        let all = || 0..self.across.len();
        let found: [Vec<usize>; 2] = [
            all().filter(differs).collect(),
            all().filter(costs).collect(),
        ];
        let found = found.into_iter().find(|axes| !axes.is_empty());
        found.unwrap_or_else(|| all().collect())
    }

    /// Returns the places of all points along an axis.
    pub(crate) fn places(&self, axis: usize) -> impl Iterator<Item = f64> + Clone {
        self.series
            .iter()
            .flat_map(move |series| series.along(axis))
            .copied()
    }

    /// Returns the last place of a point along an axis; 0 if there is none.
    pub(crate) fn last(&self, axis: usize) -> f64 {
        self.places(axis).fold(0.0, f64::max)
    }

    /// Returns the first place that is above 0, and the last one.
    pub(crate) fn ends(&self, axis: usize) -> [f64; 2] {
        let last = self.last(axis);
        let above = self.places(axis).filter(|place| *place > 0.0);
        [above.fold(last, f64::min), last]
    }

    /// Returns whether a series is a level along an axis: an arm that costs nothing while others
    /// cost something, and what has no places at all.
    pub(crate) fn is_level(&self, series: &Series, axis: usize) -> bool {
        let costs_nothing = || series.along(axis).last() == Some(&0.0) && self.last(axis) > 0.0;
        series.x.is_empty() || (matches!(self.kind, Kind::Arms) && costs_nothing())
    }

    /// Returns the front of each class along an axis: of the series that are points, those that no
    /// other one beats, by ascending cost. A page makes its own, of the arms that it shows.
    #[cfg(any(test, feature = "plots"))]
    pub(crate) fn fronts(&self, better: Better, axis: usize) -> Vec<Vec<&Series>> {
        let points = self.series.iter();
        let points: Vec<&Series> = points
            .filter(|series| series.stroke == Stroke::Points && !series.along(axis).is_empty())
            .collect();
        let mut classes: Vec<usize> = points.iter().map(|point| point.class).collect();
        classes.sort_unstable();
        classes.dedup();
        let front = |class: usize| {
            let points = points.iter().filter(|point| point.class == class);
            let points: Vec<&Series> = points.copied().collect();
            let cost = |point: &&Series| [point.along(axis)[0], loss(better, point.y[0])];
            let costs: Vec<[f64; 2]> = points.iter().map(cost).collect();
            let places = unbeaten(&costs).into_iter();
            places.map(|place| points[place]).collect()
        };
        classes.into_iter().map(front).collect()
    }
}

impl Series {
    /// Returns the places along an axis.
    pub(crate) fn along(&self, axis: usize) -> &[f64] {
        self.x.get(axis).map_or(&[], Vec::as_slice)
    }
}

/// Returns a figure as something that is better if it is less.
pub(crate) fn loss(better: Better, figure: f64) -> f64 {
    match better {
        Better::Higher => -figure,
        Better::Lower => figure,
    }
}

/// Returns the places of what no other one beats, by ascending first cost. One beats another if it
/// costs at most as much in every respect, and less in one.
pub(crate) fn unbeaten<const N: usize>(costs: &[[f64; N]]) -> Vec<usize> {
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

    #[test]
    fn as_many_arms_as_a_study_has_look_different() {
        let look = |number| {
            let Series { color, stroke, .. } = arm(number);
            (color, stroke)
        };
        let looks: Vec<_> = (0..32).map(look).collect();
        for (place, look) in looks.iter().enumerate() {
            assert!(!looks[..place].contains(look), "{place}");
        }
    }

    /// If this fails, two points of a picture have the same colour and the same shape.
    #[test]
    fn as_many_arms_as_a_picture_has_differ_in_colour_or_shape() {
        let arms: Vec<Series> = (0..16).map(arm).collect();
        for (place, one) in arms.iter().enumerate() {
            let is_same = |other: &Series| other.color == one.color && other.marker == one.marker;
            assert!(!arms[..place].iter().any(is_same), "{place}");
        }
    }

    /// If this fails, a front can be asked for along a cost that all arms share, and all its points
    /// stand above each other.
    #[test]
    fn a_front_has_no_axis_along_which_all_cost_the_same() {
        let series = |rounds: f64, bytes: f64| Series {
            x: vec![vec![rounds], vec![bytes]],
            y: vec![bytes],
            ..Series::default()
        };
        let axes = |kind, series: [Series; 2]| {
            let chart = Chart {
                kind,
                across: vec![Axis::default(); 2],
                series: series.into(),
                ..Chart::default()
            };
            chart.axes_in_use()
        };
        let front = || Kind::Front(Better::Higher);
        let same_rounds = || [series(60.0, 1.0), series(60.0, 2.0)];
        assert_eq!(axes(front(), same_rounds()), [1]);
        assert_eq!(axes(Kind::Arms, same_rounds()), [0, 1]);
        assert_eq!(
            axes(front(), [series(60.0, 1.0), series(40.0, 2.0)]),
            [0, 1]
        );
        assert_eq!(
            axes(front(), [series(60.0, 1.0), series(60.0, 1.0)]),
            [0, 1]
        );
    }

    /// If this fails, an arm is recommended that costs more than another one and is less accurate.
    #[test]
    fn only_arms_that_no_other_beats_are_on_the_front() {
        let points = [(3.0, 0.9), (1.0, 0.5), (2.0, 0.4), (2.5, 0.9), (1.0, 0.5)];
        let of = |direction| {
            let chart = Chart {
                series: points
                    .map(|(x, y)| Series {
                        stroke: Stroke::Points,
                        x: vec![vec![x]],
                        y: vec![y],
                        ..Series::default()
                    })
                    .into(),
                ..Chart::default()
            };
            let [front] = &chart.fronts(direction, 0)[..] else {
                panic!("one class has one front")
            };
            front
                .iter()
                .map(|point| (point.x[0][0], point.y[0]))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            of(Better::Higher),
            [(1.0, 0.5), (1.0, 0.5), (2.5, 0.9)],
            "equal arms do not beat each other"
        );
        assert_eq!(of(Better::Lower), [(1.0, 0.5), (1.0, 0.5), (2.0, 0.4)]);
        assert!(Chart::default().fronts(Better::Lower, 0).is_empty());
        // What is judged otherwise is beaten by nothing of these.
        let point = |class, x| Series {
            class,
            stroke: Stroke::Points,
            x: vec![vec![x]],
            y: vec![x / 10.0],
            ..Series::default()
        };
        let chart = Chart {
            series: vec![point(1, 7.0), point(0, 3.0), point(1, 9.0)],
            ..Chart::default()
        };
        let lengths = chart
            .fronts(Better::Lower, 0)
            .iter()
            .map(Vec::len)
            .collect::<Vec<_>>();
        assert_eq!(lengths, [1, 1]);
        let costs = [
            [3.0, 1.0, 1.0],
            [1.0, 2.0, 2.0],
            [3.0, 1.0, 2.0],
            [2.0, 2.0, 1.0],
        ];
        assert_eq!(
            unbeaten(&costs),
            [1, 3, 0],
            "the third one is beaten by the first one alone"
        );
    }
}
