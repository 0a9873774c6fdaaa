//! The section on users or items that come in the course of the run.

use super::head;
use crate::column::Unit;
use crate::document::{Block, Columns};
use crate::frame::Frame;
use crate::metrics;
use crate::record::{Accuracy, RunRecord};
use crate::reference::of_newcomers;
use crate::words::{self, counted};
use fedrecsim_sim::outcome::Newcomers;

/// A line of the table.
struct Line<'r> {
    who: String,
    users: u64,
    accuracy: &'r Accuracy,
}

/// How the section says what comes.
struct Words {
    /// The headings of the columns that say who or what, and how many users.
    what: &'static str,
    count: &'static str,
    others: &'static str,
    own: &'static str,
    /// What the baseline is called.
    baseline: &'static str,
    with: &'static str,
}

const OF_USERS: Words = Words {
    what: "users",
    count: "number",
    others: "all others",
    own: "newcomers",
    baseline: "newcomers, by popularity among the others",
    with: "after",
};

const OF_ITEMS: Words = Words {
    what: "items",
    count: "users who look for one",
    others: "items from the start",
    own: "new items",
    baseline: "new items, by chance",
    with: "with",
};

fn words_of(found: &Newcomers) -> &'static Words {
    match found.items {
        0 => &OF_USERS,
        _ => &OF_ITEMS,
    }
}

/// Returns the section; nothing if nothing comes in the course of the run.
pub(super) fn newcomers(record: &RunRecord, rounds: &Frame) -> Vec<Block> {
    let Some(found) = &record.newcomers else {
        return Vec::new();
    };
    let words = words_of(found);
    let mut table = Columns::new();
    table.add(words.what, |line: &Line<'_>| line.who.clone());
    table.add(words.count, |line| {
        Unit::Count.cell(Some(line.users as f64))
    });
    for metric in metrics::headlines(&record.scenario.evaluation) {
        let name = metric.name();
        table.add(format!("{} (test)", metric.label()), move |line| {
            Unit::Accuracy.cell(line.accuracy.get(&name).copied())
        });
    }
    let title = match found.items {
        0 => "Newcomers and all others",
        _ => "New items and items from the start",
    };
    vec![
        Block::heading("Newcomers"),
        Block::text(how(found)),
        Block::Table(table.table(title, lines((record, rounds), found))),
        Block::text(cost(record, found)),
    ]
}

/// Returns in words how newcomers were scored.
fn how(found: &Newcomers) -> String {
    if found.items > 0 {
        return "New items had their earliest ratings alone, one number after another, and then all. A user who has \
                one of them held out is judged by the rank of that item among all. Items with fewer ratings in all are \
                left out of a line. Items from the start are weighted so that they have as many ratings as new ones \
                have in the end. The 95 % are of what these have, or had before new items came if that was more."
            .to_owned();
    }
    match &found.before {
        Some(before) => format!(
            "Newcomers were scored before they came, after round {}: each with the parameters that the server had then, \
             which know nothing of newcomers, and with a new device that trained on its earliest ratings alone. Those with \
             fewer ratings are left out of a line.",
            before.round
        ),
        None => {
            "No round was evaluated before newcomers came, so that none of them was scored as new."
                .to_owned()
        }
    }
}

fn lines<'r>((record, rounds): (&'r RunRecord, &Frame), found: &'r Newcomers) -> Vec<Line<'r>> {
    let (mut lines, words) = (Vec::new(), words_of(found));
    let evaluated = found.after_ratings.iter().map(|after| after.users);
    let evaluated = evaluated.chain(found.joined.iter().map(|joined| joined.users));
    let evaluated = evaluated.max().unwrap_or_default();
    if let Some(before) = &found.before {
        lines.push(Line {
            who: format!("{}, after round {}", words.others, before.round),
            users: record.size.evaluated_users,
            accuracy: &before.others,
        });
    }
    let (baseline, name) = (of_newcomers(found), words.baseline);
    let accuracy = found.baselines.get(baseline).filter(|_| evaluated > 0);
    lines.extend(accuracy.map(|accuracy| Line {
        who: name.to_owned(),
        users: evaluated,
        accuracy,
    }));
    lines.extend(found.after_ratings.iter().map(|after| Line {
        who: format!(
            "{} {} {}",
            words.own,
            words.with,
            counted(after.ratings.into(), "rating")
        ),
        users: after.users,
        accuracy: &after.test,
    }));
    lines.extend(found.joined.iter().map(|joined| Line {
        who: format!(
            "{} {} after they came",
            words.own,
            words::duration(joined.since_s)
        ),
        users: joined.users,
        accuracy: &joined.test,
    }));
    let last = head::last_evaluated(record, rounds);
    let last = last.map_or_else(String::new, |(round, _)| format!(", after round {round}"));
    lines.extend(found.others.iter().map(|accuracy| Line {
        who: format!("{}{last}", words.others),
        users: record.size.evaluated_users,
        accuracy,
    }));
    lines
}

