//! Writes `summary.md`, which tells a researcher what was run, how accurate it was, and what that
//! cost.
//!
//! Every section is a function from the record to Markdown; a section with nothing to say is left
//! out.

use super::charts::file_names;
use super::cost::{self, Milestone};
use super::record::{RunRecord, SPARSITY_THRESHOLDS, Sparsity, SplitAccuracy};
use super::setup::{self, Caveat};
use super::words::{self, share, thousands};
use super::{check, figures};
use fedrecsim_core::error::Result;
use fedrecsim_core::units::Bytes;

mod audit;
mod bytes;
mod systems;

/// Returns the summary as Markdown.
///
/// # Errors
/// The same as those of [`check::check`], and of
/// [`Scenario::to_toml`](fedrecsim_scenario::scenario::Scenario::to_toml).
pub(crate) fn render(record: &RunRecord) -> Result<String> {
    check::check(record)?;
    let mut blocks = vec![format!("# {}, seed {}", record.name, record.seed)];
    let caveats = setup::caveats_of_the_run(record)
        .into_iter()
        .chain(setup::protocol_caveats(
            &record.scenario,
            record.draws_negatives,
        ));
    let caveats = caveats
        .chain(setup::assumptions(&record.scenario))
        .chain(setup::warnings(record));
    blocks.extend(caveats.map(|Caveat { headline, text }| format!("> **{headline}** {text}")));
    blocks.push(what_was_run(record));
    blocks.push(accuracy(record));
    blocks.extend(cost_of_accuracy(record));
    blocks.extend(systems::participations(record));
    blocks.push(bytes::section(record));
    blocks.extend(systems::energy(record));
    blocks.extend(virtual_time(record));
    blocks.extend(systems::server(record));
    blocks.extend(sparsity(record));
    blocks.extend(audit::section(record));
    blocks.push(charts(record));
    blocks.push(reproduce(record));
    blocks.push(scenario(record)?);
    Ok(blocks.join("\n\n") + "\n")
}

/// Returns a Markdown table, with the first column aligned to the left and the others, which are
/// numbers, to the right.
fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
    let header: Vec<String> = header.iter().map(|cell| (*cell).to_owned()).collect();
    let rule: Vec<String> = (0..header.len())
        .map(|i| if i == 0 { "---" } else { "---:" }.to_owned())
        .collect();
    let mut lines = vec![line(&header), line(&rule)];
    lines.extend(rows.iter().map(|row| line(row)));
    lines.join("\n")
}

fn what_was_run(record: &RunRecord) -> String {
    let rows: Vec<String> = setup::describe(record)
        .into_iter()
        .map(|(what, text)| format!("- **{what}:** {text}"))
        .collect();
    format!(
        "## What was run\n\n{}\n\nThe whole scenario, with presets resolved, is the last section.",
        rows.join("\n")
    )
}

/// Returns the scenario as it was resolved, which `scenario.toml` holds as well.
fn scenario(record: &RunRecord) -> Result<String> {
    Ok(format!(
        "## Scenario\n\n```toml\n{}```",
        record.scenario.to_toml()?
    ))
}

fn accuracy(record: &RunRecord) -> String {
    let Some(round) = record.selected_round else {
        let rows = accuracy_rows(record, &[]);
        let text = "No round was finished, so there is no accuracy to report; the baselines need no training.";
        return format!(
            "## Accuracy\n\n{text}\n\n{}\n\n{}",
            protocol(record),
            table(&accuracy_header(record, &[]), &rows)
        );
    };
    let method = format!("{}, round {round}", record.scenario.method.name);
    let columns = [(method.as_str(), &record.accuracy)];
    format!(
        "## Accuracy\n\n{}\n\n{}\n\nMeans over {} users. The round is {}.",
        protocol(record),
        table(
            &accuracy_header(record, &columns),
            &accuracy_rows(record, &columns)
        ),
        thousands(record.size.evaluated_users),
        setup::selection(&record.scenario.evaluation),
    )
}

fn protocol(record: &RunRecord) -> String {
    format!("Protocol: {}.", record.protocol.trim_end_matches('.'))
}

fn accuracy_header<'a>(
    record: &'a RunRecord,
    columns: &[(&'a str, &'a SplitAccuracy)],
) -> Vec<&'a str> {
    let methods = columns.iter().map(|(name, _)| *name);
    std::iter::once("")
        .chain(methods)
        .chain(record.baselines.keys().map(String::as_str))
        .collect()
}

