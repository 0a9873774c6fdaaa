//! The leaderboard of a study.

use super::head::{differing, seeds};
use super::runs_cell;
use crate::column::{Cell, Unit};
use crate::document::{Block, Board, BoardArm, BoardRow, Columns, Table};
use crate::doubts::Course;
use crate::metrics;
use crate::read::SavedReport;
use crate::reference::in_words;
use crate::study::answer::Answer;
use crate::study::grounds;
use crate::study::names::{Names, axes_of, is_popularity};
use crate::study::results::{Results, RunResult, RunState};
use crate::study::sentence::range;
use crate::study::standing::{Figure, Standing};
use crate::study::statistics::Summary;
use crate::words::short;

/// A row of the leaderboard.
struct Entry<'a> {
    standing: &'a Standing,
    /// The name of what it is held against.
    other: Option<&'a str>,
    /// How it is judged, if not all are judged alike.
    judged: Option<String>,
    /// The arms that it is made of, which have a run.
    arms: Vec<usize>,
}

/// Returns the entries of an answer about `results`; `arms_of` has the arms of each.
fn entries<'a>(
    (results, answer): (&Results, &'a Answer),
    arms_of: &dyn Fn(usize) -> Vec<usize>,
) -> Vec<Entry<'a>> {
    let all = results.grounds();
    let classes = grounds::classes(&all);
    let entry = |of: &'a Standing| {
        let other = answer.arms.iter().find(|other| Some(other.arm) == of.other);
        let own = classes.iter().find(|class| class.contains(&of.arm));
        Entry {
            standing: of,
            other: other.map(|other| other.name.as_str()),
            judged: own
                .filter(|_| classes.len() > 1)
                .map(|own| grounds::class_name(&all, own, &classes)),
            arms: arms_of(of.arm),
        }
    };
    answer
        .arms
        .iter()
        .map(entry)
        .filter(|entry| !entry.arms.is_empty())
        .collect()
}

/// Returns the leaderboard of an answer. Arms that repeat one experiment are one row if there are
/// results of them as one arm each.
pub(super) fn board(
    results: &Results,
    answer: &Answer,
    pooled: Option<(&Results, &Answer)>,
) -> Block {
    let repeats = |arm: usize| results.arms[arm].experiment.as_deref();
    let rows = match pooled {
        None => entries((results, answer), &|arm| vec![arm]),
        Some((of_pools, of)) => {
            let arms_of = |pool: usize| {
                let name = Some(of_pools.arms[pool].name.as_str());
                (0..results.arms.len())
                    .filter(|arm| repeats(*arm) == name)
                    .collect()
            };
            let mut rows = entries((of_pools, of), &arms_of);
            rows.extend(entries((results, answer), &|arm| match repeats(arm) {
                Some(_) => Vec::new(),
                None => vec![arm],
            }));
            rows
        }
    };
    let label = metrics::label(&answer.metric);
    let is_one_class = rows.iter().all(|of| of.judged.is_none());
    let mut table: Columns<'_, &Entry<'_>> = Columns::new();
    table.add("arm", |of: &&Entry<'_>| of.standing.name.clone());
    table.add(label.clone(), |of| {
        let value = &of.standing.value;
        Cell::number(range(value), value.mean)
    });
    if rows.len() > 1 {
        let mut others = rows.iter().filter_map(|of| of.other);
        let first = others.next();
        let is_one = others.all(|other| Some(other) == first) && is_one_class;
        let heading = match (first, is_one) {
            (Some(other), true) => format!("more than {other}"),
            _ => "more than the other".to_owned(),
        };
        table.add(heading, |of| {
            of.standing.more_than_compared.map_or_else(Cell::none, more)
        });
        if !is_one {
            table.add("the other", |of| {
                of.other.map_or_else(Cell::none, Into::into)
            });
        }
    }
    let mean = |of: &Entry<'_>, value: fn(&SavedReport) -> f64| {
        let reports = of.arms.iter().flat_map(|arm| results.arms[*arm].reports());
        Summary::of(&reports.map(value).collect::<Vec<f64>>()).map(|of| of.mean)
    };
    table.add("up per user", move |of| {
        let per_user: fn(&SavedReport) -> f64 =
            |report| report.run.bytes.up.sent as f64 / report.run.size.users.max(1) as f64;
        Unit::Bytes.cell(mean(of, per_user))
    });
    table.add("down per user", move |of| {
        let per_user: fn(&SavedReport) -> f64 =
            |report| report.run.down_bytes() as f64 / report.run.size.users.max(1) as f64;
        Unit::Bytes.cell(mean(of, per_user))
    });
    table.add("virtual time", move |of| {
        Unit::Seconds.cell(mean(of, |report| report.run.virtual_time_s))
    });
    table.add("rounds", move |of| {
        Unit::Count.cell(mean(of, |report| report.run.rounds.into()))
    });
    table.add("course", |of| {
        let reports = of.arms.iter().flat_map(|arm| results.arms[*arm].reports());
        course(reports, &answer.metric)
    });
    // Where all are there, the seeds above the table say how many.
    let is_done = |run: &RunResult| run.state == RunState::Done;
    let mut arms = results.arms.iter();
    if !arms.all(|arm| arm.runs.iter().all(is_done)) || seeds(results).is_none() {
        table.add("runs", |of| {
            let cells = of.arms.iter().map(|arm| runs_cell(&results.arms[*arm]));
            cells.map(|cell| cell.text).collect::<Vec<_>>().join("; ")
        });
    }
    if !is_one_class {
        table.add("judged by", |of| {
            of.judged.clone().map_or_else(Cell::none, Into::into)
        });
    }
    let pools = match pooled {
        Some(_) => {
            " One that repeats an experiment is in one row, with means over the repetitions."
        }
        None => "",
    };
    let caption = format!(
        "Arms, the best first: an arm is one setting, run with every seed.{pools} Bytes are those of the whole run, and \
         virtual time is what the simulated devices and links take."
    );
    let reference = pooled.map_or(results, |(of_pools, _)| of_pools);
    let reference = reference
        .reference_in(&answer.metric)
        .filter(|_| is_one_class);
    let line = reference.map_or_else(String::new, |(name, _)| {
        format!("; dashed: {}", in_words(name))
    });
    let names = Names::of_arms(&results.arms);
    let keys = differing(results);
    let arm = |place: usize| BoardArm {
        place,
        name: names.labels[place].clone(),
        is_reference: is_popularity(&results.arms[place]),
        axes: axes_of(&results.arms[place].name)
            .into_iter()
            .filter(|(key, _)| keys.contains(key))
            .collect(),
    };
    let row = |of: &Entry<'_>| BoardRow {
        name: of.standing.name.clone(),
        arms: of.arms.iter().copied().map(arm).collect(),
        dot: Some(dot(&of.standing.value)),
    };
    Block::Board(Box::new(Board {
        heading: format!("its interval{line}"),
        rows: rows.iter().map(row).collect(),
        table: Table {
            is_sortable: true,
            ..table.table(&caption, &rows)
        },
        reference: reference.map(|(_, value)| value),
    }))
}

