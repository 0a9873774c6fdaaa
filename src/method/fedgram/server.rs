//! Implements FedGram's server, which adds up gradients and x x^T and makes a Newton-like step of the item table.

use std::sync::Arc;

use super::numerics::{Constants, Sums};
use super::{POPULARITY, Shared, TABLE};
use crate::error::{Error, Result};
use crate::method::server::{Accumulator, Contribution, Server, StepContext, StepReport, downcast};
use crate::model::algebra::AlgebraError;
use crate::model::blocks::Model;
use crate::model::magnitude::MagnitudeCounts;
use crate::model::table::{Base, Table, floats};

/// Implements the server, which keeps nothing but the model.
pub(super) struct GramServer {
    shared: Arc<Shared>,
    model: Model,
}

impl GramServer {
    /// Makes the server that starts with `model`.
    pub fn new(shared: Arc<Shared>, model: Model) -> Self {
        Self { shared, model }
    }
}

impl Server for GramServer {
    fn model(&self) -> &Model {
        &self.model
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.model.check_same_layout(&model)?;
        // Y^T Y is computed from Y again, so that it fits even if the caller has only changed Y.
        let popularity = self.model.named("popularity").map_or_else(Vec::new, |table| table.as_slice().to_vec());
        let popularity = model.named("popularity").map_or(popularity, |table| table.as_slice().to_vec());
        self.model = self.shared.model(Table::clone(model.table(TABLE)), popularity)?;
        Ok(())
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        let shape = self.shared.shape;
        Box::new(GramSums { sums: Sums::new(shape.rows, shape.dimension), uploads: MagnitudeCounts::default() })
    }

    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport> {
        let GramSums { sums, uploads } = *downcast::<GramSums>(sums)?;
        let parameters = &self.shared.parameters;
        let decay = crate::math::pow(parameters.server_rate_decay, f64::from(step.step));
        let constants = Constants { server_rate: parameters.server_rate * decay, ..self.shared.constants };
        let mut table = Table::clone(self.model.table(TABLE));
        sums.step(&mut table.view_mut(), &constants).map_err(|cause| step_error(step, cause))?;
        let popularity = match parameters.popularity_weight > 0.0 {
            true if sums.participants > 0.0 => sums.senders.iter().map(|n| (n / sums.participants) as f32).collect(),
            true => self.model.table(POPULARITY).as_slice().to_vec(),
            false => Vec::new(),
        };
        self.model = self.shared.model(table, popularity)?;
        let (m, k) = (self.shared.shape.rows as u64, self.shared.shape.dimension as u64);
        // The terms are three products with the table, Y^T Y, and ten sweeps of 4 k^3 for the eigenvectors.
        let multiply_adds = 3 * m * k * k + m * k * (k + 1) / 2 + 40 * k * k * k;
        Ok(StepReport { uploads, multiply_adds, ..StepReport::default() })
    }
}

/// Returns an error of the algebra as the error of a step.
fn step_error(step: &StepContext<'_>, cause: AlgebraError) -> Error {
    match cause {
        AlgebraError::NotFinite { .. } => step.diverged("the sum of x x^T", f32::NAN),
        other => Error::Update(other.to_string()),
    }
}

/// Holds the sums of a step.
struct GramSums {
    sums: Sums,
    uploads: MagnitudeCounts,
}

impl Accumulator for GramSums {
    fn absorb(&mut self, contributions: &[Contribution<'_>]) -> Result<()> {
        let (mut rows, mut triangle): (Vec<f32>, Vec<f32>) = (Vec::new(), Vec::new());
        for contribution in contributions {
            let [gradients, outer] = &contribution.update.blocks[..] else {
                return Err(Error::Update("a contribution to FedGram has two blocks".to_owned()));
            };
            rows.clear();
            rows.extend(floats(&gradients.values));
            triangle.clear();
            // A codec may have left the only row out, which is then zero.
            triangle.extend(floats(&outer.to_whole_bytes(Base::Zeros)?));
            let values = rows.chunks_exact(gradients.shape.dimension.max(1));
            let listed = gradients.iter().map(|(row, _)| row).zip(values);
            self.sums
                .absorb(contribution.weight, listed, &triangle)
                .map_err(|cause| Error::Update(cause.to_string()))?;
            for values in [&rows, &triangle] {
                self.uploads.add_times(&MagnitudeCounts::of(values, 1.0), 1);
            }
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let other = *downcast::<Self>(other)?;
        self.sums.merge(&other.sums);
        self.uploads.add_times(&other.uploads, 1);
        Ok(())
    }
}
