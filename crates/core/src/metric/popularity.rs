//! How popular items are, and which of them are the head and the long tail.

use crate::math;

/// Items by their popularity. The head and the tail have a fifth of all training ratings each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PopularityGroup {
    /// The most popular items.
    Head,
    /// The items in between. With the head, they are the short head.
    Middle,
    /// The long tail: all but the most popular items with 80 % of the ratings.
    Tail,
}

/// The number of groups.
pub(super) const GROUPS: usize = 3;

/// How many items are of each group: head, middle and tail.
pub type GroupCounts = [u32; GROUPS];

/// The popularity of all items, by their numbers of training ratings. A user may have rated an item
/// several times.
#[derive(Clone, Debug)]
pub struct Popularity {
    raters: Vec<u32>,
    users: u32,
    /// The items, the most popular first; equal ones in the order of the catalogue.
    order: Vec<u32>,
    groups: Vec<PopularityGroup>,
}

impl Popularity {
    /// Returns the popularity of items with these numbers of training ratings, which are of so many
    /// `raters` among `users` users.
    ///
    /// An item is in the head if the more popular ones have less than a fifth of the ratings, and in
    /// the long tail if they have four fifths. So the item at a bound is in the more popular group.
    pub fn new(counts: &[u32], raters: Vec<u32>, users: u32) -> Self {
        let mut order: Vec<u32> = (0..counts.len() as u32).collect();
        order.sort_by_key(|item| std::cmp::Reverse(counts[*item as usize]));
        let total: u64 = counts.iter().copied().map(u64::from).sum();
        let (mut groups, mut before) = (vec![PopularityGroup::Tail; counts.len()], 0);
        for item in &order {
            groups[*item as usize] = match 5 * before {
                fifths if fifths < total => PopularityGroup::Head,
                fifths if fifths < 4 * total => PopularityGroup::Middle,
                _ => PopularityGroup::Tail,
            };
            before += u64::from(counts[*item as usize]);
        }
        Self {
            raters,
            users,
            order,
            groups,
        }
    }

    /// Returns the number of items.
    pub fn items(&self) -> usize {
        self.groups.len()
    }

    /// Returns the items, the most popular first; equal ones in the order of the catalogue.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Returns how many of `items` are of each group.
    pub fn group_counts(&self, items: impl IntoIterator<Item = u32>) -> GroupCounts {
        let mut counts = GroupCounts::default();
        for item in items {
            counts[self.groups[item as usize] as usize] += 1;
        }
        counts
    }

    /// Returns whether an item is in the long tail.
    pub(super) fn is_in_tail(&self, item: usize) -> bool {
        self.groups[item] == PopularityGroup::Tail
    }

    /// Returns the self-information of an item in bits: -log2 of the share of users who have rated it.
    /// An item that nobody has rated counts as rated by one user, so that its value is finite.
    pub(super) fn self_information_bits(&self, item: usize) -> f64 {
        let raters = f64::from(self.raters[item].max(1));
        math::log2(f64::from(self.users.max(1)) / raters)
    }
}

#[cfg(test)]
mod tests {
    use super::PopularityGroup::{Head, Middle, Tail};
    use super::*;

    /// If this fails, other items count as the long tail than the definition says, or equally popular
    /// items are ordered by chance.
    #[test]
    fn head_and_tail_have_a_fifth_of_the_ratings_each() {
        // There are ten ratings. An item is in the head if fewer than two ratings stand before it, and in
        // the tail if eight or more do.
        let counts = [1, 3, 0, 4, 1, 1];
        let popularity = Popularity::new(&counts, counts.to_vec(), 5);
        assert_eq!(popularity.order(), [3, 1, 0, 4, 5, 2]);
        // Before item 3 are no ratings, before 1 are 4, before 0 are 7, before 4 are 8.
        assert_eq!(popularity.groups, [Middle, Middle, Tail, Head, Tail, Tail]);
        assert_eq!(popularity.group_counts([3, 1, 2, 5, 4]), [1, 1, 3]);
        let unrated = Popularity::new(&[0, 0], vec![0, 0], 5);
        assert_eq!(unrated.groups, [Tail, Tail]);
    }

    /// If this fails, an item without ratings makes the novelty of all lists infinite, or one that two
    /// users have rated 40 times makes it negative.
    #[test]
    fn self_information_is_finite_and_counts_users() {
        let popularity = Popularity::new(&[8, 40, 0], vec![8, 2, 0], 8);
        let bits = [0, 1, 2].map(|item| popularity.self_information_bits(item));
        assert_eq!(bits, [0.0, 2.0, 3.0]);
    }
}
