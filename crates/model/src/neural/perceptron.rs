//! Implements a multi-layer perceptron whose parameters are one flat slice.

use std::ops::Range;

use super::SampleMatrix;
use super::dense::{self, Weights};

/// Describes a perceptron, which has dense layers with a rectifier after each of them but the last.
///
/// The first layer may read features that all samples of a batch have in common (a user's vector)
/// in front of each sample's own features (an item's vector). Their part of the first layer is
/// computed once for the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Perceptron {
    common: usize,
    /// The layers, from the inputs to the outputs.
    pub layers: Vec<Layer>,
}

/// Describes one dense layer and the places of its parameters in the flat slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The number of inputs, including the features in common.
    pub inputs: usize,
    /// The number of outputs.
    pub outputs: usize,
    /// The place of the weights, row-major with a row for each output.
    pub weights: Range<usize>,
    /// The place of the bias.
    pub bias: Range<usize>,
}

impl Layer {
    /// Describes a layer whose parameters begin at `start` of the flat slice, the weights before
    /// the bias.
    pub fn at(start: usize, inputs: usize, outputs: usize) -> Self {
        let weights = start..start + inputs * outputs;
        let bias = weights.end..weights.end + outputs;
        Self {
            inputs,
            outputs,
            weights,
            bias,
        }
    }

    /// Returns `W x + b` for a single sample. `parameters` is the flat slice of all layers.
    pub fn forward_one(&self, parameters: &[f32], x: &[f32]) -> Vec<f32> {
        let rows = parameters[self.weights.clone()].chunks_exact(self.inputs);
        rows.zip(&parameters[self.bias.clone()])
            .map(|(row, bias)| dense::dot(row, x) + bias)
            .collect()
    }

    /// Back-propagates through the layer for a single sample `x`, whose outputs have the gradient
    /// `dz`. Adds the gradient of the layer's parameters to `gradient`, which is that of the flat
    /// slice, and that of `x` to `dx`.
    pub fn backward_one(
        &self,
        parameters: &[f32],
        x: &[f32],
        dz: &[f32],
        gradient: &mut [f32],
        dx: &mut [f32],
    ) {
        dense::add_scaled(1.0, dz, &mut gradient[self.bias.clone()]);
        let places = self.weights.clone().step_by(self.inputs.max(1));
        for (start, dz) in places.zip(dz) {
            dense::add_scaled(*dz, x, &mut gradient[start..start + self.inputs]);
            dense::add_scaled(*dz, &parameters[start..start + self.inputs], dx);
        }
    }
}

/// Holds the activations and gradients of one batch. The memory is reused, and nothing passes from
/// one batch to the next.
#[derive(Clone, Debug, Default)]
pub struct PerceptronBuffers {
    /// The inputs, for the caller to fill.
    pub inputs: SampleMatrix,
    /// The outputs of every layer, which are rectified except those of the last layer.
    activations: Vec<SampleMatrix>,
    /// The gradient, which [`Perceptron::backward`] takes from the outputs back to the inputs.
    pub gradient: SampleMatrix,
    /// The memory for the gradient of the layer before.
    next_gradient: SampleMatrix,
    /// The first layer's bias plus the part of the features in common.
    bias: Vec<f32>,
}

impl PerceptronBuffers {
    /// Returns the outputs of the last layer, and the matrix for the gradient with respect to them,
    /// which a loss fills.
    pub fn outputs_and_gradient(&mut self) -> (&SampleMatrix, &mut SampleMatrix) {
        // `forward` has added the outputs of each layer.
        let last = self.activations.len() - 1;
        (&self.activations[last], &mut self.gradient)
    }
}

impl Perceptron {
    /// Makes a perceptron whose samples have `widths[0]` features of their own besides `common`
    /// features in common, and whose layers have `widths[1..]` outputs. There must be at least one
    /// layer.
    pub fn new(common: usize, widths: &[usize]) -> Self {
        let mut end = 0;
        let layers = widths.windows(2).enumerate().map(|(number, pair)| {
            let layer = Layer::at(end, pair[0] + if number == 0 { common } else { 0 }, pair[1]);
            end = layer.bias.end;
            layer
        });
        Self {
            common,
            layers: layers.collect(),
        }
    }

