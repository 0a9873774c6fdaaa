#![allow(clippy::unwrap_used)]
//! Compares mixtures with the specification's examples, and trainings with plain arithmetic.

use super::*;
use crate::declare::Declared;
use crate::mixtures::{composite, on_simplex};
use crate::tests::{holding, problem_of, score};
use fedrecsim_core::math::gradient::numeric_gradient;
use fedrecsim_core::{InvitationId, Round};
use fedrecsim_data::dataset::OwnData;
use fedrecsim_data::dataset::negatives::Samples;

const K: usize = 2;
const ITEMS: usize = 5;

fn assert_close(found: impl IntoIterator<Item = f64>, expected: &[f64]) {
    let found: Vec<f64> = found.into_iter().collect();
    let mut pairs = found.iter().zip(expected);
    let is_close = found.len() == expected.len() && pairs.all(|(a, b)| (a - b).abs() < 2e-4);
    assert!(is_close, "{found:?}, not {expected:?}");
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}

/// If this fails, a mixture's weights are not those of the specification's examples.
#[test]
fn weights_are_those_of_the_examples() {
    for (similarity, expected) in [
        (0.9, [0.71, 0.0, 0.29]),
        (0.8, [0.653_333, 0.033_333, 0.313_333]),
    ] {
        let mixing = Mixing {
            mixture: Mixture::PublishedCode,
            share: 0.1,
            similarity,
            alignment: 0.0,
        };
        let users = [(0.2, 1.0), (0.3, 0.1), (0.5, 0.2)];
        let of_user = |(share, likeness)| composite(&mixing, share, (likeness, 0.0));
        assert_close(on_simplex(&users.map(of_user)), &expected);
    }
    let of = |name: &str| {
        let mut parameters = FedEmParameters::default();
        let faults = match name {
            "fedem" => FedEm::<true>::resolve(&mut parameters),
            _ => FedEm::<false>::resolve(&mut parameters),
        };
        assert!(faults.is_empty());
        [
            parameters.learning_rate,
            parameters.learning_rate_adapter,
            parameters.similarity,
        ]
    };
    assert_eq!(of("fedem"), [Some(0.1), Some(0.1), Some(0.9)]);
    assert_eq!(of("fedea"), [Some(0.01), Some(0.01), Some(0.8)]);
}

/// A device in plain arithmetic: u, the rows of its table, and the weights of the adapter.
#[derive(Clone)]
struct Plain {
    values: Vec<f64>,
    widths: Vec<usize>,
}

impl Plain {
    const TABLE: usize = K + K * ITEMS;

    /// Returns row `item` after its move towards `received`.
    fn moved(&self, at: &[f64], received: &[f64], item: usize) -> [f64; K] {
        let own = &at[K + K * item..][..K];
        let way: Vec<f64> = own
            .iter()
            .zip(&received[K * item..])
            .map(|(a, b)| b - a)
            .collect();
        let (mut inputs, mut weights) = ([own, &way].concat(), &at[Self::TABLE..]);
        for (layer, pair) in self.widths.windows(2).enumerate() {
            let (of_layer, rest) = weights.split_at(pair[0] * pair[1]);
            let (bias, rest) = rest.split_at(pair[1]);
            let is_last = layer + 2 == self.widths.len();
            let unit = |(row, bias): (&[f64], &f64)| {
                let sum = row.iter().zip(&inputs).map(|(a, b)| a * b).sum::<f64>() + bias;
                if is_last { sum } else { sum.max(0.0) }
            };
            inputs = of_layer.chunks(pair[0]).zip(bias).map(unit).collect();
            weights = rest;
        }
        let share = 1.0 / (1.0 + math::exp(-inputs[0]));
        [own[0] + share * way[0], own[1] + share * way[1]]
    }

    fn score(&self, at: &[f64], received: Option<&[f64]>, item: usize) -> f64 {
        let row = match received {
            Some(received) => self.moved(at, received, item),
            None => [at[K + K * item], at[K + K * item + 1]],
        };
        at[0] * row[0] + at[1] * row[1]
    }

