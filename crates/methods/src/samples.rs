//! Holds the samples that methods at the server train on by mini-batches, and the loss of batches.

use std::ops::Range;

use super::central::Pass;
use super::largest_magnitude;
use super::server::StepReport;
use super::{Problem, UserRatings};
use fedrecsim_core::{Error, ErrorKind, PortableDraws, Result};
use fedrecsim_data::dataset::negatives::{NegativeSampler, Samples};
use fedrecsim_model::kernel::{BatchRows, Targets};
use fedrecsim_model::neural::SampleMatrix;
use fedrecsim_model::neural::loss::binary_cross_entropy;

/// Holds one training sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// The user.
    pub user: u32,
    /// The item.
    pub item: u32,
    /// Says whether the item is a positive of the user.
    pub is_positive: bool,
}

/// Computes the binary cross-entropy of batches. Nothing passes from one batch to the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct CrossEntropy {
    logits: SampleMatrix,
    by_logits: SampleMatrix,
    targets: Targets,
}

impl CrossEntropy {
    /// Returns the loss of a batch whose samples have these logits, as a sum over the batch.
    pub(crate) fn of_samples(&mut self, batch: &[Sample], logit: impl Fn(&Sample) -> f32) -> f32 {
        let target = |sample: &Sample| (1.0, f32::from(sample.is_positive));
        self.targets.replace(batch.iter().map(target));
        self.set_logits(batch.iter().map(logit));
        let mean = 1.0 / batch.len() as f32;
        binary_cross_entropy(&self.logits, &self.targets, mean, &mut self.by_logits)
    }

    /// Returns the loss of a batch whose distinct rows have these logits, as a sum over all of their
    /// occurrences.
    pub(crate) fn of_rows(&mut self, batch: &BatchRows, logit: impl Fn(u32) -> f32) -> f32 {
        self.set_logits(batch.rows().iter().map(|row| logit(*row)));
        let mean = 1.0 / batch.occurrences as f32;
        binary_cross_entropy(&self.logits, &batch.targets, mean, &mut self.by_logits)
    }

    fn set_logits(&mut self, logits: impl ExactSizeIterator<Item = f32>) {
        self.logits.reset(logits.len(), 1);
        for (number, logit) in logits.enumerate() {
            self.logits.set_sample(number, &[logit]);
        }
    }

    /// Returns the derivative of the mean loss of the batch with respect to the logit of this
    /// number.
    pub(crate) fn slope(&self, number: usize) -> f32 {
        let mut slope = [0.0];
        self.by_logits.read_sample(number, &mut slope);
        slope[0]
    }
}

