//! Draws the arms of a study beside each other: curves with bands over seeds, and points with the front of those that
//! no other one beats.

use plotters::prelude::RGBColor;

use super::accuracy::vertical;
use super::axis::Axis;
use super::chart::{Area, Chart, Group, Mark, Series, Stroke};
use super::{render, with_room};
use crate::error::Result;
use crate::metric::{Direction, Metric};
use crate::report::courses::{Against, Band, Curve, FrontPoint, unbeaten};

/// The most arms of a picture: no more fit into its legend.
pub const MOST_ARMS: usize = 16;

/// Okabe and Ito's colours, which stay apart under every common colour blindness. Yellow, which is hard to see on white,
/// is left out.
const COLORS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

/// The grey of the front.
const FRONT: RGBColor = RGBColor(120, 120, 120);

/// What all pictures of a study have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// The first line of text.
    pub title: String,
    /// The text below it.
    pub subtitle: String,
    /// The name of the figure of accuracy.
    pub figure: String,
}

/// Returns the picture `name` of accuracy against `against`, with a band for every curve. An arm that costs nothing is a
/// dotted level.
///
/// # Errors
/// [`Error::Write`](crate::error::Error::Write) with the name, if it cannot be drawn.
pub fn curves(name: &str, picture: &Picture, against: Against, curves: &[Curve]) -> Result<String> {
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let last = all().map(|point| point.x).fold(0.0, f64::max);
    let x = against.axis(last, all().count());
    let end = x.end * x.unit;
    // An arm that costs nothing is a level that others reach or do not.
    let is_free = |curve: &Curve| last > 0.0 && curve.points.last().is_some_and(|point| point.x == 0.0);
    let series = curves.iter().zip(styles()).map(|(curve, (color, stroke))| Series {
        label: labelled(&curve.label, curve.points.last()),
        color,
        stroke: if is_free(curve) { Stroke::Dotted } else { stroke },
        points: match curve.points.last().filter(|_| is_free(curve)) {
            Some(level) => vec![(0.0, level.y), (end, level.y)],
            None => curve.points.iter().map(|point| (point.x, point.y)).collect(),
        },
    });
    let bands = curves.iter().zip(styles()).filter(|(curve, _)| has_spread(&curve.points) && !is_free(curve));
    let area = |(curve, (color, _)): (&Curve, (RGBColor, Stroke))| Area {
        color,
        points: curve.points.iter().map(|point| (point.x, point.low, point.high)).collect(),
    };
    let chart = Chart {
        title: picture.title.clone(),
        subtitle: picture.subtitle.clone(),
        x,
        y: axis_of(&picture.figure, all()),
        groups: vec![Group { heading: "arm, and its last value".to_owned(), series: series.collect() }],
        areas: bands.map(area).collect(),
        marked: None,
        remark: (last == 0.0).then(|| against.nothing().to_owned()),
    };
    render(name, &chart)
}

/// Returns the picture `name` of accuracy against cost, with a point for every arm. Arms that no other one beats are
/// marked and joined: no other one costs at most as much and is at least as accurate, and better in one of the two.
///
/// # Errors
/// [`Error::Write`](crate::error::Error::Write) with the name, if it cannot be drawn.
pub fn front(
    name: &str,
    picture: &Picture,
    against: Against,
    direction: Direction,
    points: &[FrontPoint],
) -> Result<String> {
    let last = points.iter().map(|point| point.at.x).fold(0.0, f64::max);
    let on_front = unbeaten(points, direction);
    let joined = on_front.iter().map(|&place| (points[place].at.x, points[place].at.y)).collect();
    let mut series = Vec::new();
    for (point, (color, _)) in points.iter().zip(styles()) {
        let Band { x, y, low, high } = point.at;
        let label = labelled(&point.label, Some(&point.at));
        series.push(Series { label, color, stroke: Stroke::Thick, points: vec![(x, y)] });
        if low < high {
            series.push(Series {
                label: String::new(),
                color,
                stroke: Stroke::Thin,
                points: vec![(x, low), (x, high)],
            });
        }
    }
    series.push(Series { label: "the front".to_owned(), color: FRONT, stroke: Stroke::Dotted, points: joined });
    let color_of = |place: usize| styles().nth(place).map_or(FRONT, |(color, _)| color);
    let marks =
        on_front.iter().map(|&place| Mark { at: (points[place].at.x, points[place].at.y), color: color_of(place) });
    let chart = Chart {
        title: picture.title.clone(),
        subtitle: picture.subtitle.clone(),
        x: until_selected(against, last, points.len()),
        y: axis_of(&picture.figure, points.iter().map(|point| &point.at)),
        groups: vec![Group { heading: "arm, and its value".to_owned(), series }],
        areas: Vec::new(),
        marked: Some(("on the front: no other arm is as accurate for less".to_owned(), marks.collect())),
        remark: (last == 0.0).then(|| against.nothing().to_owned()),
    };
    render(name, &chart)
}

