//! Reads the ratings of some users out of a file of all, which is gone through twice.
//!
//! The first time, users and ratings are counted; the second time, the ratings of the wanted users
//! are kept. All users and items are numbered as they are where the whole file is read.

use std::ops::Range;
use std::path::Path;

use super::{Rows, parse_rows};
use crate::dataset::compressed;
use crate::dataset::ratings::{Numbering, Ratings, nobody_left};
use fedrecsim_core::error::Result;
use fedrecsim_scenario::scenario::DelimitedSpec;

/// The ratings of some users, with what is known of the file.
pub struct OwnRatings {
    /// Their ratings. The names are those of all users, and the number of items that of all.
    pub ratings: Ratings,
    /// The users, by their numbers.
    pub own: Range<u32>,
    /// The number of ratings of all users, and of the users before these.
    pub rows: (u64, u64),
    /// A digest of all ratings.
    pub digest: [u8; blake3::OUT_LEN],
}

/// What is kept of the rows of a file.
#[derive(Default)]
pub(super) enum Keep {
    /// All.
    #[default]
    All,
    /// Counts alone.
    Counts(Box<Counts>),
    /// The rows of some users.
    Own {
        /// The new number of every user; [`Numbering::NONE`] for those who are left out.
        numbers: Vec<u32>,
        /// The users whose rows are kept, by their new numbers.
        own: Range<u32>,
        /// The new numbers of items.
        items: Numbering,
    },
}

/// What is counted of a file.
#[derive(Default)]
pub(super) struct Counts {
    /// The number of rows of every user.
    rows: Vec<u64>,
    /// Whether some rating has so many binary places that sums of ratings depend on their order.
    rounds: bool,
    digest: blake3::Hasher,
}

impl Keep {
    /// Counts a row, and returns its user and item as they are kept; `None` if it is not.
    pub(crate) fn kept(
        &mut self,
        (user, item): (u32, u32),
        (rating, time, weight, is_positive): (f32, i64, f32, bool),
    ) -> Option<(u32, u32)> {
        match self {
            Self::All => Some((user, item)),
            Self::Counts(counts) => {
                counts
                    .rows
                    .resize(counts.rows.len().max(user as usize + 1), 0);
                counts.rows[user as usize] += 1;
                counts.rounds |= rating.abs() > 1e4 || (rating * 64.0).fract() != 0.0;
                for field in [
                    user,
                    item,
                    rating.to_bits(),
                    weight.to_bits(),
                    u32::from(is_positive),
                ] {
                    counts.digest.update(&field.to_le_bytes());
                }
                counts.digest.update(&time.to_le_bytes());
                None
            }
            Self::Own {
                numbers,
                own,
                items,
            } => {
                let user = numbers[user as usize];
                if user == Numbering::NONE {
                    return None;
                }
                let item = items.number(item);
                own.contains(&user).then_some((user, item))
            }
        }
    }
}

/// Reads the ratings of those users of the file at `path` whom `own_of` names, of a number of users
/// from which those with fewer than `minimum` ratings are left out. Returns `None` if what is known
/// of all users cannot be added up from parts of them without rounding, because of the ratings'
/// fractions.
///
/// # Errors
/// As [`read`](super::read) and [`Ratings::keep_active_users`].
pub fn read_own(
    path: &Path,
    layout: &DelimitedSpec,
    minimum: u32,
    own_of: impl FnOnce(usize) -> Range<u32>,
) -> Result<Option<OwnRatings>> {
    let counting = Rows {
        keep: Keep::Counts(Box::default()),
        ..Rows::default()
    };
    let counted = parse_rows(compressed::open(path)?, path, layout, usize::MAX, counting)?;
    let (all_items, all_names) = (counted.items.0.len(), counted.ratings.user_names);
    let Keep::Counts(counts) = counted.keep else {
        return Ok(None);
    };
    if counts.rounds {
        return Ok(None);
    }
    let most = counts.rows.iter().copied().max().unwrap_or(0);
    if most < u64::from(minimum.max(1)) {
        return Err(nobody_left(minimum, most as usize));
    }
    let (mut numbers, mut user_names, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for (&count, name) in counts.rows.iter().zip(all_names) {
        let stays = count >= u64::from(minimum);
        numbers.push(if stays {
            rows.len() as u32
        } else {
            Numbering::NONE
        });
        if stays {
            rows.push(count);
            user_names.push(name);
        }
    }
    let own = own_of(rows.len());
    let before: u64 = rows[..own.start as usize].iter().sum();
    let keep = Keep::Own {
        numbers,
        own: own.clone(),
        items: Numbering::of(all_items),
    };
    let read = parse_rows(
        compressed::open(path)?,
        path,
        layout,
        usize::MAX,
        Rows {
            keep,
            ..Rows::default()
        },
    )?;
    let items = if let Keep::Own { items, .. } = &read.keep {
        items.count()
    } else {
        0
    };
    let ratings = Ratings {
        user_names,
        items,
        ..read.ratings
    };
    let digest = *counts.digest.finalize().as_bytes();
    Ok(Some(OwnRatings {
        ratings,
        own,
        rows: (rows.iter().sum(), before),
        digest,
    }))
}
