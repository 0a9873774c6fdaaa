//! Makes the interactive page of a study or a comparison.

use super::courses::{curve, point};
use crate::report::courses::{Band, Curve, FrontPoint, unbeaten};
use crate::report::figures;
use crate::report::html::chart::{
    Axis, Chart, MOST_POINTS, Series, Stroke, Unit, cost_axes, drawn, style,
};
use crate::report::html::table::{Cell, Table};
use crate::report::html::{Page, Part};
use crate::study::measures::Measure;
use crate::study::quantities::{Quantity, direction};
use crate::study::results::{ArmResults, Results, RunState};
use fedrecsim_core::metric::{Metric, Needs};

/// The colour of the front.
const FRONT: usize = 6;

/// Returns the page: charts first, then the tables that Markdown has, then every run.
pub(crate) fn page(results: &Results) -> Page {
    let tables = super::document(results, &[]).parts();
    let first_heading = tables
        .iter()
        .position(|part| matches!(part, Part::Heading(_)))
        .unwrap_or(tables.len());
    let (remarks, tables) = tables.split_at(first_heading);
    let mut parts = remarks.to_vec();
    if let Some(figure) = results.figures.first().filter(|_| results.counts()[0] > 0) {
        parts.push(Part::Heading("Accuracy against what it cost".to_owned()));
        parts.extend([courses(results, figure), front(results, figure)].map(Part::Chart));
    }
    parts.extend(tables.iter().cloned());
    parts.push(Part::Heading("Every run".to_owned()));
    let table = runs(results);
    let line = format!("{} runs", table.rows.len());
    parts.push(Part::Folded {
        line,
        is_open: table.rows.len() <= 30,
        table,
    });
    Page {
        title: results.title.clone(),
        parts,
    }
}

/// Returns the arms that have a run with a result, each with its number among all.
fn arms(results: &Results) -> impl Iterator<Item = (usize, &ArmResults)> {
    results
        .arms
        .iter()
        .enumerate()
        .filter(|(_, arm)| arm.reports().next().is_some())
}

/// Returns the longest virtual time of a run.
fn longest(results: &Results) -> f64 {
    arms(results)
        .flat_map(|(_, arm)| arm.reports())
        .map(|report| report.run.virtual_time_s)
        .fold(0.0, f64::max)
}

fn chart(
    results: &Results,
    figure: &str,
    id: &'static str,
    title: String,
    description: String,
) -> Chart {
    let label = figures::label(figure);
    let note = match super::protocols(results)[..] {
        [only] => format!("Protocol of every accuracy: {}.", only.trim_end_matches('.')),
        _ => "The arms have different protocols, which stand beside their names; their accuracies cannot be compared."
            .to_owned(),
    };
    let are_errors =
        Metric::named(figure).is_some_and(|metric| metric.needs() == Needs::PredictedRatings);
    let up = Axis {
        from_zero: !are_errors,
        ..Axis::new("", format!("{label} (test)"), Unit::Figure)
    };
    Chart {
        id,
        title,
        note,
        description,
        across: Vec::new(),
        up,
        bars: Vec::new(),
        series: Vec::new(),
    }
}

/// Returns the name of an arm in a legend, with its protocol if others have other ones.
fn named(results: &Results, arm: &ArmResults) -> String {
    match super::protocols(results).len() {
        0 | 1 => arm.name.clone(),
        _ => format!("{} ({})", arm.name, arm.protocols().join("; ")),
    }
}

