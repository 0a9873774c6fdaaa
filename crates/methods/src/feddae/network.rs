//! Encodes the items of a user, decodes scores of all items, and goes back.

use super::objective::{Slopes, divergence, mixed, multinomial};
use crate::choices;
use crate::prelude::*;
use fedrecsim_model::neural::Layer;
use fedrecsim_model::neural::dense::add_scaled;

/// The blocks of each layer, its weights and its bias, in the order of the flat parameters: the encoders
/// L and E, the gate G and the decoder D.
const LAYERS: [[&str; 2]; 11] = [
    ["L1", "l1"],
    ["L2", "l2"],
    ["L3", "l3"],
    ["E1", "e1"],
    ["E2", "e2"],
    ["E3", "e3"],
    ["G1", "g1"],
    ["G2", "g2"],
    ["D1", "d1"],
    ["D2", "d2"],
    ["D3", "d3"],
];

/// The layers that read items. Their weights have a row for each item, and not one for each output.
const FIRST: [usize; 3] = [0, 3, GATE];
const GATE: usize = 6;
const DECODER: usize = 8;

choices! {
    /// Which encoders count.
    pub(crate) enum Encoders {
        /// Both, as the gate says.
        Both,
        /// E alone.
        Global,
        /// L alone.
        Local,
    }
}

/// The widths of the layers.
pub(super) struct Widths {
    pub latent: usize,
    pub outer: usize,
    pub inner: usize,
    pub gate: usize,
}

/// The layers of a device, with the places of their parameters in one flat slice.
pub(super) struct Network {
    pub layers: Vec<Layer>,
    encoders: Encoders,
}

/// What chance decides in a pass.
pub(super) struct Drawn {
    /// The inputs of each encoder.
    pub inputs: [Vec<f32>; 2],
    /// The factors of the units of the gate.
    pub units: Vec<f32>,
    /// The standard normal noise of each encoder.
    pub noise: [Vec<f32>; 2],
}

impl Drawn {
    /// Leaves nothing out, and has no noise.
    fn nothing(network: &Network) -> Self {
        let own = network.layers[0].inputs;
        let share = 1.0 / math::sqrt(own.max(1) as f64);
        Self {
            inputs: [(); 2].map(|()| vec![share as f32; own]),
            units: vec![1.0; network.layers[GATE].outputs],
            noise: [(); 2].map(|()| vec![0.0; network.layers[DECODER].inputs]),
        }
    }

    /// Leaves out this share, and makes the rest larger by as much.
    pub(super) fn of(network: &Network, dropout: f64, stream: &mut Stream) -> Self {
        let mut drawn = Self::nothing(network);
        let larger = (1.0 / (1.0 - dropout)) as f32;
        let thinned = drawn.inputs.iter_mut().chain([&mut drawn.units]);
        for value in thinned.flatten() {
            let is_kept = stream.open_unit() >= dropout;
            *value *= if is_kept { larger } else { 0.0 };
        }
        for noise in drawn.noise.iter_mut().flatten() {
            *noise = stream.standard_normal() as f32;
        }
        drawn
    }
}

/// What a pass computes on its way to the scores.
struct Forward {
    /// The values of the layers of each encoder behind its first, of which the last are its outputs.
    encoded: [Vec<Vec<f32>>; 2],
    /// The units of the gate as its second layer reads them, and the weights of the encoders.
    units: Vec<f32>,
    weights: [f32; 2],
    /// What each encoder has drawn.
    latent: [Vec<f32>; 2],
    /// What the decoder reads.
    mixture: Vec<f32>,
}

impl Network {
    /// Makes the network for so many items, of which the user has `own`.
    pub(super) fn new(widths: &Widths, items: usize, own: usize, encoders: Encoders) -> Self {
        let Widths {
            latent,
            outer,
            inner,
            gate,
        } = *widths;
        let encoder = [(own, outer), (outer, inner), (inner, 2 * latent)];
        let of_gate = [(own, gate), (gate, 2)];
        let decoder = [(latent, inner), (inner, outer), (outer, items)];
        let mut end = 0;
        let pairs = [&encoder[..], &encoder, &of_gate, &decoder].concat();
        let layers = pairs.into_iter().map(|(inputs, outputs)| {
            let layer = Layer::at(end, inputs, outputs);
            end = layer.bias.end;
            layer
        });
        Self {
            layers: layers.collect(),
            encoders,
        }
    }

