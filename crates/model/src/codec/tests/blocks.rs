//! Tests frames of several blocks of several types, with scalars.

use std::sync::Arc;

use proptest::prelude::*;

use super::super::*;
use super::NAMES;
use crate::blocks::{BlockValues, Model, Utility};
use crate::layout::{BlockLayout, ValueType};
use crate::table::RowSet;
use crate::tests::counting_table;
use fedrecsim_scenario::CodecName;

/// Returns the layout with both kinds of scalars in its frames.
fn with_scalars(layout: Layout) -> Layout {
    let mut layout = layout.weighted();
    layout.reports_utility = true;
    layout
}

/// Returns a layout with a block of every type, and the model that the sender has downloaded.
fn layout_and_base(rows: usize) -> (Layout, Model) {
    let shape = |dimension| TableShape { rows, dimension };
    let layout = Layout::new(vec![
        BlockLayout::item_table("V", shape(3)),
        BlockLayout::weights(
            "W",
            TableShape {
                rows: 2,
                dimension: 2,
            },
        ),
        BlockLayout::item_table("gradient", shape(2)).statistic(),
        BlockLayout::item_table("counts", shape(1))
            .of(ValueType::U32)
            .statistic(),
        BlockLayout::item_table("sums", shape(1))
            .of(ValueType::U64)
            .statistic(),
        BlockLayout::weights(
            "notes",
            TableShape {
                rows: 1,
                dimension: 5,
            },
        )
        .of(ValueType::Bytes)
        .statistic(),
    ]);
    let table = |shape| BlockValues::Table(Arc::new(counting_table(shape, 0.25)));
    let downloaded = Layout::new(layout.blocks()[..2].to_vec());
    let blocks = [
        shape(3),
        TableShape {
            rows: 2,
            dimension: 2,
        },
    ]
    .map(table)
    .into();
    let base = Model::new(downloaded, blocks).unwrap();
    (with_scalars(layout), base)
}

fn any_update(rows: usize) -> impl Strategy<Value = ModelUpdate> {
    let listed = prop::collection::btree_set(0..rows as u32, 0..=rows);
    let bytes = prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..4096);
    (listed, bytes, any::<bool>(), -2.0f32..2.0, any::<u32>()).prop_map(
        move |(listed, bytes, all, weight, ratings)| {
            let (layout, _) = layout_and_base(rows);
            let mut bytes = bytes.into_iter().cycle();
            let mut blocks = Vec::new();
            for block in layout.blocks() {
                let rows: Vec<u32> = listed
                    .iter()
                    .copied()
                    .filter(|row| (*row as usize) < block.shape.rows)
                    .collect();
                let rows = if all {
                    RowSet::All
                } else {
                    RowSet::Listed(rows)
                };
                let count =
                    rows.len(block.shape) * block.shape.dimension * block.value_type.bytes();
                let values: Vec<u8> = (0..count)
                    .map(|_| bytes.next().unwrap_or(7) & 0x3f)
                    .collect();
                let others_scale = if block.name == "V" { 0.5 } else { 1.0 };
                let of_rows = TableUpdate::of_rows(block.shape, rows, values.into());
                blocks.push(TableUpdate {
                    value_type: block.value_type,
                    others_scale,
                    ..of_rows
                });
            }
            let utility = Some(Utility {
                loss: weight / 2.0,
                ratings,
            });
            ModelUpdate {
                blocks,
                scalars: Scalars {
                    weight: Some(weight),
                    utility,
                },
            }
        },
    )
}

