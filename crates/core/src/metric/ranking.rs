//! Computes the rank of a held-out item, and what the item is worth at that rank.

use serde::{Deserialize, Serialize};

/// The ranks of one held-out item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Rank (from 0) among the candidates; `None` if no metric needs it.
    pub among_candidates: Option<u32>,
    /// Rank among everything that the user has not rated; `None` if no metric needs it.
    pub in_catalogue: Option<CataloguePlace>,
}

/// The rank of a held-out item among all items that its user has not rated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CataloguePlace {
    /// Rank, from 0.
    pub rank: u32,
    /// Number of items that it is ranked against.
    pub items: u32,
    /// Number of those items that a draw of candidates takes.
    pub drawn: u32,
}

impl Place {
    /// Returns the place of an item whose rank among the candidates is all that is known.
    pub const fn among_candidates(rank: u32) -> Self {
        Self {
            among_candidates: Some(rank),
            in_catalogue: None,
        }
    }
}

/// Returns 1 below the cutoff, and 0 from there on. HR@K is the share of users whose held-out item
/// is among the first K.
pub(super) fn hit(rank: u32, cutoff: u32) -> f64 {
    if rank < cutoff { 1.0 } else { 0.0 }
}

/// Returns 1 / log2(rank + 2) below the cutoff, and 0 from there on, which is NDCG@K with a single
/// relevant item.
pub(super) fn discounted_gain(rank: u32, cutoff: u32) -> f64 {
    if rank < cutoff {
        1.0 / crate::math::log2(f64::from(rank) + 2.0)
    } else {
        0.0
    }
}

/// Returns 1 / (rank + 1) below the cutoff, and 0 from there on.
pub(super) fn reciprocal(rank: u32, cutoff: u32) -> f64 {
    if rank < cutoff {
        1.0 / (f64::from(rank) + 1.0)
    } else {
        0.0
    }
}

/// Returns the rank (from 0) of a held-out item with score `held_out` among `candidates`. Ties
/// count against it, as in both papers' code: a model that scores everything alike must not look
/// good.
///
/// Returns `None` if any score is NaN. NaN compares as no worse than anything, so a diverged model
/// would get rank 0.
pub fn rank(held_out: f32, candidates: impl IntoIterator<Item = f32>) -> Option<u32> {
    if held_out.is_nan() {
        return None;
    }
    let mut rank = 0;
    for score in candidates {
        if score.is_nan() {
            return None;
        }
        rank += u32::from(score >= held_out);
    }
    Some(rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_rank_the_held_out_item_last() {
        assert_eq!(rank(1.0, [0.0, 1.0, 1.0, 2.0]), Some(3));
        assert_eq!(rank(1.0, [0.5]), Some(0));
    }

    #[test]
    fn a_nan_score_is_no_rank() {
        assert_eq!(rank(f32::NAN, [0.0]), None);
        assert_eq!(rank(0.0, [f32::NAN, 1.0]), None);
    }
}