fn accuracy_rows(record: &RunRecord, columns: &[(&str, &SplitAccuracy)]) -> Vec<Vec<String>> {
    let all: Vec<&SplitAccuracy> = columns
        .iter()
        .map(|(_, split)| *split)
        .chain(record.baselines.values())
        .collect();
    let mut rows = Vec::new();
    for wanted in ["test", "validation"] {
        let of = |split: &SplitAccuracy, name: &str| {
            figures::splits(split)
                .find(|(of, _)| *of == wanted)
                .and_then(|(_, figures)| figures.get(name).copied())
        };
        let names = all
            .iter()
            .flat_map(|s| figures::splits(s))
            .filter(|(of, _)| *of == wanted);
        for name in figures::ordered(names.flat_map(|(_, figures)| figures.keys())) {
            let cells = all
                .iter()
                .map(|split| of(split, name).map_or_else(|| "-".to_owned(), words::accuracy));
            rows.push(
                std::iter::once(format!("{} ({wanted})", figures::label(name)))
                    .chain(cells)
                    .collect(),
            );
        }
    }
    rows
}

fn cost_of_accuracy(record: &RunRecord) -> Option<String> {
    let free = record.bytes.up.sent + record.bytes.down.sent == 0 && record.virtual_time_s == 0.0;
    if record.per_round.is_empty() || free {
        return None;
    }
    let rows: Vec<Vec<String>> = cost::milestones(record)
        .into_iter()
        .map(|Milestone { goal, reached }| match reached {
            None => vec![
                goal,
                "-".into(),
                "never reached".into(),
                "-".into(),
                "-".into(),
                "-".into(),
            ],
            Some((figure, cost)) => vec![
                goal,
                cost.round.to_string(),
                words::accuracy(figure),
                Bytes::new(cost.up_bytes).to_string(),
                Bytes::new(cost.down_bytes).to_string(),
                words::duration(cost.virtual_time_s),
            ],
        })
        .collect();
    let figure = record
        .scenario
        .evaluation
        .headline()
        .map_or_else(String::new, |headline| headline.label());
    let figure = format!("{figure} (test)");
    let header = [
        "",
        "round",
        figure.as_str(),
        "sent up",
        "sent down",
        "virtual time",
    ];
    Some(format!(
        "## What the accuracy cost\n\n{} Bytes and time are counted from the start of the run.\n\n{}",
        protocol(record),
        table(&header, &rows)
    ))
}

fn virtual_time(record: &RunRecord) -> Option<String> {
    // A method that neither travels nor trains takes no time, and a table of zeros tells nothing.
    if record
        .durations
        .values()
        .all(|duration| duration.max_s == 0.0)
    {
        return None;
    }
    // Phases are listed in the order of a round; a phase that is not among these comes after them.
    let known = ["download", "compute", "upload", "round"];
    let mut phases: Vec<_> = record.durations.iter().collect();
    phases.sort_by_key(|(name, _)| {
        known
            .iter()
            .position(|phase| phase == name)
            .unwrap_or(known.len())
    });
    let rows: Vec<Vec<String>> = phases
        .into_iter()
        .map(|(name, d)| {
            let times =
                [d.mean_s, d.min_s, d.p50_s, d.p90_s, d.p99_s, d.max_s].map(words::duration);
            [name.clone(), thousands(d.count)]
                .into_iter()
                .chain(times)
                .collect()
        })
        .collect();
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
    Some(format!(
        "## Virtual time\n\n{} for {}.{line}\n\n{}",
        words::duration(record.virtual_time_s),
        words::counted(record.rounds.into(), "round"),
        table(&header, &rows)
    ))
}

fn sparsity(record: &RunRecord) -> Option<String> {
    let of_round = |number| {
        record
            .per_round
            .iter()
            .find(|r| Some(r.round) == number && r.sparsity.is_some())
    };
    let round = of_round(record.selected_round)
        .or_else(|| record.per_round.iter().rev().find(|r| r.sparsity.is_some()))?;
    let measured = round.sparsity?;
    let rows: Vec<Vec<String>> = SPARSITY_THRESHOLDS
        .iter()
        .zip(measured.uploads.iter().zip(&measured.averaged))
        .map(|(&threshold, (&uploads, &averaged))| {
            let threshold = if threshold == 0.0 {
                "0".to_owned()
            } else {
                format!("{threshold:e}")
            };
            vec![threshold, share(uploads), share(averaged)]
        })
        .collect();
    Some(format!(
        "## Sparsity of the shared table in round {}\n\n\
         Share of the values of the table (FedRAP's C) whose magnitude is above a threshold. A lossless sparse codec \
         leaves out exact zeros only, so what it can save stands in the first line.\n\n{}{}",
        round.round,
        table(
            &["magnitude above", "in the uploads", "in the average"],
            &rows
        ),
        exact_zeros(&measured)
    ))
}

