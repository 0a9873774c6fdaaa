//! Replays recordings of the authors' PyTorch code. With the same start, the same samples and the
//! same participants, every parameter of every round must agree within 1e-4 relative.
//!
//! The recordings are in `tests/fixtures/parity` (the README there explains the fields); further
//! ones are taken from the folder named by `FEDRECSIM_PARITY`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fedrecsim_core::metric::{Metric, MetricSums, Place, Places, ranks};
use fedrecsim_core::{InvitationId, Round, Streams, UserId};
use fedrecsim_data::dataset::OwnData;
use fedrecsim_data::dataset::negatives::Samples;
use fedrecsim_methods::declare::Declared;
use fedrecsim_methods::fedrap::{FedRap, FedRapParameters, Regularizer};
use fedrecsim_methods::pfedrec::PFedRec;
use fedrecsim_methods::{Client, LocalTask, Method, Problem, ScoringContext, Scratch};
use fedrecsim_model::aggregate::{Aggregate, Averaging, BlockContribution};
use fedrecsim_model::{Model, SharedTable, StateVisitor, Table, TableShape, TableUpdate};
use fedrecsim_scenario::sizes::ProblemSize;
use serde::Deserialize;
use serde_json::Value;

/// The relative tolerance that the project has set itself, and below an absolute one for values
/// that are nearly zero: 1e-6 is ten units in the last place of a parameter of size one.
const RELATIVE: f64 = 1e-4;
const ABSOLUTE: f64 = 1e-6;

#[derive(Deserialize)]
struct Recording {
    source: String,
    method: String,
    config: BTreeMap<String, Value>,
    initial: Initial,
    rounds: Vec<RecordedRound>,
    evaluation: Evaluation,
}

#[derive(Deserialize)]
struct Initial {
    private: BTreeMap<String, Vec<f32>>,
    #[serde(default)]
    item_commonality: Vec<f32>,
}

#[derive(Deserialize)]
struct RecordedRound {
    round: u32,
    participants: Vec<u32>,
    learning_rates: BTreeMap<String, f64>,
    samples: Vec<RecordedSamples>,
    local_loss: BTreeMap<String, f64>,
    server: Vec<f64>,
    sparsity_1e_4: Option<f64>,
    test: Accuracy,
    validation: Accuracy,
    clients: Option<BTreeMap<String, BTreeMap<String, Vec<f64>>>>,
}

#[derive(Deserialize)]
struct RecordedSamples {
    items: Vec<u32>,
    labels: Vec<f32>,
}

#[derive(Deserialize)]
struct Accuracy {
    hr: f64,
    ndcg: f64,
}

#[derive(Deserialize)]
struct Evaluation {
    test_item: Vec<u32>,
    validation_item: Vec<u32>,
    test_negatives: Vec<Vec<u32>>,
    validation_negatives: Vec<Vec<u32>>,
}

impl Recording {
    fn number(&self, key: &str) -> f64 {
        self.config[key]
            .as_f64()
            .unwrap_or_else(|| panic!("config.{key} is no number"))
    }

    fn shape(&self) -> TableShape {
        TableShape {
            rows: self.number("num_items") as usize,
            dimension: self.number("latent_dim") as usize,
        }
    }

    fn method(&self) -> Box<dyn Method> {
        let table = |values: &Vec<f32>| Table::new(self.shape(), values.clone());
        let private = &self.initial.private;
        let (w, b) = (
            private["affine_output.weight"].clone(),
            private["affine_output.bias"][0],
        );
        let size = ProblemSize {
            users: 1,
            items: self.shape().rows,
        };
        let problem = Problem::of_size(size, Streams::new(0));
        let row = |values: Vec<f32>| {
            let (rows, dimension) = (1, values.len());
            Table::new(TableShape { rows, dimension }, values)
        };
        match self.method.as_str() {
            "fedrap" => {
                let regularizer = match self.config["regular"].as_str() {
                    Some("l1") => Regularizer::L1,
                    Some("l2") => Regularizer::L2,
                    Some("none") => Regularizer::None,
                    other => panic!("unknown regulariser {other:?}"),
                };
                let parameters = FedRapParameters {
                    latent_dimension: self.shape().dimension as u32,
                    local_epochs: self.number("local_epoch") as u32,
                    batch_size: Some(self.number("batch_size") as u32),
                    learning_rate_network: self.number("lr_network"),
                    learning_rate_tables: Some(self.number("lr_args")),
                    learning_rate_round_decay: Some(self.number("decay_rate")),
                    weight_decay: Some(self.number("l2_regularization")),
                    lambda: self.number("lambda"),
                    mu: self.number("mu"),
                    regularizer,
                    early_stop_tolerance: Some(self.number("tol")),
                    ..FedRapParameters::default()
                };
                let (d, c) = (
                    table(&private["item_personality.weight"]),
                    table(&self.initial.item_commonality),
                );
                let starts = [("D", d), ("C", c), ("w", row(w)), ("b", row(vec![b]))];
                Box::new(Declared::<FedRap>::starting_at(
                    parameters, &problem, &starts,
                ))
            }
            "pfedrec" => {
                let parameters = PFedRec {
                    latent_dimension: self.shape().dimension as u32,
                    local_epochs: self.number("local_epoch") as u32,
                    batch_size: self.number("batch_size") as u32,
                    learning_rate: self.number("lr"),
                    item_learning_rate_multiplier: self.number("lr_eta"),
                    weight_decay: self.number("l2_regularization"),
                    ..PFedRec::default()
                };
                let starts = [
                    ("E", table(&private["embedding_item.weight"])),
                    ("w", row(w)),
                    ("b", row(vec![b])),
                ];
                Box::new(Declared::<PFedRec>::starting_at(
                    parameters, &problem, &starts,
                ))
            }
            other => panic!("there is no replay for method {other}"),
        }
    }
}

