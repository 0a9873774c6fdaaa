//! Implements FCF, federated collaborative filtering by implicit least squares with the gradients
//! of all items.
//!
//! The user vector x_u is private. It has a closed form and is not kept after a participation. The
//! item table Y is shared. Let c_ui = 1 + alpha y_ui, where y_ui is 1 for the user's positives and
//! 0 for all other items. A device solves x_u = (Y^T C_u Y + lambda I)^(-1) Y^T C_u p_u. It uploads
//! c_ui (x_u . y_i - p_ui) x_u for **all** items, so the table of gradients does not list the
//! positives. The server adds up the gradients of a step's participants and moves Y by Adam. The
//! gradient is 2 sum + 2 lambda y_i in the paper and half of that here, which Adam's normalisation
//! cancels. For scoring, a device solves for x_u in the newest table. Recent positives may count more
//! there, and in training: alpha is multiplied by their weights. Times never leave the device, but
//! gradients that were weighted by them do.
//!
//! Source: Ammad-ud-din et al., Federated Collaborative Filtering for Privacy-Preserving
//! Personalized Recommendation System, arXiv 1901.09888, sections 3.1 and 3.2; FedRec's slides,
//! equation 3.

use super::prelude::*;
use super::recency::{self, Recency, training_weights, weighted_positives};
use super::rule;
use super::user_vector::{solved, solved_to_score};
use fedrecsim_model::algebra;
use fedrecsim_model::least_squares::{LeastSquares, Positives, WeightedGram, score};

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::of::<Fcf>();

parameters! {
    /// Parameters of FCF.
    pub(crate) struct Fcf {
        /// Latent dimension k.
        latent_dimension: u32 = 32, >= 1, <= MAX_DIMENSION;
        /// Confidence alpha: a positive weighs 1 + alpha, any other item 1.
        confidence: f64 = 4.0, > 0.0;
        /// Weight lambda of the regulariser.
        regularization: f64 = 10.0, > 0.0;
        /// The server's learning rate.
        server_rate: f64 = 0.05, > 0.0;
        /// Adam's decay of the first moment.
        beta1: f64 = 0.9, >= 0, < 1.0;
        /// Adam's decay of the second moment.
        beta2: f64 = 0.999, >= 0, < 1.0;
        /// Added to the root of Adam's second moment.
        epsilon: f64 = 1e-8, > 0.0;
        /// The rows of Y start as normal draws of this length, about.
        initial_length: f64 = 0.1, > 0.0;
        /// Lets recent positives count more when a device scores. Left out: all count alike.
        recency: Option<Recency> = None;
    }
}

impl Fcf {
    /// Returns x_u for the positives of a user, with this factor of alpha for each.
    fn solve(
        &self,
        table: &Table,
        (items, factors): (&[u32], &[f64]),
        solver: &mut LeastSquares,
    ) -> algebra::Result<Vec<f64>> {
        // C_u is 1 plus its weight for each positive, and so is C_u p_u there.
        let weights: Vec<f64> = factors
            .iter()
            .map(|factor| self.confidence * factor)
            .collect();
        let positives = Positives {
            items,
            weights: Some(&weights),
            target_offset: 1.0,
        };
        let gram = solver.gram_of(table);
        let gram = WeightedGram::Matrix(&gram);
        solver.user_vector(gram, table, positives, self.regularization)
    }

    /// Solves for x_u in `table`, which has all rows of Y or some, and returns the gradients of these
    /// rows. The positives are rows of `table`, ascending, each with a factor of alpha.
    ///
    /// # Errors
    /// Those of [`solved`], and [`Error::Diverged`].
    pub(super) fn gradients(
        &self,
        table: &Table,
        weighted: (&[u32], &[f64]),
        task: &LocalTask<'_>,
        solver: &mut LeastSquares,
    ) -> Result<Gradients> {
        let vector = solved(task, self.solve(table, weighted, solver))?;
        let row = |item: &u32| score(&vector, table.row(*item as usize));
        let positives = weighted.0;
        let loss: f64 = positives.iter().map(|item| (1.0 - row(item)).powi(2)).sum();
        let gradients = item_gradients(&vector, table, weighted, self.confidence);
        task.check_magnitude("gradient", largest_magnitude(&gradients))?;
        let (count, shape) = (positives.len(), table.shape());
        let (m, k) = (shape.rows as u64, shape.dimension as u64);
        Ok(Gradients {
            gradients: Table::new(shape, gradients),
            loss: loss / count.max(1) as f64,
            work: Work {
                // Every row is read for Y^T Y and again for its gradient.
                row_visits: 2 * m,
                multiply_adds: m * k * (k + 1) / 2
                    + LeastSquares::multiply_adds(count, shape.dimension)
                    + 2 * m * k,
            },
        })
    }
}

