//! The part of a frame that a composed codec writes and reads.
//!
//! | bytes | field |
//! |---|---|
//! | 1 | number of the representation of values: 0 exact, 1 f16, 2 bf16, 3 levels, 4 sign, 5 dead zone |
//! | 1 | code of the rows (low four bits) and of the entries in them (high four bits), see [`PositionCode`] |
//! | 1 | 1 if single entries of the rows are listed, else 0; and twice the number of the [`Coding`] of the symbols |
//! | each 1 to 10 | LEB128 integers: rows; bytes of their positions; entries; bytes of their positions; escaped numbers |
//! | | positions of the rows, positions of the entries |
//! | | scales, escaped numbers as LEB128, symbols |
//!
//! A block of projected rows begins with the seed of their basis (u64, little-endian), and has as
//! many values in a row as the basis has vectors.

use super::candidates::Candidates;
use super::payload::{self, Coding, Form};
use super::selection::Selected;
use super::{Composition, Scales, Values};
use crate::codec::buffer::Buffer;
use crate::codec::frame::{CodecId, Header};
use crate::codec::positions::{self, Places, PositionCode};
use crate::codec::values::{Groups, Quantized, Quantizer, steps_of, symbol_of};
use crate::codec::writer::FrameWriter;
use crate::codec::{Randomness, varint};
use crate::model::layout::ValueType;
use crate::model::table::{TableShape, TableUpdate, extend_bytes, floats};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::memory;
use rand::Rng;
use std::borrow::Cow;

const LISTS_ENTRIES: u8 = 1;

/// The parts of a block, as bytes.
#[derive(Debug, Default)]
pub(super) struct Body {
    description: Vec<u8>,
    index: Vec<u8>,
    /// The scales and the escaped numbers.
    scales: Vec<u8>,
    values: Vec<u8>,
}

/// What a receiver reads.
#[derive(Debug)]
pub(super) struct Decoded {
    /// The rows that are sent, ascending.
    pub rows: Vec<u32>,
    /// Their values, row after row, in which those are 0 that are not sent.
    pub values: Buffer,
}

/// The rows that are sent, with the number of values of each.
struct Sent<'a> {
    rows: Cow<'a, [u32]>,
    /// The positions of the values among all values of these rows; `None` if all are sent.
    entries: Option<Vec<u32>>,
    /// The number of values of each row; `None` if all are sent.
    lengths: Option<Vec<usize>>,
    /// The values of a row.
    columns: usize,
}

impl<'a> Sent<'a> {
    /// Returns what is sent of the candidates, which have these rows of so many columns. Rows of
    /// which nothing is selected are left out where values are changes, since a change that is not
    /// sent is none.
    fn of(
        choices: &Composition,
        candidates: (&'a [u32], usize),
        selected: Option<&Selected>,
    ) -> Self {
        let (of_candidates, columns) = candidates;
        let Some(selected) = selected else {
            return Self {
                rows: of_candidates.into(),
                entries: None,
                lengths: None,
                columns,
            };
        };
        let (mut rows, mut lengths) = (Vec::new(), Vec::new());
        // A seed names the positions among the values of all rows.
        if selected.seed.is_some() {
            let lengths = Some(lengths_of(&selected.places, of_candidates.len(), columns));
            return Self {
                rows: of_candidates.into(),
                entries: Some(selected.places.clone()),
                lengths,
                columns,
            };
        }
        let mut entries = Vec::with_capacity(selected.places.len());
        let mut rest = &selected.places[..];
        for (position, &row) in of_candidates.iter().enumerate() {
            let end = ((position + 1) * columns) as u32;
            let of_row;
            (of_row, rest) = rest.split_at(rest.partition_point(|entry| *entry < end));
            if of_row.is_empty() && choices.changes {
                continue;
            }
            let shift = ((position - rows.len()) * columns) as u32;
            entries.extend(of_row.iter().map(|entry| entry - shift));
            rows.push(row);
            lengths.push(of_row.len());
        }
        Self {
            rows: rows.into(),
            entries: Some(entries),
            lengths: Some(lengths),
            columns,
        }
    }

    /// Returns the number of values that are sent.
    fn count(&self) -> usize {
        self.entries
            .as_ref()
            .map_or(self.rows.len() * self.columns, Vec::len)
    }

    /// Returns the groups of values that have a scale each.
    fn groups(&self, scales: Scales) -> Groups<'_> {
        groups(
            scales,
            self.lengths.as_deref(),
            (self.rows.len(), self.columns),
        )
    }
}