fn assert_close(what: &str, values: impl IntoIterator<Item = f32>, expected: &[f64]) {
    let values: Vec<f32> = values.into_iter().collect();
    assert_eq!(values.len(), expected.len(), "{what}: number of values");
    for (at, (value, expected)) in values.iter().zip(expected).enumerate() {
        let error = (f64::from(*value) - expected).abs();
        assert!(
            error <= RELATIVE * expected.abs() + ABSOLUTE,
            "{what}[{at}] is {value} instead of {expected}"
        );
    }
}

/// Returns the mean accuracy of `held_out` among `negatives` over all users.
fn accuracy(
    clients: &[Box<dyn Client>],
    model: &Model,
    held_out: &[u32],
    negatives: &[Vec<u32>],
) -> (f64, f64) {
    let mut sums = MetricSums::new(&["hr@10", "ndcg@10"].map(|name| Metric::named(name).unwrap()));
    for (user, client) in clients.iter().enumerate() {
        let mut items: Vec<u32> = negatives[user]
            .iter()
            .chain([&held_out[user]])
            .copied()
            .collect();
        items.sort_unstable();
        items.dedup();
        let mut scratch = Scratch::default();
        let context = ScoringContext::new(
            UserId(user as u32),
            model,
            OwnData::new(&[]),
            Streams::new(0),
            &mut scratch,
        );
        let mut scores = vec![0.0; items.len()];
        let scorer = client.scorer(context).unwrap();
        scorer.score(&items, &mut scores).unwrap();
        let score = |item: &u32| scores[items.binary_search(item).unwrap()];
        let others: Vec<f32> = negatives[user].iter().map(score).collect();
        let ranks = ranks(&[score(&held_out[user])], &others).unwrap();
        sums.add_places(&Places::only(Place::among_candidates(ranks[0])));
    }
    (sums.means()["hr@10"], sums.means()["ndcg@10"])
}

/// Returns the private parameters of a client under the recording's names.
fn private_parameters(
    recording: &Recording,
    client: &mut dyn Client,
    last_download: &Table,
) -> BTreeMap<&'static str, Vec<f32>> {
    let shape = recording.shape();
    let k = shape.dimension;
    let mut words = Vec::new();
    let mut collect = |bytes: &[u8]| words.extend(bytes.as_chunks::<4>().0.iter().copied());
    client
        .visit_state(&mut StateVisitor::Digest(&mut collect))
        .unwrap();
    let floats = |words: &[[u8; 4]]| {
        words
            .iter()
            .map(|word| f32::from_le_bytes(*word))
            .collect::<Vec<f32>>()
    };
    let items = |words: &[[u8; 4]]| {
        words
            .iter()
            .map(|word| u32::from_le_bytes(*word))
            .collect::<Vec<u32>>()
    };
    // The state is w, b, (item, row) for every row of its own, and the factor of all others, which
    // are rows of the first D or of the last download.
    let (name, others) = match recording.method.as_str() {
        "fedrap" => (
            "item_personality.weight",
            &recording.initial.private["item_personality.weight"][..],
        ),
        _ => ("embedding_item.weight", last_download.as_slice()),
    };
    let scale = floats(&words[words.len() - 1..])[0];
    let mut table: Vec<f32> = others.iter().map(|value| value * scale).collect();
    for entry in words[k + 1..words.len() - 1].chunks_exact(k + 1) {
        let item = items(&entry[..1])[0] as usize;
        table[item * k..(item + 1) * k].copy_from_slice(&floats(&entry[1..]));
    }
    BTreeMap::from([
        ("affine_output.weight", floats(&words[..k])),
        ("affine_output.bias", floats(&words[k..=k])),
        (name, table),
    ])
}

