//! Compares what follows from declarations with plain computations in double precision.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::own::Plan;
use super::*;
use crate::fcf::Fcf;
use crate::fedncf::FedNcf;
use crate::fedrecon::FedRecon;
use crate::registry::METHODS;
use crate::tests::{holding, problem_of};
use crate::{LocalTask, Method, choices, parameters, row_counts};
use fedrecsim_core::math::gradient::gradient_check;
use fedrecsim_core::{InvitationId, PortableDraws, Purpose, Round, Streams, UserId};
use fedrecsim_data::dataset::OwnData;
use fedrecsim_data::dataset::negatives::Samples;
use fedrecsim_model::neural::Perceptron;
use fedrecsim_model::{Table, TableShape};

/// Returns the model that blocks start with.
pub(crate) fn start_of(blocks: Vec<Block>, streams: Streams) -> Model {
    Plan::new(blocks, streams).1
}

const USER: UserId = UserId(6);
const ITEMS: usize = 40;
const K: u32 = 5;

/// A method whose blocks, rates and turns a test chooses.
#[derive(Clone, Debug)]
struct Chosen {
    score: Score,
    loss: Loss,
    training: Training,
    table_turn: u8,
    decay: f64,
    rates: [f64; 4],
}

parameters! {
    /// The parameters of a method that has none.
    struct Nothing {}
}

impl Declare for Chosen {
    type Parameters = Nothing;
    type Memory = ();

    const NAME: &str = "chosen";
    const SUMMARY: &str = "";
    const SOURCE: &str = "";

    fn new(_parameters: Nothing, _problem: &Problem) -> Self {
        unreachable!("tests make it")
    }

    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let [u, b, v, c] = self.rates;
        let blocks = vec![
            item_table("V", size.items, K).rate(v).turn(self.table_turn),
            item_table("c", size.items, 1).rate(c),
            vector("u", K).private().rate(u),
            vector("b", 1).private().rate(b),
        ];
        let decayed = blocks.into_iter().map(|block| {
            let block = block.decay(self.decay);
            block.start(uniform(1.0))
        });
        decayed.collect()
    }

    fn score(&self) -> Score {
        self.score.clone()
    }

    fn loss(&self) -> Loss {
        self.loss
    }

    fn training(&self) -> Training {
        self.training
    }
}

/// Holds the parameters of a plain implementation: u, b, V and c.
#[derive(Clone, Debug)]
struct Plain {
    u: Vec<f64>,
    b: f64,
    rows: Vec<Vec<f64>>,
    c: Vec<f64>,
    loss: f64,
}

impl Plain {
    fn score(&self, item: u32) -> f64 {
        let row = &self.rows[item as usize];
        self.b + self.c[item as usize] + self.u.iter().zip(row).map(|(u, v)| u * v).sum::<f64>()
    }

    /// Returns the loss of groups, each a positive and its negatives, and its number of terms.
    fn loss(&self, loss: Loss, groups: &[Vec<u32>]) -> (f64, usize) {
        let softplus = |x: f64| x.exp().ln_1p();
        let of_group = |group: &Vec<u32>| {
            let scores: Vec<f64> = group.iter().map(|item| self.score(*item)).collect();
            let negatives = &scores[1..];
            match loss {
                Loss::BinaryCrossEntropy => {
                    softplus(-scores[0]) + negatives.iter().map(|s| softplus(*s)).sum::<f64>()
                }
                Loss::Squared => {
                    let squares = negatives.iter().map(|s| s * s).sum::<f64>();
                    ((scores[0] - 1.0).powi(2) + squares) / 2.0
                }
                Loss::Pairwise => negatives.iter().map(|s| softplus(s - scores[0])).sum(),
                Loss::Softmax => scores
                    .iter()
                    .map(|s| (s - scores[0]).exp())
                    .sum::<f64>()
                    .ln(),
            }
        };
        let terms = groups.iter().map(|group| match loss {
            Loss::Pairwise => group.len() - 1,
            Loss::Softmax => 1,
            _ => group.len(),
        });
        (groups.iter().map(of_group).sum(), terms.sum())
    }

