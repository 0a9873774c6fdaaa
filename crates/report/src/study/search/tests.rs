#![allow(clippy::unwrap_used)]

use super::*;
use crate::study::file::{self, Changes};
use crate::tests::results as sample;
use fedrecsim_methods::registry::vocabulary;

/// Two methods with the same number of trials, and a baseline that is not searched.
pub(crate) const SEARCH: &str = r#"
base = "base.toml"
seeds = [3, 4]
metrics = ["ndcg@10", "hr@10"]

[search]
trials = 5
seed = 1

[[axes]]
name = "method"
values = [
  { name = "fedmf", set = { method = "fedmf" }, search = { "method.fedmf.learning_rate_user" = { log = [0.01, 10.0] }, "method.fedmf.local_epochs" = { whole = [1, 20] } } },
  { name = "fedncf", set = { method = "fedncf" }, search = { "method.fedncf.learning_rate_user" = { log = [0.01, 10.0] } } },
]

[[arms]]
name = "popularity"
set = { method = "popularity" }
"#;

pub(crate) fn search_with(text: &str, changes: &Changes) -> Result<SearchPlan> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("base.toml"), sample::BASE).unwrap();
    let study = file::parse(text, &folder.path().join("study.toml"), changes)?;
    SearchPlan::of(study, "study.toml", &vocabulary(), |_| true)
}

pub(crate) fn search_of(text: &str) -> Result<SearchPlan> {
    let changes = Changes {
        searches: true,
        ..Changes::default()
    };
    search_with(text, &changes)
}

fn drawn(plan: &SearchPlan) -> Vec<(String, Vec<String>)> {
    let trials = plan.trials.iter();
    let texts = |trial: &Trial| trial.drawn.iter().map(Value::to_string).collect();
    trials.map(|trial| (trial.name(), texts(trial))).collect()
}

/// If this fails, arms are searched with different effort, or the draws are not those of a search
/// that was published.
#[test]
fn every_arm_with_a_space_has_as_many_trials_and_the_first_is_the_arm_as_written() {
    let plan = search_of(SEARCH).unwrap();
    let of = |arm: &str| plan.trials.iter().filter(|of| of.arm == arm).count();
    assert_eq!(
        [of("method=fedmf"), of("method=fedncf"), of("popularity")],
        [5, 5, 0]
    );
    assert_eq!(
        (plan.metric(), &plan.plan.study.seeds[..]),
        ("ndcg@10", &[3][..])
    );
    assert_eq!(plan.trials[0].drawn, []);
    insta::assert_snapshot!(
        drawn(&plan)
            .iter()
            .map(|(name, values)| format!("{name}: {}\n", values.join(" ")))
            .collect::<String>()
    );
    // What is drawn is what the run has.
    let rate = "method.fedmf.learning_rate_user";
    let has = &plan.plan.arms[1].scenario.method.parameters["learning_rate_user"];
    let drawn = plan.trials[1].drawn[0].as_float();
    assert_eq!(drawn, has.as_f64());
    assert_eq!(plan.setting(1, rate), has.to_string());
    assert_eq!(
        plan.setting(0, rate),
        "0.1",
        "the arm as written is shown without its settings"
    );
    assert_eq!(
        plan.setting(5, "method.fedmf.local_epochs"),
        "",
        "it is not searched there"
    );
}

/// If this fails, another arm, another key or more trials move the draws of those that were there.
#[test]
fn draws_depend_on_seed_arm_key_and_trial_alone() {
    let whole = drawn(&search_of(SEARCH).unwrap());
    let more = drawn(&search_of(&SEARCH.replace("trials = 5", "trials = 7")).unwrap());
    assert!(whole.iter().all(|trial| more.contains(trial)));
    let fedmf_first = SEARCH.find("  { name = \"fedmf\"").unwrap();
    let fedncf_first = SEARCH.find("  { name = \"fedncf\"").unwrap();
    let line = &SEARCH[fedmf_first..fedncf_first];
    let turned = SEARCH
        .replace(line, "")
        .replace("} } },\n]", &format!("}} }} }},\n{line}]"));
    let mut others = drawn(&search_of(&turned).unwrap());
    assert_ne!(others, whole);
    others.sort();
    let mut sorted = whole.clone();
    sorted.sort();
    assert_eq!(others, sorted, "the order of arms");
    let fewer_keys = SEARCH.replace(", \"method.fedmf.local_epochs\" = { whole = [1, 20] }", "");
    let fewer = drawn(&search_of(&fewer_keys).unwrap());
    assert!(
        fewer
            .iter()
            .zip(&whole)
            .all(|(few, all)| few.1.first() == all.1.first())
    );
    let other_seed = drawn(&search_of(&SEARCH.replace("seed = 1", "seed = 2")).unwrap());
    assert!(
        other_seed
            .iter()
            .zip(&whole)
            .all(|(one, other)| one.1.is_empty() || one.1[0] != other.1[0])
    );
}