/// Returns the axis of what was spent until the selected round.
fn until_selected(against: Against, last: f64, points: usize) -> Axis {
    match against {
        Against::Bytes => Axis::bytes("sent until the selected round, up and down", with_room(last, points)),
        Against::Uploads => Axis::bytes("uploaded until the selected round", with_room(last, points)),
        Against::Rounds | Against::VirtualTime => against.axis(last, points),
    }
}

/// Returns a colour and a stroke for each arm; dashed ones follow when the colours are used up.
fn styles() -> impl Iterator<Item = (RGBColor, Stroke)> {
    let strokes = [Stroke::Thick, Stroke::Dashed, Stroke::Dotted];
    strokes.into_iter().flat_map(|stroke| COLORS.map(|color| (color, stroke)))
}

fn has_spread(points: &[Band]) -> bool {
    points.len() > 1 && points.iter().any(|point| point.low < point.high)
}

fn labelled(name: &str, last: Option<&Band>) -> String {
    last.map_or_else(|| name.to_owned(), |point| format!("{name}: {:.3}", point.y))
}

fn axis_of<'a>(figure: &str, points: impl Iterator<Item = &'a Band>) -> Axis {
    let (mut smallest, mut largest) = (f64::INFINITY, 0.0f64);
    for point in points {
        smallest = smallest.min(point.low);
        largest = largest.max(point.high);
    }
    let metrics: Vec<Metric> = Metric::named(figure).into_iter().collect();
    vertical(&metrics, smallest, largest)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn point(x: f64, y: f64) -> FrontPoint {
        FrontPoint { label: format!("{x}"), at: Band { x, y, low: y - 0.01, high: y + 0.01 } }
    }

    #[test]
    fn as_many_arms_as_fit_have_styles_of_their_own() {
        let styles: Vec<_> = styles().take(MOST_ARMS).collect();
        assert_eq!(styles.len(), MOST_ARMS);
        for (place, style) in styles.iter().enumerate() {
            assert!(!styles[..place].contains(style), "{style:?}");
        }
    }

    /// If this fails, two arms cannot be told apart on a picture, or their spread is not on it.
    #[test]
    fn a_picture_names_every_arm_and_has_a_band_for_each_that_has_a_spread() {
        let picture = Picture { title: "t".to_owned(), subtitle: "s".to_owned(), figure: "hr@10".to_owned() };
        let curve = |label: &str, spread: f64| Curve {
            label: label.to_owned(),
            points: [1.0, 2.0].map(|x| Band { x: x * 1e6, y: 0.4, low: 0.4 - spread, high: 0.4 + spread }).into(),
        };
        let svg = curves("a.svg", &picture, Against::Bytes, &[curve("one", 0.1), curve("two", 0.0)]).unwrap();
        assert!(svg.contains("one: 0.400") && svg.contains("two: 0.400"));
        assert_eq!(svg.matches("<polygon").count(), 1);
        let free = Curve { label: "free".to_owned(), points: vec![Band { x: 0.0, y: 0.3, low: 0.3, high: 0.3 }; 2] };
        let svg = curves("a.svg", &picture, Against::Bytes, &[curve("one", 0.1), free]).unwrap();
        assert!(svg.contains("stroke-dasharray"), "an arm that costs nothing is no level");
        let points = [point(1e6, 0.5), point(2e6, 0.4)];
        let svg = front("b.svg", &picture, Against::Bytes, Direction::HigherIsBetter, &points).unwrap();
        assert!(svg.contains("sent until the selected round") && svg.contains("on the front"));
        assert!(curves("c.svg", &picture, Against::VirtualTime, &[]).unwrap().contains("no virtual time passed"));
    }
}
