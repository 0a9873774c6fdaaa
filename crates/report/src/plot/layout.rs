//! Lays out a chart on a picture: its lines along one of its axes, and its legend.

use plotters::prelude::RGBColor;

use super::axis::Axis;
use super::canvas::{LEGEND_WIDTH, color, shade};
use crate::chart::{COLORS, Chart, Kind, Marker, Series, Stroke};
use crate::column::Unit;

/// How many times the smallest cost the largest one is at most on a linear axis.
const MOST_LINEAR: f64 = 30.0;

/// The most characters of a name that stand in a legend of the usual width; arms with longer ones
/// are numbered.
const LONG_NAME: usize = 20;

/// The most characters of a name in a legend; of a longer one, the middle is left out.
const LONGEST_NAME: usize = 90;

/// The width of a legend with long names.
const WIDE_LEGEND: u32 = 540;

/// The grey of the front.
const FRONT: RGBColor = RGBColor(120, 120, 120);

/// A picture of a chart along one of its axes.
pub(super) struct Picture {
    /// The text below the title, broken where a line is too long.
    pub subtitle: String,
    pub x: Axis,
    pub y: Axis,
    /// The lines that stand together in the legend, under a heading. Of two lines of the same
    /// stroke, the earlier one is drawn above.
    pub groups: Vec<(String, Vec<Line>)>,
    /// The meaning of the rings in the picture.
    pub ringed: Option<String>,
    /// The points that have a ring, each with its colour and shape.
    pub rings: Vec<((f64, f64), RGBColor, Marker)>,
    /// The numbers of arms beside points of theirs.
    pub notes: Vec<Note>,
    pub legend_width: u32,
    /// A remark in the middle of an empty picture.
    pub remark: Option<&'static str>,
}

/// A line, or a set of points.
pub(super) struct Line {
    /// Its name in the legend, which leaves out a line without one.
    pub label: String,
    pub color: RGBColor,
    pub stroke: Stroke,
    pub marker: Marker,
    /// Its points in the units of the data.
    pub points: Vec<(f64, f64)>,
    /// The band around it as (x, lower end, upper end); empty without one.
    pub band: Vec<(f64, f64, f64)>,
}

/// A short text beside a point.
pub(super) struct Note {
    pub text: String,
    /// The point, in the units of the data.
    pub at: (f64, f64),
    pub color: RGBColor,
}

impl Picture {
    pub(super) fn of(chart: &Chart, axis: usize, subtitle: &str) -> Self {
        let x = across(chart, axis);
        let are_arms = matches!(chart.kind, Kind::Arms | Kind::Front(_));
        let lengths = chart
            .series
            .iter()
            .map(|series| series.name.chars().count());
        let is_long = are_arms && lengths.clone().any(|length| length > LONG_NAME);
        // Somebody would have to look for a long name, and could not tell many arms apart.
        let are_numbered =
            is_long || are_arms && lengths.filter(|length| *length > 0).count() > COLORS;
        let mut picture = Self {
            subtitle: subtitle.to_owned(),
            y: up(chart),
            groups: Vec::new(),
            ringed: None,
            rings: Vec::new(),
            notes: Vec::new(),
            legend_width: if is_long { WIDE_LEGEND } else { LEGEND_WIDTH },
            remark: remark(chart, axis),
            x,
        };
        for (number, series) in (1..).zip(&chart.series) {
            picture.add(chart, axis, series, are_numbered.then_some(number));
        }
        if let Kind::Front(better) = chart.kind {
            let mut fronts = chart.fronts(better, axis);
            for front in &mut fronts {
                front.retain(|series| picture.x.holds(series.along(axis)[0]));
            }
            picture.ringed = Some("on the front: no other arm is as accurate for less".to_owned());
            let is_on_front = |series: &&Series| {
                let mut on_fronts = fronts.iter().flatten();
                on_fronts.any(|other| std::ptr::eq(*other, *series))
            };
            picture.rings = chart
                .series
                .iter()
                .filter(is_on_front)
                .map(|series| {
                    let at = (series.along(axis)[0], series.y[0]);
                    (at, color(series.color), series.marker)
                })
                .collect();
            // The legend has one line for all fronts.
            for (front, label) in fronts
                .iter()
                .zip(std::iter::once("the front").chain(std::iter::repeat("")))
            {
                let points = front
                    .iter()
                    .map(|series| (series.along(axis)[0], series.y[0]));
                picture.push(
                    "",
                    Line {
                        label: label.to_owned(),
                        color: FRONT,
                        stroke: Stroke::Dot,
                        marker: Marker::Circle,
                        points: points.collect(),
                        band: Vec::new(),
                    },
                );
            }
        }
        picture
    }

