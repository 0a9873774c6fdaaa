//! Draws charts as SVG: `layout` decides what of a chart is where on a picture along one of its
//! axes, `draw` draws it with its `legend` and `notes`, and `canvas` is what all pictures have.
//! [`timeline`] draws what happened in some rounds, and [`table`] the values of a model.

mod axis;
mod canvas;
mod draw;
mod layout;
mod legend;
mod notes;
mod svg;
pub mod table;
pub(crate) mod timeline;

use super::chart::{Chart, Cost};
use super::column::Place;
use super::file_names::PICTURES;
use super::record::RunRecord;
use super::{check, overrides, rounds, run};
pub use draw::draw;
use fedrecsim_core::Result;

/// Returns the pictures of a record as (file name, SVG text).
///
/// # Errors
/// Those of [`check::check`].
pub(crate) fn charts(record: &RunRecord) -> Result<Vec<(&'static str, String)>> {
    check::check(record)?;
    let rounds = rounds::frame(record, Place::Rounds);
    let title = title(record);
    let picture = |name, chart: &Chart, axis, subtitle: String| {
        let subtitle = with_overrides(subtitle, record);
        Ok((name, draw(name, chart, axis, (&title, &subtitle))?))
    };
    let accuracy = run::charts::accuracy(record, &rounds);
    let costs = [Cost::Rounds, Cost::Bytes, Cost::Uploads, Cost::Time];
    let of_accuracy = PICTURES.into_iter().zip(costs).map(|(name, cost)| {
        let subtitle = format!("Accuracy under this protocol: {}", record.protocol);
        picture(name, &accuracy, cost as usize, subtitle)
    });
    let sparsity = run::charts::sparsity(&rounds).map(|chart| {
        let subtitle = format!(
            "Share of the values of the shared table (FedRAP's C) whose magnitude is above a threshold; \
             the figures are of round {}",
            chart.last(0)
        );
        picture(PICTURES[4], &chart, 0, subtitle)
    });
    of_accuracy.chain(sparsity).collect()
}

/// Returns the first line of every picture, which says what was run and whether all of it was.
fn title(record: &RunRecord) -> String {
    let incomplete = match record.complete {
        true => String::new(),
        false => format!(
            " (incomplete: {} of {} rounds)",
            record.rounds, record.scenario.training.rounds
        ),
    };
    format!(
        "{}: {}, seed {}{incomplete}",
        record.name, record.scenario.method.name, record.seed
    )
}

