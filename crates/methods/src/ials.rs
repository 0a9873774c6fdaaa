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
//! A device solves for its own x when it scores, optionally with more weight on recent positives.
//! Times never leave the device.
//!
//! Sources: Hu, Koren and Volinsky, Collaborative Filtering for Implicit Feedback Datasets, ICDM
//! 2008; Rendle et al., Revisiting the Performance of iALS on Item Recommendation Benchmarks,
//! RecSys 2022, for the regulariser.

use rayon::prelude::*;

use super::fedgram::numerics::Constants;
use super::fedgram::{self, Background, ByDensity, FedGram, FedGramParameters, TABLE};
use super::prelude::*;
use super::recency::Recency;
use super::user_vector::single_precision;
use fedrecsim_model::algebra::AlgebraError;
use fedrecsim_model::least_squares::{LeastSquares, Positives, WeightedGram, gram_of_table};

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::at_server::<Ials>();

parameters! {
    /// Parameters of implicit alternating least squares.
    pub(crate) struct IalsParameters {
        /// Latent dimension k.
        latent_dimension: u32 = FedGramParameters::default().latent_dimension, >= 1, <= MAX_DIMENSION;
        /// Weight a0 of every pair of a user and an item as a negative; that of a positive is 1.
        unobserved_weight: f64 = FedGramParameters::default().unobserved_weight, > 0.0;
        /// Weight lambda of the regulariser.
        regularization: f64 = FedGramParameters::default().regularization, > 0.0;
        /// Exponent nu: lambda is multiplied by the sum of the weights of a user's or an item's
        /// pairs to this power: 0 is the same regulariser everywhere, 1 one that grows with the
        /// data.
        regularization_exponent: f64 = 1.0, >= 0, <= 1;
        /// The rows of Y start as normal draws of this length, about.
        initial_length: f64 = FedGramParameters::default().initial_length, > 0.0;
        /// Lets recent positives count more when a device scores. Left out: all count alike.
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
    fn solve<P: AsRef<[u32]> + Sync>(
        &self,
        constants: &Constants,
        other: &Table,
        positives: &[P],
        step: &StepContext<'_>,
    ) -> Result<Table> {
        let failed = |cause| step.unsolvable("a row of X or Y", cause);
        let gram = gram_of_table(other);
        let weighted_gram = gram * constants.unobserved_weight;
        let solve = |solver: &mut LeastSquares, items: &P| {
            let positives = Positives {
                items: items.as_ref(),
                weights: None,
                target_offset: 0.0,
            };
            let ridge = constants.ridge(positives.items.len() as f64, other.shape().rows as f64);
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

    /// Returns the number of multiply-adds of a pass, for the numbers of positives of users and of
    /// items.
    fn multiply_adds(k: usize, of_users: &[&[u32]], of_items: &[Vec<u32>]) -> u64 {
        let solved = |count: usize| LeastSquares::multiply_adds(count, k);
        let users: u64 = of_users.iter().map(|items| solved(items.len())).sum();
        let items: u64 = of_items.iter().map(|users| solved(users.len())).sum();
        // The Gram matrices are those of Y before, of X, and of the new Y, which devices use.
        users + items + ((2 * of_items.len() + of_users.len()) * k * (k + 1) / 2) as u64
    }
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

    fn initial(&self, drawn: Model) -> Model {
        self.0.initial(drawn)
    }

    /// Y^T Y is computed from Y again, so that it fits even if the caller has only changed Y.
    fn adopted(&self, mut model: Model) -> Result<Model> {
        fedgram::renew(&mut model)?;
        Ok(model)
    }

    fn pass(&self, pass: Pass<'_, ()>) -> Result<StepReport> {
        let of_users: Vec<&[u32]> = pass.ratings.iter().map(|user| &user.items[..]).collect();
        let mut of_items = vec![Vec::new(); pass.problem.items];
        for (user, items) in (0..).zip(&of_users) {
            let items = items.iter();
            items.for_each(|item| of_items[*item as usize].push(user));
        }
        let positives: usize = of_users.iter().map(|items| items.len()).sum();
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
