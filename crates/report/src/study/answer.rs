//! The answer of a study in a sentence, and where its arms stand.

use serde::Serialize;

use super::grounds;
use super::names::Names;
use super::results::Results;
use super::sentence;
use super::standing::{Question, Standing};
use crate::reference::POPULARITY;

/// The answer for one metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Answer {
    /// The metric.
    pub metric: String,
    /// The answer in a sentence.
    pub sentence: String,
    /// What a reader has to know besides.
    pub more: Vec<String>,
    /// The arms that have a result: those that can be compared beside each other, the best first.
    pub arms: Vec<Standing>,
}

impl Results {
    /// Returns the answer for the first metric; `None` if no run has a result.
    pub(crate) fn answer(&self) -> Option<Answer> {
        let (names, grounds) = (Names::of_arms(&self.arms), self.grounds());
        let metric = self.metrics.first()?;
        answer(&Question::of(self, metric, &names.labels, &grounds)?)
    }
}

impl Results {
    /// Returns the baseline that all arms are held against, and its mean beside them.
    pub(crate) fn reference_in<'a>(&'a self, metric: &'a str) -> Option<(&'a str, f64)> {
        let question = Question::of(self, metric, &[], &[])?;
        let mean = question.reference_mean(&(0..self.arms.len()).collect::<Vec<_>>())?;
        Some((question.reference.unwrap_or(POPULARITY), mean))
    }
}

