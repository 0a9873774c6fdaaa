//! Implements FedSpec, a federated spectral filter of low rank.
//!
//! Let x_u be the indicator of the positives of user u, and n_i the number of users with item i
//! among their positives. The method computes the leading eigenvectors U of M = sum over u of D x_u
//! K_u x_u^T D with D = diag(n^(-d)), d being 1/4 unless `damping_exponent` says otherwise, by
//! block power iteration. A device gets the rows of A = D U and sends, for each positive p, the sum
//! of K_pq A_q over its positives q. So uploads have the rows of positives alone, no negatives are
//! drawn, and a device keeps no state. The server makes a Nystroem step of the sums, so two to four
//! rounds with everybody are enough.
//!
//! For scoring, the eigenvectors are weighted by a filter (s^2 / (s^2 + lambda))^(1/2) per column,
//! as in a regression of items on items with a ridge of lambda (EASE), and by n_j^(d + b2) / (1 -
//! |Z_j|^2) per item j. A device adds up the weighted rows of its positives, with more weight on
//! recent ones if it likes. Times never leave the device.
//!
//! An upload discloses the user's positives, which are its rows. With `sends_counts` the server
//! only adds uploads up, so that secure aggregation can hide them, at the price of a dense table
//! and of counts.
//!
//! Source: This method is the project's own. Prior work is close: federated graph filtering (arXiv
//! 2501.16888) and FedCIA (arXiv 2504.14208).

use super::prelude::*;
use super::recency::{self, Recency, weighted_positives};
use super::spectral::{self, BySpectrum, Found};
use super::task::score_items;
use super::user_vector::{DistinctPositives, deviation};

mod numerics;
#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::of::<FedSpec>();

parameters! {
    /// Parameters of FedSpec.
    pub(crate) struct FedSpec {
        /// Number r of eigenvectors, the latent dimension. A catalogue of fewer items has as many
        /// as items.
        latent_dimension: u32 = 48, >= 1, <= MAX_DIMENSION;
        /// The ridge lambda, as a multiple l0 of the least of the r eigenvalues.
        ridge: f64 = 2.0, >= 0;
        /// Exponent d: an item's count n_i damps its part in the eigenvectors by D = diag(n^(-d)).
        /// 0 damps nothing: counts enter scores by `popularity_exponent` and `popularity_weight`
        /// alone then, and still take their share of a clip.
        damping_exponent: f64 = 0.25, >= 0, <= 1;
        /// Exponent b2: an item's count weights its score, beside the weight of the filter.
        popularity_exponent: f64 = 0.0, >= 0;
        /// Weight beta of an item's popularity, its share of the users, in its score. Above 0, the
        /// other part of the score is scaled to a standard deviation of 0.05 over all items.
        popularity_weight: f64 = 0.0, >= 0;
        /// The part f of K that does not depend on times: K_pq = f + (1 - f) exp(-|rho_p - rho_q| /
        /// kernel_length), rho_p being the number of the user's positives that are strictly later
        /// than p.
        timeless_share: f64 = 1.0, >= 0, <= 1;
        /// Number of positives over which the other part of K falls to 1/e.
        kernel_length: f64 = 50.0, > 0.0;
        /// Share of the users who must have sent an upload before the server steps. Until then A
        /// stays as it is, and another upload of the same user does not count. With `sends_counts`
        /// it does, since a sum does not say who is in it, and with noise on the sum and `poisson`
        /// as many count as are expected.
        coverage: f64 = 0.9, > 0.0, <= 1;
        /// Whether devices send a count of 1 for each of their positives and for themselves beside
        /// the rows, so that the server uses nothing but sums, which secure aggregation and noise
        /// on the sum need. Otherwise it counts who has sent which row.
        sends_counts: bool = false;
        /// Lets recent positives count more when a device scores. Left out: all count alike.
        recency: Option<Recency> = None;
    }
}

/// The standard deviation that scores are scaled to where popularity is added to them.
const DEVIATION: f64 = 0.05;

impl Declare for FedSpec {
    type Parameters = Self;
    type Memory = ();

    const NAME: &str = "fedspec";
    const SUMMARY: &str = "spectral filter of low rank: devices send sums of rows of their \
                           positives, the server finds eigenvectors";
    const SOURCE: &str = "an own method of this project (block power iteration with Nystroem \
                          steps; close to arXiv 2501.16888)";
    const FORMULA: &[&str] = &[
        "M_pq = Σ_u K_pq / (n_p n_q)^d over the users of both;  U and ω its r leading eigenvectors and eigenvalues",
        "a device sends Σ_{q∈I_u} K_pq A_q for its p,  K_pq = f + (1 − f) exp(−|ρ_p − ρ_q| / ℓ),  A_q = U_q / n_q^d",
        "s_i = n_i^(d + b₂) / (1 − ‖Z_i‖²) · A_i F² Σ_{p∈I_u} A_pᵀ,  Z = U F,  F² = diag(ω / (ω + λ)),  λ = l₀ ω_r",
    ];
    const DRAWS_NEGATIVES: bool = false;
    const WITHOUT_CONTROLS: Option<&str> = spectral::WITHOUT_CONTROLS;

