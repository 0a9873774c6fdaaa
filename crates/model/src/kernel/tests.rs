//! Packed rows against plain vectors.

use super::*;
use crate::kernel::lane_math::LANES;

/// A value that belongs to (row, table, column).
fn value(row: usize, table: usize, column: usize) -> f32 {
    (1000 * row + 500 * table + column) as f32 + 0.5
}

fn values(row: usize, table: usize, dimension: usize) -> Vec<f32> {
    (0..dimension)
        .map(|column| value(row, table, column))
        .collect()
}

/// Rows of a former, larger problem: every block of the allocation holds sevens.
fn used() -> PackedRows {
    let mut packed = PackedRows::default();
    packed.reset(64, MAX_DIMENSION, 2);
    packed.blocks_mut().fill(Block([7.0; LANES]));
    packed
}

fn filled(mut packed: PackedRows, rows: usize, dimension: usize, tables: usize) -> PackedRows {
    for row in 0..rows {
        for table in 0..tables {
            packed.set_row(row, table, &values(row, table, dimension), 1.0);
        }
    }
    packed
}

fn packed(rows: usize, dimension: usize, tables: usize) -> PackedRows {
    let mut packed = used();
    packed.reset(rows, dimension, tables);
    filled(packed, rows, dimension, tables)
}

const SHAPES: [(usize, usize, usize); 8] = [
    (1, 16, 1),
    (17, 16, 1),
    (17, 32, 2),
    (16, 32, 1),
    (5, 8, 2),
    (6, 80, 2),
    (3, 45, 1),
    (20, 48, 2),
];

/// If this fails, numbers of a former client are in the gradient of the next one.
#[test]
fn nothing_is_left_of_former_rows() {
    for (rows, dimension, tables) in SHAPES {
        let mut overwritten = used();
        overwritten.reset_for_overwriting(rows, dimension, tables);
        let mut overwritten = filled(overwritten, rows, dimension, tables);
        let mut packed = packed(rows, dimension, tables);
        assert!(
            overwritten.blocks_mut() == packed.blocks_mut(),
            "{rows} x {dimension}, {tables} tables"
        );
        let padded =
            rows.next_multiple_of(LANES) * super::lanes::padded_vectors(dimension) * tables;
        assert_eq!(packed.blocks_mut().len(), padded);
        let sum = |blocks: &[Block]| {
            blocks
                .iter()
                .flat_map(|block| block.0)
                .map(f64::from)
                .sum::<f64>()
        };
        let expected = (0..rows).flat_map(|row| (0..tables).map(move |table| (row, table)));
        let expected: f64 = expected
            .flat_map(|(row, table)| values(row, table, dimension))
            .map(f64::from)
            .sum();
        assert_eq!(
            sum(packed.blocks_mut()),
            expected,
            "padding is zero, {rows} x {dimension}, {tables} tables"
        );
    }
}

#[test]
fn what_will_be_overwritten_is_not_cleared_first() {
    // A whole pass over memory for each client; without it there would be no need for the method.
    for (rows, dimension, tables) in [(17, 32, 2), (17, 16, 1)] {
        let mut packed = used();
        packed.reset_for_overwriting(rows, dimension, tables);
        let own = rows * dimension / LANES * tables;
        assert!(
            packed.blocks_mut()[..own]
                .iter()
                .all(|block| *block == Block([7.0; LANES]))
        );
    }
}

#[test]
fn rows_come_back_as_vectors_and_as_bytes() {
    let mut bytes = Vec::new();
    for (rows, dimension, tables) in SHAPES {
        let packed = packed(rows, dimension, tables);
        for table in 0..tables {
            let largest = packed.copy_bytes(rows, dimension, table, &mut bytes);
            assert_eq!(largest, value(rows - 1, table, dimension - 1));
            let expected: Vec<u8> = (0..rows)
                .flat_map(|row| values(row, table, dimension))
                .flat_map(f32::to_le_bytes)
                .collect();
            assert_eq!(
                bytes, expected,
                "{rows} x {dimension}, table {table} of {tables}"
            );
            for row in 0..rows {
                let mut unpacked = vec![0.0; dimension];
                unpack_into(packed.row(row, table), &mut unpacked);
                assert_eq!(unpacked, values(row, table, dimension));
            }
        }
    }
}

#[test]
fn a_row_is_cleared_and_no_other() {
    let mut cleared = packed(4, 45, 2);
    cleared.clear_row(2, 1);
    for (row, table) in (0..4).flat_map(|row| [(row, 0), (row, 1)]) {
        let expected = if (row, table) == (2, 1) {
            vec![0.0; 45]
        } else {
            values(row, table, 45)
        };
        let mut found = vec![7.0; 45];
        unpack_into(cleared.row(row, table), &mut found);
        assert_eq!(found, expected, "row {row} of table {table}");
    }
}

#[test]
fn a_table_is_cleared_and_the_other_kept() {
    for cleared in 0..2 {
        let mut packed = packed(19, 45, 2);
        packed.clear_table(cleared);
        for row in 0..19 {
            assert!(
                packed
                    .row(row, cleared)
                    .iter()
                    .all(|block| *block == Block::ZERO)
            );
            let mut kept = vec![0.0; 45];
            unpack_into(packed.row(row, 1 - cleared), &mut kept);
            assert_eq!(kept, values(row, 1 - cleared, 45));
        }
    }
}

#[test]
fn rows_outside_the_batch_are_scaled_and_no_others() {
    let mut scaled = packed(6, 20, 2);
    scaled.scale_rows_except(1, &[0, 3, 5], 0.5);
    for row in 0..6 {
        let factor = if [0, 3, 5].contains(&row) { 1.0 } else { 0.5 };
        let mut found = vec![0.0; 20];
        unpack_into(scaled.row(row, 1), &mut found);
        assert_eq!(
            found,
            values(row, 1, 20)
                .iter()
                .map(|value| value * factor)
                .collect::<Vec<f32>>()
        );
        assert_eq!(
            scaled.row(row, 0),
            packed(6, 20, 2).row(row, 0),
            "the other table"
        );
    }
}

/// If this fails, a parameter that explodes is found late, or one that does not is accused.
#[test]
fn the_largest_magnitude_is_found_wherever_it_stands_and_in_its_own_table() {
    let mut bytes = Vec::new();
    for (rows, dimension, tables) in SHAPES {
        for table in 0..tables {
            let mut packed = PackedRows::default();
            packed.reset(rows, dimension, tables);
            for other in (0..tables).filter(|other| *other != table) {
                (0..rows).for_each(|row| packed.set_row(row, other, &vec![9e9; dimension], 1.0));
            }
            for row in 0..rows {
                for column in 0..dimension {
                    let mut own = vec![0.25; dimension];
                    own[column] = -2.0;
                    packed.set_row(row, table, &own, 1.0);
                    let largest = packed.copy_bytes(rows, dimension, table, &mut bytes);
                    assert_eq!(largest, 2.0, "row {row}, column {column}, table {table}");
                }
                packed.set_row(row, table, &vec![0.25; dimension], 1.0);
            }
            packed.set_row(rows - 1, table, &vec![f32::NAN; dimension], 1.0);
            assert!(
                packed
                    .copy_bytes(rows, dimension, table, &mut bytes)
                    .is_nan()
            );
        }
    }
}
