//! Passes over packed rows: gathering them, and taking them away again, as rows or as bytes, with their largest magnitude.
//!
//! Each does nothing but move values, so what bounds it is the width of a move: they are compiled like the training
//! kernels. A caller that takes rows away also checks them for divergence, which costs least while they are in registers.

use std::ops::Range;

use super::for_vectors;
use super::lanes::{Block, PackedRows, pack_into, unpack_into};
use crate::math::{LANES, Lanes};
use crate::model::instruction_sets::per_instruction_set;

/// How far ahead of the row that is moved others are asked for: as many as memory delivers at once.
const ROWS_AHEAD: usize = 16;

/// Where gathered rows come from.
pub trait RowSource {
    /// Returns how many rows there are.
    fn rows(&self) -> usize;

    /// Returns the values of the row that comes to `position` of the packed rows, and the factor that they take.
    fn row(&self, position: usize) -> (&[f32], f32);

    /// Asks for the row that comes to `position` to be brought into the cache, if it is likely not to be there.
    fn ask_for(&self, _position: usize) {}
}

/// Where scattered rows go.
pub trait RowSink {
    /// Returns the place of the row at `position` of the packed rows.
    fn row_mut(&mut self, position: usize) -> &mut [f32];
}

/// Rows of a dense table, which many clients read.
#[derive(Clone, Copy, Debug)]
pub struct TableRows<'a> {
    /// All values, row after row.
    pub values: &'a [f32],
    /// Values of a row (k).
    pub dimension: usize,
    /// The rows that are gathered.
    pub rows: &'a [u32],
}

impl RowSource for TableRows<'_> {
    #[inline(always)]
    fn rows(&self) -> usize {
        self.rows.len()
    }

    #[inline(always)]
    fn row(&self, position: usize) -> (&[f32], f32) {
        let start = self.rows[position] as usize * self.dimension;
        (&self.values[start..start + self.dimension], 1.0)
    }
}

/// One of the tables that packed rows hold side by side.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Lane vectors per row of one table.
    pub vectors: usize,
    /// Tables side by side.
    pub tables: usize,
    /// Which of them.
    pub table: usize,
}

impl Column {
    /// Sets rows of the table to those that `source` has for `positions`, times their factors. `blocks` begin with the
    /// packed row of the first position.
    pub fn gather<S: RowSource>(self, blocks: &mut [Block], positions: Range<usize>, source: &S) {
        let Self { vectors, tables, table } = self;
        for_vectors!(vectors, gather[S](blocks, tables, table, positions, source));
    }
}

impl PackedRows {
    /// Returns where table `table` stands.
    pub fn column(&self, table: usize) -> Column {
        Column { vectors: self.vectors(), tables: self.tables(), table }
    }

    /// Sets the first rows of table `table` to those of `source`, times their factors.
    pub fn gather<S: RowSource>(&mut self, table: usize, source: &S) {
        self.column(table).gather(self.blocks_mut(), 0..source.rows(), source);
    }

    /// Writes the first `rows` rows of table `table` to `sink`, and returns the largest magnitude in them; NaN if they
    /// hold one.
    pub fn scatter<S: RowSink>(&self, table: usize, rows: usize, sink: &mut S) -> f32 {
        for_vectors!(self.vectors(), scatter[S](self.blocks(), self.tables(), table, rows, sink))
    }

    /// Replaces `bytes` by the first `rows` rows of table `table`, `dimension` (at least 1) values each, little-endian.
    /// Returns the largest magnitude in them; NaN if they hold one.
    pub fn copy_bytes(&self, rows: usize, dimension: usize, table: usize, bytes: &mut Vec<u8>) -> f32 {
        bytes.clear();
        bytes.reserve(rows * dimension * 4);
        for_vectors!(self.vectors(), copy_bytes[](self.blocks(), self.tables(), table, rows, dimension, bytes))
    }
}

per_instruction_set! {
    fn gather<const V: usize, S: RowSource>(
        blocks: &mut [Block],
        tables: usize,
        table: usize,
        positions: Range<usize>,
        source: &S,
    ) {
        gather_inline::<V, S>(blocks, tables, table, positions, source)
    }
}

per_instruction_set! {
    fn scatter<const V: usize, S: RowSink>(
        blocks: &[Block],
        tables: usize,
        table: usize,
        rows: usize,
        sink: &mut S,
    ) -> f32 {
        scatter_inline::<V, S>(blocks, tables, table, rows, sink)
    }
}

