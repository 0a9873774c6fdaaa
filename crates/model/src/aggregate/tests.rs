//! The sum against whole tables, spelled out.
#![allow(clippy::unwrap_used)]
use proptest::prelude::*;

use super::*;
use crate::layout::ValueType;
use crate::table::TableShape;
use crate::tests::mean;

fn little_endian(values: &[f32]) -> bytes::Bytes {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect::<Vec<u8>>()
        .into()
}

/// A whole table, spelled out.
fn spelled_out(base: &Table, update: &TableUpdate) -> Vec<f32> {
    let dimension = base.shape().dimension;
    let mut whole: Vec<f32> = base
        .as_slice()
        .iter()
        .map(|value| value * update.others_scale)
        .collect();
    let rows: Vec<u32> = match &update.rows {
        RowSet::All => (0..base.shape().rows as u32).collect(),
        RowSet::Listed(rows) => rows.clone(),
    };
    for (position, row) in rows.iter().enumerate() {
        for column in 0..dimension {
            let at = (position * dimension + column) * 4;
            let bytes = [0, 1, 2, 3].map(|i| update.values[at + i]);
            whole[*row as usize * dimension + column] = f32::from_le_bytes(bytes);
        }
    }
    whole
}

fn any_update(rows: usize, dimension: usize) -> impl Strategy<Value = TableUpdate> {
    let shape = TableShape { rows, dimension };
    let value = prop_oneof![Just(0.0f32), -2.0f32..2.0, -1e-4f32..1e-4];
    let listed = prop::collection::btree_set(0..rows as u32, 0..=rows);
    let scale = prop_oneof![Just(1.0f32), Just(0.5), 0.0f32..1.0];
    (listed, any::<bool>(), scale).prop_flat_map(move |(listed, all, others_scale)| {
        let count = if all { rows } else { listed.len() };
        prop::collection::vec(value.clone(), count * dimension).prop_map(move |values| {
            TableUpdate {
                shape,
                value_type: ValueType::F32,
                rows: if all {
                    RowSet::All
                } else {
                    RowSet::Listed(listed.iter().copied().collect())
                },
                values: little_endian(&values),
                others_scale,
            }
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// If this fails, the server averages something else than the tables that the clients sent.
    #[test]
    fn the_mean_is_that_of_the_whole_tables(
        updates in (1usize..150, 1usize..20).prop_flat_map(|(rows, dimension)|
            prop::collection::vec(any_update(rows, dimension), 1..6))
    ) {
        let shape = updates[0].shape;
        let mut next = 0.0f32;
        let base = Arc::new(Table::from_fn(shape, || { next = (next + 0.37) % 1.5; next - 0.7 }));
        let aggregate = mean(&base, &updates);
        let tables: Vec<Vec<f32>> = updates.iter().map(|update| spelled_out(&base, update)).collect();
        for (at, value) in aggregate.table.as_slice().iter().enumerate() {
            let expected = tables.iter().map(|table| f64::from(table[at])).sum::<f64>() / tables.len() as f64;
            prop_assert!((f64::from(*value) - expected).abs() < 1e-6, "value {} is {} not {}", at, value, expected);
        }
        let mut counts = MagnitudeCounts::default();
        tables.iter().for_each(|table| counts.add_times(&MagnitudeCounts::of(table, 1.0), 1));
        prop_assert_eq!(aggregate.uploads, counts);
    }
}

#[test]
fn the_mean_depends_neither_on_threads_nor_on_how_updates_are_dealt_out() {
    let shape = TableShape {
        rows: 1000,
        dimension: 5,
    };
    let mut next = 0.1f32;
    let mut pseudo = || {
        next = (next * 37.7 + 0.13) % 1.0;
        next - 0.5
    };
    let base = Arc::new(Table::from_fn(shape, &mut pseudo));
    let updates: Vec<TableUpdate> = (0..9)
        .map(|client| {
            let rows: Vec<u32> = (0..1000).filter(|row| (row + client) % 3 == 0).collect();
            let values: Vec<f32> = (0..rows.len() * 5).map(|_| pseudo()).collect();
            TableUpdate {
                others_scale: 0.9,
                ..TableUpdate::of_rows(shape, RowSet::Listed(rows), little_endian(&values))
            }
        })
        .collect();
    let with_threads = |threads| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| mean(&base, &updates))
    };
    assert_eq!(with_threads(1), with_threads(3));
    let mut in_two = Averaging::new(shape);
    let contribution = |update| BlockContribution {
        update,
        base: Some(&base),
        intended: None,
        base_number: 0,
        weight: 1.0,
        base_weight: 0.0,
    };
    let contributions: Vec<BlockContribution<'_>> = updates.iter().map(contribution).collect();
    in_two.add(&contributions[..4]);
    in_two.add(&contributions[4..]);
    assert_eq!(
        in_two.finish(&base, 0.0, 9.0),
        with_threads(1),
        "it depends on how updates are dealt out"
    );
}

#[test]
fn without_updates_the_model_stays() {
    let base = Arc::new(Table::zeros(TableShape {
        rows: 3,
        dimension: 2,
    }));
    assert_eq!(mean(&base, &[]).table, *base);
}

/// If this fails, the order of an average's sum depends on which tables share memory.
#[test]
fn contributions_share_an_origin_by_number_and_not_by_memory() {
    let shape = TableShape {
        rows: 1,
        dimension: 1,
    };
    let (base, copy) = (Arc::new(Table::zeros(shape)), Arc::new(Table::zeros(shape)));
    let update = TableUpdate::nothing(shape, ValueType::F32);
    let of = |base, base_number| BlockContribution {
        update: &update,
        base: Some(base),
        intended: None,
        base_number,
        weight: 1.0,
        base_weight: 0.0,
    };
    let mut averaging = Averaging::new(shape);
    averaging.add(&[of(&base, 0), of(&copy, 0), of(&base, 1), of(&base, 0)]);
    assert_eq!(
        averaging
            .origins
            .iter()
            .map(|origin| origin.clients)
            .collect::<Vec<_>>(),
        [3, 1]
    );
}
