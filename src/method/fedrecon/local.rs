//! One client's participation in FedRecon, on plain slices: the user vector is reconstructed, then the table is trained.

use crate::model::kernel::logistic::{self, BatchRows, LogisticStep, Target};
use crate::model::kernel::{PackedRows, packed_vector, unpack_into};
use crate::rng::{PortableDraws, Stream};

/// How a client reconstructs and trains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LocalSettings {
    /// Passes over the support samples, in which only the user vector moves.
    pub reconstruction_epochs: u32,
    /// Passes over the query samples, in which only the item rows move.
    pub epochs: u32,
    /// Samples in a batch.
    pub batch_size: usize,
    /// Learning rate of the user vector.
    pub reconstruction_rate: f32,
    /// Learning rate of the item rows.
    pub item_rate: f32,
    /// The fresh user vector is uniform between minus this and this.
    pub reach: f64,
}

/// What a participation cost and yielded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LocalResult {
    /// The user vector that was reconstructed.
    pub user: Vec<f32>,
    /// Mean binary cross-entropy over the query samples of all epochs, each batch before its step.
    pub loss: f64,
    /// Number of query samples: the weight of this client's update.
    pub query_samples: usize,
    /// Item rows read or written, one for each distinct row in a batch.
    pub row_visits: u64,
}

/// Reconstructs the user vector from `support`: SGD on the mean binary cross-entropy of each batch, from a fresh uniform
/// draw, with the item rows held fixed. Returns it with the rows visited.
///
/// Samples are positions in `rows` with their labels; the row after the last item's must be zero and belong to no item.
pub fn reconstruct(
    settings: &LocalSettings,
    dimension: usize,
    rows: &mut PackedRows,
    padding_row: u32,
    support: &mut [(u32, bool)],
    batch: &mut BatchRows,
    stream: &mut Stream,
) -> (Vec<f32>, u64) {
    let mut draw = || ((2.0 * stream.open_unit() - 1.0) * settings.reach) as f32;
    let mut user: Vec<f32> = (0..dimension).map(|_| draw()).collect();
    let step = LogisticStep {
        target: Target::Vector,
        vector_rate: settings.reconstruction_rate,
        bias_rate: 0.0,
        row_rate: 0.0,
        weight_decay: 0.0,
    };
    let (mut packed, mut no_bias, mut row_visits) = (packed_vector(&user), 0.0, 0);
    for _ in 0..settings.reconstruction_epochs {
        if support.len() > settings.batch_size {
            stream.shuffle_portably(support);
        }
        for chunk in support.chunks(settings.batch_size) {
            batch.collect(chunk, padding_row);
            logistic::step(rows, batch, &mut packed, &mut no_bias, &step);
            row_visits += batch.distinct() as u64;
        }
    }
    unpack_into(&packed, &mut user);
    (user, row_visits)
}

/// Splits `samples` into halves at random, reconstructs the user vector from the first half (support), and trains the
/// rows on the second (query), with the vector held fixed.
///
/// With an odd number of samples the query half has one more. `rows` holds what leaves the device.
pub fn train(
    settings: &LocalSettings,
    dimension: usize,
    rows: &mut PackedRows,
    padding_row: u32,
    samples: &mut [(u32, bool)],
    batch: &mut BatchRows,
    stream: &mut Stream,
) -> LocalResult {
    stream.shuffle_portably(samples);
    let (support, query) = samples.split_at_mut(samples.len() / 2);
    let (user, mut row_visits) = reconstruct(settings, dimension, rows, padding_row, support, batch, stream);
    let step = LogisticStep {
        target: Target::Rows,
        vector_rate: 0.0,
        bias_rate: 0.0,
        row_rate: settings.item_rate,
        weight_decay: 0.0,
    };
    let (mut packed, mut no_bias, mut loss) = (packed_vector(&user), 0.0, 0.0);
    for _ in 0..settings.epochs {
        if query.len() > settings.batch_size {
            stream.shuffle_portably(query);
        }
        for chunk in query.chunks(settings.batch_size) {
            batch.collect(chunk, padding_row);
            loss += f64::from(logistic::step(rows, batch, &mut packed, &mut no_bias, &step));
            row_visits += batch.distinct() as u64;
        }
    }
    let seen = query.len() as f64 * f64::from(settings.epochs);
    // Without query samples nothing was lost.
    LocalResult { user, loss: loss / seen.max(1.0), query_samples: query.len(), row_visits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, Streams};

    const DIMENSION: usize = 5;

    fn stream(number: u64) -> Stream {
        Streams::new(4).stream(Purpose::PrivateInit, number, 0)
    }

    fn settings() -> LocalSettings {
        LocalSettings {
            reconstruction_epochs: 60,
            epochs: 1,
            batch_size: 8,
            reconstruction_rate: 0.5,
            item_rate: 0.5,
            reach: 0.05,
        }
    }

    /// Thirty rows, of which the first half points one way and the second the other.
    fn rows() -> PackedRows {
        let mut rows = PackedRows::default();
        rows.reset(31, DIMENSION, 1);
        for row in 0..30 {
            let sign = if row < 15 { 1.0 } else { -1.0 };
            rows.set_row(row, 0, &[sign, 0.2, -0.1, 0.3, 0.1 * row as f32], 1.0);
        }
        rows
    }

    fn samples() -> Vec<(u32, bool)> {
        (0..30).map(|row| (row, row < 15)).collect()
    }

    fn values(rows: &PackedRows) -> Vec<Vec<f32>> {
        let row = |row| {
            let mut values = vec![0.0; DIMENSION];
            unpack_into(rows.row(row, 0), &mut values);
            values
        };
        (0..30).map(row).collect()
    }

    /// If this fails, a user vector is not made from the user's own samples, or the table moves while it is made.
    #[test]
    fn a_reconstructed_vector_tells_liked_items_from_others() {
        let (mut rows, mut batch) = (rows(), BatchRows::default());
        let before = values(&rows);
        let (user, visits) =
            reconstruct(&settings(), DIMENSION, &mut rows, 30, &mut samples(), &mut batch, &mut stream(0));
        assert_eq!(values(&rows), before);
        assert_eq!(visits, 60 * 30);
        let score = |row: usize| user.iter().zip(&before[row]).map(|(u, v)| u * v).sum::<f32>();
        assert!((0..15).all(|liked| (15..30).all(|other| score(liked) > score(other))), "{user:?}");
    }

    /// If this fails, the two halves of the samples are not used for what each is meant for.
    #[test]
    fn only_query_rows_are_trained_and_weigh() {
        let (mut rows, mut batch) = (rows(), BatchRows::default());
        let before = values(&rows);
        let mut shuffled = samples();
        shuffled.truncate(29);
        let result = train(&settings(), DIMENSION, &mut rows, 30, &mut shuffled, &mut batch, &mut stream(1));
        assert_eq!(result.query_samples, 15);
        let moved = values(&rows).iter().zip(&before).filter(|(after, before)| after != before).count();
        assert_eq!(moved, 15);
        assert!(result.loss > 0.0 && result.loss < 0.6, "the vector was made from other samples of the same user");
        assert_eq!(result.row_visits, 60 * 14 + 15);
    }

    /// If this fails, a client is not stateless: the same draws give another result.
    #[test]
    fn the_same_draws_give_the_same_bits() {
        let trained = || {
            let (mut rows, mut batch) = (rows(), BatchRows::default());
            let result = train(&settings(), DIMENSION, &mut rows, 30, &mut samples(), &mut batch, &mut stream(2));
            (result, values(&rows))
        };
        assert_eq!(trained(), trained());
    }
}
