#![allow(clippy::unwrap_used)]
use super::*;
use crate::tests::counting_table;

const SHAPE: TableShape = TableShape {
    rows: 5,
    dimension: 3,
};

fn base() -> Table {
    counting_table(SHAPE, 1.0)
}

fn bits(table: &Table) -> Vec<u32> {
    table
        .as_slice()
        .iter()
        .map(|value| value.to_bits())
        .collect()
}

#[test]
fn listed_rows_are_taken_verbatim_and_the_others_scaled() {
    let update = TableUpdate::listed(SHAPE, vec![1, 2, 4], &[-1.0; 9], 0.5).unwrap();
    let table = update.apply(Some(&base())).unwrap();
    assert_eq!(table.row(0), [0.5, 1.0, 1.5]);
    assert_eq!(table.row(1), [-1.0; 3]);
    assert_eq!(table.row(2), [-1.0; 3]);
    assert_eq!(table.row(3), [5.0, 5.5, 6.0]);
    assert_eq!(table.row(4), [-1.0; 3]);
}

#[test]
fn a_whole_table_comes_back_bit_for_bit_whatever_the_base_and_the_scale() {
    let mut table = base();
    table.as_mut_slice()[3] = f32::from_bits(0x7f80_0001);
    table.as_mut_slice()[4] = -0.0;
    let mut update = TableUpdate::whole(table.clone());
    update.others_scale = 7.0;
    assert_eq!(
        bits(&update.apply(Some(&Table::zeros(SHAPE))).unwrap()),
        bits(&table)
    );
}

#[test]
fn a_scale_of_one_copies_the_base_even_where_multiplying_would_not() {
    let mut base = base();
    base.as_mut_slice()[0] = f32::from_bits(0x7f80_0001); // a signalling NaN
    let update = TableUpdate::listed(SHAPE, vec![], &[], 1.0).unwrap();
    assert_eq!(bits(&update.apply(Some(&base)).unwrap()), bits(&base));
    let mut bytes = Vec::new();
    update.write_whole(Some(&base), &mut bytes).unwrap();
    assert_eq!(bytes[..4], 0x7f80_0001_u32.to_le_bytes());
}

#[test]
fn the_bytes_of_the_whole_table_are_those_of_the_applied_table() {
    for rows in [vec![], vec![0], vec![4], vec![0, 1, 2, 3, 4], vec![1, 3]] {
        let values: Vec<f32> = (0..3 * rows.len())
            .map(|value| value as f32 + 0.25)
            .collect();
        let update = TableUpdate::listed(SHAPE, rows, &values, 0.3).unwrap();
        let mut bytes = Vec::new();
        update.write_whole(Some(&base()), &mut bytes).unwrap();
        let expected = update.apply(Some(&base())).unwrap();
        assert_eq!(
            floats(&bytes).map(f32::to_bits).collect::<Vec<_>>(),
            bits(&expected)
        );
    }
}

#[test]
fn neighbours_make_one_stretch() {
    // Each stretch is copied in one piece.
    let update = TableUpdate::listed(SHAPE, vec![1, 2, 4], &[0.0; 9], 1.0).unwrap();
    let mut stretches = Vec::new();
    update.for_each_stretch(Some(&base()), |end, others, listed| {
        stretches.push((end, others.map(<[f32]>::len), listed.len() / 12));
    });
    assert_eq!(
        stretches,
        [(1, Some(3), 2), (4, Some(3), 1), (5, Some(0), 0)]
    );
}

#[test]
fn long_stretches_are_converted_beyond_the_first_block() {
    let shape = TableShape {
        rows: 100,
        dimension: 7,
    };
    let base = counting_table(shape, 1.0);
    let update = TableUpdate::whole(base.clone());
    assert_eq!(
        bits(&update.apply(Some(&Table::zeros(shape))).unwrap()),
        bits(&base)
    );
}

#[test]
fn rows_are_found_where_the_list_has_them() {
    let update = TableUpdate::listed(SHAPE, vec![1, 2, 4], &[0.0; 9], 1.0).unwrap();
    let found = |update: &TableUpdate, rows: &[u32]| update.positions_of(rows).collect::<Vec<_>>();
    assert_eq!(
        found(&update, &[0, 1, 3, 4]),
        [None, Some(0), None, Some(2)]
    );
    assert_eq!(
        found(&update, &[2, 7]),
        [Some(1), None],
        "rows behind the last one listed are not"
    );
    assert_eq!(
        found(&TableUpdate::whole(base()), &[0, 3]),
        [Some(0), Some(3)]
    );
}

#[test]
fn iteration_gives_each_listed_row_with_its_own_values() {
    let update =
        TableUpdate::listed(SHAPE, vec![1, 4], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 1.0).unwrap();
    let rows: Vec<(usize, Vec<f32>)> = update
        .iter()
        .map(|(row, bytes)| (row, floats(bytes).collect()))
        .collect();
    assert_eq!(rows, [(1, vec![1.0, 2.0, 3.0]), (4, vec![4.0, 5.0, 6.0])]);
    let whole = TableUpdate::whole(base());
    assert_eq!(
        whole.iter().map(|(row, _)| row).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4]
    );
}

#[test]
fn malformed_updates_are_refused_each_with_its_reason() {
    let reason = |rows: Vec<u32>, values: usize| {
        TableUpdate::listed(SHAPE, rows, &vec![0.0; values], 1.0)
            .unwrap_err()
            .to_string()
    };
    assert!(reason(vec![2, 1], 6).contains("ascending"));
    assert!(reason(vec![1, 1], 6).contains("ascending"));
    assert!(reason(vec![5], 3).contains("row 5 of a table of 5 rows"));
    assert!(reason(vec![1], 4).contains("16 bytes"));
    let other = Table::zeros(TableShape {
        rows: 3,
        dimension: 5,
    });
    assert!(
        TableUpdate::whole(base())
            .apply(Some(&other))
            .unwrap_err()
            .to_string()
            .contains("5 x 3")
    );
}