/// Returns the courses of the arms, with bands over seeds.
fn courses(results: &Results, figure: &str) -> Chart {
    let label = figures::label(figure);
    let description = format!(
        "Lines of the mean {label} over seeds of every arm after every evaluated round, with bands for its 95 % interval. \
         The tables below have the figures of the selected rounds, and what it took to come near the best."
    );
    let mut chart = chart(
        results,
        figure,
        "courses",
        format!("{label} over the course of the runs"),
        description,
    );
    let costs = cost_axes(longest(results));
    let curves: Vec<(usize, String, Vec<Curve>)> = arms(results)
        .map(|(number, arm)| {
            let of_arm = costs
                .iter()
                .map(|(_, against, _)| curve(arm, figure, *against))
                .collect();
            (number, named(results, arm), of_arm)
        })
        .collect();
    // An arm that costs nothing is a level from the first to the last cost of the others.
    let ends: Vec<Option<[f64; 2]>> = (0..costs.len())
        .map(|place| {
            let all = || {
                curves
                    .iter()
                    .flat_map(|(_, _, of_arm)| &of_arm[place].points)
                    .map(|point| point.x)
            };
            let last = all().fold(0.0, f64::max);
            (last > 0.0).then(|| [all().filter(|x| *x > 0.0).fold(last, f64::min), last])
        })
        .collect();
    // The more arms, the fewer points has each, so that the page does not grow with their number.
    let most = (MOST_POINTS * 16 / curves.len().max(16)).max(2);
    for (number, name, of_arm) in curves {
        let (color, stroke) = style(number);
        let mut series = Series {
            name,
            color,
            stroke,
            ..Series::default()
        };
        for ((Curve { points, .. }, (_, _, unit)), ends) in of_arm.iter().zip(&costs).zip(&ends) {
            let places = drawn(points.len(), most, None);
            let mut shown: Vec<Band> = places.into_iter().map(|place| points[place]).collect();
            if let (Some(level), Some(ends)) = (points.last().filter(|point| point.x == 0.0), ends)
            {
                shown = ends.map(|x| Band { x, ..*level }).into();
            }
            let all = |of: fn(&Band) -> f64| -> Vec<f64> { shown.iter().map(of).collect() };
            series
                .x
                .push(shown.iter().map(|point| point.x / unit).collect());
            series.y.push(all(|point| point.y));
            series.low.push(all(|point| point.low));
            series.high.push(all(|point| point.high));
        }
        without_empty_bands(&mut series);
        // Most arms have the same heights along all axes.
        for list in [&mut series.y, &mut series.low, &mut series.high] {
            if list.windows(2).all(|pair| pair[0] == pair[1]) {
                list.truncate(1);
            }
        }
        chart.series.push(series);
    }
    chart.across = costs.into_iter().map(|(axis, _, _)| axis).collect();
    keep_costs(
        &mut chart,
        &ends.iter().map(Option::is_some).collect::<Vec<_>>(),
    );
    chart
}

/// Returns the arms at their selected rounds, and those that no other one beats.
fn front(results: &Results, figure: &str) -> Chart {
    let label = figures::label(figure);
    let description = format!(
        "Points of the mean {label} of every arm at the selected rounds against the mean cost until then, with 95 % \
         intervals, and a line that joins the arms that no other one beats in both. The tables below have the figures."
    );
    let title = format!("{label} at the selected rounds, and the front");
    let mut chart = chart(results, figure, "front", title, description);
    let mut costs = cost_axes(longest(results));
    // The last axis counts rounds, of which every arm may have as many as it likes.
    costs.pop();
    for (axis, _, _) in &mut costs {
        axis.title = axis.title.replace("so far", "until the selected round");
    }
    let by_cost: Vec<Vec<Option<FrontPoint>>> = costs
        .iter()
        .map(|(_, against, _)| {
            arms(results)
                .map(|(_, arm)| point(arm, figure, *against))
                .collect()
        })
        .collect();
    for (place, (number, arm)) in arms(results).enumerate() {
        let series = Series {
            name: named(results, arm),
            color: style(number).0,
            stroke: Stroke::Points,
            ..Series::default()
        };
        let Some(points) = by_cost
            .iter()
            .map(|of_cost| of_cost[place].as_ref())
            .collect::<Option<Vec<_>>>()
        else {
            continue;
        };
        let [y, low, high] = [|at: &Band| at.y, |at: &Band| at.low, |at: &Band| at.high].map(
            |of: fn(&Band) -> f64| {
                points
                    .first()
                    .map(|point| vec![of(&point.at)])
                    .into_iter()
                    .collect()
            },
        );
        let x = points
            .iter()
            .zip(&costs)
            .map(|(point, (_, _, unit))| vec![point.at.x / unit])
            .collect();
        let mut series = Series {
            x,
            y,
            low,
            high,
            ..series
        };
        without_empty_bands(&mut series);
        chart.series.push(series);
    }
    let mut joined = Series {
        name: "the front".to_owned(),
        color: FRONT,
        stroke: Stroke::Dot,
        ..Series::default()
    };
    for (of_cost, (_, _, unit)) in by_cost.iter().zip(&costs) {
        let known: Vec<FrontPoint> = of_cost.iter().flatten().cloned().collect();
        let (x, y) = unbeaten(&known, direction(figure))
            .into_iter()
            .map(|place| (known[place].at.x / unit, known[place].at.y))
            .unzip();
        joined.x.push(x);
        joined.y.push(y);
    }
    chart.series.push(joined);
    chart.across = costs.into_iter().map(|(axis, _, _)| axis).collect();
    let has_cost = |place: usize| {
        chart
            .series
            .iter()
            .any(|series| series.x[place].iter().any(|x| *x > 0.0))
    };
    let kept: Vec<bool> = (0..chart.across.len()).map(has_cost).collect();
    keep_costs(&mut chart, &kept);
    chart
}

