//! Implements FedDAD, double additive decoupling (code cc4869cc/FedDAD a508502; no publication found).
//!
//! It is FedRAP whose scoring vector is the sum of two, as its item tables are. The user vector a
//! and the item table D are private, and the item table C and a table U with a row for each user
//! are shared, whole. The logit of item j is (a + U_u) . (D_j + C_j).

use super::{Epochs, FedRap, FedRapParameters, Split, score_by_sums};
use crate::declare::learn::draw_samples;
use crate::prelude::*;
use fedrecsim_model::kernel::packed_vector;

#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::of::<FedDad>();

choices! {
    /// How lambda and mu change after the first round, which has them as they are.
    pub(crate) enum Ramp {
        /// The first round has them whole, and a later round r (from 1) tanh((r - 2) / 10) of them, so the second none.
        Tanh,
        /// As they are in all rounds.
        Fixed,
    }
}

parameters! {
    /// Parameters of FedDAD; the defaults are those of its code.
    pub(crate) struct FedDadParameters {
        /// Latent dimension k.
        latent_dimension: u32 = 32, >= 1, <= MAX_DIMENSION;
        /// Passes over the local samples per round, at most.
        local_epochs: u32 = 10, >= 1, <= 10_000;
        /// Samples per batch.
        batch_size: u32 = 2048, >= 1;
        /// Learning rate of a and U.
        learning_rate_users: f64 = 0.5, > 0.0;
        /// Learning rate of C and D.
        learning_rate_items: f64 = 200.0, > 0.0;
        /// Factor of both rates after every batch of a round.
        learning_rate_batch_decay: f64 = 0.95, > 0.0, <= 1;
        /// Factor of both rates after every round.
        learning_rate_round_decay: f64 = 0.97, > 0.0, <= 1;
        /// Weight decay of every parameter, touched or not.
        weight_decay: f64 = 1e-4, >= 0;
        /// Weight of the terms that drive a and U, and D and C, apart.
        lambda: f64 = 0.1, >= 0;
        /// Weight of |U_u| and |C|.
        mu: f64 = 0.1, >= 0;
        /// How lambda and mu change from round to round.
        curriculum: Ramp = Ramp::Tanh;
        /// A device ends its passes once one has changed the mean loss by less than this share.
        early_stop_tolerance: f64 = 1e-4, >= 0;
    }
}

/// Holds what a device trains as FedRAP.
pub(crate) struct FedDad {
    curriculum: Ramp,
    additive: FedRap,
}

impl Ramp {
    /// Returns the share of lambda and mu in round `round`, from 0.
    fn factor(self, round: u32) -> f32 {
        match (self, round.checked_sub(1)) {
            (Self::Tanh, Some(before)) => math::tanh(f64::from(before) / 10.0) as f32,
            _ => 1.0,
        }
    }
}

impl Declare for FedDad {
    type Parameters = FedDadParameters;
    type Memory = ();

    const NAME: &str = "feddad";
    const SUMMARY: &str = "FedRAP with a scoring vector that is a sum as well: a private one plus the \
                           user's row of a shared table";
    const SOURCE: &str = "Federated Recommendation with Double Additive Decoupling; code \
                          cc4869cc/FedDAD a508502; no publication found";
    const FORMULA: &[&str] = &[
        "s_j = (a + U_u) · (D_j + C_j)",
        "L = mean BCE(s_j, y_j) − λ mean (a − U_u)² − λ mean (D_j − C_j)² + μ mean |U_u| + μ mean |C_j|",
    ];
    const DIFFERS: &str = "What is here is the code, whose metrics cannot be imported, so that it does \
                           not run as published. Its other penalties and curricula are left out. \
                           Devices send U whole, although each changes its own row alone. The loss of \
                           its library has no gradient once a sigmoid is exactly 1 in single \
                           precision, and the one here has. No figure has been published.";

    fn new(p: FedDadParameters, problem: &Problem) -> Self {
        let additive = FedRapParameters {
            latent_dimension: p.latent_dimension,
            local_epochs: p.local_epochs,
            batch_size: Some(p.batch_size),
            learning_rate_network: p.learning_rate_users,
            learning_rate_tables: Some(p.learning_rate_items),
            learning_rate_batch_decay: Some(p.learning_rate_batch_decay),
            learning_rate_round_decay: Some(p.learning_rate_round_decay),
            weight_decay: Some(p.weight_decay),
            lambda: p.lambda,
            mu: p.mu,
            early_stop_tolerance: Some(p.early_stop_tolerance),
            ..FedRapParameters::default()
        };
        Self {
            curriculum: p.curriculum,
            additive: FedRap::of(additive, problem),
        }
    }

    /// All users start with the same D, and each with an a of its own.
    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let k = self.additive.dimension();
        let table = |name| item_table(name, size.items, k as u32);
        let blocks = [
            table("C"),
            weights("U", size.users, k),
            vector("a", k as u32).private(),
            table("D").private().alike(),
        ];
        blocks.map(|block| block.start(normal(1.0))).into()
    }

    fn train(&self, own: &mut Own, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<Trained> {
        draw_samples(task, &mut scratch.samples)?;
        let mut users = Table::clone(table_of(task.model, "U"));
        let split = Split::new(own.get("a"), users.row(task.user.index()));
        let (plan, factor) = (&self.additive, self.curriculum.factor(task.round.0));
        let start = (packed_vector(&split.sum()), 0.0);
        let mut epochs = Epochs::new(plan, start, factor, task).split(split);
        let mut trained = plan.train_rows(&mut epochs, own, task, scratch)?;
        let Some(split) = epochs.split else {
            return Ok(trained);
        };
        task.check_values("a", &split.own)?;
        task.check_values("U", &split.shared)?;
        own.get_mut("a").copy_from_slice(&split.own);
        let values = users.as_mut_slice().iter_mut();
        values.for_each(|value| *value *= split.others_scale);
        users
            .row_mut(task.user.index())
            .copy_from_slice(&split.shared);
        trained.update.blocks.push(TableUpdate::whole(users));
        Ok(trained)
    }

    fn scorer<'a>(&'a self, own: &'a Own, context: ScoringContext<'a>) -> Scoring<'a> {
        let users = table_of(context.model, "U");
        let vector = Split::new(own.get("a"), users.row(context.user.index())).sum();
        let table = Some(table_of(context.model, "C"));
        Ok(score_by_sums((vector, 0.0), Some(own.rows("D")), table))
    }
}
