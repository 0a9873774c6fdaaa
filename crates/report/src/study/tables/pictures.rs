//! Draws the pictures of a study: accuracy against bytes, time and rounds with bands over seeds,
//! and which arms no other one beats in accuracy and cost.
//!
//! A picture has a limited number of arms. Of more, the pictures of the study show those that a
//! reader looks for first, and each value of the first axes has pictures of its own, which together
//! show all.

use super::PICTURES;
use super::courses::{ChartArm, class_of, courses, front, point};
use super::published::published;
use crate::chart::{self, Cost, Series, Stroke};
use crate::metrics;
use crate::plot::draw;
use crate::study::grounds;
use crate::study::names::{self, Names};
use crate::study::plan;
use crate::study::results::{ArmResults, Results};
use fedrecsim_core::Result;

/// The costs by which arms are looked for that no other one beats. Every arm may have as many rounds
/// as it likes.
const FRONTS: [Cost; 3] = [Cost::Bytes, Cost::Uploads, Cost::Time];

/// The most arms of a picture: of more, nobody can tell one from the other.
const MOST_ARMS: usize = 16;

/// Returns all pictures with the names of their files: first those of [`PICTURES`], then those of
/// groups of arms. None if there is no metric to draw or no run to draw it of.
pub(crate) fn all(results: &Results) -> Result<Vec<(String, String)>> {
    let Some(metric) = results.metrics.first().filter(|_| results.counts()[0] > 0) else {
        return Ok(Vec::new());
    };
    let arms: Vec<&ArmResults> = results
        .arms
        .iter()
        .filter(|arm| arm.reports().next().is_some())
        .collect();
    let drawn = looked_for_first(results, &arms, metric);
    let remark = (drawn.len() < arms.len()).then(|| {
        format!(
            "\n{} of {} arms: those that no other one beats, those that others are compared to, then the first others",
            drawn.len(),
            arms.len()
        )
    });
    let mut pictures = of_arms(results, metric, &drawn, (remark.as_deref(), ""))?;
    if remark.is_some() {
        let all: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
        for group in names::groups(&all, MOST_ARMS) {
            let of_group: Vec<&ArmResults> = group.arms.iter().map(|place| arms[*place]).collect();
            let suffix = format!("-{}", plan::folder_of(&group.name));
            pictures.extend(of_arms(results, metric, &of_group, (None, &suffix))?);
        }
    }
    Ok(pictures)
}

/// Returns as many arms as a picture may have, in the order of the study: all, or those that no
/// other one beats by uploads, bytes or time, then those that others are compared to, then the
/// first others.
fn looked_for_first<'a>(
    results: &Results,
    arms: &[&'a ArmResults],
    metric: &str,
) -> Vec<&'a ArmResults> {
    let better = metrics::better(metric);
    let points = arms.iter().map(|arm| point(arm, metric)).enumerate();
    let known: Vec<(usize, Series)> = points
        .filter_map(|(place, point)| Some((place, point?)))
        .collect();
    let mut order: Vec<usize> = Vec::new();
    let classes = grounds::classes(&results.grounds());
    for axis in FRONTS {
        for class in 0..=classes.len() {
            let alike = known
                .iter()
                .filter(|(place, _)| class_of(&classes, results, arms[*place]) == class);
            let alike: Vec<&(usize, Series)> = alike.collect();
            let cost = |(_, point): &&(usize, Series)| {
                [point.x[axis as usize][0], chart::loss(better, point.y[0])]
            };
            let costs: Vec<[f64; 2]> = alike.iter().map(cost).collect();
            let unbeaten = chart::unbeaten(&costs).into_iter();
            order.extend(unbeaten.map(|place| alike[place].0));
        }
    }
    let is_compared_to = |place: &usize| {
        let mut others = results.arms.iter().filter_map(|arm| arm.compare_to);
        others.any(|other| results.arms[other].name == arms[*place].name)
    };
    order.extend((0..arms.len()).filter(is_compared_to));
    order.extend(0..arms.len());
    let mut kept: Vec<usize> = Vec::new();
    for place in order {
        if kept.len() < MOST_ARMS && !kept.contains(&place) {
            kept.push(place);
        }
    }
    kept.sort_unstable();
    kept.into_iter().map(|place| arms[place]).collect()
}