    /// Makes one step against the slopes by central differences of the mean loss.
    fn step(&mut self, method: &Chosen, groups: &[Vec<u32>], moves: [bool; 4]) {
        let before = self.clone();
        let mean = |at: &Self| {
            let (loss, terms) = at.loss(method.loss, groups);
            loss / terms as f64
        };
        let slope = |place: &dyn Fn(&mut Self) -> &mut f64| {
            let moved = |by: f64| {
                let mut other = before.clone();
                *place(&mut other) += by;
                mean(&other)
            };
            (moved(1e-5) - moved(-1e-5)) / 2e-5
        };
        let decayed =
            |rate: f64, value: f64, slope: f64| value - rate * (slope + method.decay * value);
        let rate = |block: usize| {
            if moves[block] {
                method.rates[block]
            } else {
                0.0
            }
        };
        for i in 0..K as usize {
            self.u[i] = decayed(rate(0), before.u[i], slope(&|at| &mut at.u[i]));
        }
        self.b = decayed(rate(1), before.b, slope(&|at| &mut at.b));
        for item in 0..ITEMS {
            for i in 0..K as usize {
                let slope = slope(&|at| &mut at.rows[item][i]);
                self.rows[item][i] = decayed(rate(2), before.rows[item][i], slope);
            }
            let slope = slope(&|at| &mut at.c[item]);
            self.c[item] = decayed(rate(3), before.c[item], slope);
        }
    }
}

/// Trains a user on five positives with three negatives each, and checks the result against plain
/// gradient descent.
fn check(mut method: Chosen) {
    let Score::Dot(Product {
        bias, item_bias, ..
    }) = method.score
    else {
        panic!("products are checked");
    };
    let uses = |name: Option<&'static str>| if name.is_some() { 1.0 } else { 0.0 };
    // What the score does not use does not move.
    method.rates[1] *= uses(bias);
    method.rates[3] *= uses(item_bias);
    let size = ProblemSize {
        users: 7,
        items: ITEMS,
    };
    let streams = Streams::new(3);
    let (plan, model) = Plan::new(method.blocks(size), streams);
    let plan = Arc::new(plan);
    let mut own: Own<()> = plan.own(USER, &model);
    let double = |values: &[f32]| {
        values
            .iter()
            .map(|value| f64::from(*value))
            .collect::<Vec<f64>>()
    };
    let mut plain = Plain {
        u: double(own.get("u")),
        b: uses(bias) * f64::from(own.get("b")[0]),
        rows: (0..ITEMS)
            .map(|row| double(model.table(0).row(row)))
            .collect(),
        c: double(model.table(1).as_slice())
            .iter()
            .map(|c| uses(item_bias) * c)
            .collect(),
        loss: 0.0,
    };
    // Item 7 is a negative of several positives, and a positive itself.
    let mut groups: Vec<Vec<u32>> = (0..5)
        .map(|n| vec![n * 7, n + 1, 7 + 5 * n, 39 - n])
        .collect();
    let items: Vec<u32> = groups.concat();
    let labels = (0..items.len())
        .map(|at| f32::from(u8::from(at % 4 == 0)))
        .collect();
    let samples = Samples { items, labels };
    let names = (USER, Round(2), InvitationId(5));
    let task = LocalTask::new(names, &model, OwnData::new(&[]), streams, 1e6);
    let trained = method
        .train(&mut own, &task, &mut holding(samples))
        .unwrap();
    let mut order = task.stream(Purpose::Shuffle);
    let batch = (method.training.batch_size / 4).max(1);
    let turns: &[[bool; 4]] = match method.table_turn {
        0 => &[[true; 4]],
        _ => &[[true, true, false, true], [false, false, true, false]],
    };
    for _ in 0..method.training.epochs {
        if groups.len() > batch {
            order.shuffle_portably(&mut groups);
        }
        for groups in groups.chunks(batch) {
            for moves in turns {
                let last = plain.loss(method.loss, groups).0;
                plain.step(&method, groups, *moves);
                if moves[2] {
                    plain.loss += last;
                }
            }
        }
    }
    let what = format!("{method:?}");
    let close = |found: &[f32], expected: &[f64]| {
        let pairs = found.iter().zip(expected);
        for (found, expected) in pairs {
            let off = (f64::from(*found) - expected).abs();
            assert!(off < 2e-4, "{found} instead of {expected}: {what}");
        }
    };
    close(own.get("u"), &plain.u);
    if bias.is_some() {
        close(own.get("b"), &[plain.b]);
    }
    let rows = trained.update.blocks[0]
        .apply(Some(model.table(0)))
        .unwrap();
    (0..ITEMS).for_each(|row| close(rows.row(row), &plain.rows[row]));
    if item_bias.is_some() {
        let biases = trained.update.blocks[1]
            .apply(Some(model.table(1)))
            .unwrap();
        close(biases.as_slice(), &plain.c);
    }
}