impl Body {
    /// Encodes the selected values of the candidates, and leaves in the places of the values what
    /// the receiver does not get of them.
    ///
    /// # Errors
    /// [`Error::Unrepresentable`] for a value that cannot be represented.
    pub(crate) fn encode(
        choices: &Composition,
        candidates: &mut Candidates,
        selected: Option<Selected>,
        shape: TableShape,
        randomness: Randomness,
    ) -> Result<Self> {
        let sent = Sent::of(
            choices,
            (&candidates.rows, candidates.columns),
            selected.as_ref(),
        );
        let Quantized {
            scales,
            symbols,
            escaped,
        } = match &selected {
            None => quantised(choices, &mut candidates.values, &sent, randomness)?,
            Some(Selected { places, .. }) => {
                let mut values: Buffer = places
                    .iter()
                    .map(|place| candidates.values[*place as usize])
                    .collect();
                let quantized = quantised(choices, &mut values, &sent, randomness)?;
                let left_out = places.iter().zip(values.iter());
                left_out
                    .for_each(|(place, left_out)| candidates.values[*place as usize] = *left_out);
                quantized
            }
        };
        let values = sent.count();
        let mut body = Self::default();
        let rows_code = positions::write(
            &Places {
                held: &sent.rows,
                universe: shape.rows,
            },
            choices.positions,
            &mut body.index,
        );
        let rows_bytes = body.index.len();
        let mut entries_code = PositionCode::All;
        if let Some(entries) = &sent.entries {
            let universe = sent.rows.len() * shape.dimension;
            let places = Places {
                held: entries,
                universe,
            };
            entries_code = match selected.as_ref().and_then(|selected| selected.seed) {
                Some(seed) if choices.positions.is_none() => {
                    positions::write_seed(seed, &places, &mut body.index)
                }
                _ => positions::write(&places, choices.positions, &mut body.index),
            };
        }
        body.scales = scales;
        escaped
            .iter()
            .for_each(|steps| varint::write(&mut body.scales, symbol_of(*steps)));
        let coding;
        (coding, body.values) =
            payload::coded(symbols, Form::of(choices, values), choices.entropy)?;
        let flags = if sent.entries.is_some() {
            LISTS_ENTRIES
        } else {
            0
        } | (coding as u8) << 1;
        body.description.extend([
            number_of(choices.values),
            rows_code as u8 | (entries_code as u8) << 4,
            flags,
        ]);
        let entries_bytes = body.index.len() - rows_bytes;
        for number in [
            sent.rows.len(),
            rows_bytes,
            values,
            entries_bytes,
            escaped.len(),
        ] {
            varint::write(&mut body.description, number as u64);
        }
        Ok(body)
    }

    /// Puts a seed in front of the block.
    pub(crate) fn begin_with_seed(&mut self, seed: u64) {
        self.description.splice(0..0, seed.to_le_bytes());
    }

    /// Appends the block to `frame`.
    pub(crate) fn write(self, update: &TableUpdate, frame: &mut FrameWriter) {
        let Self {
            description,
            index,
            scales,
            values,
        } = self;
        let count = description.len() + index.len() + scales.len() + values.len();
        let TableUpdate {
            shape,
            others_scale,
            ..
        } = *update;
        let header = Header {
            codec: CodecId::Composed,
            index: PositionCode::All,
            shape,
            value_type: ValueType::F32,
            count,
            others_scale,
        };
        let bytes = frame.begin_block(header, 0);
        [&description, &index, &scales, &values]
            .into_iter()
            .for_each(|part| bytes.extend_from_slice(part));
        frame.count_within_block(description.len(), index.len());
    }

    /// Decodes a block of `shape`.
    ///
    /// # Errors
    /// [`Error::Frame`] for anything but a well-formed block of this composition.
    pub(crate) fn decode(
        choices: &Composition,
        bytes: &[u8],
        shape: TableShape,
    ) -> Result<Decoded> {
        let refuse = |reason: &str| Error::Frame(format!("a composed block {reason}"));
        let cut_off = || refuse("is cut off");
        let (&[representation, codes, flags], mut rest) =
            bytes.split_first_chunk::<3>().ok_or_else(cut_off)?;
        if representation != number_of(choices.values) {
            return Err(refuse("has another representation of values than expected"));
        }
        let coding = Coding::of_number(flags >> 1)
            .ok_or_else(|| refuse("has an unknown coding of its symbols"))?;
        let mut number = || usize::try_from(varint::read(&mut rest)?).map_err(|_| cut_off());
        let (rows, rows_bytes, entries) = (number()?, number()?, number()?);
        let (entries_bytes, escaped) = (number()?, number()?);
        let code = |number: u8| {
            PositionCode::of_number(number)
                .ok_or_else(|| refuse("has an unknown code of positions"))
        };
        let (rows_code, entries_code) = (code(codes & 0xf)?, code(codes >> 4)?);
        let (rows_part, rest) = rest.split_at_checked(rows_bytes).ok_or_else(cut_off)?;
        let (entries_part, rest) = rest.split_at_checked(entries_bytes).ok_or_else(cut_off)?;
        let rows = positions::read(rows_code, rows_part, rows, shape.rows)?;
        let universe = rows.len() * shape.dimension;
        let listed = flags & LISTS_ENTRIES != 0;
        if (!listed && entries != universe) || entries > universe || escaped > entries {
            return Err(refuse(
                "has another number of values than its rows have room for",
            ));
        }
        let of_shape = (rows.len(), shape.dimension);
        if !listed {
            positions::check_all(entries_code, entries_part)?;
            let values = restored(choices, rest, (entries, escaped), (None, of_shape), coding)?;
            return Ok(Decoded { rows, values });
        }
        let places = positions::read(entries_code, entries_part, entries, universe)?;
        let lengths = lengths_of(&places, rows.len(), shape.dimension);
        let values = restored(
            choices,
            rest,
            (entries, escaped),
            (Some(&lengths), of_shape),
            coding,
        )?;
        let mut whole = Buffer::default();
        memory::reserve(&mut whole, universe, || {
            "the values of a composed block".to_owned()
        })?;
        whole.resize(universe, 0.0);
        places
            .iter()
            .zip(values.iter())
            .for_each(|(place, value)| whole[*place as usize] = *value);
        Ok(Decoded {
            rows,
            values: whole,
        })
    }
}

