//! Bitmaps: position p is bit p mod 8 (counted from the least significant) of byte p div 8.

use std::ops::Range;

use crate::error::{Error, Result};

/// Bytes of a bitmap of `universe` positions.
#[inline]
pub(super) const fn byte_length(universe: usize) -> usize {
    universe.div_ceil(8)
}

/// Sets the bit of `position`.
#[inline]
pub(super) fn insert(bitmap: &mut [u8], position: usize) {
    bitmap[position / 8] |= 1 << (position % 8);
}

/// The number of bits set.
pub(super) fn count_ones(bitmap: &[u8]) -> usize {
    words(bitmap).map(|word| word.count_ones() as usize).sum()
}

/// Checks a received bitmap, [`byte_length`] bytes: no bits beyond `universe`, and `count` bits set.
///
/// # Errors
/// [`Error::Frame`], saying which of the two does not hold.
pub(super) fn check(bitmap: &[u8], universe: usize, count: usize) -> Result<()> {
    let used = universe % 8;
    if used > 0 && bitmap.last().is_some_and(|last| last >> used != 0) {
        return Err(Error::Frame("the bitmap has padding bits set".into()));
    }
    let ones = count_ones(bitmap);
    if ones != count {
        return Err(Error::Frame(format!("the bitmap lists {ones} entries, the header {count}")));
    }
    Ok(())
}

/// The set bits in ascending order, as ranges of consecutive positions. (Ranges end at every 64th position
/// at the latest: adjacent ones are not joined.)
pub(super) fn runs(bitmap: &[u8]) -> impl Iterator<Item = Range<usize>> + Clone {
    Runs { words: words(bitmap), next_base: 0, base: 0, word: 0 }
}

fn words(bitmap: &[u8]) -> impl Iterator<Item = u64> + Clone {
    let (words, rest) = bitmap.as_chunks();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let last = (!rest.is_empty()).then_some(u64::from_le_bytes(last));
    words.iter().map(|&word| u64::from_le_bytes(word)).chain(last)
}

#[derive(Clone)]
struct Runs<W> {
    words: W,
    next_base: usize,
    base: usize,
    word: u64,
}

impl<W: Iterator<Item = u64>> Iterator for Runs<W> {
    type Item = Range<usize>;

    #[inline]
    fn next(&mut self) -> Option<Range<usize>> {
        while self.word == 0 {
            self.word = self.words.next()?;
            self.base = self.next_base;
            self.next_base += 64;
        }
        let start = self.word.trailing_zeros();
        let end = start + (self.word >> start).trailing_ones();
        self.word = u64::MAX.checked_shl(end).map_or(0, |above| self.word & above);
        Some(self.base + start as usize..self.base + end as usize)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn bits_beyond_the_universe_and_wrong_counts_are_refused() {
        assert!(check(&[0b1000], 3, 1).unwrap_err().to_string().contains("padding"));
        assert!(check(&[0b0100], 3, 2).unwrap_err().to_string().contains("lists 1 entries, the header 2"));
        check(&[0b0100], 3, 1).unwrap();
        check(&[0xff], 8, 8).unwrap();
        check(&[], 0, 0).unwrap();
    }

    #[test]
    fn runs_cross_bytes_and_end_at_words() {
        let mut bitmap = [0; 9];
        for position in (6..11).chain(60..70) {
            insert(&mut bitmap, position);
        }
        assert_eq!(runs(&bitmap).collect::<Vec<_>>(), [6..11, 60..64, 64..70]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn runs_give_back_the_positions_that_were_set(positions in prop::collection::btree_set(0_usize..300, 0..200)) {
            let mut bitmap = vec![0; byte_length(300)];
            for &position in &positions {
                insert(&mut bitmap, position);
            }
            prop_assert_eq!(runs(&bitmap).flatten().collect::<BTreeSet<_>>(), positions.clone());
            check(&bitmap, 300, positions.len()).unwrap();
        }
    }
}
