use std::collections::BTreeSet;

use fedrecsim_core::Error;
use fedrecsim_sim::{self as sim, RunControl};

use crate::support::{
    Workshop, assert_balanced, assert_finite, methods, run, small, small_with, world,
};

/// FedRAP as in the paper with lambda = 1 over the whole matrix. The loss is unbounded below, but
/// training takes some rounds to diverge.
const EXPLODING: [&str; 6] = [
    "method.fedrap.objective=\"paper\"",
    "method.fedrap.lambda=1",
    "method.fedrap.curriculum=\"fixed\"",
    "method.fedrap.learning_rate_network=0.02",
    "method.fedrap.learning_rate_tables=0.02",
    "training.rounds=50",
];

/// If this fails, a diverged model is reported as a result, or the rounds before it are thrown
/// away.
#[test]
fn an_explosion_names_round_and_parameter_and_keeps_the_rounds_before() {
    let outcome = sim::run(
        world(small(&EXPLODING)),
        &RunControl::with_threads(2),
        &mut (),
    )
    .unwrap();
    let Some(Error::Diverged {
        round,
        ref parameter,
        value,
        limit,
        ..
    }) = outcome.stopped_by
    else {
        panic!("{:?}", outcome.stopped_by)
    };
    let finished = outcome.rounds.len() as u32;
    assert_eq!(round.0, finished, "the round after the finished ones");
    assert!(
        finished >= 2,
        "it explodes too early to tell whether rounds are kept"
    );
    assert!(["C", "D", "w", "b"].contains(&&**parameter), "{parameter}");
    assert!(
        !matches!(value.partial_cmp(&limit), Some(std::cmp::Ordering::Less)),
        "{value} is below {limit}"
    );
    assert_balanced(&outcome);
    assert_finite(&outcome);
    // The rounds are the same as those of a run that ends before the explosion.
    let short = format!("training.rounds={finished}");
    let in_time = run(small(&[&EXPLODING[..], &[short.as_str()]].concat()), 2);
    assert_eq!(outcome.rounds, in_time.rounds);
    assert_eq!(outcome.model.table(0), in_time.model.table(0));
}

/// If this fails, the round that a run explodes in depends on the order of threads.
#[test]
fn an_explosion_is_the_same_at_any_number_of_threads() {
    let stopped = |threads| {
        let outcome = sim::run(
            world(small(&EXPLODING)),
            &RunControl::with_threads(threads),
            &mut (),
        )
        .unwrap();
        (
            outcome.digest,
            outcome.bytes,
            outcome.stopped_by.unwrap().to_string(),
        )
    };
    let one = stopped(1);
    assert_eq!(stopped(2), one);
    assert_eq!(stopped(3), one);
}

#[test]
fn the_command_reports_a_diverged_run_as_incomplete_and_fails() {
    let workshop = Workshop::new();
    let finished = workshop.run(workshop.small(), &EXPLODING).unwrap();
    let error = finished
        .errors
        .into_iter()
        .next()
        .expect("it did not diverge");
    assert_eq!(error.exit_code(), 1);
    let json = workshop.run_json();
    assert_eq!(json["complete"], false);
    assert_eq!(
        json["stopped_by"].as_str(),
        Some(error.to_string().as_str())
    );
    let rounds = json["rounds"].as_u64().unwrap();
    assert!(
        error
            .to_string()
            .contains(&format!("diverged in round {}", rounds + 1)),
        "{error}"
    );
    assert_eq!(workshop.rounds_csv().len() as u64, rounds);
    let summary = std::fs::read_to_string(workshop.report().join("summary.md")).unwrap();
    assert!(
        summary.contains("diverged"),
        "the summary hides it:\n{summary}"
    );
}

/// If this fails, a run that explodes in its first round leaves no report, or one with figures of
/// no round.
#[test]
fn an_explosion_in_the_first_round_leaves_a_report_without_rounds() {
    let workshop = Workshop::new();
    let error = workshop
        .run(
            workshop.small(),
            &["method.fedrap.learning_rate_network=1e30"],
        )
        .unwrap()
        .errors
        .into_iter()
        .next();
    assert!(matches!(error, Some(Error::Diverged { .. })), "{error:?}");
    let json = workshop.run_json();
    assert_eq!(
        (json["rounds"].as_u64(), json["complete"].as_bool()),
        (Some(0), Some(false))
    );
    assert!(json["selected_round"].is_null());
    assert!(workshop.rounds_csv().is_empty());
}

