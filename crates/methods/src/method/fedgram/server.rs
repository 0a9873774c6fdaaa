//! Implements FedGram's server, which adds up gradients and x x^T and makes a Newton-like step of
//! the item table.

use super::numerics::{Constants, Sums};
use super::{Counts, FedGram, TABLE};
use crate::method::declare::{Declare, table_of};
use crate::method::listed_sums::Told;
use crate::method::prelude::*;
use crate::method::server::downcast;
use fedrecsim_model::model::algebra::AlgebraError;
use fedrecsim_model::model::magnitude::MagnitudeCounts;
use fedrecsim_model::model::table::Base;

/// Implements the server, which keeps nothing but the model.
pub(super) struct GramServer {
    method: FedGram,
    model: Model,
}

impl GramServer {
    /// Makes the server that starts with `model`.
    pub(super) fn new(method: FedGram, model: Model) -> Self {
        Self { method, model }
    }
}

impl Server for GramServer {
    fn model(&self) -> &Model {
        &self.model
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.model.check_same_layout(&model)?;
        // Y^T Y is computed from Y again, so that it fits even if the caller has only changed Y.
        let table = Table::clone(table_of(&model, TABLE));
        self.method
            .renew(&mut self.model, table, Counts::of(&model))
    }

    fn upload_use(&self) -> UploadUse {
        self.method.upload_use(UploadUse::Each)
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
        let decay = self.method.parameters.server_rate_decay;
        let mut table = Table::clone(table_of(&self.model, TABLE));
        let TableShape { rows, dimension } = table.shape();
        let constants = self
            .method
            .constants(f64::from(counts.mean_positives), rows);
        let constants = Constants {
            server_rate: constants.server_rate * math::pow(decay, f64::from(step.step)),
            ..constants
        };
        let stepped = sums.step(&mut table.view_mut(), &constants);
        stepped.map_err(|cause| match cause {
            AlgebraError::NotFinite { .. } => step.diverged("the sum of x x^T", f32::NAN),
            other => Error::Update(other.to_string()),
        })?;
        self.method.renew(&mut self.model, table, counts)?;
        let (m, k) = (rows as u64, dimension as u64);
        Ok(StepReport {
            uploads,
            // The terms are three products with the table, Y^T Y, and ten sweeps of 4 k^3 for the
            // eigenvectors.
            multiply_adds: 3 * m * k * k + m * k * (k + 1) / 2 + 40 * k * k * k,
            ..StepReport::default()
        })
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
            let ([gradients, outer], told) = Told::beside(contribution.update)?;
            // A codec may have left the only row out, which is then zero.
            let triangle: Vec<f32> = floats(&outer.to_whole_bytes(Base::Zeros)?).collect();
            let of_gradients =
                self.sums
                    .absorb(contribution.weight, (gradients, told), &triangle)?;
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
    use crate::method::declare::Declared;
    use crate::method::fedgram::numerics::outer_triangle;
    use crate::method::fedgram::{ByDensity, FedGramParameters};
    use crate::method::tests::{problem_of, with_step};

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
        let method = Declared::<FedGram>::new(parameters.clone(), &problem_of(3, 5));
        let mut server = GramServer::new(FedGram::with_exponent(parameters, 1.0), method.initial());
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