fn chosen(loss: Loss, score: Score) -> Chosen {
    Chosen {
        score,
        loss,
        training: Training::of(2, 1000),
        table_turn: 0,
        decay: 0.0,
        rates: [0.3, 0.2, 0.9, 0.4],
    }
}

/// If this fails, a device does not follow the gradient of the loss that its method declares.
#[test]
fn products_are_trained_by_gradient_descent() {
    let product = || Score::dot("u", "V");
    for loss in [
        Loss::BinaryCrossEntropy,
        Loss::Squared,
        Loss::Pairwise,
        Loss::Softmax,
    ] {
        for score in [product().biased(Some("b")), product().item_biased("c")] {
            let method = chosen(loss, score);
            check(Chosen {
                table_turn: 1,
                ..method.clone()
            });
            check(method);
        }
        let method = chosen(loss, product().biased(Some("b")).item_biased("c"));
        check(Chosen {
            training: Training::of(3, 8),
            ..method
        });
    }
}

/// If this fails, weight decay leaves out rows that the kernel does not pack, or decays others.
#[test]
fn weight_decay_shrinks_every_value_of_a_product() {
    for table_turn in [0, 1] {
        let method = chosen(
            Loss::BinaryCrossEntropy,
            Score::dot("u", "V").biased(Some("b")),
        );
        check(Chosen {
            decay: 0.01,
            table_turn,
            ..method
        });
    }
}

/// Returns the loss of `groups` under a network with these parameters, where the network, a user's
/// vector and the item rows stand one after the other.
fn loss_of_network(network: &Perceptron, values: &[f64], loss: Loss, groups: &[Vec<u32>]) -> f64 {
    let (weights, others) = values.split_at(network.parameters());
    let (user, rows) = others.split_at(4);
    let logit = |item: u32| {
        let row = &rows[4 * item as usize..][..4];
        let mut x = [user, row].concat();
        for (number, layer) in network.layers.iter().enumerate() {
            let of_output = weights[layer.weights.clone()].chunks_exact(layer.inputs);
            let biased = of_output.zip(&weights[layer.bias.clone()]);
            let z = biased.map(|(w, b)| b + w.iter().zip(&x).map(|(w, x)| w * x).sum::<f64>());
            let is_last = number + 1 == network.layers.len();
            x = z.map(|z| if is_last { z } else { z.max(0.0) }).collect();
        }
        x[0]
    };
    let plain = Plain {
        u: vec![0.0; 4],
        b: 0.0,
        rows: vec![vec![0.0; 4]; ITEMS],
        // A bias is all that there is of a score.
        c: (0..ITEMS as u32).map(logit).collect(),
        loss: 0.0,
    };
    let (sum, terms) = plain.loss(loss, groups);
    sum / terms as f64
}

