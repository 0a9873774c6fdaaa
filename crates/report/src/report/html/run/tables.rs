//! The tables of a run's page.

use crate::report::cost::{self, Milestone};
use crate::report::figures;
use crate::report::html::Part;
use crate::report::html::chart::{MOST_POINTS, drawn};
use crate::report::html::table::{Cell, Table};
use crate::report::ledger_lines::{self, LedgerLine};
use crate::report::load::Count;
use crate::report::record::{
    AuditFigures, Flow, RoundRecord, RunRecord, SPARSITY_THRESHOLDS, SplitAccuracy,
};
use crate::report::words::{self, percent};
use fedrecsim_core::units::Bytes;

/// The most rounds that the table of rounds shows at first.
const OPEN_AT_MOST: usize = 30;

fn part(caption: impl Into<String>, header: &[&str], rows: Vec<Vec<Cell>>) -> Part {
    Part::Table(Table {
        rows,
        ..Table::new(caption, header)
    })
}

/// Returns the protocol as a part of a caption.
fn protocol(record: &RunRecord) -> String {
    format!("Protocol: {}.", record.protocol.trim_end_matches('.'))
}

/// Returns all figures of accuracy at the selected round and at the last one, beside the baselines.
pub(super) fn accuracy(record: &RunRecord) -> Option<Part> {
    let method = &record.scenario.method.name;
    let mut columns: Vec<(String, &SplitAccuracy)> = Vec::new();
    if let Some(round) = record.selected_round {
        columns.push((format!("{method}, round {round}"), &record.accuracy));
    }
    let last = record
        .per_round
        .iter()
        .rev()
        .find_map(|round| Some((round.round, round.accuracy.as_ref()?)));
    if let Some((round, split)) = last.filter(|(round, _)| Some(*round) != record.selected_round) {
        columns.push((format!("{method}, round {round}"), split));
    }
    columns.extend(
        record
            .baselines
            .iter()
            .map(|(name, split)| (name.clone(), split)),
    );
    let mut rows = Vec::new();
    for wanted in ["test", "validation"] {
        let splits = columns
            .iter()
            .flat_map(|(_, split)| figures::splits(split))
            .filter(|(of, _)| *of == wanted);
        for name in figures::ordered(splits.flat_map(|(_, figures)| figures.keys())) {
            let of = |split: &SplitAccuracy| {
                figures::splits(split)
                    .find(|(of, _)| *of == wanted)
                    .and_then(|(_, figures)| figures.get(name).copied())
            };
            let cells = columns.iter().map(|(_, split)| Cell::accuracy(of(split)));
            rows.push(
                [Cell::from(format!("{} ({wanted})", figures::label(name)))]
                    .into_iter()
                    .chain(cells)
                    .collect(),
            );
        }
    }
    let header: Vec<&str> = ["figure"]
        .into_iter()
        .chain(columns.iter().map(|(name, _)| name.as_str()))
        .collect();
    let users = words::counted(record.size.evaluated_users, "user");
    let caption = format!("Accuracy, as means over {users}. {}", protocol(record));
    (!rows.is_empty()).then(|| part(caption, &header, rows))
}

/// Returns what it had cost to reach a goal.
pub(super) fn milestones(record: &RunRecord) -> Option<Part> {
    let row = |Milestone { goal, reached }: Milestone| match reached {
        None => [
            vec![goal.into(), "never reached".into()],
            vec![Cell::none(); 4],
        ]
        .concat(),
        Some((figure, cost)) => vec![
            goal.into(),
            Cell::count(cost.round.into()),
            Cell::accuracy(Some(figure)),
            Cell::bytes(cost.up_bytes),
            Cell::bytes(cost.down_bytes),
            Cell::duration(cost.virtual_time_s),
        ],
    };
    let rows: Vec<Vec<Cell>> = cost::milestones(record).into_iter().map(row).collect();
    let headline = record
        .scenario
        .evaluation
        .headline()
        .map_or_else(String::new, |headline| headline.label());
    let header = [
        "goal",
        "round",
        &format!("{headline} (test)"),
        "sent up",
        "sent down",
        "virtual time",
    ];
    let caption = format!(
        "What it had cost from the start of the run to reach a goal. {}",
        protocol(record)
    );
    (!rows.is_empty()).then(|| part(caption, &header, rows))
}

