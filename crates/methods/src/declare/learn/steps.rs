//! The steps of a participation that trains a network over rows of a table.

use super::super::Block;
use super::super::score::{Loss, Optimizer, Training};
use super::adapter::Adapting;
use super::contrast::Labelled;
use super::groups_of;
use super::pull::Pull;
use fedrecsim_core::Stream;
use fedrecsim_core::work::Work;
use fedrecsim_model::Model;
use fedrecsim_model::kernel::BatchRows;
use fedrecsim_model::neural::loss::binary_cross_entropy;
use fedrecsim_model::neural::optimizer::{AdamMoments, AdamSettings, sgd_step};
use fedrecsim_model::neural::{Perceptron, PerceptronBuffers, SampleMatrix};

/// Holds parameters that are stepped as `block` says, with their gradient and moments. If their
/// gradient is sent, no step is made.
pub(super) struct Group<'a> {
    pub values: Vec<f32>,
    pub gradient: Vec<f32>,
    moments: AdamMoments,
    pub block: &'a Block,
}

impl<'a> Group<'a> {
    pub(super) fn of(block: &'a Block, values: Vec<f32>) -> Self {
        Self {
            gradient: vec![0.0; values.len()],
            moments: AdamMoments::zeros(values.len()),
            values,
            block,
        }
    }

    fn step(&mut self, optimizer: Optimizer, step: u64) {
        let (rate, decay) = (self.block.rate, self.block.decay);
        let (values, gradient) = (&mut self.values, &self.gradient);
        match optimizer {
            _ if self.block.sends_gradient => {}
            Optimizer::Sgd => sgd_step(values, gradient, rate as f32, decay as f32),
            Optimizer::Adam => {
                let settings = AdamSettings {
                    weight_decay: decay,
                    ..AdamSettings::with_rate(rate)
                };
                self.moments.step(&settings, step, values, gradient);
            }
        }
    }
}

/// Says what is trained: a network over rows of a table, and perhaps something private beside it.
pub(super) struct Parts<'a> {
    pub network: &'a Perceptron,
    /// What is trained beside the network: the first private block, and the number of values.
    pub beside: Option<(&'static str, usize)>,
    pub table: &'static str,
    pub loss: Loss,
    /// The block that says how the network is stepped.
    pub of_weights: &'a Block,
    /// The number of parameters of the network, from the first on, that are stepped.
    pub stepped: usize,
}

/// A training under way: what is beside the network, the rows and the weights, and what moves them.
pub(super) struct Steps<'a> {
    parts: &'a Parts<'a>,
    optimizer: Optimizer,
    pub user: Group<'a>,
    pub rows: Group<'a>,
    pub weights: Group<'a>,
    pub pull: Option<Pull<'a>>,
    adapting: Option<Adapting<'a>>,
    contrast: Option<Labelled>,
    /// The number of steps so far.
    pub count: u64,
    pub work: Work,
    batch: BatchRows,
    buffers: PerceptronBuffers,
}

