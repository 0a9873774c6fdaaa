//! Reads the ratings of some users out of a file of all, which is gone through twice.
//!
//! The first time, users and ratings are counted; the second time, the ratings of the wanted users
//! are kept. All users and items are numbered as they are where the whole file is read.

use std::ops::Range;
use std::path::Path;

use super::{open, parse_rows};
use crate::dataset::ratings::{Interaction, Numbering, Ratings, nobody_left};
use fedrecsim_core::Result;
use fedrecsim_scenario::DelimitedSpec;

/// The ratings of some users, with the totals of the file.
pub(crate) struct OwnRatings {
    /// Their ratings. The names are those of all users and items.
    pub ratings: Ratings,
    /// The users, by their numbers.
    pub own: Range<u32>,
    /// The number of ratings of all users, and of the users before these.
    pub rows: (u64, u64),
    /// A digest of all ratings.
    pub digest: [u8; blake3::OUT_LEN],
}

/// Reads the ratings of some users of the file at `path`: `own_of` picks them, given the number of
/// users with at least `minimum` ratings. Returns `None` if the ratings have fractions whose sum over
/// all users depends on the order.
///
/// # Errors
/// As [`read`](super::read) and [`Ratings::keep_active_users`].
pub(crate) fn read_own(
    path: &Path,
    layout: &DelimitedSpec,
    minimum: u32,
    own_of: impl FnOnce(usize) -> Range<u32>,
) -> Result<Option<OwnRatings>> {
    let (mut rows_of, mut digest) = (Vec::<u64>::new(), blake3::Hasher::new());
    // Whether some rating has so many binary places that sums of ratings depend on their order.
    let mut rounds = false;
    let mut count = |user: u32, row: Interaction| {
        rows_of.resize(rows_of.len().max(user as usize + 1), 0);
        rows_of[user as usize] += 1;
        rounds |= row.rating.abs() > 1e4 || (row.rating * 64.0).fract() != 0.0;
        for field in [
            user,
            row.item,
            row.rating.to_bits(),
            row.weight.to_bits(),
            u32::from(row.is_positive),
        ] {
            digest.update(&field.to_le_bytes());
        }
        digest.update(&row.time.to_le_bytes());
        None
    };
    let all = parse_rows(open(path)?, path, layout, usize::MAX, &mut count)?;
    if rounds {
        return Ok(None);
    }
    let most = rows_of.iter().copied().max().unwrap_or(0);
    if most < u64::from(minimum.max(1)) {
        return Err(nobody_left(minimum, most as usize));
    }
    let (mut numbers, mut user_names, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for (&count, name) in rows_of.iter().zip(all.user_names) {
        if count < u64::from(minimum) {
            numbers.push(Numbering::NONE);
            continue;
        }
        numbers.push(rows.len() as u32);
        rows.push(count);
        user_names.push(name);
    }
    let own = own_of(rows.len());
    let before: u64 = rows[..own.start as usize].iter().sum();
    let mut items = Numbering::of(all.item_names.len());
    let mut keep = |user: u32, row: Interaction| {
        let user = numbers[user as usize];
        if user == Numbering::NONE {
            return None;
        }
        let item = items.number(row.item);
        own.contains(&user)
            .then_some((user, Interaction { item, ..row }))
    };
    let read = parse_rows(open(path)?, path, layout, usize::MAX, &mut keep)?;
    let ratings = Ratings {
        user_names,
        item_names: items.names(all.item_names),
        ..read
    };
    Ok(Some(OwnRatings {
        ratings,
        own,
        rows: (rows.iter().sum(), before),
        digest: *digest.finalize().as_bytes(),
    }))
}