/// Returns the answer; `None` without a result.
fn answer(question: &Question<'_>) -> Option<Answer> {
    let classes = grounds::classes(question.grounds);
    let classes: Vec<Vec<usize>> = classes
        .iter()
        .map(|class| question.ranked(class))
        .filter(|class| !class.is_empty())
        .collect();
    let standings = |(number, class): (usize, &Vec<usize>)| -> Vec<Standing> {
        let standing = |arm: &usize| question.standing(*arm, number, class);
        class.iter().filter_map(standing).collect()
    };
    let arms = classes.iter().enumerate().flat_map(standings).collect();
    let (sentence, more) = sentence::of(question, &classes)?;
    Some(Answer {
        metric: question.metric.to_owned(),
        sentence,
        more,
        arms,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::study::bootstrap::tests::with_users;
    use crate::study::standing::Figure;
    use crate::tests::results as sample;

    /// Has the first arm rank by popularity, or all runs know how accurate that is.
    fn with_popularity(results: &mut Results, is_arm: bool, value: f64) {
        let arms = results.arms.iter_mut().enumerate();
        let runs = arms.flat_map(|(place, arm)| arm.runs.iter_mut().map(move |run| (place, run)));
        for (place, run) in runs {
            let run = &mut run.report.as_mut().unwrap().run;
            let baseline = run.baselines.entry("popularity".to_owned()).or_default();
            baseline.test.insert("hr@10".to_owned(), value);
            let method = if is_arm && place == 0 {
                "popularity"
            } else {
                "fedmf"
            };
            run.scenario["method"] = serde_json::json!({ method: {} });
            run.protocol =
                "leave-one-out, 99 sampled candidates, negatives `not-in-train`, last round"
                    .to_owned();
        }
    }

    fn said(results: &Results) -> String {
        let answer = results.answer().unwrap();
        format!("{} {}", answer.sentence, answer.more.join(" "))
    }

    /// If this fails, a count of a window is called popularity, and every arm is said to be behind it.
    #[test]
    fn a_count_of_a_window_is_held_against_popularity_too() {
        let mut results = sample::results();
        with_popularity(&mut results, true, 0.41);
        assert!(
            said(&results).starts_with("Popularity is ahead of int8: "),
            "{}",
            said(&results)
        );
        for run in &mut results.arms[0].runs {
            let run = &mut run.report.as_mut().unwrap().run;
            run.scenario["method"] = serde_json::json!({ "popularity": { "window_days": 30.0 } });
        }
        assert!(
            said(&results).starts_with(
                "dense finds the held-out item most often: HR@10 .500 ± .025, .090 more than"
            ),
            "{}",
            said(&results)
        );
    }

    /// If this fails, the first sentence of a study says something else than its tables.
    #[test]
    fn the_sentence_has_the_best_arm_its_interval_and_popularity() {
        let mut results = sample::results();
        with_popularity(&mut results, false, 0.41);
        assert_eq!(
            said(&results),
            "dense finds the held-out item most often: HR@10 .500 ± .025, .090 more than popularity (.065 to .115). \
             Intervals are those of 95 % over seeds."
        );
        let answer = results.answer().unwrap();
        let [best, second] = &answer.arms[..] else {
            panic!("not two arms")
        };
        assert_eq!(
            (best.name.as_str(), best.other, second.other),
            ("dense", None, Some(0))
        );
        assert!((second.more_than_compared.unwrap().mean + 0.05).abs() < 1e-12);
        with_popularity(&mut results, false, 0.6);
        assert!(
            said(&results).starts_with(
                "Popularity is ahead of every arm: HR@10 .600; dense comes next with .500 ± .025, .100 less than it (.075 to .125)."
            ),
            "{}",
            said(&results)
        );
        results.arms.truncate(1);
        results.arms[0].runs.truncate(1);
        with_popularity(&mut results, false, 0.41);
        assert_eq!(
            said(&results),
            "dense: HR@10 .490, .080 more than popularity. With one seed, and without the values of single users, \
             nothing says how much of a difference is chance."
        );
    }

    /// If this fails, arms are ranked that users and seeds do not tell apart.
    #[test]
    fn arms_whose_difference_may_be_none_cannot_be_told_apart() {
        let value = |arm: usize, _: u64, user: usize| {
            0.5 + 0.2 * arm as f64 * if user.is_multiple_of(2) { 1.0 } else { -0.9 }
        };
        let mut results = with_users(value, 60);
        with_popularity(&mut results, false, 0.3);
        let said_of_methods = said(&results);
        assert!(
            said_of_methods.starts_with(
                "dense and int8 cannot be told apart: HR@10 .500 and .450; the first has .200 more than popularity ("
            ) && said_of_methods.contains("over users and seeds. A difference of up to "),
            "{said_of_methods}"
        );
        // Popularity varies over users as well, by at most p (1 - p).
        for run in results.arms.iter_mut().flat_map(|arm| &mut arm.runs) {
            run.report.as_mut().unwrap().run.size.evaluated_users = 60;
        }
        let standing = &results.answer().unwrap().arms[0];
        let width =
            |of: Option<Figure>| of.and_then(|of| of.interval).map(|[low, high]| high - low);
        let own = width(Some(standing.value)).unwrap();
        let least = 2.0 * 1.96 * (0.3_f64 * 0.7 / 60.0).sqrt();
        let found = width(standing.more_than_reference).unwrap();
        assert!(
            found > own && (found - (own * own + least * least).sqrt()).abs() < 1e-3,
            "{found} of {own} and {least}"
        );
        with_popularity(&mut results, true, 0.3);
        assert!(
            said(&results).starts_with("Nothing is shown to beat popularity: HR@10 "),
            "{}",
            said(&results)
        );
    }

    /// If this fails, one of several equal arms is said to come next, or two kinds of intervals look alike.
    #[test]
    fn all_arms_that_come_next_are_named() {
        let mut results = sample::results();
        with_popularity(&mut results, false, 0.6);
        let mut twin = results.arms[0].clone();
        twin.name = "twin".to_owned();
        results.arms.push(twin);
        let told = said(&results);
        assert!(
            told.starts_with(
                "Popularity is ahead of every arm: HR@10 .600; dense and twin come next and cannot be told apart, the \
                 first with .500 ± .025, .100 less than it"
            ),
            "{told}"
        );
        let mut results = sample::results();
        let mut twin = results.arms[1].clone();
        twin.name = "twin".to_owned();
        results.arms.push(twin);
        with_popularity(&mut results, true, 0.6);
        let told = said(&results);
        assert!(
            told.contains(
                "int8 and twin come next and cannot be told apart; the first has .050 less than popularity"
            ),
            "{told}"
        );
        results.arms.truncate(2);
        let told = said(&results);
        assert!(told.starts_with("Popularity is ahead of int8: "), "{told}");
        let value = |_: usize, _: u64, user: usize| if user.is_multiple_of(2) { 0.7 } else { 0.3 };
        let mut results = with_users(value, 60);
        with_popularity(&mut results, false, 0.1);
        for run in &mut results.arms[1].runs {
            run.report.as_mut().unwrap().redrawn = Default::default();
        }
        let told = said(&results);
        assert!(
            told.contains("Those of int8 are over seeds alone"),
            "{told}"
        );
    }

    /// If this fails, a reader is told how many arms cannot be told apart, and not which.
    #[test]
    fn every_arm_that_cannot_be_told_apart_is_named() {
        let value = |_: usize, _: u64, user: usize| if user.is_multiple_of(2) { 0.7 } else { 0.3 };
        let mut results = with_users(value, 60);
        with_popularity(&mut results, false, 0.5);
        let other = results.arms[1].clone();
        let named = |count: usize| {
            (0..count).map(|number| {
                let mut arm = other.clone();
                arm.name = format!("arm {number}");
                arm
            })
        };
        results.arms.extend(named(10));
        let told = said(&results);
        let all: Vec<String> = (0..10).map(|number| format!("arm {number}")).collect();
        for name in all.iter().map(String::as_str).chain(["dense", "int8"]) {
            assert!(told.contains(name), "{name}: {told}");
        }
        assert!(
            told.contains("and 4 others cannot be told apart")
                && told.contains("The others that cannot be told apart are ")
                && told.contains("arm 8 and arm 9 cannot be told from popularity."),
            "{told}"
        );
        results.arms.truncate(3);
        assert!(
            said(&results).contains("dense, int8 and arm 0 cannot be told apart: "),
            "{}",
            said(&results)
        );
    }

    /// If this fails, an arm that was told the held-out item is called the best one, or arms that were
    /// judged in different ways are ranked.
    #[test]
    fn a_leak_is_named_first_and_other_protocols_are_not_compared() {
        let mut results = sample::results();
        with_popularity(&mut results, false, 0.3);
        let set = |results: &mut Results, arm: usize, from: &str, to: &str| {
            for run in &mut results.arms[arm].runs {
                let run = &mut run.report.as_mut().unwrap().run;
                run.protocol = run.protocol.replace(from, to);
            }
        };
        set(&mut results, 0, "`not-in-train`", "`unrated`");
        assert!(
            said(&results).starts_with(
                "dense leads by a protocol that leaks (its negatives tell it the held-out item): HR@10 .500 ± .025. \
                 Without it, int8: HR@10 .450 ± .025, .150 more than popularity (.125 to .175)."
            ),
            "{}",
            said(&results)
        );
        with_popularity(&mut results, false, 0.6);
        set(&mut results, 0, "`not-in-train`", "`unrated`");
        let told = said(&results);
        assert!(
            told.contains("Without it, popularity is ahead of int8: "),
            "{told}"
        );
        with_popularity(&mut results, false, 0.3);
        set(&mut results, 0, "`not-in-train`", "`unrated`");
        set(&mut results, 1, "99 sampled candidates", "full catalogue");
        let told = said(&results);
        assert!(
            told.starts_with("The arms are judged in 2 ways,")
                && told.contains("full catalogue, last round: int8: HR@10 .450"),
            "{told}"
        );
    }

    /// If this fails, an accuracy over five users is ranked beside one over all, or an error is called
    /// good that a mean of ratings does better.
    #[test]
    fn other_users_are_another_way_to_judge_and_errors_are_held_against_a_mean() {
        let mut results = sample::results();
        with_popularity(&mut results, false, 0.3);
        for run in &mut results.arms[1].runs {
            let run = &mut run.report.as_mut().unwrap().run;
            run.scenario["evaluation"]["users"] = 5.into();
        }
        let told = said(&results);
        assert!(
            told.starts_with("The arms are judged in 2 ways,") && told.contains("5 users tested"),
            "{told}"
        );
        let mut results = sample::results();
        results.metrics = vec!["rmse".to_owned()];
        results.arms.truncate(1);
        for run in &mut results.arms[0].runs {
            let run = &mut run.report.as_mut().unwrap().run;
            run.accuracy.test.insert("rmse".to_owned(), 0.836);
            let baseline = run.baselines.entry("global-mean".to_owned()).or_default();
            baseline.test.insert("rmse".to_owned(), 0.75);
        }
        assert!(
            said(&results).starts_with("The mean of all ratings is ahead of dense: RMSE .750; "),
            "{}",
            said(&results)
        );
    }

    #[test]
    fn without_a_result_there_is_no_answer() {
        let mut results = sample::results();
        results.arms.iter_mut().for_each(|arm| arm.runs.clear());
        assert_eq!(results.answer(), None);
    }
}
