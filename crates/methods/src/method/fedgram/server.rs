//! Implements FedGram's server, which adds up gradients and x x^T and makes a Newton-like step of
//! the item table.

use std::sync::Arc;

use super::numerics::{Constants, Sums};
use super::{Counts, Shared, TABLE};
use crate::method::listed_sums::Told;
use crate::method::server::{
    Accumulator, Contribution, Server, StepContext, StepReport, UploadUse, downcast,
};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_model::model::algebra::AlgebraError;
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::magnitude::MagnitudeCounts;
use fedrecsim_model::model::table::{Base, Table, floats};

/// Implements the server, which keeps nothing but the model.
pub(super) struct GramServer {
    shared: Arc<Shared>,
    model: Model,
}

impl GramServer {
    /// Makes the server that starts with `model`.
    pub(crate) fn new(shared: Arc<Shared>, model: Model) -> Self {
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
        self.model = self
            .shared
            .model(Table::clone(model.table(TABLE)), Counts::of(&model))?;
        Ok(())
    }

    fn upload_use(&self) -> UploadUse {
        match self.shared.parameters.sends_counts {
            true => UploadUse::Sum,
            false => UploadUse::Each,
        }
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(GramSums::default())
    }

    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport> {
        let GramSums { sums, uploads } = *downcast::<GramSums>(sums)?;
        let counts = match sums.participants > 0.0 {
            true => Counts {
                popularity: sums.popularity(),
                mean_positives: sums.mean_positives().max(1.0),
            },
            false => Counts::of(&self.model),
        };
        let decay = fedrecsim_core::math::pow(
            self.shared.parameters.server_rate_decay,
            f64::from(step.step),
        );
        let constants = self.shared.constants(f64::from(counts.mean_positives));
        let constants = Constants {
            server_rate: constants.server_rate * decay,
            ..constants
        };
        let mut table = Table::clone(self.model.table(TABLE));
        sums.step(&mut table.view_mut(), &constants)
            .map_err(|cause| step_error(step, cause))?;
        self.model = self.shared.model(table, counts)?;
        let (m, k) = (
            self.shared.shape.rows as u64,
            self.shared.shape.dimension as u64,
        );
        // The terms are three products with the table, Y^T Y, and ten sweeps of 4 k^3 for the
        // eigenvectors.
        let multiply_adds = 3 * m * k * k + m * k * (k + 1) / 2 + 40 * k * k * k;
        Ok(StepReport {
            uploads,
            multiply_adds,
            ..StepReport::default()
        })
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
#[derive(Default)]
struct GramSums {
    sums: Sums,
    uploads: MagnitudeCounts,
}

impl Accumulator for GramSums {
    fn absorb(&mut self, contributions: &[Contribution<'_>]) -> Result<()> {
        for contribution in contributions {
            let [gradients, outer, rest @ ..] = &contribution.update.blocks[..] else {
                return Err(Error::Update(
                    "a contribution to FedGram has two blocks or more".to_owned(),
                ));
            };
            // A codec may have left the only row out, which is then zero.
            let triangle: Vec<f32> = floats(&outer.to_whole_bytes(Base::Zeros)?).collect();
            let of_gradients =
                self.sums
                    .absorb(contribution.weight, (gradients, Told::of(rest)?), &triangle)?;
            for magnitudes in [of_gradients, MagnitudeCounts::of(&triangle, 1.0)] {
                self.uploads.add_times(&magnitudes, 1);
            }
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let other = *downcast::<Self>(other)?;
        self.sums.merge(other.sums);
        self.uploads.add_times(&other.uploads, 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::method::Method;
    use crate::method::fedgram::numerics::outer_triangle;
    use crate::method::fedgram::{ByDensity, FedGram, FedGramParameters};
    use crate::method::tests::{problem_of, with_step};
    use fedrecsim_model::model::table::{TableShape, TableUpdate};

    /// If this fails, devices are told another mean than the server has counted and steps with, or
    /// none.
    #[test]
    fn the_model_tells_the_mean_that_was_counted_last() {
        let by_density = Some(ByDensity::default());
        let parameters = FedGramParameters {
            latent_dimension: 2,
            by_density,
            ..FedGramParameters::default()
        };
        let method = FedGram::new(parameters, &problem_of(3, 5));
        let mut server = GramServer::new(Arc::clone(&method.shared), method.initial());
        let step = |server: &mut GramServer, uploads: &[&[u32]]| {
            let mut sums = Sums::default();
            for items in uploads {
                let shape = TableShape {
                    rows: 5,
                    dimension: 2,
                };
                let rows =
                    TableUpdate::listed(shape, items.to_vec(), &vec![0.1; 2 * items.len()], 1.0)
                        .unwrap();
                sums.absorb(1.0, (&rows, None), &outer_triangle(&[0.5, 0.25]))
                    .unwrap();
            }
            with_step(0, |step| {
                server.step(
                    Box::new(GramSums {
                        sums,
                        ..GramSums::default()
                    }),
                    step,
                )
            })
            .unwrap();
            Counts::of(server.model()).mean_positives
        };
        assert_eq!(
            Counts::of(server.model()).mean_positives,
            0.0,
            "nothing is counted yet"
        );
        assert_eq!(
            step(&mut server, &[&[0, 1, 2, 3], &[4], &[1, 2]]),
            7.0 / 3.0
        );
        assert_eq!(
            step(&mut server, &[]),
            7.0 / 3.0,
            "a step without participants"
        );
        let model = server.model().clone();
        server.set_model(model).unwrap();
        assert_eq!(
            Counts::of(server.model()).mean_positives,
            7.0 / 3.0,
            "the same model once more"
        );
        assert_eq!(
            step(&mut server, &[&[]]),
            1.0,
            "0 would say that nothing was counted"
        );
    }
}
