//! Codes positions as the gaps between them: for each position the number of entries skipped since
//! the one before, as a [`varint`]. Positions ascend strictly by construction, and a position right
//! after another one takes one byte.

use crate::codec::varint;
use fedrecsim_core::error::Result;

/// Returns the number of bytes of the code.
pub(super) fn length(positions: impl Iterator<Item = usize>) -> usize {
    super::gaps(positions).map(varint::length).sum()
}

/// Appends the code.
pub(in crate::codec) fn write(positions: impl Iterator<Item = usize>, out: &mut Vec<u8>) {
    super::gaps(positions).for_each(|gap| varint::write(out, gap));
}

/// Calls `visit` with each of the `count` positions of a list of gaps that fills `list` exactly.
///
/// # Errors
/// [`Error::Frame`](fedrecsim_core::error::Error::Frame) if a gap is malformed or leads out of `universe`, or if bytes are missing or
/// left over. The positions before the fault have been visited then.
pub(in crate::codec) fn read(
    mut list: &[u8],
    count: usize,
    universe: usize,
    visit: impl FnMut(usize),
) -> Result<()> {
    super::read_each(count, universe, visit, |least| {
        Ok(varint::read(&mut list)?.saturating_add(least))
    })?;
    if !list.is_empty() {
        refuse!(
            "the index list is followed by {} bytes too many",
            list.len()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::codec::positions::{PositionCode, plain_code};
    use proptest::prelude::*;

    fn refusal(list: &[u8], count: usize, universe: usize) -> String {
        read(list, count, universe, |_| ()).unwrap_err().to_string()
    }

    #[test]
    fn neighbours_have_gap_zero_and_the_first_gap_counts_from_the_start() {
        let mut out = Vec::new();
        write([3, 4, 5, 200].into_iter(), &mut out);
        assert_eq!(out, [3, 0, 0, 0xc2, 0x01]);
    }

    #[test]
    fn lists_that_leave_the_table_or_do_not_fill_their_place_are_refused() {
        assert!(refusal(&[3], 1, 3).contains("within the 3 entries"));
        assert!(refusal(&[2, 0], 2, 3).contains("within the 3 entries"));
        let huge = [[0xff; 9].as_slice(), &[1]].concat();
        assert!(
            refusal(&[&[0], huge.as_slice()].concat(), 2, usize::MAX).contains("do not ascend")
        );
        assert!(refusal(&[1], 2, 9).contains("too early"));
        assert!(refusal(&[1, 1], 1, 9).contains("1 bytes too many"));
    }

    #[test]
    fn the_bitmap_wins_a_tie() {
        // 18 positions of 152: a bitmap of 19 bytes, or 17 gaps of one byte and one of two.
        let plain = |universe| plain_code(18, universe, (0..17).chain([145]));
        assert_eq!(plain(152), (PositionCode::Bitmap, 19));
        // One byte more of bitmap, and the list is smaller.
        assert_eq!(plain(153), (PositionCode::Gaps, 19));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn the_encoding_chosen_is_the_smallest_and_its_size_the_announced_one(
            universe in 0_usize..2000,
            positions in prop::collection::btree_set(0_usize..2000, 0..300),
        ) {
            let held: Vec<usize> = positions.into_iter().filter(|position| *position < universe).collect();
            let mut list = Vec::new();
            write(held.iter().copied(), &mut list);
            let bitmap = universe.div_ceil(8);
            let (encoding, length) = plain_code(held.len(), universe, held.iter().copied());
            prop_assert_eq!(length, match encoding {
                PositionCode::All => 0,
                PositionCode::Bitmap => bitmap,
                _ => list.len(),
            });
            prop_assert!(length <= bitmap && length <= list.len());
            prop_assert_eq!(encoding == PositionCode::All, held.len() == universe);
            let mut found = Vec::new();
            read(&list, held.len(), universe, |position| found.push(position)).unwrap();
            prop_assert_eq!(found, held);
        }
    }
}
