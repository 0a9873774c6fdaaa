//! Draws the divisions of k-fold: which part of a random division into equal parts each row belongs
//! to.
//!
//! FedRec shuffles all ratings and cuts the list into five parts. The part of every row is drawn in
//! turn, each part with a probability in proportion to the places that it has left. This gives the
//! same distribution (every division into parts of these sizes is equally likely) and needs no
//! list. The division depends on the seed and the number of folds, not on the fold: together, the
//! runs of all folds with one seed test on every row once. A scenario can name a division, which
//! then stands in the place of the seed.

use fedrecsim_core::{Error, PortableDraws, Purpose, Result, Stream, Streams};

/// Draws the part of one row after another.
pub(super) struct FoldDraw {
    fold: u32,
    /// Numbers of places left in every part.
    places: Vec<u32>,
    /// Number of rows left.
    rows: u32,
    stream: Stream,
}

impl FoldDraw {
    /// Prepares the draws for `rows` rows in `folds` parts. Number `fold` (from 0) is the test part. If the rows cannot be divided evenly, the first parts have one more.
    ///
    /// # Errors
    /// [`Error::Dataset`] for more folds than rows, and for more rows than can be drawn for.
    pub(crate) fn new(folds: u32, fold: u32, rows: u64, streams: Streams) -> Result<Self> {
        let Ok(rows) = u32::try_from(rows) else {
            return Err(Error::Dataset(format!(
                "k-fold divides at most {} ratings, found {rows}",
                u32::MAX
            )));
        };
        if folds > rows {
            return Err(Error::Dataset(format!(
                "{rows} ratings cannot be divided into {folds} parts (dataset.split.k-fold.folds): a part would be empty"
            )));
        }
        let places = (0..folds)
            .map(|part| rows / folds + u32::from(part < rows % folds))
            .collect();
        Ok(Self {
            fold,
            places,
            rows,
            stream: streams.stream(Purpose::Folds, 0, 0),
        })
    }

    /// Draws the part of the next row, and returns whether it is the test part. There must be a row
    /// left.
    pub(crate) fn next_is_test(&mut self) -> bool {
        let mut place = self.stream.below(self.rows);
        self.rows -= 1;
        for (part, places) in self.places.iter_mut().enumerate() {
            if place < *places {
                *places -= 1;
                return part as u32 == self.fold;
            }
            place -= *places;
        }
        false
    }

    /// Returns the part in words: `fold 0 of 5`.
    pub(crate) fn part_in_words(&self) -> String {
        format!("fold {} of {}", self.fold, self.places.len())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn test_part(folds: u32, fold: u32, rows: u64, seed: u64) -> Vec<bool> {
        let mut draw = FoldDraw::new(folds, fold, rows, Streams::new(seed)).unwrap();
        (0..rows).map(|_| draw.next_is_test()).collect()
    }

    /// If this fails, the runs of all folds together test a rating twice or never, and their mean
    /// is no cross-validation.
    #[test]
    fn the_folds_of_a_seed_are_equal_parts_that_cover_every_row_once() {
        for (folds, rows) in [(5, 100), (3, 17), (4, 4), (1, 3)] {
            let parts: Vec<Vec<bool>> = (0..folds)
                .map(|fold| test_part(folds, fold, rows, 3))
                .collect();
            for row in 0..rows as usize {
                assert_eq!(
                    parts.iter().filter(|part| part[row]).count(),
                    1,
                    "row {row} of {rows}"
                );
            }
            let sizes: Vec<usize> = parts
                .iter()
                .map(|part| part.iter().filter(|is_test| **is_test).count())
                .collect();
            assert!(
                sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1,
                "{sizes:?}"
            );
        }
    }

    /// If this fails, some divisions are likelier than others. There are six of four rows in two
    /// parts.
    #[test]
    fn every_division_is_equally_likely() {
        let mut counts = std::collections::BTreeMap::new();
        for seed in 0..6_000 {
            *counts.entry(test_part(2, 0, 4, seed)).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 6);
        // The tolerance is five standard deviations of a binomial with mean 1,000.
        assert!(
            counts.values().all(|count| count.abs_diff(1_000) < 145),
            "{counts:?}"
        );
    }

    #[test]
    fn more_folds_than_ratings_are_refused_with_both_numbers() {
        let message = FoldDraw::new(5, 0, 4, Streams::new(1))
            .err()
            .unwrap()
            .to_string();
        assert!(
            message.starts_with(
                "4 ratings cannot be divided into 5 parts (dataset.split.k-fold.folds)"
            ),
            "{message}"
        );
    }
}
