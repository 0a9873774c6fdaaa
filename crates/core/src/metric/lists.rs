//! Figures beyond accuracy, of the lists of items that users would be shown.

use serde::{Deserialize, Serialize};

use super::popularity::{GROUPS, GroupCounts, Popularity};
use crate::math;

/// What lists of recommended items are like. `docs/reference/metrics.md` has the sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListFigures {
    /// The share of the catalogue that is in somebody's list.
    pub coverage: f64,
    /// The Gini index of how often items are recommended: 0 if all are equally often, 1 if it is always
    /// the same one.
    pub gini: f64,
    /// The mean self-information of recommended items in bits.
    pub novelty_bits: f64,
    /// The share of recommended items that are in the long tail.
    pub long_tail_share: f64,
    /// The mean over users of the Jensen-Shannon divergence between the popularity of the items in their
    /// lists and in their histories, from 0 to 1; absent if nobody has a history.
    pub popularity_deviation: Option<f64>,
}

/// The lists of some users, added up.
#[derive(Clone, Debug)]
pub struct ListSums<'p> {
    popularity: &'p Popularity,
    /// How often each item is recommended.
    counts: Vec<u32>,
    deviation: f64,
    users_with_history: u32,
}

impl<'p> ListSums<'p> {
    /// Returns the sums over no lists of items of this popularity.
    pub fn new(popularity: &'p Popularity) -> Self {
        Self {
            popularity,
            counts: vec![0; popularity.items()],
            deviation: 0.0,
            users_with_history: 0,
        }
    }

    /// Adds the list of a user, whose training items are of these groups.
    pub fn add(&mut self, list: &[u32], history: GroupCounts) {
        for item in list {
            self.counts[*item as usize] += 1;
        }
        let groups = self.popularity.group_counts(list.iter().copied());
        if let Some(divergence) = divergence(groups, history) {
            self.deviation += divergence;
            self.users_with_history += 1;
        }
    }

    /// Returns the figures; `None` if all lists are empty.
    pub fn figures(&self) -> Option<ListFigures> {
        let recommended: u64 = self.counts.iter().copied().map(u64::from).sum();
        if recommended == 0 {
            return None;
        }
        let all = recommended as f64;
        let with_counts = || self.counts.iter().copied().enumerate();
        let bits = |(item, count): (usize, u32)| {
            f64::from(count) * self.popularity.self_information_bits(item)
        };
        let in_tail = |(item, _): &(usize, u32)| self.popularity.is_in_tail(*item);
        let of_tail: u64 = with_counts()
            .filter(in_tail)
            .map(|(_, count)| u64::from(count))
            .sum();
        let covered = self.counts.iter().filter(|count| **count > 0).count();
        Some(ListFigures {
            coverage: covered as f64 / self.counts.len() as f64,
            gini: gini(self.counts.clone()),
            novelty_bits: with_counts().map(bits).sum::<f64>() / all,
            long_tail_share: of_tail as f64 / all,
            popularity_deviation: (self.users_with_history > 0)
                .then(|| self.deviation / f64::from(self.users_with_history)),
        })
    }
}

/// Returns the Gini index of these counts, 1 / (n - 1) times the sum over j of (2 j - n - 1) p_j, where
/// p_j is the share of the j-th least count (Shani and Gunawardana).
fn gini(mut counts: Vec<u32>) -> f64 {
    counts.sort_unstable();
    let n = counts.len() as i128;
    let total: i128 = counts.iter().copied().map(i128::from).sum();
    let weighted = (1..).zip(&counts);
    // Sums of integers are exact, whatever their order.
    let weighted: i128 = weighted
        .map(|(j, count): (i128, &u32)| (2 * j - n - 1) * i128::from(*count))
        .sum();
    match (n - 1) * total {
        0 => 0.0,
        most => weighted as f64 / most as f64,
    }
}

/// Returns the Jensen-Shannon divergence in bits between the shares of two counts; `None` if one of them
/// counts nothing.
fn divergence(one: GroupCounts, other: GroupCounts) -> Option<f64> {
    let [p, q] = [shares(one)?, shares(other)?];
    let towards_mean = |share: f64, mean: f64| match share > 0.0 {
        true => 0.5 * share * math::log2(share / mean),
        false => 0.0,
    };
    let of_group = |group: usize| {
        let mean = 0.5 * (p[group] + q[group]);
        towards_mean(p[group], mean) + towards_mean(q[group], mean)
    };
    // Equal shares leave nothing but errors of rounding, which may be negative.
    Some((0..GROUPS).map(of_group).sum::<f64>().max(0.0))
}

/// Returns the share of each group; `None` if all are empty.
fn shares(counts: GroupCounts) -> Option<[f64; GROUPS]> {
    let total: f64 = counts.iter().copied().map(f64::from).sum();
    (total > 0.0).then(|| counts.map(|count| f64::from(count) / total))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Five items with 8, 4, 2, 1 and 1 of 16 ratings by 8 users: item 0 is the head, 1 and 2 are the
    /// middle, 3 and 4 the tail.
    fn popularity() -> Popularity {
        let ratings = [8, 4, 2, 1, 1];
        Popularity::new(&ratings, ratings.to_vec(), 8)
    }

    /// If this fails, a figure is another one than its definition. The values are worked out by hand.
    #[test]
    fn figures_are_those_of_their_definitions() {
        let popularity = popularity();
        let mut sums = ListSums::new(&popularity);
        sums.add(&[0, 1], [1, 1, 0]);
        sums.add(&[0, 4], [2, 0, 0]);
        let figures = sums.figures().unwrap();
        // Items 0, 1 and 4 of five.
        assert_eq!(figures.coverage, 0.6);
        // Counts 0, 0, 1, 1, 2 with the weights -4, -2, 0, 2, 4: (2 + 8) / (4 * 4).
        assert_eq!(figures.gini, 0.625);
        // Twice log2(8 / 8), log2(8 / 4) and log2(8 / 1).
        assert_eq!(figures.novelty_bits, (0.0 + 0.0 + 1.0 + 3.0) / 4.0);
        // Item 4 alone.
        assert_eq!(figures.long_tail_share, 0.25);
        // 0 of the first user. Of the second, half of the list is the head and half the tail, and all of
        // the history is the head: (1/2 log2(1/2 / 3/4) + 1/2 log2(2) + log2(1 / 3/4)) / 2 = 0.31128.
        let deviation = figures.popularity_deviation.unwrap();
        assert!((deviation - 0.311_278_124_459_132_8 / 2.0).abs() < 1e-15);
    }

    /// If this fails, lists that are all alike, or share nothing with a history, do not have the extreme
    /// figures.
    #[test]
    fn extremes_are_0_and_1() {
        let popularity = popularity();
        let mut same = ListSums::new(&popularity);
        let mut each = ListSums::new(&popularity);
        for item in 0..5 {
            same.add(&[4], [1, 0, 0]);
            each.add(&[item], [0, 0, 0]);
        }
        let [same, each] = [same, each].map(|sums| sums.figures().unwrap());
        assert_eq!((same.gini, same.coverage), (1.0, 0.2));
        assert_eq!(
            (same.long_tail_share, same.popularity_deviation),
            (1.0, Some(1.0))
        );
        assert_eq!((each.gini, each.coverage), (0.0, 1.0));
        assert_eq!(each.popularity_deviation, None);
        assert_eq!(ListSums::new(&popularity).figures(), None);
        let only = Popularity::new(&[3], vec![3], 3);
        let mut sums = ListSums::new(&only);
        sums.add(&[0], [1, 0, 0]);
        assert_eq!(sums.figures().unwrap().gini, 0.0);
    }
}
