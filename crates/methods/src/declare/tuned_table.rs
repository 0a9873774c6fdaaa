//! Keeps the item table that a client has fine-tuned for its own scores, which is the second half
//! of dual personalisation (Zhang et al., IJCAI 2023).
//!
//! A method with dual personalisation starts every participation from the shared table, steps its
//! score function first and the item rows after it, and scores with the rows that come of it. The
//! server averages these rows as in any other method. PFedRec is that, and FedMF, FedNCF and
//! FedRecon can do it as well.

use std::sync::Arc;

use fedrecsim_core::Result;
use fedrecsim_model::kernel::prefetch;
use fedrecsim_model::kernel::score::{ScaledSum, score_sums};
use fedrecsim_model::{SharedTable, StateVisitor, Table, TableUpdate, ValueType};

/// Holds the item table of one user, which is private, as what was downloaded and what fine-tuning
/// made of it.
#[derive(Clone, Debug)]
pub(crate) struct TunedTable {
    /// The table that the last participation started from, which the participants of a round share.
    downloaded: SharedTable,
    /// The update that fine-tuning made of it, as it was before the uplink's codec or a privacy
    /// mechanism changed it.
    tuned: TableUpdate,
}

impl TunedTable {
    /// Makes the table of a user who has not taken part yet: `initial` as it is.
    pub(crate) fn new(initial: &SharedTable) -> Self {
        let tuned = TableUpdate::nothing(initial.shape(), ValueType::F32);
        Self {
            downloaded: Arc::clone(initial),
            tuned,
        }
    }

    /// Keeps the table that `update` makes of `downloaded`.
    pub(crate) fn keep(&mut self, downloaded: &SharedTable, update: &TableUpdate) {
        self.downloaded = Arc::clone(downloaded);
        self.tuned = update.clone();
    }

    /// Keeps the table that `update` lists every row of.
    pub(crate) fn keep_whole(&mut self, update: &TableUpdate) {
        self.tuned = update.clone();
    }

    /// Replaces the values by those of the update that was sent, which are the same and in the
    /// frame's memory.
    pub(crate) fn was_sent(&mut self, update: &TableUpdate) {
        self.tuned.values = update.values.clone();
    }

    /// Returns the whole table.
    ///
    /// # Errors
    /// As [`TableUpdate::apply`].
    pub(crate) fn whole(&self) -> Result<Table> {
        self.tuned.apply(Some(&self.downloaded))
    }

    /// Writes to `scores` the scalar product of `vector` with the row of each of `items`
    /// (ascending), plus `bias`.
    pub(crate) fn score(&self, vector: &[f32], bias: f32, items: &[u32], scores: &mut [f32]) {
        let row = |(&item, position): (&u32, Option<usize>)| match position {
            Some(position) => {
                let plain = self.tuned.row_values(position).as_chunks().0;
                prefetch(plain);
                plain.into()
            }
            None => {
                let scaled = self.downloaded.row(item as usize);
                ScaledSum {
                    scaled,
                    scale: self.tuned.others_scale,
                    plain: &[],
                }
            }
        };
        let rows: Vec<ScaledSum<'_, [u8; 4]>> = items
            .iter()
            .zip(self.tuned.positions_of(items))
            .map(row)
            .collect();
        score_sums(vector, bias, &rows, scores);
    }

    /// Visits the table as state.
    ///
    /// # Errors
    /// As [`StateVisitor::values`].
    pub(crate) fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.shared_table(&mut self.downloaded)?;
        state.update(&mut self.tuned)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fedrecsim_model::TableShape;

    /// Returns a table whose values are 1, 2, 3 and so on times `step`, row after row.
    fn counting_table(shape: TableShape, step: f32) -> Table {
        let mut number = 0.0;
        Table::from_fn(shape, || {
            number += step;
            number
        })
    }

    /// If this fails, a user's scores come from another user's rows, or depend on how they are
    /// read.
    #[test]
    fn tuned_rows_replace_those_that_were_downloaded_and_others_decay() {
        let shape = TableShape::new(4, 2);
        let initial: SharedTable = Arc::new(counting_table(shape, 1.0));
        let mut table = TunedTable::new(&initial);
        assert_eq!(table.whole().unwrap(), *initial, "nobody has tuned it yet");
        let downloaded: SharedTable = Arc::new(counting_table(shape, 10.0));
        let update = TableUpdate::listed(shape, vec![1, 3], &[1.0, 2.0, 3.0, 4.0], 0.5).unwrap();
        table.keep(&downloaded, &update);
        let whole = table.whole().unwrap();
        let half = |row: usize| {
            downloaded
                .row(row)
                .iter()
                .map(|value| 0.5 * value)
                .collect::<Vec<_>>()
        };
        assert_eq!([whole.row(0), whole.row(1)], [&half(0)[..], &[1.0, 2.0]]);
        let mut scores = [0.0; 4];
        table.score(&[2.0, -1.0], 0.25, &[0, 1, 2, 3], &mut scores);
        let expected = [0, 1, 2, 3].map(|row| 2.0 * whole.row(row)[0] - whole.row(row)[1] + 0.25);
        assert_eq!(scores, expected);
    }
}
