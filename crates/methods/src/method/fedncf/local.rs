//! Trains one client of FedNCF, on plain slices.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use fedrecsim_core::rng::Stream;
use fedrecsim_model::model::batch::RoundRows;
use fedrecsim_model::model::neural::loss::binary_cross_entropy;
use fedrecsim_model::model::neural::optimizer::{AdamMoments, AdamSettings, AdamStep, sgd_step};
use fedrecsim_model::model::neural::{Perceptron, PerceptronBuffers, RowBatch};

/// How a client steps its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Optimizer {
    /// Stochastic gradient descent.
    Sgd,
    /// Adam; its moments start at zero in every participation, since a device keeps none.
    Adam,
}

/// Describes how a client trains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LocalSettings {
    /// The number of passes over the samples.
    pub epochs: u32,
    /// The number of samples in a batch.
    pub batch_size: usize,
    /// The optimiser of all parameters.
    pub optimizer: Optimizer,
    /// The learning rate of the user vector.
    pub user_rate: f64,
    /// The learning rate of the item rows.
    pub item_rate: f64,
    /// The learning rate of the network.
    pub network_rate: f64,
    /// Whether the item rows take their step after the user vector and the network, from the new
    /// ones, instead of at the same time.
    pub rows_last: bool,
}

/// Holds the parameters that a client trains, each as a slice.
#[derive(Debug)]
pub(crate) struct LocalModel<'a> {
    /// The user vector (k values).
    pub user: &'a mut [f32],
    /// The rows of the participation's distinct items (k values each), in the order of
    /// [`RoundRows::rows`].
    pub rows: &'a mut [f32],
    /// The parameters of the network. Its samples are item rows, and the user vector is the
    /// features that they share.
    pub network: &'a mut [f32],
}

/// Holds what a training yielded, and its work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct LocalResult {
    /// The mean binary cross-entropy over all samples of all epochs, each batch before its last
    /// step.
    pub loss: f64,
    /// The number of item rows read and written, one for each distinct row of a batch.
    pub row_visits: u64,
    /// The number of multiply-adds of all forward and backward passes.
    pub multiply_adds: u64,
}

/// Holds the buffers of a training. Nothing passes from one client to the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalBuffers {
    batch: RowBatch,
    network: PerceptronBuffers,
    user: Group,
    rows: Group,
    weights: Group,
}

/// Holds the gradient and the moments of parameters that have one learning rate.
#[derive(Clone, Debug, Default)]
struct Group {
    gradient: Vec<f32>,
    moments: AdamMoments,
}

impl Group {
    fn reset(&mut self, parameters: usize, optimizer: Optimizer) {
        self.gradient.clear();
        self.gradient.resize(parameters, 0.0);
        if optimizer == Optimizer::Adam {
            self.moments.reset(parameters);
        }
    }

    fn step(&mut self, parameters: &mut [f32], optimizer: Optimizer, rate: f64, step: u64) {
        match optimizer {
            Optimizer::Sgd => sgd_step(parameters, &self.gradient, rate as f32, 0.0),
            Optimizer::Adam => {
                AdamStep::new(&AdamSettings::with_rate(rate), step).apply(
                    parameters,
                    &self.gradient,
                    &mut self.moments,
                );
            }
        }
    }
}

