//! Implements alternating least squares for positives at the server, with an exact solution for
//! every user and every item.
//!
//! The loss is that of FedGram, with an exponent nu of the regulariser's weights:
//!
//! ```text
//! sum over users u of ( sum over its positives i of (1 - x_u . y_i)^2 + a0 sum over all items j of (x_u . y_j)^2
//!                       + lambda (n_u + a0 m)^nu |x_u|^2 ) + lambda sum over items i of (n_i + a0 n)^nu |y_i|^2
//! ```
//!
//! with n users, m items, n_u positives of user u and n_i users of item i. A pass solves for all
//! x_u and then for all y_i, and the loss never rises. Only Y is kept, since it determines the x_u.
//! A device solves for its own x when it scores. Recent positives may count more there, which keeps
//! times on the device, and in the first term of the loss, for which it sends the weights.
//!
//! Sources: Hu, Koren and Volinsky, Collaborative Filtering for Implicit Feedback Datasets, ICDM
//! 2008; Rendle et al., Revisiting the Performance of iALS on Item Recommendation Benchmarks,
//! RecSys 2022, for the regulariser.

use rayon::prelude::*;

use super::fedgram::numerics::Constants;
use super::fedgram::{self, Background, ByDensity, FedGram, FedGramParameters, TABLE};
use super::prelude::*;
use super::recency::{Recency, sent_weights};
use super::user_vector::single_precision;
use fedrecsim_core::UserId;
use fedrecsim_data::dataset::OwnData;
use fedrecsim_model::algebra::AlgebraError;
use fedrecsim_model::least_squares::{LeastSquares, Positives, WeightedGram, gram_of_table};

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::at_server::<Ials>();

parameters! {
    /// Parameters of implicit alternating least squares.
    pub(crate) struct IalsParameters {
        /// Latent dimension k.
        latent_dimension: u32 = FedGramParameters::default().latent_dimension, >= 1, <= MAX_DIMENSION;
        /// Weight a0 of every pair of a user and an item as a negative; that of a positive is 1, or w_i if recency counts in training.
        unobserved_weight: f64 = FedGramParameters::default().unobserved_weight, > 0.0;
        /// Weight lambda of the regulariser.
        regularization: f64 = FedGramParameters::default().regularization, > 0.0;
        /// Exponent nu: lambda is multiplied by the sum of the weights of a user's or an item's
        /// pairs to this power: 0 is the same regulariser everywhere, 1 one that grows with the
        /// data.
        regularization_exponent: f64 = 1.0, >= 0, <= 1;
        /// The rows of Y start as normal draws of this length, about.
        initial_length: f64 = FedGramParameters::default().initial_length, > 0.0;
        /// Lets recent positives count more, and in the loss if it counts in training. Left out: all
        /// count alike.
        recency: Option<Recency> = None;
        /// Lets `unobserved_weight` and `regularization` follow from the density of the data. Left
        /// out: they are as they are.
        by_density: Option<ByDensity> = None;
    }
}

impl IalsParameters {
    /// Returns the parameters of the FedGram with the same loss and the same devices.
    fn of_fedgram(&self) -> FedGramParameters {
        let recency = |recency: Recency| fedgram::Recency {
            tau: recency.tau,
            floor: recency.floor,
            half_life_days: recency.half_life_days,
            in_training: recency.in_training,
            background: Background::PositivesAtOne,
        };
        FedGramParameters {
            latent_dimension: self.latent_dimension,
            unobserved_weight: self.unobserved_weight,
            regularization: self.regularization,
            initial_length: self.initial_length,
            recency: self.recency.clone().map(recency),
            by_density: self.by_density.clone(),
            ..FedGramParameters::default()
        }
    }
}

/// The FedGram that has the same loss and the same devices.
#[derive(Debug)]
pub(crate) struct Ials(FedGram);

impl Ials {
    /// Returns the rows that minimise the loss for these rows of the other side, given the
    /// positives of each row as numbers of rows of the other side. Threads solve for rows of their
    /// own, so that they change no bit.
    fn solve(
        &self,
        constants: &Constants,
        other: &Table,
        positives: &[OfRow],
        step: &StepContext<'_>,
    ) -> Result<Table> {
        let failed = |cause| step.unsolvable("a row of X or Y", cause);
        let gram = gram_of_table(other);
        let weighted_gram = gram * constants.unobserved_weight;
        let solve = |solver: &mut LeastSquares, of_row: &OfRow| {
            let positives = Positives {
                items: &of_row.positives,
                weights: Some(&of_row.weights),
                target_offset: 0.0,
            };
            let ridge = constants.ridge(of_row.positives.len() as f64, other.shape().rows as f64);
            solver.user_vector(
                WeightedGram::Matrix(&weighted_gram),
                other,
                positives,
                ridge,
            )
        };
        let rows = positives.par_iter().map_init(LeastSquares::default, solve);
        let rows: Result<Vec<Vec<f64>>, AlgebraError> = rows.collect();
        let values = rows.map_err(failed)?.concat();
        let rows = Table::new(
            TableShape::new(positives.len(), other.shape().dimension),
            single_precision(&values),
        );
        step.check_magnitude("X or Y", largest_magnitude(rows.as_slice()))?;
        Ok(rows)
    }

