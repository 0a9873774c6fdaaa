//! Moves rows into and out of packed rows, as rows or as bytes, and notes the largest magnitude of
//! the rows that leave.
//!
//! The width of a move bounds these passes, so they are compiled like the training kernels.
//! Checking rows for divergence costs least while they are in registers.

use std::ops::Range;

use super::for_vectors;
use super::lanes::{Block, PackedRows, pack_into, unpack_into};
use crate::instruction_sets::end_of_block;
use crate::kernel::lane_math::{LANES, Lanes};
use crate::per_instruction_set;

/// How many rows prefetching runs ahead of gathering: about as many as memory delivers at once.
const ROWS_AHEAD: usize = 16;

/// Provides the rows that are gathered.
pub trait RowSource {
    /// Returns how many rows there are.
    fn rows(&self) -> usize;

    /// Returns the values of the row that comes to `position` of the packed rows, and the factor
    /// that they take.
    fn row(&self, position: usize) -> (&[f32], f32);

    /// Prefetches the row that comes to `position`, if it is likely not to be in the cache.
    fn prefetch(&self, _position: usize) {}
}

/// Has a place for each row that is scattered.
pub trait RowSink {
    /// Returns the place of the row at `position` of the packed rows.
    fn row_mut(&mut self, position: usize) -> &mut [f32];
}

/// Provides rows of a dense table, which many clients read.
#[derive(Clone, Copy, Debug)]
pub struct TableRows<'a> {
    /// The values of the table, row after row.
    pub values: &'a [f32],
    /// The number of values in a row (k).
    pub dimension: usize,
    /// The numbers of the rows that are gathered.
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

/// Describes one table of several whose rows stand side by side in packed rows.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The number of lane vectors in a row of one table.
    pub vectors: usize,
    /// The number of tables side by side.
    pub tables: usize,
    /// The number of this table.
    pub table: usize,
}

impl Column {
    /// Sets rows of the table to those that `source` has for `positions`, times their factors.
    /// `blocks` begin with the packed row of the first position.
    pub fn gather<S: RowSource>(self, blocks: &mut [Block], positions: Range<usize>, source: &S) {
        for_vectors!(self.vectors, gather[S](blocks, self, positions, source));
    }

    /// Writes the rows of the table at `positions` to `sink`, and notes their magnitudes. `blocks`
    /// begin with the packed row of the first position.
    pub fn scatter<S: RowSink>(
        self,
        blocks: &[Block],
        positions: Range<usize>,
        sink: &mut S,
        largest: &mut LargestMagnitude,
    ) {
        for_vectors!(
            self.vectors,
            scatter[S](blocks, self, positions, sink, largest)
        );
    }

    /// Appends the first `rows` rows of the table in `blocks` to `bytes`, `dimension` (at least 1)
    /// values each, little-endian, and notes their magnitudes.
    pub fn append_bytes(
        self,
        blocks: &[Block],
        rows: usize,
        dimension: usize,
        bytes: &mut Vec<u8>,
        largest: &mut LargestMagnitude,
    ) {
        for_vectors!(self.vectors, append_bytes[](blocks, self, rows, dimension, bytes, largest));
    }

    /// Returns the rows of the table in `blocks`, padded to whole vectors; `V` is the number of
    /// vectors in a row.
    #[inline(always)]
    fn rows_in<const V: usize>(self, blocks: &[Block]) -> impl Iterator<Item = &[Block]> {
        blocks
            .chunks_exact(V * self.tables)
            .map(move |row| &row[self.table * V..(self.table + 1) * V])
    }
}

/// Keeps the largest magnitude of the values that pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct LargestMagnitude {
    /// The largest magnitudes by lane, as bit patterns: magnitudes order like these, and every NaN
    /// comes after infinity.
    lanes: [u32; LANES],
}

impl LargestMagnitude {
    /// Returns the largest magnitude so far: 0 if there was no value, and NaN if one was NaN.
    pub fn value(&self) -> f32 {
        f32::from_bits(self.lanes.iter().copied().fold(0, u32::max))
    }