    /// Makes three steps of Adam at this rate: in each by the adapter from moved rows, and then by
    /// all else.
    fn train(&mut self, samples: &Samples, received: Option<&[f64]>, rate: f64, passes: bool) {
        if let Some(received) = received {
            let rows: Vec<_> = (0..ITEMS)
                .map(|j| self.moved(&self.values, received, j))
                .collect();
            self.values[K..Self::TABLE].copy_from_slice(rows.as_flattened());
        }
        let all = self.values.len();
        let [mut first, mut second] = [vec![0.0; all], vec![0.0; all]];
        let in_training = received.filter(|_| passes);
        for step in 1..=3 {
            for (part, moves) in [(Self::TABLE..all, received), (0..Self::TABLE, in_training)] {
                let loss = |at: &[f64]| {
                    let of = |(item, label): (&u32, &f32)| {
                        let sign = if *label > 0.5 { -1.0 } else { 1.0 };
                        let score = self.score(at, moves, *item as usize);
                        math::ln_1p(math::exp(sign * score))
                    };
                    let losses = samples.items.iter().zip(&samples.labels).map(of);
                    losses.sum::<f64>() / samples.items.len() as f64
                };
                let gradient = numeric_gradient(&self.values, loss);
                for at in part {
                    first[at] = 0.9 * first[at] + 0.1 * gradient[at];
                    second[at] = 0.999 * second[at] + 0.001 * gradient[at] * gradient[at];
                    let step = f64::from(step);
                    let m = first[at] / (1.0 - math::pow(0.9, step));
                    let v = second[at] / (1.0 - math::pow(0.999, step));
                    self.values[at] -= rate * m / (math::sqrt(v) + 1e-8);
                }
            }
        }
    }
}

/// Compares a device that receives nothing, a mixture and nothing again with plain arithmetic.
fn compare_with_plain<const PASSES: bool>(rate: f64) {
    let parameters = FedEmParameters {
        latent_dimension: K as u32,
        local_epochs: 3,
        early_stop_tolerance: 0.0,
        ..FedEmParameters::default()
    };
    let method: Declared<FedEm<PASSES>> = Declared::new(parameters, &problem_of(3, ITEMS));
    let network = method.declared().adapter().network;
    let (own, mut client) = (method.own(UserId(1)), method.client(UserId(1)));
    let start = method.initial();
    let weights = own.run("W1", network.parameters());
    let parts = [own.get("u"), start.table(0).as_slice(), weights];
    let mut widths: Vec<usize> = network.layers.iter().map(|layer| layer.inputs).collect();
    widths.push(1);
    let mut plain = Plain {
        values: parts.iter().flat_map(|part| wide(part)).collect(),
        widths,
    };
    let samples = || Samples {
        items: vec![1, 3, 4, 3],
        labels: vec![1.0, 0.0, 1.0, 0.0],
    };
    let shape = start.table(0).shape();
    let values: Vec<f32> = (0..shape.values())
        .map(|at| (at * 5 % 7) as f32 / 4.0 - 0.6)
        .collect();
    let mixture = Model::of_table("E", Table::new(shape, values));
    let received = wide(mixture.table(0).as_slice());
    for (round, is_drawn) in [(0, false), (1, true), (2, false)] {
        let none = Model::none();
        let model = if is_drawn { &mixture } else { &none };
        let names = (UserId(1), Round(round), InvitationId(round));
        let task = LocalTask::new(names, model, OwnData::new(&[1, 4]), Streams::new(3), 1e6);
        let trained = client.train(&task, &mut holding(samples())).unwrap();
        plain.train(&samples(), is_drawn.then_some(&received), rate, PASSES);
        let blocks = &trained.update.blocks;
        assert_eq!(blocks[0].rows, RowSet::All);
        let rows = &plain.values[K..Plain::TABLE];
        assert_close(floats(&blocks[0].values).map(f64::from), rows);
        let u = client.personal_vector().unwrap().unwrap().values;
        assert_close(wide(&u), &plain.values[..K]);
        assert_eq!(floats(&blocks[1].values).collect::<Vec<_>>(), [4.0]);
        for received in [None, Some(&received[..])] {
            let model = if received.is_some() { &mixture } else { &none };
            let mut scratch = Scratch::default();
            let own = OwnData::new(&[]);
            let context = ScoringContext::new(UserId(1), model, own, Streams::new(1), &mut scratch);
            let scores = score(&*client, context, &[0, 1, 2, 3, 4]);
            let of_item = |item| plain.score(&plain.values, received, item);
            assert_close(wide(&scores), &(0..ITEMS).map(of_item).collect::<Vec<_>>());
        }
    }
}

/// If this fails, a device does not move its rows towards a mixture when it begins, does not learn
/// from them after the move, or steps otherwise than Adam along the gradient.
#[test]
fn slopes_pass_through_the_network_in_fedem() {
    compare_with_plain::<true>(0.1);
}

/// If this fails, vectors and tables learn from moved rows, or the network from rows as they are.
#[test]
fn the_network_alone_learns_from_moved_rows_in_fedea() {
    compare_with_plain::<false>(0.01);
}
