//! Writes the sections on participations, the server, single devices and energy.

use super::table;
use crate::report::load::{Count, Load};
use crate::report::record::{DeviceBytes, LossTotals, RunRecord};
use crate::report::words::{self, counted, percent, thousands};
use crate::report::{setup, users};
use fedrecsim_core::units::Bytes;
use fedrecsim_scenario::scenario::ServerLinkSpec;
use fedrecsim_sim::sim::outcome::network::Waits;

/// Returns the section on what became of the participations; `None` if there were none.
pub(super) fn participations(record: &RunRecord) -> Option<String> {
    let totals = &record.participations;
    if totals.invited == 0 {
        return None;
    }
    let mut counts = vec![
        ("**invited**".to_owned(), totals.invited),
        ("used in an average".to_owned(), totals.aggregated),
        (
            "lost (dropouts, departures, faults)".to_owned(),
            totals.dropped,
        ),
    ];
    counts.extend(causes_of_losses(&record.losses));
    counts.push(("cancelled by the server".to_owned(), totals.cancelled));
    counts.push(("late or stale: arrived, not used".to_owned(), totals.late));
    if totals.stale > 0 {
        counts.push((
            "of it stale: from a model too old to be used".to_owned(),
            totals.stale,
        ));
    }
    counts.push((
        "under way when the last round ended".to_owned(),
        totals.under_way,
    ));
    let row = |(name, count)| vec![name, thousands(count), percent(count, totals.invited)];
    let rows: Vec<Vec<String>> = counts.into_iter().map(row).collect();
    let finished = counted(record.rounds.into(), "finished round");
    let mut text = format!(
        "## Participations\n\nIn {finished}.\n\n{}",
        table(&["", "", ""], &rows)
    );
    if let Some(excluded) = setup::excluded(record) {
        text += &format!("\n\n{excluded}");
    }
    Some(text)
}

/// Returns the numbers of lost participations by cause; nothing if none was lost and no fault rule
/// could cost any.
fn causes_of_losses(losses: &LossTotals) -> Vec<(String, u64)> {
    let mut causes = Vec::new();
    if losses.dropouts > 0 {
        causes.push(("of it dropouts".to_owned(), losses.dropouts));
    }
    if losses.departures > 0 {
        causes.push((
            "of it departures: the user left".to_owned(),
            losses.departures,
        ));
    }
    // A rule that has cost nothing is listed, too, since that is what one wants to know of it.
    causes.extend(losses.faults.iter().map(|fault| {
        let what = fault.preset.as_ref().unwrap_or(&fault.effect);
        (
            format!("of it by `faults[{}]` (`{what}`)", fault.rule),
            fault.lost,
        )
    }));
    causes
}

/// Returns the section on the load of the server's link; `None` if no virtual time has passed.
pub(super) fn server(record: &RunRecord) -> Option<String> {
    let network = record.network?;
    let load = |name: &str, load: Load| {
        let rate = |bytes_per_s: f64, share: Option<f64>| {
            let share = share.map_or_else(String::new, |of_limit| {
                format!(" ({})", words::share(of_limit))
            });
            format!("{}/s{share}", Bytes::new(bytes_per_s.round() as u64))
        };
        vec![
            name.to_owned(),
            rate(load.mean_bytes_per_s, load.mean_share),
            rate(load.max_bytes_per_s, load.max_share),
        ]
    };
    let count = |name: &str, count: Count| {
        vec![
            name.to_owned(),
            words::three_digits(count.mean),
            thousands(count.max),
        ]
    };
    let mut rows = vec![
        load("load of the link, up", network.up),
        load("load of the link, down", network.down),
        count("transfers at once", network.transfers),
    ];
    let server = &record.scenario.network.server;
    let mut text = match *server == ServerLinkSpec::default() {
        true => "The server's link has no limit, so every transfer counts with its mean rate."
            .to_owned(),
        false => "Shares are of what the link can carry.".to_owned(),
    };
    if server.connections.is_some() {
        rows.push(count("users in line for a connection", network.line));
        let Waits {
            count,
            total_s,
            p50_s,
            p95_s,
            max_s,
        } = network.line_waits;
        let [total, p50, p95, max] = [total_s, p50_s, p95_s, max_s].map(words::duration);
        text += &match count {
            0 => " Nobody had to wait for a connection.".to_owned(),
            _ => format!(
                " There were {} for a connection, {total} in all: {p50} (median), {p95} (95th percentile), {max} at most.",
                counted(count, "wait")
            ),
        };
    }
    rows.push(count(
        "users that the server waits for",
        network.waiting_users,
    ));
    let table = table(&["", "mean over time", "maximum"], &rows);
    Some(format!(
        "## The server\n\n{table}\n\n{text} The figures of every round are in `network.csv`."
    ))
}

/// Returns a remark on the bytes of single devices.
pub(super) fn devices(record: &RunRecord) -> String {
    let DeviceBytes {
        users,
        never_took_part,
        median_bytes,
        p99_bytes,
        max_bytes,
    } = record.device_bytes;
    let [median, p99, max] = [median_bytes, p99_bytes, max_bytes].map(Bytes::new);
    let idle = match never_took_part {
        0 => "Every user took part.".to_owned(),
        _ => format!(
            "{} of {} ({}) never took part and count with 0 bytes.",
            thousands(never_took_part),
            counted(users, "user"),
            percent(never_took_part, users)
        ),
    };
    format!(
        "\n\nOver the whole run, a device sent and received {median} (median), {p99} (99th percentile), {max} at most. \
         {idle} {}",
        users::remark(record)
    )
}

/// Returns the section on what the clients' energy was spent on; `None` if the scenario states no
/// energy.
pub(super) fn energy(record: &RunRecord) -> Option<String> {
    let energy = record.energy?;
    let cell = words::energy;
    let mut rows = vec![
        vec![
            "bytes sent and received".to_owned(),
            cell(energy.transfer_j),
        ],
        vec!["training".to_owned(), cell(energy.training_j)],
        vec!["**in all**".to_owned(), cell(energy.total_j())],
        vec![
            "of it on what was of no use".to_owned(),
            cell(energy.wasted_j),
        ],
    ];
    if record.rounds > 0 {
        let per_round = energy.total_j() / f64::from(record.rounds);
        rows.push(vec![
            format!("per finished round (of {})", record.rounds),
            cell(per_round),
        ]);
    }
    let text = "Of all clients together, from the energies of a byte and of a row visit that the scenario states. Of no use \
                is what was spent on updates that were not used: they were late, stale, lost, cancelled or not there at the end.";
    Some(format!(
        "## Energy\n\n{text}\n\n{}",
        table(&["", "energy"], &rows)
    ))
}