/// For every method that moves along gradients, parameters that make it explode.
const EXPLODING_RATES: [(&str, &str); 31] = [
    ("fedrap", "{ learning_rate_network = 1e30 }"),
    ("feddad", "{ learning_rate_users = 1e30 }"),
    ("pfedrec", "{ learning_rate = 1e20 }"),
    ("gpfedrec", "{ learning_rate = 1e20 }"),
    ("fedca", "{ learning_rate = 1e30 }"),
    ("fedem", "{ learning_rate = 1e30 }"),
    ("fedea", "{ learning_rate_adapter = 1e30, mixed_share = 1 }"),
    ("cofedrec", "{ learning_rate = 1e20 }"),
    (
        "cgfedrec",
        "{ optimizer = \"adam\", learning_rate_items = 1e30 }",
    ),
    ("fedcia", "{ learning_rate = 1e30 }"),
    ("fedpeft", "{ learning_rate = 1e30 }"),
    (
        "feddae",
        "{ learning_rate = 1e30, latent_dimension = 4, outer_units = 16, inner_units = 8 }",
    ),
    ("adafedrec", "{ learning_rate = 1e30 }"),
    ("fedmf", "{ learning_rate_items = 1e30 }"),
    ("fedncf", "{ learning_rate_user = 1e30 }"),
    ("fedrecon", "{ learning_rate_items = 1e30 }"),
    ("colr", "{ learning_rate_items = 1e30 }"),
    ("metamf", "{ learning_rate = 1e30, hidden_units = 64 }"),
    // After two such steps the table is infinite in single precision.
    ("fcf", "{ server_rate = 3e38 }"),
    ("fcf-bts", "{ server_rate = 3e38, row_share = 1 }"),
    ("fedrec-pmf", "{ learning_rate = 1e20 }"),
    ("fedrec-svdpp", "{ learning_rate = 1e20 }"),
    (
        "fedpergnn",
        "{ learning_rate = 1e30, latent_dimension = 8, own_items = 6, neighbours_per_item = 4 }",
    ),
    ("mf", "{ learning_rate = 1e30 }"),
    ("centrap", "{ learning_rate_network = 1e30 }"),
    ("pmf", "{ learning_rate = 1e20 }"),
    ("svdpp", "{ learning_rate = 1e20 }"),
    ("bpr-mf", "{ learning_rate = 1e30 }"),
    ("ncf", "{ learning_rate = 1e30 }"),
    ("lightgcn", "{ learning_rate = 1e30 }"),
    ("fedbpr", "{ learning_rate_items = 1e30 }"),
];

/// Methods that cannot explode, since they solve for what they are looking for and no rate is above
/// 1. What they do where there is no solution is tested with the other bad input.
const WITHOUT_RATES: [&str; 10] = [
    "fedgram",
    "fedspec",
    "privirec",
    "fedcia-gsp",
    "lightfr",
    "fedtide",
    "ease",
    "itemknn",
    "ials",
    "item-mean",
];

/// If this fails, a method's explosion ends in figures that are no numbers, or a new method is on
/// neither list.
#[test]
fn every_method_that_trains_stops_when_it_explodes() {
    let trained: BTreeSet<&str> = methods()
        .iter()
        .filter(|entry| entry.placement.trains())
        .map(|entry| entry.name)
        .collect();
    let exploding = EXPLODING_RATES.iter().map(|(method, _)| *method);
    // The method of the example is FedMF with another rule.
    let listed = exploding
        .chain(WITHOUT_RATES)
        .chain(["fedmf-trimmed"])
        .collect();
    assert_eq!(trained, listed);
    for (method, parameters) in EXPLODING_RATES {
        let scenario = small_with(
            "random",
            &[
                &format!("method={{ {method} = {parameters} }}"),
                "training.rounds=20",
            ],
        );
        let outcome = sim::run(world(scenario), &RunControl::with_threads(2), &mut ()).unwrap();
        let stopped_by = &outcome.stopped_by;
        let is_noticed = matches!(
            stopped_by,
            Some(Error::Diverged { .. } | Error::Singular { .. } | Error::Unscorable { .. })
        );
        assert!(is_noticed, "{method}: {stopped_by:?}");
        assert_finite(&outcome);
    }
}

/// If this fails, a central method that explodes ends the run as if a report could not be written.
#[test]
fn a_server_that_explodes_names_its_parameter_and_no_user() {
    let scenario = small_with(
        "random",
        &[
            "method={ pmf = { learning_rate = 1e20 } }",
            "training.rounds=5",
        ],
    );
    let outcome = sim::run(world(scenario), &RunControl::with_threads(1), &mut ()).unwrap();
    let error = outcome.stopped_by.unwrap();
    assert!(
        matches!(&error, Error::Diverged { user: None, .. }),
        "{error:?}"
    );
    let message = error.to_string();
    assert!(
        message.contains("(at the server)") && message.contains("lower the learning rates"),
        "{message}"
    );
}
