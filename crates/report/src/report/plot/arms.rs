//! Draws the arms of a study beside each other: curves with bands over seeds, and points with the
//! front of those that no other one beats.

use plotters::prelude::RGBColor;

use super::accuracy::vertical;
use super::axis::Axis;
use super::chart::{Area, Chart, Group, LEGEND_WIDTH, Mark, Marker, Note, Series, Stroke};
use super::{render, rounds_axis, with_room};
use crate::report::courses::{Against, Band, Curve, FrontPoint, unbeaten};
use fedrecsim_core::error::Result;
use fedrecsim_core::metric::{Better, Metric};

/// The most arms of a picture: of more, nobody can tell one from the other.
pub(crate) const MOST_ARMS: usize = 16;

/// How many times the smallest cost the largest one is at most on a linear axis.
const MOST_LINEAR: f64 = 30.0;

/// The most characters of a name that stand in a legend of the usual width; arms with longer ones
/// are numbered.
const LONG_NAME: usize = 20;

/// The most characters of a name in a legend; of a longer one, the middle is left out.
const LONGEST_NAME: usize = 90;

/// The width of a legend with long names.
const WIDE_LEGEND: u32 = 540;

/// Okabe and Ito's colours, which stay apart under every common colour blindness. Yellow, which is
/// hard to see on white, is left out.
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
pub(crate) struct Picture {
    /// The first line of text.
    pub title: String,
    /// The text below it.
    pub subtitle: String,
    /// The name of the figure of accuracy.
    pub figure: String,
    /// What the names of the arms are values of, such as `codec`; `arm` if they have several parts.
    pub arms: String,
}

/// How an arm is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Style {
    pub(super) color: RGBColor,
    pub(super) stroke: Stroke,
    marker: Marker,
}

