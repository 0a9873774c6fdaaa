//! Writes `network.csv`, which has one flat row per finished round about the server's link.

use super::load::{Load, NetworkSummary};
use super::record::RunRecord;
use super::{check, csv as table};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_sim::sim::outcome::network::{NetworkRecord, Waits};

/// Returns the rounds as CSV text with a header line, with the units in the column names. A cell is
/// empty where there is no such figure: the share of a link without a limit, and the means of a
/// round that took no time.
///
/// # Errors
/// The same as those of [`check::check`].
pub(crate) fn render(record: &RunRecord) -> Result<String> {
    check::check(record)?;
    let failed = |error: csv::Error| Error::write("network.csv", error.into());
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(header()).map_err(failed)?;
    for round in &record.per_round {
        let figures = NetworkSummary::of(&round.network, &record.scenario.network);
        let mut cells = vec![round.round.to_string()];
        cells.extend(
            [round.network.began, round.network.ended].map(|time| time.as_secs_f64().to_string()),
        );
        cells.extend(row(figures, &round.network));
        writer.write_record(cells).map_err(failed)?;
    }
    table::finished("network.csv", writer)
}

fn header() -> Vec<String> {
    let mut names = ["round", "virtual_begin_s", "virtual_end_s"]
        .map(String::from)
        .to_vec();
    for direction in ["up", "down"] {
        let figures = [
            "mean_bytes_per_s",
            "max_bytes_per_s",
            "mean_share",
            "max_share",
        ];
        names.extend(figures.map(|figure| format!("{direction}_{figure}")));
    }
    let counts = ["transfers", "line", "waiting_users"];
    names.extend(
        counts
            .iter()
            .flat_map(|count| [format!("{count}_mean"), format!("{count}_max")]),
    );
    let waits = ["count", "total_s", "p50_s", "p95_s", "max_s"];
    names.extend(waits.map(|figure| format!("line_wait_{figure}")));
    names
}

fn row(figures: Option<NetworkSummary>, record: &NetworkRecord) -> Vec<String> {
    let text = |figure: Option<f64>| figure.map(|figure| figure.to_string()).unwrap_or_default();
    let load = |load: Option<Load>| {
        [
            text(load.map(|load| load.mean_bytes_per_s)),
            text(load.map(|load| load.max_bytes_per_s)),
            text(load.and_then(|load| load.mean_share)),
            text(load.and_then(|load| load.max_share)),
        ]
    };
    let mut cells = load(figures.map(|figures| figures.up)).to_vec();
    cells.extend(load(figures.map(|figures| figures.down)));
    let levels = &record.levels;
    for (count, level) in [
        (figures.map(|figures| figures.transfers), levels.transfers),
        (figures.map(|figures| figures.line), levels.line),
        (
            figures.map(|figures| figures.waiting_users),
            levels.waiting_users,
        ),
    ] {
        cells.extend([text(count.map(|count| count.mean)), level.max.to_string()]);
    }
    let Waits {
        count,
        total_s,
        p50_s,
        p95_s,
        max_s,
    } = record.waits;
    cells.push(count.to_string());
    // Of no waits at all, the sum is 0, and there is neither a quantile nor a maximum.
    let quantile = |figure| text(Some(figure).filter(|_| count > 0));
    cells.extend([
        total_s.to_string(),
        quantile(p50_s),
        quantile(p95_s),
        quantile(max_s),
    ]);
    cells
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::report::sample;
    use fedrecsim_core::units::BitsPerSecond;

    #[test]
    fn the_table_reads_like_this() {
        let mut record = sample::run(2);
        record.scenario.network.server.downlink = Some(BitsPerSecond::new(1_000_000_000));
        record.per_round[1].network.waits = Waits::default();
        insta::assert_snapshot!(render(&record).unwrap());
    }
}
