//! Totals over the ratings of all users.

use serde::{Deserialize, Serialize};

use super::held_out::HeldOut;
use super::split_facts::SplitFacts;
use super::user_rows::UserRows;
use fedrecsim_core::UserId;

/// Totals over the ratings of users. Some may be in another process, so these are sums of integers,
/// which do not depend on the order of addition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// The number of users.
    pub users: u32,
    /// The number of users who have something to train on. They are the first ones.
    pub(super) with_history: u32,
    /// What the split did.
    pub(super) split: SplitFacts,
    /// The number of training ratings.
    pub(super) ratings: u64,
    /// The number of training positives of every item.
    pub(super) popularity: Vec<u32>,
    /// The number of users with a training positive of every item, who may have several of it.
    pub(super) raters: Vec<u32>,
    /// The lowest and the highest rating, the test part included; `None` if there are none.
    pub(super) range: Option<(f32, f32)>,
    /// The sum of the training ratings in the order of users and items. That of whole stars has no
    /// fraction, and is added without rounding.
    pub(super) rating_sum: f64,
    /// The sum of the digests of the users' ratings, lane by lane. A run without checkpoints needs
    /// none, and hashing all ratings takes as long as drawing them, so it is `None` at first.
    pub(super) digest: Option<[u64; 4]>,
}

impl Totals {
    /// Returns the totals of some of `users` users, who have these ratings of `items` items.
    pub(super) fn of(
        items: u32,
        (train, held_out): (&UserRows, &HeldOut),
        users: u32,
        split: SplitFacts,
    ) -> Self {
        let training = train.all_ratings();
        let test = match held_out {
            HeldOut::Ratings(rows) => Some(rows.all_ratings()),
            HeldOut::Items(_) => None,
        };
        let all = training
            .iter()
            .chain(test.iter().flat_map(|test| test.iter()));
        let range = all.fold(None, |range: Option<(f32, f32)>, rating| {
            let (low, high) = range.unwrap_or((rating, rating));
            Some((low.min(rating), high.max(rating)))
        });
        let mut totals = Self {
            users,
            with_history: users,
            split,
            ratings: training.len() as u64,
            popularity: vec![0; items as usize],
            raters: vec![0; items as usize],
            range,
            rating_sum: training.iter().map(f64::from).sum(),
            digest: None,
        };
        let own = (0..train.users() as u32).map(|user| train.own_data(UserId(user)));
        own.for_each(|own| totals.add_positives(own.positives()));
        totals
    }

    /// Counts the positives of a user, which ascend.
    pub(super) fn add_positives(&mut self, positives: impl Iterator<Item = u32>) {
        let mut before = None;
        for item in positives {
            self.popularity[item as usize] += 1;
            self.raters[item as usize] += u32::from(before != Some(item));
            before = Some(item);
        }
    }

    /// Adds the totals of other users.
    pub fn add(&mut self, other: &Self) {
        self.split.add(&other.split);
        self.ratings += other.ratings;
        for (sums, counts) in [
            (&mut self.popularity, &other.popularity),
            (&mut self.raters, &other.raters),
        ] {
            sums.iter_mut()
                .zip(counts)
                .for_each(|(sum, count)| *sum += count);
        }
        self.range = match (self.range, other.range) {
            (Some((low, high)), Some((other_low, other_high))) => {
                Some((low.min(other_low), high.max(other_high)))
            }
            (one, other) => one.or(other),
        };
        self.rating_sum += other.rating_sum;
        let digests = self.digest.zip(other.digest);
        self.digest = digests.map(|(one, other)| sum_of_lanes(one, other));
    }
}

fn sum_of_lanes(mut sum: [u64; 4], digest: [u64; 4]) -> [u64; 4] {
    let lanes = sum.iter_mut().zip(digest);
    lanes.for_each(|(sum, lane)| *sum = sum.wrapping_add(lane));
    sum
}

/// Returns the sum of the digests of the users whose ratings these are. The first of them has the
/// number `first`.
pub(super) fn digest_of(first: u32, train: &UserRows, held_out: &HeldOut) -> [u64; 4] {
    let of_user = |user| digest_of_user(UserId(first + user), UserId(user), train, held_out);
    (0..train.users() as u32)
        .map(of_user)
        .fold([0; 4], sum_of_lanes)
}

/// Returns the digest of a user's ratings, which stand at `place`.
fn digest_of_user(user: UserId, place: UserId, train: &UserRows, held_out: &HeldOut) -> [u64; 4] {
    let mut digest = blake3::Hasher::new();
    digest.update(&user.0.to_le_bytes());
    let mut feed = |bytes: &[u8]| {
        digest.update(bytes);
    };
    train.visit_user(place, &mut feed);
    feed(b"held out");
    match held_out {
        HeldOut::Items(_) => held_out
            .items(place)
            .for_each(|item| feed(&item.to_le_bytes())),
        HeldOut::Ratings(rows) => rows.visit_user(place, &mut feed),
    }
    let mut lanes = [0; 4];
    let bytes = digest.finalize();
    for (lane, bytes) in lanes.iter_mut().zip(bytes.as_bytes().as_chunks().0) {
        *lane = u64::from_le_bytes(*bytes);
    }
    lanes
}
