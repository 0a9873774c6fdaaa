#![allow(clippy::unwrap_used)]
use super::*;
use crate::tests::{AtWork, dataset, problem_of, sent};
use fedrecsim_core::math::gradient::gradient_check;
use fedrecsim_core::{Error, Streams};
use fedrecsim_scenario::NegativesSpec;

const USERS: usize = 4;
const ITEMS: usize = 6;
const NODES: usize = USERS + ITEMS;
const K: usize = 3;
const LAMBDA: f64 = 0.25;

fn ratings() -> Vec<UserRatings> {
    // Nobody has rated item 5.
    sent(&[&[0, 1], &[1, 2, 4], &[3], &[0, 3]])
}

fn at_work(layers: u32) -> AtWork<LightGcn> {
    let method = LightGcn {
        latent_dimension: K as u32,
        layers,
        learning_rate: 0.01,
        regularization: LAMBDA,
        ..LightGcn::default()
    };
    let mut one = AtWork::new(method, problem_of(USERS, ITEMS));
    let mut stream = one.problem.streams.stream(Purpose::GlobalInit, 1, 0);
    let draw = |_| stream.standard_normal() as f32;
    let values: Vec<f32> = (0..NODES * K).map(draw).collect();
    network::set(&mut one.model, 0, &values.repeat(2));
    one.memory = one.method.memory(&one.model);
    one
}

fn batch() -> Vec<Triple> {
    let triple = |(user, positive, negative)| Triple {
        user,
        positive,
        negative,
    };
    [(0, 1, 5), (1, 4, 0), (0, 0, 3), (2, 3, 5), (0, 1, 2)]
        .map(triple)
        .into()
}

/// Returns the vectors of all nodes by dense products with the normalised adjacency matrix.
fn vectors(embeddings: &[f64], layers: u32) -> Vec<f64> {
    let ratings = ratings();
    let mut adjacency = [[0.0; NODES]; NODES];
    for (user, item) in ratings
        .iter()
        .flat_map(|sent| sent.items.iter().map(move |item| (sent.user, item)))
    {
        let (user, item) = (user.index(), USERS + *item as usize);
        (adjacency[user][item], adjacency[item][user]) = (1.0, 1.0);
    }
    let degree = |node: usize| adjacency[node].iter().sum::<f64>();
    let weight = |a: usize, b: usize| match adjacency[a][b] {
        0.0 => 0.0,
        edge => edge / (degree(a) * degree(b)).sqrt(),
    };
    let (mut layer, mut sums) = (embeddings.to_vec(), embeddings.to_vec());
    for _ in 0..layers {
        let value = |place: usize| {
            (0..NODES)
                .map(|node| weight(place / K, node) * layer[node * K + place % K])
                .sum()
        };
        layer = (0..NODES * K).map(value).collect();
        sums.iter_mut()
            .zip(&layer)
            .for_each(|(sum, value)| *sum += value);
    }
    sums.iter().map(|sum| sum / f64::from(layers + 1)).collect()
}

/// Returns the loss of the batch by its definition, with or without the regulariser.
fn mean_loss(embeddings: &[f64], layers: u32, lambda: f64) -> f64 {
    let vectors = vectors(embeddings, layers);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let losses = batch().into_iter().map(
        |Triple {
             user,
             positive,
             negative,
         }| {
            let rows = [
                user as usize,
                USERS + positive as usize,
                USERS + negative as usize,
            ];
            let rows = rows.map(|row| row * K..(row + 1) * K);
            let [u, i, j] = rows.clone().map(|row| &vectors[row]);
            let squares: f64 = rows
                .into_iter()
                .map(|row| dot(&embeddings[row.clone()], &embeddings[row]))
                .sum();
            libm::log1p(libm::exp(dot(u, j) - dot(u, i))) + lambda / 2.0 * squares
        },
    );
    losses.sum::<f64>() / batch().len() as f64
}

/// If this fails, embeddings do not follow the gradient of the stated loss through all layers of
/// the graph.
#[test]
fn the_gradient_agrees_with_central_differences() {
    for layers in [0, 1, 3] {
        let mut one = at_work(layers);
        let start: Vec<f64> = one
            .memory
            .values
            .iter()
            .map(|value| f64::from(*value))
            .collect();
        let graph = one.method.edges(&ratings(), &one.problem).unwrap();
        let mut buffers = Buffers::default();
        // The second step would show something that is left of the first. The rate of zero keeps
        // the embeddings.
        for _ in 0..2 {
            let adam = AdamSettings::with_rate(0.0);
            let loss = one.method.step(
                (&mut one.memory, &mut buffers),
                USERS,
                &graph,
                &batch(),
                &adam,
            );
            assert!(
                (loss / 5.0 - mean_loss(&start, layers, 0.0)).abs() < 1e-6,
                "{layers} layers"
            );
            let gradient: Vec<f64> = one
                .memory
                .gradient
                .iter()
                .map(|value| f64::from(*value))
                .collect();
            gradient_check(2e-4, &start, &gradient, |at| mean_loss(at, layers, LAMBDA))
                .unwrap_or_else(|wrong| panic!("{layers} layers: {wrong}"));
        }
    }
}

