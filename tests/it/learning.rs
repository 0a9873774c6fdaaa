use fedrecsim_sim::outcome::RoundRecord;
use fedrecsim_sim::{self as sim, RunControl};

use crate::determinism::quickstart;
use crate::support::{assert_balanced, assert_finite, final_hr, load, run, small, world};

const ABLATIONS: [&[&str]; 8] = [
    &[],
    &["method.fedrap.tables=\"c-only\""],
    &["method.fedrap.tables=\"d-only\""],
    &[
        "method.fedrap.tables=\"d-only\"",
        "method.fedrap.aggregate_d=true",
    ],
    &["method.fedrap.regularizer=\"none\""],
    &["method.fedrap.regularizer=\"l2\""],
    &["method.fedrap.lambda=0"],
    &["method.fedrap.curriculum=\"fixed\""],
];

const PAPER: [&str; 5] = [
    "method.fedrap.objective=\"paper\"",
    "method.fedrap.learning_rate_network=0.001",
    "method.fedrap.learning_rate_tables=0.01",
    "method.fedrap.lambda=0.01",
    "method.fedrap.mu=1",
];

/// If this fails, an ablation of either objective cannot be run.
#[test]
fn every_ablation_runs_and_stays_finite() {
    for ablation in ABLATIONS {
        for objective in [&[][..], &PAPER] {
            let outcome = run(small(&[objective, ablation].concat()), 2);
            assert_eq!(outcome.rounds.len(), 3, "{ablation:?}");
            assert_finite(&outcome);
            assert_balanced(&outcome);
        }
    }
}

/// If this fails, an ablation has a name but no effect.
#[test]
fn every_ablation_of_the_tables_and_the_penalty_is_another_model() {
    // The last ablation is a curriculum, which the published code ignores.
    let digests: Vec<String> = ABLATIONS[..7]
        .iter()
        .map(|ablation| run(small(ablation), 2).digest)
        .collect();
    let distinct: std::collections::BTreeSet<&String> = digests.iter().collect();
    assert_eq!(distinct.len(), digests.len(), "{digests:?}");
}

/// If this fails, `published-code` computes what the published code only appears to compute.
#[test]
fn the_published_code_trains_alike_under_every_curriculum_and_the_paper_does_not() {
    let digests = |objective: &[&str]| -> Vec<String> {
        ["tanh", "fixed", "sin", "square", "frac"]
            .iter()
            .map(|curriculum| {
                let curriculum = format!("method.fedrap.curriculum=\"{curriculum}\"");
                run(small(&[objective, &[curriculum.as_str()]].concat()), 2).digest
            })
            .collect()
    };
    let code = digests(&[]);
    assert!(code.iter().all(|digest| *digest == code[0]), "{code:?}");
    let paper = digests(&PAPER);
    // In its first ten rounds `square` is the same as `fixed`.
    assert_eq!(paper[1], paper[3]);
    let distinct: std::collections::BTreeSet<&String> = paper.iter().collect();
    assert_eq!(distinct.len(), 4, "{paper:?}");
}

/// If this fails, FedRAP-noise has no effect, or the two places where its noise can enter are one.
#[test]
fn noise_on_the_shared_table_changes_what_is_learned_and_sends_every_row() {
    let with = |noise: &str| run(small(&["codec.uplink=\"rows-f32\"", noise]), 2);
    let plain = with("method.fedrap.local_epochs=10");
    let gradient = with("method.fedrap.noise={}");
    let upload = with("method.fedrap.noise={ at = \"upload\" }");
    assert!(
        plain.digest != gradient.digest
            && plain.digest != upload.digest
            && gradient.digest != upload.digest
    );
    assert!(
        plain.bytes.up.sent < gradient.bytes.up.sent,
        "rows that are left out tell what a user has rated"
    );
    assert_eq!(gradient.bytes.up.sent, upload.bytes.up.sent);
    [&gradient, &upload].into_iter().for_each(assert_finite);
}

/// If this fails, devices that are told the mean of CoLR's updates learn something else than those
/// that download the table, a secure sum does not fit the method, or it saves nothing.
#[test]
fn colr_learns_the_same_from_the_mean_of_updates_and_sends_a_fraction() {
    let with = |method: &str| run(small(&[method, "overheads.secure_aggregation={}"]), 2);
    let table = with("method={ colr = {} }");
    let mean = with("method={ colr = { download = \"aggregate\" } }");
    let fedmf = with("method=\"fedmf\"");
    for (table, mean) in table.rounds.iter().zip(&mean.rounds) {
        let accuracy = |round: &RoundRecord| {
            round
                .accuracy
                .as_ref()
                .map(|accuracy| accuracy.test.clone())
        };
        assert_eq!((accuracy(table), table.loss), (accuracy(mean), mean.loss));
    }
    // An item has 2 of 32 values. Down travel 16 bytes besides, which name the basis.
    assert_eq!(16 * mean.bytes.up.values, fedmf.bytes.up.values);
    let named = 16 * mean.bytes.down.frames;
    assert_eq!(
        16 * (mean.bytes.down.values - named),
        table.bytes.down.values - named
    );
    assert_balanced(&mean);
}

/// If this fails, a device whose table lacks an update of CoLR trains on without a word.
#[test]
fn colr_refuses_to_go_on_where_devices_miss_the_mean_of_updates() {
    let scenario = small(&[
        "method={ colr = { download = \"aggregate\" } }",
        "training.participation={ share = 0.5 }",
    ]);
    let refused = sim::run(world(scenario), &RunControl::with_threads(2), &mut ())
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("every user has to take part in every step"),
        "{refused}"
    );
}

/// If this fails, the proximal step does not set small values to zero, and a sparse codec saves
/// nothing.
#[test]
fn the_papers_proximal_step_makes_exact_zeros_and_the_published_code_none() {
    let above_zero = |overrides: &[&str]| run(small(overrides), 2).rounds[2].sparsity.unwrap();
    let paper = above_zero(&PAPER);
    assert!(
        paper.uploads[0] < 1.0,
        "share of uploaded |C| above 0: {}",
        paper.uploads[0]
    );
    assert!(paper.averaged[0] <= 1.0);
    let code = above_zero(&[]);
    assert_eq!(code.uploads[0], 1.0, "subgradients never land on zero");
}

/// If this fails, the simulator hides what the pool of negatives does to an accuracy: with
/// `unrated` the held-out item can be found by elimination, and with the other pool FedRAP does not
/// reach its published accuracy.
#[test]
fn the_quickstart_owes_its_accuracy_to_the_pool_of_negatives() {
    let popularity = quickstart().baselines["popularity"].test["hr@10"];
    let leaking = final_hr(quickstart());
    let honest = final_hr(&run(
        load(
            "scenarios/quickstart.toml",
            &["dataset.negatives.pool=\"not-in-train\""],
        ),
        2,
    ));
    println!("HR@10: unrated {leaking:.3}, not-in-train {honest:.3}, popularity {popularity:.3}");
    assert!(
        leaking > popularity + 0.2,
        "unrated {leaking}, popularity {popularity}"
    );
    assert!(
        honest < leaking - 0.2,
        "not-in-train {honest}, unrated {leaking}"
    );
}
