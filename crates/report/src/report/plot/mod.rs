//! Draws the charts of a report as SVG: accuracy against rounds, bytes, uploaded bytes and virtual
//! time, and the sparsity of C. [`arms`] draws the runs of a study beside each other, and [`lines`]
//! what no run has measured.

mod accuracy;
pub mod arms;
mod axis;
mod chart;
mod draw;
mod legend;
pub mod lines;
mod notes;
mod sparsity;
mod svg;
pub mod table;
pub mod timeline;

use super::charts::FILE_NAMES;
use super::check;
pub use super::courses::Against;
use super::overrides;
use super::record::{RunRecord, SPARSITY_THRESHOLDS};
use chart::Chart;
use fedrecsim_core::error::{Error, Result};

/// Returns all charts of a record as (file name, SVG text), under the names of
/// [`file_names`](super::charts::file_names).
///
/// # Errors
/// The same as those of [`check::check`].
pub(crate) fn charts(record: &RunRecord) -> Result<Vec<(&'static str, String)>> {
    check::check(record)?;
    let mut pictures = vec![
        (FILE_NAMES[0], accuracy::chart(record, Against::Rounds)),
        (FILE_NAMES[1], accuracy::chart(record, Against::Bytes)),
        (FILE_NAMES[2], accuracy::chart(record, Against::Uploads)),
        (FILE_NAMES[3], accuracy::chart(record, Against::VirtualTime)),
    ];
    pictures.extend(sparsity::chart(record).map(|chart| (FILE_NAMES[4], chart)));
    pictures
        .into_iter()
        .map(|(name, chart)| Ok((name, render(name, &chart)?)))
        .collect()
}

fn render(name: &str, chart: &Chart) -> Result<String> {
    draw::render(chart)
        .map_err(|error| Error::write(name, std::io::Error::other(error.to_string())))
}

/// Returns the first line of every chart, which says what was run and whether all of it was.
fn title(record: &RunRecord) -> String {
    let mut title = format!(
        "{}: {}, seed {}",
        record.name, record.scenario.method.name, record.seed
    );
    if !record.complete {
        title.push_str(&format!(
            " (incomplete: {} of {} rounds)",
            record.rounds, record.scenario.training.rounds
        ));
    }
    title
}

/// Returns `text` as the second line of a chart, and below it which keys of the scenario were
/// changed on the command line.
fn with_overrides(text: String, record: &RunRecord) -> String {
    let overrides = overrides::of_command(&record.command);
    let changed = overrides::sentence(&overrides, record.scenario.training.rounds);
    changed.map_or_else(|| text.clone(), |changed| format!("{text}\n{changed}"))
}

/// Returns the rounds' axis for a chart whose points end at `last`.
fn rounds_axis(last: f64, points: usize) -> axis::Axis {
    axis::Axis::rounds(with_room(last, points))
}

