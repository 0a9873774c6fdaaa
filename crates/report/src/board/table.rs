//! The leaderboard of a track.

use super::track::{METRIC, NETWORKS, Row, Track};
use super::{ALONE, NotedArm, POPULARITY};
use crate::column::{Cell, Unit};
use crate::document::{Board, BoardArm, BoardRow, Columns, Table};
use crate::metrics;
use crate::study::sentence::range;
use crate::study::standing::{Figure, Over};
use crate::words::short;

/// The metric beside the one that decides.
const COMPANION: &str = "hr@10";

/// Returns the leaderboard of a track.
pub(super) fn board(track: &Track<'_>) -> Board {
    let mut table: Columns<'_, Row<'_>> = Columns::new();
    table.add("entry", |row: &Row<'_>| row.entry.name.clone());
    add_accuracies(&mut table, track);
    add_costs(&mut table, track.name);
    add_privacy(&mut table);
    table.add("trials", |row| match row.arm.trials {
        None => Cell::from("as written"),
        trials => Unit::Count.cell(trials),
    });
    add_fronts(&mut table, track);
    let caption = format!(
        "{}, the best first. Intervals hold 95 % of draws of users. Bytes and virtual times are those of the whole training. \
         Devices alone have the settings of the entry, which are made for what many send.",
        track.name
    );
    let row = |row: &Row<'_>| BoardRow {
        name: row.entry.name.clone(),
        arms: vec![BoardArm {
            place: row.place,
            name: row.entry.name.clone(),
            is_reference: row.entry.name == POPULARITY,
            axes: Vec::new(),
        }],
        dot: Some(dot(row)),
    };
    Board {
        heading: "its interval; dashed: popularity".to_owned(),
        rows: track.rows.iter().map(row).collect(),
        table: Table {
            is_sortable: true,
            ..table.table(&caption, track.rows.iter().copied())
        },
        reference: track.popularity(),
    }
}

fn add_accuracies<'t, 'e>(table: &mut Columns<'t, Row<'e>>, track: &'t Track<'e>) {
    table.add(metrics::label(METRIC), |row: &Row<'_>| {
        Cell::number(range(&estimated(row)), row.value)
    });
    table.add(metrics::label(COMPANION), |row| {
        row.arm
            .figure(COMPANION)
            .map_or_else(Cell::none, |value| Cell::number(short(value), value))
    });
    let popularity = track.popularity();
    table.add("more than popularity", move |row| {
        let more = popularity.map(|popularity| row.value - popularity);
        more.map_or_else(Cell::none, signed)
    });
    table.add("devices alone", |row| control(row, track.name));
}

/// Adds what devices pay on a track.
fn add_costs<'t>(table: &mut Columns<'t, Row<'_>>, track: &'t str) {
    table.add("up per user", |row: &Row<'_>| {
        cost(row, Unit::Bytes, row.per_user("up_bytes"))
    });
    table.add("down per user", |row| {
        cost(row, Unit::Bytes, row.per_user("down_bytes"))
    });
    for network in NETWORKS {
        table.add(format!("time, {network}"), move |row| {
            cost(row, Unit::Seconds, row.time(track, network))
        });
    }
}

fn add_privacy(table: &mut Columns<'_, Row<'_>>) {
    table.add("epsilon", |row: &Row<'_>| match row.arm.figure("epsilon") {
        None => Cell::from("no noise"),
        epsilon => Unit::Epsilon.cell(epsilon),
    });
    table.add("audit AUC", |row| match audited(row.arm) {
        None if row.entry.facts.at_server => Cell::from("no uploads"),
        None => Cell::from("not audited"),
        auc => Unit::Chance.cell(auc),
    });
}

/// Adds the fronts that an entry is on.
fn add_fronts<'t, 'e>(table: &mut Columns<'t, Row<'e>>, track: &'t Track<'e>) {
    let fronts = track.fronts();
    table.add("on the front", move |row: &Row<'_>| {
        let of = |(cost, rows): &(&'static str, Vec<&Row<'_>>)| {
            let is_there = rows.iter().any(|other| other.place == row.place);
            is_there.then_some(*cost)
        };
        match fronts.iter().filter_map(of).collect::<Vec<_>>() {
            none if none.is_empty() => Cell::none(),
            all if all.len() == fronts.len() => Cell::from("all"),
            some => Cell::from(some.join(", ")),
        }
    });
}

/// Returns the accuracy with its interval.
fn estimated(row: &Row<'_>) -> Figure {
    Figure {
        mean: row.value,
        interval: row.arm.intervals.get(METRIC).copied(),
        over: Over::Users,
    }
}

pub(super) fn dot(row: &Row<'_>) -> [f64; 3] {
    let [low, high] = estimated(row).interval.unwrap_or([row.value; 2]);
    [low, row.value, high]
}

/// Returns the accuracy of devices that share nothing, or why there is none.
fn control(row: &Row<'_>, track: &str) -> Cell {
    match row.entry.arm(track, ALONE) {
        Some(alone) if alone.failed.is_some() => Cell::from("failed"),
        Some(alone) => alone
            .figure(METRIC)
            .map_or_else(Cell::none, |value| Cell::number(short(value), value)),
        None if row.entry.facts.at_server => Cell::from("no devices"),
        None if row.entry.facts.no_control.is_some() => Cell::from("cannot"),
        None => Cell::from("not run yet"),
    }
}

/// Returns a difference with its sign.
fn signed(difference: f64) -> Cell {
    let sign = if difference > 0.0 { "+" } else { "" };
    Cell::number(format!("{sign}{}", short(difference)), difference)
}

/// Returns what devices pay. Where a server has the ratings, nobody may have counted how they came
/// there.
fn cost(row: &Row<'_>, unit: Unit, value: Option<f64>) -> Cell {
    match value {
        Some(0.0) if row.entry.facts.at_server => Cell::from("not counted"),
        value => unit.cell(value),
    }
}

/// Returns the AUC of the better of the audit's guesses.
fn audited(arm: &NotedArm) -> Option<f64> {
    let guesses = ["audit_auc", "audit_linked_auc"].map(|name| arm.figure(name));
    guesses.into_iter().flatten().reduce(f64::max)
}