/// Trains `model` on `samples` by mini-batches. If there is more than one batch, `order` shuffles
/// the samples.
///
/// All three groups of parameters take one simultaneous step for each batch, along the gradient of
/// the batch's mean binary cross-entropy, unless the item rows come last. Rows that are not in the
/// batch have a gradient of zero. Adam still moves those that it has moved before, as it does in
/// PyTorch with a dense embedding.
pub(crate) fn train(
    network: &Perceptron,
    settings: &LocalSettings,
    samples: &mut RoundRows,
    order: &mut Stream,
    mut model: LocalModel<'_>,
    buffers: &mut LocalBuffers,
) -> LocalResult {
    let LocalSettings { optimizer, .. } = *settings;
    buffers.user.reset(model.user.len(), optimizer);
    buffers.rows.reset(model.rows.len(), optimizer);
    buffers.weights.reset(model.network.len(), optimizer);
    let (mut result, mut step) = (LocalResult::default(), 0);
    // Which of score function and rows move, in one step after the other.
    let moves: &[[bool; 2]] = if settings.rows_last {
        &[[true, false], [false, true]]
    } else {
        &[[true, true]]
    };
    for _ in 0..settings.epochs {
        if samples.samples().len() > settings.batch_size {
            samples.shuffle(order);
        }
        for chunk in samples.samples().chunks(settings.batch_size) {
            step += 1;
            buffers.batch.collect(chunk, samples.rows().len());
            let mut loss = 0.0;
            for [moves_function, moves_rows] in moves {
                loss = buffers.differentiate(network, &model);
                let LocalModel {
                    user,
                    rows,
                    network: weights,
                } = &mut model;
                if *moves_function {
                    buffers.user.step(user, optimizer, settings.user_rate, step);
                    buffers
                        .weights
                        .step(weights, optimizer, settings.network_rate, step);
                }
                if *moves_rows {
                    buffers.rows.step(rows, optimizer, settings.item_rate, step);
                }
                result.row_visits += buffers.batch.rows().len() as u64;
                result.multiply_adds += 3 * network.multiply_adds(buffers.batch.rows().len());
            }
            result.loss += f64::from(loss);
        }
    }
    result.loss /= samples.samples().len() as f64 * f64::from(settings.epochs);
    result
}

