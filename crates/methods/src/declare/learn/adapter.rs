//! Moves the rows of a device's own item table towards those that it has received.

use crate::declare::{Block, GoesOn};
use fedrecsim_core::math;
use fedrecsim_model::kernel::felt_slope;
use fedrecsim_model::neural::{Perceptron, PerceptronBuffers, SampleMatrix};
use fedrecsim_model::{Model, Table};

/// Says how a row of a device's own moves towards the one that it has received: by the share of the
/// way that a private network makes of the row and the way, between none and all of it.
#[derive(Clone, Debug)]
pub(crate) struct Adapter {
    /// The network, whose blocks are declared as private.
    pub network: Perceptron,
    /// Whether a device scores with moved rows while it trains, so that their slopes pass through
    /// the network. Otherwise the network alone learns from moved rows.
    pub moves_training: bool,
}

/// The table that a device has received, in the model that it trains on.
pub(crate) const RECEIVED: &str = "G";

impl Adapter {
    /// Returns a device's whole table after the move, by a network with these weights.
    pub(crate) fn moved(&self, weights: &[f32], mut own: Table, received: &Table) -> Table {
        let rows: Vec<u32> = (0..own.shape().rows as u32).collect();
        let dimension = own.shape().dimension;
        let mut adapting = Adapting::new(self, received.as_slice().to_vec(), dimension);
        let mut moved = SampleMatrix::default();
        adapting.forward(weights, &rows, own.as_slice(), &mut moved);
        moved.scatter(&rows, own.as_mut_slice());
        own
    }
}

/// Moves the rows of a batch.
pub(super) struct Adapting<'a> {
    adapter: &'a Adapter,
    /// The received rows, one after the other, with this number of values each.
    received: Vec<f32>,
    dimension: usize,
    buffers: PerceptronBuffers,
    /// The share of its way that each row of the batch has gone.
    shares: Vec<f32>,
}

impl<'a> Adapting<'a> {
    fn new(adapter: &'a Adapter, received: Vec<f32>, dimension: usize) -> Self {
        Self {
            adapter,
            received,
            dimension,
            buffers: PerceptronBuffers::default(),
            shares: Vec::new(),
        }
    }

    /// Returns what `block` declares for a participation that trains these rows; `None` if it declares
    /// nothing, or the device has received nothing.
    pub(super) fn of(block: &'a Block, model: &Model, rows: &[u32]) -> Option<Self> {
        let Some(GoesOn::Adapted(adapter)) = &block.goes_on else {
            return None;
        };
        let received = model.named(RECEIVED)?;
        let dimension = received.shape().dimension;
        Some(Self::new(adapter, received.gathered(rows), dimension))
    }

    /// Returns the number of parameters of what [`Self::of`] returns.
    pub(super) fn parameters(block: &Block, model: &Model) -> Option<usize> {
        let adapting = Adapting::of(block, model, &[])?;
        Some(adapting.adapter.network.parameters())
    }

    /// Returns whether rows are moved in this turn of a batch. The network has that of `block`.
    pub(super) fn is_in(&self, turn: u8, block: &Block) -> bool {
        self.adapter.moves_training || turn == block.turn
    }

    /// Fills `moved` with these rows of `own` after the move.
    pub(super) fn forward(
        &mut self,
        weights: &[f32],
        rows: &[u32],
        own: &[f32],
        moved: &mut SampleMatrix,
    ) {
        let k = self.dimension;
        let mut row_and_way = vec![0.0; 2 * k];
        self.buffers.inputs.reset(rows.len(), 2 * k);
        for (sample, row) in rows.iter().enumerate() {
            let values = *row as usize * k..(*row as usize + 1) * k;
            let (row, way) = row_and_way.split_at_mut(k);
            row.copy_from_slice(&own[values.clone()]);
            let ends = row.iter().zip(&self.received[values]);
            let ways = way.iter_mut().zip(ends);
            ways.for_each(|(way, (from, to))| *way = to - from);
            self.buffers.inputs.set_sample(sample, &row_and_way);
        }
        let network = &self.adapter.network;
        network.forward(weights, &[], &mut self.buffers);
        self.shares.clear();
        moved.reset(rows.len(), k);
        for sample in 0..rows.len() {
            let mut logit = [0.0];
            let (outputs, _) = self.buffers.outputs_and_gradient();
            outputs.read_sample(sample, &mut logit);
            let share = (1.0 / (1.0 + math::exp(-f64::from(logit[0])))) as f32;
            self.shares.push(share);
            self.buffers.inputs.read_sample(sample, &mut row_and_way);
            let (row, way) = row_and_way.split_at_mut(k);
            let values = row.iter_mut().zip(way);
            values.for_each(|(value, way)| *value += share * *way);
            moved.set_sample(sample, row);
        }
    }

