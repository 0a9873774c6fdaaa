//! Holds the rows of a participation, padded to whole lane vectors.

use crate::kernel::lane_math::{LANES, Lanes};

/// Holds sixteen values on a cache line of their own.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(64))]
pub struct Block(pub Lanes);

impl Block {
    /// Holds sixteen zeros.
    pub(crate) const ZERO: Self = Self([0.0; LANES]);
}

/// The largest latent dimension that the kernels are built for.
pub const MAX_DIMENSION: usize = 16 * LANES;

/// Returns the number of lane vectors that hold `dimension` values, rounded up to a number that a
/// kernel is built for: 1, 2, 3, 4, 8 or 16. `dimension` is at most [`MAX_DIMENSION`]; scenarios
/// with more are refused.
pub(crate) const fn padded_vectors(dimension: usize) -> usize {
    match dimension.div_ceil(LANES) {
        0 | 1 => 1,
        vectors @ 2..=4 => vectors,
        5..=8 => 8,
        _ => 16,
    }
}

/// Returns `values` (k of them) in lane vectors, padded with zeros.
pub fn packed_vector(values: &[f32]) -> Vec<Block> {
    let mut blocks = vec![Block::ZERO; padded_vectors(values.len())];
    pack_into(values, &mut blocks);
    blocks
}

/// Writes `values` to the front of `blocks`. The rest must be zero already.
#[inline]
pub(super) fn pack_into(values: &[f32], blocks: &mut [Block]) {
    let (whole, rest) = values.as_chunks::<LANES>();
    let (front, back) = blocks.split_at_mut(whole.len());
    match (whole, front) {
        // The common widths by value: a copy of known length is a few moves, a loop would become a
        // call.
        ([first], [to]) => to.0 = *first,
        ([first, second], [to, to_second]) => (to.0, to_second.0) = (*first, *second),
        (whole, front) => front
            .iter_mut()
            .zip(whole)
            .for_each(|(block, chunk)| block.0 = *chunk),
    }
    for (value, slot) in rest
        .iter()
        .zip(back.iter_mut().flat_map(|block| &mut block.0))
    {
        *slot = *value;
    }
}

/// Reads the first `values.len()` values out of `blocks`.
#[inline]
pub fn unpack_into(blocks: &[Block], values: &mut [f32]) {
    let (whole, rest) = values.as_chunks_mut::<LANES>();
    let (front, back) = blocks.split_at(whole.len());
    match (whole, front) {
        ([to], [first]) => *to = first.0,
        ([to, to_second], [first, second]) => (*to, *to_second) = (first.0, second.0),
        (whole, front) => whole
            .iter_mut()
            .zip(front)
            .for_each(|(chunk, block)| *chunk = block.0),
    }
    for (value, slot) in rest.iter_mut().zip(back.iter().flat_map(|block| &block.0)) {
        *value = *slot;
    }
}

/// Holds rows of one table, or of several side by side, that were gathered for training.
///
/// They are stored row after row. A row has one padded vector of k values for each table, so that
/// the values which are read together are adjacent. The number of rows is padded to a multiple of
/// sixteen with zero rows.
#[derive(Clone, Debug, Default)]
pub struct PackedRows {
    /// The blocks of the rows, followed by unused blocks of larger problems, so that growing again
    /// clears nothing.
    blocks: Vec<Block>,
    /// The number of blocks that belong to the rows.
    used: usize,
    vectors: usize,
    tables: usize,
    rows: usize,
}

impl PackedRows {
    /// Makes room for `rows` rows of `tables` tables of `dimension` columns, all zero. Keeps its
    /// allocation.
    pub fn reset(&mut self, rows: usize, dimension: usize, tables: usize) {
        self.shape_for(rows, dimension, tables);
        self.blocks_mut().fill(Block::ZERO);
    }

    /// Makes room as [`Self::reset`] does, for a caller that will set every row of every table.
    /// Only what the caller cannot reach (padding lanes and padding rows) is zero, and the rows
    /// themselves hold anything.
    pub fn reset_for_overwriting(&mut self, rows: usize, dimension: usize, tables: usize) {
        self.shape_for(rows, dimension, tables);
        if dimension.is_multiple_of(LANES) && dimension / LANES == self.vectors {
            let padding = rows * self.vectors * tables;
            self.blocks_mut()[padding..].fill(Block::ZERO);
        } else {
            self.blocks_mut().fill(Block::ZERO);
        }
    }

    fn shape_for(&mut self, rows: usize, dimension: usize, tables: usize) {
        self.vectors = padded_vectors(dimension);
        self.tables = tables;
        self.rows = rows;
        self.used = rows.next_multiple_of(LANES) * self.vectors * tables;
        if self.blocks.len() < self.used {
            self.blocks.resize(self.used, Block::ZERO);
        }
    }

    /// Returns the number of lane vectors in a row of one table.
    pub fn vectors(&self) -> usize {
        self.vectors
    }