impl<S> Pass<'_, S> {
    /// Draws the samples of a pass in random order: every positive in `ratings`, and the negatives
    /// that the protocol gives it. `name` is that of the method, which names the streams.
    ///
    /// # Errors
    /// [`Error::Dataset`](fedrecsim_core::Error::Dataset) if there are too few items to draw
    /// negatives from, here and below.
    pub(crate) fn samples(&self, name: &str) -> Result<Vec<Sample>> {
        self.draw_shuffled(self.ratings, name, |samples, user, item, negatives| {
            let sample = |item, is_positive| Sample {
                user,
                item,
                is_positive,
            };
            samples.push(sample(item, true));
            samples.extend(negatives.iter().map(|item| sample(*item, false)));
        })
    }

    /// Draws the triples of a pass in random order: every positive in `ratings` stands with each of
    /// its negatives once.
    pub(crate) fn triples(&self, ratings: &[UserRatings], name: &str) -> Result<Vec<Triple>> {
        self.draw_shuffled(ratings, name, |triples, user, positive, negatives| {
            let triple = |negative: &u32| Triple {
                user,
                positive,
                negative: *negative,
            };
            triples.extend(negatives.iter().map(triple));
        })
    }

    /// Draws what a pass trains on, in random order: `add` appends what is made of a positive of a
    /// user and its negatives.
    fn draw_shuffled<T>(
        &self,
        ratings: &[UserRatings],
        name: &str,
        mut add: impl FnMut(&mut Vec<T>, u32, u32, &[u32]),
    ) -> Result<Vec<T>> {
        let Problem {
            negatives, dataset, ..
        } = self.problem;
        let mut sampler = NegativeSampler::new(self.problem.items, negatives);
        let mut stream = self.step.named_stream(&format!("{name}/negatives"));
        let (mut samples, wanted) = (Samples::default(), negatives.per_positive);
        let mut drawn = Vec::new();
        for UserRatings { user, items, .. } in ratings {
            samples.clear();
            let dataset = dataset.iter();
            let held_out = dataset.flat_map(|dataset| dataset.known_held_out_items(*user));
            let own = (&items[..], items.iter().copied());
            let sampled = sampler.append(own, (held_out, &[]), &mut stream, &mut samples);
            sampled.map_err(|available| Error::OfUser {
                kind: ErrorKind::UnfitData,
                user: (*user).into(),
                reason: format!(
                    "{wanted} negatives are wanted, and {available} items are left; lower \
                         dataset.negatives.per_positive"
                ),
            })?;
            for group in samples.items.chunks_exact(wanted as usize + 1) {
                add(&mut drawn, user.0, group[0], &group[1..]);
            }
        }
        let mut order = self.step.named_stream(&format!("{name}/order"));
        order.shuffle_portably(&mut drawn);
        Ok(drawn)
    }

    /// Checks the values of the model, which the error calls `name`, and the loss, and reports the
    /// mean of the loss over this many `terms` with `visits` row visits for each.
    ///
    /// # Errors
    /// [`Error::Diverged`](fedrecsim_core::Error::Diverged) for a value beyond the limit.
    pub(crate) fn report(
        &self,
        (name, values): (&'static str, &[f32]),
        (loss, terms): (f64, usize),
        visits: u64,
    ) -> Result<StepReport> {
        self.step.check_magnitude(name, largest_magnitude(values))?;
        if !loss.is_finite() {
            return Err(self.step.diverged("the loss", loss as f32));
        }
        Ok(StepReport {
            row_visits: visits * terms as u64,
            loss: (terms > 0).then(|| loss / terms as f64),
            ..StepReport::default()
        })
    }
}

/// A user with one of its positives and a negative for it (Rendle et al., BPR, UAI 2009).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Triple {
    /// The user.
    pub user: u32,
    /// The positive.
    pub positive: u32,
    /// The negative.
    pub negative: u32,
}

impl Triple {
    /// Returns the places of the rows of the user, the positive and the negative, where rows of `k`
    /// values of so many users stand before those of items.
    pub(crate) fn rows(&self, users: usize, k: usize) -> [Range<usize>; 3] {
        let items = [self.positive, self.negative].map(|item| users + item as usize);
        [self.user as usize, items[0], items[1]].map(|row| row * k..(row + 1) * k)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::{problem_of, sent, with_step};
    use fedrecsim_model::Model;
    use fedrecsim_scenario::NegativesSpec;

    /// If this fails, the server trains on other items than those that users have sent, or on
    /// negatives that they have sent.
    #[test]
    fn each_positive_stands_there_once_with_its_negatives() {
        let spec = NegativesSpec {
            per_positive: 3,
            ..NegativesSpec::default()
        };
        let problem = problem_of(2, 6).with_negatives(&spec);
        let ratings = sent(&[&[1, 4, 5], &[0]]);
        let drawn = with_step(0, |step| {
            let pass = Pass {
                model: &mut Model::none(),
                memory: &mut (),
                ratings: &ratings,
                problem: &problem,
                step,
            };
            pass.samples("any")
        });
        let mut samples = drawn.unwrap();
        samples.sort_unstable_by_key(|sample| (sample.user, !sample.is_positive, sample.item));
        let of = |user: u32, is_positive: bool| -> Vec<u32> {
            let own = samples
                .iter()
                .filter(|sample| sample.user == user && sample.is_positive == is_positive);
            own.map(|sample| sample.item).collect()
        };
        assert_eq!((of(0, true), of(1, true)), (vec![1, 4, 5], vec![0]));
        assert_eq!(
            of(0, false),
            [0, 0, 0, 2, 2, 2, 3, 3, 3],
            "three other items, each for each of three positives"
        );
        assert_eq!(of(1, false).len(), 3);
        assert!(!of(1, false).contains(&0));
    }
}
