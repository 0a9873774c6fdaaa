//! Tests what must hold for every codec.
#![allow(clippy::unwrap_used)]

mod blocks;

use proptest::prelude::*;

use super::*;
use crate::table::{RowSet, floats};
use fedrecsim_scenario::CodecName;

const NAMES: [CodecName; 3] = [
    CodecName::DenseF32,
    CodecName::RowsF32,
    CodecName::SparseF32,
];

/// Draws values with many of the bit patterns that codecs may get wrong: both zeros, infinities,
/// quiet and signalling NaNs, and subnormals.
fn value_bits() -> impl Strategy<Value = f32> + Clone {
    prop_oneof![
        4 => Just(0),
        1 => Just(0x8000_0000),
        1 => prop::sample::select(vec![0x7f80_0000, 0xff80_0000, 0x7fc0_1234, 0xff80_0001, 1, 0x807f_ffff]),
        2 => any::<u32>(),
    ]
    .prop_map(f32::from_bits)
}

/// Draws a scale. It is never NaN, since the payload of a product of two NaNs may differ even
/// between two runs.
fn scale() -> impl Strategy<Value = f32> {
    prop::sample::select(vec![1.0, 0.97, 0.0, -0.0, -3.5, f32::INFINITY])
}

/// Draws an update with its base, with every kind of row set, also for tables without rows and with
/// a single column.
fn update_and_base() -> impl Strategy<Value = (TableUpdate, Table)> {
    (0_usize..40, 1_usize..10, 0.0..=1.0, any::<bool>()).prop_flat_map(
        |(rows, dimension, share, all)| {
            let shape = TableShape { rows, dimension };
            let values = prop::collection::vec(value_bits(), shape.values());
            let listed = prop_oneof![
                1 => Just(vec![false; rows]),
                1 => Just(vec![true; rows]),
                4 => prop::collection::vec(prop::bool::weighted(share), rows),
            ];
            (values.clone(), values, listed, scale()).prop_map(
                move |(base, own, listed, others_scale)| {
                    let base = Table::new(shape, base);
                    let own = Table::new(shape, own);
                    if all {
                        return (
                            TableUpdate {
                                others_scale,
                                ..TableUpdate::whole(own.clone())
                            },
                            base,
                        );
                    }
                    let rows: Vec<u32> = (0..rows as u32)
                        .filter(|&row| listed[row as usize])
                        .collect();
                    let values: Vec<f32> = rows
                        .iter()
                        .flat_map(|&row| own.row(row as usize).to_vec())
                        .collect();
                    (
                        TableUpdate::listed(shape, rows, &values, others_scale).unwrap(),
                        base,
                    )
                },
            )
        },
    )
}

/// Returns a fixed update whose `rows-f32` frame has a bitmap (`many`) or gaps, and its base.
fn fixed(many: bool) -> (TableUpdate, Table) {
    let shape = TableShape {
        rows: 70,
        dimension: 3,
    };
    let rows: Vec<u32> = if many {
        (0..70).filter(|row| row % 3 > 0).collect()
    } else {
        vec![2, 69]
    };
    let values: Vec<f32> = (0..3 * rows.len())
        .map(|value| (value % 4) as f32)
        .collect();
    let mut base = Table::zeros(shape);
    base.as_mut_slice()[200] = 1.5;
    (
        TableUpdate::listed(shape, rows, &values, 0.5).unwrap(),
        base,
    )
}

fn bits(table: &Table) -> Vec<u32> {
    table
        .as_slice()
        .iter()
        .map(|value| value.to_bits())
        .collect()
}

fn resealed(mut frame: Vec<u8>) -> Bytes {
    let checksum = crc32fast::hash(&[&frame[..24], &frame[28..]].concat());
    frame[24..28].copy_from_slice(&checksum.to_le_bytes());
    frame.into()
}

/// Returns a frame of one table with these fields in its header, this body and a right checksum.
fn handmade(codes: u8, shape: TableShape, count: u64, scale_bits: u32, body: &[u8]) -> Bytes {
    let mut frame = vec![b'F', b'R', 1, codes];
    frame.extend((shape.rows as u32).to_le_bytes());
    frame.extend((shape.dimension as u32).to_le_bytes());
    frame.extend(count.to_le_bytes());
    frame.extend(scale_bits.to_le_bytes());
    frame.extend([0; 4]);
    frame.extend(body);
    resealed(frame)
}

