//! The page of the board.

use super::picture::chart;
use super::table::board;
use super::track::{METRIC, Row, Track};
use super::{ALONE, Entry};
use crate::document::{Block, Columns, Document, Table};
use crate::metrics;
use crate::words::{counted, short};

/// The track whose ratings are at hand everywhere. It tells nothing of a method.
const GENERATED: &str = "generated";

/// The least number of tested users that a mean can bear.
const FEW_USERS: u64 = 200;

/// Returns the page of the entries, which are sorted by their names.
///
/// `not_entered` are the methods on devices that nobody has entered.
pub fn document(entries: &[Entry], not_entered: &[&str]) -> Document {
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
        "Anybody can repeat an entry, and hold its digests against those that are committed, with \
         `fedrecsim board run board/ENTRY`. The rules, and how to enter, are in `docs/how-to/enter-the-board.md`. \
         `fedrecsim board build` makes this page from the `results.json` of the entries; do not edit it.",
    )];
    if !not_entered.is_empty() {
        let names: Vec<String> = not_entered.iter().map(|name| format!("`{name}`")).collect();
        blocks.push(Block::text(format!(
            "Nobody has entered these methods of the program, which run on devices: {}. Places are among the others alone.",
            listed(&names)
        )));
    }
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

/// Returns what became of the claims.
fn answers(entries: &[Entry], tracks: &[Track<'_>]) -> String {
    let claims = entries
        .iter()
        .filter_map(|entry| Some((entry, entry.facts.claim.as_ref()?)));
    let answers = claims.map(|(entry, claim)| answer(&entry.name, claim, tracks));
    answers.collect::<Vec<_>>().join(" ")
}

/// Returns what became of the claim of an entry: first where it is not ahead.
fn answer(name: &str, claim: &str, tracks: &[Track<'_>]) -> String {
    let (mut behind, mut ahead) = (Vec::new(), Vec::new());
    for track in tracks {
        match track.rows.iter().position(|row| row.entry.name == name) {
            Some(0) => ahead.push(ahead_on(track)),
            Some(place) => behind.push(behind_on(track, place)),
            None => {}
        }
    }
    let label = metrics::label(METRIC);
    let behind = match &behind[..] {
        [] => String::new(),
        some => format!("`{name}` is not ahead in {label} on {}. ", listed(some)),
    };
    let ahead = match &ahead[..] {
        [] => "It is first on no track.".to_owned(),
        some => format!("It is first on {}.", listed(some)),
    };
    // A track is not always what a claim is about.
    format!("{behind}{ahead} Its claim, of which not every track is a test: {claim}.")
}

/// Says what it means to be the first on a track.
fn ahead_on(track: &Track<'_>) -> String {
    let few = match track.rows[0].arm.tested_users < FEW_USERS {
        true => "; with so few users it decides nothing",
        false => "",
    };
    let (run, missing) = (track.rows.len(), track.missing.len());
    format!("{} ({run} were run, {missing} not yet{few})", track.name)
}

/// Says who is ahead of the entry at this place of a track.
fn behind_on(track: &Track<'_>, place: usize) -> String {
    let (row, first) = (&track.rows[place], &track.rows[0]);
    format!(
        "{} (place {} of the {} that were run: {} where `{}` has {})",
        track.name,
        place + 1,
        track.rows.len(),
        short(row.value),
        first.entry.name,
        short(first.value)
    )
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
    let mut blocks = vec![
        Block::heading(track.name),
        Block::text(text),
        Block::Board(Box::new(board(track))),
    ];
    if !track.failed.is_empty() {
        blocks.push(Block::text("Entries that failed, and why:"));
        let failed = track.failed.iter();
        let failed = failed.map(|(name, reason)| (format!("`{name}`"), (*reason).to_owned()));
        blocks.push(Block::List(failed.collect()));
    }
    let failed = track.rows.iter().filter_map(|row| {
        let reason = row.entry.arm(track.name, ALONE)?.failed.as_ref()?;
        Some((format!("`{}`", row.entry.name), reason.clone()))
    });
    let failed: Vec<_> = failed.collect();
    if !failed.is_empty() {
        blocks.push(Block::text("Devices alone that failed, and why:"));
        blocks.push(Block::List(failed));
    }
    // A network on which no entry was run has no front.
    let fronts = track.fronts().into_iter().filter(|(_, of)| !of.is_empty());
    let fronts: Vec<_> = fronts.map(front).collect();
    if fronts.is_empty() {
        let none =
            "Nothing that runs on devices is better than popularity here, which costs no byte.";
        blocks.push(Block::text(none));
        return blocks;
    }
    blocks.extend([
        Block::text(
            "Pareto fronts of what runs on devices and is better than popularity, by ascending cost: no other entry is as good \
             for less, or better for as much.",
        ),
        Block::List(fronts),
    ]);
    blocks
}

fn are(users: u64) -> String {
    match users {
        1 => "1 user is".to_owned(),
        _ => format!("{} are", counted(users, "user")),
    }
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
