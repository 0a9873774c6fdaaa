use fedrecsim_core::{Error, Streams};
use fedrecsim_data::dataset;
use fedrecsim_sim::World;
use fedrecsim_sim::outcome::Accuracy;

use crate::support::{Workshop, parse, run, small, small_of_ratings};

const POPULARITY: &str = "method=\"popularity\"";

fn final_figures(overrides: &[&str]) -> Accuracy {
    run(small(overrides), 2)
        .rounds
        .pop()
        .unwrap()
        .accuracy
        .unwrap()
        .test
}

/// If this fails, asking for one more figure changes another, or the digest of everything else.
#[test]
fn a_figure_is_the_same_whatever_else_is_asked_for() {
    let usual = run(small(&[]), 2).rounds.pop().unwrap().accuracy.unwrap();
    let more = final_figures(&[
        "evaluation.metrics=[\"hr\", \"ndcg\", \"mrr\", \"expected-hr\", \"expected-mrr\"]",
    ]);
    for (name, figure) in &usual.test {
        assert_eq!(more[name], *figure, "{name}");
    }
    assert_eq!(more.len(), usual.test.len() + 4);
    let alone = final_figures(&["evaluation.metrics=[\"expected-hr@10\"]"]);
    assert_eq!(
        alone.into_iter().collect::<Vec<_>>(),
        [("expected-hr@10".to_owned(), more["expected-hr@10"])]
    );
}

/// If this fails, the expectation is not what sampling gives: over many draws of candidates (seeds
/// of the run, with the data of one seed) the mean of the sampled figure is the expected one.
#[test]
fn an_expectation_is_the_mean_of_what_draws_of_candidates_give() {
    let metrics =
        "evaluation.metrics=[\"hr@5\", \"ndcg@5\", \"expected-hr@5\", \"expected-ndcg@5\"]";
    let overrides = [
        POPULARITY,
        metrics,
        "evaluation.headline=\"hr@5\"",
        "training.rounds=1",
        "evaluation.ranking.sampled.candidates=30",
    ];
    let data = dataset::load(&small(&overrides).dataset, &[], Streams::new(3)).unwrap();
    let data = std::sync::Arc::new(data);
    let draws = 60;
    let mut sums = Accuracy::new();
    for seed in 0..draws {
        let scenario = small(&[&overrides[..], &[&*format!("seed={seed}")]].concat());
        let world = World::new(scenario, data.clone()).unwrap();
        let control = fedrecsim_sim::RunControl::with_threads(1);
        let figures = fedrecsim_sim::run(world, &control, &mut ())
            .unwrap()
            .rounds
            .pop()
            .unwrap()
            .accuracy
            .unwrap();
        for (name, figure) in figures.test {
            *sums.entry(name).or_default() += figure / f64::from(draws);
        }
    }
    for figure in ["hr@5", "ndcg@5"] {
        let (sampled, expected) = (sums[figure], sums[&format!("expected-{figure}")]);
        // With 40 users and 60 draws, the standard error of the mean is below .01.
        assert!(
            (sampled - expected).abs() < 0.03,
            "{figure}: {sampled}, expected {expected}"
        );
        assert!(
            expected > 0.05 && expected < 0.95,
            "{figure} says nothing here: {expected}"
        );
    }
}

/// If this fails, an expectation depends on the draw of candidates and has noise of sampling.
#[test]
fn an_expectation_knows_no_draw_and_a_full_catalogue_leaves_nothing_to_chance() {
    let metrics = "evaluation.metrics=[\"hr@5\", \"expected-hr@5\", \"mrr\", \"expected-mrr\"]";
    let headline = "evaluation.headline=\"expected-hr@5\"";
    let of = |more: &[&str]| final_figures(&[&[POPULARITY, metrics, headline][..], more].concat());
    let (shared, own) = (
        of(&[]),
        of(&["evaluation.ranking.sampled.shared_candidates=false"]),
    );
    assert_eq!(shared["expected-hr@5"], own["expected-hr@5"]);
    let full = of(&["evaluation.ranking=\"full-catalogue\""]);
    assert!(
        (full["hr@5"] - full["expected-hr@5"]).abs() < 1e-12
            && (full["mrr"] - full["expected-mrr"]).abs() < 1e-12
    );
}

