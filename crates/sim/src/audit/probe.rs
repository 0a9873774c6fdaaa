//! Guesses from a decoded upload which items its sender has rated.
//!
//! The probe knows what a server knows: the update and the model that its sender had received.

use fedrecsim_model::table::floats;
use fedrecsim_model::{RowSet, Table, TableUpdate};

/// The rows of an item table that an upload has changed, ascending, each with its scores: 1 for
/// being there, the length of its change, and how much the change points against the sender's mean
/// change, from -1 to 1. The few rated items are moved the other way than the many that are not, so
/// that they stand out.
pub(super) type ChangedRows = Vec<(u32, [f32; SCORES])>;

/// The number of scores that the probe guesses by.
pub(super) const SCORES: usize = 3;

/// The changes of rows smaller than this share of the row are taken for the rounding of a factor.
const ROUNDING: f32 = 1e-5;

/// Returns the rows that `update` changes of `base`.
pub(super) fn changed_rows(update: &TableUpdate, base: Option<&Table>) -> ChangedRows {
    let columns = update.shape.dimension;
    let factor = match &update.rows {
        RowSet::Listed(_) => update.others_scale,
        RowSet::All => common_factor(update, base),
    };
    let (mut rows, mut changes) = (Vec::new(), Vec::new());
    let (mut mean, mut change) = (vec![0.0f32; columns], Vec::new());
    for (row, bytes) in update.iter() {
        change.clear();
        change.extend(floats(bytes));
        let mut is_changed = base.is_none() && change.iter().any(|change| *change != 0.0);
        if let Some(table) = base {
            for (change, base) in change.iter_mut().zip(table.row(row)) {
                let others = base * factor;
                *change -= others;
                is_changed |= change.abs() > ROUNDING * others.abs();
            }
        }
        if is_changed {
            rows.push(row as u32);
            let sums = mean.iter_mut().zip(&change);
            sums.for_each(|(mean, change)| *mean += change);
            changes.extend_from_slice(&change);
        }
    }
    let of_mean = norm(&mean);
    let scores = changes.chunks_exact(columns.max(1)).map(|change| {
        let length = norm(change);
        let along: f32 = change
            .iter()
            .zip(&mean)
            .map(|(change, mean)| change * mean)
            .sum();
        let against = -along / (length * of_mean);
        let against = if against.is_finite() { against } else { 0.0 };
        [1.0, length, against.clamp(-1.0, 1.0)]
    });
    rows.into_iter().zip(scores).collect()
}

/// Adds the rows that the server has seen the sender name, in a request or in a list. They count as
/// present even if they are unchanged.
pub(super) fn add_present(rows: &mut ChangedRows, seen: &[u32]) {
    let is_new = |row: &&u32| rows.binary_search_by_key(*row, |(row, _)| *row).is_err();
    let unchanged: Vec<u32> = seen.iter().filter(is_new).copied().collect();
    rows.extend(unchanged.into_iter().map(|row| (row, [1.0, 0.0, 0.0])));
    rows.sort_unstable_by_key(|(row, _)| *row);
}

/// Returns the decay that an upload of a whole table has on rows that training did not touch: the
/// median over the rows of their first value divided by the base's.
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
        for update in [&listed, &whole] {
            let found = changed_rows(update, Some(&base));
            assert_eq!(
                found.iter().map(|(row, _)| *row).collect::<Vec<_>>(),
                [2, 5]
            );
        }
        let nothing = TableUpdate::listed(SHAPE, vec![3], base.row(3), 1.0).unwrap();
        assert_eq!(changed_rows(&nothing, Some(&base)), []);
    }

    /// If this fails, the audit overlooks an item that a client asks for by name.
    #[test]
    fn rows_that_were_asked_for_are_present() {
        let mut rows = vec![(2, [1.0, 0.5, -1.0]), (7, [1.0, 1.0, 1.0])];
        add_present(&mut rows, &[0, 2, 8]);
        assert_eq!(
            rows,
            [
                (0, [1.0, 0.0, 0.0]),
                (2, [1.0, 0.5, -1.0]),
                (7, [1.0, 1.0, 1.0]),
                (8, [1.0, 0.0, 0.0])
            ]
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
        let found = changed_rows(&update, Some(&base));
        let is_half = |norm: f32| (norm - 0.5).abs() < 1e-6;
        assert!(found.iter().all(|(_, [_, norm, _])| is_half(*norm)));
        assert_eq!(
            found
                .iter()
                .map(|(_, [.., against])| against.round())
                .collect::<Vec<_>>(),
            [-1.0, -1.0, 1.0, -1.0, -1.0]
        );
    }
}
