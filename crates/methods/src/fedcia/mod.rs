//! Implements FedCIA (Han et al., SIGIR 2025; code Mingzhe-Han/FedCIA bbc4224), which averages how
//! similar items are in place of their rows: with embeddings here, and without parameters in [`gsp`].
//!
//! The user vector u and the item table V are private. A device sends S_u = V V^T, and receives the
//! mean S of all. Before it trains, and before it scores, it moves V until V V^T is near S: tables of
//! other devices may be rotated against its own.

use std::sync::Arc;

use self::align::{align, similarity};
pub(crate) use self::objective::Objective;
use self::objective::slopes;
use super::declare::learn::moments::{self, KeptMoments};
use super::declare::learn::{draw_rows, pairs_of};
use super::prelude::*;
use super::without_effect;
use fedrecsim_model::neural::optimizer::AdamSettings;
use fedrecsim_model::row_table::RowTable;

mod align;
mod filter;
pub(crate) mod gsp;
mod objective;
#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::of::<FedCia>();

parameters! {
    /// Parameters of FedCIA with embeddings; the defaults are those that the code has for MovieLens
    /// 100K with a client for each user, but for `latent_dimension`.
    pub(crate) struct FedCia {
        /// Latent dimension k. The code has 256; an alignment takes steps x (items^2 k + 2 items k^2)
        /// multiply-adds.
        latent_dimension: u32 = 32, >= 1, <= MAX_DIMENSION;
        /// Passes over the local samples per round.
        local_epochs: u32 = 1, >= 1, <= 10_000;
        /// Pairs of a positive and a negative per batch.
        batch_size: u32 = 4096, >= 1;
        /// Adam's learning rate of u and V.
        learning_rate: f64 = 0.01, > 0.0;
        /// Weight decay of the rows in a batch and in an alignment.
        weight_decay: f64 = 1e-3, >= 0;
        /// What is squared in the loss.
        objective: Objective = Objective::PublishedCode;
        /// Steps of an alignment.
        alignment_steps: u32 = 100, <= 10_000;
        /// Learning rate of an alignment (`agg_lr`).
        alignment_rate: f64 = 0.1, > 0.0;
    }
}

impl FedCia {
    /// Returns V as the device has it once it has received a model, and the multiply-adds.
    fn aligned(&self, own: &Own, model: &Model) -> (Table, u64) {
        let (rows, start) = own.rows("V");
        let mut table = rows.whole(start);
        let rates = [self.alignment_rate, self.weight_decay];
        let s = table_of(model, "S");
        let multiply_adds = align(&mut table, s, self.alignment_steps, rates);
        (table, multiply_adds)
    }
}

impl Declare for FedCia {
    type Parameters = Self;
    type Memory = ();

    const NAME: &str = "fedcia";
    const SUMMARY: &str = "private vectors and item tables; devices move their tables towards the \
                           mean of all similarities of items";
    const SOURCE: &str = gsp::SOURCE;
    const FORMULA: &[&str] = &[
        "s_i = u · V_i",
        "L = ½ [mean over d of (u_d V_pd − 1)² + mean over d of (u_d V_qd)²] + decay,  for a positive p and a negative q",
        "before that, and before scoring, V descends along |V Vᵀ − S|;  S = mean over devices of V Vᵀ",
    ];
    const DIFFERS: &str = "`objective` chooses: the code (`published-code`, the default) pulls each \
                           u_d V_pd towards 1 and not their sum (`paper`, by our reading; the paper \
                           was not read). A device holds one user here, as in the code's setting of \
                           943 clients. The code draws as many positives with replacement as a user \
                           has, each with a negative, once for all rounds; here each positive comes \
                           once with the negatives that the scenario says (1 in the code), once for \
                           all rounds too. The code adds Laplace noise of .001 to each value that is \
                           sent, which is `privacy.laplace.scale = 0.001` here. Its LightGCN, its \
                           mixture of models and its upload of singular vectors are left out. No \
                           figure of the paper is at hand.";

    fn resolve(p: &mut Self) -> Vec<ParameterFault> {
        let (is_off, because) = (p.alignment_steps == 0, "nothing is aligned");
        without_effect(p, &[("alignment_rate", is_off, because)])
    }

    fn new(parameters: Self, _problem: &Problem) -> Self {
        parameters
    }

    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let (m, k) = (size.items, self.latent_dimension);
        let mut blocks = vec![
            item_table("V", m, k).private().alike().start(normal(0.1)),
            vector("u", k).private().start(normal(0.1)),
            item_table("S", m, m as u32),
        ];
        blocks.extend(moments::blocks(m, k));
        blocks
    }

    fn train(&self, own: &mut Own, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<Trained> {
        let (mut table, of_alignment) = self.aligned(own, task.model);
        let once = LocalTask {
            draws_once: true,
            ..*task
        };
        let rows = draw_rows(&once, &table, scratch)?;
        let (items, samples) = (&scratch.round_rows.rows, &scratch.round_rows.samples);
        let mut pairs = pairs_of(samples);
        let k = self.latent_dimension as usize;
        let mut parameters = [own.get("u"), &rows].concat();
        let mut adam = KeptMoments::of(own, items, AdamSettings::with_rate(self.learning_rate));
        let mut gradient = vec![0.0; parameters.len()];
        let goal = (self.objective, self.weight_decay as f32);
        let mut order = task.stream(Purpose::Shuffle);
        let passes = Training::of(self.local_epochs, self.batch_size);
        let loss = passes.run(&mut pairs, &mut order, |batch| {
            let loss = slopes(goal, (k, &parameters), batch, &mut gradient);
            adam.step(&mut parameters, &gradient);
            loss * batch.len() as f32
        });
        let (user, rows) = parameters.split_at(k);
        task.check_values("u", user)?;
        own.get_mut("u").copy_from_slice(user);
        adam.keep(own, items);
        for (item, row) in items.iter().zip(rows.chunks_exact(k)) {
            table.row_mut(*item as usize).copy_from_slice(row);
        }
        task.check_values("V", table.as_slice())?;
        let (sent, of_products) = similarity(&table);
        task.check_values("S", sent.as_slice())?;
        *own.rows_mut("V").0 = RowTable::holding(&table);
        let visits = 2 * (self.local_epochs as usize * pairs.len()) as u64;
        let work = Work {
            row_visits: visits,
            multiply_adds: of_alignment + of_products + visits * 6 * k as u64,
        };
        let update = ModelUpdate::of_table(TableUpdate::whole(sent));
        Ok(Trained::new(update, loss, work))
    }

    fn scorer<'a>(&'a self, own: &'a Own, context: ScoringContext<'a>) -> Scoring<'a> {
        let table = self.aligned(own, context.model).0;
        let user = own.get("u").to_vec();
        Ok(Box::new(Products::new(user, &Arc::new(table))))
    }
}
