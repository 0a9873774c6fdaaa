//! Implements EASE, the ridge regression of every item on all others, which has a closed form.
//!
//! For the users' positives X (n x m, zeros and ones), B minimises |X - X B|^2 + lambda |B|^2 among
//! the matrices with a diagonal of zeros. With P = (X^T X + lambda I)^(-1) it is B_ij = -P_ij /
//! P_jj. A device scores item j by the sum of B_ij over its positives i.
//!
//! Source: Steck, Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ItemToItem, Weigher, counts, layout};
use crate::method::central::UserRatings;
use crate::method::recency::Recency;
use crate::method::server::StepContext;
use crate::method::{Entry, Placement, parameters, sizes_by};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_model::model::algebra::AlgebraError;
use fedrecsim_model::model::algebra::cholesky::invert;
use fedrecsim_model::model::algebra::gram::mirror_upper;
use fedrecsim_model::model::table::{Table, TableShape};

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "ease",
    summary: "centralised regression of every item on all others (EASE): users send their ratings once, one step",
    source: "Steck, Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019",
    schema: &|| schemars::schema_for!(EaseParameters),
    resolve: &|_| Vec::new(),
    placement: Placement::Central,
    draws_negatives: false,
    sizes: &|value, size| sizes_by(value, |_: EaseParameters| layout(Ease::MATRIX, size.items)),
    build: &|value, problem| {
        let EaseParameters {
            regularization,
            recency,
        } = parameters("ease", value)?;
        Ok(Box::new(ItemToItem::new(
            Ease { regularization },
            recency,
            problem,
        )))
    },
};

/// Parameters of EASE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EaseParameters {
    /// Weight lambda of the regulariser, in numbers of users.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub regularization: f64,
    /// Lets recent positives count more when a device scores. Left out: all count alike.
    pub recency: Option<Recency>,
}

impl Default for EaseParameters {
    fn default() -> Self {
        Self {
            regularization: 300.0,
            recency: None,
        }
    }
}

/// Holds the weight of the regulariser.
#[derive(Clone, Debug)]
pub(super) struct Ease {
    pub regularization: f64,
}

impl Weigher for Ease {
    const MATRIX: &'static str = "B";

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
                AlgebraError::NotPositiveDefinite { .. } => step.singular(Self::MATRIX, &cause),
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
