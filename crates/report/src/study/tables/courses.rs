//! The charts of a study: the courses of arms as means over seeds with their intervals, and the
//! arms at their selected rounds.

use crate::chart::{self, Axis, Chart, Cost, Kind, Series, Stroke};
use crate::metrics;
use crate::read::SavedReport;
use crate::rounds::ROUND;
use crate::study::grounds;
use crate::study::results::{ArmResults, Results};
use crate::study::statistics::Summary;
use fedrecsim_core::metric::Metric;

/// An arm of a chart: its number, which gives it its colour, its name in the legend, and its runs.
pub(super) type ChartArm<'a> = (usize, String, &'a ArmResults);

/// Returns an arm's means over seeds after every round that all of its runs have evaluated, at the
/// mean costs.
pub(super) fn course(arm: &ArmResults, metric: &str) -> Series {
    let reports: Vec<&SavedReport> = arm.reports().collect();
    let shortest = reports.iter().map(|report| report.rounds.len()).min();
    let mut series = Series {
        x: vec![Vec::new(); Cost::ALL.len()],
        ..Series::default()
    };
    for row in 0..shortest.unwrap_or(0) {
        let value = |report: &&SavedReport| report.rounds.at(&format!("test_{metric}"), row);
        let values: Option<Vec<f64>> = reports.iter().map(value).collect();
        let rows: Vec<_> = reports.iter().map(|report| (*report, row)).collect();
        add(
            &mut series,
            &rows,
            (&values.unwrap_or_default(), metric),
            &Cost::ALL,
        );
    }
    series
}

/// Returns the course of each run of an arm.
pub(super) fn courses_of_seeds(arm: &ArmResults, metric: &str) -> Vec<Series> {
    let of_run = |report: &SavedReport| {
        let rounds = &report.rounds;
        let values = rounds.get(&format!("test_{metric}"));
        let known: Vec<usize> = (0..values.len())
            .filter(|row| values[*row].is_some())
            .collect();
        let places = |cost: &Cost| known.iter().map(|row| cost.at(rounds, *row)).collect();
        Series {
            seed: Some(report.run.seed),
            stroke: Stroke::Thin,
            x: Cost::ALL.iter().map(places).collect(),
            y: known.iter().filter_map(|row| values[*row]).collect(),
            ..Series::default()
        }
    };
    arm.reports().map(of_run).collect()
}

/// Returns an arm's mean at the selected rounds of its runs, at the mean costs until then; `None`
/// if no run has a selected round.
pub(super) fn point(arm: &ArmResults, metric: &str) -> Option<Series> {
    let at_selected = |report| -> Option<((&SavedReport, usize), f64)> {
        let report: &SavedReport = report;
        let row = report
            .rounds
            .find(ROUND, report.run.selected_round?.into())?;
        Some(((report, row), *report.run.accuracy.test.get(metric)?))
    };
    let (rows, values): (Vec<_>, Vec<f64>) = arm.reports().filter_map(at_selected).unzip();
    let mut series = Series {
        stroke: Stroke::Points,
        x: vec![Vec::new(); Cost::ALL.len()],
        ..Series::default()
    };
    add(&mut series, &rows, (&values, metric), &Cost::ALL);
    (!series.y.is_empty()).then_some(series)
}

/// Adds the mean of values of a metric, which runs had in some rounds, to a series; nothing without
/// values.
fn add(
    series: &mut Series,
    rows: &[(&SavedReport, usize)],
    (values, metric): (&[f64], &str),
    costs: &[Cost],
) {
    let Some(y) = Summary::of(values) else {
        return;
    };
    for (places, cost) in series.x.iter_mut().zip(costs) {
        let spent = rows
            .iter()
            .map(|(report, row)| cost.at(&report.rounds, *row));
        let mean = Summary::of(&spent.collect::<Vec<f64>>()).map(|cost| cost.mean);
        places.extend(mean);
    }
    let ends = y.within(metrics::range(metric)).interval();
    let [low, high] = ends.unwrap_or([y.mean; 2]);
    series.y.push(y.mean);
    series.low.push(low);
    series.high.push(high);
}

