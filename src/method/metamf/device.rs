//! The device's side of MetaMF, on plain slices: gradients by the generated parameters, and scores.

use crate::model::neural::loss::binary_cross_entropy;
use crate::model::neural::{Perceptron, PerceptronBuffers, RowBatch};

/// Buffers of one worker thread. They hold no state between clients.
#[derive(Clone, Debug, Default)]
pub struct DeviceBuffers {
    batch: RowBatch,
    network: PerceptronBuffers,
}

/// The gradients of one client's mean loss, and what they cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceGradient {
    /// By the item rows, in the order in which they were given.
    pub rows: Vec<f32>,
    /// By the parameters of the prediction network.
    pub network: Vec<f32>,
    /// Mean binary cross-entropy.
    pub loss: f64,
    /// Multiply-adds of the forward and the backward pass.
    pub multiply_adds: u64,
}

/// Returns the prediction network of a device, W2 relu(W1 e + b1) + b2, for item rows of `dimension` values.
///
/// Its hidden layer has a quarter as many units, as in the published code (`item_emb_size / 4`). The parameters stand in
/// the order W1 (row-major, a row for each hidden unit), b1, W2, b2.
pub fn prediction_network(dimension: usize) -> Perceptron {
    Perceptron::new(0, &[dimension, (dimension / 4).max(1), 1])
}

/// Computes the gradient of the mean binary cross-entropy over `samples` (position of the row, whether positive) by the
/// item rows (`rows`, row-major) and by the parameters of the prediction network.
pub fn gradient(
    network: &Perceptron,
    parameters: &[f32],
    rows: &[f32],
    samples: &[(u32, bool)],
    buffers: &mut DeviceBuffers,
) -> DeviceGradient {
    let DeviceBuffers { batch, network: activations } = buffers;
    let dimension = network.layers()[0].inputs;
    batch.collect(samples, rows.len() / dimension);
    batch.gather(rows, dimension, activations.inputs_mut());
    network.forward(parameters, &[], activations);
    let (logits, by_logits) = activations.outputs_and_gradient();
    let factor = 1.0 / samples.len() as f32;
    let loss = f64::from(binary_cross_entropy(logits, batch.targets(), factor, by_logits)) / samples.len() as f64;
    let mut by_parameters = vec![0.0; network.parameters()];
    network.backward(parameters, &[], activations, &mut by_parameters, &mut []);
    let mut by_rows = vec![0.0; rows.len()];
    batch.scatter(activations.input_gradient(), &mut by_rows);
    let multiply_adds = 3 * network.multiply_adds(batch.rows().len());
    DeviceGradient { rows: by_rows, network: by_parameters, loss, multiply_adds }
}