/// If this fails, a device with a network does not follow the gradient of the loss that its method
/// declares.
#[test]
fn networks_are_trained_by_gradient_descent() {
    let rates = [0.3, 0.2, 0.1];
    for loss in [
        Loss::BinaryCrossEntropy,
        Loss::Squared,
        Loss::Pairwise,
        Loss::Softmax,
    ] {
        let method = FedNcf {
            loss,
            ..network(rates)
        };
        let (own, trained, model) = train_network(&method, 1);
        let (before, _) = Plan::new(
            method.blocks(ProblemSize { users: 1, items: 1 }),
            Streams::new(3),
        );
        let before: Own<()> = Arc::new(before).own(USER, &Model::none());
        let Score::Perceptron { network, .. } = method.score() else {
            panic!("FedNCF scores by a network");
        };
        let values = |user: &[f32], tables: &[&[f32]]| -> Vec<f64> {
            let (rows, weights) = tables.split_first().unwrap();
            let all = [&weights.concat(), user, rows].concat();
            all.iter().map(|value| f64::from(*value)).collect()
        };
        let blocks = 0..trained.update.blocks.len();
        let tables: Vec<_> = blocks
            .clone()
            .map(|at| model.table(at).as_slice())
            .collect();
        let at = values(before.get("u"), &tables);
        let whole = |at: usize| {
            trained.update.blocks[at]
                .apply(Some(model.table(at)))
                .unwrap()
        };
        let tables: Vec<_> = blocks.map(whole).collect();
        let tables: Vec<_> = tables.iter().map(|table| table.as_slice()).collect();
        let found = values(own.get("u"), &tables);
        let groups: Vec<Vec<u32>> = (0..14)
            .map(|n| (3 * n..(3 * n + 3).min(40)).collect())
            .chain([vec![0]])
            .collect();
        for place in 0..at.len() {
            let moved = |by: f64| {
                let mut other = at.clone();
                other[place] += by;
                loss_of_network(&network, &other, loss, &groups)
            };
            let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            let rate = match place.checked_sub(network.parameters()) {
                None => rates[2],
                Some(0..4) => rates[0],
                // The problem has one user.
                Some(_) => rates[1],
            };
            let off = found[place] - (at[place] - rate * slope);
            assert!(off.abs() < 1e-5, "{loss:?}: value {place} is off by {off}");
        }
    }
}

/// Trains FedNCF on forty items; every third is a positive and item 0 occurs twice.
fn train_network(method: &FedNcf, epochs: u32) -> (Own<()>, Trained, Model) {
    let size = ProblemSize {
        users: 1,
        items: ITEMS,
    };
    let streams = Streams::new(3);
    let (plan, model) = Plan::new(method.blocks(size), streams);
    let mut own: Own<()> = Arc::new(plan).own(USER, &model);
    let items: Vec<u32> = (0..40).chain([0]).collect();
    let labels = items
        .iter()
        .map(|item| f32::from(u8::from(item % 3 == 0)))
        .collect();
    let samples = Samples { items, labels };
    let names = (USER, Round(0), InvitationId(0));
    let task = LocalTask::new(names, &model, OwnData::new(&[]), streams, 1e6);
    let method = FedNcf {
        local_epochs: epochs,
        ..method.clone()
    };
    let trained = method
        .train(&mut own, &task, &mut holding(samples))
        .unwrap();
    (own, trained, model)
}

fn network(rates: [f64; 3]) -> FedNcf {
    let [
        learning_rate_user,
        learning_rate_items,
        learning_rate_network,
    ] = rates;
    FedNcf {
        latent_dimension: 4,
        learning_rate_user,
        learning_rate_items,
        learning_rate_network,
        ..FedNcf::default()
    }
}

/// If this fails, a client with a network does not learn from its own samples.
#[test]
fn training_a_network_lowers_the_loss_under_both_optimizers() {
    for (optimizer, rate) in [(Optimizer::Sgd, 0.5), (Optimizer::Adam, 0.01)] {
        let method = FedNcf {
            optimizer,
            ..network([rate; 3])
        };
        let (before, after) = (train_network(&method, 1).1, train_network(&method, 400).1);
        assert!(
            after.loss < 0.5 * before.loss,
            "{optimizer:?}: {before:?} to {after:?}"
        );
    }
}

/// If this fails, a learning rate is used for other parameters than its own, or work is counted
/// wrongly.
#[test]
fn each_rate_of_a_network_moves_its_own_block() {
    for moved in 0..3 {
        let rate = |group| if group == moved { 0.1 } else { 0.0 };
        let method = network([rate(0), rate(1), rate(2)]);
        let (own, trained, model) = train_network(&method, 1);
        let (before, _) = Plan::new(
            method.blocks(ProblemSize { users: 1, items: 1 }),
            Streams::new(3),
        );
        let before: Own<()> = Arc::new(before).own(USER, &Model::none());
        assert_eq!(own.get("u") != before.get("u"), moved == 0);
        let changes = |block: usize| {
            let whole = trained.update.blocks[block]
                .apply(Some(model.table(block)))
                .unwrap();
            whole != **model.table(block)
        };
        assert_eq!([changes(0), changes(1)], [moved == 1, moved == 2]);
        assert_eq!(
            trained.work.row_visits, 40,
            "item 0 is one row although it occurs twice"
        );
        let Score::Perceptron { network, .. } = method.score() else {
            panic!("FedNCF scores by a network");
        };
        assert_eq!(trained.work.multiply_adds, 3 * network.multiply_adds(40));
    }
}