/// Returns a remark on how many exact zeros the average keeps of those in the uploads.
fn exact_zeros(sparsity: &Sparsity) -> String {
    let Some(union) = sparsity.union else {
        return String::new();
    };
    format!(
        "\n\nOf the values of an upload, {} are exactly 0; of those of all uploads together, {} (no upload has another value \
         there); of those of the average, {}.",
        share(1.0 - sparsity.uploads[0]),
        share(1.0 - union),
        share(1.0 - sparsity.averaged[0])
    )
}

fn charts(record: &RunRecord) -> String {
    let images: Vec<String> = file_names(record)
        .into_iter()
        .map(|name| {
            format!(
                "![{}]({name})",
                name.trim_end_matches(".svg").replace('-', " ")
            )
        })
        .collect();
    if images.is_empty() {
        return "## Charts\n\nThis program was built without charts. The figures of every round are in `rounds.csv`."
            .to_owned();
    }
    format!(
        "## Charts\n\n{}\n\nThe figures of every round are in `rounds.csv`.",
        images.join("\n\n")
    )
}

fn reproduce(record: &RunRecord) -> String {
    let command = match record.command.as_slice() {
        [] => "The run was not started from a command line; the scenario as resolved is in `scenario.toml`.".to_owned(),
        words => {
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            let told = "`scenario.toml` beside this file is the scenario as resolved, and running it is the same run.";
            format!("```sh\n{}\n```\n\n{told}", words.join(" "))
        }
    };
    let versions: Vec<String> = record
        .versions
        .iter()
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let wall = &record.wall;
    let memory = wall.peak_rss_bytes.map_or_else(String::new, |rss| {
        format!(", peak memory {}", Bytes::new(rss))
    });
    format!(
        "## Reproduce\n\n{command}\n\nThe same scenario, seed ({}) and build give the result digest\n`{}`\nat any number of threads.\n\n\
         Made by {}. This run took {} of wall time on {} threads, {} per round (median){memory}; none of that is in the digest.",
        record.seed,
        record.digest,
        versions.join(", "),
        words::duration(wall.total_s),
        wall.threads,
        words::duration(wall.per_round_ms / 1e3),
    )
}

/// Returns an argument quoted so that a POSIX shell reads it back.
fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::report::sample;
    use fedrecsim_core::error::Error;

    #[test]
    #[cfg_attr(
        not(feature = "plots"),
        ignore = "a build without charts leaves them out"
    )]
    fn the_summary_of_a_finished_run_reads_like_this() {
        insta::assert_snapshot!(render(&sample::run(24)).unwrap());
    }

    #[test]
    #[cfg_attr(
        not(feature = "plots"),
        ignore = "a build without charts leaves them out"
    )]
    fn the_summary_of_an_interrupted_run_reads_like_this() {
        insta::assert_snapshot!(render(&sample::interrupted(12, 60)).unwrap());
    }

    #[test]
    fn the_summary_of_a_real_system_tells_fates_energy_and_who_is_too_small() {
        let text = render(&sample::over_selected(24)).unwrap();
        let part = |from: &str, to: &str| {
            text[text.find(from).unwrap()..text.find(to).unwrap()].to_owned()
        };
        insta::assert_snapshot!(
            part("## Participations", "## Bytes") + &part("## Energy", "## Virtual time")
        );
    }

    #[test]
    fn a_run_without_a_round_says_so_first_and_why_and_reports_no_accuracy_of_its_own() {
        let text = render(&sample::nothing_finished()).unwrap();
        let second = text.split("\n\n").nth(1).unwrap();
        assert!(
            second.contains("0 of 60 rounds") && second.contains("diverged in round 1"),
            "{second}"
        );
        assert!(
            text.contains("No round was finished")
                && text.contains("| HR@10 (test) | 0.4110 | 0.1004 |"),
            "{text}"
        );
    }

    #[test]
    fn a_method_that_sends_nothing_has_no_table_of_bytes() {
        let text = render(&sample::popularity()).unwrap();
        assert!(text.contains("Nothing was sent."));
        assert!(!text.contains("per aggregated update") && !text.contains("## Virtual time"));
    }

    #[test]
    fn arguments_survive_a_shell() {
        assert_eq!(quoted("scenarios/ml100k.toml"), "scenarios/ml100k.toml");
        assert_eq!(quoted("method.mu = 0.1"), "'method.mu = 0.1'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn nan_is_refused() {
        let mut record = sample::run(2);
        record.durations.get_mut("upload").unwrap().p99_s = f64::NAN;
        assert!(
            matches!(render(&record), Err(Error::NonFinite { place, .. }) if place == "durations.upload.p99_s")
        );
    }
}
