//! Tests that a receiver decodes what the sender meant, for every composition.
#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::blocks::{Model, ModelUpdate};
use crate::codec::{BlockCodecs, CodecMemory, EncodeContext, Frame, FrameKind, Randomness};
use crate::layout::Layout;
use crate::table::{Table, TableShape, floats};
use fedrecsim_core::rng::Streams;
use fedrecsim_scenario::{DeadZoneSpec, EntropySpec, RoundingSpec, ScaleSpec};

const SELECTIONS: [SelectSpec; 7] = [
    SelectSpec::All,
    SelectSpec::TouchedRows,
    SelectSpec::NonZeros,
    SelectSpec::AtLeast(0.5),
    SelectSpec::TopShare(0.1),
    SelectSpec::RandomShare(0.1),
    SelectSpec::LowRank(2),
];

const VALUES: [ValuesSpec; 9] = [
    ValuesSpec::F32,
    ValuesSpec::F16,
    ValuesSpec::Bf16,
    ValuesSpec::Int8,
    ValuesSpec::Int4,
    ValuesSpec::Int2,
    ValuesSpec::Sign,
    ValuesSpec::DeadZone(DeadZoneSpec {
        step: 0.7,
        zone: 0.6,
    }),
    ValuesSpec::Centroids(3),
];

const ENTROPIES: [EntropySpec; 4] = [
    EntropySpec::None,
    EntropySpec::Ans,
    EntropySpec::Zstd,
    EntropySpec::Auto,
];

/// Returns every composition with these two choices.
fn compositions(delta: bool, error_feedback: bool) -> impl Iterator<Item = CompositionSpec> {
    SELECTIONS.into_iter().flat_map(move |select| {
        VALUES.into_iter().flat_map(move |values| {
            [ScaleSpec::Row, ScaleSpec::Block]
                .into_iter()
                .flat_map(move |scale| {
                    ENTROPIES.map(|entropy| CompositionSpec {
                        select,
                        delta,
                        values,
                        scale,
                        rounding: match values {
                            ValuesSpec::Int4 => RoundingSpec::Nearest,
                            _ => RoundingSpec::Stochastic,
                        },
                        positions: PositionsSpec::Auto,
                        entropy,
                        error_feedback,
                    })
                })
        })
    })
}

fn randomness(invitation: u32) -> Randomness {
    Randomness::new(Streams::new(7), FrameKind::Upload, Some(3), invitation)
}

/// Encodes an update, and returns the frame with what its receiver decodes, as a whole table.
fn sent(
    codec: CompositionSpec,
    update: &TableUpdate,
    base: &Table,
    memory: &mut CodecMemory,
    round: u32,
) -> (Frame, Table) {
    let codecs = BlockCodecs::every(codec);
    let layout = Layout::of_table("C", update.shape);
    let model = Model::of_table("C", base.clone());
    let mut context = EncodeContext {
        base: &model,
        memory,
        randomness: randomness(round),
    };
    let frame = codecs
        .encode(
            &ModelUpdate::of_table(update.clone()),
            &layout,
            &mut context,
        )
        .unwrap();
    let decoded = codecs.decode(&frame.bytes, &layout, &model).unwrap();
    assert_eq!(frame.parts.total(), frame.bytes.len() as u64);
    let table = decoded.blocks[0].apply(Some(base)).unwrap();
    (frame, table)
}

