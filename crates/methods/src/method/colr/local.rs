//! Trains one client of CoLR, on plain slices.

use super::ColrParameters;
use fedrecsim_core::math;
use fedrecsim_core::rng::Stream;
use fedrecsim_model::model::batch::RoundRows;
use fedrecsim_model::model::neural::dense::{add_scaled, dot};
use fedrecsim_model::model::neural::loss::binary_cross_entropy;
use fedrecsim_model::model::neural::{RowBatch, SampleMatrix};

/// Describes how a client trains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LocalSettings {
    /// The number of passes over the samples.
    pub epochs: u32,
    /// The number of samples in a batch.
    pub batch_size: usize,
    /// The learning rate of the user vector.
    pub user_rate: f32,
    /// The learning rate of A, with the factor that its gradient gets.
    pub factor_rate: f32,
}

impl LocalSettings {
    /// Returns the settings that follow from these parameters.
    pub(crate) fn of(p: &ColrParameters) -> Self {
        let factor = math::sqrt(f64::from(p.rank) / f64::from(p.latent_dimension));
        Self {
            epochs: p.local_epochs,
            batch_size: p.batch_size as usize,
            user_rate: p.learning_rate_user as f32,
            factor_rate: (p.learning_rate_items * factor) as f32,
        }
    }
}

/// Holds the parameters that a client trains.
#[derive(Debug)]
pub(crate) struct LocalModel<'a> {
    /// The user vector u (k values).
    pub user: &'a mut [f32],
    /// The rows V_j + A_j B of the participation's distinct items (k values each), in the order of
    /// [`RoundRows::rows`].
    pub rows: &'a mut [f32],
    /// Their rows A_j (r values each), which are zero at the start.
    pub factors: &'a mut [f32],
}

/// Holds what a training yielded, and its work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct LocalResult {
    /// The mean binary cross-entropy over all samples of all epochs, each batch before its step.
    pub loss: f64,
    /// The number of item rows read and written, one for each distinct row of a batch.
    pub row_visits: u64,
    /// The number of multiply-adds that the way through B takes.
    pub multiply_adds: u64,
}

/// Trains `model` on `samples` by mini-batches, with A B in the basis `basis` (r x k). If there is
/// more than one batch, `order` shuffles the samples.
///
/// u and A take one simultaneous step for each batch, along the gradient of the batch's mean binary
/// cross-entropy. With g_j = (p_j - y_j) / B, the gradients are the sum of g_j (V_j + A_j B) and
/// g_j B u. So V_j + A_j B moves along B^T B u, which is worked out once for a batch.
pub(crate) fn train(
    settings: &LocalSettings,
    basis: &[f32],
    samples: &mut RoundRows,
    order: &mut Stream,
    model: LocalModel<'_>,
) -> LocalResult {
    let LocalModel {
        user,
        rows,
        factors,
    } = model;
    let dimension = user.len();
    let rank = basis.len() / dimension;
    let (mut result, mut batch) = (LocalResult::default(), RowBatch::default());
    let (mut logits, mut by_logits) = (SampleMatrix::default(), SampleMatrix::default());
    for _ in 0..settings.epochs {
        if samples.samples().len() > settings.batch_size {
            samples.shuffle(order);
        }
        for chunk in samples.samples().chunks(settings.batch_size) {
            batch.collect(chunk, samples.rows().len());
            logits.reset(batch.rows().len(), 1);
            let row = |row: u32| row as usize * dimension..(row as usize + 1) * dimension;
            for (sample, &at) in batch.rows().iter().enumerate() {
                logits.set_sample(sample, &[dot(user, &rows[row(at)])]);
            }
            let mean = 1.0 / batch.occurrences() as f32;
            result.loss += f64::from(binary_cross_entropy(
                &logits,
                batch.targets(),
                mean,
                &mut by_logits,
            ));
            // B u, and B^T of it.
            let along: Vec<f32> = basis
                .chunks_exact(dimension)
                .map(|direction| dot(direction, user))
                .collect();
            let mut direction = vec![0.0; dimension];
            for (along, basis) in along.iter().zip(basis.chunks_exact(dimension)) {
                add_scaled(*along, basis, &mut direction);
            }
            for (sample, &at) in batch.rows().iter().enumerate() {
                let mut by_logit = [0.0];
                by_logits.read_sample(sample, &mut by_logit);
                let step = -settings.factor_rate * by_logit[0];
                add_scaled(-settings.user_rate * by_logit[0], &rows[row(at)], user);
                add_scaled(
                    step,
                    &along,
                    &mut factors[at as usize * rank..(at as usize + 1) * rank],
                );
                add_scaled(step, &direction, &mut rows[row(at)]);
            }
            let distinct = batch.rows().len() as u64;
            result.row_visits += distinct;
            result.multiply_adds += (2 * basis.len()) as u64 + distinct * rank as u64;
        }
    }
    result.loss /= samples.samples().len() as f64 * f64::from(settings.epochs);
    result
}
