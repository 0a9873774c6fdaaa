//! What protects uploads: noise by devices and on sums, draws of each user by itself, virtual
//! items, and what is claimed.

use std::sync::Arc;

use fedrecsim_scenario::{Policy, Trust};
use fedrecsim_sim::outcome::{AuditRecord, NoEpsilon, Sampling};
use fedrecsim_sim::privacy::Curve;
use fedrecsim_sim::testing::check_resumed_runs;
use fedrecsim_sim::{Outcome, World};

use crate::support::{Workshop, assert_balanced, methods, run, small_with, world};

mod sums;

const DENSE: &str = "codec.uplink=\"dense-f32\"";
const ROWS: &str = "codec.uplink=\"rows-f32\"";
const LOCAL: &str = "privacy.gaussian={ clip = 0.5, noise_multiplier = 0.7, trust = \"local\" }";
const CENTRAL: &str =
    "privacy.gaussian={ clip = 0.5, noise_multiplier = 0.7, trust = \"central\" }";
/// Many rounds with the rates of large cohorts would diverge.
const SLOW: &str = "method.fedmf.learning_rate_items=10";
const POISSON: &str = "training.participation={ poisson = 0.2 }";

fn epsilons(outcome: &Outcome) -> Vec<f64> {
    outcome
        .rounds
        .iter()
        .map(|round| round.privacy.unwrap().epsilon.unwrap())
        .collect()
}

/// If this fails, noise without strength changes a run, or a client is scored with what it has sent
/// and not with what it has.
#[test]
fn a_client_keeps_and_scores_what_it_has_learned_without_noise() {
    for uplink in [DENSE, ROWS] {
        let plain = run(small_with("pfedrec", &[uplink, "training.rounds=1"]), 2);
        let noisy = |scale: &str| {
            let scale = format!("privacy.laplace.scale={scale}");
            run(
                small_with("pfedrec", &[uplink, "training.rounds=1", &scale]),
                2,
            )
        };
        assert_eq!(noisy("0.0").digest, plain.digest);
        let noisy = noisy("0.4");
        assert_eq!(
            noisy.rounds[0].accuracy, plain.rounds[0].accuracy,
            "a client is scored with its own table"
        );
        assert_ne!(
            noisy.model, plain.model,
            "the server has not seen the noise"
        );
        assert_eq!(
            noisy.rounds[0].privacy.unwrap().no_epsilon,
            Some(NoEpsilon::NothingIsClipped)
        );
    }
}

/// If this fails, users are not drawn independently, or a round without anybody ends the run.
#[test]
fn each_user_is_drawn_by_itself() {
    let overrides = [
        "training.rounds=300",
        POISSON,
        "evaluation.every_rounds=300",
        "training.empty_rounds_limit=1",
    ];
    let outcome = run(small_with("fedmf", &[&overrides[..], &[SLOW]].concat()), 2);
    assert_balanced(&outcome);
    let invited: Vec<f64> = outcome
        .rounds
        .iter()
        .map(|round| f64::from(round.invited))
        .collect();
    let mean = invited.iter().sum::<f64>() / 300.0;
    let variance = invited
        .iter()
        .map(|count| (count - mean).powi(2))
        .sum::<f64>()
        / 300.0;
    // Of 40 users with probability 0.2 the mean is 8 and the variance 6.4.
    assert!(
        (mean - 8.0).abs() < 0.6 && (variance - 6.4).abs() < 2.0,
        "{mean} {variance}"
    );
    let seldom = [
        "training.rounds=60",
        "training.participation={ poisson = 0.02 }",
        "training.empty_rounds_limit=1",
    ];
    let outcome = run(small_with("fedmf", &[&seldom[..], &[SLOW]].concat()), 2);
    let empty = outcome
        .rounds
        .iter()
        .filter(|round| round.invited == 0)
        .count();
    // Nobody of 40 is drawn with probability 0.45.
    assert!((10..45).contains(&empty), "{empty} rounds without anybody");
}

