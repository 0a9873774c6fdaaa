//! Tests how FedRAP's epochs run, and what they leave behind.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::tests::problem;
use fedrecsim_core::{InvitationId, Round};
use fedrecsim_data::dataset::OwnData;
use fedrecsim_data::dataset::negatives::Samples;
use fedrecsim_model::table::floats;

/// Returns the update of FedRAP's client in one participation with 11 distinct items in 17 samples.
fn update(parameters: &serde_json::Value) -> Trained {
    update_in(&mut Scratch::default(), parameters)
}

fn update_in(scratch: &mut Scratch, parameters: &serde_json::Value) -> Trained {
    let problem = problem();
    let method = (ENTRY.build)(parameters, &problem).unwrap();
    let model = method.initial();
    let items: Vec<u32> = (0..17).map(|sample| 3 * (sample % 11)).collect();
    let labels = (0..17)
        .map(|sample| if sample % 4 == 0 { 1.0 } else { 0.0 })
        .collect();
    let (samples, names) = (
        Samples { items, labels },
        (UserId(1), Round(0), InvitationId(0)),
    );
    let task = LocalTask::new(names, &model, OwnData::new(&[]), problem.streams, 1e6);
    scratch.samples.samples = samples;
    method.client(UserId(1)).train(&task, scratch).unwrap()
}

/// If this fails, virtual time is not charged for the work that is done.
#[test]
fn fedrap_visits_each_row_of_a_batch_once_an_epoch() {
    let mut parameters = serde_json::json!({
        "latent_dimension": 8, "local_epochs": 3, "early_stop_tolerance": 0, "learning_rate_tables": 1,
    });
    assert_eq!(update(&parameters).work.row_visits, 3 * 11);
    parameters["objective"] = "paper".into();
    assert_eq!(
        update(&parameters).work.row_visits,
        3 * 100,
        "the regularisers run over the whole catalogue"
    );
}

#[test]
fn fedrap_stops_when_the_running_mean_of_the_loss_changes_by_less_than_the_tolerance() {
    let epochs = |tolerance: f64, local_epochs: u32| {
        let parameters = serde_json::json!({
            "latent_dimension": 8, "local_epochs": local_epochs, "early_stop_tolerance": tolerance,
            "learning_rate_tables": 1,
        });
        let update = update(&parameters);
        (update.work.row_visits / 11, update.loss)
    };
    // The reported loss after n epochs is the running mean, so the changes are those of the shorter
    // runs.
    let losses: Vec<f64> = (1..=12)
        .map(|local_epochs| epochs(0.0, local_epochs).1)
        .collect();
    let changes: Vec<f64> = losses
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).abs() / pair[0].abs())
        .collect();
    for stop in [0, 4] {
        // The tolerance is between two changes. The first change below it ends the training, after
        // its own epoch.
        assert!(
            changes.windows(2).all(|pair| pair[1] < pair[0]),
            "{changes:?}"
        );
        let tolerance = if stop == 0 {
            2.0 * changes[0]
        } else {
            (changes[stop - 1] * changes[stop]).sqrt()
        };
        assert_eq!(epochs(tolerance, 12).0, stop as u64 + 2, "{changes:?}");
    }
    assert_eq!(
        epochs(1e9, 12).0,
        2,
        "the first epoch has nothing to compare with"
    );
}

#[test]
fn a_tolerance_of_zero_never_stops_the_epochs_even_if_nothing_moves() {
    let still = serde_json::json!({
        "latent_dimension": 8, "local_epochs": 5, "early_stop_tolerance": 0, "learning_rate_tables": 0,
        "learning_rate_network": 0,
    });
    assert_eq!(update(&still).work.row_visits, 5 * 11);
}

