//! Writes and reads the body of a composed block.
//!
//! | bytes | field |
//! |---|---|
//! | 1 | number of the representation of values: 0 exact, 1 f16, 2 bf16, 3 levels, 4 sign, 5 dead zone, 6 centroids |
//! | 1 | code of the rows (low four bits) and of the entries in them (high four bits), see [`PositionCode`] |
//! | 1 | 1 if single entries of the rows are listed, else 0; and twice the number of the [`Coding`] of the symbols |
//! | each 1 to 10 | LEB128 integers: rows; bytes of their positions; entries; bytes of their positions; escaped numbers |
//! | | positions of the rows, positions of the entries |
//! | | scales or centres, escaped numbers as LEB128, symbols |
//!
//! A block of projected rows begins with the seed of their basis (u64, little-endian), and has as
//! many values in a row as the basis has vectors.

use super::candidates::Candidates;
use super::payload::{self, Coding, Form};
use super::selection::Selected;
use crate::codec::buffer::Buffer;
use crate::codec::frame::{CodecId, Header};
use crate::codec::positions::{self, Places, PositionCode};
use crate::codec::values::Quantizer;
use crate::codec::varint::{self, signed, unsigned};
use crate::codec::writer::FrameWriter;
use crate::codec::{Codec, Randomness};
use crate::table::{TableShape, TableUpdate};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::memory;
use fedrecsim_scenario::{CompositionSpec, ScaleSpec};
use std::borrow::Cow;

/// The parts of a block, as bytes.
#[derive(Debug, Default)]
pub(super) struct Body {
    description: Vec<u8>,
    index: Vec<u8>,
    /// The scales and the escaped numbers.
    scales: Vec<u8>,
    values: Vec<u8>,
}

/// The input of a receiver.
#[derive(Debug)]
pub(super) struct Decoded {
    /// The rows that are sent, ascending.
    pub rows: Vec<u32>,
    /// Their values, row after row. Values that were not sent are 0.
    pub values: Buffer,
}

/// The part of the candidates that is sent.
struct Sent<'a> {
    /// The rows.
    rows: Cow<'a, [u32]>,
    /// The positions of the values among all values of these rows; `None` if all are sent.
    entries: Option<Cow<'a, [u32]>>,
    /// The number of values of each row.
    lengths: Vec<usize>,
}

impl<'a> Sent<'a> {
    /// Returns what is sent of `candidates`. If differences are sent, rows without a selected value
    /// are left out, since a difference that is not sent is 0.
    fn of(delta: bool, candidates: &'a Candidates, selected: Option<&'a Selected>) -> Self {
        let Candidates { rows, columns, .. } = candidates;
        let Some(Selected { places, seed }) = selected else {
            return Self {
                rows: rows.into(),
                entries: None,
                lengths: vec![*columns; rows.len()],
            };
        };
        let lengths = lengths_of(places, rows.len(), *columns);
        // A seed names the positions among the values of all rows.
        if seed.is_some() || !delta {
            return Self {
                rows: rows.into(),
                entries: Some(places.into()),
                lengths,
            };
        }
        let (mut kept, mut entries) = (Vec::new(), Vec::with_capacity(places.len()));
        let mut rest = &places[..];
        for (position, (&row, &length)) in rows.iter().zip(&lengths).enumerate() {
            if length > 0 {
                let shift = ((position - kept.len()) * columns) as u32;
                let of_row;
                (of_row, rest) = rest.split_at(length);
                entries.extend(of_row.iter().map(|entry| entry - shift));
                kept.push(row);
            }
        }
        Self {
            rows: kept.into(),
            entries: Some(entries.into()),
            lengths: lengths.into_iter().filter(|length| *length > 0).collect(),
        }
    }
}