    /// Adds a series; `number` if arms are numbered.
    fn add(&mut self, chart: &Chart, axis: usize, series: &Series, number: Option<usize>) {
        let places = series.along(axis);
        let holds = |place: &f64| self.x.holds(*place);
        let is_level =
            chart.is_level(series, axis) || !places.is_empty() && !places.iter().any(holds);
        let points: Vec<(f64, f64)> = match series.y.last().filter(|_| is_level) {
            Some(level) => [self.x.start, self.x.end]
                .map(|end| (end * self.x.unit, *level))
                .into(),
            None => places
                .iter()
                .zip(&series.y)
                .filter(|(place, _)| holds(place))
                .map(|(place, y)| (*place, *y))
                .collect(),
        };
        let hue = color(series.color);
        let hue = if series.is_shaded { shade(hue) } else { hue };
        if series.stroke == Stroke::Ring {
            self.rings
                .extend(points.iter().map(|at| (*at, hue, Marker::Circle)));
            if !series.name.is_empty() {
                self.ringed = Some(series.name.clone());
            }
            return;
        }
        if points.is_empty() && chart.kind == Kind::Lines {
            return;
        }
        let number = number.filter(|_| !series.name.is_empty());
        if let (Some(number), Some(at)) = (number, points.last()) {
            self.notes.push(Note {
                text: number.to_string(),
                at: *at,
                color: darker(hue),
            });
        }
        let ends = series.low.iter().zip(&series.high);
        let has_spread = !is_level && ends.clone().any(|(low, high)| low < high);
        let mut band: Vec<(f64, f64, f64)> = places
            .iter()
            .zip(ends)
            .filter(|(place, _)| has_spread && holds(place))
            .map(|(place, (low, high))| (*place, *low, *high))
            .collect();
        let is_point = series.stroke == Stroke::Points;
        // A point has a line from one end of its interval to the other.
        let interval = band
            .first()
            .filter(|_| is_point)
            .map(|(x, low, high)| Line {
                label: String::new(),
                color: hue,
                stroke: Stroke::Thin,
                marker: Marker::Circle,
                points: vec![(*x, *low), (*x, *high)],
                band: Vec::new(),
            });
        if is_point || places.len() < 2 {
            band.clear();
        }
        let is_free = is_level && !series.x.is_empty();
        let line = Line {
            label: label(series, number),
            color: hue,
            stroke: if is_free { Stroke::Dot } else { series.stroke },
            marker: series.marker,
            points,
            band,
        };
        self.push(&series.group, line);
        interval
            .into_iter()
            .for_each(|line| self.push(&series.group, line));
    }

    /// Adds a line to the group with this heading, or to the last one if that is empty.
    fn push(&mut self, heading: &str, line: Line) {
        let is_of = |(other, _): &(String, Vec<Line>)| heading.is_empty() || other == heading;
        match self.groups.iter_mut().rev().find(|group| is_of(group)) {
            Some((_, lines)) => lines.push(line),
            None => self.groups.push((heading.to_owned(), vec![line])),
        }
    }

    /// Returns the picture in words: its subtitle, its axes, and every line by its label, which has
    /// its figure.
    pub(super) fn description(&self) -> String {
        let mut parts = vec![
            self.subtitle.lines().collect::<Vec<_>>().join(". "),
            format!(
                "Line chart; horizontal: {}; vertical: {}",
                self.x.title, self.y.title
            ),
        ];
        for (heading, lines) in &self.groups {
            let labels = lines.iter().map(|line| line.label.as_str());
            let labels: Vec<&str> = labels.filter(|label| !label.is_empty()).collect();
            parts.push(format!("{heading}: {}", labels.join(", ")));
        }
        parts.extend(self.ringed.clone());
        parts.extend(
            self.remark
                .map(|remark| format!("The chart is empty: {remark}")),
        );
        parts.join(". ") + "."
    }
}

