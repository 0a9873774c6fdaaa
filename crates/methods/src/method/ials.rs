//! Implements alternating least squares for positives at the server, in which every user and every
//! item is solved for exactly.
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

use std::sync::Arc;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::central::{CentralMethod, CentralScoring, CentralTrainer, UserRatings};
use super::fedgram::numerics::Constants;
use super::fedgram::{
    Background, ByDensity, Counts, FedGram, FedGramClient, FedGramParameters, Shared, TABLE,
};
use super::recency::Recency;
use super::server::{StepContext, StepReport};
use super::user_vector::times;
use super::{
    Client, Entry, Method, Placement, Problem, Scorer, ScoringContext, Scratch, fedgram,
    largest_magnitude, parameters, sizes_by,
};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_model::model::algebra::AlgebraError;
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::kernel::MAX_DIMENSION;
use fedrecsim_model::model::least_squares::{LeastSquares, Positives, Weights, gram_of_table};
use fedrecsim_model::model::table::{Table, TableShape};

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "ials",
    summary: "centralised implicit alternating least squares: users send their ratings once, every row is solved for",
    source: "Hu, Koren and Volinsky, Collaborative Filtering for Implicit Feedback Datasets, ICDM 2008; regulariser of \
             Rendle et al., RecSys 2022",
    schema: &|| schemars::schema_for!(IalsParameters),
    resolve: &fedgram::without_effect,
    placement: Placement::Central,
    draws_negatives: false,
    sizes: &|value, size| sizes_by(value, |p: IalsParameters| p.of_fedgram().layout(size.items)),
    build: &|value, problem| Ok(Box::new(Ials::new(&parameters("ials", value)?, problem))),
};

/// Parameters of implicit alternating least squares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct IalsParameters {
    /// Latent dimension k.
    #[schemars(range(min = 1, max = MAX_DIMENSION))]
    pub latent_dimension: u32,
    /// Weight a0 of every pair of a user and an item as a negative; that of a positive is 1.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub unobserved_weight: f64,
    /// Weight lambda of the regulariser.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub regularization: f64,
    /// Exponent nu of the sum of the weights of a user's or an item's pairs, by which lambda is
    /// multiplied: 0 for the same regulariser everywhere, 1 for one that grows with the data.
    #[schemars(range(min = 0, max = 1))]
    pub regularization_exponent: f64,
    /// The rows of Y start as normal draws of this length, about.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub initial_length: f64,
    /// Lets recent positives count more when a device scores. Left out: all count alike.
    pub recency: Option<Recency>,
    /// Lets `unobserved_weight` and `regularization` follow from the density of the data. Left out:
    /// they are as they are.
    pub by_density: Option<ByDensity>,
}

impl Default for IalsParameters {
    fn default() -> Self {
        let FedGramParameters {
            latent_dimension,
            unobserved_weight,
            regularization,
            initial_length,
            ..
        } = FedGramParameters::default();
        Self {
            latent_dimension,
            unobserved_weight,
            regularization,
            regularization_exponent: 1.0,
            initial_length,
            recency: None,
            by_density: None,
        }
    }
}

impl IalsParameters {
    /// Returns the parameters of the FedGram with the same loss and the same devices.
    fn of_fedgram(&self) -> FedGramParameters {
        let Self {
            latent_dimension,
            unobserved_weight,
            regularization,
            initial_length,
            ..
        } = *self;
        let background = Background::PositivesAtOne;
        let recency = |Recency { tau, floor }| fedgram::Recency {
            tau,
            floor,
            background,
        };
        FedGramParameters {
            latent_dimension,
            unobserved_weight,
            regularization,
            initial_length,
            recency: self.recency.clone().map(recency),
            by_density: self.by_density.clone(),
            ..FedGramParameters::default()
        }
    }
}

/// Describes the method by the FedGram that has the same loss and the same devices.
#[derive(Debug)]
pub(crate) struct Ials {
    federated: FedGram,
}

impl Ials {
    /// Makes the method for a problem of this size, with FedGram's initial values.
    pub(crate) fn new(parameters: &IalsParameters, problem: &Problem) -> Self {
        let exponent = parameters.regularization_exponent;
        Self {
            federated: FedGram::with_exponent(parameters.of_fedgram(), exponent, problem),
        }
    }
}