#[test]
fn fedrap_steps_once_a_batch() {
    let update_of = |batch_size: u32| {
        update(&serde_json::json!({
            "latent_dimension": 8, "local_epochs": 2, "early_stop_tolerance": 0, "learning_rate_tables": 1,
            "batch_size": batch_size,
        }))
    };
    // In batches of one every sample is a row visit. A batch size of more than all samples is like
    // one of all samples.
    assert_eq!(update_of(1).work.row_visits, 2 * 17);
    assert_eq!(update_of(17).work.row_visits, 2 * 11);
    assert_eq!(update_of(17).update, update_of(1000).update);
    assert_ne!(update_of(16).update, update_of(17).update);
}

/// If this fails, values of one client reach the parameters of the next one on the same thread.
#[test]
fn fedrap_does_not_depend_on_who_used_its_buffers_before() {
    let variants = [
        serde_json::json!({ "tables": "both" }),
        serde_json::json!({ "tables": "c-only" }),
        serde_json::json!({ "tables": "d-only" }),
        serde_json::json!({ "tables": "d-only", "aggregate_d": true }),
        serde_json::json!({ "objective": "paper" }),
    ];
    let mut scratch = Scratch::default();
    for variant in variants {
        // With a width of one lane vector, rows are overwritten without being cleared first.
        let mut parameters =
            serde_json::json!({ "latent_dimension": 16, "learning_rate_tables": 1 });
        parameters
            .as_object_mut()
            .unwrap()
            .extend(variant.as_object().unwrap().clone());
        update_in(
            &mut scratch,
            &serde_json::json!({ "latent_dimension": 16, "learning_rate_tables": 1 }),
        );
        let (reused, fresh) = (update_in(&mut scratch, &parameters), update(&parameters));
        assert_eq!(reused.update, fresh.update, "{variant}");
        assert_eq!(reused.loss.to_bits(), fresh.loss.to_bits(), "{variant}");
    }
}

/// Returns how far every value of C has moved in one step with a learning rate of 2 and this noise.
fn moves_under(noise: serde_json::Value) -> Vec<f64> {
    let parameters = serde_json::json!({
        "latent_dimension": 8, "local_epochs": 1, "learning_rate_tables": 2, "weight_decay": 0, "noise": noise,
    });
    let start = (ENTRY.build)(&parameters, &problem()).unwrap().initial();
    let update = update(&parameters).update;
    let moved = update.blocks[0].apply(Some(start.table(0))).unwrap();
    let pairs = moved.as_slice().iter().zip(start.table(0).as_slice());
    pairs
        .map(|(after, before)| f64::from(*after) - f64::from(*before))
        .collect()
}