fn refusal(name: CodecName, frame: impl Into<Bytes>, shape: TableShape) -> String {
    let error = name.decode(&frame.into(), shape).unwrap_err();
    assert!(
        matches!(error, fedrecsim_core::error::Error::Frame(_)),
        "{error:?}"
    );
    error.to_string()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_codec_brings_the_table_bit_for_bit((update, base) in update_and_base()) {
        let table = bits(&update.apply(Some(&base)).unwrap());
        for name in NAMES {
            let frame = name.encode(&update, &base);
            let decoded = name.decode(&frame.bytes, update.shape).unwrap();
            prop_assert_eq!(bits(&decoded.apply(Some(&base)).unwrap()), table.clone(), "{:?}", name);
            if name == CodecName::RowsF32 {
                prop_assert_eq!(decoded.others_scale.to_bits(), update.others_scale.to_bits());
                prop_assert_eq!(&decoded.values, &update.values);
                if update.rows.len(update.shape) < update.shape.rows {
                    prop_assert_eq!(decoded.rows, update.rows.clone());
                }
            }
        }
    }

    #[test]
    fn parts_sum_to_the_length_and_are_what_the_layout_says((update, base) in update_and_base()) {
        let shape = update.shape;
        let whole = update.apply(Some(&base)).unwrap();
        let listed = update.rows.len(shape);
        let non_zero = whole.as_slice().iter().filter(|value| value.to_bits() != 0).count();
        let held = [shape.values(), listed * shape.dimension, non_zero];
        for (name, held) in NAMES.into_iter().zip(held) {
            let Frame { bytes, parts, .. } = name.encode(&update, &base);
            prop_assert_eq!(parts.header + parts.index + parts.values, bytes.len() as u64);
            prop_assert_eq!(parts.header, 28);
            prop_assert_eq!(parts.values, 4 * held as u64, "{:?}", name);
            let most = match name {
                CodecName::DenseF32 => 0,
                CodecName::RowsF32 => shape.rows.div_ceil(8),
                CodecName::SparseF32 => shape.values().div_ceil(8),
            };
            prop_assert!(parts.index <= most as u64, "{:?}", name);
        }
    }

    #[test]
    fn arbitrary_bytes_behind_a_sound_header_are_refused_or_decoded_but_never_panic(
        body in prop::collection::vec(any::<u8>(), 0..120),
        rows in 0_usize..40, dimension in 0_usize..5, count in 0_u64..60, index in 0_u8..4, scale: u32,
    ) {
        let shape = TableShape { rows, dimension };
        for (code, name) in (1_u8..).zip(NAMES) {
            let scale = if name == CodecName::RowsF32 { scale } else { 1.0_f32.to_bits() };
            let frame = handmade(code << 4 | index, shape, count, scale, &body);
            if let Ok(update) = name.decode(&frame, shape) {
                update.check().unwrap();
            }
        }
    }

    #[test]
    fn arbitrary_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let shape = TableShape { rows: 2, dimension: 2 };
        for name in NAMES {
            prop_assert!(name.decode(&bytes.clone().into(), shape).is_err());
        }
    }
}

#[test]
fn a_flip_of_any_single_bit_is_refused() {
    for (name, many) in NAMES
        .into_iter()
        .flat_map(|name| [(name, false), (name, true)])
    {
        let (update, base) = fixed(many);
        let frame = name.encode(&update, &base).bytes.to_vec();
        for bit in 0..8 * frame.len() {
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(
                name.decode(&damaged.into(), update.shape).is_err(),
                "{name:?}: bit {bit} is not covered"
            );
        }
    }
}

#[test]
fn a_frame_cut_off_anywhere_or_continued_is_refused() {
    for (name, many) in NAMES
        .into_iter()
        .flat_map(|name| [(name, false), (name, true)])
    {
        let (update, base) = fixed(many);
        let frame = name.encode(&update, &base).bytes;
        for length in 0..frame.len() {
            assert!(
                name.decode(&frame.slice(..length), update.shape).is_err(),
                "{name:?}: {length} bytes pass"
            );
            // The frame is refused even if its checksum is right.
            if length >= HEADER_BYTES {
                refusal(name, resealed(frame[..length].to_vec()), update.shape);
            }
        }
        refusal(name, resealed([&frame[..], &[0]].concat()), update.shape);
    }
}

