#![allow(clippy::unwrap_used)]
use super::network::{Drawn, Encoders};
use super::objective::{divergence, mixed, multinomial};
use super::passes::Passes;
use super::*;
use crate::declare::Declared;
use crate::tests::{problem_of, score, with_step};
use fedrecsim_core::math::gradient::gradient_check;
use fedrecsim_core::{InvitationId, Round, Step};
use fedrecsim_data::dataset::OwnData;

const ITEMS: usize = 7;

fn small(variant: Variant) -> FedDae {
    FedDae {
        variant,
        latent_dimension: 2,
        outer_units: 4,
        inner_units: 3,
        gate_units: 5,
        ..FedDae::default()
    }
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-5, "{found} for {expected}");
}

/// The worked example: weights .25 and .75, means 1 and -1, and the variance 1 of both. If this
/// fails, the divergence is that of another distribution than what the decoder reads.
#[test]
fn the_mixture_is_that_of_the_worked_example() {
    let (mean, variance) = mixed([0.25, 0.75], [&[1.0, 0.0], &[-1.0, 0.0]]);
    assert_eq!((&mean[..], &variance[..]), (&[-0.5][..], &[0.625][..]));
    close(divergence(&mean, &variance), 0.172_502);
    assert_eq!(divergence(&[0.0], &[1.0]), 0.0);
}

/// The worked example: logits 2, 1 and 0, of which the first and the last are the user's. If this
/// fails, an item counts otherwise than by its share of the softmax.
#[test]
fn the_loss_is_that_of_the_worked_example() {
    let (loss, slopes) = multinomial(&[2.0, 1.0, 0.0], &[0, 2]);
    close(loss, 2.815_212);
    let sum: f32 = slopes.iter().sum();
    assert!(
        sum.abs() < 1e-6 && slopes[1] > 0.0 && slopes[2] < 0.0,
        "{slopes:?}"
    );
}

/// The worked example: with gradients 1 to 5, the server gets 5 + 8 + 9 + 8 + 5 from the published
/// code. If this fails, its gradients are set to zero between passes, or its Adam steps along others.
/// In the paper's form, five steps of Adam have the length of the rate at most.
#[test]
fn gradients_add_up_over_passes_in_the_published_code_alone() {
    let sent = |variant| {
        let adam = AdamSettings::with_rate(0.25);
        let passes = Passes {
            number: 5,
            adam,
            variant,
        };
        let mut pass = 0.0;
        let done = passes.make(vec![3.0], |_, gradient| {
            pass += 1.0;
            gradient[0] += pass;
            f64::from(pass)
        });
        assert_eq!(done.loss, 3.0);
        (done.sent[0], done.values[0])
    };
    let (code, end) = sent(Variant::PublishedCode);
    assert_eq!(code, 35.0);
    assert!(end < 3.0);
    let (paper, end) = sent(Variant::Paper);
    close(f64::from(paper), f64::from((3.0 - end) / 0.25));
    assert!((4.0..=5.0).contains(&paper), "{paper}");
}

/// If this fails, the divergence goes on to count in the published code.
#[test]
fn the_divergence_counts_in_the_first_round_of_the_published_code() {
    let of = |method: FedDae| [0, 1, 2].map(|step| method.beta(step));
    assert_eq!(of(small(Variant::PublishedCode)), [1.0, 0.0, 0.0]);
    assert_eq!(of(small(Variant::Paper)), [0.2; 3]);
    let beta = Some(0.5);
    let constant = FedDae {
        beta,
        ..FedDae::default()
    };
    assert_eq!(of(constant), [0.5; 3]);
}

/// If this fails, a layer has another width than in the code.
#[test]
fn networks_have_the_sizes_of_the_code() {
    let size = ProblemSize {
        users: 941,
        items: 1678,
    };
    let blocks = FedDae::default().blocks(size);
    let values = |letters: [char; 2]| -> usize {
        let of = blocks
            .iter()
            .filter(|block| block.name().starts_with(letters));
        of.map(|block| block.layout.shape.values()).sum()
    };
    assert_eq!(values(['L', 'l']), 1_945_856);
    assert_eq!(values(['E', 'e']), 1_945_856);
    assert_eq!(values(['D', 'd']), 1_815_950);
    let sent = Declared::<FedDae>::new(small(Variant::Paper), &problem_of(3, ITEMS));
    let (k, outer, inner) = (2, 4, 3);
    let of_encoder = ITEMS * outer + outer + (outer + 1) * inner + (inner + 1) * 2 * k;
    let of_decoder = (k + 1) * inner + (inner + 1) * outer + (outer + 1) * ITEMS;
    assert_eq!(
        sent.upload_layout(Phase(0), Class(0)).values(),
        of_encoder + of_decoder
    );
}

