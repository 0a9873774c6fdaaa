//! Adds up what devices send for some rows of an item table, and how many have sent each row.

use crate::error::{Error, Result};
use crate::model::layout::BlockLayout;
use crate::model::magnitude::MagnitudeCounts;
use crate::model::table::{TableShape, TableUpdate, floats};

/// Returns the layout of the block in which devices send a count for each of so many items.
pub fn counts_layout(items: usize) -> BlockLayout {
    BlockLayout::item_table("counts", TableShape { rows: items, dimension: 1 }).statistic()
}

/// Returns a device's counts: 1 for each of its positives, in ascending order, and 0 for the others of so many items.
///
/// # Errors
/// As [`TableUpdate::listed`].
pub fn counts_of(items: usize, positives: &[u32]) -> Result<TableUpdate> {
    let ones = vec![1.0; positives.len()];
    TableUpdate::listed(counts_layout(items).shape, positives.to_vec(), &ones, 1.0)
}

/// Holds the sums of a statistic of listed rows, in the order of the calls of [`ListedSums::absorb`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListedSums {
    /// The sum of every row (m k values, row after row); nothing before the first upload.
    pub rows: Vec<f64>,
    /// For each row, the sum of the weights of those who sent it; nothing before the first upload. With noise on the counts
    /// that devices send, it may be negative.
    pub senders: Vec<f64>,
}

impl ListedSums {
    /// Adds `weight` times the rows of one upload, and returns the magnitudes of its values. `counts` is what the sender says
    /// of each row (m x 1). If it says nothing, it is taken to have sent the rows that are not all zeros, since a dense frame
    /// has zeros in the rows that the sender left out.
    ///
    /// # Errors
    /// [`Error::Update`] for an upload of another shape than the ones before, or counts of other rows.
    pub fn absorb(
        &mut self,
        upload: &TableUpdate,
        counts: Option<&TableUpdate>,
        weight: f64,
    ) -> Result<MagnitudeCounts> {
        let TableShape { rows, dimension } = upload.shape;
        if self.rows.is_empty() {
            (self.rows, self.senders) = (vec![0.0; rows * dimension], vec![0.0; rows]);
        }
        if (self.rows.len(), self.senders.len()) != (rows * dimension, rows) {
            return Err(Error::Update("an upload has another shape than the ones before".to_owned()));
        }
        if let Some(counts) = counts {
            if counts.shape != (TableShape { rows, dimension: 1 }) {
                return Err(Error::Update("the counts of an upload are of other rows than its values".to_owned()));
            }
            for ((row, _), count) in counts.iter().zip(floats(&counts.values)) {
                self.senders[row] += weight * f64::from(count);
            }
        }
        let values: Vec<f32> = floats(&upload.values).collect();
        for ((row, _), values) in upload.iter().zip(values.chunks_exact(dimension.max(1))) {
            if values.iter().all(|value| *value == 0.0) {
                continue;
            }
            if counts.is_none() {
                self.senders[row] += weight;
            }
            let sums = &mut self.rows[row * dimension..(row + 1) * dimension];
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * f64::from(*value));
        }
        Ok(MagnitudeCounts::of(&values, 1.0))
    }

    /// Adds what other sums have absorbed.
    pub fn merge(&mut self, other: Self) {
        if self.rows.is_empty() {
            *self = other;
            return;
        }
        self.rows.iter_mut().zip(&other.rows).for_each(|(sum, value)| *sum += value);
        self.senders.iter_mut().zip(&other.senders).for_each(|(sum, weight)| *sum += weight);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn upload(rows: usize, listed: &[u32], values: &[f32]) -> TableUpdate {
        TableUpdate::listed(TableShape { rows, dimension: 2 }, listed.to_vec(), values, 1.0).unwrap()
    }

    /// If this fails, a row that a dense frame has filled with zeros counts as sent, or sums of two peers are not those of all.
    #[test]
    fn rows_and_their_senders_are_added_up_by_weight() {
        let (one, other) = (upload(3, &[0, 1], &[0.0, 0.0, 2.0, 4.0]), upload(3, &[1, 2], &[1.0, 1.0, 3.0, 0.0]));
        let (mut sums, mut second) = (ListedSums::default(), ListedSums::default());
        assert_eq!(sums.absorb(&one, None, 0.5).unwrap().values, 4);
        assert_eq!((&sums.rows, &sums.senders), (&vec![0.0, 0.0, 1.0, 2.0, 0.0, 0.0], &vec![0.0, 0.5, 0.0]));
        second.absorb(&other, None, 1.0).unwrap();
        sums.merge(second.clone());
        assert_eq!((&sums.rows, &sums.senders), (&vec![0.0, 0.0, 2.0, 3.0, 3.0, 0.0], &vec![0.0, 1.5, 1.0]));
        let mut nothing = ListedSums::default();
        nothing.merge(second.clone());
        assert_eq!(nothing, second);
        assert!(sums.absorb(&upload(4, &[3], &[1.0, 1.0]), None, 1.0).is_err());
    }

    /// If this fails, a server counts rows in another way than the devices that say what they have sent.
    #[test]
    fn what_the_sender_counts_stands_in_place_of_the_rows_that_arrive() {
        let rows = upload(3, &[0, 1], &[0.0, 0.0, 2.0, 4.0]);
        let counts = |rows, values: &[f32]| {
            TableUpdate::listed(TableShape { rows, dimension: 1 }, vec![0, 2], values, 1.0).unwrap()
        };
        let mut sums = ListedSums::default();
        sums.absorb(&rows, Some(&counts(3, &[1.0, -0.5])), 2.0).unwrap();
        assert_eq!((&sums.rows, &sums.senders), (&vec![0.0, 0.0, 4.0, 8.0, 0.0, 0.0], &vec![2.0, 0.0, -1.0]));
        assert!(sums.absorb(&rows, Some(&counts(4, &[1.0, 1.0])), 1.0).is_err());
    }
}