/// If this fails, dual personalisation tunes the rows for a score function that is not the user's
/// any more, or shares the network.
#[test]
fn rows_that_come_last_are_stepped_from_the_new_score_function() {
    let dual = |rates| FedNcf {
        dual_personalization: true,
        ..network(rates)
    };
    let (together, of_both, _) = train_network(&dual([0.1; 3]), 1);
    let (function, ..) = train_network(&dual([0.1, 0.0, 0.1]), 1);
    assert_eq!(together.get("u"), function.get("u"));
    assert_eq!(together.get("W1"), function.get("W1"));
    let (_, at_once, _) = train_network(&network([0.1; 3]), 1);
    assert_eq!(of_both.update.blocks.len(), 1);
    assert_ne!(of_both.update.blocks[0], at_once.update.blocks[0]);
    assert_eq!(of_both.work.row_visits, 2 * at_once.work.row_visits);
}

/// If this fails, a scenario is checked by other blocks, or another use of them, than a run has.
#[test]
fn what_a_declaration_says_of_the_exchange_is_what_the_method_does() {
    let problem = problem_of(8, 64);
    let mut parameters = vec![serde_json::json!({})];
    for key in [
        "dual_personalization",
        "equal_weights",
        "sends_counts",
        "bias",
    ] {
        parameters.push(serde_json::json!({ key: true }));
    }
    let mut compared = 0;
    for entry in METHODS.iter().filter(|entry| entry.placement.trains()) {
        for parameters in &parameters {
            let (told, built) = (
                (entry.traffic)(parameters),
                (entry.build)(parameters, &problem),
            );
            let (Some(told), Ok(method)) = (told, built) else {
                continue;
            };
            let found = super::super::traffic::found_out(&*method);
            assert_eq!(
                format!("{told:?}"),
                format!("{found:?}"),
                "{} {parameters}",
                entry.name
            );
            compared += 1;
        }
    }
    assert!(compared >= 9, "{compared}");
}

/// If this fails, a user starts elsewhere than the method declares: with what another user has
/// drawn, or with the same as all where it draws its own.
#[test]
fn private_blocks_start_per_user_or_alike() {
    let problem = problem_of(3, 20);
    let vector_of = |method: &dyn Method, user: u32| {
        let mut bytes = Vec::new();
        let mut client = method.client(UserId(user));
        let mut sink = |part: &[u8]| bytes.extend_from_slice(part);
        client
            .visit_state(&mut StateVisitor::Digest(&mut sink))
            .unwrap();
        bytes[..4].to_vec()
    };
    let made = |name: &str| {
        let entry = METHODS.iter().find(|entry| entry.name == name).unwrap();
        (entry.build)(&serde_json::json!({}), &problem).unwrap()
    };
    let (own, alike) = (made("fedmf"), made("pfedrec"));
    assert_ne!(vector_of(&*own, 1), vector_of(&*own, 2));
    assert_eq!(vector_of(&*own, 1), vector_of(&*own, 1));
    assert_eq!(vector_of(&*alike, 1), vector_of(&*alike, 2));
}

/// If this fails, rows start with another length than the one that the scenario states.
#[test]
fn rows_start_with_the_stated_length() {
    let parameters = Fcf {
        initial_length: 0.3,
        latent_dimension: 4,
        ..Fcf::default()
    };
    let start = Declared::<Fcf>::new(parameters, &problem_of(3, 2000)).initial();
    let values = start.table(0).as_slice().iter();
    let squares: f64 = values.map(|value| f64::from(*value).powi(2)).sum();
    let length = (squares / 2000.0).sqrt();
    assert!((length / 0.3 - 1.0).abs() < 0.05, "{length}");
}

