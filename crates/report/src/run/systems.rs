//! The sections on participations, bytes, energy, time and the server.

use super::charts;
use crate::column::{Cell, Unit};
use crate::document::{Block, Table};
use crate::frame::Frame;
use crate::ledger_lines::{self, FATES, LedgerLine};
use crate::load::{Count, Load};
use crate::record::{DeviceBytes, Flow, RunRecord};
use crate::words::{self, counted, percent, thousands};
use crate::{rounds, setup, users};
use fedrecsim_core::Bytes;
use fedrecsim_scenario::ServerLinkSpec;
use fedrecsim_sim::outcome::Waits;

/// Returns the section on what became of the participations; nothing if there were none.
pub(super) fn participations(record: &RunRecord) -> Vec<Block> {
    let totals = &record.participations;
    if totals.invited == 0 {
        return Vec::new();
    }
    let losses = &record.losses;
    let if_any = |name, count: u64| (count > 0).then_some((name, count));
    let before = [
        Some(("invited", totals.invited)),
        Some(("used in an average", totals.aggregated)),
        Some(("lost (dropouts, departures, faults)", totals.lost)),
        if_any("of it dropouts", losses.dropouts),
        if_any("of it departures: the user left", losses.departures),
    ];
    // A rule without a loss is listed too, since that is a finding.
    let faults = losses.faults.iter().map(|fault| {
        let what = fault.preset.as_ref().unwrap_or(&fault.effect);
        let name = format!("of it by `faults[{}]` (`{what}`)", fault.rule);
        (name, fault.lost)
    });
    let stale = "of it stale: from a model too old to be used";
    let after = [
        Some(("cancelled by the server", totals.cancelled)),
        Some(("late or stale: arrived, not used", totals.late)),
        if_any(stale, totals.stale),
        Some(("under way when the last round ended", totals.under_way)),
    ];
    let owned = |(name, count): (&str, u64)| (name.to_owned(), count);
    let before = before.into_iter().flatten().map(owned);
    let counts = before
        .chain(faults)
        .chain(after.into_iter().flatten().map(owned));
    let row = |(name, count): (String, u64)| {
        let share = Cell::number(percent(count, totals.invited), count);
        vec![name.into(), Unit::Count.cell(count), share]
    };
    let finished = counted(record.rounds.into(), "finished round");
    let heading = match totals.aggregated == totals.invited {
        true => Block::Quiet("Participations".to_owned()),
        false => Block::heading("Participations"),
    };
    let mut blocks = vec![
        heading,
        Block::Table(Table::new(
            match record.complete {
                true => format!("In {finished}."),
                false => format!("In {finished} and the one that was under way."),
            },
            ["what became of them", "number", "share"],
            counts.map(row).collect(),
        )),
    ];
    blocks.extend(setup::excluded(record).map(Block::Text));
    blocks
}

/// Returns the section on bytes: what became of them, and what they were for.
pub(super) fn bytes(record: &RunRecord, rounds: &Frame) -> Vec<Block> {
    let (up, down) = (&record.bytes.up, &record.bytes.down);
    let Some(chart) = charts::ledger(record) else {
        return vec![
            Block::Quiet("Bytes".to_owned()),
            Block::text("Nothing was sent."),
        ];
    };
    let mut blocks = vec![Block::heading("Bytes"), chart.into()];
    let of_sent = |bytes: u64, flow: &Flow| {
        let share = percent(bytes, flow.sent);
        Cell::number(format!("{} ({share})", Bytes::new(bytes)), bytes)
    };
    let line = |line: &LedgerLine| {
        let cell = |flow: &Flow| of_sent((line.of)(flow), flow);
        vec![line.line.into(), cell(up), cell(down)]
    };
    let sent = |flow: &Flow| {
        let exact = thousands(flow.sent);
        Cell::number(format!("{} ({exact} B)", Bytes::new(flow.sent)), flow.sent)
    };
    let [useful, others @ ..] = &FATES;
    let mut rows = vec![vec!["sent".into(), sent(up), sent(down)], line(useful)];
    rows.push(vec![
        "of it for updates that were not used".into(),
        Cell::none(),
        of_sent(record.work.unused_download_bytes, down),
    ]);
    let contents = ledger_lines::contents(&record.bytes);
    rows.extend(others.iter().chain(contents).map(line));
    let frames = [up, down].map(|flow| Unit::Count.cell(flow.frames));
    rows.push(std::iter::once("frames".into()).chain(frames).collect());
    if let Some(bytes) = &record.third_party_bytes {
        rows.push(vec![
            "of the sent bytes: with the third party".into(),
            of_sent(bytes.up.sent, up),
            of_sent(bytes.down.sent, down),
        ]);
    }
    let (aggregated, users) = (record.participations.aggregated, record.size.users);
    for (what, count) in [
        ("aggregated update", aggregated),
        ("user", users),
        ("finished round", record.rounds.into()),
    ] {
        let name = format!("sent per {what} (of {})", thousands(count));
        let per = [up, down].map(|flow| Unit::Bytes.cell(flow.sent.checked_div(count)));
        if count > 0 {
            rows.push(std::iter::once(name.into()).chain(per).collect());
        }
    }
    let header = match record.third_party_bytes {
        None => [
            "bytes",
            "up (clients to server)",
            "down (server to clients)",
        ],
        Some(_) => ["bytes", "up (from the clients)", "down (to the clients)"],
    };
    let caption = "Bytes by what became of them and what they were for; shares are of those sent in the direction. Useful ones \
                   belong to an update that counted, late ones came after their round was over, and stale ones from a model too \
                   old to be used.";
    blocks.push(Block::Table(Table::new(caption, header, rows)));
    let remarks = [
        unfinished_bytes(record, rounds),
        inference_bytes(record),
        versions_cost(record),
        Some(devices(record)),
    ];
    blocks.extend(remarks.into_iter().flatten().map(Block::Text));
    blocks
}