/// Returns tables with a base and rows of an update that are close to it.
fn updates() -> impl Strategy<Value = (Table, TableUpdate)> {
    let rows = prop::collection::btree_set(0u32..40, 0..25);
    (
        rows,
        1usize..7,
        any::<u64>(),
        prop_oneof![Just(1.0f32), Just(0.5)],
    )
        .prop_map(|(rows, columns, seed, others_scale)| {
            let shape = TableShape {
                rows: 40,
                dimension: columns,
            };
            let mut state = seed;
            let mut draw = move || {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let value = (state >> 40) as f32 / (1 << 23) as f32 - 1.0;
                if state >> 37 & 7 == 0 { 0.0 } else { value }
            };
            let base = Table::from_fn(shape, &mut draw);
            let rows: Vec<u32> = rows.into_iter().collect();
            let values: Vec<f32> = rows
                .iter()
                .flat_map(|row| base.row(*row as usize).to_vec())
                .map(|value| value + draw())
                .collect();
            (
                base,
                TableUpdate::listed(shape, rows, &values, others_scale).unwrap(),
            )
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// If this fails, a composition sends something else than it selects, or a receiver decodes
    /// something else than what the sender has taken as sent.
    #[test]
    fn receivers_get_what_was_selected((base, update) in updates()) {
        let wanted = update.apply(Some(&base)).unwrap();
        for changes in [false, true] {
            for codec in compositions(changes, false) {
                let (_, received) = sent(codec, &update, &base, &mut CodecMemory::default(), 0);
                if matches!((codec.select, codec.values), (SelectSpec::All | SelectSpec::TouchedRows, ValuesSpec::F32)) {
                    for (one, other) in wanted.as_slice().iter().zip(received.as_slice()) {
                        let is_near = (one - other).abs() <= 1e-6;
                        prop_assert!(if changes { is_near } else { one.to_bits() == other.to_bits() }, "{codec:?}");
                    }
                }
                let unlisted = |row: &u32| !update.positions_of(&[*row]).any(|position| position.is_some());
                if codec.select != SelectSpec::All {
                    for row in (0..40u32).filter(unlisted) {
                        prop_assert_eq!(wanted.row(row as usize), received.row(row as usize), "{:?}", codec);
                    }
                }
            }
        }
    }

    /// If this fails, what an upload leaves out is lost although the device is told to remember it:
    /// what was received and what is remembered are together what was meant.
    #[test]
    fn nothing_is_lost_with_error_feedback((base, update) in updates()) {
        for codec in compositions(true, true) {
            let mut memory = CodecMemory::default();
            let rows: Vec<u32> = update.iter().map(|(row, _)| row as u32).collect();
            let columns = update.shape.dimension;
            let mut sum = vec![0.0f64; rows.len() * columns];
            for round in 0..3 {
                let (_, received) = sent(codec, &update, &base, &mut memory, round);
                for (position, row) in rows.iter().enumerate() {
                    for column in 0..columns {
                        let at = *row as usize;
                        sum[position * columns + column] +=
                            f64::from(received.row(at)[column]) - f64::from(base.row(at)[column] * update.others_scale);
                    }
                }
            }
            let residual = memory.residual(0, columns);
            let mut slots = Vec::new();
            residual.find(&rows, &mut slots);
            for position in 0..rows.len() {
                let (left_out, scale) = residual.held(&slots, position).unwrap();
                for (column, value) in left_out.iter().enumerate() {
                    sum[position * columns + column] += f64::from(value * scale);
                }
            }
            for (position, (row, values)) in update.iter().enumerate() {
                for (column, value) in floats(values).enumerate() {
                    let change = f64::from(value) - f64::from(base.row(row)[column] * update.others_scale);
                    let found = sum[position * columns + column];
                    prop_assert!((found - 3.0 * change).abs() < 1e-4 * (1.0 + change.abs()), "{:?}: {} for {}", codec, found, 3.0 * change);
                }
            }
        }
    }

    /// If this fails, a damaged or hostile frame crashes its receiver.
    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..120), changes: bool) {
        let shape = TableShape { rows: 9, dimension: 3 };
        for codec in compositions(changes, false) {
            let _ = Body::decode(&codec, &bytes, shape);
        }
    }
}

#[test]
fn a_value_that_is_not_finite_is_refused_unless_values_are_exact() {
    let shape = TableShape {
        rows: 2,
        dimension: 2,
    };
    let update = TableUpdate::listed(shape, vec![1], &[1.0, f32::NAN], 1.0).unwrap();
    let layout = Layout::of_table("C", shape);
    for codec in compositions(false, false).filter(|codec| codec.select == SelectSpec::TouchedRows)
    {
        let mut memory = CodecMemory::default();
        let model = Model::of_table("C", Table::zeros(shape));
        let mut context = EncodeContext {
            base: &model,
            memory: &mut memory,
            randomness: randomness(0),
        };
        let frame = BlockCodecs::every(codec).encode(
            &ModelUpdate::of_table(update.clone()),
            &layout,
            &mut context,
        );
        assert_eq!(frame.is_ok(), codec.values == ValuesSpec::F32, "{codec:?}");
    }
}

