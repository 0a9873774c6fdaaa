//! Adds up what devices send for some rows of an item table, and how many have sent each row.

use fedrecsim_core::error::{Error, Result};
use fedrecsim_model::model::blocks::ModelUpdate;
use fedrecsim_model::model::magnitude::MagnitudeCounts;
use fedrecsim_model::model::table::{Base, TableShape, TableUpdate, floats};

/// What an upload says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told<'a> {
    /// How often its sender has each row (m x 1).
    pub counts: &'a TableUpdate,
    /// With which weight it is in the sums: 1 if it was not clipped.
    pub participants: f64,
}

impl<'a> Told<'a> {
    /// Splits an upload into its first `N` blocks and what the others say ([`Counts`]); `None` if
    /// there are none.
    ///
    /// # Errors
    /// [`Error::Update`] for an upload of other blocks.
    ///
    /// [`Counts`]: crate::method::declare::Counts
    pub(crate) fn beside<const N: usize>(
        upload: &'a ModelUpdate,
    ) -> Result<(&'a [TableUpdate; N], Option<Self>)> {
        let (sums, rest) = upload.blocks.split_first_chunk().ok_or_else(|| {
            Error::Update(format!("an upload has fewer blocks than its {N} sums"))
        })?;
        match rest {
            [] => Ok((sums, None)),
            [counts, participants] if participants.shape.values() == 1 => {
                // A codec may have left the only row out, which is then zero.
                let participants = floats(&participants.to_whole_bytes(Base::Zeros)?)
                    .map(f64::from)
                    .sum();
                let told = Self {
                    counts,
                    participants,
                };
                Ok((sums, Some(told)))
            }
            _ => Err(Error::Update(
                "an upload has other blocks than counts and participants after its sums".to_owned(),
            )),
        }
    }
}

/// Holds the sums of a statistic of listed rows, in the order of the calls of
/// [`ListedSums::absorb`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ListedSums {
    /// The sum of every row (m k values, row after row); nothing before the first upload.
    pub rows: Vec<f64>,
    /// For each row, the sum of the weights of those who sent it; nothing before the first upload.
    /// With noise on the counts that devices send, it may be negative.
    pub senders: Vec<f64>,
}

