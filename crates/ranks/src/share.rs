//! Says which users each rank owns.

use std::ops::Range;

use fedrecsim_core::UserId;

/// The share of a rank where that of rank 0 is [`of_rank_zero`].
const OF_A_RANK: u64 = 4;

/// Returns the share of rank 0, which has the server and all uploads besides. Of two ranks it owns
/// as many users as the other, since a round takes as long as the trainings of the slower one. Of
/// more ranks it owns three quarters as many as each other: there the trainings of a rank are
/// shorter, and what takes most memory is rank 0.
fn of_rank_zero(ranks: u32) -> u64 {
    if ranks <= 2 { OF_A_RANK } else { OF_A_RANK - 1 }
}

/// The division of the users among ranks: each owns consecutive users, and every rank but rank 0 as
/// many as each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    users: u32,
    ranks: u32,
}

impl Shares {
    /// Divides this many users among this many ranks, at least one.
    pub fn new(users: usize, ranks: usize) -> Self {
        // Data sets with 2^32 users or more are refused on reading.
        Self {
            users: users as u32,
            ranks: ranks.max(1) as u32,
        }
    }

    /// Returns the number of ranks.
    pub(crate) fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Returns the users of `rank`, by their numbers.
    pub fn of(&self, rank: u32) -> Range<u32> {
        self.begin(rank)..self.begin(rank + 1)
    }

    fn begin(&self, rank: u32) -> u32 {
        (u64::from(self.users) * self.before(rank) / self.before(self.ranks)) as u32
    }

    /// Returns the shares of all ranks before this one.
    fn before(&self, rank: u32) -> u64 {
        u64::from(rank)
            .checked_sub(1)
            .map_or(0, |others| of_rank_zero(self.ranks) + others * OF_A_RANK)
    }

    /// Returns the rank that owns `user`.
    pub(crate) fn owner(&self, user: UserId) -> u32 {
        let shares = u64::from(user.0) * self.before(self.ranks) / u64::from(self.users.max(1));
        let guess = (shares + OF_A_RANK - of_rank_zero(self.ranks)) / OF_A_RANK;
        let mut owner = guess.min(u64::from(self.ranks) - 1) as u32;
        // Rounding may put the user in a neighbour's share or, of few users, in that of a rank that
        // has nobody.
        while owner > 0 && user.0 < self.begin(owner) {
            owner -= 1;
        }
        while owner + 1 < self.ranks && user.0 >= self.begin(owner + 1) {
            owner += 1;
        }
        owner
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// If this fails, a user has no rank, or two that both train it.
        #[test]
        fn every_user_has_one_owner_and_rank_zero_of_three_has_fewer(users in 1usize..2000, ranks in 1usize..70) {
            let shares = Shares::new(users, ranks);
            let mut next = 0;
            for rank in 0..ranks as u32 {
                let own = shares.of(rank);
                prop_assert_eq!(own.start, next);
                let share = if rank == 0 && ranks > 2 { 3 } else { 4 };
                let all = if ranks > 2 { 4 * ranks - 1 } else { 4 * ranks };
                let whole = users * share / all;
                prop_assert!(own.len() == whole || own.len() == whole + 1);
                for user in own.clone() {
                    prop_assert_eq!(shares.owner(UserId(user)), rank);
                }
                next = own.end;
            }
            prop_assert_eq!(next as usize, users);
        }
    }
}