/// A layer W x + b of the plain network, whose weights have a row for each output, or for each input.
fn plain_layer(at: &[f64], x: &[f64], outputs: usize, by_input: bool) -> (Vec<f64>, usize) {
    let end = x.len() * outputs;
    let weight = |output: usize, input: usize| match by_input {
        true => at[input * outputs + output],
        false => at[output * x.len() + input],
    };
    let sum = |output: usize| -> f64 {
        let products = x
            .iter()
            .enumerate()
            .map(|(input, x)| weight(output, input) * x);
        at[end + output] + products.sum::<f64>()
    };
    ((0..outputs).map(sum).collect(), end + outputs)
}

/// Returns the loss as the paper states it, in double precision, for two own items.
fn plain_loss(p: &[f64], drawn: &Drawn, encoders: Encoders, beta: f64, items: &[u32]) -> f64 {
    let mut at = 0;
    let mut layer = |x: &[f64], outputs: usize, by_input: bool| {
        let (found, length) = plain_layer(&p[at..], x, outputs, by_input);
        at += length;
        found
    };
    let bent = |x: Vec<f64>| -> Vec<f64> { x.into_iter().map(f64::tanh).collect() };
    let double = |x: &[f32]| -> Vec<f64> { x.iter().copied().map(f64::from).collect() };
    let mut outputs = Vec::new();
    for input in &drawn.inputs {
        let first = bent(layer(&double(input), 4, true));
        let second = bent(layer(&first, 3, false));
        outputs.push(layer(&second, 4, false));
    }
    let units = layer(&vec![1.0; items.len()], 5, true);
    let units = units.iter().zip(double(&drawn.units));
    let units: Vec<f64> = units.map(|(unit, factor)| unit.max(0.0) * factor).collect();
    let logits = layer(&units, 2, false);
    let sum: f64 = logits.iter().map(|logit| logit.exp()).sum();
    let w = match encoders {
        Encoders::Both => [logits[0].exp() / sum, logits[1].exp() / sum],
        Encoders::Global => [0.0, 1.0],
        Encoders::Local => [1.0, 0.0],
    };
    let (mut z, mut divergence) = (Vec::new(), 0.0);
    for d in 0..2 {
        let part = |of: usize| {
            let (mean, log): (f64, f64) = (outputs[of][d], outputs[of][2 + d]);
            let drawn = mean + f64::from(drawn.noise[of][d]) * (log / 2.0).exp();
            [w[of] * mean, w[of] * w[of] * log.exp(), w[of] * drawn]
        };
        let [mean, variance, of_z] = [0, 1, 2].map(|at| part(0)[at] + part(1)[at]);
        divergence -= 0.5 * (1.0 + variance.ln() - mean * mean - variance);
        z.push(of_z);
    }
    let hidden = bent(layer(&z, 3, false));
    let hidden = bent(layer(&hidden, 4, false));
    let logits = layer(&hidden, ITEMS, false);
    let sum: f64 = logits.iter().map(|logit| logit.exp()).sum();
    let logs = items.iter().map(|item| logits[*item as usize] - sum.ln());
    beta * divergence - logs.sum::<f64>()
}

/// If this fails, a device descends along something else than the loss, with or without a gate.
#[test]
fn gradients_are_those_of_the_stated_loss() {
    let items = [2, 5];
    for encoders in [Encoders::Both, Encoders::Global, Encoders::Local] {
        let method = FedDae {
            encoders,
            ..small(Variant::Paper)
        };
        let network = method.network(ITEMS, items.len());
        let length = network.layers.last().unwrap().bias.end;
        let mut stream = Streams::new(3).named("test", 0, 0);
        let parameters: Vec<f32> = (0..length)
            .map(|_| stream.uniform_within(0.8) as f32)
            .collect();
        let drawn = Drawn::of(&network, 0.3, &mut stream);
        let mut gradient = vec![0.0; length];
        let (at, beta) = ((&parameters[..], &items[..]), 0.7);
        let loss = network.add_gradient(at, &drawn, beta, &mut gradient);
        let [values, gradient] = [&parameters, &gradient].map(|values| {
            let values = values.iter().copied().map(f64::from);
            values.collect::<Vec<f64>>()
        });
        let plain = |p: &[f64]| plain_loss(p, &drawn, encoders, f64::from(beta), &items);
        assert!((loss - plain(&values)).abs() < 1e-4, "{encoders:?}: {loss}");
        gradient_check(2e-3, &values, &gradient, plain).unwrap();
    }
}

