//! Says what makes the accuracies of arms comparable: the same data, split, candidates and choice of
//! the round. Training negatives are a matter of the method, but some tell it the held-out item.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::bootstrap::population;
use super::results::{ArmResults, Results};
use crate::doubts::Course;
use crate::read::SavedReport;
use crate::setup::{leak_of, without_stop};
use crate::words::counted;
use fedrecsim_data::dataset::public;

/// What stands for the pool of a method that draws no negatives.
const NO_NEGATIVES: &str = "no negatives";

/// What an arm's accuracy stands on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Grounds {
    /// The data set, in words.
    pub data: String,
    /// What is tested and how: the split and the candidates.
    pub judged: String,
    /// How the round was chosen; `None` if all rounds are the same, as of a method that does not learn.
    pub selection: Option<String>,
    /// The pool of negatives; `None` if the method draws none.
    pub negatives: Option<String>,
    /// Why the accuracy is better than a deployment's could be; `None` if it is not.
    pub leak: Option<&'static str>,
    /// The users and the data set.
    population: (u64, Value),
    /// The split, which says who is tested on what.
    split: Value,
}

impl Grounds {
    /// Returns those of an arm; `None` if it has no result.
    pub(crate) fn of(arm: &ArmResults) -> Option<Self> {
        let report = arm.reports().next()?;
        let run = &report.run;
        let protocol = without_stop(&run.protocol).split(", ");
        let is_pool = |part: &&str| part.starts_with("negatives ") || *part == NO_NEGATIVES;
        let (pools, mut judged): (Vec<&str>, Vec<&str>) = protocol.partition(is_pool);
        // The choice of the round comes last.
        let selection = judged.pop_if(|last| last.ends_with(" round"));
        let selection = selection.filter(|_| !is_flat(report)).map(str::to_owned);
        let drawn_users = run.scenario["evaluation"]["users"]
            .as_u64()
            .filter(|users| *users > 0);
        let drawn_users = drawn_users.map(|users| format!("{} tested", counted(users, "user")));
        judged.extend(drawn_users.as_deref());
        let drawn = pools.into_iter().find(|pool| *pool != NO_NEGATIVES);
        let dataset = &run.scenario["dataset"];
        let title = match &dataset["path"] {
            Value::String(path) => format!("`{path}`"),
            _ => Deserialize::deserialize(&dataset["name"])
                .ok()
                .and_then(public::known)
                .map_or_else(
                    || "generated population".to_owned(),
                    |set| set.title.clone(),
                ),
        };
        Some(Self {
            data: format!(
                "{title} ({}, {})",
                counted(run.size.users, "user"),
                counted(run.size.items, "item")
            ),
            judged: judged.join(", "),
            selection,
            leak: leak_of(&run.protocol),
            negatives: drawn.map(str::to_owned),
            population: population(run),
            split: dataset["split"].clone(),
        })
    }

    /// Returns whether the accuracies of both can be compared.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let is_chosen_alike = match (&self.selection, &other.selection) {
            (Some(own), Some(other)) => own == other,
            _ => true,
        };
        let is_tested_alike = self.judged == other.judged && self.split == other.split;
        is_chosen_alike && is_tested_alike && self.population == other.population
    }

    /// Returns the keys of the data set and of its split that another arm has otherwise, as they are
    /// here.
    fn differing_keys(&self, other: &Self) -> Vec<String> {
        let of = |grounds: &Self| -> BTreeMap<String, Value> {
            let dataset = grounds
                .population
                .1
                .as_object()
                .cloned()
                .unwrap_or_default();
            let split = ("split".to_owned(), grounds.split.clone());
            dataset.into_iter().chain([split]).collect()
        };
        let others = of(other);
        let is_other = |(key, value): &(String, Value)| others.get(key) != Some(value);
        let told = |(key, value): (String, Value)| format!("`{key} = {value}`");
        of(self).into_iter().filter(is_other).map(told).collect()
    }

    /// Returns how the arm is judged.
    pub(crate) fn in_words(&self) -> String {
        let selection = self.selection.iter().map(String::as_str);
        let all: Vec<&str> = std::iter::once(&*self.judged).chain(selection).collect();
        all.join(", ")
    }
}

/// Returns whether a run has the same accuracy in all rounds.
fn is_flat(report: &SavedReport) -> bool {
    let mut metrics = report.run.accuracy.test.keys();
    let course = |metric: &String| Course::of(&report.rounds, metric);
    metrics.all(|metric| course(metric) == Course::Flat)
}

impl Results {
    /// Returns what every arm stands on.
    pub(crate) fn grounds(&self) -> Vec<Option<Grounds>> {
        self.arms.iter().map(Grounds::of).collect()
    }
}

