//! Marks the values that are not 0 in at least one of the added tables.

use super::VALUE_BYTES;
use crate::magnitude::{MagnitudeCounts, SupportCount};

/// What is counted of the values that are added.
#[derive(Debug)]
pub(super) struct Tally {
    /// Their magnitudes.
    pub counts: MagnitudeCounts,
    /// Those that are not 0 in some table.
    pub support: Support,
}

/// Holds the marks of consecutive rows. A row whose values are all marked, as most rows of dense
/// tables are, is not read again.
#[derive(Debug)]
pub(super) struct Support {
    dimension: usize,
    is_full: Vec<bool>,
    /// For each value 1 if it is marked, else 0. Empty until a row with a zero is found.
    marks: Vec<u8>,
}

impl Support {
    /// Makes unmarked rows.
    pub(crate) fn new(rows: usize, dimension: usize) -> Self {
        Self {
            dimension,
            is_full: vec![false; rows],
            marks: Vec::new(),
        }
    }

    /// Marks every value of a row.
    #[inline]
    pub(crate) fn mark_all(&mut self, row: usize) {
        self.is_full[row] = true;
    }

    /// Marks the values of a row that are not 0.
    pub(crate) fn mark(&mut self, row: usize, values: &[[u8; VALUE_BYTES]]) {
        if self.is_full[row] {
            return;
        }
        if self.marks.is_empty() {
            self.marks = vec![0; self.is_full.len() * self.dimension];
        }
        let marks = &mut self.marks[row * self.dimension..(row + 1) * self.dimension];
        // Shifted to the left, the bits of both zeros are 0, and those of no other value.
        for (mark, value) in marks.iter_mut().zip(values) {
            *mark |= u8::from(u32::from_le_bytes(*value) << 1 != 0);
        }
        self.is_full[row] = marks.iter().all(|mark| *mark == 1);
    }

    /// Marks the values of a row that are not 0, each times `scale`.
    pub(crate) fn mark_scaled(&mut self, row: usize, values: &[f32], scale: f32) {
        if !self.is_full[row] {
            let bytes: Vec<_> = values
                .iter()
                .map(|value| (scale * value).to_le_bytes())
                .collect();
            self.mark(row, &bytes);
        }
    }

    /// Adds the marks of the same rows in other tables.
    pub(crate) fn merge(&mut self, other: &Self) {
        for row in 0..self.is_full.len() {
            if other.is_full[row] {
                self.mark_all(row);
            } else if !other.marks.is_empty() {
                let marks = &other.marks[row * self.dimension..(row + 1) * self.dimension];
                let bytes: Vec<_> = marks
                    .iter()
                    .map(|mark| u32::from(*mark).to_le_bytes())
                    .collect();
                self.mark(row, &bytes);
            }
        }
    }

    /// Counts the marks.
    pub(crate) fn count(&self) -> SupportCount {
        let of_row = |(row, is_full): (usize, &bool)| match is_full {
            true => self.dimension as u64,
            false if self.marks.is_empty() => 0,
            false => self.marks[row * self.dimension..(row + 1) * self.dimension]
                .iter()
                .map(|mark| u64::from(*mark))
                .sum(),
        };
        SupportCount {
            values: (self.is_full.len() * self.dimension) as u64,
            nonzero: self.is_full.iter().enumerate().map(of_row).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[f32]) -> Vec<[u8; VALUE_BYTES]> {
        values.iter().map(|value| value.to_le_bytes()).collect()
    }

    /// If this fails, a report says that averaging keeps or loses other zeros than it does.
    #[test]
    fn a_value_is_in_the_support_if_one_table_has_it() {
        let mut support = Support::new(3, 2);
        assert_eq!(
            support.count(),
            SupportCount {
                values: 6,
                nonzero: 0
            }
        );
        support.mark(0, &bytes(&[0.0, -0.0]));
        support.mark(1, &bytes(&[1e-30, 0.0]));
        assert_eq!(support.count().nonzero, 1);
        support.mark(1, &bytes(&[0.0, f32::NAN]));
        support.mark_all(2);
        assert_eq!(
            support.count(),
            SupportCount {
                values: 6,
                nonzero: 4
            }
        );
        support.mark_scaled(0, &[3.0, 4.0], 0.0);
        assert_eq!(
            support.count().nonzero,
            4,
            "rows that are scaled by 0 are 0"
        );
        let mut other = Support::new(3, 2);
        other.mark(0, &bytes(&[0.0, 5.0]));
        other.merge(&support);
        assert_eq!(other.count().nonzero, 5);
        assert_eq!(
            SupportCount {
                values: 8,
                nonzero: 2
            }
            .share(),
            Some(0.25)
        );
        assert_eq!(SupportCount::default().share(), None);
    }
}