/// If this fails, a frame that is cut off, or of another composition, is taken for a sound one.
#[test]
fn a_frame_of_another_composition_or_length_is_refused() {
    let shape = TableShape {
        rows: 30,
        dimension: 4,
    };
    let base = Table::from_fn(shape, || 0.25);
    let rows: Vec<u32> = (0..30).step_by(3).collect();
    let values: Vec<f32> = (0..40).map(|value| value as f32 / 7.0).collect();
    let update = TableUpdate::listed(shape, rows, &values, 1.0).unwrap();
    let layout = Layout::of_table("C", shape);
    let model = Model::of_table("C", base.clone());
    let codec = CompositionSpec {
        select: SelectSpec::TopShare(0.2),
        delta: true,
        values: ValuesSpec::Int8,
        entropy: EntropySpec::Ans,
        ..CompositionSpec::default()
    };
    let (frame, _) = sent(codec, &update, &base, &mut CodecMemory::default(), 0);
    for length in 0..frame.bytes.len() {
        assert!(
            BlockCodecs::every(codec)
                .decode(&frame.bytes.slice(..length), &layout, &model)
                .is_err(),
            "{length} bytes pass"
        );
    }
    let longer: Bytes = [&frame.bytes[..], &[0]].concat().into();
    assert!(
        BlockCodecs::every(codec)
            .decode(&longer, &layout, &model)
            .is_err()
    );
    let other = CompositionSpec {
        values: ValuesSpec::F32,
        ..codec
    };
    assert!(
        BlockCodecs::every(other)
            .decode(&frame.bytes, &layout, &model)
            .unwrap_err()
            .to_string()
            .contains("another representation")
    );
}

/// If this fails, centroids take other bytes than those of the centres and of a number for each row.
#[test]
fn centroids_take_the_bytes_of_centres_and_numbers() {
    let shape = TableShape {
        rows: 1682,
        dimension: 32,
    };
    let rows: Vec<u32> = (0..1680).step_by(4).collect();
    let values: Vec<f32> = (0..420 * 32u32)
        .map(|value| (value * 7919 % 1009) as f32 / 500.0 - 1.0)
        .collect();
    let update = TableUpdate::listed(shape, rows, &values, 1.0).unwrap();
    for (most, expected) in [(16, 2048 + 210), (5, 640 + 158), (100, 12_800 + 368)] {
        let codec = CompositionSpec {
            delta: true,
            values: ValuesSpec::Centroids(most),
            ..CompositionSpec::default()
        };
        let base = Table::zeros(shape);
        let (frame, _) = sent(codec, &update, &base, &mut CodecMemory::default(), 0);
        assert_eq!(frame.parts.values, expected, "{most}");
    }
}

/// Returns the choices about values in words.
fn label(codec: &CompositionSpec) -> String {
    match codec.values {
        ValuesSpec::F32 => "F32".to_owned(),
        ValuesSpec::Centroids(most) => format!("Centroids({most})"),
        values => format!("{values:?} by {:?}", codec.scale),
    }
}

/// If this fails, frames have other bytes than before. A run with the same scenario and seed then
/// has another digest, so that the version of the format has to change (`Codec::format`).
#[test]
fn frames_have_the_bytes_that_they_had_before() {
    let shape = TableShape {
        rows: 12,
        dimension: 6,
    };
    let mut number = 0u32;
    let base = Table::from_fn(shape, || {
        number += 1;
        (number % 17) as f32 / 8.0 - 1.0
    });
    let rows: Vec<u32> = vec![1, 2, 5, 9, 11];
    let values: Vec<f32> = (0..30u32)
        .map(|value| (value * value % 23) as f32 / 11.0 - 1.0)
        .collect();
    let update = TableUpdate::listed(shape, rows, &values, 0.5).unwrap();
    let mut text = String::new();
    let mut add = |codec: CompositionSpec| {
        let (frame, _) = sent(codec, &update, &base, &mut CodecMemory::default(), 0);
        let bytes: String = frame
            .bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        text.push_str(&format!(
            "{:?} {} {:?}\n{bytes}\n",
            codec.select,
            label(&codec),
            codec.entropy
        ));
    };
    for codec in compositions(true, false) {
        let is_plain =
            codec.select == SelectSpec::TouchedRows && codec.entropy == EntropySpec::None;
        let is_exact = codec.values == ValuesSpec::F32;
        // Exact values and centroids have no scales.
        let has_scales = !is_exact && !matches!(codec.values, ValuesSpec::Centroids(_));
        if !has_scales && codec.scale == ScaleSpec::Block {
            continue;
        }
        let has_levels = codec.values == ValuesSpec::Int4 && codec.scale == ScaleSpec::Row;
        if is_plain || (is_exact && codec.entropy != EntropySpec::Auto) || has_levels {
            add(codec);
        }
    }
    insta::assert_snapshot!(text);
}