/// Returns the end of the axis: a single point stands in the middle of its axis, not on the edge.
fn with_room(last: f64, points: usize) -> f64 {
    if points == 1 { 2.0 * last } else { last }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::report::charts::file_names;
    use crate::report::sample;

    fn all_samples() -> Vec<(&'static str, RunRecord)> {
        vec![
            ("sixty", sample::run(60)),
            ("one", sample::run(1)),
            ("thousand", sample::run(1000)),
            ("interrupted", sample::interrupted(12, 60)),
            ("sparse", sample::evaluated_every(10, 95)),
            ("popularity", sample::popularity()),
            ("nothing", sample::nothing_finished()),
            ("predicting", sample::predicting([1.2, 1.0, 0.95, 0.9])),
            ("constant", constant()),
            ("long-names", long_names()),
        ]
    }

    fn constant() -> RunRecord {
        let mut record = sample::run(20);
        let same = record.per_round[19].accuracy.clone();
        record
            .per_round
            .iter_mut()
            .for_each(|round| round.accuracy = same.clone());
        record
    }

    fn long_names() -> RunRecord {
        let mut record = sample::run(30);
        record.name = "ml1m-fedrap-published-code-sparse-uplink-wifi".into();
        record.scenario.method.name = "fedrap<&>".into();
        record.protocol = format!("{0}; {0}; {0}", record.protocol);
        record
    }

    /// Returns all numbers of the attributes that place something.
    fn coordinates(svg: &str) -> Vec<f64> {
        let attributes = ["x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "points"];
        svg.split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .split("=\"")
            .collect::<Vec<_>>()
            .windows(2)
            .filter(|pair| {
                attributes
                    .iter()
                    .any(|a| pair[0].ends_with(&format!(" {a}")))
            })
            .flat_map(|pair| pair[1].split('"').next().unwrap().split([',', ' ']))
            .filter(|number| !number.is_empty())
            .map(|number| number.parse().unwrap())
            .collect()
    }

    #[test]
    fn every_chart_stays_on_its_canvas_whatever_the_run() {
        for (name, record) in all_samples() {
            for (file, svg) in charts(&record).unwrap() {
                let numbers = coordinates(&svg);
                assert!(
                    numbers.len() > 50,
                    "{name}/{file}: {} numbers",
                    numbers.len()
                );
                let outside = numbers
                    .iter()
                    .find(|n| !n.is_finite() || **n < 0.0 || **n > 1440.0);
                assert_eq!(outside, None, "{name}/{file}");
                assert!(
                    !svg.contains("NaN") && !svg.contains("inf"),
                    "{name}/{file}"
                );
                assert!(
                    svg.trim_end().ends_with("</svg>"),
                    "{name}/{file} is cut off"
                );
            }
        }
    }

    #[test]
    fn charts_name_run_protocol_and_every_line() {
        for (file, svg) in charts(&sample::run(60)).unwrap() {
            let texts: &[&str] = if file.starts_with("accuracy") {
                &[
                    "99 sampled candidates",
                    "HR@10",
                    "NDCG@10",
                    "popularity",
                    "random",
                    "validation",
                    "round 60",
                ]
            } else {
                &["uploads", "average", "1e-4: ", "round 60"]
            };
            for text in texts.iter().chain(&["ml100k-fedrap: fedrap, seed 1"]) {
                assert!(svg.contains(text), "no {text:?} in {file}");
            }
        }
    }

    /// If this fails, two pictures of runs with other parameters cannot be told apart.
    #[test]
    fn charts_say_what_the_command_line_changed() {
        let mut record = sample::run(3);
        for (_, svg) in charts(&record).unwrap() {
            assert!(
                svg.contains("\nChanged by --set: method.mu = 0.1\n"),
                "no line with the override"
            );
        }
        record.command.clear();
        assert!(
            charts(&record)
                .unwrap()
                .iter()
                .all(|(_, svg)| !svg.contains("Changed by"))
        );
    }

    /// If this fails, whoever does not see a picture is not told what it shows, or it is cut off on
    /// a narrow page.
    #[test]
    fn pictures_have_text_for_screen_readers_and_fit_narrow_pages() {
        for (file, svg) in charts(&sample::run(60)).unwrap() {
            let (opening, rest) = svg
                .split_once(">\n<title>ml100k-fedrap: fedrap, seed 1</title>\n<desc>")
                .unwrap();
            for attribute in [
                "viewBox=\"0 0 1440 800\"",
                "style=\"max-width: 100%; height: auto\"",
                "role=\"img\"",
            ] {
                assert!(
                    opening.contains(attribute),
                    "{file}: no {attribute} in {opening}"
                );
            }
            let description = rest.split("</desc>").next().unwrap();
            let parts: &[&str] = match file.starts_with("accuracy") {
                true => &[
                    "99 sampled candidates",
                    "horizontal: ",
                    "vertical: HR@10, NDCG@10",
                    "popularity: 0.4",
                    "round 60",
                ],
                false => &["magnitude above", "1e-4: "],
            };
            parts.iter().for_each(|part| {
                assert!(
                    description.contains(part),
                    "{file}: no {part:?} in {description}"
                )
            });
        }
        let (_, empty) = charts(&sample::nothing_finished()).unwrap().remove(0);
        let description = empty
            .split("<desc>")
            .nth(1)
            .unwrap()
            .split("</desc>")
            .next()
            .unwrap();
        assert!(
            description.contains("The chart is empty: no round was evaluated"),
            "{description}"
        );
    }

    /// If this fails, one of two lines that coincide hides the other.
    #[test]
    fn dashed_lines_lie_above_solid_ones_and_begin_at_other_places() {
        for (file, svg) in charts(&sample::run(60)).unwrap().into_iter().take(4) {
            for offset in [0, 13] {
                let dashes = format!(
                    "stroke-width=\"3\" stroke-dasharray=\"16 10\" stroke-dashoffset=\"{offset}\""
                );
                assert!(svg.contains(&dashes), "{file}: no {dashes}");
            }
            let first_dash = svg.find("stroke-dasharray").unwrap();
            let markers = svg[..first_dash].matches("<circle").count();
            assert!(
                markers == 0 || markers > 60,
                "{file}: a solid line is drawn above a dashed one"
            );
            let line = "stroke=\"#0072B2\" stroke-width=\"4\" points";
            assert!(
                svg.find(line).unwrap() < first_dash,
                "{file}: the result is drawn above the references"
            );
        }
    }

    /// If this fails, dashes cannot be told from the solid line that they lie on.
    #[test]
    fn dashes_have_a_shade_of_their_own() {
        use plotters::prelude::RGBColor;
        for color in [
            RGBColor(0, 114, 178),
            RGBColor(68, 1, 84),
            RGBColor(255, 255, 255),
            RGBColor(0, 0, 0),
        ] {
            let shade = chart::shade(color);
            let difference = |one: u8, other: u8| u32::from(one.abs_diff(other));
            let sum = difference(color.0, shade.0)
                + difference(color.1, shade.1)
                + difference(color.2, shade.2);
            assert!(sum >= 100, "{color:?} and {shade:?}");
        }
    }

    /// If this fails, somebody who compares codecs of uploads has only the sum of both directions
    /// to look at.
    #[test]
    fn one_chart_counts_uploads_alone() {
        let svg = |name: &str| {
            charts(&sample::run(60))
                .unwrap()
                .into_iter()
                .find(|(file, _)| *file == name)
                .unwrap()
                .1
        };
        assert!(svg("accuracy-by-uploads.svg").contains("uploaded so far [GB]"));
        assert!(svg("accuracy-by-bytes.svg").contains("sent so far, up and down [GB]"));
    }

    #[test]
    fn an_incomplete_run_says_so_in_its_title() {
        let charts = charts(&sample::interrupted(12, 60)).unwrap();
        assert!(
            charts
                .iter()
                .all(|(_, svg)| svg.contains("(incomplete: 12 of 60 rounds)"))
        );
    }

    #[test]
    fn markup_in_a_name_is_escaped() {
        let charts = charts(&long_names()).unwrap();
        assert!(
            charts
                .iter()
                .all(|(_, svg)| svg.contains("fedrap&lt;&amp;&gt;") && !svg.contains("fedrap<"))
        );
    }

    #[test]
    fn the_same_record_gives_the_same_pictures() {
        assert_eq!(
            charts(&sample::run(60)).unwrap(),
            charts(&sample::run(60)).unwrap()
        );
    }

    #[test]
    fn without_sparsity_there_is_no_chart_of_it_and_none_is_announced() {
        for (record, expected) in [
            (sample::popularity(), 4),
            (sample::nothing_finished(), 4),
            (sample::run(2), 5),
        ] {
            let files: Vec<_> = charts(&record)
                .unwrap()
                .into_iter()
                .map(|(file, _)| file)
                .collect();
            assert_eq!(files, FILE_NAMES[..expected]);
            assert_eq!(files, file_names(&record));
        }
    }

    #[test]
    fn nan_is_refused() {
        let mut record = sample::run(2);
        record.per_round[1]
            .accuracy
            .as_mut()
            .unwrap()
            .test
            .insert("hr@10".into(), f64::NAN);
        assert!(matches!(charts(&record), Err(Error::NonFinite { .. })));
    }

    /// Checks nothing: it leaves every sample's charts in `target/pictures` for somebody to look
    /// at.
    #[test]
    #[ignore = "writes pictures for the eye"]
    fn pictures_to_look_at() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/pictures");
        std::fs::create_dir_all(&folder).unwrap();
        for (name, record) in all_samples() {
            for (file, svg) in charts(&record).unwrap() {
                std::fs::write(folder.join(format!("{name}-{file}")), svg).unwrap();
            }
        }
    }
}