/// Returns the bytes by direction, fate and content.
pub(super) fn ledger(record: &RunRecord) -> Part {
    let (up, down) = (&record.bytes.up, &record.bytes.down);
    if up.sent + down.sent == 0 {
        return Part::Text("Nothing was sent.".to_owned());
    }
    let line = |(name, of): LedgerLine| {
        let cell = |flow: &Flow| {
            let (bytes, share) = (of(flow), percent(of(flow), flow.sent));
            Cell::number(format!("{} ({share})", Bytes::new(bytes)), bytes)
        };
        vec![Cell::from(name), cell(up), cell(down)]
    };
    let [useful, others @ ..] = ledger_lines::fates();
    let unused = Cell::bytes(record.work.unused_download_bytes);
    let mut rows = vec![line(("sent", |flow| flow.sent)), line(useful)];
    rows.push(vec![
        "of it for updates that were not used".into(),
        Cell::none(),
        unused,
    ]);
    rows.extend(
        others
            .into_iter()
            .chain(ledger_lines::contents(&record.bytes))
            .map(line),
    );
    rows.push(vec![
        "frames".into(),
        Cell::count(up.frames),
        Cell::count(down.frames),
    ]);
    part(
        "The ledger of bytes; shares are of the bytes sent in the direction.",
        &["bytes", "up", "down"],
        rows,
    )
}

/// Returns what became of the participations; `None` if there were none.
pub(super) fn participations(record: &RunRecord) -> Option<Part> {
    let totals = &record.participations;
    let row = |name: &str, count: u64| {
        vec![
            Cell::from(name),
            Cell::count(count),
            Cell::number(percent(count, totals.invited), count),
        ]
    };
    let mut rows = vec![
        row("invited", totals.invited),
        row("used in an average", totals.aggregated),
        row("lost (dropouts, departures, faults)", totals.dropped),
        row("of it dropouts", record.losses.dropouts),
        row("of it departures", record.losses.departures),
    ];
    for fault in &record.losses.faults {
        let what = fault.preset.as_ref().unwrap_or(&fault.effect);
        rows.push(row(
            &format!("of it by `faults[{}]` (`{what}`)", fault.rule),
            fault.lost,
        ));
    }
    rows.extend([
        row("cancelled by the server", totals.cancelled),
        row("late or stale: arrived, not used", totals.late),
        row("of it stale: from a model too old to be used", totals.stale),
        row("under way when the last round ended", totals.under_way),
    ]);
    let caption = format!(
        "Participations in {}.",
        words::counted(record.rounds.into(), "finished round")
    );
    (totals.invited > 0).then(|| part(caption, &["what became of them", "number", "share"], rows))
}

/// Returns the load of the server over the whole run.
pub(super) fn server(record: &RunRecord) -> Option<Part> {
    let network = record.network?;
    let rate = |bytes_per_s: f64, share: Option<f64>| {
        let share = share.map_or_else(String::new, |of_limit| {
            format!(" ({})", words::share(of_limit))
        });
        Cell::number(
            format!("{}/s{share}", Bytes::new(bytes_per_s.round() as u64)),
            bytes_per_s,
        )
    };
    let count = |name: &str, Count { mean, max }: Count| {
        vec![
            Cell::from(name),
            Cell::number(words::three_digits(mean), mean),
            Cell::count(max),
        ]
    };
    let rows = [
        ("load of the link, up", network.up),
        ("load of the link, down", network.down),
    ]
    .map(|(name, load)| {
        let [mean, max] = [
            (load.mean_bytes_per_s, load.mean_share),
            (load.max_bytes_per_s, load.max_share),
        ];
        vec![Cell::from(name), rate(mean.0, mean.1), rate(max.0, max.1)]
    })
    .into_iter()
    .chain([
        count("transfers at once", network.transfers),
        count("users in line for a connection", network.line),
        count("users that the server waits for", network.waiting_users),
    ])
    .collect();
    let caption =
        "The server over the whole run. Shares are of what the link can carry, if it has a limit.";
    Some(part(caption, &["what", "mean over time", "maximum"], rows))
}

/// Returns how long the phases of participations took; `None` if none took time.
pub(super) fn durations(record: &RunRecord) -> Option<Part> {
    if record
        .durations
        .values()
        .all(|duration| duration.max_s == 0.0)
    {
        return None;
    }
    let row = |(name, d): (&String, &crate::report::record::Distribution)| {
        let times = [d.mean_s, d.min_s, d.p50_s, d.p90_s, d.p99_s, d.max_s].map(Cell::duration);
        [Cell::from(name.as_str()), Cell::count(d.count)]
            .into_iter()
            .chain(times)
            .collect()
    };
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
    Some(part(
        "Virtual time by phase.",
        &header,
        record.durations.iter().map(row).collect(),
    ))
}

/// Returns the sparsity of the shared table in the selected round, or in the last one that has such
/// figures.
pub(super) fn sparsity(record: &RunRecord) -> Option<Part> {
    let of_round = |number| {
        record
            .per_round
            .iter()
            .find(|r| Some(r.round) == number && r.sparsity.is_some())
    };
    let round = of_round(record.selected_round)
        .or_else(|| record.per_round.iter().rev().find(|r| r.sparsity.is_some()))?;
    let measured = round.sparsity?;
    let share = |share: f64| Cell::number(words::share(share), share);
    let rows = SPARSITY_THRESHOLDS
        .iter()
        .zip(measured.uploads.iter().zip(&measured.averaged));
    let rows = rows.map(|(threshold, (uploads, averaged))| {
        let name = if *threshold == 0.0 {
            "0".to_owned()
        } else {
            format!("{threshold:e}")
        };
        vec![name.into(), share(*uploads), share(*averaged)]
    });
    let caption = format!(
        "Share of values above a threshold in round {}.",
        round.round
    );
    Some(part(
        caption,
        &["magnitude above", "in the uploads", "in the average"],
        rows.collect(),
    ))
}

