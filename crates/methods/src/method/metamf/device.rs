//! Computes the device's side of MetaMF, on plain slices: the gradients with respect to the
//! generated parameters.

use fedrecsim_model::model::neural::loss::binary_cross_entropy;
use fedrecsim_model::model::neural::{Perceptron, PerceptronBuffers, RowBatch};

/// Holds the buffers of a participation. Nothing passes from one client to the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceBuffers {
    batch: RowBatch,
    network: PerceptronBuffers,
}

/// Holds the gradients of one client's mean loss, and the work of computing them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DeviceGradient {
    /// The gradient with respect to the item rows, in the order in which they were given.
    pub rows: Vec<f32>,
    /// The gradient with respect to the parameters of the prediction network.
    pub network: Vec<f32>,
    /// The mean binary cross-entropy.
    pub loss: f64,
    /// The number of multiply-adds of the forward and the backward pass.
    pub multiply_adds: u64,
}

/// Returns the prediction network of a device, W2 relu(W1 e + b1) + b2, for item rows of
/// `dimension` values.
///
/// Its hidden layer has a quarter as many units, as in the published code (`item_emb_size / 4`).
/// The order of the parameters is W1 (row-major, a row for each hidden unit), b1, W2, b2.
pub(crate) fn prediction_network(dimension: usize) -> Perceptron {
    Perceptron::new(0, &[dimension, (dimension / 4).max(1), 1])
}

/// Computes the gradients of the mean binary cross-entropy over `samples` (position of the row,
/// whether positive) with respect to the item rows (`rows`, row-major) and to the parameters of the
/// prediction network.
pub(crate) fn gradient(
    network: &Perceptron,
    parameters: &[f32],
    rows: &[f32],
    samples: &[(u32, bool)],
    buffers: &mut DeviceBuffers,
) -> DeviceGradient {
    let DeviceBuffers {
        batch,
        network: activations,
    } = buffers;
    let dimension = network.layers()[0].inputs;
    batch.collect(samples, rows.len() / dimension);
    batch.gather(rows, dimension, activations.inputs_mut());
    network.forward(parameters, &[], activations);
    let (logits, by_logits) = activations.outputs_and_gradient();
    let factor = 1.0 / samples.len() as f32;
    let loss = f64::from(binary_cross_entropy(
        logits,
        batch.targets(),
        factor,
        by_logits,
    )) / samples.len() as f64;
    let mut by_parameters = vec![0.0; network.parameters()];
    network.backward(parameters, &[], activations, &mut by_parameters, &mut []);
    let mut by_rows = vec![0.0; rows.len()];
    batch.scatter(activations.input_gradient(), &mut by_rows);
    let multiply_adds = 3 * network.multiply_adds(batch.rows().len());
    DeviceGradient {
        rows: by_rows,
        network: by_parameters,
        loss,
        multiply_adds,
    }
}