/// If this fails, a value lies outside of its range, or is not written as it is.
#[test]
fn values_are_in_their_ranges_short_and_spread() {
    let mut stream = Streams::new(7).named("test", 0, 0);
    let mut draw = |range: &Range| -> Vec<f64> {
        let number = |value: Value| {
            let text = value.to_string();
            assert!(text.len() <= 8, "{text}");
            assert_eq!(text.parse::<Value>().ok(), Some(value), "{text}");
            text.parse::<f64>().unwrap()
        };
        (0..500).map(|_| number(range.draw(&mut stream))).collect()
    };
    for (range, low, high) in [
        (Range::Log([1e-4, 10.0]), 1e-4, 10.0),
        (Range::Uniform([0.9, 1.0]), 0.9, 1.0),
        (Range::Uniform([-200.0, 300.0]), -200.0, 300.0),
        (Range::Whole([-2, 3]), -2.0, 3.0),
    ] {
        let values = draw(&range);
        assert!(
            values.iter().all(|value| (low..=high).contains(value)),
            "{range:?}"
        );
        let middle = match range {
            Range::Log(_) => math::exp((math::ln(low) + math::ln(high)) / 2.0),
            _ => (low + high) / 2.0,
        };
        let below = values.iter().filter(|value| **value < middle).count();
        assert!((200..=300).contains(&below), "{range:?}: {below}");
    }
    let among = Range::Among(vec![Value::Integer(16), Value::Integer(64)]);
    let values = draw(&among);
    assert!(values.contains(&16.0) && values.contains(&64.0));
}

