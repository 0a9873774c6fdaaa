//! Charts of a page: their data for the page's script, and their places.

use serde::Serialize;

use super::text::{escaped, with_code};
use crate::chart::{Axis, COLORS, Chart, Cost, Kind, Series, Stroke};
use crate::column::Unit;
use crate::document::{Board, Document};
use fedrecsim_core::metric::Better;

/// The number of the grey colour in the page's style.
const GREY: usize = 6;

/// The most points of a line of a run, and the most rounds of its table.
pub(crate) const MOST_POINTS: usize = 500;

/// The most points of a line of a single seed, which is drawn faintly.
const MOST_POINTS_OF_A_SEED: usize = 100;

/// The script's input.
#[derive(Serialize)]
pub(super) struct Data<'a> {
    arms: Vec<Arm<'a>>,
    charts: Vec<Figure<'a>>,
}

/// An arm of a study, which has the same look in all charts.
#[derive(Serialize)]
struct Arm<'a> {
    place: usize,
    name: &'a str,
    color: usize,
    dash: usize,
    is_reference: bool,
    axes: serde_json::Map<String, serde_json::Value>,
}

/// Charts that differ by their metric alone, of which one is shown.
#[derive(Serialize)]
struct Figure<'a> {
    id: &'a str,
    across: Vec<AxisData>,
    /// The place of the axis of rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    rounds: Option<usize>,
    /// Which of two values is better, if the chart has a front.
    #[serde(skip_serializing_if = "Option::is_none")]
    better: Option<&'static str>,
    bars: &'a [String],
    choices: Vec<Choice<'a>>,
}

#[derive(Serialize)]
struct Choice<'a> {
    metric: &'a str,
    up: AxisData,
    series: Vec<Curve>,
}

#[derive(Serialize)]
struct AxisData {
    name: &'static str,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    arm: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    class: usize,
    color: usize,
    stroke: Stroke,
    pub x: Vec<Vec<f32>>,
    pub y: Vec<Vec<f32>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub low: Vec<Vec<f32>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub high: Vec<Vec<f32>>,
}

/// Returns the unit of a time axis that ends at this many seconds, with its length in seconds.
fn time_unit(last_s: f64) -> (&'static str, f64) {
    match last_s {
        s if s < 240.0 => ("s", 1.0),
        s if s < 4.0 * 3600.0 => ("min", 60.0),
        s if s < 96.0 * 3600.0 => ("h", 3600.0),
        _ => ("d", 86_400.0),
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
        name: axis.name,
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

/// Returns what the script draws of a document.
pub(super) fn data(document: &Document) -> Data<'_> {
    let mut figures: Vec<Figure<'_>> = Vec::new();
    for chart in document.charts() {
        match figures.iter_mut().find(|figure| figure.id == chart.id) {
            Some(figure) => figure.choices.push(choice(chart)),
            None => figures.push(figure(chart)),
        }
    }
    let boards = document.boards();
    Data {
        arms: boards.flat_map(arms).collect(),
        charts: figures,
    }
}

fn arms(board: &Board) -> impl Iterator<Item = Arm<'_>> {
    board.rows.iter().flat_map(|row| &row.arms).map(|arm| {
        let axis = |(name, value): &(String, String)| (name.clone(), value.clone().into());
        Arm {
            place: arm.place,
            name: &arm.name,
            color: arm.place % COLORS,
            dash: arm.place / COLORS,
            is_reference: arm.is_reference,
            axes: arm.axes.iter().map(axis).collect(),
        }
    })
}

fn figure(chart: &Chart) -> Figure<'_> {
    let axes = chart.axes_in_use();
    let name = Cost::Rounds.axis("").name;
    let across = axes.iter();
    let across = across.map(|axis| axis_data(&chart.across[*axis], chart.last(*axis)).0);
    Figure {
        id: chart.id,
        rounds: axes
            .iter()
            .position(|axis| chart.across[*axis].name == name),
        across: across.collect(),
        better: match chart.kind {
            Kind::Front(Better::Higher) => Some("higher"),
            Kind::Front(Better::Lower) => Some("lower"),
            _ => None,
        },
        bars: bars(chart),
        choices: vec![choice(chart)],
    }
}

