//! The page of the board.

use super::track::{METRIC, NETWORKS, Row, Track};
use super::{ALONE, Entry, NotedArm, POPULARITY};
use crate::chart::{self, Axis, Chart, Kind, Series, Stroke};
use crate::column::{Cell, Unit};
use crate::document::{Block, Board, BoardArm, BoardRow, Columns, Document, Table};
use crate::metrics;
use crate::study::sentence::range;
use crate::study::standing::{Figure, Over};
use crate::words::{counted, short};
use fedrecsim_core::metric::Metric;

/// The metric beside it.
const COMPANION: &str = "hr@10";

/// The track whose ratings are at hand everywhere. It tells nothing of a method.
const GENERATED: &str = "generated";

/// The least number of tested users that a mean can bear.
const FEW_USERS: u64 = 200;

/// Returns the page of the entries, which are sorted by their names.
pub fn document(entries: &[Entry]) -> Document {
    let mut names: Vec<&str> = Vec::new();
    for name in entries.iter().flat_map(Entry::tracks) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let tracks = names.into_iter().filter(|name| *name != GENERATED);
    let tracks: Vec<Track<'_>> = tracks
        .map(|name| Track::of(name, entries))
        .filter(|track| !track.rows.is_empty())
        .collect();
    let mut blocks = vec![Block::text(
        "Every entry is repeated, and its digests held against those that are committed, by \
         `fedrecsim board run board/ENTRY`. The rules, and how to enter, are in `docs/how-to/enter-the-board.md`. \
         `fedrecsim board build` makes this page from the `results.json` of the entries; do not edit it.",
    )];
    blocks.extend(tracks.iter().filter_map(chart).map(Block::from));
    for track in &tracks {
        blocks.extend(of_track(track));
    }
    blocks.push(Block::heading("Entries"));
    blocks.push(Block::Table(declared(entries)));
    Document {
        title: "The board".to_owned(),
        answer: answers(entries, &tracks),
        blocks,
    }
}