    /// Notes the values of a row.
    #[inline(always)]
    fn note(&mut self, row: &[Block]) {
        for block in row {
            for (largest, value) in self.lanes.iter_mut().zip(&block.0) {
                *largest = (*largest).max(value.abs().to_bits());
            }
        }
    }
}

impl PackedRows {
    /// Returns where table `table` stands.
    pub fn column(&self, table: usize) -> Column {
        Column {
            vectors: self.vectors(),
            tables: self.tables(),
            table,
        }
    }

    /// Sets the first rows of table `table` to those of `source`, times their factors.
    pub fn gather<S: RowSource>(&mut self, table: usize, source: &S) {
        self.column(table)
            .gather(self.blocks_mut(), 0..source.rows(), source);
    }

    /// Replaces `bytes` by the first `rows` rows of table `table`, `dimension` (at least 1) values
    /// each, little-endian. Returns the largest magnitude in them; NaN if they hold one.
    pub fn copy_bytes(
        &self,
        rows: usize,
        dimension: usize,
        table: usize,
        bytes: &mut Vec<u8>,
    ) -> f32 {
        let mut largest = LargestMagnitude::default();
        bytes.clear();
        bytes.reserve(rows * dimension * 4);
        self.column(table)
            .append_bytes(self.blocks(), rows, dimension, bytes, &mut largest);
        largest.value()
    }
}

per_instruction_set! {
    fn gather<const V: usize, S: RowSource>(
        blocks: &mut [Block],
        column: Column,
        positions: Range<usize>,
        source: &S,
    ) {
        let (rows, start) = (source.rows(), column.table * V);
        for (position, row) in positions.zip(blocks.chunks_exact_mut(V * column.tables)) {
            if position + ROWS_AHEAD < rows {
                source.prefetch(position + ROWS_AHEAD);
            }
            let (values, scale) = source.row(position);
            let blocks = &mut row[start..start + V];
            let (whole, rest) = values.as_chunks::<LANES>();
            if whole.len() == V && rest.is_empty() {
                // A factor of 1 changes no value and needs no branch. Sixteen values are read
                // before any is written, so that the compiler need not prove that source and target
                // are apart.
                for v in 0..V {
                    let mut lanes = whole[v];
                    for i in 0..LANES {
                        lanes[i] *= scale;
                    }
                    blocks[v].0 = lanes;
                    end_of_block();
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
}

per_instruction_set! {
    fn scatter<const V: usize, S: RowSink>(
        blocks: &[Block],
        column: Column,
        positions: Range<usize>,
        sink: &mut S,
        largest: &mut LargestMagnitude,
    ) {
        let mut noted = *largest;
        for (position, row) in positions.zip(column.rows_in::<V>(blocks)) {
            noted.note(row);
            let values = sink.row_mut(position);
            if values.len() == V * LANES {
                let whole = values.as_chunks_mut::<LANES>().0;
                for v in 0..V {
                    whole[v] = row[v].0;
                }
            } else {
                unpack_into(row, values);
            }
        }
        *largest = noted;
    }
}

per_instruction_set! {
    fn append_bytes<const V: usize>(
        blocks: &[Block],
        column: Column,
        rows: usize,
        dimension: usize,
        bytes: &mut Vec<u8>,
        largest: &mut LargestMagnitude,
    ) {
        let mut noted = *largest;
        for row in column.rows_in::<V>(blocks).take(rows) {
            noted.note(row);
            if dimension == V * LANES {
                for block in row {
                    bytes.extend_from_slice(&little_endian(&block.0));
                    end_of_block();
                }
            } else {
                let mut rest = 4 * dimension;
                for block in row {
                    let part = rest.min(4 * LANES);
                    bytes.extend_from_slice(&little_endian(&block.0)[..part]);
                    rest -= part;
                }
            }
        }
        *largest = noted;
    }
}

/// Returns sixteen values in the layout of the wire; on little-endian machines, this is a plain
/// copy.
#[inline(always)]
fn little_endian(values: &Lanes) -> [u8; 4 * LANES] {
    let mut bytes = [0; 4 * LANES];
    for (bytes, value) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(values) {
        *bytes = value.to_le_bytes();
    }
    bytes
}