/// Returns the number of entries in each row.
fn lengths_of(entries: &[u32], rows: usize, columns: usize) -> Vec<usize> {
    let mut lengths = vec![0; rows];
    entries
        .iter()
        .for_each(|entry| lengths[*entry as usize / columns] += 1);
    lengths
}

/// Returns the groups of values that have a scale each. `lengths` are the numbers of values of the
/// rows; without them, all values are sent of so many rows and columns.
fn groups(
    scales: Scales,
    lengths: Option<&[usize]>,
    (rows, columns): (usize, usize),
) -> Groups<'_> {
    match (scales, lengths) {
        (Scales::Row, Some(lengths)) => Groups::of(lengths),
        (Scales::Row, None) => Groups::even(columns, rows),
        (Scales::Block, Some(lengths)) => Groups::even(lengths.iter().sum(), 1),
        (Scales::Block, None) => Groups::even(rows * columns, 1),
    }
}

/// Quantises the values that are sent, and leaves in their places what the receiver does not get of
/// them.
fn quantised(
    choices: &Composition,
    values: &mut [f32],
    sent: &Sent<'_>,
    randomness: Randomness,
) -> Result<Quantized> {
    match choices.values {
        Values::Exact => {
            let mut symbols = Vec::with_capacity(4 * values.len());
            extend_bytes(&mut symbols, values);
            values.fill(0.0);
            Ok(Quantized {
                symbols,
                ..Quantized::default()
            })
        }
        Values::Quantized(quantizer, scales) => {
            let seed = || {
                let mut stream = randomness.stream("codec/rounding");
                std::array::from_fn(|_| stream.next_u32())
            };
            quantizer.quantise(values, sent.groups(scales), seed)
        }
    }
}

/// Reads the values behind the positions. `lengths` are the numbers of values of the rows; without
/// them, all values are sent of so many rows and columns.
fn restored(
    choices: &Composition,
    mut rest: &[u8],
    (entries, escaped): (usize, usize),
    (lengths, shape): (Option<&[usize]>, (usize, usize)),
    coding: Coding,
) -> Result<Buffer> {
    let wrong =
        || Error::Frame("a composed block has more or fewer bytes of values than it needs".into());
    let form = Form::of(choices, entries);
    let Values::Quantized(quantizer, scales) = choices.values else {
        return Ok(floats(&payload::read(rest, form, coding)?).collect());
    };
    let groups = groups(scales, lengths, shape);
    let scale_bytes = if quantizer.has_scales() {
        2 * groups.len()
    } else {
        0
    };
    let scales;
    (scales, rest) = rest.split_at_checked(scale_bytes).ok_or_else(wrong)?;
    let mut steps = Vec::with_capacity(escaped.min(rest.len()));
    for _ in 0..escaped {
        steps.push(steps_of(varint::read(&mut rest)?));
    }
    quantizer.restore(&payload::read(rest, form, coding)?, groups, scales, &steps)
}

/// Returns the number of a representation in a frame.
fn number_of(values: Values) -> u8 {
    match values {
        Values::Exact => 0,
        Values::Quantized(Quantizer::F16, _) => 1,
        Values::Quantized(Quantizer::Bf16, _) => 2,
        Values::Quantized(Quantizer::Levels { .. }, _) => 3,
        Values::Quantized(Quantizer::Sign, _) => 4,
        Values::Quantized(Quantizer::DeadZone { .. }, _) => 5,
    }
}
