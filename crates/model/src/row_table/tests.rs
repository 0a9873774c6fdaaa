use proptest::prelude::*;

use super::*;
use crate::kernel::{LargestMagnitude, PackedRows};
use crate::table::TableShape;
use crate::tests::counting_table;

const ITEMS: usize = 40;
const DIMENSION: usize = 3;

fn initial() -> Table {
    counting_table(
        TableShape {
            rows: ITEMS,
            dimension: DIMENSION,
        },
        1.0,
    )
}

fn read(table: &RowTable, rows: &[u32], initial: &Table) -> Vec<Vec<f32>> {
    let mut read = Vec::new();
    table.read_rows(rows, initial, &mut Vec::new(), |position, values, scale| {
        assert_eq!(position, read.len());
        read.push(values.iter().map(|value| value * scale).collect());
    });
    read
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// If this fails, a client trains or scores with rows that a dense table would not have.
    #[test]
    fn behaves_like_a_dense_table(
        participations in prop::collection::vec(
            (prop::collection::btree_set(0u32..ITEMS as u32, 0..ITEMS), 0.0f32..1.0), 0..12)
    ) {
        let initial = initial();
        let mut dense: Vec<Vec<f32>> = (0..ITEMS).map(|row| initial.row(row).to_vec()).collect();
        let mut table = RowTable::new(DIMENSION);
        let mut touched = std::collections::BTreeSet::new();
        for (number, (rows, scale)) in participations.iter().enumerate() {
            let rows: Vec<u32> = rows.iter().copied().collect();
            dense.iter_mut().flatten().for_each(|value| *value *= scale);
            let mut slots = Vec::new();
            let fill = |position: usize, values: &mut [f32]| {
                values.fill((number * 1000) as f32 + rows[position] as f32);
            };
            if number % 2 == 0 {
                table.write_rows(&rows, *scale, &mut slots, fill);
            } else {
                let mut packed = PackedRows::default();
                packed.reset(rows.len(), DIMENSION, 2);
                let expected = read(&table, &rows, &initial);
                let mut found = table.found(&rows, &initial, &mut slots);
                packed.gather(1, &found);
                for (position, expected) in expected.iter().enumerate() {
                    prop_assert_eq!(&packed.row(position, 1)[0].0[..DIMENSION], &expected[..]);
                    let mut values = [0.0; DIMENSION];
                    fill(position, &mut values);
                    packed.set_row(position, 1, &values, 1.0);
                }
                found.make_writable(*scale);
                let mut largest = LargestMagnitude::default();
                packed.column(1).scatter(packed.blocks(), 0..rows.len(), &mut found, &mut largest);
                let expected = rows.last().map_or(0.0, |row| (number * 1000) as f32 + *row as f32);
                prop_assert_eq!(largest.value(), expected, "the largest magnitude");
            }
            for &row in &rows {
                dense[row as usize].fill((number * 1000) as f32 + row as f32);
            }
            touched.extend(rows);
        }
        prop_assert_eq!(table.index.len(), touched.len(), "rows are held that nobody touched");
        let read = read(&table, &Vec::from_iter(0..ITEMS as u32), &initial);
        prop_assert_eq!(read.len(), ITEMS);
        for (row, (read, expected)) in read.iter().zip(&dense).enumerate() {
            prop_assert_eq!(read.len(), DIMENSION);
            for (value, expected) in read.iter().zip(expected) {
                prop_assert!((value - expected).abs() <= 1e-5 * expected.abs(), "row {}", row);
            }
        }
    }
}

/// If this fails, a population takes too much memory, or copies its rows too often as it grows.
#[test]
fn values_grow_by_chunks_and_scales_by_an_eighth() {
    let mut table = RowTable::new(DIMENSION);
    let mut grow = |rows: std::ops::Range<u32>| {
        table.write_rows(&Vec::from_iter(rows), 1.0, &mut Vec::new(), |_, values| {
            values.fill(1.0)
        });
        (table.chunks.len(), table.scales.capacity())
    };
    assert_eq!(grow(0..32), (1, 32), "one full chunk");
    assert_eq!(grow(32..33), (2, 36), "an eighth of 33 rows is four");
    assert_eq!(grow(33..36), (2, 36), "the reserve is used up and no more");
    assert_eq!(
        grow(36..64),
        (2, 64),
        "as many as there are new rows, where that is more than an eighth"
    );
}

#[test]
fn a_decay_to_zero_leaves_zeros_and_no_division() {
    // A learning rate times weight decay of 1 scales other rows by exactly 0.
    let initial = initial();
    let mut table = RowTable::new(DIMENSION);
    table.write_rows(&[1], 0.0, &mut Vec::new(), |_, values| values.fill(5.0));
    table.write_rows(&[2], 0.5, &mut Vec::new(), |_, values| values.fill(6.0));
    let firsts: Vec<f32> = read(&table, &[0, 1, 2], &initial)
        .iter()
        .map(|row| row[0])
        .collect();
    assert_eq!(firsts, [0.0, 2.5, 6.0]);
}
