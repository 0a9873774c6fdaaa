//! Draws accuracy against what it cost: rounds, bytes, virtual time.

use plotters::prelude::RGBColor;

use super::axis::Axis;
use super::chart::{Chart, Group, LEGEND_WIDTH, Mark, Marker, Series, Stroke, shade};
use super::{rounds_axis, title, with_overrides, with_room};
use crate::report::cost;
use crate::report::courses::Against;
use crate::report::figures;
use crate::report::record::{Accuracy, RunRecord, SplitAccuracy};
use fedrecsim_core::metric::{Metric, Needs};
use fedrecsim_scenario::scenario::Selection;

impl Against {
    pub(super) fn axis(self, last: f64, points: usize) -> Axis {
        match self {
            Self::Rounds => rounds_axis(last, points),
            Self::Bytes => Axis::bytes("sent so far, up and down", with_room(last, points)),
            Self::Uploads => Axis::bytes("uploaded so far", with_room(last, points)),
            Self::VirtualTime => Axis::virtual_seconds(with_room(last, points)),
        }
    }

    pub(super) fn nothing(self) -> &'static str {
        match self {
            Self::Rounds => "no round",
            Self::Bytes => "no bytes were sent",
            Self::Uploads => "nothing was uploaded",
            Self::VirtualTime => "no virtual time passed",
        }
    }
}

/// Okabe and Ito's blue and vermilion, which stay apart under every common colour blindness, each
/// with a lighter shade for validation.
const COLORS: [(RGBColor, RGBColor); 2] = [
    (RGBColor(0, 114, 178), RGBColor(86, 180, 233)),
    (RGBColor(213, 94, 0), RGBColor(230, 159, 0)),
];

/// The figures of one evaluated round and what it had cost.
struct Point<'a> {
    x: f64,
    round: u32,
    accuracy: &'a SplitAccuracy,
}

/// Returns the chart of the headline figure and its companion, with the baselines as horizontal
/// lines.
pub(crate) fn chart(record: &RunRecord, against: Against) -> Chart {
    let points: Vec<Point> = record
        .per_round
        .iter()
        .zip(cost::by_round(record))
        .filter_map(|(round, cost)| {
            Some(Point {
                x: against.of(&cost),
                round: round.round,
                accuracy: round.accuracy.as_ref()?,
            })
        })
        .collect();
    let last = points.last().map_or(0.0, |point| point.x);
    let x = against.axis(last, points.len());
    let ends = [0.0, x.end * x.unit];
    let headlines = figures::headlines(&record.scenario.evaluation);
    let groups: Vec<Group> = headlines
        .iter()
        .zip(COLORS)
        .map(|(metric, colors)| Group {
            heading: metric.label(),
            series: lines(record, &points, &metric.name(), colors, ends),
        })
        .filter(|group| !group.series.is_empty())
        .collect();
    let values = || {
        groups
            .iter()
            .flat_map(|group| &group.series)
            .flat_map(|series| &series.points)
            .map(|&(_, y)| y)
    };
    let (smallest, largest) = (
        values().fold(f64::INFINITY, f64::min),
        values().fold(0.0, f64::max),
    );
    let remark = match points.len() {
        0 => Some("no round was evaluated".to_owned()),
        _ if last == 0.0 => Some(against.nothing().to_owned()),
        _ => None,
    };
    Chart {
        title: title(record),
        subtitle: with_overrides(
            format!("Accuracy under this protocol: {}", record.protocol),
            record,
        ),
        x,
        y: vertical(&headlines, smallest, largest),
        groups,
        areas: Vec::new(),
        marked: marked(record, &points),
        notes: Vec::new(),
        legend_width: LEGEND_WIDTH,
        remark,
    }
}

/// Returns the axis of these figures up to `largest`: shares begin at 0, and errors near the
/// smallest.
pub(super) fn vertical(headlines: &[Metric], smallest: f64, largest: f64) -> Axis {
    let title = headlines
        .iter()
        .map(Metric::label)
        .collect::<Vec<_>>()
        .join(", ");
    match headlines.first().map(Metric::needs) {
        Some(Needs::PredictedRatings) => Axis::errors(&title, smallest, largest),
        _ => Axis::share(&title, largest),
    }
}

/// Returns the lines of one figure: the method on test and validation, then the baselines.
fn lines(
    record: &RunRecord,
    points: &[Point],
    figure: &str,
    (strong, light): (RGBColor, RGBColor),
    ends: [f64; 2],
) -> Vec<Series> {
    let method = &record.scenario.method.name;
    let curve = |of: &dyn Fn(&SplitAccuracy) -> Option<f64>| -> Vec<(f64, f64)> {
        points
            .iter()
            .filter_map(|point| Some((point.x, of(point.accuracy)?)))
            .collect()
    };
    let at_selected = |figures: Option<&Accuracy>| figures.and_then(|f| f.get(figure)).copied();
    let mut lines = vec![
        Series {
            label: labelled(
                &format!("{method}, test"),
                at_selected(Some(&record.accuracy.test)),
            ),
            color: strong,
            stroke: Stroke::Thick,
            points: curve(&|split| split.test.get(figure).copied()),
        },
        Series {
            label: labelled(
                "validation",
                at_selected(record.accuracy.validation.as_ref()),
            ),
            color: light,
            stroke: Stroke::Thin,
            points: curve(&|split| split.validation.as_ref()?.get(figure).copied()),
        },
    ];
    for ((name, baseline), stroke) in record
        .baselines
        .iter()
        .zip([Stroke::Dashed, Stroke::Dotted])
    {
        if let Some(&value) = baseline.test.get(figure) {
            let points = ends.map(|x| (x, value)).to_vec();
            let color = shade(strong);
            lines.push(Series {
                label: labelled(name, Some(value)),
                color,
                stroke,
                points,
            });
        }
    }
    lines.retain(|line| !line.points.is_empty());
    lines
}

fn labelled(name: &str, value: Option<f64>) -> String {
    value.map_or_else(|| name.to_owned(), |value| format!("{name}: {value:.3}"))
}

/// Returns rings around the selected round's test figures.
fn marked(record: &RunRecord, points: &[Point]) -> Option<(String, Vec<Mark>)> {
    let selected = points
        .iter()
        .find(|point| Some(point.round) == record.selected_round)?;
    let headlines = figures::headlines(&record.scenario.evaluation);
    let headline = headlines.first().map_or_else(String::new, Metric::label);
    let why = match record.scenario.evaluation.selection {
        Selection::Last => "the last one".to_owned(),
        Selection::BestValidation => format!("best validation {headline}"),
        Selection::BestTest => format!("best test {headline}"),
    };
    let marks = headlines
        .iter()
        .zip(COLORS)
        .filter_map(|(metric, (color, _))| {
            let value = *selected.accuracy.test.get(&metric.name())?;
            Some(Mark {
                at: (selected.x, value),
                color,
                marker: Marker::Circle,
            })
        })
        .collect();
    let label = format!(
        "selected: round {}, {why}; the figures above are of this round",
        selected.round
    );
    Some((label, marks))
}
