//! Holds what the protocol of an experiment lets a method at the server use besides the ratings
//! that users have sent.
//!
//! No real server could know any of this. The published protocols use it, so it is here to be
//! measured: negatives that leave out the held-out items (`pool = "unrated"`), and a graph with the
//! test items among its edges.

use std::sync::Arc;

use super::central::UserRatings;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::ids::UserId;
use fedrecsim_core::rng::Stream;
use fedrecsim_data::dataset::Dataset;
use fedrecsim_data::dataset::negatives::{NegativeSampler, Samples};
use fedrecsim_scenario::scenario::NegativesSpec;

/// Draws negatives for a method at the server as the scenario says, and tells what is held out
/// where a method's own parameters ask for that leak.
#[derive(Clone, Debug, Default)]
pub struct Protocol {
    negatives: NegativesSpec,
    /// The data whose held-out part is told; `None` for a method that does not run at the server.
    dataset: Option<Arc<Dataset>>,
}

impl Protocol {
    /// Describes the protocol of a method that runs at the server, with the usual negatives.
    pub(super) fn of(dataset: &Arc<Dataset>) -> Self {
        Self {
            negatives: NegativesSpec::default(),
            dataset: Some(Arc::clone(dataset)),
        }
    }

    /// Returns the same protocol with other negatives.
    pub(super) fn with_negatives(self, negatives: &NegativesSpec) -> Self {
        Self {
            negatives: negatives.clone(),
            ..self
        }
    }

    /// Returns the test item of `user`, which is a leak.
    pub(super) fn leaked_test_item(&self, user: UserId) -> Option<u32> {
        self.dataset.as_ref()?.test_item(user).map(|item| item.0)
    }

    /// Draws the negatives of every positive in `ratings`, of a catalogue of `items` items, and
    /// gives `take` the user, the positive and its negatives, in the order of `ratings`.
    ///
    /// # Errors
    /// [`Error::Dataset`] if there are too few items to draw negatives from.
    pub(super) fn draw_negatives(
        &self,
        (ratings, items): (&[UserRatings], usize),
        stream: &mut Stream,
        mut take: impl FnMut(u32, u32, &[u32]),
    ) -> Result<()> {
        let mut sampler = NegativeSampler::new(items, &self.negatives);
        let mut samples = Samples::default();
        for UserRatings {
            user, items: rated, ..
        } in ratings
        {
            samples.clear();
            let held_out = self
                .dataset
                .iter()
                .flat_map(|dataset| dataset.held_out_items(*user));
            sampler
                .append(
                    (rated, rated.iter().copied()),
                    held_out,
                    stream,
                    &mut samples,
                )
                .map_err(|available| {
                    let wanted = self.negatives.per_positive;
                    Error::Dataset(format!(
                        "{user}: {wanted} negatives are wanted, and {available} items are left"
                    ))
                })?;
            for group in samples
                .items
                .chunks_exact(self.negatives.per_positive as usize + 1)
            {
                take(user.0, group[0], &group[1..]);
            }
        }
        Ok(())
    }
}
