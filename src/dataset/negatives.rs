//! Training samples: every positive of a user with freshly drawn negatives.

use crate::dataset::Dataset;
use crate::dataset::pool::Pool;
use crate::error::{Error, Result};
use crate::ids::{Round, UserId};
use crate::rng::{Purpose, Streams};
use crate::scenario::{NegativePool, NegativesSpec};

/// The training samples of one user in one round, in the order of the authors' code: each positive is
/// followed by its negatives. Buffers are reused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// Items.
    pub items: Vec<u32>,
    /// 1 for a positive, 0 for a negative; beside [`Self::items`].
    pub labels: Vec<f32>,
}

/// Draws negatives; scratch memory of one bit per item, reusable for any user of the data set.
#[derive(Clone, Debug)]
pub struct NegativeSampler {
    spec: NegativesSpec,
    pool: Pool,
}

impl NegativeSampler {
    /// For a catalogue of `items` items.
    pub fn new(items: usize, spec: &NegativesSpec) -> Self {
        Self { spec: spec.clone(), pool: Pool::new(items) }
    }

    /// Replaces `samples` by those of `user` in `round`: for each training item, ascending, the item itself
    /// and `per_positive` items drawn uniformly from the user's pool, without replacement within one
    /// positive. A training item that repeats is as many positives.
    ///
    /// # Errors
    /// [`Error::Dataset`] if the pool has fewer than `per_positive` items.
    pub fn draw(
        &mut self,
        dataset: &Dataset,
        streams: Streams,
        user: UserId,
        round: Round,
        samples: &mut Samples,
    ) -> Result<()> {
        let positives = dataset.train_items(user);
        let per_positive = self.spec.per_positive;
        match self.spec.pool {
            NegativePool::Unrated => self.pool.restrict(dataset.touched_items(user), per_positive),
            NegativePool::NotInTrain => self.pool.restrict(positives.iter().copied(), per_positive),
        }
        if self.pool.available() < per_positive {
            return Err(Error::Dataset(format!(
                "{}: {} negatives per positive are wanted, but only {} items are left to draw them from",
                dataset.user_label(user),
                per_positive,
                self.pool.available()
            )));
        }
        let group = per_positive as usize + 1;
        let mut stream = streams.stream(Purpose::Negatives, u64::from(user.0), u64::from(round.0));
        samples.items.clear();
        samples.items.reserve(positives.len() * group);
        for &item in positives {
            samples.items.push(item);
            self.pool.append_sample(&mut stream, per_positive, &mut samples.items);
        }
        samples.labels.clear();
        samples.labels.resize(positives.len() * group, 0.0);
        samples.labels.iter_mut().step_by(group).for_each(|label| *label = 1.0);
        Ok(())
    }
}
