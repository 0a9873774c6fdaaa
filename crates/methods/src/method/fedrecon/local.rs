//! Trains one client of FedRecon, on plain slices: the user vector is reconstructed, then the item
//! rows are trained.

use fedrecsim_core::rng::{PortableDraws, Stream};
use fedrecsim_model::model::kernel::logistic::{self, BatchRows, LogisticStep, Target};
use fedrecsim_model::model::kernel::{Block, PackedRows, packed_vector, unpack_into};

/// Describes how a client reconstructs and trains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LocalSettings {
    /// The number of passes over the support samples, in which only the user vector moves.
    pub reconstruction_epochs: u32,
    /// The number of passes over the query samples, in which only the item rows move.
    pub epochs: u32,
    /// The number of samples in a batch.
    pub batch_size: usize,
    /// The learning rate of the user vector.
    pub reconstruction_rate: f32,
    /// The learning rate of the item rows.
    pub item_rate: f32,
    /// The largest magnitude of the uniform draws that a reconstruction starts from.
    pub reach: f64,
    /// Whether one half of the samples reconstructs and the other trains. Otherwise all samples do
    /// both.
    pub splits_samples: bool,
}

/// Holds what a participation yielded, and its work.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LocalResult {
    /// The user vector that was reconstructed.
    pub user: Vec<f32>,
    /// The mean binary cross-entropy over the query samples of all epochs, each batch before its
    /// step.
    pub loss: f64,
    /// The number of query samples, which is the weight of this client's update.
    pub query_samples: usize,
    /// The number of item rows read or written, one for each distinct row of a batch.
    pub row_visits: u64,
}

/// Holds what a participation works with. Samples are positions in `rows` with their labels.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    /// The item rows. Trained, they are what leaves the device.
    pub rows: &'a mut PackedRows,
    /// The number of a row of zeros that belongs to no item.
    pub padding_row: u32,
    /// The number of values of a row.
    pub dimension: usize,
    /// Memory for the distinct rows of a batch.
    pub batch: &'a mut BatchRows,
    /// The participation's randomness.
    pub stream: &'a mut Stream,
}

impl Session<'_> {
    /// Makes `epochs` passes over `samples` in batches, with one `step` of the rows and of the
    /// packed user vector for each batch. Returns the summed loss and the number of rows visited.
    fn run_epochs(
        &mut self,
        (epochs, batch_size): (u32, usize),
        samples: &mut [(u32, bool)],
        user: &mut [Block],
        step: &LogisticStep,
    ) -> (f64, u64) {
        let (mut no_bias, mut loss, mut row_visits) = (0.0, 0.0, 0);
        for _ in 0..epochs {
            if samples.len() > batch_size {
                self.stream.shuffle_portably(samples);
            }
            for chunk in samples.chunks(batch_size) {
                self.batch.collect(chunk, self.padding_row);
                loss += f64::from(logistic::step(
                    self.rows,
                    self.batch,
                    user,
                    &mut no_bias,
                    step,
                ));
                row_visits += self.batch.distinct() as u64;
            }
        }
        (loss, row_visits)
    }
}

/// Reconstructs the user vector from the samples `support`, by SGD on the mean binary cross-entropy
/// of each batch, from a fresh uniform draw and with the item rows held fixed. Returns the vector
/// with the number of rows visited.
pub(crate) fn reconstruct(
    settings: &LocalSettings,
    session: &mut Session<'_>,
    support: &mut [(u32, bool)],
) -> (Vec<f32>, u64) {
    let mut draw = || session.stream.uniform_within(settings.reach) as f32;
    let mut user: Vec<f32> = (0..session.dimension).map(|_| draw()).collect();
    let step = LogisticStep {
        target: Target::Vector,
        vector_rate: settings.reconstruction_rate,
        bias_rate: 0.0,
        row_rate: 0.0,
        weight_decay: 0.0,
    };
    let mut packed = packed_vector(&user);
    let passes = (settings.reconstruction_epochs, settings.batch_size);
    let (_, row_visits) = session.run_epochs(passes, support, &mut packed, &step);
    unpack_into(&packed, &mut user);
    (user, row_visits)
}