/// Returns what became of the claims: first where an entry is not ahead.
fn answers(entries: &[Entry], tracks: &[Track<'_>]) -> String {
    let mut told = Vec::new();
    for entry in entries {
        let Some(claim) = &entry.facts.claim else {
            continue;
        };
        let (mut behind, mut ahead) = (Vec::new(), Vec::new());
        for track in tracks {
            let place = track
                .rows
                .iter()
                .position(|row| row.entry.name == entry.name);
            let (Some(place), Some(first)) = (place, track.rows.first()) else {
                continue;
            };
            match place {
                0 => ahead.push(format!(
                    "{} ({} were run, {} not yet{})",
                    track.name,
                    track.rows.len(),
                    track.missing.len(),
                    match first.arm.tested_users < FEW_USERS {
                        true => "; with so few users it decides nothing",
                        false => "",
                    }
                )),
                _ => behind.push(format!(
                    "{} (place {} of the {} that were run: {} where `{}` has {})",
                    track.name,
                    place + 1,
                    track.rows.len(),
                    short(track.rows[place].value),
                    first.entry.name,
                    short(first.value)
                )),
            }
        }
        let label = metrics::label(METRIC);
        let behind = match &behind[..] {
            [] => String::new(),
            some => format!(
                "`{}` is not ahead in {label} on {}. ",
                entry.name,
                listed(some)
            ),
        };
        let ahead = match &ahead[..] {
            [] => "It is first on no track.".to_owned(),
            some => format!("It is first on {}.", listed(some)),
        };
        // A track is not always what a claim is about.
        told.push(format!(
            "{behind}{ahead} Its claim, of which not every track is a test: {claim}."
        ));
    }
    told.join(" ")
}

/// Returns words as a list in a sentence.
fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Returns the part of the page about a track.
fn of_track(track: &Track<'_>) -> Vec<Block> {
    let arm = track.rows[0].arm;
    let mut text = format!(
        "Judged by: {}. {} tested.",
        super::asked(&arm.protocol).join(", "),
        are(arm.tested_users)
    );
    if arm.tested_users < FEW_USERS {
        text += &format!(
            " That is less than {FEW_USERS}: this track points a way, and decides nothing."
        );
    }
    if !track.missing.is_empty() {
        text += &format!(" Not run yet: {}.", track.missing.join(", "));
    }
    let front = |(cost, rows): (&str, Vec<&Row<'_>>)| {
        let against = match cost {
            "bytes" => "against bytes up and down".to_owned(),
            network => format!("against time on {network}"),
        };
        let names = rows
            .iter()
            .map(|row| format!("`{}` {}", row.entry.name, short(row.value)));
        (against, names.collect::<Vec<_>>().join(", "))
    };
    vec![
        Block::heading(track.name),
        Block::text(text),
        Block::Board(Box::new(board(track))),
        Block::text(
            "Pareto fronts of what runs on devices, by ascending cost: no other entry is as good for less, or better for as \
             much.",
        ),
        // Nobody has run on a network without a front.
        Block::List(
            track
                .fronts()
                .into_iter()
                .filter(|(_, of)| !of.is_empty())
                .map(front)
                .collect(),
        ),
    ]
}

fn are(users: u64) -> String {
    match users {
        1 => "1 user is".to_owned(),
        _ => format!("{} are", counted(users, "user")),
    }
}

/// Returns the leaderboard of a track.
fn board(track: &Track<'_>) -> Board {
    let popularity = track.popularity();
    let fronts = track.fronts();
    let mut table: Columns<'_, Row<'_>> = Columns::new();
    table.add("entry", |row: &Row<'_>| row.entry.name.clone());
    table.add(metrics::label(METRIC), |row| {
        Cell::number(range(&estimated(row)), row.value)
    });
    table.add(metrics::label(COMPANION), |row| {
        row.arm
            .figure(COMPANION)
            .map_or_else(Cell::none, |value| Cell::number(short(value), value))
    });
    table.add("more than popularity", move |row| {
        let more = popularity.map(|popularity| row.value - popularity);
        more.map_or_else(Cell::none, signed)
    });
    table.add("devices alone", |row| control(row, track.name));
    table.add("up per user", |row| {
        cost(row, Unit::Bytes, row.per_user("up_bytes"))
    });
    table.add("down per user", |row| {
        cost(row, Unit::Bytes, row.per_user("down_bytes"))
    });
    for network in NETWORKS {
        table.add(format!("time, {network}"), move |row| {
            cost(row, Unit::Seconds, row.time(track.name, network))
        });
    }
    table.add("epsilon", |row| match row.arm.figure("epsilon") {
        None => Cell::from("no noise"),
        epsilon => Unit::Epsilon.cell(epsilon),
    });
    table.add("audit AUC", |row| match audited(row.arm) {
        None if row.entry.facts.at_server => Cell::from("no uploads"),
        None => Cell::from("not audited"),
        auc => Unit::Chance.cell(auc),
    });
    table.add("trials", |row| match row.arm.trials {
        None => Cell::from("as written"),
        trials => Unit::Count.cell(trials),
    });
    table.add("on the front", move |row| {
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
        reference: popularity,
    }
}

/// Returns the accuracy with its interval.
fn estimated(row: &Row<'_>) -> Figure {
    Figure {
        mean: row.value,
        interval: row.arm.intervals.get(METRIC).copied(),
        over: Over::Users,
    }
}

fn dot(row: &Row<'_>) -> [f64; 3] {
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

/// Returns the entries of a track against what they cost; `None` if none has been run on every network.
fn chart(track: &Track<'_>) -> Option<Chart> {
    let label = metrics::label(METRIC);
    let time = |name: &'static str| Axis {
        nothing: "no virtual time passed",
        ..Axis::new(name, format!("virtual time, {name}"), Unit::Seconds)
    };
    let bytes = |name, title: &str| Axis {
        nothing: "no bytes were sent",
        ..Axis::new(name, title, Unit::Bytes)
    };
    // An entry that has not been run on every network has no place on some axis.
    let point = |row: &Row<'_>| {
        let times = NETWORKS.map(|network| row.time(track.name, network));
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
    };
    let on_devices = track.rows.iter().filter(|row| !row.entry.facts.at_server);
    let mut series: Vec<Series> = on_devices.filter_map(point).collect();
    if series.is_empty() {
        return None;
    }
    let of_popularity = |row: &&Row<'_>| row.entry.name == POPULARITY;
    let popularity = track.rows.iter().find(of_popularity);
    series.extend(track.popularity().map(|value| Series {
        name: POPULARITY.to_owned(),
        arm: popularity.map(|row| row.place),
        stroke: Stroke::Dash,
        y: vec![value],
        ..Series::default()
    }));
    let metrics: Vec<Metric> = Metric::named(METRIC).into_iter().collect();
    let [lan, wifi, mobile] = NETWORKS.map(time);
    Some(Chart {
        id: "front",
        metric: track.name.to_owned(),
        title: format!("{label} against what it costs, and the front"),
        note: "What runs on devices, and has been run on every network. Of the dashed line, popularity, no byte is counted."
            .to_owned(),
        description: format!(
            "Points of the {label} of every entry against bytes per user and virtual times, with 95 % intervals, and a line \
             that joins those that no other one beats in both. The tables below have the figures."
        ),
        kind: Kind::Front(metrics::better(METRIC)),
        across: vec![
            bytes("all bytes", "sent per user, up and down"),
            bytes("uploads", "uploaded per user"),
            lan,
            wifi,
            mobile,
        ],
        up: Axis::of_metrics(format!("{label} (test)"), &metrics),
        series,
        ..Chart::default()
    })
}

/// Returns what the entries declare.
fn declared(entries: &[Entry]) -> Table {
    let mut table: Columns<'_, &Entry> = Columns::new();
    table.add("entry", |entry: &&Entry| entry.name.clone());
    table.add("method", |entry| entry.facts.method.clone());
    table.add("entered by", |entry| entry.facts.by.clone());
    table.add("a device knows", |entry| entry.facts.device_knows.clone());
    table.add("without a control, because", |entry| {
        entry
            .facts
            .no_control
            .clone()
            .unwrap_or_else(|| "-".to_owned())
    });
    table.add("repeated by", |entry| {
        let program = entry.facts.program.as_deref().unwrap_or("fedrecsim");
        format!("`{program} board run board/{}`", entry.name)
    });
    table.table("Entries, by their names.", entries)
}
