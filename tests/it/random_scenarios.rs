use fedrecsim::scenario::Scenario;
use proptest::prelude::*;

use crate::support::{assert_balanced, assert_finite, run, small};

fn one_of(values: &'static [&'static str]) -> impl Strategy<Value = String> {
    proptest::sample::select(values).prop_map(str::to_owned)
}

/// Overrides that make another small and sound scenario of the base one.
fn overrides() -> impl Strategy<Value = Vec<String>> {
    // Rates that are small enough for every method not to explode within a few rounds.
    let method = one_of(&[
        "method={ fedrap = { latent_dimension = 5, learning_rate_tables = 2 } }",
        "method={ fedrap = { latent_dimension = 7, batch_size = 20, learning_rate_tables = 2, regularizer = \"l2\" } }",
        "method={ fedrap = { tables = \"d-only\", aggregate_d = true, learning_rate_tables = 2 } }",
        "method={ fedrap = { objective = \"paper\", lambda = 0.01, learning_rate_network = 0.001 } }",
        "method={ pfedrec = { latent_dimension = 3, local_epochs = 2, batch_size = 16 } }",
        "method={ fedmf = { latent_dimension = 33, local_epochs = 2, learning_rate_items = 50 } }",
        "method=\"random\"",
    ]);
    let participation = prop_oneof![
        Just("training.participation=\"all\"".to_owned()),
        (0.01..1.0f64).prop_map(|share| format!("training.participation={{ share = {share:.3} }}")),
        (1..12u32).prop_map(|cohort| format!("training.participation={{ cohort = {cohort} }}")),
    ];
    let codecs = &["dense-f32", "rows-f32", "sparse-f32"];
    let world = (
        one_of(&["network.preset=\"lan\"", "network.preset=\"wifi-2020\"", "network.preset=\"mobile-pessimistic\""]),
        one_of(&["devices.preset=\"uniform\"", "devices.preset=\"phone-lognormal\""]),
        one_of(codecs).prop_map(|codec| format!("codec.uplink=\"{codec}\"")),
        one_of(codecs).prop_map(|codec| format!("codec.downlink=\"{codec}\"")),
        prop_oneof![Just(0.0), 0.0..=1.0].prop_map(|dropout| format!("network.dropout={dropout:.2}")),
    );
    let protocol = (
        one_of(&["dataset.negatives.pool=\"unrated\"", "dataset.negatives.pool=\"not-in-train\""]),
        (1..6u32).prop_map(|count| format!("dataset.negatives.per_positive={count}")),
        one_of(&["evaluation.ranking=\"sampled\"", "evaluation.ranking=\"full-catalogue\""]),
        one_of(&["evaluation.shared_candidates=true", "evaluation.shared_candidates=false"]),
        one_of(&["dataset.validation_item=true", "dataset.validation_item=false"]),
        (0..12u32).prop_map(|users| format!("evaluation.users={users}")),
    );
    let size = (
        (12..30u32).prop_map(|users| format!("dataset.generator.users={users}")),
        (70..130u32).prop_map(|items| format!("dataset.generator.items={items}")),
        (1..4u32).prop_map(|rounds| format!("training.rounds={rounds}")),
        (1..4u32).prop_map(|every| format!("evaluation.every_rounds={every}")),
        (0..1000u32).prop_map(|seed| format!("seed={seed}")),
    );
    (method, participation, world, protocol, size).prop_map(|(method, participation, w, p, s)| {
        let others = [w.0, w.1, w.2, w.3, w.4, p.0, p.1, p.2, p.3, p.4, p.5, s.0, s.1, s.2, s.3, s.4];
        [method, participation, "evaluation.candidates=15".to_owned()].into_iter().chain(others).collect()
    })
}

fn scenario(overrides: &[String]) -> Scenario {
    small(&overrides.iter().map(String::as_str).collect::<Vec<_>>())
}

proptest! {
    // Persistence would write files beside the sources; a failing case prints its overrides.
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// If this fails, some combination of settings breaks determinism or the ledger, or makes a figure of nothing.
    #[test]
    fn any_small_scenario_is_reproducible_balanced_and_finite(overrides in overrides()) {
        let outcome = run(scenario(&overrides), 1);
        assert_balanced(&outcome);
        assert_finite(&outcome);
        let again = run(scenario(&overrides), 3);
        prop_assert_eq!(&again.digest, &outcome.digest);
        prop_assert_eq!(again.rounds, outcome.rounds);
        prop_assert_eq!(again.table, outcome.table);
    }
}