/// If this fails, the exported vectors are not those of the embeddings beside them, passes do not
/// learn, or do not begin with a model that is set.
#[test]
fn passes_lower_the_loss_and_leave_the_vectors_of_their_embeddings() {
    let mut one = at_work(3);
    one.method.regularization = 0.0;
    one.problem = one.problem.with_negatives(&NegativesSpec {
        per_positive: 2,
        ..NegativesSpec::default()
    });
    let mut pass = |number: u32| one.pass(&ratings(), number);
    let first = pass(0);
    let last = (1..400).map(&mut pass).last().unwrap();
    assert!(
        last.loss.unwrap() < 0.3 * first.loss.unwrap(),
        "{:?} to {:?}",
        first.loss,
        last.loss
    );
    // Eight positives with two negatives each make one batch, and eight ratings are sixteen edges.
    assert_eq!(
        (first.row_visits, first.multiply_adds),
        (3 * 16, 3 * (3 * 16 * K as u64))
    );
    let embeddings: Vec<f64> = one
        .memory
        .values
        .iter()
        .map(|value| f64::from(*value))
        .collect();
    let exported = network::parameters(&one.model, 0);
    let expected = vectors(&embeddings, 3).into_iter().chain(embeddings);
    assert!(
        exported
            .iter()
            .zip(expected)
            .all(|(found, expected)| (f64::from(*found) - expected).abs() < 1e-4)
    );
    let mut other = at_work(3);
    other.problem = one.problem.clone();
    other.method.regularization = 0.0;
    other.model = one.model.clone();
    other.pass(&ratings(), 400);
    one.memory = one.method.memory(&one.model);
    one.pass(&ratings(), 400);
    assert_eq!(other.model, one.model);
}

/// If this fails, the bits of a model depend on how many threads have made it.
#[test]
fn threads_change_no_bit_of_a_propagation() {
    let edges: Vec<(u32, u32)> = (0..3000)
        .map(|number| (number % 300, number * 7 % 410))
        .collect();
    let graph = Graph::new([300, 410], &edges).unwrap();
    let embeddings: Vec<f32> = (0..710 * 17u32)
        .map(|place| (place * 7919 % 1000) as f32 * 0.001 - 0.5)
        .collect();
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        let mut mean = Vec::new();
        pool.install(|| {
            graph.mean_of_layers(&embeddings, (17, 3), &mut Layers::default(), &mut mean)
        });
        mean
    };
    let alone = on(1);
    assert!((2..5).all(|threads| on(threads) == alone));
}

/// If this fails, a server without ratings goes on with embeddings that nothing connects.
#[test]
fn a_graph_without_edges_is_refused() {
    let one = at_work(3);
    let refused = one
        .method
        .edges(&sent(&[&[], &[]]), &one.problem)
        .unwrap_err();
    assert!(
        matches!(&refused, Error::Dataset(message) if message.contains("has no edges")),
        "{refused}"
    );
}

/// If this fails, a run with a leak is one without it, or test items are trained on where they are
/// to be edges alone.
#[test]
fn test_items_are_edges_and_positives_where_the_parameters_say_so() {
    let dataset = dataset();
    let items: Vec<&[u32]> = (0..5)
        .map(|user| dataset.train_items(UserId(user)))
        .collect();
    let mut ratings = sent(&items);
    ratings.iter_mut().for_each(|sent| sent.items.dedup());
    let counts = |graph: Edges| {
        let method = LightGcn {
            latent_dimension: 1,
            graph,
            ..LightGcn::default()
        };
        let problem = Problem::new(&dataset, Streams::new(4), Placement::Central);
        let trained_on = method.trained_on(&ratings, &problem);
        let graph = method.edges(&trained_on, &problem).unwrap();
        let missing = trained_on
            .iter()
            .filter(|sent| !sent.items.contains(&dataset.test(sent.user).items[0]));
        assert!(
            trained_on
                .iter()
                .all(|sent| sent.items.is_sorted() && sent.items.len() == sent.ratings.len())
        );
        (graph.multiply_adds(1, 1), missing.count())
    };
    let [(edges, without), (with_leak, still_without), (all, none)] = [
        Edges::Train,
        Edges::TrainAndTest,
        Edges::TrainAndTestPositives,
    ]
    .map(counts);
    assert_eq!((without, still_without, none), (5, 5, 0));
    // Each edge is gone along in both directions.
    assert_eq!((with_leak - edges, all - edges), (10, 10));
}