/// Returns the plain mean of `updates`, all based on `base`.
fn mean(base: &SharedTable, updates: &[TableUpdate]) -> Aggregate {
    let mut averaging = Averaging::new(base.shape());
    let plain = |update| BlockContribution {
        update,
        base: Some(base),
        intended: None,
        base_number: 0,
        weight: 1.0,
        base_weight: 0.0,
    };
    averaging.add(&updates.iter().map(plain).collect::<Vec<_>>());
    averaging.finish(base, 0.0, updates.len() as f64)
}

fn replay(path: &Path) {
    let recording: Recording = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let name = path.file_stem().unwrap().to_string_lossy();
    println!(
        "{name}: {} rounds of {}",
        recording.rounds.len(),
        recording.source
    );
    let method = recording.method();
    let users = recording.number("num_users") as u32;
    let mut clients: Vec<Box<dyn Client>> =
        (0..users).map(|user| method.client(UserId(user))).collect();
    let mut model = method.initial();
    let mut global = Arc::clone(model.table(0));
    let mut downloads = vec![Arc::clone(&global); clients.len()];
    let mut scratch = Scratch::default();
    for recorded in &recording.rounds {
        let what = format!("{name}, round {}", recorded.round);
        let mut updates = Vec::new();
        for &user in &recorded.participants {
            let recorded_samples = &recorded.samples[user as usize];
            let samples = Samples {
                items: recorded_samples.items.clone(),
                labels: recorded_samples.labels.clone(),
            };
            let names = (
                UserId(user),
                Round(recorded.round),
                InvitationId(recorded.round),
            );
            scratch.samples.samples = samples;
            let task = LocalTask::new(names, &model, OwnData::new(&[]), Streams::new(0), 1e6);
            let update = clients[user as usize].train(&task, &mut scratch).unwrap();
            let loss = recorded.local_loss[&user.to_string()];
            assert!(
                (update.loss - loss).abs() <= RELATIVE * loss.abs(),
                "{what}, user {user}: loss {}",
                update.loss
            );
            downloads[user as usize] = Arc::clone(&global);
            updates.extend(update.update.blocks);
        }
        let aggregate = mean(&global, &updates);
        global = Arc::new(aggregate.table);
        model.set_table(0, Arc::clone(&global)).unwrap();
        assert_close(
            &format!("{what}: server"),
            global.as_slice().iter().copied(),
            &recorded.server,
        );
        if let Some(expected) = recorded.sparsity_1e_4 {
            let small = global
                .as_slice()
                .iter()
                .filter(|value| value.abs() <= 1e-4)
                .count();
            let share = small as f64 / global.as_slice().len() as f64;
            assert!(
                (share - expected).abs() < 1.5 / global.as_slice().len() as f64,
                "{what}: sparsity {share}"
            );
        }
        let evaluation = &recording.evaluation;
        for (split, expected, items, negatives) in [
            (
                "test",
                &recorded.test,
                &evaluation.test_item,
                &evaluation.test_negatives,
            ),
            (
                "validation",
                &recorded.validation,
                &evaluation.validation_item,
                &evaluation.validation_negatives,
            ),
        ] {
            let (hr, ndcg) = accuracy(&clients, &model, items, negatives);
            assert!(
                (hr - expected.hr).abs() < 1e-9,
                "{what}: {split} HR {hr} instead of {}",
                expected.hr
            );
            assert!(
                (ndcg - expected.ndcg).abs() < 1e-9,
                "{what}: {split} NDCG {ndcg} instead of {}",
                expected.ndcg
            );
        }
        for (user, expected) in recorded.clients.iter().flatten() {
            let user: usize = user.parse().unwrap();
            let parameters =
                private_parameters(&recording, clients[user].as_mut(), &downloads[user]);
            for (parameter, expected) in expected {
                let values = parameters[parameter.as_str()].iter().copied();
                assert_close(
                    &format!("{what}, user {user}: {parameter}"),
                    values,
                    expected,
                );
            }
        }
        if recording.method == "fedrap" {
            let decay = f64::from(recorded.round as i32);
            let expected = recording.number("lr_args") * recording.number("decay_rate").powf(decay);
            assert!(
                (recorded.learning_rates["lr_args"] - expected).abs() < 1e-9 * expected,
                "{what}: rates"
            );
        }
    }
}

fn recordings_in(folder: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    files.sort();
    files
}

/// If this fails, a method no longer computes what its authors' code computes.
#[test]
fn every_recording_is_reproduced() {
    let fixtures =
        recordings_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/parity"));
    assert_eq!(
        fixtures.len(),
        6,
        "the six recordings that belong to the project"
    );
    let further = std::env::var_os("FEDRECSIM_PARITY").map(PathBuf::from);
    let further = further.iter().flat_map(|folder| recordings_in(folder));
    for path in fixtures.into_iter().chain(further) {
        replay(&path);
    }
}
