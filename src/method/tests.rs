//! What the methods that draw a start have in common.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::dataset::load;
use crate::scenario::{DatasetSpec, GeneratorSpec, NegativesSpec, SourceSpec};

const DIMENSION: usize = 256;

fn problem() -> Problem {
    let streams = Streams::new(4);
    let population = GeneratorSpec { users: 5, items: 100, ratings_per_user: 10.0, ..GeneratorSpec::default() };
    let spec = DatasetSpec {
        source: SourceSpec::Generated(population),
        path: None,
        minimum_interactions: 0,
        validation_item: false,
        negatives: NegativesSpec::default(),
    };
    Problem { dataset: Arc::new(load(&spec, &[], streams).unwrap()), streams }
}

/// The methods with a private score function, and what stands behind it in [`Client::visit_private`], in bytes.
fn methods() -> [(&'static str, Box<dyn Method>, usize); 3] {
    let build = |name: &str| {
        let entry = registry::METHODS.iter().find(|entry| entry.name == name).unwrap();
        (entry.build)(&serde_json::json!({ "latent_dimension": DIMENSION }), &problem()).unwrap()
    };
    // The bias of FedRAP and PFedRec, and the scale of the rows that they have not touched.
    [("fedmf", build("fedmf"), 0), ("pfedrec", build("pfedrec"), 8), ("fedrap", build("fedrap"), 8)]
}

fn private_bytes(client: &dyn Client) -> Vec<u8> {
    let mut bytes = Vec::new();
    client.visit_private(&mut |part| bytes.extend_from_slice(part));
    bytes
}

#[test]
fn score_functions_start_uniformly_within_one_over_the_root_of_k() {
    // The authors' `nn.Linear`. A start that is too small or lopsided trains as well, but to other figures.
    let reach = 1.0 / (DIMENSION as f32).sqrt();
    for (name, method, further) in methods() {
        let bytes = private_bytes(&*method.client(UserId(1)));
        assert_eq!(bytes.len(), 4 * DIMENSION + further, "{name} hides a private parameter from the digest");
        let w: Vec<f32> = crate::model::table::floats(&bytes[..4 * DIMENSION]).collect();
        let (least, most) = (w.iter().copied().fold(0.0, f32::min), w.iter().copied().fold(0.0, f32::max));
        assert!(least >= -reach && most <= reach, "{name}: from {least} to {most}");
        assert!(least < -0.95 * reach && most > 0.95 * reach, "{name}: from {least} to {most}");
        let mean = w.iter().sum::<f32>() / DIMENSION as f32;
        assert!(mean.abs() < 0.1 * reach, "{name}: mean {mean}");
    }
}

#[test]
fn a_client_scores_what_it_is_asked_for_and_a_snapshot_scores_the_same() {
    let items = [0, 1, 50, 99];
    for (name, method, _) in methods() {
        let (client, table) = (method.client(UserId(1)), method.initial_table());
        let (mut scores, mut copied) = ([f32::NAN; 4], [f32::NAN; 4]);
        client.score(&table, &items, &mut scores);
        client.snapshot().score(&table, &items, &mut copied);
        assert!(scores.iter().all(|score| score.is_finite()), "{name}: {scores:?}");
        assert!(scores[0] != scores[1] && scores[2] != scores[3], "{name} does not tell items apart: {scores:?}");
        assert_eq!(scores, copied, "{name}");
    }
}

/// FedRAP's client after one participation with 11 distinct items out of 17 samples.
fn fedrap_update(parameters: &serde_json::Value) -> LocalUpdate {
    fedrap_update_in(&mut Scratch::default(), parameters)
}

fn fedrap_update_in(scratch: &mut Scratch, parameters: &serde_json::Value) -> LocalUpdate {
    let problem = problem();
    let method = (fedrap::ENTRY.build)(parameters, &problem).unwrap();
    let global = Arc::new(method.initial_table());
    let items: Vec<u32> = (0..17).map(|sample| 3 * (sample % 11)).collect();
    let labels = (0..17).map(|sample| if sample % 4 == 0 { 1.0 } else { 0.0 }).collect();
    let task = LocalTask {
        user: UserId(1),
        round: Round(0),
        global: &global,
        samples: &Samples { items, labels },
        streams: problem.streams,
        divergence_limit: 1e6,
    };
    method.client(UserId(1)).train(&task, scratch).unwrap()
}

/// If this fails, virtual time charges for work that is not done, or not for all of it.
#[test]
fn fedrap_visits_each_row_of_a_batch_once_an_epoch() {
    let mut parameters = serde_json::json!({
        "latent_dimension": 8, "local_epochs": 3, "early_stop_tolerance": 0, "learning_rate_tables": 1,
    });
    assert_eq!(fedrap_update(&parameters).row_visits, 3 * 11);
    parameters["objective"] = "paper".into();
    assert_eq!(fedrap_update(&parameters).row_visits, 3 * 100, "the regularisers run over the whole catalogue");
}

#[test]
fn fedrap_stops_when_the_running_mean_of_the_loss_changes_by_less_than_the_tolerance() {
    let epochs = |tolerance: f64, local_epochs: u32| {
        let parameters = serde_json::json!({
            "latent_dimension": 8, "local_epochs": local_epochs, "early_stop_tolerance": tolerance,
            "learning_rate_tables": 1,
        });
        let update = fedrap_update(&parameters);
        (update.row_visits / 11, update.loss)
    };
    // The reported loss after n epochs is the running mean, so the changes are those of the shorter runs.
    let losses: Vec<f64> = (1..=12).map(|local_epochs| epochs(0.0, local_epochs).1).collect();
    let changes: Vec<f64> = losses.windows(2).map(|pair| (pair[1] - pair[0]).abs() / pair[0].abs()).collect();
    for stop in [0, 4] {
        // Between two changes: the first below the tolerance ends the training, after its own epoch.
        assert!(changes.windows(2).all(|pair| pair[1] < pair[0]), "{changes:?}");
        let tolerance = if stop == 0 { 2.0 * changes[0] } else { (changes[stop - 1] * changes[stop]).sqrt() };
        assert_eq!(epochs(tolerance, 12).0, stop as u64 + 2, "{changes:?}");
    }
    assert_eq!(epochs(1e9, 12).0, 2, "the first epoch has nothing to compare with");
}

#[test]
fn a_tolerance_of_zero_never_stops_not_even_where_nothing_moves() {
    let still = serde_json::json!({
        "latent_dimension": 8, "local_epochs": 5, "early_stop_tolerance": 0, "learning_rate_tables": 0,
        "learning_rate_network": 0,
    });
    assert_eq!(fedrap_update(&still).row_visits, 5 * 11);
}

#[test]
fn fedrap_steps_once_a_batch() {
    let update = |batch_size: u32| {
        fedrap_update(&serde_json::json!({
            "latent_dimension": 8, "local_epochs": 2, "early_stop_tolerance": 0, "learning_rate_tables": 1,
            "batch_size": batch_size,
        }))
    };
    // Every sample is a row visit of its own in a batch of one; a batch of all samples is one of more than all.
    assert_eq!(update(1).row_visits, 2 * 17);
    assert_eq!(update(17).row_visits, 2 * 11);
    assert_eq!(update(17).table, update(1000).table);
    assert_ne!(update(16).table, update(17).table);
}

/// If this fails, numbers of one client get into the parameters of the next one on the same thread.
#[test]
fn fedrap_owes_nothing_to_whoever_used_its_buffers_before() {
    let variants = [
        serde_json::json!({ "tables": "both" }),
        serde_json::json!({ "tables": "c-only" }),
        serde_json::json!({ "tables": "d-only" }),
        serde_json::json!({ "tables": "d-only", "aggregate_d": true }),
        serde_json::json!({ "objective": "paper" }),
    ];
    let mut scratch = Scratch::default();
    for variant in variants {
        // One lane vector wide, where rows are overwritten without being cleared first.
        let mut parameters = serde_json::json!({ "latent_dimension": 16, "learning_rate_tables": 1 });
        parameters.as_object_mut().unwrap().extend(variant.as_object().unwrap().clone());
        fedrap_update_in(&mut scratch, &serde_json::json!({ "latent_dimension": 16, "learning_rate_tables": 1 }));
        let (reused, fresh) = (fedrap_update_in(&mut scratch, &parameters), fedrap_update(&parameters));
        assert_eq!(reused.table, fresh.table, "{variant}");
        assert_eq!(reused.loss.to_bits(), fresh.loss.to_bits(), "{variant}");
    }
}
