//! Charts of a page: their data for the page's script, and the buttons around them.

use std::fmt::Write as _;

use serde::Serialize;

use super::text::{escaped, with_code};
use crate::chart::{Axis, COLORS, Chart, Kind, Series, Stroke};
use crate::column::Unit;

/// The outlines of points in a legend, in the order of the shapes in the page's script.
const SHAPES: [&str; 6] = [
    "M7 7a5 5 0 1 0 10 0a5 5 0 1 0-10 0z",
    "M7.5 2.5h9v9h-9z",
    "M12 1l6 6-6 6-6-6z",
    "M12 2l6 10H6z",
    "M10 2h4v3h3v4h-3v3h-4V9H7V5h3z",
    "M12 12L6 2h12z",
];

/// The most points of a line of a run, and the most rounds of its table.
pub(crate) const MOST_POINTS: usize = 500;

/// The colour of the front.
const FRONT: usize = 6;

/// The script's input.
#[derive(Serialize)]
pub(super) struct Data<'a> {
    id: &'a str,
    across: Vec<AxisData>,
    up: AxisData,
    bars: &'a [String],
    series: Vec<Curve>,
}

#[derive(Serialize)]
struct AxisData {
    title: String,
    unit: Unit,
    from_zero: bool,
}

/// A series as it is drawn: lists of places, one for each axis. Vertical places that are the same
/// for all axes are a single list. Seven digits are more than a screen can show, and half as long;
/// the tables of the page have all digits.
#[derive(Serialize)]
pub(crate) struct Curve {
    pub name: String,
    color: usize,
    stroke: Stroke,
    pub x: Vec<Vec<f32>>,
    pub y: Vec<Vec<f32>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub low: Vec<Vec<f32>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub high: Vec<Vec<f32>>,
}

/// Returns the dashes of a line in the legend.
fn dashes(stroke: Stroke) -> &'static str {
    match stroke {
        Stroke::DotSteps | Stroke::Dot => "2 3",
        Stroke::Dash => "7 4",
        Stroke::DashDot => "7 3 2 3",
        _ => "none",
    }
}

/// Returns the unit of a time axis that ends at this many seconds, with its length in seconds.
fn time_unit(last_s: f64) -> (&'static str, f64) {
    match last_s {
        s if s < 240.0 => ("s", 1.0),
        s if s < 4.0 * 3600.0 => ("min", 60.0),
        s if s < 96.0 * 3600.0 => ("h", 3600.0),
        _ => ("days", 86_400.0),
    }
}

/// Returns an axis whose last place is `last`, and the length of its unit in that of the data.
fn axis_data(axis: &Axis, last: f64) -> (AxisData, f64) {
    let mut title = axis.title.clone();
    let (unit, length) = match axis.unit {
        Unit::Seconds => {
            let (name, length) = time_unit(last);
            title += &format!(" [{name}]");
            (Unit::Number, length)
        }
        unit @ (Unit::Accuracy | Unit::Share | Unit::Bytes | Unit::BytesPerSecond) => (unit, 1.0),
        _ => (Unit::Number, 1.0),
    };
    let data = AxisData {
        title,
        unit,
        from_zero: !axis.is_near,
    };
    (data, length)
}

/// Returns the places, among `count`, of the points that are drawn: all, or about `most` at equal
/// distances with the last and the one at `kept`.
pub(crate) fn drawn(count: usize, most: usize, kept: Option<usize>) -> Vec<usize> {
    let distance = count.div_ceil(most.max(1)).max(1);
    (0..count)
        .filter(|place| place % distance == 0 || place + 1 == count || Some(*place) == kept)
        .collect()
}

/// Returns the names of a chart's bars; empty if the chart has lines.
fn bars(chart: &Chart) -> &[String] {
    match &chart.kind {
        Kind::Bars(names) => names,
        _ => &[],
    }
}

/// Returns what the script draws of a chart.
pub(super) fn data(chart: &Chart) -> Data<'_> {
    let axes = chart.axes_in_use().into_iter();
    let across = axes.map(|axis| axis_data(&chart.across[axis], chart.last(axis)).0);
    Data {
        id: chart.id,
        across: across.collect(),
        up: axis_data(&chart.up, 0.0).0,
        bars: bars(chart),
        series: curves(chart),
    }
}