/// Returns why an axis shows nothing, or `None` if it does not.
fn remark(chart: &Chart, axis: usize) -> Option<&'static str> {
    let is_empty = chart.places(axis).next().is_none();
    let nothing = chart.across[axis].nothing;
    match is_empty && !chart.remark.is_empty() {
        true => Some(chart.remark),
        false => (chart.last(axis) == 0.0).then_some(nothing),
    }
}

/// Returns the horizontal axis. A single point stands in the middle, not on the edge; costs of
/// arms that are far apart have a logarithmic axis.
fn across(chart: &Chart, axis: usize) -> Axis {
    let [first, last] = chart.ends(axis);
    let are_arms = chart.kind != Kind::Lines;
    let lengths = chart.series.iter().map(|series| series.along(axis).len());
    let points = match are_arms {
        true => lengths.sum(),
        false => lengths.max().unwrap_or(0),
    };
    let end = if points == 1 { 2.0 * last } else { last };
    let is_wide = are_arms && last > MOST_LINEAR * first;
    let title = &chart.across[axis].title;
    match chart.across[axis].unit {
        Unit::Bytes if is_wide => Axis::logarithmic_bytes(title, [first, last]),
        Unit::Bytes => Axis::bytes(title, end),
        Unit::Seconds if is_wide => Axis::logarithmic_seconds(title, [first, last]),
        Unit::Seconds => Axis::seconds(title, end),
        _ => Axis::count(title, end),
    }
}

/// Returns the vertical axis. That of a front begins near the points where it would be mostly empty
/// below them.
fn up(chart: &Chart) -> Axis {
    let title = &chart.up.title;
    let lines = chart
        .series
        .iter()
        .filter(|series| series.stroke != Stroke::Ring);
    let (mut smallest, mut largest) = (f64::INFINITY, 0.0f64);
    for value in lines.flat_map(|series| series.y.iter().chain(&series.low).chain(&series.high)) {
        smallest = smallest.min(*value);
        largest = largest.max(*value);
    }
    let is_front = matches!(chart.kind, Kind::Front(_)) && chart.series.len() > 1;
    match chart.up.unit {
        Unit::Share => Axis::share(title, 1.0),
        _ if chart.up.is_near => Axis::errors(title, smallest, largest),
        _ if is_front && smallest >= 0.5 * largest => {
            Axis::errors(&format!("{title}, not from 0"), smallest, largest)
        }
        _ => Axis::share(title, largest),
    }
}

/// Returns the name of a series in the legend.
fn label(series: &Series, number: Option<usize>) -> String {
    if series.name.is_empty() {
        return String::new();
    }
    // The heading above it says the rest.
    let own = series.name.strip_prefix(&series.group);
    let own = own.and_then(|own| own.strip_prefix(", ").or(own.strip_prefix(' ')));
    let mut label = shortened(own.unwrap_or(&series.name));
    if !series.figure.is_empty() {
        label = format!("{label}: {}", series.figure);
    }
    number.map_or(label.clone(), |number| format!("{number}: {label}"))
}

/// Returns a name without its middle if it is very long, as those of reports that differ in many
/// keys are. The number beside it tells it from others.
fn shortened(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= LONGEST_NAME {
        return name.to_owned();
    }
    let half = LONGEST_NAME / 2 - 3;
    let first: String = letters[..half].iter().collect();
    let last: String = letters[letters.len() - half..].iter().collect();
    format!("{} ... {}", first.trim_end(), last.trim_start())
}

/// Returns a shade of a colour that makes a text readable on white.
fn darker(RGBColor(red, green, blue): RGBColor) -> RGBColor {
    // Two thirds of a part fit where the part did.
    let [red, green, blue] = [red, green, blue].map(|part| (u32::from(part) * 2 / 3) as u8);
    RGBColor(red, green, blue)
}