impl ListedSums {
    /// Adds `weight` times the rows of one upload, and returns the magnitudes of its values. `told`
    /// is what the sender says of the rows. If it says nothing, it is taken to have sent the rows
    /// that are not all zeros, since a dense frame has zeros in the rows that the sender left out.
    ///
    /// # Errors
    /// [`Error::Update`] for an upload of another shape than the ones before, or counts of other
    /// rows.
    pub(crate) fn absorb(
        &mut self,
        upload: &TableUpdate,
        told: Option<Told<'_>>,
        weight: f64,
    ) -> Result<MagnitudeCounts> {
        let TableShape { rows, dimension } = upload.shape;
        if self.rows.is_empty() {
            (self.rows, self.senders) = (vec![0.0; rows * dimension], vec![0.0; rows]);
        }
        if (self.rows.len(), self.senders.len()) != (rows * dimension, rows) {
            return Err(Error::Update(
                "an upload has another shape than the ones before".to_owned(),
            ));
        }
        if let Some(Told { counts, .. }) = told {
            if counts.shape != (TableShape { rows, dimension: 1 }) {
                return Err(Error::Update(
                    "the counts of an upload are of other rows than its values".to_owned(),
                ));
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
            if told.is_none() {
                self.senders[row] += weight;
            }
            let sums = &mut self.rows[row * dimension..(row + 1) * dimension];
            sums.iter_mut()
                .zip(values)
                .for_each(|(sum, value)| *sum += weight * f64::from(*value));
        }
        Ok(MagnitudeCounts::of(&values, 1.0))
    }

    /// Adds what other sums have absorbed.
    pub(crate) fn merge(&mut self, other: Self) {
        if self.rows.is_empty() {
            *self = other;
            return;
        }
        self.rows
            .iter_mut()
            .zip(&other.rows)
            .for_each(|(sum, value)| *sum += value);
        self.senders
            .iter_mut()
            .zip(&other.senders)
            .for_each(|(sum, weight)| *sum += weight);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::method::declare::Counts;
    use crate::method::row_counts::said_of;

    fn upload(rows: usize, listed: &[u32], values: &[f32]) -> TableUpdate {
        TableUpdate::listed(
            TableShape { rows, dimension: 2 },
            listed.to_vec(),
            values,
            1.0,
        )
        .unwrap()
    }

    /// If this fails, a row that a dense frame has filled with zeros counts as sent, or sums of two
    /// peers are not those of all.
    #[test]
    fn rows_and_their_senders_are_added_up_by_weight() {
        let (one, other) = (
            upload(3, &[0, 1], &[0.0, 0.0, 2.0, 4.0]),
            upload(3, &[1, 2], &[1.0, 1.0, 3.0, 0.0]),
        );
        let (mut sums, mut second) = (ListedSums::default(), ListedSums::default());
        assert_eq!(sums.absorb(&one, None, 0.5).unwrap().values, 4);
        assert_eq!(
            (&sums.rows, &sums.senders),
            (&vec![0.0, 0.0, 1.0, 2.0, 0.0, 0.0], &vec![0.0, 0.5, 0.0])
        );
        second.absorb(&other, None, 1.0).unwrap();
        sums.merge(second.clone());
        assert_eq!(
            (&sums.rows, &sums.senders),
            (&vec![0.0, 0.0, 2.0, 3.0, 3.0, 0.0], &vec![0.0, 1.5, 1.0])
        );
        let mut nothing = ListedSums::default();
        nothing.merge(second.clone());
        assert_eq!(nothing, second);
        assert!(
            sums.absorb(&upload(4, &[3], &[1.0, 1.0]), None, 1.0)
                .is_err()
        );
    }

    /// If this fails, a server does not read what devices say, or takes other blocks for it.
    #[test]
    fn what_a_device_tells_is_read() {
        let rows = || upload(4, &[1], &[1.0, 1.0]);
        let said = said_of(Counts::RowsAndSender, 4, &[1, 3]).unwrap();
        let of = |said: &[TableUpdate]| ModelUpdate::of_blocks([&[rows()], said].concat());
        let (nothing, one, all) = (of(&[]), of(&said[..1]), of(&said));
        assert!(Told::beside::<1>(&nothing).unwrap().1.is_none());
        assert!(Told::beside::<1>(&one).is_err() && Told::beside::<5>(&all).is_err());
        let ([rows], told) = Told::beside(&all).unwrap();
        let mut sums = ListedSums::default();
        sums.absorb(rows, told, 1.0).unwrap();
        assert_eq!(sums.senders, [0.0, 1.0, 0.0, 1.0]);
        assert_eq!(told.unwrap().participants, 1.0);
    }

    /// If this fails, a server counts rows in another way than the devices that say what they have
    /// sent.
    #[test]
    fn what_the_sender_counts_stands_in_place_of_the_rows_that_arrive() {
        let rows = upload(3, &[0, 1], &[0.0, 0.0, 2.0, 4.0]);
        let counts = |rows, values: &[f32]| {
            TableUpdate::listed(TableShape { rows, dimension: 1 }, vec![0, 2], values, 1.0).unwrap()
        };
        let mut sums = ListedSums::default();
        let told = |counts| {
            Some(Told {
                counts,
                participants: 1.0,
            })
        };
        let (fitting, other) = (counts(3, &[1.0, -0.5]), counts(4, &[1.0, 1.0]));
        sums.absorb(&rows, told(&fitting), 2.0).unwrap();
        assert_eq!(
            (&sums.rows, &sums.senders),
            (&vec![0.0, 0.0, 4.0, 8.0, 0.0, 0.0], &vec![2.0, 0.0, -1.0])
        );
        assert!(sums.absorb(&rows, told(&other), 1.0).is_err());
    }
}