per_instruction_set! {
    fn copy_bytes<const V: usize>(
        blocks: &[Block],
        tables: usize,
        table: usize,
        rows: usize,
        dimension: usize,
        bytes: &mut Vec<u8>,
    ) -> f32 {
        copy_bytes_inline::<V>(blocks, tables, table, rows, dimension, bytes)
    }
}

#[allow(clippy::needless_range_loop)] // The form that becomes one vector operation per line.
#[inline(always)]
fn gather_inline<const V: usize, S: RowSource>(
    blocks: &mut [Block],
    tables: usize,
    table: usize,
    positions: Range<usize>,
    source: &S,
) {
    let rows = source.rows();
    for (position, row) in positions.zip(blocks.chunks_exact_mut(V * tables)) {
        if position + ROWS_AHEAD < rows {
            source.ask_for(position + ROWS_AHEAD);
        }
        let (values, scale) = source.row(position);
        let blocks = &mut row[table * V..(table + 1) * V];
        let (whole, rest) = values.as_chunks::<LANES>();
        if whole.len() == V && rest.is_empty() {
            // A factor of 1 changes no value, so that there is no need to ask for it. Sixteen values are read before any
            // is written: the compiler need not know that source and target are apart.
            for v in 0..V {
                let mut lanes = whole[v];
                for i in 0..LANES {
                    lanes[i] *= scale;
                }
                blocks[v].0 = lanes;
            }
        } else {
            pack_into(values, blocks);
            for block in blocks {
                for value in &mut block.0 {
                    *value *= scale;
                }
            }
        }
    }
}

#[allow(clippy::needless_range_loop)]
#[inline(always)]
fn scatter_inline<const V: usize, S: RowSink>(
    blocks: &[Block],
    tables: usize,
    table: usize,
    rows: usize,
    sink: &mut S,
) -> f32 {
    let mut largest = [[0u32; LANES]; V];
    for (position, row) in blocks.chunks_exact(V * tables).take(rows).enumerate() {
        let blocks = &row[table * V..(table + 1) * V];
        note_largest(blocks, &mut largest);
        let values = sink.row_mut(position);
        if values.len() == V * LANES {
            let whole = values.as_chunks_mut::<LANES>().0;
            for v in 0..V {
                whole[v] = blocks[v].0;
            }
        } else {
            unpack_into(blocks, values);
        }
    }
    largest_of(&largest)
}

#[inline(always)]
fn copy_bytes_inline<const V: usize>(
    blocks: &[Block],
    tables: usize,
    table: usize,
    rows: usize,
    dimension: usize,
    bytes: &mut Vec<u8>,
) -> f32 {
    let mut largest = [[0u32; LANES]; V];
    for row in blocks.chunks_exact(V * tables).take(rows) {
        let blocks = &row[table * V..(table + 1) * V];
        note_largest(blocks, &mut largest);
        if dimension == V * LANES {
            blocks.iter().for_each(|block| bytes.extend_from_slice(&little_endian(&block.0)));
        } else {
            let mut rest = 4 * dimension;
            for block in blocks {
                let part = rest.min(4 * LANES);
                bytes.extend_from_slice(&little_endian(&block.0)[..part]);
                rest -= part;
            }
        }
    }
    largest_of(&largest)
}

/// Sixteen values in the layout of the wire; on little-endian machines a plain copy.
#[inline(always)]
fn little_endian(values: &Lanes) -> [u8; 4 * LANES] {
    let mut bytes = [0; 4 * LANES];
    for (bytes, value) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(values) {
        *bytes = value.to_le_bytes();
    }
    bytes
}

/// Raises `largest` to the magnitudes of a row, which order like their bit patterns; every NaN sorts above infinity.
#[allow(clippy::needless_range_loop)]
#[inline(always)]
fn note_largest<const V: usize>(row: &[Block], largest: &mut [[u32; LANES]; V]) {
    for v in 0..V {
        for i in 0..LANES {
            largest[v][i] = largest[v][i].max(row[v].0[i].abs().to_bits());
        }
    }
}

fn largest_of<const V: usize>(largest: &[[u32; LANES]; V]) -> f32 {
    f32::from_bits(largest.iter().flatten().copied().max().unwrap_or(0))
}