impl<'a> Steps<'a> {
    /// Begins with what is beside the network, its rows and its weights. The rows are those with the
    /// numbers `listed`, and `contrast` draws some of them together.
    pub(super) fn new(
        (parts, optimizer): (&'a Parts<'a>, Optimizer),
        [user, rows, weights]: [Group<'a>; 3],
        (model, listed, contrast): (&'a Model, &[u32], Option<Labelled>),
    ) -> Self {
        Self {
            parts,
            optimizer,
            pull: Pull::of(rows.block, model, listed),
            adapting: Adapting::of(rows.block, model, listed),
            contrast,
            user,
            rows,
            weights,
            count: 0,
            work: Work::default(),
            batch: BatchRows::default(),
            buffers: PerceptronBuffers::default(),
        }
    }

    /// Goes on after so many steps, with the moments that they have left of what is beside the network,
    /// of the rows and of the weights.
    pub(super) fn resume(&mut self, (count, moments): (u64, [AdamMoments; 3])) {
        self.count = count;
        [self.user.moments, self.rows.moments, self.weights.moments] = moments;
    }

    /// Returns the moments that [`Self::resume`] takes.
    pub(super) fn moments(&self) -> [&AdamMoments; 3] {
        [&self.user, &self.rows, &self.weights].map(|group| &group.moments)
    }

    /// Passes over the samples, and returns the mean loss.
    pub(super) fn run(
        &mut self,
        training: &Training,
        samples: &mut [(u32, bool)],
        order: &mut Stream,
    ) -> f64 {
        if self.parts.loss == Loss::BinaryCrossEntropy {
            return training.run(samples, order, |batch| self.step(batch));
        }
        let mut in_batch = Vec::new();
        training.run_groups(&mut groups_of(samples), order, |groups| {
            in_batch.clear();
            let groups = groups.iter().cloned();
            groups.for_each(|group| in_batch.extend_from_slice(&samples[group]));
            self.step(&in_batch)
        })
    }

    /// Makes the step of a batch, and returns its loss, as a sum.
    fn step(&mut self, samples: &[(u32, bool)]) -> f32 {
        self.count += 1;
        let distinct = self.rows.values.len() / self.dimension();
        self.batch.collect(samples, distinct as u32);
        let mut turns = [&self.user, &self.rows, &self.weights].map(|group| group.block.turn);
        turns.sort_unstable();
        let mut loss = 0.0;
        for turn in turns.chunk_by(|one, other| one == other) {
            loss = self.take(turn[0], samples);
        }
        loss
    }

    /// Steps the groups of a turn along the slopes that all values have now.
    fn take(&mut self, turn: u8, samples: &[(u32, bool)]) -> f32 {
        let (network, dimension) = (self.parts.network, self.dimension());
        let (user, rows) = (&self.user.values, &self.rows.values);
        let (batch, buffers) = (&self.batch, &mut self.buffers);
        let adapting = self.adapting.as_mut();
        let mut adapts = adapting.filter(|by| by.is_in(turn, self.user.block));
        match &mut adapts {
            Some(by) => by.forward(user, batch.rows(), rows, &mut buffers.inputs),
            None => buffers.inputs.gather(batch.rows(), rows, dimension),
        }
        network.forward(&self.weights.values, user, buffers);
        let loss = self.parts.loss;
        let loss = slopes_of(loss, samples, batch, buffers.outputs_and_gradient());
        let (by_weights, by_user) = (&mut self.weights.gradient, &mut self.user.gradient);
        network.backward(&self.weights.values, user, buffers, by_weights, by_user);
        by_weights[self.parts.stepped..].fill(0.0);
        if let Some(by) = &mut adapts {
            self.work.multiply_adds += by.backward(user, &mut buffers.gradient, by_user);
        }
        self.rows.gradient.fill(0.0);
        (buffers.gradient).scatter(batch.rows(), &mut self.rows.gradient);
        self.work.row_visits += batch.rows().len() as u64;
        self.work.multiply_adds += 3 * network.multiply_adds(batch.rows().len());
        self.add_to_all_rows(turn);
        for group in [&mut self.user, &mut self.weights, &mut self.rows] {
            if group.block.turn == turn {
                group.step(self.optimizer, self.count);
            }
        }
        loss
    }

    /// Adds the slopes of what moves every row of the table.
    fn add_to_all_rows(&mut self, turn: u8) {
        let all = self.rows.block.layout.shape.rows as u64;
        let (gradient, rows) = (&mut self.rows.gradient, &self.rows.values);
        if let Some(pull) = &self.pull {
            pull.add_to(gradient, rows);
            self.work.row_visits += all;
        }
        let contrast = self.contrast.as_ref();
        if let Some(contrast) = contrast.filter(|_| self.rows.block.turn == turn) {
            self.work.multiply_adds += contrast.add_to(gradient, rows);
            self.work.row_visits += all;
        }
    }

    fn dimension(&self) -> usize {
        self.rows.block.layout.shape.dimension
    }
}

/// Writes the derivatives of the mean `loss` of a batch with respect to the outputs for its distinct
/// rows, and returns the loss, as a sum. `samples` are whole groups, unless the loss is the binary
/// cross-entropy.
fn slopes_of(
    loss: Loss,
    samples: &[(u32, bool)],
    batch: &BatchRows,
    (outputs, by_outputs): (&SampleMatrix, &mut SampleMatrix),
) -> f32 {
    if loss == Loss::BinaryCrossEntropy {
        let mean = 1.0 / batch.occurrences as f32;
        return binary_cross_entropy(outputs, &batch.targets, mean, by_outputs);
    }
    let mut of_rows = vec![0.0; batch.rows().len()];
    let (mut scores, mut slopes) = (Vec::new(), Vec::new());
    let (mut total, mut terms) = (0.0, 0);
    for group in groups_of(samples) {
        // The rows of a batch ascend, and are all those of its samples.
        let rows = samples[group].iter();
        let numbers = rows.filter_map(|(row, _)| batch.rows().binary_search(row).ok());
        scores.clear();
        scores.extend(numbers.clone().map(|number| {
            let mut score = [0.0];
            outputs.read_sample(number, &mut score);
            score[0]
        }));
        let (of_group, count) = loss.of_group(&scores, &mut slopes);
        (total, terms) = (total + of_group, terms + count);
        for (number, slope) in numbers.zip(&slopes) {
            of_rows[number] += slope;
        }
    }
    let share = 1.0 / terms.max(1) as f32;
    by_outputs.reset(of_rows.len(), 1);
    for (number, slope) in of_rows.iter().enumerate() {
        by_outputs.set_sample(number, &[share * slope]);
    }
    total as f32
}