    /// Returns the blocks of the layers, for a device that has all items.
    pub(super) fn blocks(&self) -> Vec<Block> {
        let layers = self.layers.iter().zip(LAYERS).enumerate();
        let of_layer = layers.map(|(number, (layer, [name, of_bias]))| {
            let Layer {
                inputs, outputs, ..
            } = *layer;
            let start = uniform(1.0 / math::sqrt(inputs as f64));
            let (block, bias) = if number + 1 == LAYERS.len() {
                let table = item_table(name, outputs, inputs as u32);
                (table, item_table(of_bias, outputs, 1))
            } else if FIRST.contains(&number) {
                let table = item_table(name, inputs, outputs as u32).of_own_items();
                (table, vector(of_bias, outputs as u32))
            } else {
                let table = weights(name, outputs, inputs);
                (table, vector(of_bias, outputs as u32))
            };
            [block, bias].map(|block| block.start(start.clone()))
        });
        of_layer.flatten().collect()
    }

    /// Returns the multiply-adds of a pass forwards.
    pub(super) fn multiply_adds(&self) -> u64 {
        let each = self.layers.iter().map(|layer| layer.weights.len() as u64);
        each.sum()
    }

    /// Returns the last hidden units of the decoder, whose products with the last layer are the scores.
    pub(super) fn user_vector(&self, parameters: &[f32]) -> Vec<f32> {
        let found = self.forward(parameters, &Drawn::nothing(self));
        let hidden = &self.layers[DECODER..LAYERS.len() - 1];
        let mut units = chain(hidden, parameters, found.mixture).pop();
        units.iter_mut().for_each(|units| bend(units));
        units.unwrap_or_default()
    }

    /// Adds the gradient of the loss of a user of `items` (ascending), and returns the loss.
    pub(super) fn add_gradient(
        &self,
        (parameters, items): (&[f32], &[u32]),
        drawn: &Drawn,
        beta: f32,
        gradient: &mut [f32],
    ) -> f64 {
        let found = self.forward(parameters, drawn);
        let outputs = [0, 1].map(|of| &found.encoded[of][2][..]);
        let (mean, variance) = mixed(found.weights, outputs);
        let decoder = &self.layers[DECODER..];
        let decoded = chain(decoder, parameters, found.mixture.clone());
        let (mut loss, slopes) = multinomial(&decoded[3], items);
        loss += f64::from(beta) * divergence(&mean, &variance);
        let slopes = Slopes {
            latent: back(decoder, parameters, (&decoded, slopes), gradient),
            mean: mean.iter().map(|mean| beta * mean).collect(),
            variance: (variance.iter())
                .map(|variance| 0.5 * beta * (1.0 - 1.0 / variance))
                .collect(),
        };
        let mut of_weights = [0.0; 2];
        for (of, weight) in found.weights.into_iter().enumerate() {
            let encoder = (outputs[of], &found.latent[of][..]);
            let (of_outputs, of_weight) = slopes.of_encoder(weight, encoder);
            of_weights[of] = of_weight;
            let layers = &self.layers[3 * of..3 * of + 3];
            let values = (&found.encoded[of][..], of_outputs);
            let mut of_units = back(&layers[1..], parameters, values, gradient);
            unbend(&found.encoded[of][0], &mut of_units);
            rows_back(&layers[0], &drawn.inputs[of], &of_units, gradient);
        }
        if self.encoders == Encoders::Both {
            self.gate_back((parameters, &found), of_weights, drawn, gradient);
        }
        loss
    }