/// Returns `text` as the second line of a picture, and below it which keys of the scenario were
/// changed on the command line.
fn with_overrides(text: String, record: &RunRecord) -> String {
    let overrides = overrides::of_command(&record.command);
    match overrides::changed_by_set(&overrides, record.scenario.training.rounds) {
        Some(changed) => format!("{text}\n{changed}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::chart::{self, Axis, Kind, Series, Stroke};
    use crate::column::Unit;
    use crate::tests::records as sample;
    use fedrecsim_core::metric::{Better, Metric};

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

    /// If this fails, a screen reader does not say what a picture shows, or a narrow page cuts it
    /// off.
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
            let shade = canvas::shade(color);
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
            assert_eq!(files, PICTURES[..expected]);
            assert_eq!(files, sample::pictures(&record));
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
        assert!(matches!(
            charts(&record),
            Err(fedrecsim_core::Error::NonFinite { .. })
        ));
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

    /// Returns a chart of arms with these names, costs and values, as courses or as a front.
    fn arms(kind: Kind, arms: &[(&str, &[f64], f64, f64)]) -> Chart {
        let series = (0..)
            .zip(arms)
            .map(|(number, (name, costs, y, spread))| Series {
                group: "codec".to_owned(),
                name: (*name).to_owned(),
                figure: format!("{y:.3}"),
                stroke: match kind {
                    Kind::Front(_) => Stroke::Points,
                    _ => chart::arm(number).stroke,
                },
                x: vec![costs.to_vec(); Cost::ALL.len()],
                y: vec![*y; costs.len()],
                low: vec![y - spread; costs.len()],
                high: vec![y + spread; costs.len()],
                ..chart::arm(number)
            });
        let metrics = [Metric::named("hr@10").unwrap()];
        Chart {
            series: series.collect(),
            kind,
            across: Cost::ALL.map(|cost| cost.axis("until then")).into(),
            up: Axis::of_metrics("HR@10".to_owned(), &metrics),
            ..Chart::default()
        }
    }

    fn drawn(chart: &Chart, cost: Cost) -> String {
        draw("a.svg", chart, cost as usize, ("t", "s")).unwrap()
    }

    const FRONT: Kind = Kind::Front(Better::Higher);

    /// If this fails, arms that cost a hundredth of another one are drawn as one line at the edge
    /// of the picture, or an arm that costs nothing has a place on an axis without a zero.
    #[test]
    fn costs_of_other_magnitudes_have_a_logarithmic_axis() {
        let points: [(&str, &[f64], f64, f64); 3] = [
            ("a", &[2e6], 0.5, 0.01),
            ("b", &[1e9], 0.52, 0.01),
            ("c", &[0.0], 0.3, 0.01),
        ];
        let front = arms(FRONT, &points);
        let svg = drawn(&front, Cost::Bytes);
        for text in [
            "sent until then, up and down, logarithmic",
            "10 MB",
            "1 GB",
            "codec",
        ] {
            assert!(svg.contains(text), "no {text:?} in {svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(drawn(&front, Cost::Time).contains("days], logarithmic"));
        let svg = drawn(&arms(FRONT, &points[..1]), Cost::Bytes);
        assert!(!svg.contains("logarithmic"));
        let course: [(&str, &[f64], f64, f64); 1] = [("one", &[0.0, 2e6, 1e9], 0.5, 0.01)];
        let svg = drawn(&arms(Kind::Arms, &course), Cost::Uploads);
        assert!(
            svg.contains("uploaded until then, logarithmic") && !svg.contains("NaN"),
            "{svg}"
        );
    }

    /// If this fails, somebody has to guess which of many points is which arm, or a long legend is
    /// cut off.
    #[test]
    fn many_arms_and_long_names_are_numbered_and_have_room() {
        let names: Vec<String> = (1..=16)
            .map(|number| format!("codec={number}, {}", "a long value ".repeat(5)))
            .collect();
        let points: Vec<(&str, &[f64], f64, f64)> = (1..=16)
            .zip(&names)
            .map(|(number, name)| {
                let y = 0.5 + 0.01 * f64::from(number);
                (name.as_str(), &[1e6][..], y, 0.01)
            })
            .collect();
        let svg = drawn(&arms(FRONT, &points), Cost::Bytes);
        assert!(
            svg.contains("16: codec=16, a long value") && svg.contains("\n16\n"),
            "{svg}"
        );
        let attribute = |text: &str| text.split('"').next().unwrap().parse::<f64>().unwrap();
        let height = attribute(svg.split("height=\"").nth(1).unwrap());
        let lowest = svg.split(" y=\"").skip(1).map(attribute);
        assert!(
            height > 800.0 && lowest.fold(0.0, f64::max) < height,
            "the legend does not fit"
        );
        assert!(svg.contains(", not from 0"));
        let name = format!("a={},b=1", "x".repeat(500));
        let longest: [(&str, &[f64], f64, f64); 2] =
            [(&name, &[1e6], 0.5, 0.01), ("c", &[1e6], 0.4, 0.01)];
        let svg = drawn(&arms(FRONT, &longest), Cost::Bytes);
        assert!(
            svg.contains("height=\"800\"")
                && svg.contains("x ... x")
                && svg.contains("x,b=1: 0.500"),
            "{svg}"
        );
        let few: [(&str, &[f64], f64, f64); 2] =
            [("a", &[1e6], 0.5, 0.01), ("b", &[1e6], 0.1, 0.01)];
        let svg = drawn(&arms(FRONT, &few), Cost::Bytes);
        assert!(
            svg.contains("\na: 0.500\n") && !svg.contains(", not from 0"),
            "{svg}"
        );
    }

    /// If this fails, two arms cannot be told apart on a picture, or their spread is not on it.
    #[test]
    fn a_picture_names_every_arm_and_has_a_band_for_each_that_has_a_spread() {
        let costs: &[f64] = &[1e6, 2e6];
        let two = [("one", costs, 0.4, 0.1), ("two", costs, 0.4, 0.0)];
        let svg = drawn(&arms(Kind::Arms, &two), Cost::Bytes);
        assert!(svg.contains("one: 0.400") && svg.contains("two: 0.400"));
        assert_eq!(svg.matches("<polygon").count(), 1);
        let free: &[f64] = &[0.0, 0.0];
        let with_free = [("one", costs, 0.4, 0.1), ("free", free, 0.3, 0.0)];
        let svg = drawn(&arms(Kind::Arms, &with_free), Cost::Bytes);
        assert!(
            svg.contains("stroke-dasharray"),
            "an arm that costs nothing is no level"
        );
        let points = [("a", &costs[..1], 0.5, 0.01), ("b", &costs[1..], 0.4, 0.01)];
        let svg = drawn(&arms(FRONT, &points), Cost::Bytes);
        assert!(svg.contains("sent until then") && svg.contains("on the front"));
        let empty = drawn(&arms(Kind::Arms, &[]), Cost::Time);
        assert!(empty.contains("no virtual time passed"));
    }

    /// If this fails, a line is not on its picture or cannot be told from another one.
    #[test]
    fn every_line_has_its_name_and_its_colour() {
        let line = |number, name: &str, values: [f64; 3], stroke| Series {
            group: "curriculum".to_owned(),
            name: name.to_owned(),
            stroke,
            x: vec![vec![1.0, 2.0, 3.0]],
            y: values.into(),
            ..chart::arm(number)
        };
        let mut chart = Chart {
            across: vec![Cost::Rounds.axis("")],
            up: Axis::new("", "factor", Unit::Number),
            series: vec![
                line(0, "rises", [0.1, 0.2, 0.3], Stroke::Thick),
                line(1, "stays", [0.2; 3], Stroke::Dash),
            ],
            remark: "no line has a value",
            ..Chart::default()
        };
        let svg = drawn_lines(&chart);
        for text in [
            "rises",
            "stays",
            "factor",
            "curriculum",
            "communication round",
        ] {
            assert!(svg.contains(text), "no {text:?} in {svg}");
        }
        let count = |svg: &str, stroke: &str| svg.matches(stroke).count();
        let solid = count(&svg, "stroke=\"#0072B2\" stroke-width=\"4\" points");
        assert_eq!(solid, 2, "the line and the one in the legend, {svg}");
        let dashed = count(
            &svg,
            "stroke=\"#D55E00\" stroke-width=\"3\" stroke-dasharray",
        );
        assert_eq!((dashed, count(&svg, "stroke-dasharray")), (1, 1), "{svg}");
        chart.series[1].color = 0;
        chart.up.is_near = true;
        let svg = drawn_lines(&chart);
        assert!(
            svg.contains("stroke=\"#0072B2\" stroke-width=\"3\" stroke-dasharray"),
            "its colour, {svg}"
        );
        chart.series.clear();
        let svg = drawn_lines(&chart);
        assert!(
            svg.contains("no line has a value") && !svg.contains("NaN"),
            "{svg}"
        );
    }

    fn drawn_lines(chart: &Chart) -> String {
        draw("a.svg", chart, 0, ("t", "s")).unwrap()
    }
}
