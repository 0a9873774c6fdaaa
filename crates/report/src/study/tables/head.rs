//! The head of a study's document: what makes its figures doubtful, what its arms share, and the
//! leaderboard.

use super::runs_cell;
use crate::column::{Cell, Unit};
use crate::document::{Block, Board, BoardArm, BoardRow, Columns, Table};
use crate::doubts::{self, Course, Doubt};
use crate::metrics;
use crate::read::SavedReport;
use crate::setup::without_stop;
use crate::study::answer::Answer;
use crate::study::grounds::{self, Grounds};
use crate::study::names::{Names, axes_of, is_popularity};
use crate::study::results::{ArmResults, Results, RunResult, RunState};
use crate::study::sentence::{joined, range};
use crate::study::standing::{Figure, Standing};
use crate::study::statistics::Summary;
use crate::words::short;

/// The most keys that are named as those in which arms differ.
const MOST_KEYS: usize = 6;

/// Returns what a reader has to know before believing a figure: protocols that leak, and doubts.
pub(super) fn warnings(results: &Results, names: &Names) -> Vec<Block> {
    let Some(metric) = results.metrics.first() else {
        return Vec::new();
    };
    let mut blocks = leaks(results, names);
    let mut found: Vec<(Doubt, Vec<String>)> = Vec::new();
    for (arm, label) in results.arms.iter().zip(&names.labels) {
        for doubt in of_arm(arm, metric) {
            match found.iter_mut().find(|(known, _)| known.is_like(&doubt)) {
                Some((_, whom)) => whom.push(label.clone()),
                None => found.push((doubt, vec![label.clone()])),
            }
        }
    }
    let note = |(doubt, whom): &(Doubt, Vec<String>)| {
        let is_all = whom.len() == results.arms.len() && whom.len() > 1;
        match is_all && !matches!(doubt, Doubt::StillImproving { .. }) {
            true => doubt.note(None),
            false => doubt.note(Some(&joined(whom))),
        }
    };
    blocks.extend(found.iter().map(note));
    blocks
}

/// Returns the doubts about an arm: those about half of its runs or more.
fn of_arm(arm: &ArmResults, metric: &str) -> Vec<Doubt> {
    let all: Vec<Vec<Doubt>> = arm
        .reports()
        .map(|report| doubts::of(&report.run, &report.rounds, metric))
        .collect();
    let mut found: Vec<Doubt> = Vec::new();
    for doubt in all.iter().flatten() {
        let has_it = |of: &&Vec<Doubt>| of.iter().any(|other| other.is_like(doubt));
        let is_new = !found.iter().any(|known| known.is_like(doubt));
        if is_new && 2 * all.iter().filter(has_it).count() >= all.len() {
            found.push(*doubt);
        }
    }
    found
}

fn leaks(results: &Results, names: &Names) -> Vec<Block> {
    let mut found: Vec<(&str, Vec<String>)> = Vec::new();
    let all = results.grounds();
    for (of, label) in all.iter().zip(&names.labels) {
        let Some(why) = of.as_ref().and_then(|of| of.leak) else {
            continue;
        };
        match found.iter_mut().find(|(known, _)| *known == why) {
            Some((_, whom)) => whom.push(label.clone()),
            None => found.push((why, vec![label.clone()])),
        }
    }
    let note = |(why, whom): (&str, Vec<String>)| {
        let verb = if whom.len() == 1 { "has" } else { "have" };
        Block::note(
            format!("{} {verb} a protocol that leaks: {why}.", joined(&whom)),
            "A deployment could not do this, so the accuracy is too good.",
        )
    };
    found.into_iter().map(note).collect()
}

/// Returns what all arms have in common, said once, and in what they differ.
pub(super) fn shared(results: &Results, names: &Names) -> Block {
    let all = results.grounds();
    let of = |part: fn(&Grounds) -> &String| -> Vec<&String> {
        let mut parts: Vec<&String> = all.iter().flatten().map(part).collect();
        parts.sort_unstable();
        parts.dedup();
        parts
    };
    let (mut same, mut differs) = (Vec::new(), Vec::new());
    match of(|grounds| &grounds.data)[..] {
        [] => {}
        [only] => same.push(only.clone()),
        _ => differs.push("the data".to_owned()),
    }
    same.extend(seeds(results));
    same.extend(names.shared.iter().map(|part| format!("`{part}`")));
    let mut terms = vec![("Same for all".to_owned(), same.join("; "))];
    terms.retain(|(_, text)| !text.is_empty());
    let pools = grounds::pools(&all);
    match protocol(results) {
        Some(protocol) => terms.push((PROTOCOL.to_owned(), protocol)),
        None => differs.push("how they are judged".to_owned()),
    }
    if pools.len() > 1 {
        let pools: Vec<String> = pools
            .iter()
            .map(|of| of.replace("negatives ", ""))
            .collect();
        differs.push(format!("training negatives ({})", pools.join(" or ")));
    }
    let keys: Vec<String> = differing(results)
        .iter()
        .map(|key| format!("`{key}`"))
        .collect();
    differs.extend(keys.iter().take(MOST_KEYS).cloned());
    if keys.len() > MOST_KEYS {
        differs.push(format!("{} other keys", keys.len() - MOST_KEYS));
    }
    if !differs.is_empty() && results.arms.len() > 1 {
        terms.push(("Differs".to_owned(), joined(&differs)));
    }
    Block::List(terms)
}

