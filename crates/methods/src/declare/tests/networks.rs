//! Networks and their rates.

use super::*;

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