/// Splits `samples` into halves at random, reconstructs the user vector from the first half
/// (support), and trains the rows on the second (query), with the vector held fixed. Without a
/// split all samples are in both.
///
/// With an odd number of samples the query half has one more.
pub(crate) fn train(
    settings: &LocalSettings,
    session: &mut Session<'_>,
    samples: &mut [(u32, bool)],
) -> LocalResult {
    session.stream.shuffle_portably(samples);
    let (support, query) = match settings.splits_samples {
        true => (0..samples.len() / 2, samples.len() / 2..samples.len()),
        false => (0..samples.len(), 0..samples.len()),
    };
    let (user, support_visits) = reconstruct(settings, session, &mut samples[support]);
    let query = &mut samples[query];
    let step = LogisticStep {
        target: Target::Rows,
        vector_rate: 0.0,
        bias_rate: 0.0,
        row_rate: settings.item_rate,
        weight_decay: 0.0,
    };
    let passes = (settings.epochs, settings.batch_size);
    let (loss, query_visits) = session.run_epochs(passes, query, &mut packed_vector(&user), &step);
    let seen = query.len() as f64 * f64::from(settings.epochs);
    let row_visits = support_visits + query_visits;
    // A client without query samples reports a loss of zero.
    LocalResult {
        user,
        loss: loss / seen.max(1.0),
        query_samples: query.len(),
        row_visits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedrecsim_core::rng::{Purpose, Streams};

    const DIMENSION: usize = 5;

    /// Runs `work` in a session over `rows` whose randomness is named by `number`.
    fn with_session<T>(
        number: u64,
        rows: &mut PackedRows,
        work: impl FnOnce(&mut Session<'_>) -> T,
    ) -> T {
        let mut stream = Streams::new(4).stream(Purpose::PrivateInit, number, 0);
        let batch = &mut BatchRows::default();
        work(&mut Session {
            rows,
            padding_row: 30,
            dimension: DIMENSION,
            batch,
            stream: &mut stream,
        })
    }

    fn settings() -> LocalSettings {
        LocalSettings {
            reconstruction_epochs: 60,
            epochs: 1,
            batch_size: 8,
            reconstruction_rate: 0.5,
            item_rate: 0.5,
            reach: 0.05,
            splits_samples: true,
        }
    }

    /// Returns thirty rows, of which the second half points in the opposite direction of the first.
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

    /// If this fails, a user vector is not made from the user's own samples, or item rows move
    /// while it is made.
    #[test]
    fn a_reconstructed_vector_tells_liked_items_from_others() {
        let mut rows = rows();
        let before = values(&rows);
        let (user, visits) = with_session(0, &mut rows, |session| {
            reconstruct(&settings(), session, &mut samples())
        });
        assert_eq!(values(&rows), before);
        assert_eq!(visits, 60 * 30);
        let score = |row: usize| {
            user.iter()
                .zip(&before[row])
                .map(|(u, v)| u * v)
                .sum::<f32>()
        };
        assert!(
            (0..15).all(|liked| (15..30).all(|other| score(liked) > score(other))),
            "{user:?}"
        );
    }

    /// If this fails, the support half trains item rows, or the query half does not.
    #[test]
    fn only_query_rows_are_trained_and_weigh() {
        let mut rows = rows();
        let before = values(&rows);
        let mut shuffled = samples();
        shuffled.truncate(29);
        let result = with_session(1, &mut rows, |session| {
            train(&settings(), session, &mut shuffled)
        });
        assert_eq!(result.query_samples, 15);
        let moved = values(&rows)
            .iter()
            .zip(&before)
            .filter(|(after, before)| after != before)
            .count();
        assert_eq!(moved, 15);
        assert!(
            result.loss > 0.0 && result.loss < 0.6,
            "the vector was made from other samples of the same user"
        );
        assert_eq!(result.row_visits, 60 * 14 + 15);
    }

    /// If this fails, what is to be trained on all samples is trained on half of them.
    #[test]
    fn without_a_split_every_sample_reconstructs_and_trains() {
        let mut rows = rows();
        let before = values(&rows);
        let whole = LocalSettings {
            splits_samples: false,
            ..settings()
        };
        let result = with_session(1, &mut rows, |session| {
            train(&whole, session, &mut samples())
        });
        assert_eq!(
            (result.query_samples, result.row_visits),
            (30, 60 * 30 + 30)
        );
        assert!(
            values(&rows)
                .iter()
                .zip(&before)
                .all(|(after, before)| after != before)
        );
    }

    /// If this fails, a client reports another loss than the mean over its query samples and
    /// epochs.
    #[test]
    fn the_loss_is_a_mean() {
        // Without reconstruction and with rows that are zero and stay so, every logit is 0.
        let mut rows = PackedRows::default();
        rows.reset(31, DIMENSION, 1);
        let still = LocalSettings {
            reconstruction_epochs: 0,
            epochs: 3,
            item_rate: 0.0,
            ..settings()
        };
        let result = with_session(3, &mut rows, |session| {
            train(&still, session, &mut samples())
        });
        assert!(
            (result.loss - std::f64::consts::LN_2).abs() < 1e-6,
            "{}",
            result.loss
        );
    }

    /// If this fails, a client is not stateless, since the same draws give another result.
    #[test]
    fn the_same_draws_give_the_same_bits() {
        let trained = || {
            let mut rows = rows();
            let result = with_session(2, &mut rows, |session| {
                train(&settings(), session, &mut samples())
            });
            (result, values(&rows))
        };
        assert_eq!(trained(), trained());
    }
}