    /// Returns the number of rows, without those of the padding.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of tables side by side.
    pub(crate) fn tables(&self) -> usize {
        self.tables
    }

    /// Returns all blocks, padding rows included.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks[..self.used]
    }

    /// Returns all blocks, padding rows included, to be changed.
    pub(crate) fn blocks_mut(&mut self) -> &mut [Block] {
        &mut self.blocks[..self.used]
    }

    /// Returns row `row` of table `table`, padded.
    #[inline]
    pub fn row(&self, row: usize, table: usize) -> &[Block] {
        let start = (row * self.tables + table) * self.vectors;
        &self.blocks[start..start + self.vectors]
    }

    /// Returns row `row` of table `table`, padded, to be changed. The padding has to stay zero.
    #[inline]
    pub fn row_mut(&mut self, row: usize, table: usize) -> &mut [Block] {
        let start = (row * self.tables + table) * self.vectors;
        &mut self.blocks[start..start + self.vectors]
    }

    /// Sets row `row` of table `table` to `scale` times `values` (k of them).
    #[inline]
    pub fn set_row(&mut self, row: usize, table: usize, values: &[f32], scale: f32) {
        let blocks = self.row_mut(row, table);
        pack_into(values, blocks);
        if scale != 1.0 {
            for block in blocks {
                for value in &mut block.0 {
                    *value *= scale;
                }
            }
        }
    }

    /// Multiplies every row of table `table` by `factor`, except the rows `except` (ascending).
    pub fn scale_rows_except(&mut self, table: usize, except: &[u32], factor: f32) {
        let mut except = except.iter().copied().peekable();
        for row in 0..self.rows {
            if except.next_if_eq(&(row as u32)).is_some() {
                continue;
            }
            for value in self
                .row_mut(row, table)
                .iter_mut()
                .flat_map(|block| &mut block.0)
            {
                *value *= factor;
            }
        }
    }

    /// Sets row `row` of `table` to zero.
    pub fn clear_row(&mut self, row: usize, table: usize) {
        self.row_mut(row, table).fill(Block::ZERO);
    }

    /// Sets every row of `table` to zero.
    pub fn clear_table(&mut self, table: usize) {
        for row in 0..self.rows {
            self.clear_row(row, table);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_comes_back_as_it_was_set_whatever_its_length() {
        for dimension in [1, 7, 16, 17, 33, 64, 100, 256] {
            let values: Vec<f32> = (0..dimension).map(|i| i as f32 + 1.0).collect();
            let mut rows = PackedRows::default();
            rows.reset(3, dimension, 2);
            rows.set_row(2, 1, &values, 0.5);
            let mut back = vec![0.0; dimension];
            unpack_into(rows.row(2, 1), &mut back);
            assert!(back.iter().zip(&values).all(|(b, v)| *b == 0.5 * v));
            assert!(rows.row(2, 0).iter().all(|block| *block == Block::ZERO));
        }
    }

    #[test]
    fn bytes_leave_out_the_padding() {
        let mut rows = PackedRows::default();
        rows.reset(2, 17, 2);
        let values: Vec<f32> = (0..17).map(|i| i as f32).collect();
        rows.set_row(1, 1, &values, 1.0);
        let mut bytes = vec![9; 300];
        assert_eq!(
            rows.copy_bytes(2, 17, 1, &mut bytes),
            16.0,
            "the largest magnitude"
        );
        assert_eq!(bytes.len(), 2 * 17 * 4);
        assert!(bytes[..17 * 4].iter().all(|byte| *byte == 0));
        assert_eq!(
            bytes[17 * 4..],
            values
                .iter()
                .flat_map(|v| v.to_le_bytes())
                .collect::<Vec<u8>>()
        );
    }

    #[test]
    fn scaling_spares_the_excepted_rows_and_the_other_table() {
        let mut rows = PackedRows::default();
        rows.reset(4, 1, 2);
        for row in 0..4 {
            rows.set_row(row, 0, &[1.0], 1.0);
            rows.set_row(row, 1, &[1.0], 1.0);
        }
        rows.scale_rows_except(1, &[0, 2], 3.0);
        let firsts = |table| [0, 1, 2, 3].map(|row| rows.row(row, table)[0].0[0]);
        assert_eq!((firsts(0), firsts(1)), ([1.0; 4], [1.0, 3.0, 1.0, 3.0]));
    }

    #[test]
    fn the_largest_magnitude_sees_negative_and_non_finite_values() {
        let mut rows = PackedRows::default();
        rows.reset(2, 2, 1);
        let largest = |rows: &PackedRows| rows.copy_bytes(2, 2, 0, &mut Vec::new());
        rows.set_row(0, 0, &[1.0, -3.0], 1.0);
        assert_eq!(largest(&rows), 3.0);
        rows.set_row(1, 0, &[f32::NEG_INFINITY, 0.0], 1.0);
        assert_eq!(largest(&rows), f32::INFINITY);
        rows.set_row(0, 0, &[f32::NAN, 0.0], 1.0);
        assert!(largest(&rows).is_nan());
    }
}