impl LocalBuffers {
    /// Finds the gradients of the batch's mean binary cross-entropy, and returns its sum.
    fn differentiate(&mut self, network: &Perceptron, model: &LocalModel<'_>) -> f32 {
        let (batch, user) = (&self.batch, &*model.user);
        batch.gather(model.rows, user.len(), self.network.inputs_mut());
        network.forward(model.network, user, &mut self.network);
        let (logits, gradient) = self.network.outputs_and_gradient();
        let loss = binary_cross_entropy(
            logits,
            batch.targets(),
            1.0 / batch.occurrences() as f32,
            gradient,
        );
        let (of_weights, of_user) = (&mut self.weights.gradient, &mut self.user.gradient);
        network.backward(model.network, user, &mut self.network, of_weights, of_user);
        self.rows.gradient.fill(0.0);
        batch.scatter(self.network.input_gradient(), &mut self.rows.gradient);
        loss
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedrecsim_core::rng::{PortableDraws, Purpose, Streams};

    const DIMENSION: usize = 4;

    struct Model {
        user: Vec<f32>,
        items: Vec<f32>,
        network: Vec<f32>,
    }

    fn start(network: &Perceptron, items: usize) -> Model {
        let mut stream = Streams::new(5).stream(Purpose::PrivateInit, 0, 0);
        let mut draw = |count: usize| {
            (0..count)
                .map(|_| stream.standard_normal() as f32 * 0.3)
                .collect::<Vec<f32>>()
        };
        Model {
            user: draw(DIMENSION),
            items: draw(items * DIMENSION),
            network: draw(network.parameters()),
        }
    }

    /// Returns samples of forty items, of which every third is a positive and item 0 occurs twice.
    fn samples() -> RoundRows {
        let items: Vec<u32> = (0..40).chain([0]).collect();
        let labels: Vec<f32> = items.iter().map(|item| f32::from(item % 3 == 0)).collect();
        let mut rows = RoundRows::default();
        rows.collect(&items, &labels, 50);
        rows
    }

    fn train_on(settings: &LocalSettings, model: &mut Model) -> LocalResult {
        let network = Perceptron::new(DIMENSION, &[DIMENSION, 8, 4, 1]);
        let mut order = Streams::new(1).stream(Purpose::Shuffle, 0, 0);
        let Model {
            user,
            items,
            network: weights,
        } = model;
        let local = LocalModel {
            user,
            rows: items,
            network: weights,
        };
        train(
            &network,
            settings,
            &mut samples(),
            &mut order,
            local,
            &mut LocalBuffers::default(),
        )
    }

    fn settings(optimizer: Optimizer, rate: f64) -> LocalSettings {
        let (user_rate, item_rate, network_rate) = (rate, rate, rate);
        LocalSettings {
            epochs: 1,
            batch_size: 100,
            optimizer,
            user_rate,
            item_rate,
            network_rate,
            rows_last: false,
        }
    }

    /// If this fails, a client does not learn from its own samples.
    #[test]
    fn training_lowers_the_loss_under_both_optimizers() {
        for (optimizer, rate) in [(Optimizer::Sgd, 0.5), (Optimizer::Adam, 0.01)] {
            let mut model = start(&Perceptron::new(DIMENSION, &[DIMENSION, 8, 4, 1]), 40);
            let before = train_on(&settings(optimizer, 0.0), &mut model).loss;
            let trained = LocalSettings {
                epochs: 200,
                batch_size: 16,
                ..settings(optimizer, rate)
            };
            train_on(&trained, &mut model);
            let after = train_on(&settings(optimizer, 0.0), &mut model).loss;
            assert!(after < 0.5 * before, "{optimizer:?}: {before} to {after}");
        }
    }

    /// If this fails, a learning rate is used for other parameters than its own, or work is counted
    /// wrongly.
    #[test]
    fn each_rate_moves_its_own_parameters() {
        let network = Perceptron::new(DIMENSION, &[DIMENSION, 8, 4, 1]);
        for moved in 0..3 {
            let mut model = start(&network, 40);
            let before = start(&network, 40);
            let rate = |group: usize| if group == moved { 0.1 } else { 0.0 };
            let settings = LocalSettings {
                user_rate: rate(0),
                item_rate: rate(1),
                network_rate: rate(2),
                ..settings(Optimizer::Sgd, 0.0)
            };
            let result = train_on(&settings, &mut model);
            assert_eq!(
                result.row_visits, 40,
                "item 0 is one row although it occurs twice"
            );
            assert_eq!(result.multiply_adds, 3 * network.multiply_adds(40));
            assert_eq!(model.user != before.user, moved == 0);
            assert_eq!(model.items != before.items, moved == 1);
            assert_eq!(model.network != before.network, moved == 2);
        }
    }

    /// If this fails, dual personalisation tunes the rows for a score function that is not the
    /// user's any more.
    #[test]
    fn rows_that_come_last_are_stepped_from_the_new_score_function() {
        let network = Perceptron::new(DIMENSION, &[DIMENSION, 8, 4, 1]);
        let at_once = settings(Optimizer::Sgd, 0.1);
        let (mut together, mut apart) = (start(&network, 40), start(&network, 40));
        let result = train_on(
            &LocalSettings {
                rows_last: true,
                ..at_once
            },
            &mut together,
        );
        let of_function = train_on(
            &LocalSettings {
                item_rate: 0.0,
                ..at_once
            },
            &mut apart,
        );
        let of_rows = train_on(
            &LocalSettings {
                user_rate: 0.0,
                network_rate: 0.0,
                ..at_once
            },
            &mut apart,
        );
        assert_eq!(
            [&together.user, &together.items, &together.network],
            [&apart.user, &apart.items, &apart.network]
        );
        assert_eq!(result.loss, of_rows.loss);
        assert_eq!(
            result.row_visits,
            of_function.row_visits + of_rows.row_visits
        );
        assert_eq!(
            result.multiply_adds,
            of_function.multiply_adds + of_rows.multiply_adds
        );
    }

    /// If this fails, a training depends on the one that used the buffers before.
    #[test]
    fn buffers_carry_nothing_from_one_client_to_the_next() {
        let network = Perceptron::new(DIMENSION, &[DIMENSION, 8, 4, 1]);
        let settings = LocalSettings {
            epochs: 3,
            batch_size: 7,
            ..settings(Optimizer::Adam, 0.01)
        };
        let mut used = LocalBuffers::default();
        let mut trained = || {
            let mut model = start(&network, 40);
            let mut order = Streams::new(1).stream(Purpose::Shuffle, 0, 0);
            let Model {
                user,
                items,
                network: weights,
            } = &mut model;
            let local = LocalModel {
                user,
                rows: items,
                network: weights,
            };
            let result = train(
                &network,
                &settings,
                &mut samples(),
                &mut order,
                local,
                &mut used,
            );
            (result, model.items, model.user, model.network)
        };
        assert_eq!(trained(), trained());
    }
}