fn encoded(name: CodecName, update: &ModelUpdate, layout: &Layout, base: &Model) -> Frame {
    let mut memory = CodecMemory::default();
    let randomness = Randomness::new(Streams::new(1), FrameKind::Upload, Some(2), 3);
    let mut context = EncodeContext {
        base,
        memory: &mut memory,
        randomness,
    };
    BlockCodecs::every(name)
        .encode(update, layout, &mut context)
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// If this fails, a block, a type or a scalar does not arrive as it was sent.
    #[test]
    fn every_block_arrives_with_its_bits(update in (1usize..40).prop_flat_map(any_update)) {
        let rows = update.blocks[0].shape.rows;
        let (layout, base) = layout_and_base(rows);
        let whole = update.apply(&layout, &base).unwrap();
        for name in NAMES {
            let frame = encoded(name, &update, &layout, &base);
            let parts = frame.parts;
            prop_assert_eq!(parts.header + parts.index + parts.values, frame.bytes.len() as u64);
            prop_assert_eq!(parts.header as usize, super::super::frame::FRAME_HEADER_BYTES + 6 * HEADER_BYTES);
            let ahead = parts_ahead(&BlockCodecs::every(name), &layout, &update.scalars);
            prop_assert_eq!(ahead, (name == CodecName::DenseF32).then_some(parts), "the length that is announced");
            let decoded = BlockCodecs::every(name).decode(&frame.bytes, &layout, &Model::none()).unwrap();
            prop_assert_eq!(decoded.scalars, update.scalars);
            prop_assert_eq!(decoded.apply(&layout, &base).unwrap(), whole.clone(), "{:?}", name);
        }
    }

    /// If this fails, a frame that was damaged or cut off on its way is accepted.
    #[test]
    fn a_damaged_frame_is_refused(update in any_update(9), bit: u32, cut in 0usize..400) {
        let (layout, base) = layout_and_base(9);
        for name in NAMES {
            let frame = encoded(name, &update, &layout, &base).bytes;
            let mut damaged = frame.to_vec();
            let bit = bit as usize % (8 * damaged.len());
            damaged[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(BlockCodecs::every(name).decode(&damaged.into(), &layout, &Model::none()).is_err(), "{:?}, bit {}", name, bit);
            let cut = cut.min(frame.len() - 1);
            prop_assert!(BlockCodecs::every(name).decode(&frame.slice(..cut), &layout, &Model::none()).is_err());
            let longer = [&frame[..], &[0]].concat();
            prop_assert!(BlockCodecs::every(name).decode(&longer.into(), &layout, &Model::none()).is_err());
        }
    }
}

/// If this fails, a receiver accepts a frame of another layout than it expects.
#[test]
fn a_frame_of_another_layout_is_refused_with_the_reason() {
    let (layout, base) = layout_and_base(4);
    let blocks = layout
        .blocks()
        .iter()
        .map(|block| TableUpdate::nothing(block.shape, block.value_type))
        .collect();
    let utility = Some(Utility {
        loss: 1.0,
        ratings: 2,
    });
    let scalars = Scalars {
        weight: Some(1.0),
        utility,
    };
    let frame = encoded(
        CodecName::RowsF32,
        &ModelUpdate { blocks, scalars },
        &layout,
        &base,
    )
    .bytes;
    let refusal = |layout: &Layout| {
        BlockCodecs::every(CodecName::RowsF32)
            .decode(&frame, layout, &Model::none())
            .unwrap_err()
            .to_string()
    };
    assert!(refusal(&Layout::new(layout.blocks().to_vec())).contains("its flags are"));
    assert!(
        refusal(&Layout::new(layout.blocks()[..5].to_vec()).weighted())
            .contains("it has 6 blocks, not 5")
    );
    let (other, _) = layout_and_base(5);
    assert!(refusal(&other).contains("it holds a 4 x 3 table, not a 5 x 3 one"));
    assert!(
        refusal(&Layout::of_table(
            "V",
            TableShape {
                rows: 4,
                dimension: 3
            }
        ))
        .contains("its format version is 2, not 1")
    );
    let mut blocks = layout.blocks().to_vec();
    blocks[3] = blocks[3].clone().of(ValueType::F32);
    assert!(refusal(&with_scalars(Layout::new(blocks))).contains("of another type"));
    let dense = BlockCodecs::every(CodecName::DenseF32)
        .decode(&frame, &layout, &Model::none())
        .unwrap_err()
        .to_string();
    assert!(
        dense.contains("its codec is rows-f32, not dense-f32"),
        "{dense}"
    );
}

/// If this fails, who keeps what it sent keeps it twice, or keeps something else.
#[test]
fn values_share_the_frame_that_says_them_as_they_are() {
    let shape = TableShape {
        rows: 6,
        dimension: 2,
    };
    let base = Table::from_fn(shape, || 1.0);
    let listed = TableUpdate::listed(shape, vec![1, 4], &[0.5, -0.0, 2.0, 3.0], 0.5).unwrap();
    let whole = TableUpdate::whole(base.clone());
    let ending_in_values = [
        (CodecName::RowsF32, &listed),
        (CodecName::RowsF32, &whole),
        (CodecName::DenseF32, &whole),
    ];
    for (name, table) in ending_in_values {
        let layout = Layout::of_table("C", shape);
        let (frame, mut update) = (
            name.encode(table, &base),
            ModelUpdate::of_table(table.clone()),
        );
        let before = frame
            .hold_values_of(&BlockCodecs::every(name), &mut update, &layout)
            .unwrap();
        assert_eq!(before.as_ptr(), table.values.as_ptr());
        assert_eq!(update.blocks[0], *table);
        assert!(
            frame
                .bytes
                .as_ptr_range()
                .contains(&update.blocks[0].values.as_ptr())
        );
    }
    for (name, table) in [
        (CodecName::DenseF32, &listed),
        (CodecName::SparseF32, &whole),
    ] {
        let (frame, mut update) = (
            name.encode(table, &base),
            ModelUpdate::of_table(table.clone()),
        );
        assert!(
            frame
                .hold_values_of(
                    &BlockCodecs::every(name),
                    &mut update,
                    &Layout::of_table("C", shape)
                )
                .is_none()
        );
        assert_eq!(update.blocks[0].values.as_ptr(), table.values.as_ptr());
    }
}
