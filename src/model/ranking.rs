//! Ranking metrics of one held-out item among candidates.

use std::collections::BTreeMap;

use crate::math;

/// Sums of metrics over users; the number of users travels with them, so sums can be merged in any grouping.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankingSums {
    /// Number of users.
    pub users: u64,
    /// Per cut-off K: (hits, discounted gain).
    at: BTreeMap<u32, (u64, f64)>,
    reciprocal_rank: f64,
}

impl RankingSums {
    /// No users yet, at these cut-offs.
    pub fn new(cutoffs: &[u32]) -> Self {
        Self { users: 0, at: cutoffs.iter().map(|cutoff| (*cutoff, (0, 0.0))).collect(), reciprocal_rank: 0.0 }
    }

    /// Adds one user whose held-out item stands at `rank` (from 0).
    ///
    /// With a single relevant item, HR@K is 1 and NDCG@K is 1 / log2(rank + 2) if rank < K; both are 0 otherwise.
    pub fn add_rank(&mut self, rank: u32) {
        self.users += 1;
        self.reciprocal_rank += 1.0 / (f64::from(rank) + 1.0);
        let gain = 1.0 / math::log2(f64::from(rank) + 2.0);
        for (cutoff, (hits, gains)) in &mut self.at {
            if rank < *cutoff {
                *hits += 1;
                *gains += gain;
            }
        }
    }

    /// Adds everything that `other` has counted. Both must have the same cut-offs.
    pub fn merge(&mut self, other: &Self) {
        self.users += other.users;
        self.reciprocal_rank += other.reciprocal_rank;
        for (cutoff, (hits, gains)) in &other.at {
            let sum = self.at.entry(*cutoff).or_default();
            sum.0 += hits;
            sum.1 += gains;
        }
    }

    /// Mean figures by name: `hr@K`, `ndcg@K` for every cut-off, and `mrr`. Empty if there are no users.
    pub fn figures(&self) -> BTreeMap<String, f64> {
        if self.users == 0 {
            return BTreeMap::new();
        }
        let users = self.users as f64;
        let mut figures = BTreeMap::from([("mrr".to_owned(), self.reciprocal_rank / users)]);
        for (cutoff, (hits, gains)) in &self.at {
            figures.insert(format!("hr@{cutoff}"), *hits as f64 / users);
            figures.insert(format!("ndcg@{cutoff}"), gains / users);
        }
        figures
    }
}

/// Rank (from 0) of a held-out item with score `held_out` among `candidates`. Ties count against it, as in
/// both papers' code: a model that scores everything alike must not look good.
///
/// `None` if any score is NaN: it compares as no worse than anything, and a diverged model would get rank 0.
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

    #[test]
    fn figures_match_a_hand_count() {
        let mut sums = RankingSums::new(&[1, 10]);
        for rank in [0, 9, 10] {
            sums.add_rank(rank);
        }
        let figures = sums.figures();
        assert_eq!(figures["hr@1"], 1.0 / 3.0);
        assert_eq!(figures["hr@10"], 2.0 / 3.0);
        assert!((figures["ndcg@10"] - (1.0 + 1.0 / math::log2(11.0)) / 3.0).abs() < 1e-15);
        assert!((figures["mrr"] - (1.0 + 0.1 + 1.0 / 11.0) / 3.0).abs() < 1e-15);
    }

    #[test]
    fn merging_is_the_same_as_adding_one_by_one() {
        let (mut whole, mut left, mut right) = (RankingSums::new(&[5]), RankingSums::new(&[5]), RankingSums::new(&[5]));
        for rank in 0..10 {
            whole.add_rank(rank);
            if rank < 4 { left.add_rank(rank) } else { right.add_rank(rank) }
        }
        left.merge(&right);
        assert_eq!(left.users, whole.users);
        for (name, value) in whole.figures() {
            assert!((left.figures()[&name] - value).abs() < 1e-15, "{name}");
        }
    }
}
