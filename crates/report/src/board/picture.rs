//! The picture of a track: what accuracy costs.

use super::POPULARITY;
use super::table::dot;
use super::track::{METRIC, NETWORKS, Row, Track};
use crate::chart::{self, Axis, Chart, Kind, Series, Stroke};
use crate::column::Unit;
use crate::metrics;
use crate::words::short;
use fedrecsim_core::metric::Metric;

/// Returns the entries of a track against what they cost; `None` if none has been run on every network.
pub(super) fn chart(track: &Track<'_>) -> Option<Chart> {
    let shown = track.worth_their_cost();
    let mut series: Vec<Series> = shown.filter_map(|row| point(row, track.name)).collect();
    if series.is_empty() {
        return None;
    }
    series.extend(line_of_popularity(track));
    let label = metrics::label(METRIC);
    let metrics: Vec<Metric> = Metric::named(METRIC).into_iter().collect();
    Some(Chart {
        id: "front",
        metric: track.name.to_owned(),
        title: format!("{label} against what it costs, and the front"),
        note: "What runs on devices, is better than popularity, and has been run on every network. Of the dashed line, \
               popularity, no byte is counted."
            .to_owned(),
        description: format!(
            "Points of the {label} of these entries against bytes per user and virtual times, with 95 % intervals, and a line \
             that joins those that no other one beats in both. The tables below have the figures."
        ),
        kind: Kind::Front(metrics::better(METRIC)),
        across: costs(),
        up: Axis::of_metrics(format!("{label} (test)"), &metrics),
        series,
        ..Chart::default()
    })
}

/// Returns the axes of costs, in the order of those of a [`point`].
fn costs() -> Vec<Axis> {
    let bytes = |name, title: &str| Axis {
        nothing: "no bytes were sent",
        ..Axis::new(name, title, Unit::Bytes)
    };
    let time = |name: &'static str| Axis {
        nothing: "no virtual time passed",
        ..Axis::new(name, format!("virtual time, {name}"), Unit::Seconds)
    };
    [
        bytes("all bytes", "sent per user, up and down"),
        bytes("uploads", "uploaded per user"),
    ]
    .into_iter()
    .chain(NETWORKS.map(time))
    .collect()
}

/// Returns an entry's place. One that has not been run on every network has none on some axis.
fn point(row: &Row<'_>, track: &str) -> Option<Series> {
    let times = NETWORKS.map(|network| row.time(track, network));
    let costs = [row.bytes(), row.per_user("up_bytes")]
        .into_iter()
        .chain(times);
    let costs: Vec<f64> = costs.collect::<Option<_>>()?;
    let [low, _, high] = dot(row);
    Some(Series {
        name: row.entry.name.clone(),
        arm: Some(row.place),
        figure: short(row.value),
        stroke: Stroke::Points,
        x: costs.into_iter().map(|cost| vec![cost]).collect(),
        y: vec![row.value],
        low: vec![low],
        high: vec![high],
        ..chart::arm(row.place)
    })
}

fn line_of_popularity(track: &Track<'_>) -> Option<Series> {
    let value = track.popularity()?;
    let popularity = track.rows.iter().find(|row| row.entry.name == POPULARITY);
    Some(Series {
        name: POPULARITY.to_owned(),
        arm: popularity.map(|row| row.place),
        stroke: Stroke::Dash,
        y: vec![value],
        ..Series::default()
    })
}
