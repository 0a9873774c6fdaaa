//! Draws the pictures of a study: accuracy against bytes and time with bands over seeds, and which arms no other one
//! beats in both.

use super::PICTURES;
use crate::error::Result;
use crate::report::figures;
use crate::report::plot::Against;
use crate::report::plot::arms::{Band, Curve, FrontPoint, MOST_ARMS, Picture, curves, front};
use crate::report::read::{SavedReport, SavedRound};
use crate::study::quantities::direction;
use crate::study::results::{ArmResults, Results};
use crate::study::statistics::Summary;

/// Returns all pictures, under the names of [`PICTURES`]; none if there is no figure to draw or no run to draw it of.
pub fn all(results: &Results) -> Result<Vec<(&'static str, String)>> {
    let Some(figure) = results.figures.first().filter(|_| results.counts()[0] > 0) else { return Ok(Vec::new()) };
    let arms: Vec<&ArmResults> = results.arms.iter().filter(|arm| arm.reports().next().is_some()).collect();
    let drawn = &arms[..arms.len().min(MOST_ARMS)];
    let label = figures::label(figure);
    let mut subtitle = format!("{label} on the test part, mean over seeds with its 95 % interval");
    if drawn.len() < arms.len() {
        subtitle.push_str(&format!("; the first {} of {} arms", drawn.len(), arms.len()));
    }
    if let [protocol] = super::protocols(results)[..] {
        subtitle.push_str(&format!("\nProtocol: {protocol}"));
    }
    let picture = Picture { title: results.title.clone(), subtitle, figure: figure.clone() };
    let mut pictures = Vec::new();
    for (name, against) in PICTURES.into_iter().zip([Against::Uploads, Against::Bytes, Against::VirtualTime]) {
        let of_arm = |arm: &&ArmResults| curve(arm, figure, against);
        pictures.push((name, curves(name, &picture, against, &drawn.iter().map(of_arm).collect::<Vec<_>>())?));
    }
    for (name, against) in PICTURES.into_iter().skip(3).zip([Against::Bytes, Against::VirtualTime]) {
        let of_arm = |arm: &&ArmResults| point(arm, figure, against);
        let points: Vec<FrontPoint> = drawn.iter().filter_map(of_arm).collect();
        pictures.push((name, front(name, &picture, against, direction(figure), &points)?));
    }
    Ok(pictures)
}

/// Returns what a round had cost.
fn cost(round: &SavedRound, against: Against) -> f64 {
    match against {
        Against::Rounds => round.round.into(),
        Against::Uploads => round.up_bytes as f64,
        Against::Bytes => (round.up_bytes + round.down_bytes) as f64,
        Against::VirtualTime => round.virtual_time_s,
    }
}

/// Returns an arm's mean over seeds after every round that all of its runs have evaluated, at the mean cost.
fn curve(arm: &ArmResults, figure: &str, against: Against) -> Curve {
    let reports: Vec<&SavedReport> = arm.reports().collect();
    let shortest = reports.iter().map(|report| report.rounds.len()).min().unwrap_or(0);
    let mut points = Vec::new();
    for number in 0..shortest {
        let rounds = reports.iter().map(|report| &report.rounds[number]);
        let measured: Option<Vec<(f64, f64)>> =
            rounds.map(|round| Some((cost(round, against), *round.test.get(figure)?))).collect();
        let Some(measured) = measured else { continue };
        let (costs, values): (Vec<f64>, Vec<f64>) = measured.into_iter().unzip();
        points.extend(band(&costs, &values));
    }
    Curve { label: arm.name.clone(), points }
}

/// Returns an arm's accuracy at the selected round, and what that round had cost.
fn point(arm: &ArmResults, figure: &str, against: Against) -> Option<FrontPoint> {
    let at_selected = |report: &SavedReport| {
        let selected = report.run.selected_round?;
        let round = report.rounds.iter().find(|round| round.round == selected)?;
        Some((cost(round, against), *report.run.accuracy.test.get(figure)?))
    };
    let (costs, values): (Vec<f64>, Vec<f64>) = arm.reports().filter_map(at_selected).unzip();
    Some(FrontPoint { label: arm.name.clone(), at: band(&costs, &values)? })
}

fn band(costs: &[f64], values: &[f64]) -> Option<Band> {
    let (x, y) = (Summary::of(costs)?.mean, Summary::of(values)?);
    let [low, high] = y.interval().unwrap_or([y.mean; 2]);
    Some(Band { x, y: y.mean, low, high })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::study::results::RunState;
    use crate::study::sample;

    /// If this fails, a curve is drawn at the cost of another round, or a band at the spread of another one.
    #[test]
    fn a_curve_is_the_mean_of_the_seeds_at_their_mean_cost() {
        let results = sample::results();
        let Curve { points, .. } = curve(&results.arms[0], "hr@10", Against::Uploads);
        assert_eq!(points.len(), 4);
        assert_eq!(points[3].x, 4e6);
        assert!((points[3].y - 0.5).abs() < 1e-12 && points[3].low < 0.5 && points[3].high > 0.5);
        let FrontPoint { at, .. } = point(&results.arms[1], "hr@10", Against::Uploads).unwrap();
        assert!((at.x - 2e6).abs() < 1e-6 && (at.y - 0.45).abs() < 1e-12, "{at:?}");
    }

    #[test]
    fn there_are_pictures_whatever_is_missing() {
        let mut results = sample::results();
        assert_eq!(all(&results).unwrap().len(), PICTURES.len());
        for (name, svg) in all(&results).unwrap() {
            for text in ["What codecs cost", "dense", "int8", "HR@10"] {
                assert!(svg.contains(text), "no {text:?} in {name}");
            }
            assert!(!svg.contains("NaN"), "{name}");
        }
        results.arms[0].runs.truncate(1);
        results.arms[1].runs[0].state = RunState::NotRun;
        assert_eq!(all(&results).unwrap().len(), PICTURES.len());
        for arm in &mut results.arms {
            arm.runs.iter_mut().for_each(|run| run.state = RunState::NotRun);
        }
        assert_eq!(all(&results).unwrap(), []);
    }
}
