//! Implements neighbourhoods of items: the similarity of two items is the cosine of their columns
//! of positives.
//!
//! With c_ij, the number of users who have both items, and c_i, that of users of item i, or sums of
//! their weights' products and squares, the similarity is S_ij = c_ij / (sqrt(c_i c_j) + shrinkage). Each item keeps its k most similar
//! items. A device scores item j by the sum of S_ij over its positives i among whose neighbours j
//! is.
//!
//! Source: Sarwar et al., Item-based Collaborative Filtering Recommendation Algorithms, WWW 2001,
//! for the cosine; Deshpande and Karypis, Item-based Top-N Recommendation Algorithms, TOIS 2004,
//! for the neighbours of positives.

use super::{ByMatrix, counts};
use crate::prelude::*;
use crate::recency::Recency;
use fedrecsim_model::algebra::mirror_upper;

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::at_server::<ItemKnn>();

parameters! {
    /// Parameters of neighbourhoods of items.
    pub(crate) struct ItemKnn {
        /// Number k of neighbours that each item keeps.
        neighbours: u32 = 100, >= 1;
        /// Shrinkage, which is added to the divisor of a cosine, so that items with few users in
        /// common count less.
        shrinkage: f64 = 10.0, >= 0;
        /// Lets recent positives count more, and in similarities if it counts in training. Left out:
        /// all count alike.
        recency: Option<Recency> = None;
    }
}

impl ByMatrix for ItemKnn {
    const NAME: &str = "itemknn";
    const SUMMARY: &str = "centralised neighbourhoods of items by cosine: users send their \
                           ratings once, one step";
    const SOURCE: &str = "Sarwar et al., WWW 2001, and Deshpande and Karypis, Item-based Top-N \
                          Recommendation Algorithms, TOIS 2004";
    const FORMULA: &[&str] = &[
        "s_ui = Σ S_ji over those j of I_u that have i among their k nearest items",
        "S_ji = c_ji / (√(n_j n_i) + h),  with the c_ji users of both and a shrinkage h",
        "trained by time, c_ji = Σ_u w_uj w_ui",
    ];
    const MATRIX: &str = "S";

    fn recency(&self) -> Option<&Recency> {
        self.recency.as_ref()
    }

    fn weigh(&self, pass: &Pass<'_, Remembered<usize>>) -> Result<(Table, u64)> {
        let (mut counts, additions) = counts(pass);
        let items = pass.problem.items;
        mirror_upper(&mut counts);
        let roots = counts.diag().mapv(math::sqrt);
        let mut table = Table::zeros(TableShape::new(items, items));
        let mut neighbours = Vec::new();
        for (i, row) in counts.rows().into_iter().enumerate() {
            let similar = |(j, count): (usize, &f64)| {
                let is_other = i != j && *count > 0.0;
                is_other.then(|| (count / (roots[i] * roots[j] + self.shrinkage), j))
            };
            neighbours.clear();
            neighbours.extend(row.iter().enumerate().filter_map(similar));
            // The most similar ones stand first, and the first item of equally similar ones.
            neighbours.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            let target = table.row_mut(i);
            for &(similarity, j) in neighbours.iter().take(self.neighbours as usize) {
                target[j] = similarity as f32;
            }
        }
        let m = items as u64;
        Ok((table, additions + m * m))
    }
}
