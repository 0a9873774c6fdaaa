use fedrecsim_core::Error;
use fedrecsim_methods::registry::METHODS;
use fedrecsim_methods::{Entry, Placement};
use fedrecsim_sim::{LeakTest, LeakVerdict, RunControl, World};

use crate::checkerboard::quickly;
use crate::support::{Workshop, repository, small, world};

/// Enough users that a leak is no chance, and so few rounds and items that it takes a second.
const SCENARIO: &[&str] = &[
    "dataset.generator.users=300",
    "dataset.generator.items=200",
    "evaluation.ranking.sampled.candidates=99",
    "network.dropout=0",
    "codec.uplink=\"rows-f32\"",
];

/// Returns the exit code and the output of `leak-test` on a generated population.
fn leak_test(more: &[&str]) -> (bool, String) {
    let workshop = Workshop::new();
    let scenario = repository("scenarios/quickstart.toml");
    let all = [SCENARIO, more].concat();
    let words = workshop.input("leak-test", &scenario, &all);
    let finished = words.carry_out().unwrap();
    assert!(finished.errors.is_empty(), "{:?}", finished.errors);
    (finished.differs, finished.output)
}

/// Returns the verdict of each test.
fn verdicts(output: &str) -> Vec<&str> {
    let verdict = |line: &&str| !line.starts_with(' ') && !line.contains(": ");
    output
        .lines()
        .filter(verdict)
        .map(|line| line[..10].trim_end())
        .collect()
}

const PFEDREC: &[&str] = &["method=\"pfedrec\"", "training.rounds=15"];

/// If this fails, a paper whose accuracy comes from its negatives passes.
#[test]
fn negatives_that_spare_the_held_out_items_are_a_leak() {
    let (leaks, output) = leak_test(&[PFEDREC, &["dataset.negatives.pool=\"unrated\""]].concat());
    assert!(leaks, "{output}");
    // What nobody has rated is drawn by all others, and sinks in the shared table.
    assert_eq!(
        verdicts(&output),
        ["LEAK", "no leak", "LEAK", "LEAK"],
        "{output}"
    );
    assert!(
        output.ends_with(
            "pfedrec: training knows what is held out, and its accuracy says nothing.\n"
        ),
        "{output}"
    );
}

/// If this fails, an honest protocol is accused, or nobody is told that the same method would leak.
#[test]
fn negatives_that_a_device_can_know_are_none() {
    let (leaks, output) =
        leak_test(&[PFEDREC, &["dataset.negatives.pool=\"not-in-train\""]].concat());
    assert!(!leaks, "{output}");
    assert_eq!(verdicts(&output), ["no leak"; 4], "{output}");
    for part in [
        "to the last bit",
        "it is not found",
        "a pool = \"unrated\" would leak",
    ] {
        assert!(
            output.replace("\n            ", " ").contains(part),
            "{part}: {output}"
        );
    }
}

/// If this fails, a leak passes whose model has not learned anything yet.
#[test]
fn a_model_that_has_learned_nothing_has_no_verdict() {
    let early = [
        "method={ pfedrec = { learning_rate = 0.001 } }",
        "training.rounds=1",
        "dataset.negatives.pool=\"unrated\"",
    ];
    let (leaks, output) = leak_test(&early);
    assert!(!leaks && verdicts(&output)[0] == "too early", "{output}");
    let sum = "pfedrec: no verdict; it has to learn more first.\n";
    assert!(output.ends_with(sum), "{output}");
}

/// If this fails, a server that trains on the test items passes, since it draws honest negatives.
#[test]
fn test_items_among_the_positives_are_a_leak() {
    let of = |graph: &str| {
        let method = format!(
            "method={{ lightgcn = {{ latent_dimension = 8, learning_rate = 0.2, graph = \"{graph}\" }} }}"
        );
        leak_test(&[
            &method,
            "training.rounds=15",
            "dataset.negatives.pool=\"not-in-train\"",
            "codec.uplink=\"dense-f32\"",
        ])
    };
    let (leaks, output) = of("train-and-test-positives");
    assert!(leaks, "{output}");
    assert_eq!(verdicts(&output)[..2], ["LEAK"; 2], "{output}");
    let (leaks, output) = of("train");
    assert!(!leaks, "{output}");
}

