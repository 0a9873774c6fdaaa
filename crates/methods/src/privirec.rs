//! Implements federated graph filtering (PriviRec): GF-CF from sums.
//!
//! With N_ui = x_ui / (n_u n_i)^(1/2) for the positives x, the item graph is P = N^T N, and V are its
//! leading eigenvectors. A device scores with P and with an ideal low-pass filter of V. The server
//! finds V by block power iteration: devices get rows of A = D^(-1/2) V and send, for each positive,
//! the mean row of their positives. P itself has a value for each pair of items. The variant that is
//! here replaces it by its part of rank k, so that nothing of that size travels.
//!
//! Nothing is drawn but the start of A. An upload discloses the user's positives, which are its rows.
//! With `sends_counts` the server only adds uploads up, so that secure aggregation can hide them.
//!
//! Source: Nicolas et al., Secure Federated Graph-Filtering for Recommender Systems, arXiv 2501.16888
//! (PriviRec, CIKM 2025), of which the abstracts were read; GF-CF: Shen et al., How Powerful is Graph
//! Convolution for Recommendation, CIKM 2021.

use super::prelude::*;
use super::recency::{self, Recency, weighted_positives};
use super::spectral::{self, BySpectrum, Found, sum_of_rows};
use super::task::score_items;
use super::user_vector::DistinctPositives;

#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::of::<PriviRec>();

parameters! {
    /// Parameters of federated graph filtering.
    pub(crate) struct PriviRec {
        /// Number k of eigenvectors, the latent dimension. A catalogue of fewer items has as many
        /// as items.
        latent_dimension: u32 = 64, >= 1, <= MAX_DIMENSION;
        /// Weight alpha of the ideal low-pass filter beside the item graph.
        low_pass_weight: f64 = 0.3, >= 0;
        /// Share of the users who must have sent an upload before the server steps. Until then A
        /// stays as it is, and another upload of the same user does not count. With `sends_counts`
        /// it does, since a sum does not say who is in it.
        coverage: f64 = 0.9, > 0.0, <= 1;
        /// Whether devices send a count of 1 for each of their positives and for themselves beside
        /// the rows, so that the server uses nothing but sums, which secure aggregation and noise
        /// on the sum need. Otherwise it counts who has sent which row.
        sends_counts: bool = false;
        /// Lets recent positives count more when a device scores. Left out: all count alike.
        recency: Option<Recency> = None;
    }
}

impl Declare for PriviRec {
    type Parameters = Self;
    type Memory = ();

    const NAME: &str = "privirec";
    const SUMMARY: &str = "federated graph filtering: GF-CF's item graph of low rank, from sums of \
                           rows";
    const SOURCE: &str = "Nicolas et al., Secure Federated Graph-Filtering for Recommender Systems, \
                          arXiv 2501.16888 (no code found)";
    const FORMULA: &[&str] = &[
        "P = NᵀN,  N_ui = x_ui / √(n_u n_i);  V and σ² its k leading eigenvectors and eigenvalues",
        "a device sends (1 / n_u) Σ_{q∈I_u} A_q for its items,  A_q = V_q / √n_q",
        "s_i = Σ_{p∈I_u} (V_p diag(σ²) V_iᵀ + α √(n_i / n_p) V_p V_iᵀ)",
    ];
    const DIFFERS: &str = "Of the paper only abstracts were read. Item degrees come with the first \
                           uploads and not in a phase of their own, and a step is a Nystroem step \
                           and not a QR decomposition. The variant with the whole item graph, which \
                           sends a value for each pair of items, is not here.";
    const DRAWS_NEGATIVES: bool = false;
    const WITHOUT_CONTROLS: Option<&str> = spectral::WITHOUT_CONTROLS;

    fn resolve(p: &mut Self) -> Vec<ParameterFault> {
        recency::idle_in_training(p.recency.as_ref())
    }

    fn new(parameters: Self, _problem: &Problem) -> Self {
        parameters
    }

    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let told = ["eigenvalues", "roots of counts"];
        spectral::blocks(size.items, self.latent_dimension, told, "mean rows")
    }

    fn counts(&self) -> Counts {
        Counts::RowsAndSender.only_if(self.sends_counts)
    }

    /// Sends the mean row of the positives, once for each of them.
    fn train(&self, _: &mut Own, task: &LocalTask<'_>, _scratch: &mut Scratch) -> Result<Trained> {
        let DistinctPositives { items, .. } = DistinctPositives::of(&task.own);
        let table = table_of(task.model, "A");
        let shape = table.shape();
        let weight = 1.0 / items.len().max(1) as f64;
        let mean = sum_of_rows(table, items.iter().map(|item| (*item, weight)));
        let mean: Vec<f32> = mean.iter().map(|value| *value as f32).collect();
        task.check_magnitude("the mean row", largest_magnitude(&mean))?;
        let samples = items.len();
        let work = Work {
            row_visits: samples as u64,
            multiply_adds: (samples * shape.dimension) as u64,
        };
        let update = TableUpdate::listed(shape, items, &mean.repeat(samples), 1.0)?;
        Ok(Trained::new(ModelUpdate::of_table(update), 0.0, work))
    }

    fn scorer<'a>(&'a self, _: &'a Own, context: ScoringContext<'a>) -> Scoring<'a> {
        let (items, own_weights) =
            weighted_positives((&context.own, context.user), self.recency.as_ref())?;
        let [table, eigenvalues, roots] =
            ["A", "eigenvalues", "roots of counts"].map(|name| table_of(context.model, name));
        let root = |item: u32| f64::from(roots.row(item as usize)[0]);
        let weighted = || items.iter().copied().zip(&own_weights);
        // V is A times the root of the count.
        let graph = sum_of_rows(
            table,
            weighted().map(|(item, own)| (item, own * root(item))),
        );
        let graph = graph.iter().zip(eigenvalues.as_slice());
        let graph: Vec<f32> = graph
            .map(|(sum, value)| (sum * f64::from(*value)) as f32)
            .collect();
        let alpha = self.low_pass_weight;
        let low_pass = sum_of_rows(table, weighted().map(|(item, own)| (item, own * alpha)));
        let low_pass: Vec<f32> = low_pass.iter().map(|sum| *sum as f32).collect();
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            score_items(&graph, 0.0, table, items, scores);
            let mut passed = vec![0.0; items.len()];
            score_items(&low_pass, 0.0, table, items, &mut passed);
            for ((item, score), passed) in items.iter().zip(scores).zip(passed) {
                let root = roots.row(*item as usize)[0];
                *score = root * (*score + root * passed);
            }
        }))
    }

    fn server(&self, averager: Averager) -> Box<dyn Server> {
        spectral::server(self, &averager)
    }
}

impl BySpectrum for PriviRec {
    fn coverage(&self) -> f64 {
        self.coverage
    }

    fn damping(&self, count: f64) -> f64 {
        1.0 / math::sqrt(count)
    }

    fn told(&self, found: &Found<'_>) -> Vec<f64> {
        let mut eigenvalues = found.spectrum.values.clone();
        eigenvalues.resize(found.columns, 0.0);
        let roots = found.counts.iter().map(|count| math::sqrt(*count));
        eigenvalues.into_iter().chain(roots).collect()
    }
}