/// Returns the series of a chart as they are drawn, and its front if it has one.
pub(crate) fn curves(chart: &Chart) -> Vec<Curve> {
    let axes: Vec<(usize, f64)> = chart
        .axes_in_use()
        .into_iter()
        .map(|axis| (axis, axis_data(&chart.across[axis], chart.last(axis)).1))
        .collect();
    let mut curves: Vec<Curve> = chart
        .series
        .iter()
        .map(|series| curve(chart, series, &axes))
        .collect();
    if let Kind::Front(better) = chart.kind {
        let mut front = empty("the front", FRONT, Stroke::Dot);
        for (axis, unit) in axes {
            let on_front = chart.front(better, axis).into_iter();
            let (x, y) = on_front
                .map(|point| ((point.along(axis)[0] / unit) as f32, point.y[0] as f32))
                .unzip();
            front.x.push(x);
            front.y.push(y);
        }
        curves.push(front);
    }
    curves
}

fn empty(name: &str, color: usize, stroke: Stroke) -> Curve {
    Curve {
        name: name.to_owned(),
        color: color % COLORS,
        stroke,
        x: Vec::new(),
        y: Vec::new(),
        low: Vec::new(),
        high: Vec::new(),
    }
}

fn curve(chart: &Chart, series: &Series, axes: &[(usize, f64)]) -> Curve {
    let mut curve = empty(&series.name, series.color, series.stroke);
    if !bars(chart).is_empty() {
        let lengths = |list: &Vec<f64>| list.iter().map(|length| *length as f32).collect();
        curve.x = series.x.iter().map(lengths).collect();
        return curve;
    }
    // The more series, the fewer points has each, so that the page does not grow with their
    // number.
    let most = (MOST_POINTS * 16 / chart.series.len().max(16)).max(2);
    let ringed = chart
        .series
        .iter()
        .find(|other| other.stroke == Stroke::Ring);
    let ringed = ringed.and_then(|ring| Some((ring.x.first()?.first()?, series.x.first()?)));
    let kept = ringed.and_then(|(at, places)| places.iter().position(|place| place == at));
    let shown = drawn(series.y.len(), most, kept);
    for &(axis, unit) in axes {
        let is_level = chart.is_level(series, axis);
        let x: Vec<f64> = match is_level {
            true if chart.places(axis).next().is_none() => Vec::new(),
            // A level goes from the first to the last cost of the others.
            true => chart.ends(axis).into(),
            false => shown
                .iter()
                .map(|place| series.along(axis)[*place])
                .collect(),
        };
        let along = |values: &[f64]| -> Vec<f32> {
            let value = |place: usize| match is_level {
                true => values.last().copied(),
                false => values.get(shown[place]).copied(),
            };
            (0..x.len())
                .filter_map(value)
                .map(|value| value as f32)
                .collect()
        };
        curve.y.push(along(&series.y));
        curve.low.push(along(&series.low));
        curve.high.push(along(&series.high));
        curve.x.push(x.iter().map(|x| (x / unit) as f32).collect());
    }
    // A single seed has no interval.
    if series.low == series.high {
        curve.low.clear();
        curve.high.clear();
    }
    // Most series have the same heights along all axes.
    for list in [&mut curve.y, &mut curve.low, &mut curve.high] {
        if list.windows(2).all(|pair| pair[0] == pair[1]) {
            list.truncate(1);
        }
    }
    curve
}

/// Returns a chart's place in the page, with its buttons.
pub(super) fn html(chart: &Chart) -> String {
    let id = chart.id;
    let title = escaped(&chart.title);
    let note = match chart.note.is_empty() {
        true => String::new(),
        false => format!("<p>{}</p>", with_code(&chart.note)),
    };
    let mut html = format!(
        "<figure class=\"chart\" id=\"{id}\">\n<figcaption><h3>{title}</h3>{note}</figcaption>\n\
         <div class=\"buttons\" role=\"group\" aria-label=\"Axes of the chart: {title}\">"
    );
    let axes = chart.axes_in_use();
    if axes.len() > 1 {
        html.push_str("<span>against</span>");
        for (place, axis) in axes.into_iter().enumerate() {
            let name = escaped(chart.across[axis].name);
            let _ = write!(
                html,
                "<button data-x=\"{place}\" aria-pressed=\"{}\">{name}</button>",
                place == 0
            );
        }
    }
    let has_bars = !bars(chart).is_empty();
    let toggles: &[(&str, &str)] = match has_bars {
        false => &[("log-x", "log horizontal"), ("log-y", "log vertical")],
        true => &[("share", "shares")],
    };
    for (what, name) in toggles {
        let _ = write!(
            html,
            "<button data-toggle=\"{what}\" aria-pressed=\"false\">{name}</button>"
        );
    }
    let description = escaped(&chart.description);
    let _ = write!(
        html,
        "</div>\n<div class=\"plot\" role=\"img\" aria-label=\"{description}\"></div>\n\
         <ul class=\"legend\" aria-label=\"Series of the chart: {title}\">"
    );
    let strokes = chart.series.iter().map(|series| series.stroke);
    // The front comes after the others.
    let strokes = strokes.chain(std::iter::repeat(Stroke::Dot));
    for (place, (curve, stroke)) in curves(chart).iter().zip(strokes).enumerate() {
        if !curve.name.is_empty() {
            let _ = write!(
                html,
                "<li><button data-series=\"{place}\" aria-pressed=\"true\">{}{}</button></li>",
                swatch(has_bars, stroke, curve.color, place),
                escaped(&curve.name)
            );
        }
    }
    html + "</ul>\n</figure>\n"
}