/// If this fails, a search runs for hours and can choose nothing, or chooses by chance.
#[test]
fn searches_that_cannot_choose_are_refused() {
    let refused = |text: &str, part: &str| {
        let error = search_of(text).unwrap_err();
        let told = error.to_string();
        assert!(
            error.exit_code() == 2 && told.contains(part),
            "no {part:?} in {told}"
        );
    };
    let rate = "\"method.fedncf.learning_rate_user\" = { log = [0.01, 10.0] } } },";
    let with = |range: &str| {
        assert_eq!(SEARCH.matches(rate).count(), 1);
        SEARCH.replace(rate, &format!("{range} }} }},"))
    };
    let base = "metrics = [\"ndcg@10\", \"hr@10\"]";
    let set = |set: &str| SEARCH.replace(base, &format!("set = {{ {set} }}"));
    let key = "dataset.split.leave-one-out.validation_item";
    refused(
        &set(&format!("\"{key}\" = false")),
        &format!(
            "arm `method=fedmf` and 1 other: a search chooses by validation items, and none are held out; hold some out with `{key}`"
        ),
    );
    refused(
        &SEARCH
            .replace(base, "set = { \"evaluation.metrics\" = [\"hr\"] }")
            .replace("seed = 1", "metric = \"mrr\""),
        "no arm of the study measures `mrr`",
    );
    refused(
        &SEARCH.replace("seed = 1", "metric = \"best\""),
        ":8:10: `best` is no metric",
    );
    refused(&with(""), "the search space of `fedncf` is empty");
    refused(&SEARCH.replace("= 5", "= 0"), ":7:10: `trials` is 0");
    refused(
        &SEARCH.replace("= 5", "= 5001"),
        "5001 trials of 2 arms are more than 10000",
    );
    refused(
        &with("\"method.fedncf.learning_rate_user\" = { log = [10.0, 0.01] }"),
        "`method.fedncf.learning_rate_user`: the range [10, 0.01] has nothing in it",
    );
    refused(
        &with("\"method.fedncf.learning_rate_user\" = { log = [0, 1] }"),
        "begins above 0, and this one at 0",
    );
    refused(
        &with("\"method.fedncf.local_epochs\" = { whole = [3, 3] }"),
        "the range [3, 3] has nothing in it",
    );
    refused(
        &with("\"method.fedncf.local_epochs\" = { among = [] }"),
        "`among` is empty",
    );
    refused(
        &with("\"method.fedncf.learning_rate_user\" = { uniform = [0.0, inf] }"),
        "finite numbers",
    );
    refused(
        &with("\"method.fedncf.learning_rate_user\" = { normal = [0.0, 1.0] }"),
        "a range is { log =",
    );
    refused(
        &with("training.learning_rate = { log = [0.1, 1.0] }"),
        "a key with dots stands in quotation marks",
    );
    refused(
        &with("\"dataset.split.leave-one-out.by\" = { among = [1, 2] }"),
        "changes what is measured",
    );
    refused(
        &with("seed = { whole = [1, 9] }"),
        "the seed is no key of an arm",
    );
    refused(
        &with("\"method.fedncf.learning_rat_user\" = { log = [0.1, 1.0] }"),
        "learning_rate_user",
    );
    refused(
        &with("\"method.pfedrec.learning_rate\" = { log = [0.1, 1.0] }"),
        "arm `method=fedncf`: the search space has keys of `pfedrec`, which would take the place of `fedncf`",
    );
    let methods = "method = { among = [\"fedmf\", \"pfedrec\"] }";
    refused(
        &with(&format!(
            "{methods}, \"method.fedncf.learning_rate_user\" = {{ log = [0.1, 1.0] }}"
        )),
        "the search space has keys of `fedncf`, which would take the place of",
    );
    refused(
        &with("\"method.fedncf.learning_rate_user\" = { among = [0.5, 0.25] }"),
        "arm `method=fedncf`: its search space has 3 settings that differ",
    );
    let none = "base = \"base.toml\"\nseeds = [1]\n";
    refused(none, "there is no search in it");
    refused(
        &format!("{none}[search]\ntrials = 3\n"),
        ":3:1: no arm has a search space",
    );
    refused(
        &SEARCH.replace("[search]\ntrials = 5\nseed = 1\n", ""),
        "the number of trials is missing",
    );
}

/// If this fails, a trial repeats one that is there.
#[test]
fn settings_that_are_there_already_are_drawn_again() {
    let text = "base = \"base.toml\"\nseeds = [1]\n[search]\ntrials = 4\nspace = { \"method.fedmf.local_epochs\" = { whole = [1, 4] } }\n";
    let plan = search_of(text).unwrap();
    let mut epochs: Vec<String> = (0..4)
        .map(|trial| plan.setting(trial, "method.fedmf.local_epochs"))
        .collect();
    epochs.sort();
    assert_eq!(epochs, ["1", "2", "3", "4"], "one of them is as written");
}

/// If this fails, the seeds of a search are others than its file or its command says.
#[test]
fn the_seeds_are_those_of_the_command_then_of_the_search_then_the_first() {
    let of_search = SEARCH.replace("seed = 1", "seeds = [8, 9]");
    assert_eq!(search_of(&of_search).unwrap().plan.study.seeds, [8, 9]);
    let changes = Changes {
        seeds: vec![5],
        searches: true,
        ..Changes::default()
    };
    assert_eq!(
        search_with(&of_search, &changes).unwrap().plan.study.seeds,
        [5]
    );
}

/// If this fails, `--set` changes nothing where a search draws the same key, and nobody is told.
#[test]
fn the_command_line_has_the_last_word_in_a_search() {
    let changes = |set: &str| Changes {
        set: vec![set.into()],
        searches: true,
        ..Changes::default()
    };
    let plan = search_with(SEARCH, &changes("training.rounds=7")).unwrap();
    let arms = plan.plan.arms.iter();
    assert!(arms.clone().all(|arm| arm.scenario.training.rounds == 7));
    assert!(
        arms.clone()
            .all(|arm| arm.arm.overrides().last().unwrap() == "training.rounds=7")
    );
    let fixed = SEARCH.replace("\"method.fedmf.local_epochs\"", "\"training.rounds\"");
    let plan = search_with(&fixed, &changes("training.rounds=7")).unwrap();
    assert!(
        plan.plan
            .arms
            .iter()
            .all(|arm| arm.scenario.training.rounds == 7)
    );
}