/// Returns the picture `name` of accuracy against `against`, with a band for every curve. An arm
/// that costs nothing is a dotted level. A curve may have a published course, which is drawn dotted
/// in its colour.
///
/// # Errors
/// [`Error::Write`](fedrecsim_core::error::Error::Write) with the name, if it cannot be drawn.
pub(crate) fn curves(
    name: &str,
    picture: &Picture,
    against: Against,
    (curves, published): (&[Curve], &[Option<Curve>]),
) -> Result<String> {
    let all = || {
        curves
            .iter()
            .chain(published.iter().flatten())
            .flat_map(|curve| &curve.points)
    };
    let costs: Vec<f64> = all().map(|point| point.x).collect();
    let last = costs.iter().copied().fold(0.0, f64::max);
    let x = horizontal(against, "so far", &costs);
    // An arm that costs nothing is a level that others reach or do not.
    let is_free =
        |curve: &Curve| last > 0.0 && curve.points.last().is_some_and(|point| point.x == 0.0);
    let names = Labels::of(curves.iter().map(|curve| curve.label.as_str()));
    let (mut series, mut areas, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for ((number, curve), style) in (1..).zip(curves).zip(styles()) {
        let end = curve.points.last();
        let on_axis = || curve.points.iter().filter(|point| x.holds(point.x));
        let points = match end.filter(|_| is_free(curve)) {
            Some(level) => level_at(&x, level.y),
            None => on_axis().map(|point| (point.x, point.y)).collect(),
        };
        if let Some(&at) = points.last() {
            notes.extend(names.note(number, at, style.color));
        }
        let stroke = if is_free(curve) {
            Stroke::Dotted
        } else {
            style.stroke
        };
        series.push(Series {
            label: names.label(number, &curve.label, end),
            color: style.color,
            stroke,
            points,
        });
        if has_spread(&curve.points) && !is_free(curve) {
            let points = on_axis()
                .map(|point| (point.x, point.low, point.high))
                .collect();
            areas.push(Area {
                color: style.color,
                points,
            });
        }
    }
    for (published, style) in published.iter().zip(styles()) {
        let Some(published) = published else { continue };
        let points = published
            .points
            .iter()
            .map(|point| (point.x, point.y))
            .collect();
        series.push(Series {
            label: String::new(),
            color: style.color,
            stroke: Stroke::Dotted,
            points,
        });
    }
    let mut subtitle = picture.subtitle.clone();
    if published.iter().any(Option::is_some) {
        subtitle.push_str("\nDotted: published courses");
    }
    let chart = Chart {
        title: picture.title.clone(),
        subtitle,
        x,
        y: axis_of(&picture.figure, all()),
        groups: vec![Group {
            heading: format!("{}, and its last value", picture.arms),
            series,
        }],
        areas,
        marked: None,
        notes,
        legend_width: names.legend_width,
        remark: (last == 0.0).then(|| against.nothing().to_owned()),
    };
    render(name, &chart)
}

/// Returns the picture `name` of accuracy against cost, with a point for every arm. Arms that no
/// other one beats are marked and joined: no other one costs at most as much and is at least as
/// accurate, and better in one of the two. On a logarithmic axis, an arm that costs nothing is a
/// dotted level.
///
/// # Errors
/// [`Error::Write`](fedrecsim_core::error::Error::Write) with the name, if it cannot be drawn.
pub(crate) fn front(
    name: &str,
    picture: &Picture,
    against: Against,
    direction: Better,
    points: &[FrontPoint],
) -> Result<String> {
    let costs: Vec<f64> = points.iter().map(|point| point.at.x).collect();
    let last = costs.iter().copied().fold(0.0, f64::max);
    let x = horizontal(against, "until the selected round", &costs);
    let mut on_front = unbeaten(points, direction);
    on_front.retain(|place| x.holds(points[*place].at.x));
    let joined = on_front
        .iter()
        .map(|&place| (points[place].at.x, points[place].at.y))
        .collect();
    let names = Labels::of(points.iter().map(|point| point.label.as_str()));
    let (mut series, mut marks, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for ((place, point), Style { color, marker, .. }) in points.iter().enumerate().zip(styles()) {
        let Band {
            x: cost,
            y,
            low,
            high,
        } = point.at;
        let label = names.label(place + 1, &point.label, Some(&point.at));
        if !x.holds(cost) {
            let points = level_at(&x, y);
            notes.extend(
                points
                    .last()
                    .and_then(|end| names.note(place + 1, *end, color)),
            );
            series.push(Series {
                label,
                color,
                stroke: Stroke::Dotted,
                points,
            });
            continue;
        }
        notes.extend(names.note(place + 1, (cost, y), color));
        series.push(Series {
            label,
            color,
            stroke: Stroke::Points(marker),
            points: vec![(cost, y)],
        });
        if low < high {
            let points = vec![(cost, low), (cost, high)];
            series.push(Series {
                label: String::new(),
                color,
                stroke: Stroke::Thin,
                points,
            });
        }
        if on_front.contains(&place) {
            marks.push(Mark {
                at: (cost, y),
                color,
                marker,
            });
        }
    }
    series.push(Series {
        label: "the front".to_owned(),
        color: FRONT,
        stroke: Stroke::Dotted,
        points: joined,
    });
    let chart = Chart {
        title: picture.title.clone(),
        subtitle: picture.subtitle.clone(),
        x,
        y: near_points(
            axis_of(&picture.figure, points.iter().map(|point| &point.at)),
            points,
        ),
        groups: vec![Group {
            heading: format!("{}, and its value", picture.arms),
            series,
        }],
        areas: Vec::new(),
        marked: Some((
            "on the front: no other arm is as accurate for less".to_owned(),
            marks,
        )),
        notes,
        legend_width: names.legend_width,
        remark: (last == 0.0).then(|| against.nothing().to_owned()),
    };
    render(name, &chart)
}

/// Returns the axis of what was spent `until` then: a logarithmic one if some cost is many times
/// another one.
fn horizontal(against: Against, until: &str, costs: &[f64]) -> Axis {
    let last = costs.iter().copied().fold(0.0, f64::max);
    let first = costs
        .iter()
        .copied()
        .filter(|cost| *cost > 0.0)
        .fold(last, f64::min);
    let is_wide = last > MOST_LINEAR * first;
    let bytes = |title: String| match is_wide {
        true => Axis::logarithmic_bytes(&title, [first, last]),
        false => Axis::bytes(&title, with_room(last, costs.len())),
    };
    match against {
        Against::Rounds => rounds_axis(last, costs.len()),
        Against::Bytes => bytes(format!("sent {until}, up and down")),
        Against::Uploads => bytes(format!("uploaded {until}")),
        Against::VirtualTime if is_wide => Axis::logarithmic_seconds([first, last]),
        Against::VirtualTime => Axis::virtual_seconds(with_room(last, costs.len())),
    }
}

/// Returns the ends of a level along the whole axis.
fn level_at(x: &Axis, y: f64) -> Vec<(f64, f64)> {
    [x.start, x.end].map(|end| (end * x.unit, y)).into()
}

/// Returns the axis of accuracies, which begins near the points where it would be mostly empty
/// below them.
fn near_points(axis: Axis, points: &[FrontPoint]) -> Axis {
    let smallest = points
        .iter()
        .map(|point| point.at.low)
        .fold(f64::INFINITY, f64::min);
    let largest = points.iter().map(|point| point.at.high).fold(0.0, f64::max);
    if points.len() < 2 || axis.start > 0.0 || smallest < 0.5 * largest {
        return axis;
    }
    Axis::errors(&format!("{}, not from 0", axis.title), smallest, largest)
}

/// Returns a shade of a colour in which a text can be read on white.
fn darker(RGBColor(red, green, blue): RGBColor) -> RGBColor {
    // Two thirds of a part fit where the part did.
    let [red, green, blue] = [red, green, blue].map(|part| (u32::from(part) * 2 / 3) as u8);
    RGBColor(red, green, blue)
}

/// What stands in the legend for the arms.
struct Labels {
    are_numbered: bool,
    legend_width: u32,
}

impl Labels {
    /// Arms are numbered if there are more than colours, or if somebody would have to look for a
    /// long name.
    fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let lengths: Vec<usize> = names.map(|name| name.chars().count()).collect();
        let is_long = lengths.iter().any(|length| *length > LONG_NAME);
        let legend_width = if is_long { WIDE_LEGEND } else { LEGEND_WIDTH };
        Self {
            are_numbered: is_long || lengths.len() > COLORS.len(),
            legend_width,
        }
    }

    fn label(&self, number: usize, name: &str, last: Option<&Band>) -> String {
        let name = shortened(name);
        let label = last.map_or_else(|| name.clone(), |point| format!("{name}: {:.3}", point.y));
        if self.are_numbered {
            format!("{number}: {label}")
        } else {
            label
        }
    }

    /// Returns the number of an arm, to stand beside a point of it.
    fn note(&self, number: usize, at: (f64, f64), color: RGBColor) -> Option<Note> {
        self.are_numbered.then(|| Note {
            text: number.to_string(),
            at,
            color: darker(color),
        })
    }
}

/// Returns a name without its middle if it is very long, as those of reports that differ in many
/// keys are. The number beside it tells it from others.
fn shortened(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= LONGEST_NAME {
        return name.to_owned();
    }
    let half = LONGEST_NAME / 2 - 3;
    let (first, last) = (
        letters[..half].iter(),
        letters[letters.len() - half..].iter(),
    );
    format!(
        "{} ... {}",
        first.collect::<String>().trim_end(),
        last.collect::<String>().trim_start()
    )
}

/// Returns a style for each arm: when the colours are used up, other dashes and other shapes
/// follow.
pub(super) fn styles() -> impl Iterator<Item = Style> {
    let kinds = [
        (Stroke::Thick, Marker::Circle),
        (Stroke::Dashed, Marker::Square),
        (Stroke::Dotted, Marker::Triangle),
    ];
    kinds.into_iter().flat_map(|(stroke, marker)| {
        COLORS.map(|color| Style {
            color,
            stroke,
            marker,
        })
    })
}

fn has_spread(points: &[Band]) -> bool {
    points.len() > 1 && points.iter().any(|point| point.low < point.high)
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

    #[test]
    fn as_many_arms_as_fit_have_styles_of_their_own() {
        let styles: Vec<_> = styles().take(MOST_ARMS).collect();
        assert_eq!(styles.len(), MOST_ARMS);
        for (place, style) in styles.iter().enumerate() {
            let is_same = |other: &&Style| other.color == style.color;
            assert!(!styles[..place].contains(style), "{style:?}");
            assert!(
                styles[..place]
                    .iter()
                    .filter(is_same)
                    .all(|other| other.marker != style.marker),
                "{style:?}"
            );
        }
    }

    fn picture() -> Picture {
        let [title, subtitle, figure, arms] = ["t", "s", "hr@10", "codec"].map(str::to_owned);
        Picture {
            title,
            subtitle,
            figure,
            arms,
        }
    }

    /// If this fails, arms that cost a hundredth of another one are drawn as one line at the edge
    /// of the picture, or an arm that costs nothing has a place on an axis without a zero.
    #[test]
    fn costs_of_other_magnitudes_have_a_logarithmic_axis() {
        let points = [point(2e6, 0.5), point(1e9, 0.52), point(0.0, 0.3)];
        let drawn = |against| front("a.svg", &picture(), against, Better::Higher, &points).unwrap();
        let svg = drawn(Against::Bytes);
        for text in [
            "sent until the selected round, up and down, logarithmic",
            "10 MB",
            "1 GB",
            "codec, and its value",
        ] {
            assert!(svg.contains(text), "no {text:?} in {svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(drawn(Against::VirtualTime).contains("days], logarithmic"));
        let svg = front(
            "a.svg",
            &picture(),
            Against::Bytes,
            Better::Higher,
            &points[..1],
        )
        .unwrap();
        assert!(!svg.contains("logarithmic"));
        let curve = Curve {
            label: "one".to_owned(),
            points: points.iter().rev().map(|point| point.at).collect(),
        };
        let svg = curves("a.svg", &picture(), Against::Uploads, (&[curve], &[])).unwrap();
        assert!(
            svg.contains("uploaded so far, logarithmic") && !svg.contains("NaN"),
            "{svg}"
        );
    }

    /// If this fails, somebody has to guess which of many points is which arm, or a long legend is
    /// cut off.
    #[test]
    fn many_arms_and_long_names_are_numbered_and_have_room() {
        let named = |label: String, y| FrontPoint {
            label,
            ..point(1e6, y)
        };
        let points: Vec<FrontPoint> = (1..=MOST_ARMS)
            .map(|number| {
                named(
                    format!("codec={number}, {}", "a long value ".repeat(5)),
                    0.5 + 0.01 * number as f64,
                )
            })
            .collect();
        let svg = front("a.svg", &picture(), Against::Bytes, Better::Higher, &points).unwrap();
        assert!(
            svg.contains("16: codec=16, a long value") && svg.contains("\n16\n"),
            "{svg}"
        );
        let height: f64 = svg
            .split("height=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        let lowest = svg
            .split(" y=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().parse::<f64>().unwrap());
        assert!(
            height > 800.0 && lowest.fold(0.0, f64::max) < height,
            "the legend does not fit"
        );
        assert!(svg.contains(", not from 0"));
        let longest = [
            named(format!("a={},b=1", "x".repeat(500)), 0.5),
            named("c".to_owned(), 0.4),
        ];
        let svg = front(
            "a.svg",
            &picture(),
            Against::Bytes,
            Better::Higher,
            &longest,
        )
        .unwrap();
        assert!(
            svg.contains("height=\"800\"")
                && svg.contains("x ... x")
                && svg.contains("x,b=1: 0.500"),
            "{svg}"
        );
        let few = [named("a".to_owned(), 0.5), named("b".to_owned(), 0.1)];
        let svg = front("a.svg", &picture(), Against::Bytes, Better::Higher, &few).unwrap();
        assert!(
            svg.contains("\na: 0.500\n") && !svg.contains(", not from 0"),
            "{svg}"
        );
    }

    /// If this fails, two arms cannot be told apart on a picture, or their spread is not on it.
    #[test]
    fn a_picture_names_every_arm_and_has_a_band_for_each_that_has_a_spread() {
        let picture = Picture {
            title: "t".to_owned(),
            subtitle: "s".to_owned(),
            figure: "hr@10".to_owned(),
            arms: "arm".to_owned(),
        };
        let curve = |label: &str, spread: f64| Curve {
            label: label.to_owned(),
            points: [1.0, 2.0]
                .map(|x| Band {
                    x: x * 1e6,
                    y: 0.4,
                    low: 0.4 - spread,
                    high: 0.4 + spread,
                })
                .into(),
        };
        let svg = curves(
            "a.svg",
            &picture,
            Against::Bytes,
            (&[curve("one", 0.1), curve("two", 0.0)], &[]),
        )
        .unwrap();
        assert!(svg.contains("one: 0.400") && svg.contains("two: 0.400"));
        assert_eq!(svg.matches("<polygon").count(), 1);
        let free = Curve {
            label: "free".to_owned(),
            points: vec![
                Band {
                    x: 0.0,
                    y: 0.3,
                    low: 0.3,
                    high: 0.3
                };
                2
            ],
        };
        let svg = curves(
            "a.svg",
            &picture,
            Against::Bytes,
            (&[curve("one", 0.1), free], &[]),
        )
        .unwrap();
        assert!(
            svg.contains("stroke-dasharray"),
            "an arm that costs nothing is no level"
        );
        let points = [point(1e6, 0.5), point(2e6, 0.4)];
        let svg = front("b.svg", &picture, Against::Bytes, Better::Higher, &points).unwrap();
        assert!(svg.contains("sent until the selected round") && svg.contains("on the front"));
        assert!(
            curves("c.svg", &picture, Against::VirtualTime, (&[], &[]))
                .unwrap()
                .contains("no virtual time passed")
        );
    }
}
