//! Implements LightFR, codes of bits in place of vectors (Zhang et al., TOIS 2023; code
//! hongleizhang/LightFR b169092).
//!
//! The user code b and the code d_i of each item have the values -1 and 1. A device takes the signs of
//! its bits, one after the other, until none changes, and sends how its ratings pull at the bits of
//! their items. The server takes the signs of the mean pull and what the bits are.

use self::codes::{Rated, signs};
use super::prelude::*;
use super::rule;
use super::user_vector::{DistinctPositives, last_ratings};
use fedrecsim_data::dataset::OwnData;

mod codes;
#[cfg(test)]
mod tests;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::of::<LightFr>();

parameters! {
    /// Parameters of LightFR; the defaults are the published ones, but for the range of ratings.
    pub(crate) struct LightFr {
        /// Number L of bits of a code.
        code_length: u32 = 64, >= 1, <= MAX_DIMENSION;
        /// Weight lambda of what holds a user's bits where they are.
        regularization: f64 = 0.6, >= 0;
        /// A device goes through its bits so often at most. The code has no bound, and can go on for
        /// ever with a small `regularization`.
        most_sweeps: u32 = 50, >= 1, <= 10_000;
        /// The rating that stands for -L. The code takes the lowest one of the data.
        lowest_rating: f64 = 0.0;
        /// The rating that stands for L, as all above it do. The code takes the highest one of the
        /// data. By default all positive ratings from 1 on are alike.
        highest_rating: f64 = 1.0;
    }
}

impl LightFr {
    /// Returns the product of codes that a rating asks for.
    fn target(&self, rating: f32) -> f64 {
        let length = f64::from(self.code_length);
        let range = self.highest_rating - self.lowest_rating;
        let share = (f64::from(rating) - self.lowest_rating) / range;
        (2.0 * length * (share.clamp(0.0, 1.0) + 0.01) - length).trunc()
    }

    /// Returns what counts of the ratings, which are those with a target above 0, and the number of all.
    fn rated(&self, own: &OwnData<'_>) -> (Rated, usize) {
        let positives = DistinctPositives::of(own).items;
        let (rated, ratings) = last_ratings(own);
        let count = rated.len();
        let targets = ratings.into_iter().map(|rating| self.target(rating));
        let mut all: Vec<(u32, f64)> = rated.into_iter().zip(targets).collect();
        all.retain(|(item, target)| *target > 0.0 && positives.binary_search(item).is_ok());
        let (items, targets) = all.into_iter().unzip();
        (Rated { items, targets }, count)
    }
}

impl Declare for LightFr {
    type Parameters = Self;
    type Memory = ();

    const NAME: &str = "lightfr";
    const SUMMARY: &str = "codes of bits in place of vectors, by the signs of what ratings pull at";
    const SOURCE: &str = "Zhang et al., LightFR: Lightweight Federated Recommendation with \
                          Privacy-preserving Matrix Factorization, TOIS 41(4), 2023, arXiv \
                          2206.11743; code hongleizhang/LightFR b169092";
    const FORMULA: &[&str] = &[
        "s_i = b · d_i,  b and d_i in {−1, 1}^L",
        "b_k ← sign(Σ_i (R_i − b · d_i) d_ik + 2 λ n_u b_k),  bit by bit, over items with R_i > 0;  R = trunc(2L(r′ + .01) − L)",
        "d_ik ← sign(mean over u of (R_ui − b_u · d_i) b_uk + d_ik),  r′ = (r − lowest) / (highest − lowest)",
    ];
    const DIFFERS: &str = "What is here is the code, with two of its oddities: ratings of the lower \
                           half of the scale are left out, and an item's bits are held by all \
                           devices of a step and not by those that rated it. A third one is left \
                           out: the code's n_u also counts held-out ratings and the zeros that are \
                           sampled for them. The code's server reads the users' codes and takes an \
                           item's bits one after the other; here devices send what pulls at the bits \
                           that they have received, and the server takes all bits at once. The code \
                           draws .6 n users with replacement. It ranks the held-out item before \
                           others of the same score, and every metric here behind them. No figure of \
                           the paper is at hand.";
    const DRAWS_NEGATIVES: bool = false;
    const WITHOUT_CONTROLS: Option<&str> =
        Some("devices send pulls, which only the server turns into codes");

    fn resolve(parameters: &mut Self) -> Vec<ParameterFault> {
        let remedy = "it has to be above `lowest_rating`";
        let fault = ParameterFault::wrong("highest_rating", remedy);
        Vec::from_iter((parameters.lowest_rating >= parameters.highest_rating).then_some(fault))
    }

    fn new(parameters: Self, _problem: &Problem) -> Self {
        parameters
    }

    fn blocks(&self, size: ProblemSize) -> Vec<Block> {
        let by_sign = ServerRule {
            optimizer: rule::Optimizer::Sign,
            ..ServerRule::MEAN
        };
        let codes = item_table("d", size.items, self.code_length).start(signs());
        let own = vector("b", self.code_length).private().start(signs());
        vec![codes.as_gradient().rule(by_sign), own]
    }

    fn score(&self) -> Score {
        Score::dot("b", "d")
    }

    /// No negatives are drawn.
    fn trains_on_sampled_rows(&self) -> bool {
        false
    }

    /// Sends the pulls, negative as gradients are.
    fn train(&self, own: &mut Own, task: &LocalTask<'_>, _: &mut Scratch) -> Result<Trained> {
        let (table, (rated, count)) = (table_of(task.model, "d"), self.rated(&task.own));
        let code = own.get_mut("b");
        let hold = 2.0 * self.regularization * count as f64;
        let (errors, sweeps) = rated.sweep(code, table, (hold, self.most_sweeps));
        let code = &*code;
        let pulls = errors.iter().map(|error| -*error as f32);
        let pulls = Vec::from_iter(pulls.flat_map(|p| code.iter().map(move |bit| p * bit)));
        task.check_values("the pull at d", &pulls)?;
        let squares: f64 = errors.iter().map(|error| error * error).sum();
        let row_visits = (rated.items.len() * (sweeps + 2)) as u64;
        let work = Work {
            row_visits,
            multiply_adds: row_visits * code.len() as u64,
        };
        let loss = squares / errors.len().max(1) as f64;
        let update = TableUpdate::listed(table.shape(), rated.items, &pulls, 1.0)?;
        Ok(Trained::new(ModelUpdate::of_table(update), loss, work))
    }
}
