//! The courses of arms: means over seeds with their intervals, at what they cost.

use crate::report::courses::{Against, Band, Curve, FrontPoint};
use crate::report::read::{SavedReport, SavedRound};
use crate::study::results::ArmResults;
use crate::study::statistics::Summary;

/// Returns what a round had cost.
fn cost(round: &SavedRound, against: Against) -> f64 {
    match against {
        Against::Rounds => round.round.into(),
        Against::Uploads => round.up_bytes as f64,
        Against::Bytes => (round.up_bytes + round.down_bytes) as f64,
        Against::VirtualTime => round.virtual_time_s,
    }
}

/// Returns an arm's mean over seeds after every round that all of its runs have evaluated, at the
/// mean cost.
pub(crate) fn curve(arm: &ArmResults, figure: &str, against: Against) -> Curve {
    let reports: Vec<&SavedReport> = arm.reports().collect();
    let shortest = reports
        .iter()
        .map(|report| report.rounds.len())
        .min()
        .unwrap_or(0);
    let mut points = Vec::new();
    for number in 0..shortest {
        let rounds = reports.iter().map(|report| &report.rounds[number]);
        let measured: Option<Vec<(f64, f64)>> = rounds
            .map(|round| Some((cost(round, against), *round.test.get(figure)?)))
            .collect();
        let Some(measured) = measured else { continue };
        let (costs, values): (Vec<f64>, Vec<f64>) = measured.into_iter().unzip();
        points.extend(band(&costs, &values));
    }
    Curve {
        label: arm.name.clone(),
        points,
    }
}

/// Returns an arm's accuracy at the selected round, and what that round had cost.
pub(crate) fn point(arm: &ArmResults, figure: &str, against: Against) -> Option<FrontPoint> {
    let at_selected = |report: &SavedReport| {
        let selected = report.run.selected_round?;
        let round = report.rounds.iter().find(|round| round.round == selected)?;
        Some((cost(round, against), *report.run.accuracy.test.get(figure)?))
    };
    let (costs, values): (Vec<f64>, Vec<f64>) = arm.reports().filter_map(at_selected).unzip();
    Some(FrontPoint {
        label: arm.name.clone(),
        at: band(&costs, &values)?,
    })
}

fn band(costs: &[f64], values: &[f64]) -> Option<Band> {
    let (x, y) = (Summary::of(costs)?.mean, Summary::of(values)?);
    let [low, high] = y.interval().unwrap_or([y.mean; 2]);
    Some(Band {
        x,
        y: y.mean,
        low,
        high,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::study::sample;

    /// If this fails, a curve is drawn at the cost of another round, or a band at the spread of
    /// another one.
    #[test]
    fn a_curve_is_the_mean_of_the_seeds_at_their_mean_cost() {
        let results = sample::results();
        let Curve { points, .. } = curve(&results.arms[0], "hr@10", Against::Uploads);
        assert_eq!(points.len(), 4);
        assert_eq!(points[3].x, 4e6);
        assert!((points[3].y - 0.5).abs() < 1e-12 && points[3].low < 0.5 && points[3].high > 0.5);
        let FrontPoint { at, .. } = point(&results.arms[1], "hr@10", Against::Uploads).unwrap();
        assert!(
            (at.x - 2e6).abs() < 1e-6 && (at.y - 0.45).abs() < 1e-12,
            "{at:?}"
        );
    }
}
