//! Implements EASE, the ridge regression of every item on all others, which has a closed form.
//!
//! For the users' positives X (n x m, zeros and ones), B minimises |X - X B|^2 + lambda |B|^2 among
//! the matrices with a diagonal of zeros. With P = (X^T X + lambda I)^(-1) it is B_ij = -P_ij /
//! P_jj. A device scores item j by the sum of B_ij over its positives i.
//!
//! Source: Steck, Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019.

use super::{counts, matrix, renew, scorer};
use crate::method::prelude::*;
use crate::method::recency::Recency;
use fedrecsim_model::model::algebra::AlgebraError;
use fedrecsim_model::model::algebra::cholesky::invert;
use fedrecsim_model::model::algebra::gram::mirror_upper;

/// Describes the method to the registry.
pub const ENTRY: Entry = Entry::at_server::<Ease>();

parameters! {
    /// Parameters of EASE.
    pub struct Ease {
        /// Weight lambda of the regulariser, in numbers of users.
        regularization: f64 = 300.0, > 0.0;
        /// Lets recent positives count more when a device scores. Left out: all count alike.
        recency: Option<Recency> = None;
    }
}

impl Ease {
    /// Returns the matrix, and the number of multiply-adds that it takes.
    fn weigh(
        &self,
        ratings: &[UserRatings],
        items: usize,
        step: &StepContext<'_>,
    ) -> Result<(Table, u64)> {
        let (mut matrix, additions) = counts(ratings, items);
        matrix
            .diag_mut()
            .iter_mut()
            .for_each(|count| *count += self.regularization);
        invert(&mut matrix)
            .and_then(|()| mirror_upper(&mut matrix))
            .map_err(|cause| match cause {
                // The weight is so small or so large that the sum with the counts is singular or
                // infinite.
                AlgebraError::NotPositiveDefinite { .. } => step.singular("B", &cause),
                other => Error::Update(other.to_string()),
            })?;
        let diagonal: Vec<f64> = matrix.diag().to_vec();
        let mut values = Vec::with_capacity(items * items);
        for (i, row) in matrix.rows().into_iter().enumerate() {
            values.extend(
                row.iter()
                    .zip(&diagonal)
                    .map(|(value, divisor)| (-value / divisor) as f32),
            );
            values[i * items + i] = 0.0;
        }
        let m = items as u64;
        // A third of the work each for the Cholesky factor, its inverse, and the product of that
        // with itself.
        Ok((
            Table::new(
                TableShape {
                    rows: items,
                    dimension: items,
                },
                values,
            ),
            additions + m * m * m / 2 + m * m,
        ))
    }
}

impl Central for Ease {
    type Parameters = Self;
    type Memory = Remembered<usize>;

    const NAME: &str = "ease";
    const SUMMARY: &str = "centralised regression of every item on all others (EASE): users \
                           send their ratings once, one step";
    const SOURCE: &str = "Steck, Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019";
    const DRAWS_NEGATIVES: bool = false;

    fn new(parameters: Self, _problem: &Problem) -> Self {
        parameters
    }

    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        matrix("B", size.items)
    }

    fn pass(&self, pass: Pass<'_, Remembered<usize>>) -> Result<StepReport> {
        renew(pass, "B", |ratings, items, step| {
            self.weigh(ratings, items, step)
        })
    }

    fn scorer<'a>(
        &'a self,
        context: &ScoringContext<'a>,
        _scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        scorer(self.recency.as_ref(), context)
    }
}
