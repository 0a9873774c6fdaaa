//! Tests tables and their averages.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::aggregate::{Aggregate, Averaging, BlockContribution};
use super::magnitude::MagnitudeCounts;
use super::row_table::RowTable;
use super::table::{SharedTable, Table, TableShape, TableUpdate};

const DIMENSION: usize = 3;

/// Returns a table whose values are 1, 2, 3 and so on times `step`, row after row.
pub(crate) fn counting_table(shape: TableShape, step: f32) -> Table {
    Table::new(
        shape,
        (1..=shape.values())
            .map(|number| number as f32 * step)
            .collect(),
    )
}

/// Returns the plain mean of `updates`, all based on `base`.
pub(crate) fn mean(base: &SharedTable, updates: &[TableUpdate]) -> Aggregate {
    let mut averaging = Averaging::new(base.shape());
    let plain = |update| BlockContribution {
        update,
        base: Some(base),
        intended: None,
        base_number: 0,
        weight: 1.0,
        base_weight: 0.0,
    };
    averaging.add(&updates.iter().map(plain).collect::<Vec<_>>());
    averaging.finish(base, 0.0, updates.len() as f64)
}

/// If this fails, the digest of a run does not cover private tables.
#[test]
fn a_row_table_shows_its_rows_as_they_read_now() {
    let mut table = RowTable::new(DIMENSION);
    table.write_rows(&[2, 70], 0.5, &mut Vec::new(), |position, values| {
        values.fill(position as f32 + 1.0)
    });
    table.write_rows(&[5], 0.25, &mut Vec::new(), |_, values| values.fill(8.0));
    let mut shown = Vec::new();
    table.visit_bytes(&mut |bytes| shown.push(bytes.to_vec()));
    let row = |item: u32, value: f32| {
        [
            &item.to_le_bytes()[..],
            &value.to_le_bytes().repeat(DIMENSION),
        ]
        .concat()
    };
    assert_eq!(
        shown,
        [
            row(2, 0.25),
            row(5, 8.0),
            row(70, 0.5),
            0.125_f32.to_le_bytes().to_vec()
        ]
    );
}

#[test]
fn magnitudes_are_shares_of_all_values_of_all_uploads() {
    // Two users list different rows of a base of ones. User 0 halves its other row, and user 1
    // makes it tiny.
    let shape = TableShape {
        rows: 2,
        dimension: 2,
    };
    let base = Arc::new(Table::new(shape, vec![1.0; 4]));
    let updates = [
        TableUpdate::listed(shape, vec![0], &[0.0, 0.05], 0.5).unwrap(),
        TableUpdate::listed(shape, vec![1], &[2.0, 5e-4], 5e-6).unwrap(),
    ];
    let aggregate = mean(&base, &updates);
    assert_eq!(aggregate.uploads.values, 8);
    // The magnitudes are 0, 0.05, 0.5, 0.5 and 5e-6, 5e-6, 2, 5e-4. The thresholds are 0, 1e-6,
    // 1e-5, 1e-4, 1e-3, 1e-2 and 1e-1.
    assert_eq!(aggregate.uploads.above, [7, 7, 5, 5, 4, 4, 3]);
    assert_eq!(
        aggregate.uploads.shares(),
        [7.0, 7.0, 5.0, 5.0, 4.0, 4.0, 3.0].map(|count| count / 8.0)
    );
    assert_eq!(
        MagnitudeCounts::default().shares(),
        [0.0; 7],
        "nothing was counted"
    );
}

/// If this fails, an old base can still change the average.
#[test]
fn a_row_that_everybody_lists_does_not_depend_on_the_base() {
    let shape = TableShape {
        rows: 2,
        dimension: 1,
    };
    let base = Arc::new(Table::new(shape, vec![f32::INFINITY, 4.0]));
    let update = |value: f32| TableUpdate::listed(shape, vec![0], &[value], 1.0).unwrap();
    assert_eq!(
        mean(&base, &[update(1.0), update(2.0)]).table.as_slice(),
        [1.5, 4.0]
    );
}