    fn forward(&self, parameters: &[f32], drawn: &Drawn) -> Forward {
        let encoded = [0, 1].map(|of| {
            let layers = &self.layers[3 * of..3 * of + 3];
            let mut units = rows_forward(&layers[0], parameters, &drawn.inputs[of]);
            bend(&mut units);
            chain(&layers[1..], parameters, units)
        });
        let ones = vec![1.0; self.layers[GATE].inputs];
        let mut units = rows_forward(&self.layers[GATE], parameters, &ones);
        for (unit, factor) in units.iter_mut().zip(&drawn.units) {
            *unit = if *unit < 0.0 { 0.0 } else { *unit * factor };
        }
        let weights = match self.encoders {
            Encoders::Both => {
                let logits = self.layers[GATE + 1].forward_one(parameters, &units);
                let share = 1.0 / (1.0 + math::exp(logits[1] - logits[0]));
                [share, 1.0 - share]
            }
            Encoders::Global => [0.0, 1.0],
            Encoders::Local => [1.0, 0.0],
        };
        let latent = [0, 1].map(|of| {
            let outputs = &encoded[of][2];
            let (mean, log) = outputs.split_at(outputs.len() / 2);
            let drawn = mean.iter().zip(log).zip(&drawn.noise[of]);
            let drawn = drawn.map(|((mean, log), noise)| mean + noise * math::exp(0.5 * log));
            drawn.collect::<Vec<f32>>()
        });
        let both = latent[0].iter().zip(&latent[1]);
        let mixture = both.map(|(local, global)| weights[0] * local + weights[1] * global);
        Forward {
            mixture: mixture.collect(),
            encoded,
            units,
            weights,
            latent,
        }
    }

    /// Goes back through the gate, where the loss has these slopes for the weights.
    fn gate_back(
        &self,
        (parameters, found): (&[f32], &Forward),
        of_weights: [f32; 2],
        drawn: &Drawn,
        gradient: &mut [f32],
    ) {
        let [local, global] = found.weights;
        let slope = local * global * (of_weights[0] - of_weights[1]);
        let mut of_units = vec![0.0; found.units.len()];
        let second = &self.layers[GATE + 1];
        second.backward_one(
            parameters,
            &found.units,
            &[slope, -slope],
            gradient,
            &mut of_units,
        );
        for ((of_unit, unit), factor) in of_units.iter_mut().zip(&found.units).zip(&drawn.units) {
            *of_unit = if *unit > 0.0 { *of_unit * factor } else { 0.0 };
        }
        let first = &self.layers[GATE];
        rows_back(first, &vec![1.0; first.inputs], &of_units, gradient);
    }
}

/// Takes the tanh of all values.
fn bend(values: &mut [f32]) {
    values
        .iter_mut()
        .for_each(|value| *value = math::tanh(f64::from(*value)) as f32);
}

/// Turns slopes for the tanh of something, which are `values`, into slopes for it.
fn unbend(values: &[f32], slopes: &mut [f32]) {
    let both = slopes.iter_mut().zip(values);
    both.for_each(|(slope, value)| *slope *= 1.0 - value * value);
}

/// Returns `x` and the values of each layer, which are bent but for those of the last.
fn chain(layers: &[Layer], parameters: &[f32], x: Vec<f32>) -> Vec<Vec<f32>> {
    let mut values = vec![x];
    for (number, layer) in layers.iter().enumerate() {
        let mut next = layer.forward_one(parameters, &values[number]);
        if number + 1 < layers.len() {
            bend(&mut next);
        }
        values.push(next);
    }
    values
}

/// Goes back through the layers of [`chain`] from the slopes of the last values, adds the gradient, and
/// returns the slopes of the first values.
fn back(
    layers: &[Layer],
    parameters: &[f32],
    (values, mut slopes): (&[Vec<f32>], Vec<f32>),
    gradient: &mut [f32],
) -> Vec<f32> {
    for (number, layer) in layers.iter().enumerate().rev() {
        if number + 1 < layers.len() {
            unbend(&values[number + 1], &mut slopes);
        }
        let mut before = vec![0.0; layer.inputs];
        layer.backward_one(parameters, &values[number], &slopes, gradient, &mut before);
        slopes = before;
    }
    slopes
}

/// Returns the bias of a layer plus the rows of its inputs, each times the input.
fn rows_forward(layer: &Layer, parameters: &[f32], x: &[f32]) -> Vec<f32> {
    let mut sums = parameters[layer.bias.clone()].to_vec();
    let rows = parameters[layer.weights.clone()].chunks_exact(layer.outputs);
    x.iter()
        .zip(rows)
        .for_each(|(x, row)| add_scaled(*x, row, &mut sums));
    sums
}

/// Adds the gradient of a layer whose outputs have these slopes.
fn rows_back(layer: &Layer, x: &[f32], slopes: &[f32], gradient: &mut [f32]) {
    add_scaled(1.0, slopes, &mut gradient[layer.bias.clone()]);
    let rows = gradient[layer.weights.clone()].chunks_exact_mut(layer.outputs);
    x.iter()
        .zip(rows)
        .for_each(|(x, row)| add_scaled(*x, slopes, row));
}
