//! The head of a study's document: what makes its figures doubtful, and what its arms share.

use crate::document::Block;
use crate::doubts::{self, Doubt};
use crate::setup::without_stop;
use crate::study::grounds::{self, Grounds};
use crate::study::names::{Names, axes_of};
use crate::study::results::{ArmResults, Results};
use crate::study::sentence::joined;
use crate::words::first_large;

/// The most arms that a warning names, and the most that it leaves out by name.
const MOST_WARNED: usize = 8;
const MOST_LEFT_OUT: usize = 4;

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
            false => doubt.note(Some(&in_short(whom, &names.labels))),
        }
    };
    blocks.extend(found.iter().map(note));
    blocks
}

/// Returns several arms by the few of all that are not among them, if that is shorter.
fn all_but(whom: &[String], all: &[String]) -> Option<String> {
    let others = all.iter().filter(|label| !whom.contains(label));
    let others: Vec<String> = others.cloned().collect();
    let is_shorter = (1..=MOST_LEFT_OUT).contains(&others.len()) && whom.len() > 2 * others.len();
    is_shorter.then(|| format!("all but {}", joined(&others)))
}

/// Returns several arms of all in a few words.
fn in_short(whom: &[String], all: &[String]) -> String {
    all_but(whom, all).unwrap_or_else(|| match whom.len() > MOST_WARNED {
        true => format!(
            "{} and {} others",
            whom[..MOST_WARNED - 1].join(", "),
            whom.len() - MOST_WARNED + 1
        ),
        false => joined(whom),
    })
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
        let whom = match all_but(&whom, &names.labels) {
            Some(of) => first_large(&of),
            None => in_short(&whom, &names.labels),
        };
        Block::note(
            format!("{whom} {verb} a protocol that leaks: {why}."),
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
        None if all.iter().any(Option::is_some) => differs.push("how they are judged".to_owned()),
        None => {}
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
pub(super) fn seeds(results: &Results) -> Option<String> {
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
}