/// If this fails, what is reported is not what the accountant computes for what was done.
#[test]
fn the_epsilon_of_every_round_is_that_of_the_accountant() {
    let rounds = "training.rounds=4";
    let claimed = |overrides: &[&str]| run(small_with("fedmf", overrides), 2);
    let expected =
        |curve: &Curve, times: [u32; 4]| times.map(|times| curve.epsilon(times, 1e-5)).to_vec();
    let poisson = claimed(&[CENTRAL, POISSON, rounds]);
    assert_eq!(
        epsilons(&poisson),
        expected(&Curve::of_poisson_sample(0.2, 0.7), [1, 2, 3, 4])
    );
    assert_eq!(
        poisson.rounds[0].privacy.unwrap().sampling,
        Some(Sampling::Poisson(0.2))
    );
    let replace = "privacy.gaussian.adjacency=\"replace\"";
    let cohort = claimed(&[
        CENTRAL,
        replace,
        "training.participation={ cohort = 10 }",
        rounds,
    ]);
    assert_eq!(
        epsilons(&cohort),
        expected(&Curve::of_fixed_cohort(0.25, 0.35), [1, 2, 3, 4])
    );
    let all = claimed(&[CENTRAL, rounds]);
    assert_eq!(
        epsilons(&all),
        expected(&Curve::gaussian(0.7), [1, 2, 3, 4])
    );
    let in_turn = [
        "training.client_selection=\"round-robin\"",
        "training.participation={ cohort = 20 }",
    ];
    let local = claimed(&[LOCAL, DENSE, in_turn[0], in_turn[1], rounds]);
    assert_eq!(
        epsilons(&local),
        expected(&Curve::gaussian(0.7), [1, 1, 2, 2]),
        "every user is in every other round"
    );
    let listed = claimed(&[LOCAL, ROWS, rounds]);
    let record = listed.rounds[3].privacy.unwrap();
    assert_eq!(
        (record.epsilon, record.no_epsilon),
        (None, Some(NoEpsilon::RowsTell))
    );
    let absent = claimed(&[
        CENTRAL,
        POISSON,
        rounds,
        "availability.pattern={ on-off = { mean_on_s = 1e5, mean_off_s = 10 } }",
    ]);
    assert_eq!(
        absent.rounds[0].privacy.unwrap().sampling,
        Some(Sampling::Known),
        "who is away is not drawn"
    );
}

/// If this fails, noise depends on threads or on where a run was stopped.
#[test]
fn noise_is_the_same_on_any_number_of_threads_and_after_any_checkpoint() {
    let virtual_items = "privacy.virtual_items={ per_rated_item = 1.5 }";
    for (method, overrides) in [
        ("fedmf", vec![LOCAL, DENSE, "network.dropout=0.2"]),
        ("fedmf", vec![CENTRAL, POISSON, "training.rounds=5"]),
        (
            "fedrap",
            vec![
                CENTRAL,
                "training.participation={ poisson = 0.03 }",
                "training.rounds=5",
            ],
        ),
        ("colr", vec![CENTRAL, "training.rounds=5"]),
        (
            "fedgram",
            vec![
                CENTRAL,
                POISSON,
                "method.fedgram.sends_counts=true",
                "training.rounds=5",
            ],
        ),
        (
            "fedspec",
            vec![
                CENTRAL,
                POISSON,
                "method.fedspec.sends_counts=true",
                "training.rounds=7",
            ],
        ),
        (
            "fedrec-svdpp",
            vec![
                CENTRAL,
                POISSON,
                "method.fedrec-svdpp.sends_counts=true",
                "training.rounds=5",
            ],
        ),
        (
            "fedpergnn",
            vec![
                CENTRAL,
                POISSON,
                "method.fedpergnn.equal_weights=true",
                "training.rounds=5",
            ],
        ),
        (
            "metamf",
            vec![
                CENTRAL,
                POISSON,
                "method.metamf.equal_weights=true",
                "training.rounds=5",
            ],
        ),
        (
            "pfedrec",
            vec![
                "privacy.laplace.scale=0.1",
                ROWS,
                virtual_items,
                "network.dropout=0.2",
            ],
        ),
        (
            "fcf",
            vec![
                LOCAL,
                DENSE,
                "training.mode.fedbuff={ concurrency = 9, buffer = 4 }",
                "training.rounds=4",
            ],
        ),
    ] {
        let scenario = || small_with(method, &overrides);
        let (one, three) = (run(scenario(), 1), run(scenario(), 3));
        assert_eq!(one.digest, three.digest, "{method}, {overrides:?}");
        let made = || -> fedrecsim_core::Result<World> { Ok(world(scenario())) };
        check_resumed_runs(&made)
            .unwrap_or_else(|reason| panic!("{method}, {overrides:?}: {reason}"));
    }
}

