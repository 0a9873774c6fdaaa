//! Encodes which entries of a table a frame holds. A frame with all entries has no index. Otherwise
//! the index is a bitmap or a list, whichever is smaller.
//!
//! The list holds *gaps*: for each entry, the number of entries skipped since the previous one, as
//! a [`varint`]. Positions are therefore always strictly ascending, and the position after another
//! one costs one byte.

use super::{bitmap, varint};
use fedrecsim_core::error::{Error, Result};

/// Says how a frame encodes which entries it holds. The discriminant is the code in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndexEncoding {
    /// The frame holds every entry and has no index.
    All = 0,
    /// The index has one bit for each entry of the table.
    Bitmap = 1,
    /// The index lists the gaps between the entries held.
    Gaps = 2,
}

impl IndexEncoding {
    /// Returns the encoding with this code, if there is one.
    pub(super) const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::All),
            1 => Some(Self::Bitmap),
            2 => Some(Self::Gaps),
            _ => None,
        }
    }

    /// Returns the encoding with the fewest bytes, and the number of bytes, for `count` strictly
    /// ascending `positions` out of `universe`. The bitmap is chosen if it ties with the list.
    pub(super) fn smallest(
        count: usize,
        universe: usize,
        positions: impl Iterator<Item = usize>,
    ) -> (Self, usize) {
        if count == universe {
            return (Self::All, 0);
        }
        let bitmap = bitmap::byte_length(universe);
        // A gap takes at least a byte, so that a long list is larger without being measured.
        if count >= bitmap {
            return (Self::Bitmap, bitmap);
        }
        let gaps = gaps(positions).map(varint::length).sum();
        if gaps < bitmap {
            (Self::Gaps, gaps)
        } else {
            (Self::Bitmap, bitmap)
        }
    }
}

/// Appends the gaps between strictly ascending `positions`.
pub(super) fn write_gaps(out: &mut Vec<u8>, positions: impl Iterator<Item = usize>) {
    gaps(positions).for_each(|gap| varint::write(out, gap));
}

/// Calls `visit` with each of the `count` positions of a list of gaps that fills `list` exactly.
///
/// # Errors
/// [`Error::Frame`] if a gap is malformed or leads out of `universe`, or if bytes are missing or
/// left over. The positions before the fault have been visited then.
pub(super) fn read_gaps(
    mut list: &[u8],
    count: usize,
    universe: usize,
    mut visit: impl FnMut(usize),
) -> Result<()> {
    let mut next = 0;
    for _ in 0..count {
        let gap = varint::read(&mut list)?;
        let position = usize::try_from(gap)
            .ok()
            .and_then(|gap| gap.checked_add(next));
        let Some(position) = position.filter(|&position| position < universe) else {
            return Err(Error::Frame(format!(
                "the index list leaves the table of {universe} entries"
            )));
        };
        visit(position);
        next = position + 1;
    }
    if !list.is_empty() {
        return Err(Error::Frame(format!(
            "the index list is followed by {} bytes too many",
            list.len()
        )));
    }
    Ok(())
}

/// Returns the number of entries skipped before each of the strictly ascending `positions`.
fn gaps(positions: impl Iterator<Item = usize>) -> impl Iterator<Item = u64> {
    positions.scan(0, |next, position| {
        let gap = position - *next;
        *next = position + 1;
        Some(gap as u64)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn refusal(list: &[u8], count: usize, universe: usize) -> String {
        read_gaps(list, count, universe, |_| ())
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn neighbours_have_gap_zero_and_the_first_gap_counts_from_the_start() {
        let mut out = Vec::new();
        write_gaps(&mut out, [3, 4, 5, 200].into_iter());
        assert_eq!(out, [3, 0, 0, 0xc2, 0x01]);
    }

    #[test]
    fn lists_that_leave_the_table_or_do_not_fill_their_place_are_refused() {
        assert!(refusal(&[3], 1, 3).contains("leaves the table of 3"));
        assert!(refusal(&[2, 0], 2, 3).contains("leaves the table of 3"));
        let huge = [[0xff; 9].as_slice(), &[1]].concat();
        assert!(
            refusal(&[&[0], huge.as_slice()].concat(), 2, usize::MAX).contains("leaves the table")
        );
        assert!(refusal(&[1], 2, 9).contains("too early"));
        assert!(refusal(&[1, 1], 1, 9).contains("1 bytes too many"));
    }

    #[test]
    fn the_bitmap_wins_a_tie() {
        // 18 positions of 152: a bitmap of 19 bytes, or 17 gaps of one byte and one of two.
        let positions = (0..17).chain([145]);
        assert_eq!(
            IndexEncoding::smallest(18, 152, positions.clone()),
            (IndexEncoding::Bitmap, 19)
        );
        // One byte more of bitmap, and the list is smaller.
        assert_eq!(
            IndexEncoding::smallest(18, 153, positions),
            (IndexEncoding::Gaps, 19)
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn the_encoding_chosen_is_the_smallest_and_its_size_the_announced_one(
            universe in 0_usize..2000,
            positions in prop::collection::btree_set(0_usize..2000, 0..300),
        ) {
            let positions: Vec<usize> = positions.into_iter().filter(|&position| position < universe).collect();
            let mut list = Vec::new();
            write_gaps(&mut list, positions.iter().copied());
            let bitmap = universe.div_ceil(8);
            let (encoding, length) = IndexEncoding::smallest(positions.len(), universe, positions.iter().copied());
            prop_assert_eq!(length, match encoding {
                IndexEncoding::All => 0,
                IndexEncoding::Bitmap => bitmap,
                IndexEncoding::Gaps => list.len(),
            });
            prop_assert!(length <= bitmap && length <= list.len());
            prop_assert_eq!(encoding == IndexEncoding::All, positions.len() == universe);
            let mut found = Vec::new();
            read_gaps(&list, positions.len(), universe, |position| found.push(position)).unwrap();
            prop_assert_eq!(found, positions);
        }
    }
}
