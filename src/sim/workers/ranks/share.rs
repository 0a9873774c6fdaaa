//! Says which users each rank owns.

use std::ops::Range;

use crate::ids::UserId;

/// The share of a rank where that of rank 0, which has the server and all uploads besides, is [`OF_RANK_ZERO`].
const OF_A_RANK: u64 = 4;
const OF_RANK_ZERO: u64 = 3;

/// The division of the users among ranks: each owns consecutive users. Rank 0 owns three quarters as many as the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    users: u32,
    ranks: u32,
}

impl Shares {
    /// Divides so many users among so many ranks, of which there is at least one.
    pub fn new(users: usize, ranks: usize) -> Self {
        // Data sets with 2^32 users or more are refused on reading.
        Self { users: users as u32, ranks: ranks.max(1) as u32 }
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Returns the users of `rank`, by their numbers.
    pub fn of(&self, rank: u32) -> Range<u32> {
        self.begin(rank)..self.begin(rank + 1)
    }

    fn begin(&self, rank: u32) -> u32 {
        (u64::from(self.users) * before(rank) / before(self.ranks)) as u32
    }

    /// Returns the rank that owns `user`.
    pub fn owner(&self, user: UserId) -> u32 {
        let shares = u64::from(user.0) * before(self.ranks) / u64::from(self.users.max(1));
        let guess = (shares + OF_A_RANK - OF_RANK_ZERO) / OF_A_RANK;
        let mut owner = guess.min(u64::from(self.ranks) - 1) as u32;
        // Rounding may put the user in a neighbour's share or, of few users, in that of a rank that has nobody.
        while owner > 0 && user.0 < self.begin(owner) {
            owner -= 1;
        }
        while owner + 1 < self.ranks && user.0 >= self.begin(owner + 1) {
            owner += 1;
        }
        owner
    }
}

/// Returns the shares of all ranks before this one.
fn before(rank: u32) -> u64 {
    u64::from(rank).checked_sub(1).map_or(0, |others| OF_RANK_ZERO + others * OF_A_RANK)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// If this fails, a user has no rank, or two that both train it.
        #[test]
        fn every_user_has_one_owner_and_rank_zero_has_fewer(users in 1usize..2000, ranks in 1usize..70) {
            let shares = Shares::new(users, ranks);
            let mut next = 0;
            for rank in 0..ranks as u32 {
                let own = shares.of(rank);
                prop_assert_eq!(own.start, next);
                let share = if rank == 0 { OF_RANK_ZERO } else { OF_A_RANK } as usize;
                let whole = users * share / before(ranks as u32) as usize;
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