fn choice(chart: &Chart) -> Choice<'_> {
    Choice {
        metric: &chart.metric,
        up: axis_data(&chart.up, 0.0).0,
        series: curves(chart),
    }
}

/// Returns the series of a chart as they are drawn.
pub(crate) fn curves(chart: &Chart) -> Vec<Curve> {
    let axes: Vec<(usize, f64)> = chart
        .axes_in_use()
        .into_iter()
        .map(|axis| (axis, axis_data(&chart.across[axis], chart.last(axis)).1))
        .collect();
    let series = chart.series.iter();
    series.map(|series| curve(chart, series, &axes)).collect()
}

fn curve(chart: &Chart, series: &Series, axes: &[(usize, f64)]) -> Curve {
    let mut curve = Curve {
        name: series.name.clone(),
        arm: series.arm,
        seed: series.seed,
        class: series.class,
        // A level, such as popularity, is grey beside the curves.
        color: match series.x.is_empty() {
            true => GREY,
            false => series.color % COLORS,
        },
        stroke: series.stroke,
        x: Vec::new(),
        y: Vec::new(),
        low: Vec::new(),
        high: Vec::new(),
    };
    if !bars(chart).is_empty() {
        let lengths = |list: &Vec<f64>| list.iter().map(|length| *length as f32).collect();
        curve.x = series.x.iter().map(lengths).collect();
        return curve;
    }
    // The more series, the fewer points has each, so that the page does not grow with their
    // number.
    let most = match series.seed {
        Some(_) => MOST_POINTS_OF_A_SEED,
        None => MOST_POINTS,
    };
    let most = (most * 16 / chart.series.len().max(16)).max(2);
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

/// Returns a chart's place in the page.
pub(super) fn html(chart: &Chart) -> String {
    let id = chart.id;
    let title = escaped(&chart.title);
    let note = match chart.note.is_empty() {
        true => String::new(),
        false => format!("<p>{}</p>", with_code(&chart.note)),
    };
    let description = escaped(&chart.description);
    let (focus, keys) = match bars(chart).is_empty() {
        true => (
            " tabindex=\"0\"",
            " The arrow keys show the values of all lines at one place.",
        ),
        false => ("", ""),
    };
    format!(
        "<figure class=\"chart\" id=\"{id}\">\n<figcaption><h3>{title}</h3>{note}</figcaption>\n\
         <div class=\"plot\"{focus} role=\"group\" aria-label=\"{description}{keys}\"></div>\n\
         <ul class=\"legend\" aria-label=\"Series of the chart: {title}\"></ul>\n</figure>\n"
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
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
            ["s", "min", "h", "d"]
        );
    }

    /// If this fails, a chart has no text for a screen reader, or cannot be reached by keys.
    #[test]
    fn a_chart_has_a_description_and_is_reached_by_keys() {
        let across = ["round", "all bytes"]
            .map(|name| Axis::new(name, name, Unit::Number))
            .to_vec();
        let chart = Chart {
            id: "c",
            title: "<T>".to_owned(),
            note: "Protocol: `x`".to_owned(),
            description: "one \"line\".".to_owned(),
            across,
            up: Axis::new("", "y", Unit::Accuracy),
            ..Chart::default()
        };
        let html = html(&chart);
        for part in [
            "tabindex=\"0\" role=\"group\" aria-label=\"one &quot;line&quot;. The arrow keys",
            "<h3>&lt;T&gt;</h3>",
            "<p>Protocol: <code>x</code></p>",
        ] {
            assert!(html.contains(part), "no {part} in {html}");
        }
    }

    /// If this fails, the button of a metric shows another one's chart.
    #[test]
    fn charts_of_two_metrics_are_one_figure() {
        let of = |id, metric: &str| Chart {
            id,
            metric: metric.to_owned(),
            ..Chart::default()
        };
        let charts = [of("a", "HR@10"), of("b", "HR@10"), of("a", "NDCG@10")];
        let document = Document {
            blocks: charts.map(Into::into).into(),
            ..Document::default()
        };
        let data = serde_json::to_value(data(&document)).unwrap();
        let choices = |figure: usize| data["charts"][figure]["choices"].as_array().unwrap().len();
        assert_eq!((choices(0), choices(1)), (2, 1));
        assert_eq!(data["charts"][0]["choices"][1]["metric"], "NDCG@10");
    }
}