/// Returns a remark on what devices would download to score, which is booked apart from the table.
fn inference_bytes(record: &RunRecord) -> Option<String> {
    let bytes = record.inference_bytes.filter(|bytes| *bytes > 0)?;
    let remark = format!(
        "To score after the selected round, the {} evaluated users would download {} besides, once each.",
        thousands(record.size.evaluated_users),
        Bytes::new(bytes)
    );
    if !record.scenario.codec.downloads_needed_rows() {
        return Some(remark);
    }
    // Rows that training needs are not enough to score with, so the one is not to be read without
    // the other.
    let all = Bytes::new(record.bytes.down.sent + bytes);
    Some(format!(
        "{remark} Clients downloaded only the rows that they trained on; with the downloads for scoring, {all} down in all."
    ))
}

/// Returns a remark on what it took the server to send differences between versions of the model.
fn versions_cost(record: &RunRecord) -> Option<String> {
    let cost = record.versions_cost?;
    Some(format!(
        "To send differences, the server kept the newest version ({}), up to {} of differences, \
         and the version number of each user ({}).",
        Bytes::new(cost.model_bytes),
        Bytes::new(cost.differences_bytes),
        Bytes::new(cost.acknowledgement_bytes)
    ))
}

/// Returns a remark on bytes that belong to no finished round, which the table counts and
/// `rounds.csv` cannot.
fn unfinished_bytes(record: &RunRecord, rounds: &Frame) -> Option<String> {
    let beyond = |name, sent: u64| {
        let finished = rounds.get(name).last().copied().flatten();
        sent.saturating_sub(finished.unwrap_or_default() as u64)
    };
    let up = beyond(rounds::UP, record.bytes.up.sent);
    let down = beyond(rounds::DOWN, record.bytes.down.sent);
    let what = match record.complete {
        true => "had not come to an end when the last round did",
        false => "were sent in a round that was not finished",
    };
    (up + down > 0).then(|| {
        format!(
            "Of this, {} up and {} down {what}; `rounds.csv` has no row for it.",
            Bytes::new(up),
            Bytes::new(down)
        )
    })
}

/// Returns a remark on the bytes of single devices.
fn devices(record: &RunRecord) -> String {
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
        "Over the whole run, a device sent and received {median} (median), {p99} (99th percentile), {max} at most. \
         {idle} {}",
        users::remark(record)
    )
}

/// Returns the section on what energy was spent on, and what its electricity emits; nothing if the
/// scenario states no energy.
pub(super) fn energy(record: &RunRecord) -> Vec<Block> {
    let mut rows: Vec<(String, Cell)> = Vec::new();
    let mut row = |name: &str, cell: Cell| rows.push((name.to_owned(), cell));
    let joules = |joules: f64| Unit::Joules.cell(joules);
    if let Some(energy) = record.energy {
        row("bytes sent and received", joules(energy.transfer_j));
        row("training", joules(energy.training_j));
        let devices = &record.scenario.devices;
        if devices.power_mw.is_some() {
            row(
                "taking part, waiting included",
                joules(energy.taking_part_j),
            );
        }
        if devices.radio_tail.is_some() {
            row("radios until they rest", joules(energy.radio_tail_j));
        }
        row("devices in all", joules(energy.total_j()));
        row(
            "of it for updates that were not used",
            joules(energy.unused_j),
        );
        if record.rounds > 0 {
            let name = format!("devices, per finished round (of {})", record.rounds);
            row(&name, joules(energy.total_j() / f64::from(record.rounds)));
        }
    }
    if let Some(server_j) = record.server_energy_j {
        row("server", joules(server_j));
    }
    if let Some(carbon) = record.carbon {
        row("CO2 of the devices", Unit::Grams.cell(carbon.devices_g));
        if record.server_energy_j.is_some() {
            row("CO2 of the server", Unit::Grams.cell(carbon.server_g));
        }
    }
    if rows.is_empty() {
        return Vec::new();
    }
    let text = "The sum over all devices, from the energies and powers that the scenario states. \
                Updates were not used if they were late, stale, lost, cancelled or in flight at \
                the end.";
    let rows = rows
        .into_iter()
        .map(|(name, cell)| vec![name.into(), cell])
        .collect();
    vec![
        Block::heading("Energy"),
        Block::text(text),
        Block::Table(Table::new(
            "Energy of all devices.",
            ["what", "energy"],
            rows,
        )),
    ]
}