/// If this fails, scores are drawn, or come of another network than the one that is trained.
#[test]
fn scores_are_those_of_the_network_without_noise() {
    let method = Declared::<FedDae>::new(small(Variant::Paper), &problem_of(3, ITEMS));
    let (own, model, items) = (method.own(UserId(1)), method.initial(), [2, 5]);
    let parameters = own.flat(&model, &items);
    let network = method.declared().network(ITEMS, items.len());
    let mut stream = Streams::new(3).named("test", 0, 0);
    let mut drawn = Drawn::of(&network, 0.0, &mut stream);
    drawn
        .noise
        .iter_mut()
        .flatten()
        .for_each(|noise| *noise = 0.0);
    let scratch = &mut Scratch::default();
    let data = OwnData::new(&items);
    let context = ScoringContext::new(UserId(1), &model, data, Streams::new(4), scratch);
    let client = method.client(UserId(1));
    let scores = score(&*client, context, &[0, 1, 2, 3, 4, 5, 6]);
    let parameters: Vec<f64> = parameters.into_iter().map(f64::from).collect();
    for item in 0..ITEMS {
        let loss = |item: usize| {
            let of_two = [item as u32, 2];
            plain_loss(&parameters, &drawn, Encoders::Both, 0.0, &of_two)
        };
        // Losses differ by the differences of scores.
        close(f64::from(scores[item] - scores[0]), loss(0) - loss(item));
    }
}

/// Has a user take part in a step, and returns the update, the private state and the model after it.
fn after_a_step(variant: Variant) -> (ModelUpdate, [Vec<f32>; 2], [Model; 2]) {
    let method = Declared::<FedDae>::new(small(variant), &problem_of(3, ITEMS));
    let (mut server, items) = (method.server(), [2, 5]);
    let model = server.model().clone();
    let names = (UserId(1), Round(0), InvitationId(0));
    let mut task = LocalTask::new(names, &model, OwnData::new(&items), Streams::new(4), 1e6);
    task.step = Step(3);
    let mut own = method.own(UserId(1));
    let state = |own: &Own| own.flat(&model, &[0, 1, 2, 3, 4, 5, 6]);
    let before = state(&own);
    let trained = method
        .declared()
        .train(&mut own, &task, &mut Scratch::default())
        .unwrap();
    let mut sums = server.accumulator();
    let sent = Contribution::fresh(names.0, names.2, &trained.update, &model);
    sums.absorb(&[sent]).unwrap();
    with_step(0, |step| server.step(sums, step)).unwrap();
    let after = state(&own);
    let models = [model.clone(), server.model().clone()];
    (trained.update, [before, after], models)
}

/// If this fails, a device of the published code keeps something, or one of the paper forgets its
/// encoder and its gate, or keeps rows of items that it does not have.
#[test]
fn a_device_keeps_what_its_variant_says() {
    let (update, [before, after], _) = after_a_step(Variant::PublishedCode);
    assert_eq!(before, after);
    assert_eq!(update.blocks.len(), 18);
    let (update, [before, after], _) = after_a_step(Variant::Paper);
    assert_eq!(update.blocks.len(), 12);
    let of_encoder = ITEMS * 4;
    for (row, (old, new)) in before
        .chunks(4)
        .zip(after.chunks(4))
        .enumerate()
        .take(ITEMS)
    {
        assert_eq!(old != new, [2, 5].contains(&row), "row {row} of L1");
    }
    assert_ne!(
        before[of_encoder..of_encoder + 4],
        after[of_encoder..of_encoder + 4]
    );
    assert_eq!(before.len(), after.len());
}

/// If this fails, the server steps along another gradient, the wrong way, or by another length than
/// its rate, as the first step of Adam does.
#[test]
fn the_server_steps_against_what_is_sent() {
    for variant in [Variant::PublishedCode, Variant::Paper] {
        let (update, _, [before, after]) = after_a_step(variant);
        let sent = update.blocks.iter().zip(before.tables());
        let mut compared = 0;
        for (block, (name, table)) in sent {
            let gradient = block.apply(None).unwrap();
            let values = table
                .as_slice()
                .iter()
                .zip(after.named(name).unwrap().as_slice());
            for ((old, new), gradient) in values.zip(gradient.as_slice()) {
                if gradient.abs() > 1e-3 {
                    let moved = f64::from(new - old);
                    close(moved, -1e-3 * f64::from(gradient.signum()));
                    compared += 1;
                }
            }
        }
        assert!(compared > 20, "{variant:?}: only {compared} gradients");
    }
}
