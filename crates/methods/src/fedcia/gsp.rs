//! Implements FedCIA without parameters: the mean of item filters.
//!
//! A device makes GF-CF's filter F_u of its own rows and sends it. It scores with the mean F of all
//! filters and, as in the code, once more with its own, which has an effect on its own items alone.

use super::filter::filter;
use crate::prelude::*;
use crate::spectral::sum_of_rows;
use crate::user_vector::DistinctPositives;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::of::<FedCiaGsp>();

/// The source of both forms of the method.
pub(super) const SOURCE: &str = "Han et al., FedCIA: Federated Collaborative Information Aggregation for \
                      Privacy-Preserving Recommendation, SIGIR 2025, arXiv 2504.14208; code \
                      Mingzhe-Han/FedCIA bbc4224";

parameters! {
    /// Parameters of FedCIA without parameters; the defaults are the published ones for MovieLens
    /// 100K.
    pub(crate) struct FedCiaGsp {
        /// Weight w of the ideal low-pass filter beside the item graph (`wp`).
        low_pass_weight: f64 = 0.3, >= 0;
        /// Weight a of the scores of the mean filter beside those of the own one (`agg_p`).
        aggregate_weight: f64 = 60.0, > 0.0;
    }
}

/// Makes the block the mean of what was sent in the last step: what stood there decays whole. A row
/// that nobody has sent stays.
const LAST_MEAN: ServerRule = ServerRule {
    weight_decay: 1.0,
    ..ServerRule::MEAN
};

impl Declare for FedCiaGsp {
    type Parameters = Self;
    type Memory = ();

    const NAME: &str = "fedcia-gsp";
    const SUMMARY: &str = "the mean of the item filters (GF-CF) that devices make of their own rows; \
                           nothing is trained";
    const SOURCE: &str = SOURCE;
    const FORMULA: &[&str] = &[
        "s_i = Σ_{p∈I_u} (a F_pi + (F_u)_pi),  F = mean over u of F_u",
        "F_u = NᵀN + w D^(−1/2) V Vᵀ D^(1/2) of the device's own rows;  with one user (1 + w)/n_u between its items",
    ];
    const DIFFERS: &str = "A device holds one user here, as in the code's setting of 943 clients on \
                           MovieLens 100K; its other setting has 100 clients of about nine users, \
                           whose filters tell more of items (F1@10 .236 against .2165 by our own \
                           count on its split). The code adds Laplace noise of .001 to each value, \
                           which is `privacy.laplace.scale = 0.001` here; without it devices list \
                           the rows of their own items alone. The code takes 32 singular vectors of \
                           a matrix of rank nine; here there are no more than its rank. Its MRR and \
                           NDCG go by the numbers of items and not by ranks, so that its F1 alone \
                           can be compared. Where some take part, F is the mean over them, and \
                           rows that none of them has stay as they were. The paper was not read.";
    const DRAWS_NEGATIVES: bool = false;
    const WITHOUT_CONTROLS: Option<&str> = Some(
        "a device alone tells its own items from others and nothing else, and the method's server \
         takes the mean",
    );

    fn new(parameters: Self, _problem: &Problem) -> Self {
        parameters
    }

    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let filter = item_table("F", size.items, size.items as u32);
        vec![filter.as_gradient().rule(LAST_MEAN)]
    }

    /// Sends the rows of the device's own filter, negative as the gradient that steps towards them.
    fn train(&self, _: &mut Own, task: &LocalTask<'_>, _scratch: &mut Scratch) -> Result<Trained> {
        let DistinctPositives { items, .. } = DistinctPositives::of(&task.own);
        let shape = table_of(task.model, "F").shape();
        let own = filter(&[&items], 1, self.low_pass_weight);
        let own = own.map_err(|cause| Error::Update(cause.to_string()))?;
        let mut rows = vec![0.0; items.len() * shape.dimension];
        for (row, values) in rows
            .chunks_exact_mut(shape.dimension)
            .zip(own.values.rows())
        {
            for (item, value) in own.items.iter().zip(values) {
                row[*item as usize] = -*value as f32;
            }
        }
        let work = Work {
            row_visits: items.len() as u64,
            multiply_adds: 3 * (items.len() * items.len()) as u64,
        };
        let update = TableUpdate::listed(shape, own.items, &rows, 1.0)?;
        Ok(Trained::new(ModelUpdate::of_table(update), 0.0, work))
    }

    fn scorer<'a>(&'a self, _: &'a Own, context: ScoringContext<'a>) -> Scoring<'a> {
        let DistinctPositives { items, .. } = DistinctPositives::of(&context.own);
        let weighted = items.iter().map(|item| (*item, self.aggregate_weight));
        let mut sums = sum_of_rows(table_of(context.model, "F"), weighted);
        let own = filter(&[&items], 1, self.low_pass_weight);
        let own = own.map_err(|cause| Error::Update(cause.to_string()))?;
        for (item, column) in own.items.iter().zip(own.values.columns()) {
            sums[*item as usize] += column.sum();
        }
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            for (item, score) in items.iter().zip(scores) {
                *score = sums[*item as usize] as f32;
            }
        }))
    }
}