/// Returns what the audit has found after eight rounds.
fn audited(method: &str, overrides: &[&str]) -> (AuditRecord, Outcome) {
    let outcome = run(
        small_with(
            method,
            &[&["audit={}", "training.rounds=8", ROWS], overrides].concat(),
        ),
        2,
    );
    (outcome.rounds.last().unwrap().audit.unwrap(), outcome)
}

/// If this fails, a server that looks at which rows arrive, once or every time, tells rated items
/// from virtual ones; or virtual items change what is learned.
#[test]
fn virtual_items_hide_rated_ones_from_who_sees_which_rows_arrive() {
    let virtual_items = "privacy.virtual_items={ per_rated_item = 4.0 }";
    for method in ["fedgram", "fedspec", "privirec"] {
        let ((open, plain), (hidden, same)) =
            (audited(method, &[]), audited(method, &[virtual_items]));
        assert!(
            open.presence.auc > 0.999 && open.presence.precision > 0.999,
            "{method}: {open:?}"
        );
        assert!(
            hidden.presence.auc < open.presence.auc - 0.1,
            "{method}: {hidden:?}"
        );
        // A fifth of the rows that arrive is rated.
        assert!(
            (hidden.presence.precision - 0.2).abs() < 0.05,
            "{method}: {hidden:?}"
        );
        let [linked, ..] = hidden.linked.unwrap();
        assert!(
            (linked.precision - hidden.presence.precision).abs() < 0.05,
            "{method}: {hidden:?}"
        );
        assert_eq!(plain.model, same.model, "{method}");
        assert!(
            same.bytes.up.sent > 2 * plain.bytes.up.sent,
            "{method}: what hides costs bytes"
        );
        assert_eq!(
            same.rounds[0].privacy.unwrap().no_epsilon,
            Some(NoEpsilon::VirtualItems)
        );
    }
}

/// If this fails, the audit overlooks that counts tell what a user has rated where noise hides it
/// in the other rows.
#[test]
fn the_audit_reads_the_counts_that_devices_send() {
    for method in ["fedgram", "fedspec", "fedrec-pmf"] {
        let noise = ["privacy.laplace.scale=0.1", DENSE];
        let (silent, _) = audited(method, &noise);
        let (told, _) = audited(
            method,
            &[&noise[..], &[&format!("method.{method}.sends_counts=true")]].concat(),
        );
        assert!(
            told.norm.auc > 0.99 && told.norm.auc > silent.norm.auc,
            "{method}: {told:?}, {silent:?}"
        );
    }
}