/// What a device finds for the rows of a table.
pub(super) struct Gradients {
    pub gradients: Table,
    /// The mean squared error of the positives among the rows.
    pub loss: f64,
    pub work: Work,
}

impl Declare for Fcf {
    type Parameters = Self;
    type Memory = ();

    const NAME: &str = "fcf";
    const SUMMARY: &str = "implicit least squares: gradients of the whole item table from \
                           everybody, Adam on the server";
    const SOURCE: &str = "Ammad-ud-din et al., Federated Collaborative Filtering, arXiv 1901.09888";
    const FORMULA: &[&str] = &[
        "s_i = x · Y_i,  x = (Yᵀ C Y + λ I)⁻¹ Yᵀ C y,  C = diag(c_i),  c_i = 1 + α y_i, or 1 + α w_i y_i by time",
        "L = Σ_u (Σ_i c_ui (y_ui − x_u · Y_i)² + λ ‖x_u‖²) + λ Σ_i ‖Y_i‖²   (Eq. 1)",
        "Y_i by Adam, along Σ_u c_ui (x_u · Y_i − y_ui) x_u + λ Y_i",
    ];
    const DIFFERS: &str = "The gradient with respect to Y is half of the paper's, which makes no \
                           difference to Adam.";
    const DRAWS_NEGATIVES: bool = false;
    const WITHOUT_CONTROLS: Option<&str> =
        Some("devices send gradients, which the server turns into a table");

    fn resolve(p: &mut Self) -> Vec<ParameterFault> {
        recency::idle(p.recency.as_ref())
    }

    fn new(parameters: Self, _problem: &Problem) -> Self {
        parameters
    }

    /// The rows of Y are drawn from N(0, length^2 / k).
    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let k = self.latent_dimension;
        let rule = ServerRule {
            combine: Combine::Sum,
            optimizer: rule::Optimizer::Adam {
                beta1: self.beta1,
                beta2: self.beta2,
                epsilon: self.epsilon,
            },
            rate: self.server_rate,
            weight_decay: self.regularization,
            ..ServerRule::MEAN
        };
        let start = normal(self.initial_length / math::sqrt(f64::from(k)));
        let table = item_table("Y", size.items, k).start(start);
        vec![table.as_gradient().rule(rule)]
    }

    fn train(&self, _: &mut Own, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<Trained> {
        let table = table_of(task.model, "Y");
        let (positives, factors) = training_weights((&task.own, task.user), self.recency.as_ref())?;
        let weighted = (&positives[..], &factors[..]);
        let found = self.gradients(table, weighted, task, &mut scratch.least_squares)?;
        let update = ModelUpdate::of_table(TableUpdate::whole(found.gradients));
        Ok(Trained::new(update, found.loss, found.work))
    }

    fn scorer<'a>(&'a self, _: &'a Own, context: ScoringContext<'a>) -> Scoring<'a> {
        let table = table_of(context.model, "Y");
        let (positives, factors) =
            weighted_positives((&context.own, context.user), self.recency.as_ref())?;
        let solver = &mut context.scratch.least_squares;
        let vector = self.solve(table, (&positives, &factors), solver);
        let vector = solved_to_score(context.user, vector)?;
        Ok(Box::new(Products::new(vector, table)))
    }
}

