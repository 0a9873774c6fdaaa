//! Writes the short summary that a run leaves on the terminal: a few lines that `summary.md` has
//! too.

use std::path::Path;

use super::column::Place;
use super::document::{Block, Document};
use super::record::{Accuracy, Flow, RunRecord};
use super::run::head;
use super::{metrics, rounds, setup, words};
use fedrecsim_core::Bytes;
use fedrecsim_core::metric::Metric;

/// Returns accuracy beside the baselines with its protocol, bytes, virtual time, wall time, and
/// where the report is if there is one, in a few lines with a line break at the end. They fit a
/// terminal of this many columns, if these are known.
pub fn summary(record: &RunRecord, report: Option<&Path>, columns: Option<usize>) -> String {
    let mut blocks = setup::caveats_of_the_run(record);
    let mut lines = accuracy(record);
    let mut entry = |name: &str, text: String| lines.push((name.to_owned(), text));
    entry("protocol", record.protocol.clone());
    if record.participations.invited > 0 {
        entry("rounds", record.policy.name.to_string());
        entry("invited", participations(record));
        if let Some(excluded) = setup::excluded(record) {
            entry("excluded", excluded);
        }
    }
    entry("up", traffic(&record.bytes.up, 0));
    let unused = record.work.unused_download_bytes;
    entry("down", traffic(&record.bytes.down, unused));
    if let Some(bytes) = record.third_party_bytes {
        let (up, down) = (Bytes::new(bytes.up.sent), Bytes::new(bytes.down.sent));
        let text = format!("{up} of the bytes up, {down} of the bytes down");
        entry("third party", text);
    }
    if let Some(energy) = record.energy {
        let [total, unused] = [energy.total_j(), energy.unused_j].map(words::energy);
        entry(
            "energy",
            format!("{total}, {unused} of it for updates that were not used"),
        );
    }
    if let Some(carbon) = record.carbon {
        entry("CO2", words::mass(carbon.devices_g + carbon.server_g));
    }
    if let Some(used) = server_link(record) {
        entry("server link", used);
    }
    entry("virtual time", words::duration(record.virtual_time_s));
    entry("wall time", wall(record));
    entry("digest", record.digest.clone());
    if let Some(report) = report {
        entry("report", report.display().to_string());
    }
    blocks.push(Block::List(lines));
    // The summary file explains what makes the figures optimistic; here it must be impossible to
    // miss.
    let see = if report.is_some() {
        " See summary.md."
    } else {
        ""
    };
    let rounds = rounds::frame(record, Place::Rounds);
    let doubts = head::doubts(record, &rounds);
    let doubts = doubts.iter().map(|doubt| doubt.note(None));
    let caveats = setup::protocol_caveats(&record.scenario, record.draws_negatives);
    for caveat in caveats.into_iter().chain(doubts) {
        if let Block::Note { title, .. } = caveat {
            blocks.push(Block::Text(format!("note: {title}{see}")));
        }
    }
    let document = Document {
        answer: head::answer(record),
        title: format!(
            "{}: {}, seed {}, {} of {} rounds",
            record.name,
            record.scenario.method.name,
            record.seed,
            record.rounds,
            record.scenario.training.rounds
        ),
        blocks,
    };
    document.terminal(columns)
}

/// Returns how much of what it can carry the server's link carried on average; `None` if it has no
/// limit.
fn server_link(record: &RunRecord) -> Option<String> {
    let network = record.network?;
    let sides = [
        ("down", network.down.mean_share),
        ("up", network.up.mean_share),
    ];
    let used = sides
        .into_iter()
        .filter_map(|(side, used)| Some(format!("{side} {}", words::share(used?))));
    let used: Vec<String> = used.collect();
    (!used.is_empty()).then(|| format!("{} of what it can carry, on average", used.join(", ")))
}

