//! Sums the rows that clients sent, for server rules that touch only those rows.
//!
//! Time and memory are proportional to the rows that were sent, plus four bytes for every row of
//! the block.

use super::aggregate::BlockContribution;
use super::magnitude::MagnitudeCounts;
use super::table::{TableShape, floats};

/// The place of a row that nobody has sent.
const NOT_SENT: u32 = u32::MAX;

/// Holds the sums of one block.
#[derive(Clone, Debug)]
pub struct SentRows {
    dimension: usize,
    /// For each row of the block, its place among the rows sent.
    places: Vec<u32>,
    /// The rows sent, in the order of their first arrival.
    sent: Vec<SentRow>,
    /// Whether every sender's own row is kept beside the sums.
    keeps_each: bool,
    /// The magnitudes of the values that were sent.
    pub counts: MagnitudeCounts,
}

/// Describes a row that somebody sent.
#[derive(Clone, Debug)]
pub struct SentRow {
    /// The number of the row.
    pub row: u32,
    /// The sum of weight times (x - b), or of weight times x in a block that is a statistic.
    pub sum: Vec<f64>,
    /// The number of senders.
    pub senders: u32,
    /// The weight of every sender and its x - b, or x, if these are kept.
    pub each: Vec<(f64, Vec<f64>)>,
}

/// Adds `weight` times the difference of a row to its base, or times the row itself if there is no
/// base.
fn add_row(sums: &mut [f64], bytes: &[u8], base: Option<&[f32]>, weight: f64) {
    match base {
        Some(base) => {
            for ((sum, value), base) in sums.iter_mut().zip(floats(bytes)).zip(base) {
                *sum += weight * (f64::from(value) - f64::from(*base));
            }
        }
        None => {
            for (sum, value) in sums.iter_mut().zip(floats(bytes)) {
                *sum += weight * f64::from(value);
            }
        }
    }
}

impl SentRows {
    /// Makes empty sums for a block of this shape.
    pub fn new(shape: TableShape) -> Self {
        Self {
            dimension: shape.dimension,
            places: vec![NOT_SENT; shape.rows],
            sent: Vec::new(),
            keeps_each: false,
            counts: MagnitudeCounts::default(),
        }
    }

    /// Keeps what every sender has sent as well, for rules that compare senders.
    pub fn keeping_each(self) -> Self {
        Self {
            keeps_each: true,
            ..self
        }
    }

    /// Returns the number of rows of the block.
    pub fn rows(&self) -> usize {
        self.places.len()
    }

    /// Adds contributions in their order. Base weights are not used, since unlisted rows are not
    /// added.
    pub fn add(&mut self, contributions: &[BlockContribution<'_>]) {
        for contribution in contributions {
            for (row, bytes) in contribution.update.iter() {
                // In a statistic, a dense frame has zeros in the rows that the sender left out.
                if contribution.base.is_none() && floats(bytes).all(|value| value == 0.0) {
                    continue;
                }
                let base = contribution.base.map(|base| base.row(row));
                let (keeps_each, weight) = (self.keeps_each, contribution.weight);
                let sent = self.sent(row as u32);
                sent.senders += 1;
                add_row(&mut sent.sum, bytes, base, weight);
                if keeps_each {
                    let values = floats(bytes).map(f64::from).enumerate();
                    let moved = |(at, value): (usize, f64)| match base {
                        Some(base) => value - f64::from(base[at]),
                        None => value,
                    };
                    sent.each.push((weight, values.map(moved).collect()));
                }
            }
            self.counts.add_bytes(&contribution.update.values);
        }
    }

    /// Adds other sums, row by row in the order of their rows.
    pub fn merge(&mut self, other: Self) {
        for other in other.sent {
            let sent = self.sent(other.row);
            sent.senders += other.senders;
            sent.each.extend(other.each);
            let sums = sent.sum.iter_mut().zip(&other.sum);
            sums.for_each(|(sum, more)| *sum += more);
        }
        self.counts.add_times(&other.counts, 1);
    }

    /// Returns the rows that were sent, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &SentRow> {
        let mut sent: Vec<&SentRow> = self.sent.iter().collect();
        sent.sort_unstable_by_key(|sent| sent.row);
        sent.into_iter()
    }

    /// Returns the entry of a row among the rows sent, and makes one if it is new.
    fn sent(&mut self, row: u32) -> &mut SentRow {
        let place = &mut self.places[row as usize];
        if *place == NOT_SENT {
            *place = self.sent.len() as u32;
            self.sent.push(SentRow {
                row,
                sum: vec![0.0; self.dimension],
                senders: 0,
                each: Vec::new(),
            });
        }
        &mut self.sent[*place as usize]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use super::*;
    use crate::table::{Table, TableUpdate};

    const SHAPE: TableShape = TableShape {
        rows: 6,
        dimension: 2,
    };

    fn sent(rows: &[u32], value: f32) -> TableUpdate {
        TableUpdate::listed(SHAPE, rows.to_vec(), &vec![value; 2 * rows.len()], 1.0).unwrap()
    }

    fn contribution<'a>(
        update: &'a TableUpdate,
        base: Option<&'a Arc<Table>>,
        weight: f64,
    ) -> BlockContribution<'a> {
        BlockContribution {
            update,
            base,
            intended: None,
            base_number: 0,
            weight,
            base_weight: 0.0,
        }
    }

    /// If this fails, a rule moves rows that nobody sent, or divides by the wrong number of
    /// senders.
    #[test]
    fn rows_are_summed_over_those_who_sent_them() {
        let base = Arc::new(Table::from_fn(SHAPE, || 1.0));
        let (one, other) = (sent(&[4, 5], 3.0), sent(&[1, 4], 2.0));
        let mut sums = SentRows::new(SHAPE);
        sums.add(&[
            contribution(&one, Some(&base), 1.0),
            contribution(&other, Some(&base), 0.5),
        ]);
        let rows: Vec<_> = sums
            .iter()
            .map(|sent| (sent.row, sent.sum.to_vec(), sent.senders))
            .collect();
        assert_eq!(
            rows,
            [
                (1, vec![0.5; 2], 1),
                (4, vec![2.5; 2], 2),
                (5, vec![2.0; 2], 1)
            ]
        );
        let mut apart = SentRows::new(SHAPE);
        apart.add(&[contribution(&one, Some(&base), 1.0)]);
        let mut second = SentRows::new(SHAPE);
        second.add(&[contribution(&other, Some(&base), 0.5)]);
        apart.merge(second);
        let merged: Vec<_> = apart
            .iter()
            .map(|sent| (sent.row, sent.sum.to_vec(), sent.senders))
            .collect();
        assert_eq!(merged, rows, "an aggregator in between changes nothing");
        assert_eq!(apart.counts, sums.counts);
    }

    #[test]
    fn a_statistic_is_summed_as_it_was_sent() {
        let update = sent(&[2], 3.0);
        let mut sums = SentRows::new(SHAPE);
        sums.add(&[contribution(&update, None, 2.0)]);
        assert_eq!(
            sums.iter().next().map(|sent| sent.sum.to_vec()),
            Some(vec![6.0; 2])
        );
        let zeros = sent(&[1, 2], 0.0);
        sums.add(&[contribution(&zeros, None, 2.0)]);
        let senders: Vec<_> = sums.iter().map(|sent| (sent.row, sent.senders)).collect();
        assert_eq!(
            senders,
            [(2, 1)],
            "rows of zeros are what a dense frame has where nothing was sent"
        );
    }
}