/// Returns c_ui (x_u . y_i - p_ui) x_u for every item (m k values), for positives, which must ascend,
/// with this factor of alpha for each.
fn item_gradients(
    vector: &[f64],
    table: &Table,
    (positives, factors): (&[u32], &[f64]),
    confidence: f64,
) -> Vec<f32> {
    let mut gradients = Vec::with_capacity(table.as_slice().len());
    let mut positives = positives.iter().zip(factors).peekable();
    for item in 0..table.shape().rows as u32 {
        let (weight, target) = match positives.next_if(|(positive, _)| **positive == item) {
            Some((_, factor)) => (1.0 + confidence * factor, 1.0),
            None => (1.0, 0.0),
        };
        let error = weight * (score(vector, table.row(item as usize)) - target);
        gradients.extend(vector.iter().map(|value| (error * value) as f32));
    }
    gradients
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fedrecsim_core::UserId;
    use fedrecsim_data::dataset::OwnData;
    use ndarray::Array2;

    const ALPHA: f64 = 4.0;
    const LAMBDA: f64 = 0.5;

    fn method() -> Fcf {
        Fcf {
            confidence: ALPHA,
            regularization: LAMBDA,
            ..Fcf::default()
        }
    }

    const POSITIVES: [u32; 2] = [1, 4];
    const FACTORS: [f64; 2] = [1.0, 0.25];

    /// Returns the loss of one user by equation 1 of the paper, with a factor of alpha for each
    /// positive.
    fn loss(table: &Array2<f32>, x: &[f64]) -> f64 {
        let items = table.rows().into_iter().enumerate().map(|(item, row)| {
            let at = POSITIVES.iter().position(|of| *of as usize == item);
            let (target, factor) = at.map_or((0.0, 0.0), |at| (1.0, FACTORS[at]));
            (1.0 + ALPHA * factor) * (target - score(x, &row.to_vec())).powi(2)
        });
        items.sum::<f64>() + LAMBDA * x.iter().map(|value| value * value).sum::<f64>()
    }

    /// If this fails, the closed form or the gradients are those of another loss.
    #[test]
    fn the_user_vector_is_the_minimum_and_the_gradients_are_half_the_slopes() {
        let table = Array2::from_shape_fn((6, 3), |(item, column)| {
            ((item * 7 + column * 5) % 11) as f32 / 5.0 - 1.0
        });
        let rows = Table::from_array(&table);
        let solver = &mut LeastSquares::default();
        let x = method().solve(&rows, (&POSITIVES, &FACTORS), solver);
        let x = x.unwrap();
        for axis in 0..3 {
            let moved = |step: f64| {
                let mut other = x.clone();
                other[axis] += step;
                loss(&table, &other)
            };
            assert!(((moved(1e-4) - moved(-1e-4)) / 2e-4).abs() < 1e-7);
        }
        let gradients = item_gradients(&x, &rows, (&POSITIVES, &FACTORS), ALPHA);
        for item in 0..6 {
            for axis in 0..3 {
                let moved = |step: f32| {
                    let mut other = table.clone();
                    other[(item, axis)] += step;
                    loss(&other, &x)
                };
                let slope = (moved(0.015_625) - moved(-0.015_625)) / 0.031_25;
                assert!((slope / 2.0 - f64::from(gradients[item * 3 + axis])).abs() < 1e-6);
            }
        }
    }

    /// If this fails, a device that scores with recency does not weigh its positives, or weighs
    /// them the other way round.
    #[test]
    fn a_recent_positive_pulls_the_user_vector_more_than_an_old_one() {
        let shape = TableShape::new(2, 2);
        let table = Table::new(shape, vec![1.0, 0.0, 0.0, 1.0]);
        let vector = |recency: Option<&Recency>| {
            // Item 1 is later than item 0.
            let own = OwnData {
                recency_ranks: (&[1u8, 0][..]).into(),
                ..OwnData::new(&[0, 1])
            };
            let (positives, factors) = weighted_positives((&own, UserId(0)), recency).unwrap();
            let weighted = (&positives[..], &factors[..]);
            method()
                .solve(&table, weighted, &mut LeastSquares::default())
                .unwrap()
        };
        let recency = Recency {
            tau: 1.0,
            floor: 0.0,
            ..Recency::default()
        };
        let (alike, recent) = (vector(None), vector(Some(&recency)));
        assert_eq!(alike[0], alike[1]);
        assert!(
            recent[1] > alike[1] && recent[0] < alike[0],
            "{recent:?} and {alike:?}"
        );
        // The factors e^(-1) and 1 are scaled to a sum of 2, and an item of its own dimension has
        // (1 + w) / (1 + w + lambda).
        let weight = ALPHA * 2.0 / (1.0 + (-1f64).exp());
        assert!((recent[1] - (1.0 + weight) / (1.0 + weight + LAMBDA)).abs() < 1e-12);
    }
}
