//! Writes the short summary that a run leaves on the terminal: a few lines, all of which `summary.md` tells too.

use std::path::Path;

use super::figures;
use super::record::{Figures, Flow, RunRecord};
use super::{setup, words};
use crate::units::Bytes;

/// Returns accuracy beside the baselines with its protocol, bytes, virtual time, wall time, and where the report is, in
/// a few lines with a line break at the end.
pub fn summary(record: &RunRecord, report: &Path) -> String {
    let mut lines = vec![format!(
        "{}: {}, seed {}, {} of {} rounds",
        record.name, record.scenario.method.name, record.seed, record.rounds, record.scenario.training.rounds
    )];
    let failures = setup::incomplete(record).into_iter().chain(setup::learned_nothing(record));
    lines.extend(failures.map(|caveat| format!("{} {}", caveat.headline, caveat.text)));
    lines.extend(accuracy(record));
    lines.push(entry("protocol", &record.protocol));
    lines.extend(participations(record));
    lines.push(entry("up", &traffic(&record.bytes.up, 0)));
    lines.push(entry("down", &traffic(&record.bytes.down, record.work.unused_download_bytes)));
    lines.extend(record.third_party_bytes.map(|bytes| {
        let (up, down) = (Bytes::new(bytes.up.sent), Bytes::new(bytes.down.sent));
        entry("third party", &format!("{up} of the bytes up, {down} of the bytes down"))
    }));
    lines.extend(record.energy.map(|energy| {
        let (total, wasted) = (words::energy(energy.total_j()), words::energy(energy.wasted_j));
        entry("energy", &format!("{total}, {wasted} of it on what was of no use"))
    }));
    lines.extend(setup::server_link_use(record).map(|used| entry("server link", &used)));
    lines.push(entry("virtual time", &words::duration(record.virtual_time_s)));
    lines.push(entry("wall time", &wall(record)));
    lines.push(entry("digest", &record.digest));
    lines.push(entry("report", &report.display().to_string()));
    // The summary file explains what makes the figures optimistic; here it must be impossible to miss.
    for caveat in setup::protocol_caveats(&record.scenario) {
        lines.push(format!("note: {} See summary.md.", caveat.headline));
    }
    lines.join("\n") + "\n"
}

fn entry(name: &str, text: &str) -> String {
    format!("  {name:<14}{text}")
}

fn accuracy(record: &RunRecord) -> Vec<String> {
    let headlines = figures::headlines(&record.scenario.evaluation);
    let row = |name: &str, figures: &Figures, remark: &str| {
        let cells: Vec<String> = headlines
            .iter()
            .map(|metric| figures.get(&metric.name()).map_or_else(|| "-".to_owned(), |&value| words::accuracy(value)))
            .map(|cell| format!("{cell:<9} "))
            .collect();
        format!("  {name:<14}{}{remark}", cells.concat()).trim_end().to_owned()
    };
    let header: String = headlines.iter().map(|metric| format!("{:<9} ", metric.label())).collect();
    let mut lines = vec![entry("test", header.trim_end())];
    match record.selected_round {
        Some(round) => {
            lines.push(row(&record.scenario.method.name, &record.accuracy.test, &format!("round {round}")));
        }
        None => lines.push(entry(&record.scenario.method.name, "no round was finished")),
    }
    for (name, baseline) in &record.baselines {
        lines.push(row(name, &baseline.test, "baseline"));
    }
    lines
}

/// Describes the bytes of one direction. `unused` of the useful ones were of no use in the end.
fn traffic(flow: &Flow, unused: u64) -> String {
    let wasted = (flow.sent - flow.useful.min(flow.sent)) + unused;
    format!(
        "{} sent in {} frames, {} not used ({})",
        Bytes::new(flow.sent),
        words::thousands(flow.frames),
        Bytes::new(wasted),
        words::percent(wasted, flow.sent),
    )
}

/// Returns lines on what became of the participations and who takes no part; empty if nobody was invited.
fn participations(record: &RunRecord) -> Vec<String> {
    let totals = &record.participations;
    if totals.invited == 0 {
        return Vec::new();
    }
    let fates = [
        (totals.aggregated, "used"),
        (totals.dropped, "lost"),
        (totals.cancelled, "cancelled"),
        (totals.late, "late or stale"),
        (totals.under_way, "under way at the end"),
    ];
    let fates: Vec<String> = fates
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{} {name}", words::thousands(count)))
        .collect();
    let mut lines = vec![
        entry("rounds", &record.policy.name),
        entry("invited", &format!("{}: {}", words::thousands(totals.invited), fates.join(", "))),
    ];
    lines.extend(setup::excluded(record).map(|text| entry("excluded", &text)));
    lines
}

fn wall(record: &RunRecord) -> String {
    let wall = &record.wall;
    let memory = wall.peak_rss_bytes.map_or_else(String::new, |rss| format!(", peak memory {}", Bytes::new(rss)));
    format!(
        "{} on {} threads, {} per round{memory}",
        words::duration(wall.total_s),
        wall.threads,
        words::duration(wall.per_round_ms / 1e3),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn a_run_is_summed_up_like_this() {
        let text = summary(&sample::interrupted(12, 60), Path::new("reports/ml100k-fedrap-1"));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_run_without_a_round_shows_the_baselines_and_why_it_stopped() {
        let text = summary(&sample::nothing_finished(), Path::new("reports/x"));
        for part in ["0 of 60 rounds", "no round was finished", "popularity", "0.4110", "diverged in round 1"] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
    }
}