/// Returns the picture beside a name in the legend.
fn swatch(is_bar: bool, of: Stroke, color: usize, place: usize) -> String {
    let shape = match of {
        _ if is_bar => {
            "<rect x=\"6\" y=\"1\" width=\"12\" height=\"12\" class=\"filled\"/>".to_owned()
        }
        Stroke::Points => format!(
            "<path d=\"{}\" class=\"filled\"/>",
            SHAPES[place % SHAPES.len()]
        ),
        Stroke::Ring => "<circle cx=\"12\" cy=\"7\" r=\"5\" fill=\"none\"/>".to_owned(),
        of => {
            let is_thin = matches!(of, Stroke::Thin | Stroke::DotSteps);
            let (width, dashes) = (if is_thin { 1.5 } else { 3.0 }, dashes(of));
            format!("<path d=\"M1 7h22\" stroke-width=\"{width}\" stroke-dasharray=\"{dashes}\"/>")
        }
    };
    format!(
        "<svg width=\"24\" height=\"14\" aria-hidden=\"true\" style=\"--c:var(--c{color})\">{shape}</svg>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_keeps_its_end_and_the_selected_point() {
        assert_eq!(drawn(3, 500, None), [0, 1, 2]);
        let places = drawn(2500, 1000, Some(1));
        assert!(places.len() <= 1002, "{}", places.len());
        assert_eq!((&places[..3], places.last()), (&[0, 1, 3][..], Some(&2499)));
        assert_eq!(drawn(0, 500, None), [0; 0]);
        let points: Vec<f64> = (1..=2500).map(f64::from).collect();
        let ring = Series {
            stroke: Stroke::Ring,
            x: vec![vec![7.0]],
            y: vec![7.0],
            ..Series::default()
        };
        let line = Series {
            x: vec![points.clone()],
            y: points,
            ..Series::default()
        };
        let chart = Chart {
            across: vec![Axis::default()],
            series: vec![line, ring],
            ..Chart::default()
        };
        let curve = &curves(&chart)[0];
        assert!(curve.y[0].len() <= MOST_POINTS + 2 && curve.y[0].contains(&7.0));
    }

    #[test]
    fn a_time_axis_has_numbers_that_can_be_read() {
        assert_eq!(
            [1.0, 1e3, 1e5, 1e7].map(|last| time_unit(last).0),
            ["s", "min", "h", "days"]
        );
    }

    /// If this fails, a chart has no text for a screen reader, or a series that no key can hide.
    #[test]
    fn a_chart_has_a_description_and_a_button_for_every_series_and_axis() {
        let across = ["round", "all bytes"]
            .map(|name| Axis::new(name, name, Unit::Number))
            .to_vec();
        let series = Series {
            name: "<a>".to_owned(),
            ..Series::default()
        };
        let chart = Chart {
            id: "c",
            title: "T".to_owned(),
            note: "Protocol: `x`".to_owned(),
            description: "one \"line\"".to_owned(),
            across,
            up: Axis::new("", "y", Unit::Accuracy),
            series: vec![series],
            ..Chart::default()
        };
        let html = html(&chart);
        for part in [
            "role=\"img\" aria-label=\"one &quot;line&quot;\"",
            "<button data-x=\"0\" aria-pressed=\"true\">round</button>",
            "<button data-toggle=\"log-y\" aria-pressed=\"false\">log vertical</button>",
            "<button data-series=\"0\" aria-pressed=\"true\"><svg",
            "&lt;a&gt;</button>",
            "<p>Protocol: <code>x</code></p>",
        ] {
            assert!(html.contains(part), "no {part} in {html}");
        }
    }
}