/// Returns the headline metric and its companion on the test part, beside those of the baselines.
fn accuracy(record: &RunRecord) -> Vec<(String, String)> {
    let headlines = metrics::headlines(&record.scenario.evaluation);
    let row = |name: &str, of: &dyn Fn(&Metric) -> String, remark: &str| {
        let cells: String = headlines
            .iter()
            .map(|metric| format!("{:<9} ", of(metric)))
            .collect();
        (
            name.to_owned(),
            format!("{cells}{remark}").trim_end().to_owned(),
        )
    };
    let values = |name: &str, test: &Accuracy, remark: &str| {
        let value = |metric: &Metric| {
            let value = test.get(&metric.name());
            value.map_or_else(|| "-".to_owned(), |value| words::accuracy(*value))
        };
        row(name, &value, remark)
    };
    let method = &record.scenario.method.name;
    let mut lines = vec![row("test", &Metric::label, "")];
    lines.push(match record.selected_round {
        Some(round) => values(method, &record.accuracy.test, &format!("round {round}")),
        None if record.rounds == 0 => (method.clone(), "no round was finished".to_owned()),
        None => (method.clone(), "no finished round was evaluated".to_owned()),
    });
    let baselines = record.baselines.iter();
    lines.extend(baselines.map(|(name, split)| values(name, &split.test, "baseline")));
    lines
}

/// Describes the bytes of one direction. `unused` of the useful ones were of no use in the end.
fn traffic(flow: &Flow, unused: u64) -> String {
    let unused = (flow.sent - flow.useful.min(flow.sent)) + unused;
    format!(
        "{} sent in {} frames, {} not used ({})",
        Bytes::new(flow.sent),
        words::thousands(flow.frames),
        Bytes::new(unused),
        words::percent(unused, flow.sent),
    )
}

/// Returns what became of the participations.
fn participations(record: &RunRecord) -> String {
    let totals = &record.participations;
    let fates = [
        (totals.aggregated, "used"),
        (totals.lost, "lost"),
        (totals.cancelled, "cancelled"),
        (totals.late, "late or stale"),
        (totals.under_way, "under way at the end"),
    ];
    let fates: Vec<String> = fates
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{} {name}", words::thousands(count)))
        .collect();
    format!("{}: {}", words::thousands(totals.invited), fates.join(", "))
}

fn wall(record: &RunRecord) -> String {
    let wall = &record.wall;
    let memory = wall.peak_rss_bytes.map_or_else(String::new, |rss| {
        format!(", peak memory {}", Bytes::new(rss))
    });
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
    use crate::tests::records as sample;

    const FOLDER: &str = "reports/ml100k-fedrap-1";

    #[test]
    fn a_run_is_summed_up_like_this() {
        let text = summary(&sample::interrupted(12, 60), Some(Path::new(FOLDER)), None);
        insta::assert_snapshot!(text);
    }

    /// If this fails, a narrow terminal breaks lines of the summary in the middle of a word.
    #[test]
    fn a_summary_fits_sixty_columns_without_a_broken_word() {
        let on = |folder, columns| {
            let record = sample::interrupted(12, 60);
            summary(&record, Some(Path::new(folder)), columns)
        };
        let whole = on(FOLDER, None);
        assert_eq!(on(FOLDER, Some(200)), whole);
        let narrow = on(FOLDER, Some(60));
        insta::assert_snapshot!(narrow);
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 60),
            "{narrow}"
        );
        let words = |text: &str| -> Vec<String> {
            let is_digest =
                |word: &str| word.len() > 30 && word.bytes().all(|digit| digit.is_ascii_hexdigit());
            let kept = text
                .split_whitespace()
                .filter(|word| !is_digest(word) && *word != "...");
            kept.map(str::to_owned).collect()
        };
        assert_eq!(words(&narrow), words(&whole));
        assert!(
            on(&"folder/".repeat(12), Some(60)).contains("\n  report\n    folder/folder/"),
            "a path is whole, on a line of its own"
        );
    }

    #[test]
    fn a_run_without_a_round_shows_the_baselines_and_why_it_stopped() {
        let folder = Path::new("reports/x");
        let text = summary(&sample::nothing_finished(), Some(folder), None);
        for part in [
            "0 of 60 rounds",
            "no round was finished",
            "popularity",
            "0.4110",
            "diverged in round 1",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
    }
}