/// Returns what a server could have read out of uploads; nothing without an audit.
pub(super) fn audit(record: &RunRecord) -> Vec<Part> {
    let Some(audit) = record.audit else {
        return Vec::new();
    };
    let cells = |figures: Option<&AuditFigures>| match figures {
        Some(AuditFigures { auc, precision }) => {
            [auc, precision].map(|figure| Cell::number(format!("{figure:.3}"), figure))
        }
        None => [Cell::none(), Cell::none()],
    };
    let scores = [
        ("a changed row", audit.presence),
        ("how far the row moves", audit.norm),
        (
            "how much it moves against the mean of the changes",
            audit.against_mean,
        ),
    ];
    let rows = scores.iter().enumerate().map(|(place, (name, figures))| {
        let linked = audit.linked.as_ref().map(|linked| &linked[place]);
        [
            vec![Cell::from(*name)],
            cells(Some(figures)).into(),
            cells(linked).into(),
        ]
        .concat()
    });
    let header = [
        "guessed by",
        "AUC, one upload",
        "precision",
        "AUC, all uploads of a user",
        "precision",
    ];
    let caption = format!(
        "How well a probe that sees decoded uploads alone guessed which items their senders had rated, in {}. An AUC of \
         0.5 is no better than a guess at random.",
        words::counted(audit.users, "upload")
    );
    let mut parts = vec![
        Part::Heading("What uploads give away".to_owned()),
        part(caption, &header, rows.collect()),
    ];
    if let Some(share) = audit.outer_product {
        parts.push(Part::Text(format!(
            "Of the outer product of its vector with itself that a user uploads, the largest eigenvalue has {share:.4} of \
             the trace. At 1, the upload gives the vector away up to its sign."
        )));
    }
    parts
}

/// Returns the rounds, which can be sorted; `None` if none was finished.
pub(super) fn rounds(record: &RunRecord) -> Option<Part> {
    let columns = figures::of_all_rounds(record);
    let mut header: Vec<String> = [
        "round",
        "virtual time",
        "took",
        "invited",
        "used",
        "lost",
        "late",
        "loss",
    ]
    .map(String::from)
    .into();
    header.extend(
        columns
            .iter()
            .map(|(split, name)| format!("{} ({split})", figures::label(name))),
    );
    header.extend(["sent up", "sent down", "up so far", "down so far"].map(String::from));
    let number =
        |value: Option<f64>| value.map_or_else(Cell::none, |v| Cell::number(format!("{v:.5}"), v));
    let row = |(round, cost): (&RoundRecord, cost::Cost)| -> Vec<Cell> {
        let mut cells = vec![
            Cell::count(round.round.into()),
            Cell::duration(round.virtual_time_s),
            Cell::duration(round.duration_s),
            Cell::count(round.invited.into()),
            Cell::count(round.aggregated.into()),
            Cell::count(round.dropped.into()),
            Cell::count(round.late.into()),
            number(round.loss),
        ];
        for (split, name) in &columns {
            let measured = round.accuracy.as_ref();
            let figures =
                measured.and_then(|measured| figures::splits(measured).find(|(of, _)| of == split));
            cells.push(Cell::accuracy(
                figures.and_then(|(_, figures)| figures.get(*name).copied()),
            ));
        }
        let bytes = [
            round.bytes.up.sent,
            round.bytes.down.sent,
            cost.up_bytes,
            cost.down_bytes,
        ];
        cells.extend(bytes.map(Cell::bytes));
        cells
    };
    let all: Vec<(&RoundRecord, cost::Cost)> = record
        .per_round
        .iter()
        .zip(cost::by_round(record))
        .collect();
    let selected = all
        .iter()
        .position(|(round, _)| Some(round.round) == record.selected_round);
    let places = drawn(all.len(), MOST_POINTS, selected);
    let rows: Vec<Vec<Cell>> = places.iter().map(|place| row(all[*place])).collect();
    let line = match all.len() <= MOST_POINTS {
        true => format!(
            "Every finished round: {}",
            words::counted(all.len() as u64, "row")
        ),
        false => format!(
            "{} of {} finished rounds, at equal distances; `rounds.csv` has all",
            words::thousands(rows.len() as u64),
            words::thousands(all.len() as u64)
        ),
    };
    let caption = format!(
        "Finished rounds; the name of a column sorts by it. {}",
        protocol(record)
    );
    let table = Table {
        caption,
        header,
        rows,
        is_sortable: true,
    };
    (!all.is_empty()).then_some(Part::Folded {
        line,
        is_open: all.len() <= OPEN_AT_MOST,
        table,
    })
}