    /// Returns the number of multiply-adds of a pass.
    fn multiply_adds(k: usize, of_users: &[OfRow], of_items: &[OfRow]) -> u64 {
        let solved = |of_row: &OfRow| LeastSquares::multiply_adds(of_row.positives.len(), k);
        let rows: u64 = of_users.iter().chain(of_items).map(solved).sum();
        // The Gram matrices are those of Y before, of X, and of the new Y, which devices use.
        rows + ((2 * of_items.len() + of_users.len()) * k * (k + 1) / 2) as u64
    }
}

/// Holds the positives of a row of X or Y, as numbers of rows of the other side, with their weights.
#[derive(Clone, Debug, Default)]
struct OfRow {
    positives: Vec<u32>,
    weights: Vec<f64>,
}

impl OfRow {
    fn push(&mut self, positive: u32, weight: f64) {
        self.positives.push(positive);
        self.weights.push(weight);
    }
}

/// Returns the positives of each user and of each of `items` items.
fn both_sides(ratings: &[UserRatings], items: usize) -> (Vec<OfRow>, Vec<OfRow>) {
    let mut of_users = vec![OfRow::default(); ratings.len()];
    let mut of_items = vec![OfRow::default(); items];
    for (user, of_user) in of_users.iter_mut().enumerate() {
        let sent = ratings[user].items.iter().zip(&ratings[user].ratings);
        for (&item, &weight) in sent {
            of_user.push(item, weight.into());
            of_items[item as usize].push(user as u32, weight.into());
        }
    }
    (of_users, of_items)
}

impl Central for Ials {
    type Parameters = IalsParameters;
    type Memory = ();

    const NAME: &str = "ials";
    const SUMMARY: &str = "centralised implicit alternating least squares: users send their \
                           ratings once, every row is solved for";
    const SOURCE: &str = "Hu, Koren and Volinsky, Collaborative Filtering for Implicit Feedback \
                          Datasets, ICDM 2008; regulariser of Rendle et al., RecSys 2022";
    const FORMULA: &[&str] = &[
        "s_i = x · Y_i,  with the x that minimises the user's part of L",
        "L = Σ_u (Σ_{i∈I_u} (1 − x_u · Y_i)² + a₀ Σ_i (x_u · Y_i)² + λ (n_u + a₀ m)^ν ‖x_u‖²) + λ Σ_i (n_i + a₀ n)^ν ‖Y_i‖²",
        "a pass solves for all x_u, then for all Y_i",
        "trained by time, a positive counts w_ui times in L's first term",
    ];
    const DRAWS_NEGATIVES: bool = false;

    fn resolve(p: &mut IalsParameters) -> Vec<ParameterFault> {
        fedgram::idle(p, (p.by_density.as_ref(), p.recency.as_ref()))
    }

    fn new(parameters: IalsParameters, _problem: &Problem) -> Self {
        Self(FedGram {
            exponent: parameters.regularization_exponent,
            parameters: parameters.of_fedgram(),
        })
    }

    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        self.0.model_blocks(size.items)
    }

    /// A user sends the positives with their weights in training.
    fn sent(&self, own: (&OwnData<'_>, UserId)) -> Result<(Vec<u32>, Vec<f32>)> {
        let recency = self.0.parameters.recency.as_ref();
        let recency = recency.map(fedgram::Recency::weighting);
        sent_weights(own, recency.as_ref())
    }

    fn initial(&self, drawn: Model) -> Model {
        self.0.initial(drawn)
    }

    /// Y^T Y is computed from Y again, so that it fits even if the caller has only changed Y.
    fn adopted(&self, mut model: Model) -> Result<Model> {
        fedgram::renew(&mut model)?;
        Ok(model)
    }

    fn pass(&self, pass: Pass<'_, ()>) -> Result<StepReport> {
        let (of_users, of_items) = both_sides(pass.ratings, pass.problem.items);
        let positives: usize = of_users.iter().map(|user| user.positives.len()).sum();
        let mean_positives = (positives as f32 / of_users.len().max(1) as f32).max(1.0);
        let constants = self.0.constants(f64::from(mean_positives), of_items.len());
        let table = table_of(pass.model, TABLE);
        let k = table.shape().dimension;
        let users = self.solve(&constants, table, &of_users, pass.step)?;
        let items = self.solve(&constants, &users, &of_items, pass.step)?;
        pass.model.set_table(0, items.into())?;
        fedgram::renew(pass.model)?;
        fedgram::tell(pass.model, fedgram::MEAN_POSITIVES, vec![mean_positives])?;
        Ok(StepReport {
            multiply_adds: Self::multiply_adds(k, &of_users, &of_items),
            ..StepReport::default()
        })
    }

    fn scorer<'a>(&'a self, context: ScoringContext<'a>) -> Scoring<'a> {
        self.0.device_scorer(context)
    }
}

#[cfg(test)]
mod tests;