fn dot(value: &Figure) -> [f64; 3] {
    let [low, high] = value.interval.unwrap_or([value.mean; 2]);
    [low, value.mean, high]
}

/// Returns how much more an arm has, with its sign.
fn more(figure: Figure) -> Cell {
    let signed = |value: f64| match value > 0.0 {
        true => format!("+{}", short(value)),
        false => short(value),
    };
    let between = figure.interval.map_or_else(String::new, |[low, high]| {
        format!(" ({} to {})", signed(low), signed(high))
    });
    Cell::number(format!("{}{between}", signed(figure.mean)), figure.mean)
}

/// Returns how the metric goes on in the last rounds of an arm. One run that still gets better is
/// enough, as it is for the doubt above the table.
pub(super) fn course<'r>(
    reports: impl Iterator<Item = &'r SavedReport>,
    metric: &str,
) -> &'static str {
    let all = reports;
    let all: Vec<Course> = all
        .map(|report| Course::of(&report.rounds, metric))
        .collect();
    let improving = all.iter().find(|course| **course == Course::Improving);
    improving
        .or(all.first())
        .map_or("-", |course| course.name())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::results as sample;

    /// If this fails, the table says "settled" of an arm that the doubt above it calls improving.
    #[test]
    fn an_arm_still_improves_if_one_of_its_runs_does() {
        let mut results = sample::results();
        let rising: Vec<f64> = (1..=20).map(|round| f64::from(round) / 40.0).collect();
        let settled: Vec<f64> = rising.iter().map(|value| value.min(0.2)).collect();
        for (run, values) in [(0, &settled), (1, &settled), (2, &rising)] {
            let report = results.arms[0].runs[run].report.as_mut().unwrap();
            let numbers = (1..=20).map(|round| Some(f64::from(round)));
            report.rounds.set("round", numbers.collect());
            let values = values.iter().copied().map(Some).collect();
            report.rounds.set("validation_hr@10", values);
        }
        assert_eq!(
            course(results.arms[0].reports(), "hr@10"),
            "still improving"
        );
        results.arms[0].runs.pop();
        assert_eq!(course(results.arms[0].reports(), "hr@10"), "settled");
    }

    /// If this fails, the leaderboard has other figures than the answer, or its boxes hide another arm.
    #[test]
    fn the_leaderboard_has_a_row_for_every_arm_the_best_first() {
        let mut results = sample::results();
        results.arms.swap(0, 1);
        results
            .arms
            .iter_mut()
            .for_each(|arm| arm.compare_to = None);
        results.arms[0].name = "codec=int8, method=a".to_owned();
        results.arms[1].name = "codec=dense, method=a".to_owned();
        let answer = results.answer().unwrap();
        let Block::Board(board) = super::board(&results, &answer, None) else {
            panic!("no board")
        };
        let rows = board.rows.iter();
        let places: Vec<(usize, &str)> = rows.map(|row| (row.arms[0].place, &*row.name)).collect();
        assert_eq!(places, [(1, "codec=dense"), (0, "codec=int8")]);
        assert_eq!(
            board.rows[0].arms[0].axes,
            [("codec".to_owned(), "dense".to_owned())]
        );
        let [low, mean, high] = board.rows[1].dot.unwrap();
        assert!(low < mean && mean < high && (mean - 0.45).abs() < 1e-12);
        assert_eq!(
            board.table.header,
            [
                "arm",
                "HR@10",
                "more than codec=dense",
                "up per user",
                "down per user",
                "virtual time",
                "rounds",
                "course"
            ]
        );
        assert!(
            board.reference.is_some(),
            "popularity is not drawn through the rows"
        );
        results.arms[0].runs[0].state = RunState::NotRun;
        let answer = results.answer().unwrap();
        let Block::Board(board) = super::board(&results, &answer, None) else {
            panic!("no board")
        };
        assert_eq!(board.table.rows[1].last().unwrap().text, "2 of 3");
    }
}