#[test]
fn each_fault_is_named() {
    let (update, base) = fixed(true);
    let shape = update.shape;
    let rows = CodecName::RowsF32.encode(&update, &base).bytes.to_vec();
    let with = |at: usize, value: u8| {
        let mut frame = rows.clone();
        frame[at] = value;
        resealed(frame)
    };
    let check = |frame: Bytes, reason: &str| {
        let found = refusal(CodecName::RowsF32, frame, shape);
        assert!(found.contains(reason), "{found}");
    };
    check(
        rows[..20].to_vec().into(),
        "its 20 bytes are fewer than the header's 28",
    );
    check(with(0, b'G'), "it starts with [47, 52], not with [46, 52]");
    check(with(2, 9), "its format version is 9, not 1");
    check(with(3, 0x11), "its codec is dense-f32, not rows-f32");
    check(with(3, 0xf1), "its codec is number 15, not rows-f32");
    check(with(3, 0x2f), "its index encoding 15 is unknown");
    check(with(4, 71), "it holds a 71 x 3 table, not a 70 x 3 one");
    check(with(8, 2), "it holds a 70 x 2 table, not a 70 x 3 one");
    check(with(12, 71), "it declares 71 entries of a table of 70");
    check(
        with(3, 0x20),
        "it declares 46 entries of a table of 70 but has no index",
    );
    check(
        with(12, 47),
        "it is cut off: 589 bytes where its header declares at least 601",
    );
    check(with(12, 45), "it is followed by 12 trailing bytes");
    check(
        with(28, rows[28] ^ 2),
        "the bitmap lists 45 entries, the header 46",
    );
    check(with(36, rows[36] | 0x80), "the bitmap has padding bits set");
    check(
        [&rows[..588], &[!rows[588]]].concat().into(),
        "it is damaged",
    );

    let dense = CodecName::DenseF32.encode(&update, &base).bytes.to_vec();
    let mut scaled = dense.clone();
    scaled[20..24].copy_from_slice(&0.5_f32.to_le_bytes());
    assert!(
        refusal(CodecName::DenseF32, resealed(scaled), shape).contains("it scales rows by 0.5")
    );
    let mut indexed = dense;
    indexed[3] |= 1;
    assert!(refusal(CodecName::DenseF32, resealed(indexed), shape).contains("it has an index"));

    let mut zero = CodecName::SparseF32.encode(&update, &base).bytes.to_vec();
    // The second pass has two zeros.
    for value in 1..3 {
        let at = zero.len() - 4 * value;
        zero[at..at + 4].fill(0);
        assert!(
            refusal(CodecName::SparseF32, resealed(zero.clone()), shape)
                .contains("a zero among the values")
        );
    }
}

#[test]
fn counts_that_no_memory_could_hold_are_refused_before_anything_is_allocated() {
    // An allocation of the size of the count or the shape, which is 8 PiB and more, would abort the
    // test.
    let shapes = [(1 << 31, 1 << 20), (u32::MAX as usize, u32::MAX as usize)];
    for (rows, dimension) in shapes {
        let shape = TableShape { rows, dimension };
        for (code, name) in (1_u8..).zip(NAMES) {
            for (index, count) in (0..3).flat_map(|index| {
                [u64::MAX, u64::MAX / 4, 1 << 51, 1 << 40, rows as u64, 1]
                    .map(|count| (index, count))
            }) {
                let frame = handmade(
                    code << 4 | index,
                    shape,
                    count,
                    1.0_f32.to_bits(),
                    &[0; 100],
                );
                refusal(name, frame, shape);
            }
        }
    }
}

#[test]
fn decoded_updates_keep_to_the_memory_bound_and_share_the_frame() {
    let (update, base) = fixed(true);
    let bound = decode_bound_bytes(update.shape);
    assert_eq!(bound, 4 * 70 * 3);
    for name in NAMES {
        let frame = name.encode(&update, &base).bytes;
        let decoded = name.decode(&frame, update.shape).unwrap();
        let shared = frame.as_ptr_range().contains(&decoded.values.as_ptr());
        assert_eq!(shared, name != CodecName::SparseF32, "{name:?}");
        let listed = match &decoded.rows {
            RowSet::All => 0,
            RowSet::Listed(rows) => 4 * rows.capacity(),
        };
        let own = if shared { 0 } else { decoded.values.len() };
        assert!(listed + own <= bound, "{name:?}");
    }
    assert_eq!(
        decode_bound_bytes(TableShape {
            rows: 5,
            dimension: 0
        }),
        20
    );
}