/// Returns in words what it takes until newcomers are served like the others.
fn cost(record: &RunRecord, found: &Newcomers) -> String {
    let (count, all, of_own, of_others, device) = match found.items {
        0 => (
            found.users,
            counted(record.size.users, "user"),
            "over newcomers",
            "over the others",
            "the device of one of them had sent and received",
        ),
        items => (
            items,
            counted(record.size.items, "item"),
            "over those who look for a new item",
            "over those who look for one from the start",
            "every device had since then sent and received",
        ),
    };
    let came = format!(
        "{} of {all} come at {}.",
        words::thousands(count),
        words::duration(found.at_s)
    );
    let label = metrics::label(&found.metric);
    let then = match (&found.joined, &found.warm) {
        (None, _) => format!(
            "The run ended before that, at {}: {} has come.",
            words::duration(record.virtual_time_s),
            match found.items {
                0 => "nobody",
                _ => "nothing",
            }
        ),
        (Some(_), Some(warm)) => format!(
            "In round {}, the mean {label} {of_own} first was 95 % of the mean {of_others}: {} after they came, when \
             {device} {} in the mean.",
            warm.round,
            words::duration(warm.since_s),
            words::bytes(warm.bytes_per_user)
        ),
        (Some(joined), None) => format!(
            "In the {} after that, the mean {label} {of_own} was never 95 % of the mean {of_others}.",
            words::duration(joined.since_s)
        ),
    };
    format!("{came} {then}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use fedrecsim_sim::outcome::{AfterRatings, BeforeJoin, Joined, Warm};

    use super::*;
    use crate::reference::{POPULARITY, RANDOM};
    use crate::run::document;
    use crate::tests::records as sample;

    fn value(of: f64) -> Accuracy {
        BTreeMap::from([("hr@10".to_owned(), of), ("ndcg@10".to_owned(), of / 2.0)])
    }

    /// Returns the page of a run in which 94 users come at 30 s.
    fn page(change: impl FnOnce(&mut Newcomers)) -> String {
        let after = |(ratings, users)| AfterRatings {
            ratings,
            users,
            test: value(0.4 + f64::from(ratings) / 100.0),
        };
        let mut found = Newcomers {
            users: 94,
            items: 0,
            devices: None,
            at_s: 30.0,
            after_ratings: [(0, 94), (10, 61)].map(after).into(),
            before: Some(BeforeJoin {
                round: 8,
                others: value(0.6),
            }),
            baselines: [(POPULARITY, 0.41), (RANDOM, 0.1)]
                .map(|(name, of)| (name.to_owned(), value(of)))
                .into(),
            joined: Some(Joined {
                users: 94,
                since_s: 12.0,
                bytes: 9_400_000,
                test: value(0.59),
            }),
            others: Some(value(0.61)),
            metric: "ndcg@10".to_owned(),
            warm: Some(Warm {
                round: 11,
                since_s: 9.0,
                bytes_per_user: 75_000.0,
            }),
        };
        change(&mut found);
        let mut record = sample::run(24);
        record.newcomers = Some(found);
        document(&record).unwrap().markdown()
    }

    /// If this fails, a reader cannot tell after which round newcomers were scored, how many of them, or
    /// what it cost until they were served like the others.
    #[test]
    fn a_page_tells_what_newcomers_get_and_what_it_costs() {
        let text = page(|_| ());
        for part in [
            "## Newcomers",
            "were scored before they came, after round 8:",
            "| all others, after round 8 | 943 | 0.6000 | 0.3000 |",
            "| all others, after round 24 | 943 | 0.6100 | 0.3050 |",
            "| newcomers, by popularity among the others | 94 | 0.4100 | 0.2050 |",
            "| newcomers after 0 ratings | 94 | 0.4000 |",
            "| newcomers after 10 ratings | 61 | 0.5000 |",
            "| newcomers 12.0 s after they came | 94 | 0.5900 |",
            "94 of 943 users come at 30.0 s. In round 11, the mean NDCG@10",
            "9.00 s after they came",
            "75.0 kB in the mean",
        ] {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
        let never_warm = page(|found| found.warm = None);
        assert!(never_warm.contains("was never 95 %"), "{never_warm}");
    }

    /// If this fails, a reader takes new items for new users, or does not learn what they are held against.
    #[test]
    fn a_page_tells_what_new_items_get_and_what_it_costs() {
        let items = |found: &mut Newcomers| {
            (found.users, found.items, found.devices) = (0, 160, Some(943));
        };
        let text = page(items);
        for part in [
            "judged by the rank of that item among all",
            "| items | users who look for one |",
            "| items from the start, after round 8 | 943 | 0.6000 | 0.3000 |",
            "| new items, by chance | 94 | 0.1000 |",
            "| new items with 0 ratings | 94 | 0.4000 |",
            "| new items 12.0 s after they came | 94 | 0.5900 |",
            "| items from the start, after round 24 | 943 | 0.6100 | 0.3050 |",
            "160 of 1,682 items come at 30.0 s. In round 11, the mean NDCG@10 over those who look for a new item",
            "every device had since then sent and received 75.0 kB in the mean",
        ] {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
        let unseen = page(|found| {
            items(found);
            found.after_ratings.clear();
        });
        assert!(
            unseen.contains("No new item was scored with few ratings."),
            "{unseen}"
        );
        let late = page(|found| {
            items(found);
            (found.joined, found.others, found.warm) = (None, None, None);
        });
        for part in ["Nothing has come.", "nothing has come"] {
            assert!(late.contains(part), "no {part:?} in {late}");
        }
    }

    /// If this fails, nobody notices that newcomers came too late or too early for a finding.
    #[test]
    fn newcomers_whom_no_round_has_seen_are_warned_of() {
        let late = page(|found| {
            (found.joined, found.others, found.warm) = (None, None, None);
        });
        for part in ["Nobody has come.", "The run ended before that"] {
            assert!(late.contains(part), "no {part:?} in {late}");
        }
        let early = page(|found| {
            found.before = None;
            found.after_ratings.clear();
        });
        for part in ["Nobody was scored as new.", "No round was evaluated before"] {
            assert!(early.contains(part), "no {part:?} in {early}");
        }
        assert!(!page(|_| ()).contains("Nobody"));
    }
}
