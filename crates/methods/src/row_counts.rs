//! Counts how many devices have sent each row, by what the devices say.
//!
//! A server that counts senders by itself has to see each upload. Where devices send a count of 1
//! for each row beside the rows, it needs nothing but sums, which secure aggregation can hide and
//! which can have noise. A codec that leaves values out or rounds them does so with counts as well;
//! `[codec.blocks.counts]` can give them another one.

use fedrecsim_core::Result;
use fedrecsim_model::sent_rows::SentRows;
use fedrecsim_model::{BlockLayout, Table, TableShape, TableUpdate, ValueType};

/// What an upload says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// It says nothing. A server that needs to know counts the rows of each upload.
    Nothing,
    /// It says 1 for each row that it lists.
    Rows,
    /// An upload counts 1 for each of its rows, and 1 for its sender. Where uploads are clipped, the
    /// count of the sender is the weight of the upload in the sums.
    RowsAndSender,
}

impl Counts {
    /// Says nothing unless `sends_counts`.
    pub(crate) fn only_if(self, sends_counts: bool) -> Self {
        if sends_counts { self } else { Self::Nothing }
    }
}

/// The name of the block that lists the rows that devices have sent.
pub(crate) const COUNTS: &str = "counts";

/// Returns the layouts of what uploads say of themselves, for this many items.
pub(crate) fn said_layouts(counts: Counts, items: usize) -> Vec<BlockLayout> {
    let rows = BlockLayout::item_table(COUNTS, TableShape::new(items, 1)).statistic();
    let sender = BlockLayout::weights("participants", TableShape::new(1, 1)).statistic();
    match counts {
        Counts::Nothing => Vec::new(),
        Counts::Rows => vec![rows],
        Counts::RowsAndSender => vec![rows, sender],
    }
}

/// Returns what the upload of a device says that has sent the rows `listed` (ascending) of a table
/// of this many.
///
/// # Errors
/// As [`TableUpdate::listed`].
pub(crate) fn said_of(counts: Counts, rows: usize, listed: &[u32]) -> Result<Vec<TableUpdate>> {
    let say = |block: BlockLayout| match block.name == COUNTS {
        true => {
            let ones = vec![1.0; listed.len()];
            TableUpdate::listed(block.shape, listed.to_vec(), &ones, 1.0)
        }
        false => Ok(TableUpdate::whole(Table::new(block.shape, vec![1.0]))),
    };
    said_layouts(counts, rows).into_iter().map(say).collect()
}

/// Returns whether a block can list the rows that devices have sent: a statistic with one number of
/// single precision for each row.
pub(crate) fn can_be_counts(block: &BlockLayout) -> bool {
    (block.shape.dimension, block.value_type, block.is_statistic) == (1, ValueType::F32, true)
}

/// Returns how large noise on counts is, as far as it shows: the magnitude of the most negative
/// one, since nobody counts negative numbers; 0 if none is negative.
pub(crate) fn noise_on(counts: &[f64]) -> f64 {
    counts
        .iter()
        .fold(0.0, |noise: f64, count| noise.max(-count))
}

/// Holds the sums of what devices say of each row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RowCounts {
    counts: Vec<f64>,
    noise: f64,
}

impl RowCounts {
    /// Reads the sums of a block that [`can_be_counts`] accepts.
    pub(crate) fn of(sums: &SentRows) -> Self {
        let mut counts = vec![0.0; sums.rows()];
        sums.iter()
            .for_each(|sent| counts[sent.row as usize] = sent.sum[0]);
        let noise = noise_on(&counts);
        Self { counts, noise }
    }

    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.counts.len()
    }

    /// Returns how many devices have sent a row, but at least as many as the noise on the counts is
    /// large; `None` if nobody says that it was sent and there is no noise.
    ///
    /// A smaller count says little, and would make the noise in its row large. To leave such rows
    /// as they are would keep a model from learning anything where noise hides most counts.
    pub(crate) fn senders(&self, row: u32) -> Option<f64> {
        let count = self.counts[row as usize].max(self.noise);
        (count > 0.0).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// If this fails, a count that noise has made is taken for one of devices, or one of devices
    /// for noise.
    #[test]
    fn counts_are_no_smaller_than_the_noise_that_shows() {
        let of = |counts: &[f64]| RowCounts {
            counts: counts.to_vec(),
            noise: noise_on(counts),
        };
        let silent = of(&[3.0, 0.0]);
        assert_eq!(
            (silent.senders(0), silent.senders(1), silent.rows()),
            (Some(3.0), None, 2)
        );
        let noisy = of(&[3.0, 0.5, -1.0]);
        assert_eq!(
            [0, 1, 2].map(|row| noisy.senders(row)),
            [Some(3.0), Some(1.0), Some(1.0)]
        );
    }

    /// If this fails, devices say something else than a 1 for each row that they have sent.
    #[test]
    fn a_device_says_one_for_each_row() {
        let said = said_of(Counts::Rows, 4, &[1, 3]).unwrap();
        let expected =
            TableUpdate::listed(TableShape::new(4, 1), vec![1, 3], &[1.0, 1.0], 1.0).unwrap();
        assert_eq!(said, [expected]);
        assert!(can_be_counts(&said_layouts(Counts::Rows, 4)[0]));
        assert!(said_of(Counts::Rows, 4, &[4]).is_err());
    }
}