/// Returns the pictures of some arms, with a remark that names them and a suffix to the file names.
fn of_arms(
    results: &Results,
    metric: &str,
    arms: &[&ArmResults],
    (remark, suffix): (Option<&str>, &str),
) -> Result<Vec<(String, String)>> {
    let names = Names::of(&arms.iter().map(|arm| arm.name.as_str()).collect::<Vec<_>>());
    let (heading, labels) = match names.values() {
        Some((axis, values)) => (axis, values),
        None => ("arm", names.labels.iter().map(String::as_str).collect()),
    };
    let mut subtitle = format!(
        "{} on the test part, mean over seeds with its 95 % interval",
        metrics::label(metric)
    );
    if !names.shared.is_empty() {
        subtitle.push_str(&format!("\nAll arms: {}", names.shared.join(", ")));
    }
    if let Some(protocol) = super::head::protocol(results) {
        subtitle.push_str(&format!("\nProtocol: {protocol}"));
    }
    subtitle.push_str(remark.unwrap_or_default());
    let arms: Vec<ChartArm> = (0..)
        .zip(arms.iter().zip(labels))
        .map(|(number, (arm, label))| (number, label.to_owned(), *arm))
        .collect();
    let mut courses = courses(results, metric, &arms, heading);
    let front = front(results, metric, &arms, heading);
    let mut pictures = Vec::new();
    let costs = [Cost::Uploads, Cost::Bytes, Cost::Time, Cost::Rounds];
    let fronts = [Cost::Bytes, Cost::Time];
    let drawn = costs.map(|cost| (cost, false)).into_iter();
    for (name, (cost, is_front)) in PICTURES
        .into_iter()
        .zip(drawn.chain(fronts.map(|cost| (cost, true))))
    {
        let name = name.replace(".svg", &format!("{suffix}.svg"));
        let mut subtitle = subtitle.clone();
        // Published courses are known by rounds alone, whose pictures are the last ones of courses.
        if cost == Cost::Rounds {
            let published = arms.iter().filter_map(|(number, _, arm)| {
                let (rounds, y) = published(results, &arm.name, metric)?;
                let mut x = vec![Vec::new(); Cost::ALL.len()];
                x[Cost::Rounds as usize] = rounds;
                Some(Series {
                    stroke: Stroke::Dot,
                    x,
                    y,
                    ..chart::arm(*number)
                })
            });
            let before = courses.series.len();
            courses.series.extend(published);
            if courses.series.len() > before {
                subtitle.push_str("\nDotted: published courses");
            }
        }
        let chart = if is_front { &front } else { &courses };
        let axis = cost as usize;
        let svg = draw(&name, chart, axis, (&results.title, &subtitle))?;
        pictures.push((name, svg));
    }
    Ok(pictures)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::study::file::PublishedCourse;
    use crate::study::results::RunState;
    use crate::tests::results as sample;

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
            arm.runs
                .iter_mut()
                .for_each(|run| run.state = RunState::NotRun);
        }
        assert_eq!(all(&results).unwrap(), []);
    }

    /// If this fails, a published course is not drawn, or where it has no meaning.
    #[test]
    fn published_courses_are_drawn_over_rounds_alone() {
        let mut results = sample::results();
        let course = PublishedCourse {
            arm: 1,
            metric: "hr@10".to_owned(),
            points: vec![(1, 0.7), (4, 0.75)],
        };
        results.courses = vec![course];
        for (name, svg) in all(&results).unwrap() {
            assert_eq!(
                svg.contains("Dotted: published courses"),
                name == "accuracy-by-round.svg",
                "{name}"
            );
        }
    }

    /// If this fails, a picture repeats in every label what all of its arms share, or nobody can
    /// see what that is.
    #[test]
    fn what_all_arms_share_is_in_the_subtitle_alone() {
        let mut results = sample::results();
        results
            .arms
            .iter_mut()
            .for_each(|arm| arm.name = format!("data=ml-100k, codec={}", arm.name));
        for (name, svg) in all(&results).unwrap() {
            let drawn = svg.split("</desc>").nth(1).unwrap();
            assert_eq!(drawn.matches("data=ml-100k").count(), 1, "{name}: {drawn}");
            assert!(
                drawn.contains("codec, and its ") && drawn.contains("\nint8: 0.4"),
                "{name}: {drawn}"
            );
        }
    }

    /// If this fails, the arm that a reader looks for is not on the picture of a large study, or
    /// some arm is on none.
    #[test]
    fn a_study_with_many_arms_has_pictures_of_groups_and_one_of_the_arms_that_matter() {
        let mut results = sample::results();
        let arms = std::mem::take(&mut results.arms);
        for data in ["a", "b"] {
            for codec in 0..14 {
                let mut arm = arms[usize::from(codec == 13)].clone();
                arm.name = format!("data={data}, codec={codec}");
                arm.compare_to = Some(26);
                for run in arm.runs.iter_mut().filter(|_| codec < 12) {
                    if let Some(report) = &mut run.report {
                        report.run.accuracy.test.insert("hr@10".to_owned(), 0.3);
                    }
                }
                results.arms.push(arm);
            }
        }
        let pictures = all(&results).unwrap();
        let names: Vec<&str> = pictures.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((names.len(), &names[..6]), (18, &PICTURES[..]));
        assert_eq!(
            (names[6], names[17]),
            ("accuracy-by-uploads-data=a.svg", "pareto-time-data=b.svg")
        );
        let whole = &pictures[1].1;
        assert!(
            whole.contains("\n16 of 28 arms: ") && whole.contains("data=b, codec=12: 0.500"),
            "{whole}"
        );
        assert!(
            !whole.contains("data=b, codec=0: "),
            "an arm that is beaten is drawn before others"
        );
        assert!(
            whole.contains("data=b, codec=13: 0.450"),
            "an arm of the front is left out"
        );
        assert!(
            pictures[17].1.contains("All arms: data=b\n")
                && pictures[14].1.contains("14: 13: 0.450")
        );
    }
}
