//! Reads and writes bitmaps. Position p is bit p mod 8 (counted from the least significant) of byte
//! p div 8.

use crate::bits::ones as ones_of;
use fedrecsim_core::error::Result;

/// Returns the number of bytes of a bitmap of `universe` positions.
#[inline]
pub(super) const fn byte_length(universe: usize) -> usize {
    universe.div_ceil(8)
}

/// Returns the bitmap of `positions` out of `universe`.
pub(super) fn of(positions: &[u32], universe: usize) -> Vec<u8> {
    let mut bitmap = vec![0; byte_length(universe)];
    for position in positions {
        bitmap[*position as usize / 8] |= 1 << (position % 8);
    }
    bitmap
}

/// Returns the number of bits that are set.
pub(super) fn count_ones(bitmap: &[u8]) -> usize {
    words(bitmap).map(|word| word.count_ones() as usize).sum()
}

/// Checks that a received bitmap of [`byte_length`] bytes has no bits beyond `universe`, and
/// `count` bits set.
///
/// # Errors
/// [`Error::Frame`], saying which of the two does not hold.
pub(super) fn check(bitmap: &[u8], universe: usize, count: usize) -> Result<()> {
    let used = universe % 8;
    if used > 0 && bitmap.last().is_some_and(|last| last >> used != 0) {
        refuse!("the bitmap has padding bits set");
    }
    let ones = count_ones(bitmap);
    if ones != count {
        refuse!("the bitmap lists {ones} entries, the header {count}");
    }
    Ok(())
}

/// Returns the positions of the set bits, in ascending order.
pub(super) fn ones(bitmap: &[u8]) -> impl Iterator<Item = usize> {
    words(bitmap)
        .enumerate()
        .flat_map(|(index, word)| ones_of(word).map(move |bit| 64 * index + bit))
}

/// Returns the bitmap in words of 64 positions. The last word is padded with zeros.
pub(super) fn words(bitmap: &[u8]) -> impl Iterator<Item = u64> {
    let (words, rest) = bitmap.as_chunks();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let last = (!rest.is_empty()).then_some(u64::from_le_bytes(last));
    words
        .iter()
        .map(|&word| u64::from_le_bytes(word))
        .chain(last)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bits_beyond_the_universe_and_wrong_counts_are_refused() {
        assert!(
            check(&[0b1000], 3, 1)
                .unwrap_err()
                .to_string()
                .contains("padding")
        );
        assert!(
            check(&[0b0100], 3, 2)
                .unwrap_err()
                .to_string()
                .contains("lists 1 entries, the header 2")
        );
        check(&[0b0100], 3, 1).unwrap();
        check(&[0xff], 8, 8).unwrap();
        check(&[], 0, 0).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_positions_that_were_set_come_back_in_order(
            positions in prop::collection::btree_set(0_u32..300, 0..200)
        ) {
            let positions = Vec::from_iter(positions);
            let bitmap = of(&positions, 300);
            check(&bitmap, 300, positions.len()).unwrap();
            prop_assert!(ones(&bitmap).eq(positions.iter().map(|position| *position as usize)));
        }
    }
}