/// Two methods under two cuts, whose settings are searched once and before both.
const REPEATED: &str = r#"
base = "base.toml"
seeds = [3]
metrics = ["ndcg@10"]

[search]
trials = 3
set = { "training.rounds" = 5 }

[[axes]]
name = "method"
values = [
  { name = "fedmf", set = { method = "fedmf" }, search = { "method.fedmf.learning_rate_user" = { log = [0.01, 10.0] } } },
  { name = "fedncf", set = { method = "fedncf" }, search = { "method.fedncf.learning_rate_user" = { log = [0.01, 10.0] } } },
]

[[axes]]
name = "rounds"
repeats = true
key = "training.rounds"
values = [2, 3]
"#;

/// If this fails, a method is tuned at each repetition of an experiment, or its trials do not have
/// what the search changes.
#[test]
fn arms_that_repeat_an_experiment_share_its_settings() {
    let plan = search_of(REPEATED).unwrap();
    let arms: Vec<&str> = plan.trials.iter().map(|trial| trial.arm.as_str()).collect();
    let expected = [["method=fedmf"; 3], ["method=fedncf"; 3]].concat();
    assert_eq!(arms, expected);
    let mut rounds = plan
        .plan
        .arms
        .iter()
        .map(|arm| arm.scenario.training.rounds);
    assert!(rounds.all(|rounds| rounds == 5));

    let rest = "trials = 3\ntrial = 1\nseed = 1\nmetric = \"ndcg@10\"\nvalidation = 0.1\n";
    let chosen = [
        "[arms.\"method=fedncf\"]\n",
        rest,
        "set = { \"method.fedncf.learning_rate_user\" = 0.5 }\n",
        "[arms.\"method=fedncf, rounds=3\"]\n",
        rest,
    ]
    .concat();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("chosen.toml"), chosen).unwrap();
    let text = format!("chosen = \"chosen.toml\"\n{REPEATED}");
    let study = file::parse(
        &text,
        &folder.path().join("study.toml"),
        &Changes::default(),
    )
    .unwrap();
    let set = |name: &str| {
        let arm = study.arms.iter().find(|arm| arm.name == name).unwrap();
        (arm.overrides().len(), arm.chosen_from)
    };
    assert_eq!(set("method=fedncf, rounds=2"), (3, Some(3)));
    // An arm that was tuned by itself does not have what the others share.
    assert_eq!(set("method=fedncf, rounds=3"), (2, Some(3)));
    assert_eq!(set("method=fedmf, rounds=2"), (2, None));
}

/// If this fails, what was drawn for a key is overwritten by what was drawn for the table that it is in,
/// as where an arm inherits the first and searches the second itself.
#[test]
fn a_key_counts_after_the_table_that_it_is_in() {
    let (old, own) = (
        "set = { method = \"fedmf\" }, search = { \"method.fedmf.learning_rate_user\" = { log = [0.01, 10.0] }, \
         \"method.fedmf.local_epochs\" = { whole = [1, 20] } }",
        "use = \"fedmf\", search = { \"method.fedmf.recency\" = { among = [{ tau = 4.0 }, { tau = 5.0 }] } }",
    );
    assert!(SEARCH.contains(old));
    let text = SEARCH.replace(old, own)
        + "[settings.fedmf]\nmethod = \"fedmf\"\n[settings.fedmf.search]\n\
           \"method.fedmf.recency\" = { among = [{ tau = 2.0 }] }\n\
           \"method.fedmf.recency.step\" = { log = [0.1, 3.0] }\n";
    for (trial, planned) in with_arms(&search_of(&text).unwrap()) {
        let Some(place) = trial.keys.iter().position(|key| key.ends_with(".step")) else {
            continue;
        };
        if trial.number > 0 {
            let step = format!("method.fedmf.recency.step={}", trial.drawn[place]);
            assert_eq!(planned.arm.overrides().last(), Some(&step));
        }
    }
}

fn with_arms(plan: &SearchPlan) -> impl Iterator<Item = (&Trial, &crate::study::PlannedArm)> {
    plan.trials.iter().zip(&plan.plan.arms)
}