    fn resolve(p: &mut Self) -> Vec<ParameterFault> {
        recency::idle_in_training(p.recency.as_ref())
    }

    fn new(parameters: Self, _problem: &Problem) -> Self {
        parameters
    }

    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let told = ["filter", "item weights"];
        let mut blocks = spectral::blocks(size.items, self.latent_dimension, told, "sums of rows");
        if self.popularity_weight > 0.0 {
            let shares = weights("popularity", size.items, 1).start(constant(1.0));
            blocks.insert(blocks.len() - 1, shares.download_only());
        }
        blocks
    }

    fn counts(&self) -> Counts {
        Counts::RowsAndSender.only_if(self.sends_counts)
    }

    fn train(&self, _: &mut Own, task: &LocalTask<'_>, _scratch: &mut Scratch) -> Result<Trained> {
        let DistinctPositives { items, later } = DistinctPositives::of(&task.own);
        let table = table_of(task.model, "A");
        let (share, length) = (self.timeless_share, self.kernel_length);
        let sums = numerics::kernel_sums(table, &items, &later, share, length);
        task.check_magnitude("the sums of rows", largest_magnitude(&sums))?;
        let (samples, shape) = (items.len(), table.shape());
        let work = Work {
            row_visits: samples as u64,
            // Two passes in the order of time, the sum of all rows, and its addition to each.
            multiply_adds: 6 * (samples * shape.dimension) as u64,
        };
        let update = TableUpdate::listed(shape, items, &sums, 1.0)?;
        Ok(Trained::new(ModelUpdate::of_table(update), 0.0, work))
    }

    fn scorer<'a>(&'a self, _: &'a Own, context: ScoringContext<'a>) -> Scoring<'a> {
        let (positives, of_positives) =
            weighted_positives((&context.own, context.user), self.recency.as_ref())?;
        let [table, filter, item_weights] =
            ["A", "filter", "item weights"].map(|name| table_of(context.model, name));
        let vector = numerics::profile(table, &positives, &of_positives, filter.as_slice());
        let score = move |items: &[u32], scores: &mut [f32]| {
            score_items(&vector, 0.0, table, items, scores);
            let weighted = items.iter().zip(scores);
            weighted.for_each(|(item, score)| *score *= item_weights.row(*item as usize)[0]);
        };
        let Some(popularity) = context.model.named("popularity") else {
            return Ok(Box::new(score));
        };
        let mut all = vec![0.0; table.shape().rows];
        score(&Vec::from_iter(0..all.len() as u32), &mut all);
        let scale = match deviation(&all) {
            deviation if deviation > 0.0 => (DEVIATION / deviation) as f32,
            _ => 1.0,
        };
        let beta = self.popularity_weight as f32;
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            score(items, scores);
            for (item, score) in items.iter().zip(scores) {
                *score = *score * scale + beta * popularity.row(*item as usize)[0];
            }
        }))
    }

    fn server(&self, averager: Averager) -> Box<dyn Server> {
        spectral::server(self, &averager)
    }
}

/// The least 1 - |Z_i|^2 that divides a score.
const LEAST_REST: f64 = 1e-3;

impl BySpectrum for FedSpec {
    fn coverage(&self) -> f64 {
        self.coverage
    }

    fn damping(&self, count: f64) -> f64 {
        match self.damping_exponent {
            // Roots are faster than a power, but differ from it in the last bits, and results
            // depend on these.
            0.25 => 1.0 / math::sqrt(math::sqrt(count)),
            exponent => math::pow(count, -exponent),
        }
    }

    fn told(&self, found: &Found<'_>) -> Vec<f64> {
        let (mut filter, lengths) = numerics::filtered(found.spectrum, self.ridge);
        filter.resize(found.columns, 0.0);
        let exponent = self.damping_exponent + self.popularity_exponent;
        let weights = found.counts.iter().zip(&lengths);
        let weights = weights
            .map(|(count, length)| math::pow(*count, exponent) / (1.0 - length).max(LEAST_REST));
        // The popularity comes last, and is not in every model.
        let popularity = found.shares.iter().copied();
        filter
            .iter()
            .copied()
            .chain(weights)
            .chain(popularity)
            .collect()
    }
}