fn length(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// If this fails, one user can move C further than the noise is made for, or clipping turns the
/// direction of a step.
#[test]
fn a_gradient_longer_than_the_norm_is_shortened_to_it() {
    let free = moves_under(serde_json::Value::Null);
    let clipped = moves_under(serde_json::json!({ "multiplier": 0, "clip_norm": 0.01 }));
    assert!(length(&free) > 0.1, "{}", length(&free));
    assert!(
        (length(&clipped) - 2.0 * 0.01).abs() < 1e-5,
        "{}",
        length(&clipped)
    );
    let factor = 2.0 * 0.01 / length(&free);
    // Both are differences of single-precision values near 1.
    assert!(
        free.iter()
            .zip(&clipped)
            .all(|(free, clipped)| (factor * free - clipped).abs() < 1e-6)
    );
    let loose = moves_under(serde_json::json!({ "multiplier": 0, "clip_norm": 1e6 }));
    assert!(
        free.iter()
            .zip(&loose)
            .all(|(free, loose)| (free - loose).abs() < 1e-6),
        "a short gradient is changed"
    );
}

/// If this fails, rows that no sample touches are clipped otherwise than the others: where noise
/// enters the upload alone, one factor stands for them, while noise in gradients has steps go
/// through every row.
#[test]
fn rows_without_samples_decay_as_if_every_step_went_through_them() {
    let moved = |at: &str, clip_norm: f64| {
        let update = update(&serde_json::json!({
            "latent_dimension": 24, "local_epochs": 4, "early_stop_tolerance": 0, "learning_rate_tables": 2,
            "weight_decay": 0.01, "noise": { "multiplier": 0, "clip_norm": clip_norm, "at": at },
        }));
        update.update.blocks[0].clone()
    };
    let start = Table::zeros(TableShape {
        rows: 100,
        dimension: 24,
    });
    for clip_norm in [0.05, 1e6] {
        let [one, other] =
            ["gradient", "upload"].map(|at| moved(at, clip_norm).apply(Some(&start)).unwrap());
        let pairs = || one.as_slice().iter().zip(other.as_slice());
        assert!(
            pairs().all(|(one, other)| (one - other).abs() < 1e-5),
            "{clip_norm}"
        );
    }
    let [clipped, free] =
        [0.05, 1e6].map(|clip_norm| moved("upload", clip_norm).apply(Some(&start)).unwrap());
    // Item 99 is in no sample.
    let lengths = [&clipped, &free].map(|table| {
        length(
            &table
                .row(99)
                .iter()
                .copied()
                .map(f64::from)
                .collect::<Vec<_>>(),
        )
    });
    assert!(
        lengths[1] < 0.99 * lengths[0],
        "clipping does not reach these rows: {lengths:?}"
    );
}

/// If this fails, the noise is stronger or weaker than its multiplier says, enters elsewhere, or
/// spares the rows that the user has not rated and thereby shows which ones they are.
#[test]
fn noise_has_its_deviation_and_covers_every_row() {
    for (at, deviation) in [
        ("gradient", 2.0 * 3.0 * 2.0 * 2.0 * 0.1 / 4.0),
        ("upload", 3.0 * 2.0 * 2.0 * 0.1 / 4.0),
    ] {
        let noise = |multiplier: f64| {
            moves_under(
                serde_json::json!({ "multiplier": multiplier, "clip_norm": 0.1, "participants": 4, "at": at }),
            )
        };
        let added: Vec<f64> = noise(3.0)
            .iter()
            .zip(noise(0.0))
            .map(|(noisy, clipped)| noisy - clipped)
            .collect();
        assert_eq!(added.len(), 800);
        let found = length(&added) / 800f64.sqrt();
        assert!(
            (found / deviation - 1.0).abs() < 0.1,
            "{at}: {found} and not {deviation}"
        );
        assert!(
            added.iter().filter(|noise| noise.abs() > 1e-3).count() > 780,
            "{at}"
        );
    }
    let parameters =
        serde_json::json!({ "latent_dimension": 8, "learning_rate_tables": 1, "noise": {} });
    assert_eq!(
        update(&parameters).update.blocks[0].rows,
        fedrecsim_model::table::RowSet::All
    );
}

/// If this fails, more is claimed of the noise than there is, or something although it depends on
/// the data.
#[test]
fn noise_is_counted_where_the_data_do_not_decide_how_far_steps_lead() {
    let worth = |objective: &str, at: &str, more: serde_json::Value| {
        let mut parameters = serde_json::json!({
            "objective": objective, "noise": { "multiplier": 3, "clip_norm": 0.1, "participants": 4, "at": at },
        });
        parameters
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        (ENTRY.build)(&parameters, &problem()).unwrap().own_noise()
    };
    let nothing = || serde_json::json!({});
    // Rates fall by .95 in each step and add up to 20 times the first one, however many steps there
    // are. In the objective of the paper all ten epochs are one step each, with the same rate.
    let falling = serde_json::json!({ "learning_rate_batch_decay": 0.5, "local_epochs": 2 });
    for (objective, at, more, expected) in [
        ("published-code", "upload", nothing(), 0.75 / 20.0),
        ("paper", "upload", nothing(), 0.75 / 10.0),
        ("paper", "upload", falling.clone(), 0.75 / 1.5),
        ("paper", "gradient", nothing(), 0.75 * 0.5 / 10f64.sqrt()),
        (
            "paper",
            "gradient",
            falling,
            0.75 * 0.5 / (1.0 + 4f64).sqrt(),
        ),
    ] {
        let Some(OwnNoise::Gaussian(found)) = worth(objective, at, more.clone()) else {
            panic!("{objective}, {at}")
        };
        assert!(
            (found / expected - 1.0).abs() < 1e-5,
            "{objective}, {at}, {more}: {found} and not {expected}"
        );
    }
    for (objective, at, more, expected) in [
        (
            "published-code",
            "gradient",
            nothing(),
            Some(OwnNoise::StepsByData),
        ),
        (
            "paper",
            "gradient",
            serde_json::json!({ "early_stop_tolerance": 0.1 }),
            Some(OwnNoise::StepsByData),
        ),
        (
            "paper",
            "gradient",
            serde_json::json!({ "batch_size": 50 }),
            Some(OwnNoise::StepsByData),
        ),
        (
            "paper",
            "upload",
            serde_json::json!({ "batch_size": 50 }),
            Some(OwnNoise::StepsByData),
        ),
        (
            "paper",
            "gradient",
            serde_json::json!({ "learning_rate_round_decay": 0.9 }),
            Some(OwnNoise::FallsByRound),
        ),
        (
            "paper",
            "upload",
            serde_json::json!({ "noise": { "multiplier": 0 } }),
            Some(OwnNoise::Absent),
        ),
        (
            "paper",
            "upload",
            serde_json::json!({ "noise": null }),
            None,
        ),
        (
            "paper",
            "upload",
            serde_json::json!({ "tables": "d-only" }),
            None,
        ),
    ] {
        assert_eq!(
            worth(objective, at, more.clone()),
            expected,
            "{objective}, {at}, {more}"
        );
    }
}

/// If this fails, an upload leads further from the table that was downloaded than the claim counts
/// with. The values that leave are measured, the rows that only decay among them.
#[test]
fn clipped_steps_lead_no_further_than_their_rates_add_up_to() {
    let moved = |batch_size: u32, clip_norm: f64, at: &str| {
        let update = update(&serde_json::json!({
            "latent_dimension": 8, "local_epochs": 6, "early_stop_tolerance": 0, "learning_rate_tables": 2,
            "weight_decay": 0.01, "batch_size": batch_size,
            "noise": { "multiplier": 0, "clip_norm": clip_norm, "at": at },
        }));
        let start = (ENTRY.build)(&serde_json::json!({ "latent_dimension": 8 }), &problem())
            .unwrap()
            .initial();
        let end = update.update.blocks[0].apply(Some(start.table(0))).unwrap();
        let pairs = start.table(0).as_slice().iter().zip(end.as_slice());
        length(
            &pairs
                .map(|(start, end)| f64::from(*end) - f64::from(*start))
                .collect::<Vec<_>>(),
        )
    };
    // Six steps, and thirty of fewer samples each.
    for (batch_size, steps) in [(17, 6), (4, 30)] {
        let rates = 2.0 * (1.0 - 0.95f64.powi(steps)) / 0.05;
        assert!(rates < 2.0 * 20.0);
        for (at, clip) in [
            ("upload", 0.01),
            ("gradient", 0.01),
            ("upload", 2.2e-7),
            ("upload", 3e-9),
        ] {
            let moved = moved(batch_size, clip, at);
            // Rates are rounded to single precision after each step.
            let most = rates * clip * (1.0 + 1e-6);
            assert!(moved <= most, "{at}, {clip}: {moved} is above {most}");
            // A shorter step is lost beside the values of C.
            assert!(moved >= 2.0 * clip || clip < 1e-3, "{at}, {clip}: {moved}");
        }
    }
}

/// If this fails, a table whose learning rate is 0 diverges where it is clipped.
#[test]
fn nothing_that_stands_still_is_clipped() {
    for at in ["upload", "gradient"] {
        let update = update(&serde_json::json!({
            "latent_dimension": 8, "learning_rate_tables": 0, "noise": { "clip_norm": 0.01, "at": at },
        }));
        assert!(floats(&update.update.blocks[0].values).all(f32::is_finite));
    }
}