/// Leaves out the axes along which nothing has a cost, unless that is so of all.
fn keep_costs(chart: &mut Chart, kept: &[bool]) {
    if !kept.contains(&true) {
        return;
    }
    fn keep<T>(list: &mut Vec<T>, kept: &[bool]) {
        // A list of a single entry holds for all axes.
        if list.len() == kept.len() {
            let mut kept = kept.iter();
            list.retain(|_| kept.next() == Some(&true));
        }
    }
    keep(&mut chart.across, kept);
    for series in &mut chart.series {
        for list in [
            &mut series.x,
            &mut series.y,
            &mut series.low,
            &mut series.high,
        ] {
            keep(list, kept);
        }
    }
}

/// Removes intervals that are none, as those of a single seed.
fn without_empty_bands(series: &mut Series) {
    if series.low == series.high {
        series.low.clear();
        series.high.clear();
    }
}

/// Returns every run with its figures and costs.
fn runs(results: &Results) -> Table {
    let figures = results
        .figures
        .iter()
        .map(|name| Quantity::Figure(name.clone()));
    let quantities: Vec<Quantity> = figures.chain(results.costs()).collect();
    let labels: Vec<String> = quantities.iter().map(Quantity::label).collect();
    let header: Vec<&str> = ["arm", "seed", "state"]
        .into_iter()
        .chain(labels.iter().map(String::as_str))
        .chain(["protocol", "report"])
        .collect();
    let mut table = Table {
        is_sortable: true,
        ..Table::new("Every run, with the folder of its report.", &header)
    };
    for (number, arm) in results.arms.iter().enumerate() {
        for run in &arm.runs {
            let (state, protocol) = match &run.state {
                RunState::Done(report) => ("done", Cell::from(report.run.protocol.as_str())),
                RunState::Failed(_) => ("failed", Cell::none()),
                RunState::NotRun => ("not run", Cell::none()),
                RunState::NoData => ("no data", Cell::none()),
            };
            let mut cells = vec![
                arm.name.as_str().into(),
                Cell::number(run.seed.to_string(), run.seed),
                state.into(),
            ];
            for quantity in &quantities {
                let values = results.values(number, &Measure::Whole(quantity.clone()));
                let value = values
                    .iter()
                    .find(|(seed, _)| *seed == run.seed)
                    .map(|(_, value)| *value);
                cells.push(value.map_or_else(Cell::none, |value| {
                    Cell::number(quantity.words(value), value)
                }));
            }
            cells.extend([protocol, run.folder.display().to_string().into()]);
            table.rows.push(cells);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::study::sample;

    fn charts(page: &Page) -> Vec<&Chart> {
        page.parts.iter().filter_map(Part::chart).collect()
    }

    /// If this fails, the page of a study shows other courses than its runs had, or a front that is
    /// none.
    #[test]
    fn the_charts_have_every_arm_with_its_band_and_the_front() {
        let results = sample::results();
        let page = page(&results);
        let [courses, front] = charts(&page)[..] else {
            panic!("not two charts")
        };
        let axes: Vec<&str> = courses.across.iter().map(|axis| axis.name).collect();
        assert_eq!(axes, ["all bytes", "uploads", "virtual time", "rounds"]);
        let dense = &courses.series[0];
        assert_eq!(
            (dense.name.as_str(), dense.x[1][3], dense.x[3][3]),
            ("dense", 4e6, 4.0)
        );
        assert!(
            (dense.y[0][3] - 0.5).abs() < 1e-12 && dense.low[0][3] < 0.5 && dense.high[0][3] > 0.5
        );
        assert!(courses.note.starts_with("Protocol of every accuracy: "));
        let names: Vec<&str> = front
            .series
            .iter()
            .map(|series| series.name.as_str())
            .collect();
        assert_eq!(names, ["dense", "int8", "the front"]);
        assert_eq!(front.across.len(), 3);
        assert_eq!(
            front.series[2].x[1].len(),
            2,
            "neither arm beats the other one by uploads"
        );
        let table = page.parts.iter().rev().find_map(|part| match part {
            Part::Folded { table, .. } => Some(table),
            _ => None,
        });
        assert_eq!(table.unwrap().rows.len(), 6);
    }

    /// If this fails, an arm that costs nothing has no place in the chart, or axes of nothing are
    /// offered.
    #[test]
    fn an_arm_that_costs_nothing_is_a_level() {
        let mut results = sample::results();
        let free = |results: &mut Results, arm: usize| {
            for run in &mut results.arms[arm].runs {
                if let RunState::Done(report) = &mut run.state {
                    for round in &mut report.rounds {
                        (round.up_bytes, round.down_bytes, round.virtual_time_s) = (0, 0, 0.0);
                    }
                }
            }
        };
        free(&mut results, 1);
        let level = &courses(&results, "hr@10").series[1];
        assert_eq!((level.x[1].clone(), level.x[3].len()), (vec![1e6, 4e6], 4));
        assert_eq!(level.y[1][0], level.y[1][1]);
        free(&mut results, 0);
        let chart = courses(&results, "hr@10");
        let axes: Vec<&str> = chart.across.iter().map(|axis| axis.name).collect();
        assert_eq!((axes, chart.series[0].x.len()), (vec!["rounds"], 1));
        assert_eq!(
            front(&results, "hr@10").across.len(),
            3,
            "a chart without any axis cannot be drawn"
        );
    }

    /// If this fails, a study of which little is there has no page, or accuracies of two protocols
    /// look comparable.
    #[test]
    fn there_is_a_page_whatever_is_missing() {
        let mut results = sample::results();
        for run in &mut results.arms[1].runs {
            if let RunState::Done(report) = &mut run.state {
                report.run.protocol = "full catalogue".to_owned();
                report.run.selected_round = None;
            }
        }
        let courses = courses(&results, "hr@10");
        assert!(
            courses.note.contains("cannot be compared")
                && courses.series[1].name.ends_with("(full catalogue)")
        );
        assert_eq!(
            front(&results, "hr@10").series.len(),
            2,
            "an arm without a selected round is on the front"
        );
        results.arms[0].runs.truncate(1);
        assert!(
            super::courses(&results, "hr@10").series[0].low.is_empty(),
            "one seed has an interval"
        );
        for arm in &mut results.arms {
            arm.runs
                .iter_mut()
                .for_each(|run| run.state = RunState::NotRun);
        }
        assert_eq!(charts(&page(&results)).len(), 0);
    }
}