/// Returns the section on virtual time. A method that neither travels nor trains takes no time, and
/// a table of zeros tells nothing.
pub(super) fn virtual_time(record: &RunRecord) -> Vec<Block> {
    if record.durations.values().all(|of| of.max_s == 0.0) {
        return Vec::new();
    }
    // Phases are listed in the order of a round; a phase that is not among these comes after them.
    let known = ["download", "compute", "upload", "round"];
    let mut phases: Vec<_> = record.durations.iter().collect();
    phases.sort_by_key(|(name, _)| {
        let place = known.iter().position(|phase| phase == name);
        place.unwrap_or(known.len())
    });
    let rows = phases.into_iter().map(|(name, d)| {
        let times = [d.mean_s, d.min_s, d.p50_s, d.p90_s, d.p99_s, d.max_s];
        let times = times.map(|time| Unit::Seconds.cell(time));
        [Cell::from(name.as_str()), Unit::Count.cell(d.count)]
            .into_iter()
            .chain(times)
            .collect()
    });
    let header = [
        "phase",
        "count",
        "mean",
        "shortest",
        "median",
        "90 % within",
        "99 % within",
        "longest",
    ];
    let line = match record.scenario.network.server.connections {
        Some(_) => " Downloads and uploads include the time in line for a connection.",
        None => "",
    };
    vec![
        Block::heading("Virtual time"),
        Block::text(format!(
            "{} for {}.{line}",
            words::duration(record.virtual_time_s),
            counted(record.rounds.into(), "round")
        )),
        Block::Table(Table::new("Virtual time by phase.", header, rows.collect())),
    ]
}

/// Returns the section on the load of the server's link; nothing if no virtual time has passed.
pub(super) fn server(record: &RunRecord, over_time: &Frame) -> Vec<Block> {
    let Some(network) = record.network else {
        return Vec::new();
    };
    let load = |name: &str, load: Load| {
        let rate = |bytes_per_s: f64, share: Option<f64>| {
            let share = share.map(|of_limit| format!(" ({})", words::share(of_limit)));
            let rate = Unit::BytesPerSecond.words(bytes_per_s);
            Cell::number(format!("{rate}{}", share.unwrap_or_default()), bytes_per_s)
        };
        vec![
            name.into(),
            rate(load.mean_bytes_per_s, load.mean_share),
            rate(load.max_bytes_per_s, load.max_share),
        ]
    };
    let count = |name: &str, Count { mean, max }: Count| {
        let mean = Cell::number(words::three_digits(mean), mean);
        vec![name.into(), mean, Unit::Count.cell(max)]
    };
    let mut rows = vec![
        load("load of the link, up", network.up),
        load("load of the link, down", network.down),
        count("transfers at once", network.transfers),
    ];
    let server = &record.scenario.network.server;
    let mut text = match *server == ServerLinkSpec::default() {
        true => "The server's link has no limit, so every transfer counts with its mean rate.",
        false => "Shares are of what the link can carry.",
    }
    .to_owned();
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
    let waiting = count("users that the server waits for", network.waiting_users);
    rows.push(waiting);
    let heading = match *server == ServerLinkSpec::default() {
        true => Block::Quiet("The server".to_owned()),
        false => Block::heading("The server"),
    };
    let mut blocks = vec![heading];
    let charts = [charts::load(over_time), charts::crowd(over_time)];
    blocks.extend(charts.into_iter().flatten().map(Block::from));
    let caption = "The server over the whole run.";
    let header = ["what", "mean over time", "maximum"];
    blocks.push(Block::Table(Table::new(caption, header, rows)));
    let text = format!("{text} The figures of every round are in `network.csv`.");
    blocks.push(Block::Text(text));
    blocks
}