/// Trains FedRecon on thirty items; the first half are positives.
fn reconstruct(method: &FedRecon) -> (Trained, Model) {
    let size = ProblemSize {
        users: 1,
        items: 30,
    };
    let streams = Streams::new(4);
    let (plan, model) = Plan::new(method.blocks(size), streams);
    let mut own: Own<()> = Arc::new(plan).own(USER, &model);
    let items: Vec<u32> = (0..30).collect();
    let labels = items
        .iter()
        .map(|item| f32::from(u8::from(*item < 15)))
        .collect();
    let samples = Samples { items, labels };
    let names = (USER, Round(0), InvitationId(0));
    let task = LocalTask::new(names, &model, OwnData::new(&[]), streams, 1e6);
    (
        method
            .train(&mut own, &task, &mut holding(samples))
            .unwrap(),
        model,
    )
}

/// If this fails, FedRecon trains item rows on the half that reconstructs, weighs by other samples
/// than those of the query, or counts its work wrongly.
#[test]
fn reconstruction_splits_the_samples() {
    let method = FedRecon {
        latent_dimension: 5,
        reconstruction_epochs: 60,
        batch_size: 8,
        learning_rate_user: 0.5,
        learning_rate_items: 0.5,
        ..FedRecon::default()
    };
    let moved = |(trained, model): &(Trained, Model)| {
        let after = trained.update.blocks[0]
            .apply(Some(model.table(0)))
            .unwrap();
        (0..30)
            .filter(|row| after.row(*row) != model.table(0).row(*row))
            .count()
    };
    let weight = |(trained, _): &(Trained, Model)| trained.update.scalars.weight;
    let halves = reconstruct(&method);
    assert_eq!((weight(&halves), moved(&halves)), (Some(15.0), 15));
    assert_eq!(halves.0.work.row_visits, 60 * 15 + 15);
    let whole = reconstruct(&FedRecon {
        splits_samples: false,
        ..method
    });
    assert_eq!((weight(&whole), moved(&whole)), (Some(30.0), 30));
    assert_eq!(whole.0.work.row_visits, 60 * 30 + 30);
    assert!(
        whole.0.loss < 0.6,
        "the vector was made from the same samples: {}",
        whole.0.loss
    );
}

/// If this fails, FedRecon does not follow the gradient of its loss, tears a positive from its
/// negatives, or trains rows on the half that reconstructs.
#[test]
fn reconstruction_by_groups_follows_the_gradient() {
    let (rate_u, rate_v) = (0.5, 0.9);
    for (loss, splits_samples) in [Loss::Softmax, Loss::Pairwise, Loss::Squared]
        .into_iter()
        .flat_map(|loss| [(loss, true), (loss, false)])
    {
        let method = FedRecon {
            latent_dimension: K,
            reconstruction_epochs: 3,
            learning_rate_user: rate_u,
            learning_rate_items: rate_v,
            loss,
            splits_samples,
            ..FedRecon::default()
        };
        let size = ProblemSize {
            users: 1,
            items: ITEMS,
        };
        let streams = Streams::new(4);
        let (plan, model) = Plan::new(method.blocks(size), streams);
        let mut own: Own<()> = Arc::new(plan).own(USER, &model);
        let mut groups: Vec<Vec<u32>> = (0..5)
            .map(|n| vec![n * 7, n + 1, 7 + 5 * n, 39 - n])
            .collect();
        let items: Vec<u32> = groups.concat();
        let labels = (0..items.len()).map(|at| f32::from(u8::from(at % 4 == 0)));
        let labels = labels.collect();
        let names = (USER, Round(2), InvitationId(5));
        let task = LocalTask::new(names, &model, OwnData::new(&[]), streams, 1e6);
        let mut scratch = holding(Samples { items, labels });
        let trained = method.train(&mut own, &task, &mut scratch).unwrap();

        let mut order = task.named_stream("fedrecon/participation");
        order.shuffle_portably(&mut groups);
        let (support, query) = match splits_samples {
            true => groups.split_at(2),
            false => (&groups[..], &groups[..]),
        };
        let row = |row| {
            model
                .table(0)
                .row(row)
                .iter()
                .map(|value| f64::from(*value))
        };
        let mut plain = Plain {
            u: (0..K).map(|_| order.uniform_within(0.05)).collect(),
            b: 0.0,
            rows: (0..ITEMS).map(|at| row(at).collect()).collect(),
            c: vec![0.0; ITEMS],
            loss: 0.0,
        };
        let rates = Chosen {
            rates: [rate_u, 0.0, rate_v, 0.0],
            ..chosen(loss, Score::dot("u", "V"))
        };
        for _ in 0..3 {
            plain.step(&rates, support, [true, false, false, false]);
        }
        let expected = plain.loss(loss, query).0 / query.len() as f64;
        assert!((trained.loss - expected).abs() < 1e-5, "{loss:?}");
        plain.step(&rates, query, [false, false, true, false]);
        let after = trained.update.blocks[0].apply(Some(model.table(0)));
        let after = after.unwrap();
        for (at, expected) in plain.rows.iter().enumerate() {
            for (found, expected) in after.row(at).iter().zip(expected) {
                let off = f64::from(*found) - expected;
                assert!(off.abs() < 1e-5, "{loss:?}, item {at}: off by {off}");
            }
        }
        let weight = trained.update.scalars.weight;
        assert_eq!(weight, Some(4.0 * query.len() as f32));
        let visits = 3 * support.len() + query.len();
        assert_eq!(trained.work.row_visits, 4 * visits as u64);
    }
}