/// Returns an arm's series with its name and its look.
fn named(series: Series, (number, name, _): &ChartArm, group: &str) -> Series {
    let look = chart::arm(*number);
    let is_point = series.stroke == Stroke::Points;
    Series {
        group: group.to_owned(),
        name: name.clone(),
        arm: Some(*number),
        figure: series
            .y
            .last()
            .map_or_else(String::new, |last| format!("{last:.3}")),
        color: look.color,
        marker: look.marker,
        stroke: if is_point { series.stroke } else { look.stroke },
        ..series
    }
}

/// Returns the place of the class of arms that an arm can be compared with.
pub(super) fn class_of(classes: &[Vec<usize>], results: &Results, arm: &ArmResults) -> usize {
    let is_of = |class: &Vec<usize>| {
        class
            .iter()
            .any(|place| results.arms[*place].name == arm.name)
    };
    classes.iter().position(is_of).unwrap_or(classes.len())
}

fn chart(results: &Results, metric: &str) -> Chart {
    let label = metrics::label(metric);
    let note = match grounds::classes(&results.grounds()).len() {
        0 | 1 => "",
        _ => {
            "Only arms that are judged alike can be compared; the leaderboard says by what each is judged."
        }
    };
    let metrics: Vec<Metric> = Metric::named(metric).into_iter().collect();
    Chart {
        metric: label.clone(),
        note: note.to_owned(),
        up: Axis::of_metrics(format!("{label} (test)"), &metrics),
        ..Chart::default()
    }
}

/// Returns the courses of arms, with bands over seeds. `heading` says what their names are.
pub(super) fn courses(results: &Results, metric: &str, arms: &[ChartArm], heading: &str) -> Chart {
    let label = metrics::label(metric);
    let group = format!("{heading}, and its last value");
    Chart {
        id: "courses",
        title: format!("{label} over the course of the runs"),
        description: format!(
            "Lines of the mean {label} over seeds of every arm after every evaluated round, with bands for its 95 % interval \
             over seeds, and thin lines for single seeds. \
             The tables below have the figures of the selected rounds, and what it took to come near the best."
        ),
        kind: Kind::Arms,
        across: Cost::ALL.map(|cost| cost.axis("so far")).into(),
        series: arms
            .iter()
            .map(|arm| named(course(arm.2, metric), arm, &group))
            .collect(),
        ..chart(results, metric)
    }
}

/// Returns arms at their selected rounds, and which of them no other one beats.
pub(super) fn front(results: &Results, metric: &str, arms: &[ChartArm], heading: &str) -> Chart {
    let label = metrics::label(metric);
    let group = format!("{heading}, and its value");
    let classes = grounds::classes(&results.grounds());
    Chart {
        id: "front",
        title: format!(
            "{label} at the selected rounds, and the front: the arms that none beats in both"
        ),
        description: format!(
            "Points of the mean {label} of every arm at the selected rounds against the mean cost until then, with 95 % \
             intervals, and a line that joins the arms that no other one beats in both. The tables below have the figures."
        ),
        kind: Kind::Front(metrics::better(metric)),
        across: Cost::ALL
            .map(|cost| cost.axis("until the selected round"))
            .into(),
        series: arms
            .iter()
            .filter_map(|arm| {
                let point = named(point(arm.2, metric)?, arm, &group);
                let class = class_of(&classes, results, arm.2);
                Some(Series { class, ..point })
            })
            .collect(),
        ..chart(results, metric)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::results as sample;

    /// If this fails, a curve is drawn at the cost of another round, or a band at the spread of
    /// another one.
    #[test]
    fn a_course_is_the_mean_of_the_seeds_at_their_mean_cost() {
        let results = sample::results();
        let series = course(&results.arms[0], "hr@10");
        assert_eq!(series.y.len(), 4);
        assert_eq!(series.x[1][3], 4e6);
        assert!((series.y[3] - 0.5).abs() < 1e-12 && series.low[3] < 0.5 && series.high[3] > 0.5);
        let at = point(&results.arms[1], "hr@10").unwrap();
        assert!(
            (at.x[1][0] - 2e6).abs() < 1e-6 && (at.y[0] - 0.45).abs() < 1e-12,
            "{at:?}"
        );
    }
}
