//! Computes the ranks of the held-out items of a user, and what they are worth at these ranks.

use serde::{Deserialize, Serialize};

/// The ranks of one held-out item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Rank (from 0) among the candidates; `None` if no metric needs it.
    pub among_candidates: Option<u32>,
    /// Rank among everything that the user has not rated; `None` if no metric needs it.
    pub in_catalogue: Option<CataloguePlace>,
}

/// The rank of a held-out item among all items that its user had not rated.
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

/// The held-out items of one user, ranked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// The number of held-out items, those included that are not ranked.
    pub held_out: u32,
    /// The places of the items that are ranked, the item with the highest score first. An item that
    /// nobody had rated is not ranked: every method misses it.
    pub ranked: Vec<Place>,
}

impl Places {
    /// Returns the place of the only held-out item.
    pub fn only(place: Place) -> Self {
        let (held_out, ranked) = (1, vec![place]);
        Self { held_out, ranked }
    }
}

/// Where one held-out item stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// How many candidates stand before it.
    pub(super) among: u32,
    /// How many other held-out items of the same user stand before it.
    pub(super) before: u32,
}

impl Standing {
    /// Returns the position from 1 in the list of all.
    fn position(self) -> f64 {
        f64::from(self.among) + f64::from(self.before) + 1.0
    }
}

/// A function that returns what an item is worth where it stands, within the cutoff.
pub(super) type Gain = fn(Standing) -> f64;

/// What the held-out items of a user are worth: the sum of their gains, divided by what the best
/// list of the length of the cutoff could have.
#[derive(Clone, Copy, Debug)]
pub struct Worth {
    pub(super) gain: Gain,
    /// The divisor, by the number of held-out items and the cutoff.
    pub(super) of_best: fn(held_out: u32, cutoff: u32) -> f64,
}

/// Whether a held-out item is among the first K.
pub(super) const HIT: Worth = Worth {
    gain: hit,
    of_best: |_, _| 1.0,
};

/// The discounted gain of all held-out items among the first K, by that of the ideal list.
pub(super) const NDCG: Worth = Worth {
    gain: discounted,
    of_best: |held_out, cutoff| {
        let places = 0..held_out.min(cutoff);
        places
            .map(|among| discounted(Standing { among, before: 0 }))
            .sum()
    },
};

/// One divided by the position of the first held-out item.
pub(super) const MRR: Worth = Worth {
    gain: reciprocal,
    of_best: |_, _| 1.0,
};

/// The share of the held-out items that are among the first K.
pub(super) const RECALL: Worth = Worth {
    gain: |_| 1.0,
    of_best: |held_out, _| f64::from(held_out),
};

/// The share of the first K that are held-out items.
pub(super) const PRECISION: Worth = Worth {
    gain: |_| 1.0,
    of_best: |_, cutoff| f64::from(cutoff),
};

/// The sum of the precisions at the positions of the held-out items among the first K, divided by the
/// number of held-out items that K places can hold.
pub(super) const MAP: Worth = Worth {
    gain: precision_there,
    of_best: |held_out, cutoff| f64::from(held_out.min(cutoff)),
};

/// Returns 1 for the first of a user's held-out items. HR@K is the share of users with one among the
/// first K.
pub(super) fn hit(standing: Standing) -> f64 {
    if standing.before == 0 { 1.0 } else { 0.0 }
}

/// Returns 1 / log2(position + 1).
pub(super) fn discounted(standing: Standing) -> f64 {
    1.0 / crate::math::log2(standing.position() + 1.0)
}

/// Returns 1 / position for the first of a user's held-out items.
pub(super) fn reciprocal(standing: Standing) -> f64 {
    hit(standing) / standing.position()
}

/// Returns the share of held-out items in the list that ends with this one.
pub(super) fn precision_there(standing: Standing) -> f64 {
    (f64::from(standing.before) + 1.0) / standing.position()
}

/// Returns how many of `scores` are at least as high as each of `held_out`. Ties count against a
/// held-out item, as in both papers' code: a model that scores everything alike must not look good.
///
/// Returns `None` if any score is NaN. NaN compares as no worse than anything, so a diverged model
/// would get rank 0.
pub fn ranks(held_out: &[f32], scores: &[f32]) -> Option<Vec<u32>> {
    if held_out.iter().chain(scores).any(|score| score.is_nan()) {
        return None;
    }
    if let [one, other @ ..] = held_out
        && other.len() < 2
    {
        let rank = |own: &f32| scores.iter().map(|score| u32::from(score >= own)).sum();
        return Some(std::iter::once(one).chain(other).map(rank).collect());
    }
    let mut ascending = held_out.to_vec();
    ascending.sort_unstable_by(f32::total_cmp);
    // At place n stands how many scores are at least as high as n of the held-out ones, and no more.
    let mut reaching = vec![0u32; held_out.len() + 1];
    for score in scores {
        reaching[ascending.partition_point(|own| own <= score)] += 1;
    }
    let rank = |own: &f32| {
        let lower = ascending.partition_point(|other| other < own);
        reaching[lower + 1..].iter().sum()
    };
    Some(held_out.iter().map(rank).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_rank_the_held_out_item_last() {
        assert_eq!(ranks(&[1.0], &[0.0, 1.0, 1.0, 2.0]), Some(vec![3]));
        assert_eq!(ranks(&[1.0], &[0.5]), Some(vec![0]));
    }

    #[test]
    fn a_nan_score_is_no_rank() {
        assert_eq!(ranks(&[f32::NAN], &[0.0]), None);
        assert_eq!(ranks(&[0.0], &[f32::NAN, 1.0]), None);
    }

    /// If this fails, the rank of an item depends on how many others are held out beside it.
    #[test]
    fn many_items_are_ranked_as_each_alone() {
        let scores = [0.5, -0.0, 2.0, 0.0, 1.0, 1.0, -3.0];
        let held_out = [1.0, 0.0, -0.0, 7.0, -9.0, 1.0];
        let alone = held_out.map(|own| ranks(&[own], &scores).unwrap_or_default()[0]);
        assert_eq!(ranks(&held_out, &scores), Some(alone.to_vec()));
        assert_eq!(alone, [3, 6, 6, 0, 7, 3]);
    }
}