impl Body {
    /// Encodes the selected values of the candidates. Values that the receiver does not get stay in
    /// the candidates.
    ///
    /// # Errors
    /// [`Error::Unrepresentable`] for a value that cannot be represented.
    pub(crate) fn encode(
        spec: &CompositionSpec,
        candidates: &mut Candidates,
        selected: Option<Selected>,
        shape: TableShape,
        randomness: Randomness,
    ) -> Result<Self> {
        let mut body = Self::default();
        let quantizer = Quantizer::of(spec);
        let code = spec.position_code();
        let Sent {
            rows,
            entries,
            lengths,
        } = Sent::of(spec.delta, candidates, selected.as_ref());
        let count = lengths.iter().sum();
        let places = Places {
            held: &rows,
            universe: shape.rows,
        };
        let rows_code = positions::write(&places, code, &mut body.index);
        let rows_bytes = body.index.len();
        let mut entries_code = PositionCode::All;
        if let Some(entries) = &entries {
            let places = Places {
                held: entries,
                universe: rows.len() * shape.dimension,
            };
            entries_code = match selected.as_ref().and_then(|selected| selected.seed) {
                Some(seed) if code.is_none() => {
                    positions::write_seed(seed, &places, &mut body.index)
                }
                _ => positions::write(&places, code, &mut body.index),
            };
        }
        let (rows, lists_entries) = (rows.len(), entries.is_some());
        let groups = groups((quantizer, spec.scale), lengths, lists_entries);
        let stream = |name: &str| randomness.stream(name);
        let quantized = match &selected {
            None => quantizer.quantise(&mut candidates.values, &groups, stream)?,
            Some(Selected { places, .. }) => {
                let all = &mut candidates.values;
                let own = places.iter().map(|place| all[*place as usize]);
                let mut values: Buffer = own.collect();
                let quantized = quantizer.quantise(&mut values, &groups, stream)?;
                for (place, left_out) in places.iter().zip(values.iter()) {
                    all[*place as usize] = *left_out;
                }
                quantized
            }
        };
        body.scales = quantized.scales;
        for steps in &quantized.escaped {
            varint::write(&mut body.scales, unsigned(*steps));
        }
        let coding;
        (coding, body.values) = payload::coded(
            quantized.symbols,
            Form::of(quantizer, &groups),
            spec.entropy,
        )?;
        let entries_bytes = body.index.len() - rows_bytes;
        body.description.extend([
            quantizer.number(),
            rows_code as u8 | (entries_code as u8) << 4,
            u8::from(lists_entries) | (coding as u8) << 1,
        ]);
        let escaped = quantized.escaped.len();
        for number in [rows, rows_bytes, count, entries_bytes, escaped] {
            varint::write(&mut body.description, number as u64);
        }
        Ok(body)
    }

    /// Puts a seed in front of the block.
    pub(crate) fn begin_with_seed(&mut self, seed: u64) {
        self.description.splice(0..0, seed.to_le_bytes());
    }

    /// Appends the block to `frame`.
    pub(crate) fn write(&self, update: &TableUpdate, frame: &mut FrameWriter) {
        let parts = [&self.description, &self.index, &self.scales, &self.values];
        let count = parts.iter().map(|part| part.len()).sum();
        let header = Header::of(update, CodecId::Composed, PositionCode::All, count);
        let bytes = frame.begin_block(header, 0);
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        frame.count_within_block(self.description.len(), self.index.len());
    }

    /// Decodes a block of `shape`.
    ///
    /// # Errors
    /// [`Error::Frame`] for anything but a well-formed block of this composition.
    pub(crate) fn decode(
        spec: &CompositionSpec,
        bytes: &[u8],
        shape: TableShape,
    ) -> Result<Decoded> {
        let refuse = |reason: &str| Error::Frame(format!("a composed block {reason}"));
        let cut_off = || refuse("is cut off");
        let quantizer = Quantizer::of(spec);
        let (&[representation, codes, flags], mut rest) =
            bytes.split_first_chunk::<3>().ok_or_else(cut_off)?;
        if representation != quantizer.number() {
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
        let listed = flags & 1 != 0;
        if (!listed && entries != universe) || entries > universe || escaped > entries {
            return Err(refuse(
                "has another number of values than its rows have room for",
            ));
        }
        let (mut places, mut lengths) = (None, vec![shape.dimension; rows.len()]);
        if listed {
            let listed = positions::read(entries_code, entries_part, entries, universe)?;
            lengths = lengths_of(&listed, rows.len(), shape.dimension);
            places = Some(listed);
        } else {
            positions::check_all(entries_code, entries_part)?;
        }
        let groups = groups((quantizer, spec.scale), lengths, listed);
        let scale_bytes = quantizer.scale_bytes(&groups);
        let (scales, mut rest) = rest
            .split_at_checked(scale_bytes)
            .ok_or_else(payload::wrong)?;
        let mut steps = Vec::with_capacity(escaped.min(rest.len()));
        for _ in 0..escaped {
            steps.push(signed(varint::read(&mut rest)?));
        }
        let symbols = payload::read(rest, Form::of(quantizer, &groups), coding)?;
        let mut values = quantizer.restore(&symbols, &groups, scales, &steps)?;
        if let Some(places) = places {
            let mut whole = Buffer::default();
            memory::reserve(&mut whole, universe, "the values of a composed block")?;
            whole.resize(universe, 0.0);
            for (place, value) in places.iter().zip(values.iter()) {
                whole[*place as usize] = *value;
            }
            values = whole;
        }
        Ok(Decoded { rows, values })
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

/// Returns the lengths of the groups of values that have a scale each, or are put into clusters: rows
/// or, where entries are listed, each of these.
fn groups(
    (quantizer, scale): (Quantizer, ScaleSpec),
    lengths: Vec<usize>,
    lists_entries: bool,
) -> Vec<usize> {
    match scale {
        _ if lists_entries && matches!(quantizer, Quantizer::Centroids(_)) => {
            vec![1; lengths.iter().sum()]
        }
        _ if matches!(quantizer, Quantizer::Centroids(_)) => lengths,
        ScaleSpec::Row => lengths,
        ScaleSpec::Block => vec![lengths.iter().sum()],
    }
}