const PROTOCOL: &str = "Protocol of every accuracy";

/// Returns the protocol of all arms; `None` if they are judged in several ways. Methods that draw no
/// negatives are judged as others are.
pub(super) fn protocol(results: &Results) -> Option<String> {
    let all = results.grounds();
    if grounds::classes(&all).len() > 1 {
        return None;
    }
    let known = || all.iter().flatten();
    let first = known().find(|of| of.selection.is_some());
    let judged = first.or(known().next())?.in_words();
    if let [only] = super::protocols(results)[..] {
        return Some(without_stop(only).to_owned());
    }
    Some(match grounds::pools(&all)[..] {
        [pool] => format!("{judged}, {pool} where a method draws any"),
        _ => judged,
    })
}

/// Returns the seeds, if all arms have the same.
fn seeds(results: &Results) -> Option<String> {
    let of = |arm: &ArmResults| -> Vec<u64> { arm.runs.iter().map(|run| run.seed).collect() };
    let first = of(results.arms.first()?);
    if results.arms.iter().any(|arm| of(arm) != first) {
        return None;
    }
    let is_row = first.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    match &first[..] {
        [] => None,
        [only] => Some(format!("seed {only}")),
        [from, _, .., to] if is_row => Some(format!("seeds {from} to {to}")),
        seeds => {
            let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
            Some(format!("seeds {}", joined(&seeds)))
        }
    }
}

/// Returns the axes, or the keys, in which arms differ, by their names.
pub(super) fn differing(results: &Results) -> Vec<String> {
    let axes: Vec<_> = results.arms.iter().map(|arm| axes_of(&arm.name)).collect();
    let mut keys: Vec<String> = Vec::new();
    for (key, value) in axes.iter().flatten() {
        let has_it = |of: &Vec<(String, String)>| of.iter().any(|(k, v)| (k, v) == (key, value));
        if !keys.contains(key) && !axes.iter().all(has_it) {
            keys.push(key.clone());
        }
    }
    keys
}

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
    let popularity = pooled.map_or(results, |(of_pools, _)| of_pools);
    let popularity = popularity
        .popularity_in(&answer.metric)
        .filter(|_| is_one_class);
    let line = popularity.map_or("", |_| "; dashed: popularity");
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
        reference: popularity,
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
fn course<'r>(reports: impl Iterator<Item = &'r SavedReport>, metric: &str) -> &'static str {
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

    fn text(block: &Block) -> String {
        match block {
            Block::Note { title, text } => format!("{title} {text}"),
            Block::List(terms) => {
                let terms = terms.iter().map(|(term, text)| format!("{term}: {text}"));
                terms.collect::<Vec<_>>().join("\n")
            }
            other => panic!("{other:?}"),
        }
    }

    /// Has every run of an arm this protocol.
    fn judged(results: &mut Results, arm: usize, protocol: &str) {
        for run in &mut results.arms[arm].runs {
            run.report.as_mut().unwrap().run.protocol = protocol.to_owned();
        }
    }

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

    /// If this fails, a reader has to look for what arms share in every row, or takes an arm that draws
    /// no negatives for one that cannot be compared.
    #[test]
    fn what_arms_share_is_said_once_and_what_differs_is_named() {
        let mut results = sample::results();
        judged(
            &mut results,
            0,
            "leave-one-out, 99 sampled candidates, no negatives, last round",
        );
        judged(
            &mut results,
            1,
            "leave-one-out, 99 sampled candidates, negatives `not-in-train`, last round",
        );
        let names = Names::of_arms(&results.arms);
        assert_eq!(
            text(&shared(&results, &names)),
            "Same for all: MovieLens 100K (943 users, 1,682 items); seeds 1 to 3\n\
             Protocol of every accuracy: leave-one-out, 99 sampled candidates, last round, negatives `not-in-train` where a \
             method draws any"
        );
        judged(
            &mut results,
            0,
            "leave-one-out, full catalogue, negatives `unrated`, last round",
        );
        results.arms[0].name = "codec=dense, method=a".to_owned();
        results.arms[1].name = "codec=int8, method=a".to_owned();
        let names = Names::of_arms(&results.arms);
        let told = text(&shared(&results, &names));
        assert!(
            told.ends_with(
                "Differs: how they are judged, training negatives (`unrated` or `not-in-train`) and `codec`"
            ) && !told.contains("Protocol"),
            "{told}"
        );
        let leaks = warnings(&results, &names);
        assert!(
            text(&leaks[0]).starts_with("codec=dense has a protocol that leaks: its negatives"),
            "{leaks:?}"
        );
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
        let Block::Board(board) = board(&results, &answer, None) else {
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
