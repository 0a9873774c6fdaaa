//! What is known of the ratings of all users.

use serde::{Deserialize, Serialize};

use super::held_out::HeldOut;
use super::user_rows::UserRows;
use fedrecsim_core::UserId;

/// What is known of the ratings of users. Some may be in another process, so these are sums of
/// integers, which are the same in whatever order they are added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// The number of users.
    pub users: u32,
    /// The number of training ratings.
    pub(super) ratings: u64,
    /// The number of training positives of every item.
    pub(super) popularity: Vec<u32>,
    /// The lowest and the highest rating, the test part included; `None` if there are none.
    pub(super) range: Option<(f32, f32)>,
    /// The sum of the training ratings in the order of users and items. That of whole stars has no
    /// fraction, and is added without rounding.
    pub(super) rating_sum: f64,
    /// The sum of the digests of the users' ratings, lane by lane.
    pub(super) digest: [u64; 4],
}

impl Totals {
    /// Returns what is known of users with these ratings of `items` items. The first of them has the
    /// number `first` of `users` users.
    pub(super) fn of(
        items: u32,
        (train, held_out): (&UserRows, &HeldOut),
        (first, users): (u32, u32),
    ) -> Self {
        let training = train.all_ratings();
        let test = match held_out {
            HeldOut::Ratings(rows) => Some(rows.all_ratings()),
            HeldOut::Items { .. } => None,
        };
        let all = training
            .iter()
            .chain(test.iter().flat_map(|test| test.iter()));
        let range = all.fold(None, |range: Option<(f32, f32)>, rating| {
            let (low, high) = range.unwrap_or((rating, rating));
            Some((low.min(rating), high.max(rating)))
        });
        let mut digest = [0u64; 4];
        for user in 0..train.users() as u32 {
            let of_user = digest_of(UserId(first + user), UserId(user), train, held_out);
            for (sum, lane) in digest.iter_mut().zip(of_user.as_chunks::<8>().0) {
                *sum = sum.wrapping_add(u64::from_le_bytes(*lane));
            }
        }
        Self {
            users,
            ratings: training.len() as u64,
            popularity: train.popularity(items),
            range,
            rating_sum: training.iter().map(f64::from).sum(),
            digest,
        }
    }

    /// Adds what is known of other users.
    pub fn add(&mut self, other: &Self) {
        self.ratings += other.ratings;
        let counts = self.popularity.iter_mut().zip(&other.popularity);
        counts.for_each(|(sum, count)| *sum += count);
        self.range = match (self.range, other.range) {
            (Some((low, high)), Some((other_low, other_high))) => {
                Some((low.min(other_low), high.max(other_high)))
            }
            (one, other) => one.or(other),
        };
        self.rating_sum += other.rating_sum;
        let lanes = self.digest.iter_mut().zip(other.digest);
        lanes.for_each(|(sum, lane)| *sum = sum.wrapping_add(lane));
    }
}

/// Returns the digest of a user's ratings, which stand at `place`.
fn digest_of(
    user: UserId,
    place: UserId,
    train: &UserRows,
    held_out: &HeldOut,
) -> [u8; blake3::OUT_LEN] {
    let mut digest = blake3::Hasher::new();
    digest.update(&user.0.to_le_bytes());
    let mut feed = |bytes: &[u8]| {
        digest.update(bytes);
    };
    train.visit_user(place, &mut feed);
    feed(b"held out");
    match held_out {
        HeldOut::Items { .. } => held_out
            .items(place)
            .for_each(|item| feed(&item.to_le_bytes())),
        HeldOut::Ratings(rows) => rows.visit_user(place, &mut feed),
    }
    *digest.finalize().as_bytes()
}