/// If this fails, a scenario says something that cannot be had, and runs all the same.
#[test]
fn what_protects_nothing_is_refused_with_the_reason() {
    let shop = Workshop::new();
    let refused = |overrides: &[&str], part: &str| shop.refused(shop.small(), overrides, &[part]);
    let mode = |mode: &str| format!("training.mode={mode}");
    refused(&[LOCAL, "privacy.gaussian.clip=0"], "clip");
    refused(
        &[LOCAL, "privacy.gaussian.noise_multiplier=-0.1"],
        "noise_multiplier",
    );
    refused(
        &[LOCAL, "privacy.gaussian.noise_multiplier=nan"],
        "noise_multiplier",
    );
    refused(
        &[LOCAL, "privacy.gaussian.delta=0.03"],
        "more than one over the number of users (40)",
    );
    refused(&[LOCAL, "privacy.laplace.scale=0.1"], "choose one of them");
    refused(
        &[CENTRAL, &mode("{ fedasync = { concurrency = 3 } }")],
        "the mode `fedasync` has none",
    );
    refused(&[CENTRAL, "method=\"fedgram\""], "who sent which row");
    refused(
        &[CENTRAL, "method=\"fedrecon\""],
        "or `sends_counts = true` or `equal_weights = true`",
    );
    for method in [
        "fedrec-pmf",
        "metamf",
        "fedpergnn",
        "gpfedrec",
        "fedca",
        "fedem",
        "fedea",
        "cofedrec",
        "cgfedrec",
        "adafedrec",
    ] {
        refused(
            &[CENTRAL, &format!("method=\"{method}\"")],
            "who sent which row",
        );
    }
    let of_equal_weights = "method={ metamf = { equal_weights = true } }";
    refused(
        &[DENSE, of_equal_weights, "overheads.secure_aggregation={}"],
        "single uploads, which `secure_aggregation` hides",
    );
    refused(
        &[LOCAL, "training.client_selection.oort={}"],
        "on which there is no noise",
    );
    refused(
        &[LOCAL, DENSE, "overheads.secure_aggregation={}"],
        "which `secure_aggregation` hides",
    );
    refused(
        &[
            LOCAL,
            DENSE,
            "method=\"fedmf\"",
            "codec.downlink={ select = \"needed-rows\" }",
        ],
        "noise on every row needs all rows",
    );
    refused(
        &[
            CENTRAL,
            ROWS,
            "method=\"fedmf\"",
            "codec.downlink={ select = \"needed-rows\" }",
        ],
        "noise on a sum is on all rows",
    );
    let virtual_items = "privacy.virtual_items={ per_rated_item = 1 }";
    refused(&[virtual_items, DENSE], "this codec lists none");
    refused(
        &[virtual_items, DENSE, "overheads.secure_aggregation={}"],
        "have nothing to hide",
    );
    refused(
        &[POISSON, "training.client_selection=\"round-robin\""],
        "no other `client_selection` than `uniform`",
    );
    refused(
        &[POISSON, &mode("{ over-selection = { factor = 1.5 } }")],
        "needs a number of users",
    );
    shop.refused(
        shop.small_of_ratings(),
        &["method=\"mf\"", LOCAL],
        &["no mechanism here protects these"],
    );
    let central = || world(small_with("fedmf", &[CENTRAL]));
    let fedbuff = small_with(
        "fedmf",
        &["training.mode.fedbuff={ concurrency = 3, buffer = 2 }"],
    );
    let error = central()
        .with_policy(Policy::of(&fedbuff.training.mode))
        .unwrap_err()
        .to_string();
    assert!(error.contains("noise on sums needs a cohort"), "{error}");
}

/// If this fails, a delta that is too large for the users of a file is found by nobody, or a method
/// of one's own that does not add up has noise on one of its uploads.
#[test]
fn what_only_the_data_tell_is_refused_when_they_are_read() {
    let mut scenario = small_with("fedmf", &[CENTRAL]);
    scenario.privacy.gaussian.as_mut().unwrap().delta = 0.5;
    let of_users = scenario.dataset.clone();
    let dataset =
        || fedrecsim_data::dataset::load(&of_users, &[], fedrecsim_core::Streams::new(3)).unwrap();
    let error = World::new(scenario, Arc::new(dataset()))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("privacy.gaussian.delta") && error.contains("40"),
        "{error}"
    );
    // The file of such a scenario is refused; a program that makes its scenario itself comes as far
    // as the world.
    let mut scenario = small_with("fedmf-trimmed", &[]);
    scenario.privacy.gaussian = small_with("fedmf", &[CENTRAL]).privacy.gaussian;
    let made = |scenario| World::with_methods(scenario, Arc::new(dataset()), &methods()).map(drop);
    let error = made(scenario.clone()).unwrap_err().to_string();
    assert!(
        error.contains("privacy.gaussian.trust") && error.contains("who sent which row"),
        "{error}"
    );
    scenario.privacy.gaussian.as_mut().unwrap().trust = Trust::Local;
    made(scenario.clone()).unwrap();
    scenario.privacy.gaussian = None;
    scenario.overheads.secure_aggregation =
        Some(fedrecsim_scenario::SecureAggregationSpec::default());
    let error = made(scenario).unwrap_err().to_string();
    assert!(
        error.contains("overheads.secure_aggregation")
            && error.contains("hides all but the sum of the uploads"),
        "{error}"
    );
}

