//! Writes the section on bytes: what became of them, and what they were for.

use super::{systems, table};
use crate::report::cost;
use crate::report::ledger_lines::{self, LedgerLine};
use crate::report::record::{Flow, RunRecord};
use crate::report::words::{percent, thousands};
use fedrecsim_core::units::Bytes;

/// Returns the section.
pub(super) fn section(record: &RunRecord) -> String {
    let (up, down) = (&record.bytes.up, &record.bytes.down);
    if up.sent == 0 && down.sent == 0 {
        return "## Bytes\n\nNothing was sent.".to_owned();
    }
    let line = |(name, of): LedgerLine| {
        let cell = |flow: &Flow| {
            format!(
                "{} ({})",
                Bytes::new(of(flow)),
                percent(of(flow), flow.sent)
            )
        };
        vec![name.to_owned(), cell(up), cell(down)]
    };
    let sent = |flow: &Flow| format!("{} ({} B)", Bytes::new(flow.sent), thousands(flow.sent));
    let unused = record.work.unused_download_bytes;
    let for_nothing = format!("{} ({})", Bytes::new(unused), percent(unused, down.sent));
    let [useful, others @ ..] = ledger_lines::fates();
    let mut rows = vec![
        vec!["**sent**".to_owned(), sent(up), sent(down)],
        line(useful),
    ];
    rows.push(vec![
        "of it for updates that were not used".to_owned(),
        "-".to_owned(),
        for_nothing,
    ]);
    rows.extend(
        others
            .into_iter()
            .chain(ledger_lines::contents(&record.bytes))
            .map(line),
    );
    rows.push(vec![
        "frames".to_owned(),
        thousands(up.frames),
        thousands(down.frames),
    ]);
    if let Some(bytes) = &record.third_party_bytes {
        let cell = |part: &Flow, all: &Flow| {
            format!(
                "{} ({})",
                Bytes::new(part.sent),
                percent(part.sent, all.sent)
            )
        };
        let name = "of the sent bytes: with the third party".to_owned();
        rows.push(vec![name, cell(&bytes.up, up), cell(&bytes.down, down)]);
    }
    let aggregated: u64 = record
        .per_round
        .iter()
        .map(|round| u64::from(round.aggregated))
        .sum();
    let mut per = |name: &str, count: u64| {
        if let (Some(up), Some(down)) = (up.sent.checked_div(count), down.sent.checked_div(count)) {
            rows.push(vec![
                name.to_owned(),
                Bytes::new(up).to_string(),
                Bytes::new(down).to_string(),
            ]);
        }
    };
    per(
        &format!("sent per aggregated update (of {})", thousands(aggregated)),
        aggregated,
    );
    per(
        &format!("sent per user (of {})", thousands(record.size.users)),
        record.size.users,
    );
    per(
        &format!("sent per finished round (of {})", record.rounds),
        record.rounds.into(),
    );
    let header = match record.third_party_bytes {
        None => ["", "up (clients to server)", "down (server to clients)"],
        Some(_) => ["", "up (from the clients)", "down (to the clients)"],
    };
    let table = table(&header, &rows);
    let remarks = [
        unfinished_bytes(record),
        inference_bytes(record),
        versions_cost(record),
        systems::devices(record),
    ]
    .concat();
    format!("## Bytes\n\n{table}{remarks}")
}

/// Returns a remark on what devices would download to score, which is booked apart from the table.
fn inference_bytes(record: &RunRecord) -> String {
    let Some(bytes) = record.inference_bytes.filter(|bytes| *bytes > 0) else {
        return String::new();
    };
    let remark = format!(
        "\n\nTo score after the selected round, the {} evaluated users would download {} besides, once each.",
        thousands(record.size.evaluated_users),
        Bytes::new(bytes)
    );
    if !record.scenario.codec.downloads_needed_rows() {
        return remark;
    }
    // Rows that training needs are not enough to score with, so the one is not to be read without
    // the other.
    let all = Bytes::new(record.bytes.down.sent + bytes);
    format!(
        "{remark} Clients downloaded the rows alone that they trained on: with this, {all} down in all."
    )
}

/// Returns a remark on what it took the server to send differences between versions of the model.
fn versions_cost(record: &RunRecord) -> String {
    let Some(cost) = record.versions_cost else {
        return String::new();
    };
    format!(
        "\n\nTo send differences, the server kept {} of the newest version as receivers have it, up to {} of differences, \
         and {} of the numbers of the versions that users have.",
        Bytes::new(cost.model_bytes),
        Bytes::new(cost.differences_bytes),
        Bytes::new(cost.acknowledgement_bytes)
    )
}

/// Returns a remark on bytes that belong to no finished round, which the table counts and
/// `rounds.csv` cannot.
fn unfinished_bytes(record: &RunRecord) -> String {
    let costs = cost::by_round(record);
    let (up, down) = costs
        .last()
        .map_or((0, 0), |cost| (cost.up_bytes, cost.down_bytes));
    match (
        record.bytes.up.sent.saturating_sub(up),
        record.bytes.down.sent.saturating_sub(down),
    ) {
        (0, 0) => String::new(),
        (up, down) if record.complete => format!(
            "\n\nOf this, {} up and {} down had not come to an end when the last round did; `rounds.csv` has no row for \
             it.",
            Bytes::new(up),
            Bytes::new(down)
        ),
        (up, down) => format!(
            "\n\nOf this, {} up and {} down were sent in a round that was not finished; `rounds.csv` has no row for it.",
            Bytes::new(up),
            Bytes::new(down)
        ),
    }
}