    /// Returns the number of parameters of all layers.
    pub fn parameters(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.bias.end)
    }

    /// Returns the number of multiply-adds of a forward pass over `samples` samples. A backward
    /// pass takes twice as many.
    pub fn multiply_adds(&self, samples: usize) -> u64 {
        let shared = self
            .layers
            .first()
            .map_or(0, |layer| self.common * layer.outputs);
        let all: usize = self
            .layers
            .iter()
            .map(|layer| layer.inputs * layer.outputs)
            .sum();
        ((all - shared) * samples + shared) as u64
    }

    /// Computes the outputs for the inputs in `buffers`. `common` are the features in common.
    pub fn forward(&self, parameters: &[f32], common: &[f32], buffers: &mut PerceptronBuffers) {
        let PerceptronBuffers {
            inputs,
            activations,
            bias: common_bias,
            ..
        } = buffers;
        activations.resize_with(self.layers.len(), SampleMatrix::default);
        for (number, layer) in self.layers.iter().enumerate() {
            let (before, after) = activations.split_at_mut(number);
            let (x, z) = (before.last().unwrap_or(inputs), &mut after[0]);
            z.reset_for_overwriting(x.samples, layer.outputs);
            let weights = self.own_weights(number, &parameters[layer.weights.clone()]);
            let mut bias = &parameters[layer.bias.clone()];
            if number == 0 && self.common > 0 {
                let rows = parameters[layer.weights.clone()].chunks_exact(layer.inputs);
                common_bias.clear();
                common_bias.extend(bias.iter().zip(rows).map(|(bias, row)| {
                    row.iter()
                        .zip(common)
                        .fold(*bias, |sum, (weight, feature)| sum + weight * feature)
                }));
                bias = common_bias;
            }
            dense::forward(
                weights,
                bias,
                &x.blocks,
                &mut z.blocks,
                number + 1 < self.layers.len(),
            );
        }
    }

    /// Replaces the gradient with respect to the outputs, in `buffers`, by that with respect to the
    /// inputs.
    ///
    /// Replaces `gradient` by that of the parameters, and `common_gradient` by that of the features
    /// in common. The buffers must be those of [`Self::forward`] with the same parameters.
    pub fn backward(
        &self,
        parameters: &[f32],
        common: &[f32],
        buffers: &mut PerceptronBuffers,
        gradient: &mut [f32],
        common_gradient: &mut [f32],
    ) {
        for (number, layer) in self.layers.iter().enumerate().rev() {
            let PerceptronBuffers {
                inputs,
                activations,
                gradient: dz,
                next_gradient: dx,
                ..
            } = buffers;
            let x = activations[..number].last().unwrap_or(inputs);
            if number + 1 < self.layers.len() {
                dense::rectifier_gradient(&activations[number].blocks, &mut dz.blocks);
            }
            // The weights of a layer come before its bias.
            let (until_bias, from_bias) = gradient.split_at_mut(layer.bias.start);
            let values = &mut until_bias[layer.weights.clone()];
            let bias_gradient = &mut from_bias[..layer.outputs];
            let weights = self.own_weights(number, &parameters[layer.weights.clone()]);
            let mut target = self.own_weights(number, values);
            dense::weight_gradient(&x.blocks, &dz.blocks, &mut target, bias_gradient);
            if number == 0 && self.common > 0 {
                self.common_gradients(parameters, common, gradient, common_gradient);
            }
            dx.reset_for_overwriting(x.samples, weights.inputs);
            dense::input_gradient(weights, layer.outputs, &dz.blocks, &mut dx.blocks);
            std::mem::swap(dz, dx);
        }
    }

    /// Computes the gradients of the first layer's weights of features in common and of these
    /// features. Both need the sum over all samples, which is the gradient of the bias.
    fn common_gradients(
        &self,
        parameters: &[f32],
        common: &[f32],
        gradient: &mut [f32],
        common_gradient: &mut [f32],
    ) {
        let layer = &self.layers[0];
        common_gradient.fill(0.0);
        for output in 0..layer.outputs {
            let sum = gradient[layer.bias.start + output];
            let start = layer.weights.start + output * layer.inputs;
            let row = start..start + self.common;
            for (gradient, feature) in gradient[row.clone()].iter_mut().zip(common) {
                *gradient = sum * feature;
            }
            dense::add_scaled(sum, &parameters[row], common_gradient);
        }
    }

    /// Returns the weights of each sample's own features in layer `number`, whose weights are
    /// `values`.
    fn own_weights<V>(&self, number: usize, values: V) -> Weights<V> {
        let layer = &self.layers[number];
        let first_input = if number == 0 { self.common } else { 0 };
        Weights {
            values,
            stride: layer.inputs,
            first_input,
            inputs: layer.inputs - first_input,
        }
    }
}