/// If this fails, a report does not show the privacy claim, or what the claim depends on.
#[test]
fn reports_state_epsilon_with_all_that_it_depends_on() {
    let workshop = Workshop::new();
    workshop
        .run(workshop.small(), &[CENTRAL, POISSON, "method=\"fedmf\""])
        .unwrap();
    let privacy = &workshop.run_json()["privacy"];
    let epsilon = Curve::of_poisson_sample(0.2, 0.7).epsilon(3, 1e-5);
    assert_eq!(privacy["epsilon"].as_f64(), Some(epsilon));
    assert_eq!(
        (&privacy["adjacency"], &privacy["trust"]),
        (&"add-or-remove".into(), &"central".into())
    );
    assert_eq!(
        (&privacy["sampling"]["poisson"], &privacy["times"]),
        (&0.2.into(), &3.into())
    );
    let read = |name: &str| std::fs::read_to_string(workshop.report().join(name)).unwrap();
    let rounds = read("rounds.csv");
    let (header, last) = (
        rounds.lines().next().unwrap(),
        rounds.lines().last().unwrap(),
    );
    assert!(
        header.ends_with(",epsilon") && last.ends_with(&format!(",{epsilon}")),
        "{rounds}"
    );
    let summary = read("summary.md");
    let words = [
        &format!("epsilon {epsilon:.4} at delta 1e-5"),
        "a user with all ratings is added or removed",
        "trust in the server",
        "Poisson sampling with probability 0.2, 3 steps",
    ];
    assert!(
        words.iter().all(|words| summary.contains(words)),
        "{summary}"
    );
}

/// If this fails, a report claims an epsilon where it should say why there is none.
#[test]
fn reports_say_why_there_is_no_epsilon() {
    let workshop = Workshop::new();
    workshop
        .run(workshop.small(), &[LOCAL, ROWS, "method=\"fedmf\""])
        .unwrap();
    let summary = std::fs::read_to_string(workshop.report().join("summary.md")).unwrap();
    assert!(
        summary.contains("no epsilon: which rows arrive depends on the data"),
        "{summary}"
    );
    assert_eq!(workshop.run_json()["privacy"]["no_epsilon"], "rows-tell");
    assert!(!workshop.run_json()["privacy"]["epsilon"].is_number());
}

/// If this fails, reports do not say what the noise of FedRAP's own is worth, or claim more than
/// the accountant makes of it.
#[test]
fn the_noise_of_a_method_itself_has_its_claim() {
    let claimed = |overrides: &[&str]| {
        let outcome = run(small_with("fedrap", overrides), 2);
        outcome
            .rounds
            .iter()
            .map(|round| round.privacy)
            .collect::<Vec<_>>()
    };
    assert_eq!(claimed(&[]), [None; 3]);
    let records = claimed(&["method.fedrap.noise={ at = \"upload\", multiplier = 4.0 }"]);
    // Rates that fall by .95 in each step add up to 20 times the first one, and there are 40 users.
    let curve = Curve::gaussian(4.0 / 40.0 / 20.0);
    for (record, rounds) in records.iter().map(|record| record.unwrap()).zip(1..) {
        let (found, expected) = (record.epsilon.unwrap(), curve.epsilon(rounds, 1e-5));
        assert!(
            (found / expected - 1.0).abs() < 1e-5,
            "{found} and not {expected}"
        );
        assert_eq!((record.times, record.trust), (rounds, Some(Trust::Local)));
    }
    let of_gradients = claimed(&["method.fedrap.noise={ at = \"gradient\", multiplier = 1e-3 }"]);
    assert_eq!(
        of_gradients[2].unwrap().no_epsilon,
        Some(NoEpsilon::StepsByData)
    );
    // What `[privacy]` does is counted, and not that a method adds something before.
    let both = claimed(&["method.fedrap.noise={ at = \"upload\" }", LOCAL, DENSE]);
    assert_eq!(
        both[2].unwrap().epsilon,
        Some(Curve::gaussian(0.7).epsilon(3, 1e-5))
    );
    let workshop = Workshop::new();
    workshop
        .run(workshop.small(), &["method.fedrap.noise.at=\"gradient\""])
        .unwrap();
    let summary = std::fs::read_to_string(workshop.report().join("summary.md")).unwrap();
    assert!(
        summary.contains("no epsilon: how many steps a device makes"),
        "{summary}"
    );
}