/// If this fails, a pool that has no meaning is taken for one that leaks less.
#[test]
fn a_symmetric_pool_needs_candidates() {
    let workshop = Workshop::new();
    let pool = "dataset.negatives.pool=\"symmetric\"";
    for ranking in [
        "evaluation.ranking=\"full-catalogue\"",
        "evaluation.metrics=[\"expected-ndcg@10\"]",
    ] {
        let parts = [
            "`symmetric` leaves out the candidates",
            "take `not-in-train`",
        ];
        workshop.refused(workshop.small(), &[pool, ranking], &parts);
    }
    workshop.run(workshop.small(), &[pool]).unwrap();
}

/// If this fails, a scenario that evaluates a part of its users cannot be tested, for fewer have the planted
/// item.
#[test]
fn everybody_is_tested_although_the_scenario_evaluates_a_part() {
    let some = [
        "evaluation.users=250",
        "training.rounds=2",
        "dataset.negatives.pool=\"not-in-train\"",
    ];
    let (leaks, output) = leak_test(&some);
    assert!(!leaks, "{output}");
}

/// If this fails, the command says something of a split whose ratings are predicted.
#[test]
fn a_split_that_ranks_nothing_is_refused() {
    let workshop = Workshop::new();
    let words = workshop.input(
        "leak-test",
        &workshop.small_of_ratings(),
        &["method=\"fedrec-pmf\""],
    );
    let error = words.carry_out().unwrap_err();
    assert!(
        matches!(&error, Error::Usage(text) if text.contains("leave-one-out")),
        "{error}"
    );
}

/// Returns an override of a method's parameters as one that replaces the method of the scenario.
fn in_place(of_method: &str) -> String {
    let parts = of_method
        .strip_prefix("method.")
        .and_then(|rest| rest.split_once('='));
    match parts {
        Some((name, parameters)) => format!("method={{ {name} = {parameters} }}"),
        None => of_method.to_owned(),
    }
}

/// Returns what is said of a method with negatives of this pool, in few words: by the first test that finds
/// a leak, or else by that with exchanged items. And the verdict of that test.
fn verdict(entry: &Entry, pool: &str) -> (String, LeakVerdict) {
    let more = [
        "dataset.generator.users=300",
        "dataset.generator.items=200",
        "evaluation.ranking.sampled.candidates=99",
        "training.rounds=30",
        &format!("dataset.negatives.pool=\"{pool}\""),
    ];
    let rates = match entry.name {
        "fedrap" => vec!["method.fedrap.learning_rate_tables=5".to_owned()],
        name => quickly(name).iter().map(|one| in_place(one)).collect(),
    };
    let all: Vec<&str> = rates.iter().map(String::as_str).chain(more).collect();
    let scenario = small(&all);
    let dataset = world(scenario.clone()).dataset;
    let world_of = |scenario, dataset| World::with_methods(scenario, dataset, METHODS);
    let control = RunControl::with_threads(2);
    let test = LeakTest::new(
        (&scenario, &dataset),
        entry.without_controls,
        &world_of,
        &control,
    )
    .unwrap();
    let findings = test.findings(&mut ());
    let findings = findings.unwrap_or_else(|error| panic!("{}: {error}", entry.name));
    let leak = findings
        .iter()
        .find(|finding| finding.verdict == LeakVerdict::Leak);
    let said = leak
        .unwrap_or(&findings[0])
        .sentence
        .split(':')
        .next()
        .unwrap();
    let verdict = leak.unwrap_or(&findings[0]).verdict;
    (said.to_owned(), verdict)
}

/// If this fails, the reference says something else of a method than its test does. A method that draws no
/// negatives has one row for both pools.
#[test]
#[ignore = "takes minutes: cargo test --release --test it leak_test -- --ignored"]
fn the_reference_has_the_verdict_of_every_method() {
    let mut rows = String::new();
    for entry in METHODS
        .iter()
        .filter(|entry| entry.placement != Placement::Untrained)
    {
        let (honest, of_honest) = verdict(entry, "not-in-train");
        assert_eq!(of_honest, LeakVerdict::NoLeak, "{}: {honest}", entry.name);
        let of_unrated = match entry.draws_negatives {
            false => "draws none".to_owned(),
            true => match verdict(entry, "unrated") {
                (said, LeakVerdict::Leak) => format!("**leak**: {said}"),
                (said, LeakVerdict::NoLeak) => format!("not shown: {said}"),
                (said, _) => format!("no verdict: {said}"),
            },
        };
        rows += &format!("| {} | {honest} | {of_unrated} |\n", entry.name);
    }
    let page = std::fs::read_to_string(repository("docs/how-to/find-a-leak.md")).unwrap();
    assert!(page.contains(&rows), "the rows are now:\n{rows}");
}
