//! Guesses from a decoded upload which items its sender has rated.
//!
//! The probe knows what a server knows: the update and the model that its sender had received.

use fedrecsim_model::table::{RowSet, Table, TableUpdate, floats};

/// The rows of an item table that an upload has changed, with what can be told from the changes.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ChangedRows {
    /// The rows, ascending.
    pub rows: Vec<u32>,
    /// The length of each row's change.
    pub norms: Vec<f32>,
    /// How much each row's change points against the sender's mean change, from -1 to 1. The few
    /// rated items are moved the other way than the many that are not, so that they stand out.
    pub against_mean: Vec<f32>,
}

/// The changes of rows smaller than this share of the row are taken for the rounding of a factor.
const ROUNDING: f32 = 1e-5;

impl ChangedRows {
    /// Returns the rows that `update` changes of `base`.
    pub(crate) fn of(update: &TableUpdate, base: Option<&Table>) -> Self {
        let columns = update.shape.dimension;
        let factor = match &update.rows {
            RowSet::Listed(_) => update.others_scale,
            RowSet::All => common_factor(update, base),
        };
        let (mut found, mut changes) = (Self::default(), Vec::new());
        let mut mean = vec![0.0f32; columns];
        let mut change = vec![0.0f32; columns];
        for (row, bytes) in update.iter() {
            let mut is_changed = false;
            match base {
                Some(table) => {
                    for ((change, value), base) in
                        change.iter_mut().zip(floats(bytes)).zip(table.row(row))
                    {
                        let others = base * factor;
                        *change = value - others;
                        is_changed |= change.abs() > ROUNDING * others.abs();
                    }
                }
                None => {
                    change
                        .iter_mut()
                        .zip(floats(bytes))
                        .for_each(|(change, value)| *change = value);
                    is_changed = change.iter().any(|change| *change != 0.0);
                }
            }
            if is_changed {
                found.rows.push(row as u32);
                mean.iter_mut()
                    .zip(&change)
                    .for_each(|(mean, change)| *mean += change);
                changes.extend_from_slice(&change);
            }
        }
        let of_mean = norm(&mean);
        for change in changes.chunks_exact(columns.max(1)) {
            let length = norm(change);
            let along: f32 = change
                .iter()
                .zip(&mean)
                .map(|(change, mean)| change * mean)
                .sum();
            let against = -along / (length * of_mean);
            found.norms.push(length);
            found.against_mean.push(if against.is_finite() {
                against.clamp(-1.0, 1.0)
            } else {
                0.0
            });
        }
        found
    }
}

impl ChangedRows {
    /// Adds rows (ascending) that the server has seen the sender name, in a request or in a list,
    /// which count as present even if they are unchanged.
    pub(crate) fn with_present(self, seen: &[u32]) -> Self {
        let unchanged = seen
            .iter()
            .filter(|row| self.rows.binary_search(row).is_err())
            .map(|row| (*row, 0.0, 0.0));
        let moved = self.rows.iter().zip(&self.norms).zip(&self.against_mean);
        let mut all: Vec<(u32, f32, f32)> = moved
            .map(|((row, norm), against)| (*row, *norm, *against))
            .collect();
        all.extend(unchanged);
        all.sort_unstable_by_key(|(row, ..)| *row);
        let mut with = Self::default();
        for (row, norm, against) in all {
            with.rows.push(row);
            with.norms.push(norm);
            with.against_mean.push(against);
        }
        with
    }
}

/// Returns the factor by which an upload of a whole table has multiplied the rows that training did
/// not touch: the median over the rows of what their first value became of the base's.
fn common_factor(update: &TableUpdate, base: Option<&Table>) -> f32 {
    let Some(table) = base else { return 1.0 };
    let first = |(row, bytes): (usize, &[u8])| {
        let (value, base) = (floats(bytes).next()?, *table.row(row).first()?);
        (base != 0.0).then(|| value / base)
    };
    let mut ratios: Vec<f32> = update.iter().filter_map(first).collect();
    if ratios.is_empty() {
        return 1.0;
    }
    let middle = ratios.len() / 2;
    *ratios.select_nth_unstable_by(middle, f32::total_cmp).1
}

fn norm(values: &[f32]) -> f32 {
    values.iter().map(|value| value * value).sum::<f32>().sqrt()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fedrecsim_model::{Table, TableShape};

    const SHAPE: TableShape = TableShape {
        rows: 9,
        dimension: 2,
    };

    fn base() -> Table {
        let mut next = 0.0;
        Table::from_fn(SHAPE, || {
            next += 1.0;
            next
        })
    }

    /// If this fails, the audit looks at rows that training has not touched, or at others than it
    /// has.
    #[test]
    fn rows_are_found_whether_they_are_listed_or_the_whole_table_is_sent() {
        let base = base();
        let rows: Vec<f32> = [2, 5]
            .iter()
            .flat_map(|row| base.row(*row).to_vec())
            .map(|value| value + 0.5)
            .collect();
        let listed = TableUpdate::listed(SHAPE, vec![2, 5], &rows, 0.9).unwrap();
        let whole = TableUpdate::whole(listed.apply(Some(&base)).unwrap());
        let found = ChangedRows::of(&listed, Some(&base));
        assert_eq!(found.rows, [2, 5]);
        assert_eq!(ChangedRows::of(&whole, Some(&base)).rows, [2, 5]);
        let nothing = TableUpdate::listed(SHAPE, vec![3], base.row(3), 1.0).unwrap();
        assert_eq!(
            ChangedRows::of(&nothing, Some(&base)),
            ChangedRows::default()
        );
    }

    /// If this fails, the audit overlooks an item that a client asks for by name.
    #[test]
    fn rows_that_were_asked_for_are_present() {
        let changed = ChangedRows {
            rows: vec![2, 7],
            norms: vec![0.5, 1.0],
            against_mean: vec![-1.0, 1.0],
        };
        let with = changed.with_present(&[0, 2, 8]);
        assert_eq!(with.rows, [0, 2, 7, 8]);
        assert_eq!(
            (with.norms, with.against_mean),
            (vec![0.0, 0.5, 1.0, 0.0], vec![0.0, -1.0, 1.0, 0.0])
        );
    }

    /// If this fails, an item that was liked does not stand out among others that were drawn.
    #[test]
    fn a_row_that_moves_the_other_way_stands_out() {
        let base = Table::zeros(SHAPE);
        let values: Vec<f32> = [1.0, 1.0, -1.0, 1.0, 1.0]
            .iter()
            .flat_map(|sign| [0.3 * sign, 0.4 * sign])
            .collect();
        let update = TableUpdate::listed(SHAPE, vec![0, 2, 3, 5, 8], &values, 1.0).unwrap();
        let found = ChangedRows::of(&update, Some(&base));
        assert!(found.norms.iter().all(|norm| (norm - 0.5).abs() < 1e-6));
        assert_eq!(
            found
                .against_mean
                .iter()
                .map(|value| value.round())
                .collect::<Vec<_>>(),
            [-1.0, -1.0, 1.0, -1.0, -1.0]
        );
    }
}
