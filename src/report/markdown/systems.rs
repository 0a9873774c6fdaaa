//! Writes the sections on participations and energy.

use super::table;
use crate::report::record::RunRecord;
use crate::report::setup;
use crate::report::words::{self, counted, percent, thousands};

/// Returns the section on what became of the participations; `None` if there were none.
pub(super) fn participations(record: &RunRecord) -> Option<String> {
    let totals = &record.participations;
    if totals.invited == 0 {
        return None;
    }
    let rows: Vec<Vec<String>> = [
        ("**invited**", totals.invited),
        ("used in an average", totals.aggregated),
        ("lost (dropouts, departures, faults)", totals.dropped),
        ("cancelled by the server", totals.cancelled),
        ("late or stale: arrived, not used", totals.late),
        ("under way when the last round ended", totals.under_way),
    ]
    .into_iter()
    .map(|(name, count)| vec![name.to_owned(), thousands(count), percent(count, totals.invited)])
    .collect();
    let finished = counted(record.rounds.into(), "finished round");
    let mut text = format!("## Participations\n\nIn {finished}.\n\n{}", table(&["", "", ""], &rows));
    if let Some(excluded) = setup::excluded(record) {
        text += &format!("\n\n{excluded}");
    }
    Some(text)
}

/// Returns the section on what the clients' energy was spent on; `None` if the scenario states no energy.
pub(super) fn energy(record: &RunRecord) -> Option<String> {
    let energy = record.energy?;
    let cell = words::energy;
    let mut rows = vec![
        vec!["bytes sent and received".to_owned(), cell(energy.transfer_j)],
        vec!["training".to_owned(), cell(energy.training_j)],
        vec!["**in all**".to_owned(), cell(energy.total_j())],
        vec!["of it on what was of no use".to_owned(), cell(energy.wasted_j)],
    ];
    if record.rounds > 0 {
        let per_round = energy.total_j() / f64::from(record.rounds);
        rows.push(vec![format!("per finished round (of {})", record.rounds), cell(per_round)]);
    }
    let text = "Of all clients together, from the energies of a byte and of a row visit that the scenario states. Of no use \
                is what was spent on updates that were not used: they were late, stale, lost, cancelled or not there at the end.";
    Some(format!("## Energy\n\n{text}\n\n{}", table(&["", "energy"], &rows)))
}
