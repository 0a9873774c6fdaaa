//! Draws the pictures of a study: accuracy against bytes and time with bands over seeds, and which arms no other one
//! beats in both.

use super::PICTURES;
use super::courses::{curve, point};
use crate::error::Result;
use crate::report::courses::{Against, FrontPoint};
use crate::report::figures;
use crate::report::plot::arms::{MOST_ARMS, Picture, curves, front};
use crate::study::quantities::direction;
use crate::study::results::{ArmResults, Results};

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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::study::results::RunState;
    use crate::study::sample;

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