parameters! {
    /// Shows what the macro writes.
    struct Shown {
        /// A number.
        number: u32 = 3, >= 1, <= 9;
        /// A share.
        share: f64 = 0.5, > 0.0, < 1.0;
        /// A choice.
        kind: Kind = Kind::FirstKind;
        /// A number that may be left out.
        optional: Option<f64> = None, > 0.0;
    }
}

choices! {
    /// Kinds.
    enum Kind {
        /// The first.
        FirstKind,
        /// The second.
        SecondKind,
    }
}

/// If this fails, keys have other defaults, names or bounds than their declaration says.
#[test]
fn keys_are_declared_in_one_line() {
    let schema = schemars::schema_for!(Shown).to_value();
    let of = |key: &str, field: &str| schema["properties"][key][field].clone();
    assert_eq!(of("number", "minimum"), 1);
    assert_eq!(of("number", "maximum"), 9);
    assert_eq!(of("number", "default"), 3);
    assert_eq!(of("share", "exclusiveMinimum"), 0.0);
    assert_eq!(of("share", "exclusiveMaximum"), 1.0);
    assert_eq!(of("optional", "exclusiveMinimum"), 0.0);
    assert_eq!(of("number", "description"), "A number.");
    let read: Shown = serde_json::from_value(serde_json::json!({ "kind": "second-kind" })).unwrap();
    assert_eq!((read.kind, read.number), (Kind::SecondKind, 3));
    assert!(serde_json::from_value::<Shown>(serde_json::json!({ "other": 1 })).is_err());
}

/// If this fails, what uploads say of themselves has another shape than the server expects.
#[test]
fn uploads_say_what_the_method_declares() {
    let shape = TableShape::new(4, 1);
    for (counts, blocks) in [
        (Counts::Nothing, 0),
        (Counts::Rows, 1),
        (Counts::RowsAndSender, 2),
    ] {
        let layouts = row_counts::said_layouts(counts, 4);
        let said = row_counts::said_of(counts, 4, &[1, 3]).unwrap();
        assert_eq!((layouts.len(), said.len()), (blocks, blocks));
        if let [counts, ..] = &said[..] {
            let whole = counts.apply(Some(&Table::zeros(shape))).unwrap();
            assert_eq!(whole.as_slice(), [0.0, 1.0, 0.0, 1.0]);
        }
    }
}

/// If this fails, pairs are weighted by another slope than that of their loss, or a divergence
/// goes unnoticed.
#[test]
fn the_slope_is_that_of_the_loss() {
    for d in [-40.0, -3.0, -0.25, 0.0, 0.5, 2.0, 30.0f32] {
        let (loss, slope) = score::pairwise(d);
        let by_definition = |at: &[f64]| libm::log1p(libm::exp(-at[0]));
        assert!((loss - by_definition(&[f64::from(d)])).abs() < 1e-9, "{d}");
        gradient_check(1e-4, &[f64::from(d)], &[f64::from(slope)], by_definition)
            .unwrap_or_else(|wrong| panic!("{d}: {wrong}"));
    }
    let (loss, slope) = score::pairwise(f32::NAN);
    assert!(loss.is_nan() && slope.is_nan());
    assert_eq!(score::pairwise(f32::NEG_INFINITY), (f64::INFINITY, -1.0));
}