    /// Takes `gradient`, which is that of the moved rows of [`Self::forward`], back to the rows of the
    /// device's own, and replaces `by_weights` by that of the network. Returns the number of
    /// multiply-adds of both passes.
    pub(super) fn backward(
        &mut self,
        weights: &[f32],
        gradient: &mut SampleMatrix,
        by_weights: &mut [f32],
    ) -> u64 {
        let k = self.dimension;
        let (mut by_moved, mut row_and_way) = (vec![0.0; k], vec![0.0; 2 * k]);
        let mut slopes = Vec::with_capacity(self.shares.len());
        for (sample, share) in self.shares.iter().enumerate() {
            gradient.read_sample(sample, &mut by_moved);
            self.buffers.inputs.read_sample(sample, &mut row_and_way);
            let products = by_moved.iter().zip(&row_and_way[k..]);
            let by_share: f32 = products.map(|(slope, way)| slope * way).sum();
            slopes.push(felt_slope(by_share * share * (1.0 - share)));
        }
        let (_, by_outputs) = self.buffers.outputs_and_gradient();
        by_outputs.reset(slopes.len(), 1);
        for (sample, slope) in slopes.iter().enumerate() {
            by_outputs.set_sample(sample, &[*slope]);
        }
        let network = &self.adapter.network;
        network.backward(weights, &[], &mut self.buffers, by_weights, &mut []);
        for (sample, share) in self.shares.iter().enumerate() {
            gradient.read_sample(sample, &mut by_moved);
            self.buffers.gradient.read_sample(sample, &mut row_and_way);
            let (by_row, by_way) = row_and_way.split_at(k);
            for ((slope, by_row), by_way) in by_moved.iter_mut().zip(by_row).zip(by_way) {
                *slope = (1.0 - share) * *slope + by_row - by_way;
            }
            gradient.set_sample(sample, &by_moved);
        }
        3 * network.multiply_adds(slopes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedrecsim_core::math::gradient::numeric_gradient;

    fn assert_close(found: &[f32], expected: &[f64]) {
        let mut pairs = found.iter().zip(expected);
        let is_close = pairs.all(|(a, b)| (f64::from(*a) - b).abs() < 1e-5);
        assert!(
            is_close && found.len() == expected.len(),
            "{found:?}, not {expected:?}"
        );
    }

    /// Moves row 1 of two, and returns it with the gradients of the row and of the weights, where
    /// the moved row has this gradient.
    fn move_one(
        network: Perceptron,
        weights: &[f32],
        [own, received, by_moved]: [&[f32]; 3],
    ) -> [Vec<f32>; 3] {
        let adapter = Adapter {
            network,
            moves_training: true,
        };
        let k = own.len() / 2;
        let mut adapting = Adapting::new(&adapter, received.to_vec(), k);
        let (mut moved, mut gradient) = (SampleMatrix::default(), SampleMatrix::default());
        adapting.forward(weights, &[1], own, &mut moved);
        gradient.reset(1, k);
        gradient.set_sample(0, by_moved);
        let mut by_weights = vec![0.0; weights.len()];
        adapting.backward(weights, &mut gradient, &mut by_weights);
        let [mut row, mut by_row] = [vec![0.0; k], vec![0.0; k]];
        moved.read_sample(0, &mut row);
        gradient.read_sample(0, &mut by_row);
        [row, by_row, by_weights]
    }

    /// If this fails, a row moves by another share of its way than the network says, or the network
    /// learns from something else.
    #[test]
    fn a_row_moves_as_in_the_example() {
        let network = || Perceptron::new(0, &[2, 1]);
        let rows = |by_moved: &'static [f32]| [&[9.0, 0.4], &[9.0, 1.0], by_moved];
        // The slope of the loss at p = .579420, times u = .5.
        let [row, _, by_weights] = move_one(network(), &[0.5, -1.0, 0.0], rows(&[-0.210_290]));
        assert_close(&row, &[0.640_787]);
        assert_close(&by_weights, &[-0.012_126, -0.018_189, -0.030_315]);
        let p = 1.0 / (1.0 + math::exp(-0.5 * 0.670_100));
        let by_moved: &[f32] = &[(0.5 * (p - 1.0)) as f32];
        let rows: [&[f32]; 3] = [&[9.0, 0.4], &[9.0, 1.0], by_moved];
        let [row, by_row, _] = move_one(network(), &[0.6, -0.9, 0.1], rows);
        assert_close(&row, &[0.670_100]);
        assert_close(&by_row, &[-0.161_092]);
    }

    /// If this fails, a device steps elsewhere than down its loss.
    #[test]
    fn gradients_are_those_of_differences() {
        let network = Perceptron::new(0, &[4, 3, 1]);
        let weights: Vec<f64> = (0..19)
            .map(|at| f64::from(at * 7 % 11) / 8.0 - 0.5)
            .collect();
        let (own, received, by_moved) = ([0.4, -0.7], [1.0, 0.5], [0.3, -1.2]);
        let loss = |at: &[f64]| {
            let (row, weights) = at.split_at(2);
            let inputs = [row[0], row[1], received[0] - row[0], received[1] - row[1]];
            let hidden = |unit: usize| {
                let products = inputs.iter().zip(&weights[4 * unit..]).map(|(a, b)| a * b);
                f64::max(products.sum::<f64>() + weights[12 + unit], 0.0)
            };
            let logit: f64 = (0..3).map(|unit| hidden(unit) * weights[15 + unit]).sum();
            let share = 1.0 / (1.0 + math::exp(-logit - weights[18]));
            let moved = |at: usize| row[at] + share * (received[at] - row[at]);
            by_moved[0] * moved(0) + by_moved[1] * moved(1)
        };
        let expected = numeric_gradient(&[&own[..], &weights].concat(), loss);
        let narrow = |values: &[f64]| -> Vec<f32> { values.iter().map(|x| *x as f32).collect() };
        let behind = |row: &[f64]| [vec![9.0, 9.0], narrow(row)].concat();
        let rows = [behind(&own), behind(&received), narrow(&by_moved)];
        let [_, by_row, by_weights] = move_one(
            network,
            &narrow(&weights),
            rows.each_ref().map(Vec::as_slice),
        );
        assert_close(&by_row, &expected[..2]);
        assert_close(&by_weights, &expected[2..]);
    }
}
