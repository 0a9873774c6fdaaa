//! The section of a run's document on what lists are like beyond their accuracy.

use super::head;
use crate::column::{Cell, Unit};
use crate::document::{Block, Columns};
use crate::frame::Frame;
use crate::record::RunRecord;
use crate::words::{counted, share, thousands};
use fedrecsim_core::metric::ListFigures;
use fedrecsim_sim::outcome::BeyondAccuracy;

/// A figure of lists, with what it says.
type Line = (String, fn(&ListFigures) -> Cell);

/// Returns the section; nothing without lists.
pub(super) fn section(record: &RunRecord, rounds: &Frame) -> Vec<Block> {
    let Some(figures) = &record.beyond_accuracy else {
        return Vec::new();
    };
    let mut table = Columns::new();
    table.add("figure", |(name, _): &Line| name.clone());
    table.add(&record.scenario.method.name, |(_, of)| of(&figures.method));
    table.add("popularity", |(_, of)| of(&figures.popularity));
    let after = head::last_evaluated(record, rounds)
        .map_or_else(String::new, |(round, _)| format!(", after round {round}"));
    let caption = format!(
        "Lists of the {} best items of the whole catalogue without what a user has rated, of {}{after}. \
         docs/reference/metrics.md defines the figures.",
        thousands(figures.list_length.into()),
        counted(figures.users, "user"),
    );
    vec![
        Block::heading("Beyond accuracy"),
        Block::Table(table.table(&caption, lines(figures))),
    ]
}

fn lines(figures: &BeyondAccuracy) -> [Line; 5] {
    let own = figures.history_long_tail_share;
    let own = own.map_or_else(String::new, |own| {
        format!(" (of what these users have rated: {})", share(own))
    });
    [
        (
            "coverage: share of the catalogue that is in somebody's list".to_owned(),
            |of| Unit::Share.cell(of.coverage),
        ),
        (
            "Gini index: 0 if all items are shown equally often, 1 if it is always the same one"
                .to_owned(),
            |of| Unit::Chance.cell(of.gini),
        ),
        (
            "novelty: -log2 of the share of users who know an item, mean over shown items"
                .to_owned(),
            |of| Cell::number(format!("{:.2} bits", of.novelty_bits), of.novelty_bits),
        ),
        (
            format!("long tail: share of shown items that are in it{own}"),
            |of| Unit::Share.cell(of.long_tail_share),
        ),
        (
            "popularity deviation: how far lists and ratings are apart in their mix of popular and rare items, 0 to 1"
                .to_owned(),
            |of| Unit::Chance.cell(of.popularity_deviation),
        ),
    ]
}
