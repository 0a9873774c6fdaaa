//! Finds the slots of a table's rows by a bitmap with ranks.

use super::archive::{Archive, ArchiveReader, damaged};
use super::bits::ones;
use crate::per_instruction_set;
use fedrecsim_core::error::Result;

/// Stands for the slot of a row that is not held.
pub(super) const ABSENT: u32 = u32::MAX;

/// Holds a set of rows, each with the slot that it was given when it was inserted (0, 1, 2, ...).
///
/// It takes one bit for each row of the catalogue and one slot for each row held. Looking up a row
/// takes a load, a mask and a count of bits.
#[derive(Clone, Debug, Default)]
pub(super) struct RowIndex {
    words: Vec<u64>,
    /// The number of rows held before each word.
    before: Vec<u32>,
    /// The slots of the rows held, ascending by row.
    slots: Vec<u32>,
}

impl RowIndex {
    /// Returns the number of rows held.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Appends the index to `archive`.
    pub(crate) fn save(&self, archive: &mut Archive) {
        archive.put(&(&self.words, &self.slots));
    }

    /// Reads what [`Self::save`] appended.
    ///
    /// # Errors
    /// [`Error::Unrestorable`](fedrecsim_core::error::Error::Unrestorable) if the archive does not hold an
    /// index.
    pub(crate) fn restore(archive: &mut ArchiveReader) -> Result<Self> {
        let (words, slots): (Vec<u64>, Vec<u32>) = archive.take()?;
        let mut held = 0;
        let mut before = Vec::with_capacity(words.len());
        for word in &words {
            before.push(held);
            held += word.count_ones();
        }
        let mut seen = vec![false; slots.len()];
        let each_once = slots.iter().all(|slot| {
            let seen = seen.get_mut(*slot as usize);
            seen.is_some_and(|seen| !std::mem::replace(seen, true))
        });
        if held as usize != slots.len() || !each_once {
            return Err(damaged("an index of rows contradicts itself"));
        }
        Ok(Self {
            words,
            before,
            slots,
        })
    }

    /// Replaces `found` by the slot of each of `rows`, [`ABSENT`] where it is not held.
    pub(crate) fn find(&self, rows: &[u32], found: &mut Vec<u32>) {
        found.resize(rows.len(), ABSENT);
        find_slots(&self.words, &self.before, &self.slots, rows, found);
    }

    /// Returns the rows held with their slots, ascending by row.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        let rows = self
            .words
            .iter()
            .enumerate()
            .flat_map(|(number, &word)| ones(word).map(move |bit| (number * 64 + bit) as u32));
        rows.zip(self.slots.iter().copied())
    }

    /// Gives the next slots to those of `rows` (ascending, distinct) that are not held, in their
    /// order.
    pub(crate) fn insert_missing(&mut self, rows: &[u32]) {
        let mut next_slot = self.slots.len() as u32;
        let words = rows
            .last()
            .map_or(0, |&last| last as usize / 64 + 1)
            .max(self.words.len());
        let mut old_words = std::mem::take(&mut self.words);
        old_words.resize(words, 0);
        let mut new_words = old_words.clone();
        rows.iter()
            .for_each(|&row| new_words[row as usize / 64] |= 1 << (row % 64));
        let held = new_words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum();
        let mut slots = Vec::with_capacity(held);
        let mut old_slots = &self.slots[..];
        self.before.clear();
        self.before.reserve_exact(words);
        for (&old, &new) in old_words.iter().zip(&new_words) {
            self.before.push(slots.len() as u32);
            if old == new {
                // Once most rows are held, most words do not change.
                let (as_before, rest) = old_slots.split_at(old.count_ones() as usize);
                slots.extend_from_slice(as_before);
                old_slots = rest;
                continue;
            }
            for bit in ones(new) {
                // An old bit has an old slot, since there is one slot for each bit.
                let slot = if old >> bit & 1 == 0 {
                    None
                } else {
                    old_slots.split_off_first().copied()
                };
                slots.push(slot.unwrap_or_else(|| {
                    next_slot += 1;
                    next_slot - 1
                }));
            }
        }
        self.words = new_words;
        self.slots = slots;
    }
}

per_instruction_set! {
    targets("x86_64+popcnt"):
    /// Looks up many rows at once. The oldest processors of the architecture have no instruction
    /// that counts bits, and a count without it takes longer than everything else, so that the
    /// look-up is compiled for both.
    fn find_slots(words: &[u64], before: &[u32], slots: &[u32], rows: &[u32], found: &mut [u32]) {
        for (found, &row) in found.iter_mut().zip(rows) {
            let (place, bit) = (row as usize / 64, 1u64 << (row % 64));
            *found = match words.get(place) {
                Some(word) if word & bit != 0 => slots[(before[place] + (word & (bit - 1)).count_ones()) as usize],
                _ => ABSENT,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_index_takes_a_word_for_every_64_items_and_a_slot_a_row() {
        let mut index = RowIndex::default();
        index.insert_missing(&[0, 130]);
        assert_eq!(
            (index.words.len(), index.before.len(), index.slots.len()),
            (3, 3, 2)
        );
    }

    proptest! {
        /// If this fails, a client reads or writes the row of another item.
        #[test]
        fn behaves_like_a_sorted_map(
            insertions in prop::collection::vec(prop::collection::btree_set(0u32..300, 0..40), 0..8)
        ) {
            let mut index = RowIndex::default();
            let mut map: BTreeMap<u32, u32> = BTreeMap::new();
            for rows in insertions {
                let rows: Vec<u32> = rows.into_iter().collect();
                index.insert_missing(&rows);
                for row in rows {
                    let next = map.len() as u32;
                    map.entry(row).or_insert(next);
                }
                prop_assert_eq!(index.len(), map.len());
                prop_assert!(index.iter().eq(map.iter().map(|(row, slot)| (*row, *slot))));
                let mut found = vec![7; 500];
                index.find(&Vec::from_iter(0..400), &mut found);
                prop_assert!((0..400).map(|row| map.get(&row).copied().unwrap_or(ABSENT)).eq(found));
            }
        }
    }
}