/// Returns the arms whose accuracies can be compared, class by class, by their places.
pub(crate) fn classes(grounds: &[Option<Grounds>]) -> Vec<Vec<usize>> {
    let mut classes: Vec<Vec<usize>> = Vec::new();
    let known = || {
        let all = grounds.iter().enumerate();
        all.filter_map(|(arm, of)| Some((arm, of.as_ref()?)))
    };
    // Whose round does not matter joins a class of those whose round does.
    let chosen = known().filter(|(_, of)| of.selection.is_some());
    for (arm, of) in chosen.chain(known().filter(|(_, of)| of.selection.is_none())) {
        let is_like = |class: &&mut Vec<usize>| {
            let first = class.first().and_then(|first| grounds[*first].as_ref());
            first.is_some_and(|first| first.is_like(of))
        };
        match classes.iter_mut().find(is_like) {
            Some(class) => class.push(arm),
            None => classes.push(vec![arm]),
        }
    }
    classes.iter_mut().for_each(|class| class.sort_unstable());
    classes
}

/// Returns what tells a class of arms from the other ones.
pub(crate) fn class_name(
    grounds: &[Option<Grounds>],
    class: &[usize],
    classes: &[Vec<usize>],
) -> String {
    let of = |class: &[usize]| {
        let known = || class.iter().filter_map(|arm| grounds[*arm].as_ref());
        let chosen = known().find(|of| of.selection.is_some());
        chosen.or(known().next())
    };
    let all = || classes.iter().filter_map(|class| of(class));
    let Some(own) = of(class) else {
        return String::new();
    };
    let has_data = all().any(|other| other.data != own.data);
    let has_judged = all().any(|other| other.in_words() != own.in_words());
    let is_like = |other: &&Grounds| other.data == own.data && other.in_words() == own.in_words();
    // What tells classes apart whose words are the same.
    let keys = all()
        .filter(is_like)
        .flat_map(|other| own.differing_keys(other));
    let keys: BTreeSet<String> = keys.collect();
    let keys: String = keys.iter().map(|key| format!(", {key}")).collect();
    match (has_data, has_judged) {
        (true, false) => own.data.clone() + &keys,
        (false, true) => own.in_words() + &keys,
        (false, false) if !keys.is_empty() => own.in_words() + &keys,
        _ => format!("{}, {}{keys}", own.data, own.in_words()),
    }
}

/// Returns the pools of negatives that arms draw from, each once.
pub(crate) fn pools(grounds: &[Option<Grounds>]) -> Vec<&str> {
    let mut pools: Vec<&str> = Vec::new();
    for pool in grounds
        .iter()
        .flatten()
        .filter_map(|of| of.negatives.as_deref())
    {
        if !pools.contains(&pool) {
            pools.push(pool);
        }
    }
    pools
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::results as sample;

    fn with_protocols(protocols: [&str; 2]) -> Vec<Option<Grounds>> {
        let mut results = sample::results();
        for (arm, protocol) in results.arms.iter_mut().zip(protocols) {
            for run in &mut arm.runs {
                run.report.as_mut().unwrap().run.protocol = protocol.to_owned();
            }
        }
        results.grounds()
    }

    /// If this fails, arms are called incomparable because one draws negatives and the other does not,
    /// or comparable although they rank other candidates.
    #[test]
    fn split_candidates_and_selection_make_accuracies_comparable() {
        let draws = "leave-one-out, 99 sampled candidates, negatives `not-in-train`, last round";
        let none = draws.replace("negatives `not-in-train`", "no negatives");
        let grounds = with_protocols([draws, &none]);
        assert_eq!(classes(&grounds), [[0, 1]]);
        assert_eq!(pools(&grounds), ["negatives `not-in-train`"]);
        assert_eq!(grounds[0].as_ref().unwrap().leak, None);
        let full = draws.replace("99 sampled candidates", "full catalogue");
        assert_eq!(classes(&with_protocols([draws, &full])).len(), 2);
        let best = draws.replace("last round", "best test round");
        assert_eq!(classes(&with_protocols([draws, &best])).len(), 2);
        let leaks = draws.replace("not-in-train", "unrated");
        let grounds = with_protocols([&leaks, &best]);
        assert!(grounds.iter().all(|of| of.as_ref().unwrap().leak.is_some()));
    }

    /// If this fails, users of one window are ranked beside those of another one, or under the same
    /// heading.
    #[test]
    fn another_split_of_the_same_words_is_another_class_with_its_key() {
        let protocol = "global time, full catalogue, no negatives, last round";
        let mut grounds = with_protocols([protocol, protocol]);
        grounds[1].as_mut().unwrap().split = serde_json::json!({ "window_share": 0.05 });
        let classes = classes(&grounds);
        assert_eq!(classes, [[0], [1]]);
        let name = class_name(&grounds, &classes[1], &classes);
        assert!(
            name.ends_with(", `split = {\"window_share\":0.05}`"),
            "{name}"
        );
        assert_ne!(name, class_name(&grounds, &classes[0], &classes));
    }
}
