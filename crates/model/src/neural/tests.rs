//! Compares networks with central differences of a plain implementation in double precision.

#![allow(clippy::unwrap_used)]

use super::loss::binary_cross_entropy;
use super::optimizer::{AdamMoments, AdamSettings, clip, sgd_step};
use super::{Perceptron, PerceptronBuffers, dense};
use crate::kernel::Targets;
use fedrecsim_core::math::gradient::gradient_check;
use fedrecsim_core::rng::{PortableDraws, Purpose, Stream, Streams};

fn stream(number: usize) -> Stream {
    Streams::new(3).stream(Purpose::PrivateInit, number as u64, 0)
}

fn normal(stream: &mut Stream, count: usize, deviation: f64) -> Vec<f32> {
    (0..count)
        .map(|_| (stream.standard_normal() * deviation) as f32)
        .collect()
}

/// Holds a batch and a network in plain vectors.
#[derive(Clone)]
struct Case {
    network: Perceptron,
    parameters: Vec<f64>,
    common: Vec<f64>,
    inputs: Vec<Vec<f64>>,
    /// How often each sample occurs, and the sum of its targets.
    targets: Vec<(f64, f64)>,
}

fn to_f64(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

fn to_f32(values: &[f64]) -> Vec<f32> {
    values.iter().map(|value| *value as f32).collect()
}

impl Case {
    fn random(common: usize, widths: &[usize], samples: usize) -> Self {
        let mut stream = stream(samples + common);
        let network = Perceptron::new(common, widths);
        let parameters = to_f64(&normal(&mut stream, network.parameters(), 0.4));
        let inputs = (0..samples)
            .map(|_| to_f64(&normal(&mut stream, widths[0], 1.0)))
            .collect();
        let target = |sample: usize| ((1 + sample % 3) as f64, (sample % 2) as f64);
        let common = to_f64(&normal(&mut stream, common, 1.0));
        Self {
            network,
            parameters,
            common,
            inputs,
            targets: (0..samples).map(target).collect(),
        }
    }

    /// Returns the output of one sample.
    fn output(&self, inputs: &[f64]) -> f64 {
        let mut values: Vec<f64> = self.common.iter().chain(inputs).copied().collect();
        let layers = &self.network.layers;
        for (number, layer) in layers.iter().enumerate() {
            let weights = &self.parameters[layer.weights.clone()];
            let bias = &self.parameters[layer.bias.clone()];
            let dot = |row: &[f64]| row.iter().zip(&values).map(|(w, x)| w * x).sum::<f64>();
            let outputs = weights
                .chunks_exact(layer.inputs)
                .zip(bias)
                .map(|(row, bias)| dot(row) + bias);
            let rectify = |z: f64| {
                if number + 1 < layers.len() {
                    z.max(0.0)
                } else {
                    z
                }
            };
            values = outputs.map(rectify).collect();
        }
        values[0]
    }

    /// Returns the mean loss over all occurrences.
    fn mean_loss(&self) -> f64 {
        let losses = self
            .inputs
            .iter()
            .zip(&self.targets)
            .map(|(inputs, (count, target))| {
                let z = self.output(inputs);
                count * (z.max(0.0) + libm::log1p(libm::exp(-z.abs()))) - target * z
            });
        losses.sum::<f64>() / self.occurrences()
    }

    fn occurrences(&self) -> f64 {
        self.targets.iter().map(|(count, _)| count).sum()
    }

    /// Returns the numbers that the loss depends on: parameters, features in common, then the
    /// inputs of each sample.
    fn variables(&self) -> Vec<f64> {
        self.parameters
            .iter()
            .chain(&self.common)
            .chain(self.inputs.iter().flatten())
            .copied()
            .collect()
    }

    /// Returns the mean loss with other [`variables`](Self::variables).
    fn mean_loss_at(&self, variables: &[f64]) -> f64 {
        let (parameters, rest) = variables.split_at(self.parameters.len());
        let (common, inputs) = rest.split_at(self.common.len());
        let mut case = self.clone();
        (case.parameters, case.common) = (parameters.to_vec(), common.to_vec());
        case.inputs = inputs
            .chunks_exact(self.inputs[0].len())
            .map(<[f64]>::to_vec)
            .collect();
        case.mean_loss()
    }

    /// Returns the mean loss that the network computes, and its gradients with respect to
    /// parameters, features in common and inputs.
    fn gradients(&self) -> (f64, Vec<f32>, Vec<f32>, Vec<Vec<f32>>) {
        let mut buffers = PerceptronBuffers::default();
        let width = self.inputs[0].len();
        buffers.inputs.reset(self.inputs.len(), width);
        let mut targets = Targets::default();
        let of_samples = self.targets.iter();
        targets.replace(of_samples.map(|(count, target)| (*count as f32, *target as f32)));
        for (sample, inputs) in self.inputs.iter().enumerate() {
            buffers.inputs.set_sample(sample, &to_f32(inputs));
        }
        let (parameters, common) = (to_f32(&self.parameters), to_f32(&self.common));
        self.network.forward(&parameters, &common, &mut buffers);
        let (outputs, gradient) = buffers.outputs_and_gradient();
        let factor = (1.0 / self.occurrences()) as f32;
        let loss = binary_cross_entropy(outputs, &targets, factor, gradient);
        let mut of_parameters = vec![f32::NAN; parameters.len()];
        let mut of_common = vec![f32::NAN; common.len()];
        self.network.backward(
            &parameters,
            &common,
            &mut buffers,
            &mut of_parameters,
            &mut of_common,
        );
        let of_inputs = (0..self.inputs.len()).map(|sample| {
            let mut values = vec![f32::NAN; width];
            buffers.gradient.read_sample(sample, &mut values);
            values
        });
        (
            f64::from(loss) / self.occurrences(),
            of_parameters,
            of_common,
            of_inputs.collect(),
        )
    }
}

#[track_caller]
fn assert_close(value: f32, expected: f64, what: &str) {
    let difference = (f64::from(value) - expected).abs();
    assert!(
        difference < 2e-5 * expected.abs().max(0.05),
        "{what} is {value} instead of {expected}"
    );
}

/// If this fails, a network does not follow the gradient of its loss.
#[test]
fn gradients_agree_with_central_differences() {
    for (common, widths, samples) in [
        (0, &[5, 1][..], 3),
        (0, &[4, 3, 1], 16),
        (3, &[5, 6, 4, 1], 37),
        (8, &[8, 9, 5, 2, 1], 20),
    ] {
        let case = Case::random(common, widths, samples);
        let (mean_loss, of_parameters, of_common, of_inputs) = case.gradients();
        let name = format!("{common} + {widths:?}");
        assert_close(mean_loss as f32, case.mean_loss(), &format!("{name}: loss"));
        let gradient = [of_parameters, of_common, of_inputs.concat()].concat();
        let (at, tolerance) = (case.variables(), 2e-4);
        gradient_check(tolerance, &at, &to_f64(&gradient), |moved| {
            case.mean_loss_at(moved)
        })
        .unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
    }
}

/// If this fails, a network may diverge without being noticed.
#[test]
fn a_nan_reaches_the_loss() {
    let mut case = Case::random(2, &[3, 4, 1], 5);
    case.parameters[0] = f64::NAN;
    let (loss, gradient, ..) = case.gradients();
    assert!(loss.is_nan() && gradient.iter().any(|value| value.is_nan()));
}

/// If this fails, a device is charged with other work than a network takes.
#[test]
fn multiply_adds_leave_out_what_is_computed_once() {
    assert_eq!(
        Perceptron::new(0, &[4, 3, 1]).multiply_adds(10),
        10 * (12 + 3)
    );
    assert_eq!(
        Perceptron::new(2, &[4, 3, 1]).multiply_adds(10),
        10 * (12 + 3) + 6
    );
    assert_eq!(
        Perceptron::new(32, &[32, 32, 16, 8, 1]).parameters(),
        64 * 32 + 32 + 32 * 16 + 16 + 16 * 8 + 8 + 8 + 1
    );
}

/// If this fails, Adam is not the published algorithm.
#[test]
fn adam_follows_the_published_equations() {
    let settings = AdamSettings {
        weight_decay: 0.01,
        ..AdamSettings::with_rate(0.002)
    };
    let mut stream = stream(0);
    let mut parameters = normal(&mut stream, 21, 1.0);
    let mut expected = to_f64(&parameters);
    let (mut first, mut second) = (vec![0.0; 21], vec![0.0; 21]);
    let mut moments = AdamMoments::zeros(21);
    for step in 1..=5 {
        let gradient = normal(&mut stream, 21, 0.3);
        moments.step(&settings, step, &mut parameters, &gradient);
        for i in 0..21 {
            let g = f64::from(gradient[i]) + 0.01 * expected[i];
            first[i] = 0.9 * first[i] + 0.1 * g;
            second[i] = 0.999 * second[i] + 0.001 * g * g;
            let (m, v) = (
                first[i] / (1.0 - 0.9f64.powi(step as i32)),
                second[i] / (1.0 - 0.999f64.powi(step as i32)),
            );
            expected[i] -= 0.002 * m / (v.sqrt() + 1e-8);
            assert_close(parameters[i], expected[i], "parameter");
        }
    }
}

/// If this fails, rows that a model is sure of take many times as long, or step elsewhere.
#[test]
fn moments_are_no_denormals_and_steps_keep_their_bits() {
    let gradients = [0.3, 1e-9, 1e-16, 1e-17, 1e-18, 1e-20, 1e-25, 1e-36];
    let of_each = |epsilon| gradients.map(|gradient| (epsilon, gradient));
    for (epsilon, gradient) in [1e-8, 1e-12].into_iter().flat_map(of_each) {
        let settings = AdamSettings {
            epsilon,
            ..AdamSettings::with_rate(0.01)
        };
        let (b1, b2) = (settings.beta1 as f32, settings.beta2 as f32);
        let (mut parameter, mut expected) = ([0.5], 0.5);
        let (mut m, mut v) = (0.0f32, 0.0f32);
        let mut moments = AdamMoments::zeros(1);
        for step in 1..=2_000 {
            // Then it has no gradient for long.
            let gradient = if step <= 200 { gradient } else { 0.0 };
            moments.step(&settings, step, &mut parameter, &[gradient]);
            m = b1 * m + (1.0 - b1) * gradient;
            v = b2 * v + (1.0 - b2) * (gradient * gradient);
            let correction = |beta: f64| 1.0 - fedrecsim_core::math::pow(beta, step as f64);
            let rate = (0.01 / correction(settings.beta1)) as f32;
            let root_scale = (1.0 / correction(settings.beta2).sqrt()) as f32;
            expected -= rate * m / (v.sqrt() * root_scale + epsilon as f32);
            assert_eq!(parameter[0].to_bits(), f32::to_bits(expected), "{gradient}");
            let of_step = [moments.first[0], moments.second[0]];
            let is_fast = of_step.iter().all(|of| *of == 0.0 || of.is_normal());
            assert!(is_fast || epsilon < 1e-8, "{of_step:?}");
        }
    }
}

/// If this fails, clipping or weight decay scales gradients wrongly.
#[test]
fn clipping_and_decay_do_what_they_say() {
    let mut gradient: Vec<f32> = (0..35).map(|i| i as f32 - 10.0).collect();
    let norm = |values: &[f32]| values.iter().map(|value| value * value).sum::<f32>().sqrt();
    let (before, length) = (gradient.clone(), norm(&gradient));
    clip([&mut gradient], f64::from(length) + 1.0);
    assert_eq!(gradient, before);
    let (start, end) = gradient.split_at_mut(20);
    clip([start, end], 5.0);
    assert!((norm(&gradient) - 5.0).abs() < 1e-4);
    let factor = 5.0 / length;
    let mut pairs = gradient.iter().zip(&before);
    assert!(pairs.all(|(after, before)| (after - factor * before).abs() < 1e-5));
    let mut parameters = [2.0, -4.0];
    sgd_step(&mut parameters, &[1.0, 1.0], 0.5, 0.25);
    assert_eq!(
        parameters,
        [2.0 - 0.5 * (1.0 + 0.5), -4.0 - 0.5 * (1.0 - 1.0)]
    );
}

/// If this fails, the bits of trained networks have changed, or differ from one machine to another.
#[test]
fn a_small_training_run_keeps_its_bits() {
    let network = Perceptron::new(6, &[6, 12, 7, 1]);
    let mut stream = stream(1);
    let mut parameters = normal(&mut stream, network.parameters(), 0.3);
    let mut user = normal(&mut stream, 6, 0.5);
    let mut items = normal(&mut stream, 50 * 6, 0.5);
    let (mut buffers, mut targets) = (PerceptronBuffers::default(), Targets::default());
    let mut gradient = vec![0.0; network.parameters()];
    let mut user_gradient = vec![0.0; 6];
    let mut moments = AdamMoments::zeros(network.parameters());
    let settings = AdamSettings {
        weight_decay: 1e-4,
        ..AdamSettings::with_rate(0.01)
    };
    for step in 1..=20 {
        buffers.inputs.reset(50, 6);
        targets.replace((0..50).map(|item| (1.0, f32::from(item % 4 == 0))));
        for (item, row) in items.chunks_exact(6).enumerate() {
            buffers.inputs.set_sample(item, row);
        }
        network.forward(&parameters, &user, &mut buffers);
        let (outputs, output_gradient) = buffers.outputs_and_gradient();
        binary_cross_entropy(outputs, &targets, 1.0 / 50.0, output_gradient);
        network.backward(
            &parameters,
            &user,
            &mut buffers,
            &mut gradient,
            &mut user_gradient,
        );
        clip([&mut gradient], 0.2);
        moments.step(&settings, step, &mut parameters, &gradient);
        sgd_step(&mut user, &user_gradient, 0.1, 0.0);
        let mut row_gradient = [0.0; 6];
        for (item, row) in items.chunks_exact_mut(6).enumerate() {
            buffers.gradient.read_sample(item, &mut row_gradient);
            sgd_step(row, &row_gradient, 2.0, 0.0);
        }
    }
    let mut digest = blake3::Hasher::new();
    for value in parameters.iter().chain(&user).chain(&items) {
        digest.update(&value.to_le_bytes());
    }
    assert_eq!(
        digest.finalize().to_hex().as_str(),
        "f08ce124641fb5d4726487df35ffeabbbb20773bbe6f10293ee881bf10141931"
    );
}

/// If this fails, MetaMF's heads learn from other gradients than those of the kernels of one slice.
#[test]
fn an_output_is_back_propagated_as_by_the_single_kernels() {
    for length in [1, 15, 16, 40, 53] {
        let mut stream = stream(length);
        let mut draw = || normal(&mut stream, length, 1.0);
        let (weights, x, gradient, dx) = (draw(), draw(), draw(), draw());
        let (mut expected_gradient, mut expected_dx) = (gradient.clone(), dx.clone());
        dense::add_scaled(0.3, &x, &mut expected_gradient);
        dense::add_scaled(0.3, &weights, &mut expected_dx);
        let (mut gradient, mut dx) = (gradient, dx);
        let product = dense::backward_output(0.3, &weights, &x, &mut gradient, &mut dx);
        assert_eq!(
            (product, gradient, dx),
            (dense::dot(&weights, &x), expected_gradient, expected_dx),
            "{length}"
        );
    }
}

/// If this fails, a product of matrices has other sums, or goes through them in another order.
#[test]
fn a_product_of_matrices_has_the_bits_of_plain_sums() {
    for (rows, inner, columns) in [(3, 8, 32), (5, 3, 19), (1, 7, 5), (4, 1, 16)] {
        let value = |place: usize| ((place * 7919) % 1000) as f32 * 0.013 - 6.1;
        let left = Vec::from_iter((0..rows * inner).map(value));
        let right = Vec::from_iter((0..inner * columns).map(|place| value(place + 17)));
        let mut product = Vec::from_iter((0..rows * columns).map(|place| value(place + 5)));
        let mut plain = product.clone();
        for (place, sum) in plain.iter_mut().enumerate() {
            for i in 0..inner {
                *sum += left[place / columns * inner + i] * right[i * columns + place % columns];
            }
        }
        dense::multiply(&left, &right, inner, &mut product);
        assert_eq!(product, plain, "{rows} x {inner} x {columns}");
    }
}
