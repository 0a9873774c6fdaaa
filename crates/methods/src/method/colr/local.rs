//! Trains one client of CoLR, on plain slices.

use super::Training;
use fedrecsim_core::rng::Stream;
use fedrecsim_core::work::Work;
use fedrecsim_model::model::batch::RoundRows;
use fedrecsim_model::model::neural::dense::{add_scaled, dot};
use fedrecsim_model::model::neural::loss::binary_cross_entropy;
use fedrecsim_model::model::neural::{RowBatch, SampleMatrix};

/// Describes how a client trains.
pub(super) struct Settings {
    pub training: Training,
    /// The learning rate of the user vector.
    pub user_rate: f32,
    /// The learning rate of A, with the factor that its gradient gets.
    pub factor_rate: f32,
}

/// Holds the parameters that a client trains.
pub(super) struct LocalModel<'a> {
    /// The user vector u (k values).
    pub user: &'a mut [f32],
    /// The rows V_j + A_j B of the participation's distinct items (k values each), in the order of
    /// [`RoundRows::rows`].
    pub rows: &'a mut [f32],
    /// Their rows A_j (r values each), which are zero at the start.
    pub factors: &'a mut [f32],
}

/// Trains `model` on `samples` by mini-batches, with A B in the basis `basis` (r x k). If there is
/// more than one batch, `order` shuffles the samples.
///
/// u and A take one simultaneous step for each batch, along the gradient of the batch's mean binary
/// cross-entropy. With g_j = (p_j - y_j) / B, the gradients are the sum of g_j (V_j + A_j B) and
/// g_j B u. So V_j + A_j B moves along B^T B u, which is worked out once for a batch.
///
/// Returns the mean loss and the work.
pub(super) fn train(
    settings: &Settings,
    basis: &[f32],
    samples: &mut RoundRows,
    order: &mut Stream,
    model: LocalModel<'_>,
) -> (f64, Work) {
    let LocalModel {
        user,
        rows,
        factors,
    } = model;
    let (dimension, distinct) = (user.len(), samples.rows().len());
    let rank = basis.len() / dimension;
    let (mut work, mut batch) = (Work::default(), RowBatch::default());
    let (mut logits, mut by_logits) = (SampleMatrix::default(), SampleMatrix::default());
    let loss = settings
        .training
        .run(samples.samples_mut(), order, |samples| {
            batch.collect(samples, distinct);
            logits.reset(batch.rows().len(), 1);
            let row = |row: u32| row as usize * dimension..(row as usize + 1) * dimension;
            for (sample, &at) in batch.rows().iter().enumerate() {
                logits.set_sample(sample, &[dot(user, &rows[row(at)])]);
            }
            let mean = 1.0 / batch.occurrences() as f32;
            let loss = binary_cross_entropy(&logits, batch.targets(), mean, &mut by_logits);
            // B u, and B^T of it.
            let directions = basis.chunks_exact(dimension);
            let along: Vec<f32> = directions.map(|direction| dot(direction, user)).collect();
            let mut direction = vec![0.0; dimension];
            for (along, basis) in along.iter().zip(basis.chunks_exact(dimension)) {
                add_scaled(*along, basis, &mut direction);
            }
            for (sample, &at) in batch.rows().iter().enumerate() {
                let mut by_logit = [0.0];
                by_logits.read_sample(sample, &mut by_logit);
                let step = -settings.factor_rate * by_logit[0];
                add_scaled(-settings.user_rate * by_logit[0], &rows[row(at)], user);
                let of_row = at as usize * rank..(at as usize + 1) * rank;
                add_scaled(step, &along, &mut factors[of_row]);
                add_scaled(step, &direction, &mut rows[row(at)]);
            }
            let distinct = batch.rows().len() as u64;
            work.row_visits += distinct;
            work.multiply_adds += (2 * basis.len()) as u64 + distinct * rank as u64;
            loss
        });
    (loss, work)
}