#[test]
fn a_scale_travels_bit_for_bit_even_if_it_is_no_number() {
    let (mut update, base) = fixed(true);
    update.others_scale = f32::from_bits(0xffc0_1234);
    let frame = CodecName::RowsF32.encode(&update, &base).bytes;
    let decoded = CodecName::RowsF32.decode(&frame, update.shape).unwrap();
    assert_eq!(decoded.others_scale.to_bits(), 0xffc0_1234);
}

#[test]
fn a_table_without_rows_is_a_header() {
    let base = Table::zeros(TableShape {
        rows: 0,
        dimension: 4,
    });
    for name in NAMES {
        let frame = name.encode(&TableUpdate::whole(base.clone()), &base);
        assert_eq!(frame.bytes.len(), HEADER_BYTES);
        assert_eq!(
            name.decode(&frame.bytes, base.shape())
                .unwrap()
                .apply(Some(&base))
                .unwrap(),
            base
        );
    }
}

#[test]
fn few_rows_take_gaps_many_a_bitmap_and_all_no_index() {
    let index = |rows: Vec<u32>| {
        let shape = TableShape {
            rows: 800,
            dimension: 1,
        };
        let values = vec![1.0; rows.len()];
        let update = TableUpdate::listed(shape, rows, &values, 1.0).unwrap();
        CodecName::RowsF32
            .encode(&update, &Table::zeros(shape))
            .parts
            .index
    };
    assert_eq!(index(vec![]), 0);
    assert_eq!(index(vec![5, 700]), 1 + 2);
    assert_eq!(index((0..99).collect()), 99);
    assert_eq!(index((0..100).collect()), 100);
    assert_eq!(index((0..799).collect()), 100);
    assert_eq!(index((0..800).collect()), 0);
}

#[test]
fn only_positive_zeros_are_left_out_of_sparse_frames() {
    let shape = TableShape {
        rows: 1,
        dimension: 40,
    };
    let mut table = Table::zeros(shape);
    table.as_mut_slice()[7] = -0.0;
    table.as_mut_slice()[30] = f32::from_bits(0xffc0_0001);
    let frame = CodecName::SparseF32.encode(&TableUpdate::whole(table.clone()), &table);
    assert_eq!(
        frame.parts,
        FrameParts {
            header: 28,
            index: 2,
            values: 8,
            modelled: 0
        }
    );
    let decoded = CodecName::SparseF32.decode(&frame.bytes, shape).unwrap();
    assert_eq!(
        floats(&decoded.values)
            .map(f32::to_bits)
            .collect::<Vec<_>>(),
        bits(&table)
    );
}

#[test]
fn the_layout_is_the_documented_one() {
    let shape = TableShape {
        rows: 300,
        dimension: 1,
    };
    let update = TableUpdate::listed(shape, vec![2, 3, 259], &[1.0, -2.0, 0.0], 0.5).unwrap();
    let frame = CodecName::RowsF32
        .encode(&update, &Table::zeros(shape))
        .bytes;
    let expected = [
        b"FR\x01\x22".as_slice(),
        &[0x2c, 1, 0, 0, 1, 0, 0, 0],
        &[3, 0, 0, 0, 0, 0, 0, 0],
        &[0, 0, 0, 0x3f],
        &frame[24..28],
        &[2, 0, 0xff, 1],
        &[0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 0, 0, 0, 0],
    ]
    .concat();
    assert_eq!(frame, expected);
    assert_eq!(frame, resealed(expected));
}

#[test]
#[should_panic(expected = "its rows are not strictly ascending")]
fn an_update_that_contradicts_itself_is_never_sent() {
    let (mut update, base) = fixed(false);
    update.rows = RowSet::Listed(vec![69, 2]);
    CodecName::RowsF32.encode(&update, &base);
}

#[test]
fn a_frame_of_another_codec_is_refused_by_its_name() {
    let (update, base) = fixed(false);
    let words = ["dense-f32", "rows-f32", "sparse-f32"];
    for (name, word) in NAMES.into_iter().zip(words) {
        let frame = name.encode(&update, &base).bytes;
        for (other, other_word) in NAMES
            .into_iter()
            .zip(words)
            .filter(|(other, _)| *other != name)
        {
            let refused = other.decode(&frame, update.shape).unwrap_err().to_string();
            assert!(
                refused.contains(&format!("its codec is {word}, not {other_word}")),
                "{refused}"
            );
        }
    }
}