/// If this fails, the report of a run that is judged by another figure shows HR@10 all the same.
#[test]
fn the_headline_is_what_reports_show_and_rounds_are_judged_by() {
    let workshop = Workshop::new();
    let overrides = [
        "evaluation.metrics=[\"expected-hr@3\", \"expected-ndcg@3\", \"mrr\"]",
        "evaluation.headline=\"expected-ndcg@3\"",
        "evaluation.selection=\"best-test\"",
    ];
    workshop.run(workshop.small(), &overrides).unwrap();
    let summary = std::fs::read_to_string(workshop.report().join("summary.md")).unwrap();
    for part in [
        "expected NDCG@3 (test)",
        "the one with the best test expected NDCG@3",
        "MRR (validation)",
    ] {
        assert!(summary.contains(part), "no {part:?} in\n{summary}");
    }
    assert!(!summary.contains("HR@10"), "{summary}");
    let json = workshop.run_json();
    let rounds = workshop.rounds_csv();
    assert_eq!(rounds.len(), 3);
    assert!(json["accuracy"]["test"]["expected-ndcg@3"].is_f64());
}

/// If this fails, a figure that the split cannot have is left out, or stops the run after it has
/// begun.
#[test]
fn figures_that_do_not_fit_the_split_are_refused() {
    let workshop = Workshop::new();
    let cases: [(&[&str], &[&str]); 6] = [
        (
            &["evaluation.metrics=[\"rmse\"]"],
            &[
                "`rmse` compares predicted with held-out ratings",
                "only `k-fold` holds ratings out",
            ],
        ),
        (
            &[
                "dataset.split.k-fold.folds=5",
                "evaluation.metrics=[\"hr@10\"]",
            ],
            &["`hr@10` ranks a held-out item, but `k-fold` holds ratings out"],
        ),
        (
            &["evaluation.metrics=[\"hr@x\"]"],
            &["`x` is no cutoff of `hr`"],
        ),
        (
            &["evaluation.metrics=[\"ndgc\"]"],
            &["unknown metric `ndgc`", "did you mean `ndcg`?"],
        ),
        (
            &["evaluation.headline=\"hr\""],
            &["`headline` names one metric: write `hr@10`"],
        ),
        (
            &[
                "evaluation.metrics=[\"mrr\"]",
                "evaluation.headline=\"hr@10\"",
            ],
            &["`hr@10` is not among `metrics`", "`mrr`"],
        ),
    ];
    for (overrides, parts) in cases {
        workshop.refused(workshop.small(), overrides, parts);
    }
}

/// If this fails, a program whose scenario and data set do not fit together gets figures that mean
/// nothing.
#[test]
fn a_data_set_that_does_not_fit_its_scenario_is_a_typed_error() {
    let items = dataset::load(&small(&[]).dataset, &[], Streams::new(3)).unwrap();
    let ratings = small_of_ratings("user-mean", &["dataset.split.k-fold.fold=1"]);
    let folds = dataset::load(&ratings.dataset, &[], Streams::new(3)).unwrap();
    for (scenario, data) in [(small(&[]), folds), (ratings, items)] {
        let error = World::new(scenario, data.into()).unwrap_err();
        assert!(
            matches!(&error, Error::Dataset(reason) if reason.contains("(evaluation.metrics)")),
            "{error}"
        );
    }
    let text = "method = \"popularity\"\ndataset.name = \"generated\"\ntraining.rounds = 1\n";
    assert_eq!(parse(text, &[]).evaluation.headline, "hr@10");
}
