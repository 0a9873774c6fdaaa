//! Passes over packed rows: gathering them, scattering them, reading them as bytes, and finding their largest magnitude.
//!
//! Each does nothing but move values, so what bounds it is the width of a move: they are compiled like the training
//! kernels.

use super::for_vectors;
use super::lanes::{Block, PackedRows, pack_into, unpack_into};
use crate::math::{LANES, Lanes};
use crate::model::instruction_sets::per_instruction_set;

/// How far ahead of the row that is moved others are asked for: as many as memory delivers at once.
const ROWS_AHEAD: usize = 16;

/// Where gathered rows come from.
pub trait RowSource {
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
    fn row(&self, position: usize) -> (&[f32], f32) {
        let start = self.rows[position] as usize * self.dimension;
        (&self.values[start..start + self.dimension], 1.0)
    }
}

impl PackedRows {
    /// Sets the first `rows` rows of table `table` to those of `source`, times their factors.
    pub fn gather<S: RowSource>(&mut self, table: usize, rows: usize, source: &S) {
        let (vectors, tables) = (self.vectors, self.tables);
        for_vectors!(vectors, gather[S](&mut self.blocks, tables, table, rows, source));
    }

    /// Writes the first `rows` rows of table `table` to `sink`.
    pub fn scatter<S: RowSink>(&self, table: usize, rows: usize, sink: &mut S) {
        let (vectors, tables) = (self.vectors, self.tables);
        for_vectors!(vectors, scatter[S](&self.blocks, tables, table, rows, sink));
    }

    /// Replaces `bytes` by the first `rows` rows of table `table`, `dimension` (at least 1) values each,
    /// little-endian.
    pub fn copy_bytes(&self, rows: usize, dimension: usize, table: usize, bytes: &mut Vec<u8>) {
        // What is there already is overwritten, not cleared first.
        bytes.resize(rows * dimension * 4, 0);
        let (vectors, tables) = (self.vectors, self.tables);
        for_vectors!(vectors, copy_bytes[](&self.blocks, tables, table, dimension, bytes));
    }

    /// The largest magnitude in `table`; NaN if it holds one.
    pub fn largest_magnitude(&self, table: usize) -> f32 {
        for_vectors!(self.vectors, largest_magnitude[](&self.blocks, self.tables, table))
    }
}

per_instruction_set! {
    fn gather<const V: usize, S: RowSource>(
        blocks: &mut [Block],
        tables: usize,
        table: usize,
        rows: usize,
        source: &S,
    ) {
        gather_inline::<V, S>(blocks, tables, table, rows, source)
    }
}

per_instruction_set! {
    fn scatter<const V: usize, S: RowSink>(blocks: &[Block], tables: usize, table: usize, rows: usize, sink: &mut S) {
        scatter_inline::<V, S>(blocks, tables, table, rows, sink)
    }
}

per_instruction_set! {
    fn copy_bytes<const V: usize>(blocks: &[Block], tables: usize, table: usize, dimension: usize, bytes: &mut [u8]) {
        copy_bytes_inline::<V>(blocks, tables, table, dimension, bytes)
    }
}

per_instruction_set! {
    fn largest_magnitude<const V: usize>(blocks: &[Block], tables: usize, table: usize) -> f32 {
        largest_magnitude_inline::<V>(blocks, tables, table)
    }
}

#[allow(clippy::needless_range_loop)] // The form that becomes one vector operation per line.
#[inline(always)]
fn gather_inline<const V: usize, S: RowSource>(
    blocks: &mut [Block],
    tables: usize,
    table: usize,
    rows: usize,
    source: &S,
) {
    for (position, row) in blocks.chunks_exact_mut(V * tables).take(rows).enumerate() {
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
) {
    for (position, row) in blocks.chunks_exact(V * tables).take(rows).enumerate() {
        let blocks = &row[table * V..(table + 1) * V];
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
}

#[allow(clippy::needless_range_loop)]
#[inline(always)]
fn copy_bytes_inline<const V: usize>(
    blocks: &[Block],
    tables: usize,
    table: usize,
    dimension: usize,
    bytes: &mut [u8],
) {
    for (row, bytes) in blocks.chunks_exact(V * tables).zip(bytes.chunks_exact_mut(dimension * 4)) {
        let blocks = &row[table * V..(table + 1) * V];
        let (whole, rest) = bytes.as_chunks_mut::<{ 4 * LANES }>();
        if whole.len() == V && rest.is_empty() {
            for v in 0..V {
                whole[v] = little_endian(&blocks[v].0);
            }
        } else {
            let (front, back) = blocks.split_at(whole.len());
            whole.iter_mut().zip(front).for_each(|(bytes, block)| *bytes = little_endian(&block.0));
            if let Some(block) = back.first() {
                rest.copy_from_slice(&little_endian(&block.0)[..rest.len()]);
            }
        }
    }
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

#[allow(clippy::needless_range_loop)]
#[inline(always)]
fn largest_magnitude_inline<const V: usize>(blocks: &[Block], tables: usize, table: usize) -> f32 {
    let mut largest = [[0u32; LANES]; V];
    for row in blocks.chunks_exact(V * tables) {
        let blocks = &row[table * V..(table + 1) * V];
        for v in 0..V {
            for i in 0..LANES {
                // Magnitudes order like their bit patterns, and every NaN sorts above infinity.
                largest[v][i] = largest[v][i].max(blocks[v].0[i].abs().to_bits());
            }
        }
    }
    f32::from_bits(largest.into_iter().flatten().max().unwrap_or(0))
}