impl CentralMethod for Ials {
    type Scoring = FedGramClient;

    fn items(&self) -> usize {
        self.federated.shared.shape.rows
    }

    fn trainer(&self) -> Box<dyn CentralTrainer> {
        Box::new(Trainer {
            shared: Arc::clone(&self.federated.shared),
            model: self.federated.initial(),
        })
    }

    fn scoring(&self) -> FedGramClient {
        self.federated.device()
    }
}

impl CentralScoring for FedGramClient {
    fn scorer<'a>(
        &'a self,
        context: &ScoringContext<'a>,
        scratch: &mut Scratch,
    ) -> Result<Box<dyn Scorer + 'a>> {
        Client::scorer(self, context, scratch)
    }
}

/// Solves for users and items in turn.
struct Trainer {
    shared: Arc<Shared>,
    model: Model,
}

impl Trainer {
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
        let shape = self.shared.shape;
        let failed = |cause: AlgebraError| match cause {
            AlgebraError::NotPositiveDefinite { .. } => step.singular("a row of X or Y", &cause),
            other => Error::Update(other.to_string()),
        };
        let weighted_gram = times(
            &gram_of_table(&other.view()).map_err(failed)?,
            constants.unobserved_weight,
        );
        let solve = |solver: &mut LeastSquares, items: &P| {
            let positives = Positives {
                items: items.as_ref(),
                weights: Weights::Equal(1.0),
                target_offset: 0.0,
            };
            let ridge = constants.ridge(positives.items.len() as f64, other.shape().rows as f64);
            solver.user_vector(&weighted_gram, &other.view(), positives, ridge)
        };
        let rows = positives.par_iter().map_init(LeastSquares::default, solve);
        let rows = rows
            .collect::<Result<Vec<Vec<f64>>, AlgebraError>>()
            .map_err(failed)?;
        let values = rows.iter().flatten().map(|value| *value as f32).collect();
        let rows = Table::new(
            TableShape {
                rows: positives.len(),
                ..shape
            },
            values,
        );
        step.check_magnitude("X or Y", largest_magnitude(rows.as_slice()))?;
        Ok(rows)
    }

    /// Returns the number of multiply-adds of a pass, for the numbers of positives of users and of
    /// items.
    fn multiply_adds(&self, of_users: &[&[u32]], of_items: &[Vec<u32>]) -> u64 {
        let k = self.shared.shape.dimension;
        let solved = |count: usize| LeastSquares::multiply_adds(count, k);
        let users: u64 = of_users.iter().map(|items| solved(items.len())).sum();
        let items: u64 = of_items.iter().map(|users| solved(users.len())).sum();
        // The Gram matrices are those of Y before, of X, and of the new Y, which devices use.
        users + items + ((2 * of_items.len() + of_users.len()) * k * (k + 1) / 2) as u64
    }
}

impl CentralTrainer for Trainer {
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

    fn pass(&mut self, ratings: &[UserRatings], step: &StepContext<'_>) -> Result<StepReport> {
        let of_users: Vec<&[u32]> = ratings.iter().map(|user| &user.items[..]).collect();
        let mut of_items = vec![Vec::new(); self.shared.shape.rows];
        for (user, items) in (0..).zip(&of_users) {
            items
                .iter()
                .for_each(|item| of_items[*item as usize].push(user));
        }
        let positives: usize = of_users.iter().map(|items| items.len()).sum();
        let mean_positives = (positives as f32 / of_users.len().max(1) as f32).max(1.0);
        let counts = Counts {
            mean_positives,
            ..Counts::default()
        };
        let constants = self.shared.constants(f64::from(mean_positives));
        let users = self.solve(&constants, self.model.table(TABLE), &of_users, step)?;
        let items = self.solve(&constants, &users, &of_items, step)?;
        self.model = self.shared.model(items, counts)?;
        Ok(StepReport {
            multiply_adds: self.multiply_adds(&of_users, &of_items),
            ..StepReport::default()
        })
    }
}

#[cfg(test)]
mod tests;
