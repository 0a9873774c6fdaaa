//! Holds tables of values, and updates of them.
//!
//! A [`Table`] is trained by a method and averaged by a server. A [`TableUpdate`] describes a whole
//! table by the rows that differ from what both sides have. A [codec](crate::codec) encodes
//! updates.

use std::sync::Arc;

use ndarray::{Array2, ArrayView2, ArrayViewMut2};
pub use update::{RowSet, TableUpdate};

use super::kernel::little_endian_bytes;
use crate::per_instruction_set;
use fedrecsim_core::memory;

mod update;

/// The number of bytes of one value in IEEE 754 single precision.
pub const VALUE_BYTES: usize = size_of::<f32>();

/// Says how the values of a block are represented, in memory and on the wire (little-endian). The
/// discriminant is the code of the type in a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValueType {
    /// IEEE 754 single precision.
    #[default]
    F32 = 0,
    /// 32-bit unsigned integers.
    U32 = 1,
    /// 64-bit unsigned integers.
    U64 = 2,
    /// Bytes that only the method can interpret.
    Bytes = 3,
}

impl ValueType {
    /// Returns the number of bytes of one value.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::U32 => 4,
            Self::U64 => 8,
            Self::Bytes => 1,
        }
    }
}

/// Holds the shape of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableShape {
    /// The number m of rows, which is that of the items in an item table.
    pub rows: usize,
    /// The number k of columns, which is the latent dimension in an item table.
    pub dimension: usize,
}

impl std::fmt::Display for TableShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} x {}", self.rows, self.dimension)
    }
}

impl TableShape {
    /// Returns the shape of a table of this many rows and columns.
    pub const fn new(rows: usize, dimension: usize) -> Self {
        Self { rows, dimension }
    }

    /// Returns the number of values, m k.
    pub const fn values(self) -> usize {
        self.rows * self.dimension
    }

    /// Returns room for the values of a table. It unwinds if there is no memory for them.
    fn room(self) -> Vec<f32> {
        let mut values = Vec::new();
        memory::reserve_or_unwind(
            &mut values,
            self.values(),
            format_args!("a table of {self} values"),
        );
        values
    }
}

/// Holds a dense table of single-precision values (m x k, row-major). An item table has a row for
/// every item, and a layer of a network has one for every output. A shared table is copied on
/// write.
///
/// A method can use it as an [`ndarray::Array2`] in standard layout, by [`Table::view`]. It is
/// stored as its shape and values, because the hot loops take rows as slices, and an array would
/// check its strides for each of them.
#[derive(Debug, PartialEq)]
pub struct Table {
    shape: TableShape,
    values: Vec<f32>,
}

impl Clone for Table {
    fn clone(&self) -> Self {
        let mut values = self.shape.room();
        values.extend_from_slice(&self.values);
        Self {
            shape: self.shape,
            values,
        }
    }
}

/// A table that several actors read.
pub type SharedTable = Arc<Table>;

impl Table {
    /// Makes a table of zeros.
    pub fn zeros(shape: TableShape) -> Self {
        let mut values = shape.room();
        values.resize(shape.values(), 0.0);
        Self { shape, values }
    }

    /// Makes a table of row-major values.
    ///
    /// # Panics
    /// If there are not exactly m k of them, which is a defect of the caller.
    pub fn new(shape: TableShape, values: Vec<f32>) -> Self {
        assert_eq!(
            values.len(),
            shape.values(),
            "the values of a {shape} table"
        );
        Self { shape, values }
    }

    /// Makes a table of the values that `value` returns, row by row.
    pub fn from_fn(shape: TableShape, mut value: impl FnMut() -> f32) -> Self {
        let mut values = shape.room();
        values.extend((0..shape.values()).map(|_| value()));
        Self { shape, values }
    }

    /// Makes a table from an array (m x k) of any memory order.
    pub fn from_array(array: &Array2<f32>) -> Self {
        let shape = TableShape {
            rows: array.nrows(),
            dimension: array.ncols(),
        };
        Self::new(shape, array.iter().copied().collect())
    }

    /// Returns the shape.
    pub fn shape(&self) -> TableShape {
        self.shape
    }

    /// Returns the table as an array (m x k) to read.
    pub fn view(&self) -> ArrayView2<'_, f32> {
        let array =
            ArrayView2::from_shape((self.shape.rows, self.shape.dimension), &self.values[..]);
        // A table has as many values as its shape says, so that this cannot fail.
        array.unwrap_or_else(|_| ArrayView2::from(&[[]; 0]))
    }

    /// Returns the table as an array (m x k) to write to.
    pub fn view_mut(&mut self) -> ArrayViewMut2<'_, f32> {
        let array = ArrayViewMut2::from_shape(
            (self.shape.rows, self.shape.dimension),
            &mut self.values[..],
        );
        array.unwrap_or_else(|_| ArrayViewMut2::from(&mut [[]; 0]))
    }

    /// Returns row `row`, k values.
    #[inline]
    pub fn row(&self, row: usize) -> &[f32] {
        let k = self.shape.dimension;
        &self.values[row * k..(row + 1) * k]
    }

    /// Returns row `row`, k values, to write to.
    #[inline]
    pub fn row_mut(&mut self, row: usize) -> &mut [f32] {
        let k = self.shape.dimension;
        &mut self.values[row * k..(row + 1) * k]
    }

    /// Returns the values of `rows`, row after row.
    pub fn gathered(&self, rows: &[u32]) -> Vec<f32> {
        let mut values = Vec::with_capacity(rows.len() * self.shape.dimension);
        rows.iter()
            .for_each(|row| values.extend_from_slice(self.row(*row as usize)));
        values
    }

    /// Returns all values, row-major.
    #[inline]
    pub fn as_slice(&self) -> &[f32] {
        &self.values
    }

    /// Returns all values, row-major, to write to.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [f32] {
        &mut self.values
    }
}

/// Returns the values in `bytes`, which have the layout of the wire. An incomplete value at the end
/// is left out.
#[inline]
pub fn floats(bytes: &[u8]) -> impl ExactSizeIterator<Item = f32> {
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|&value| f32::from_le_bytes(value))
}

/// Appends values in the layout of the wire.
pub fn extend_bytes(out: &mut Vec<u8>, values: &[f32]) {
    out.extend_from_slice(&little_endian_bytes(values));
}

/// Appends `scale` times the values in the layout of the wire. With a scale of 1 the bits do not
/// change.
fn extend_scaled_bytes(out: &mut Vec<u8>, values: &[f32], scale: f32) {
    if scale == 1.0 {
        // A multiplication by one would quieten signalling NaNs.
        return extend_bytes(out, values);
    }
    // Each block is made on the stack, so that its room in `out` need not be zeroed first.
    let mut block = [[0; VALUE_BYTES]; 256];
    out.reserve(VALUE_BYTES * values.len());
    for values in values.chunks(block.len()) {
        let bytes = &mut block[..values.len()];
        bytes
            .iter_mut()
            .zip(values)
            .for_each(|(bytes, value)| *bytes = (value * scale).to_le_bytes());
        out.extend_from_slice(bytes.as_flattened());
    }
}

per_instruction_set! {
    /// Writes rows of `width` bytes to their places in `table`.
    fn overwrite_rows(table: &mut [u8], rows: &[u32], values: &[u8], width: usize) {
        match width {
            // With a constant width a copy is a few moves instead of a call.
            64 => overwrite_rows_inline::<64>(table, rows, values),
            128 => overwrite_rows_inline::<128>(table, rows, values),
            256 => overwrite_rows_inline::<256>(table, rows, values),
            0 => {}
            _ => {
                for (row, values) in rows.iter().zip(values.chunks_exact(width)) {
                    table[*row as usize * width..][..width].copy_from_slice(values);
                }
            }
        }
    }
}

#[inline(always)]
fn overwrite_rows_inline<const WIDTH: usize>(table: &mut [u8], rows: &[u32], values: &[u8]) {
    let table = table.as_chunks_mut::<WIDTH>().0;
    for (row, values) in rows.iter().zip(values.as_chunks::<WIDTH>().0) {
        table[*row as usize] = *values;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::counting_table;

    #[test]
    fn a_table_and_an_array_are_the_same_values_in_the_same_order() {
        let shape = TableShape {
            rows: 2,
            dimension: 3,
        };
        let mut table = counting_table(shape, 1.0);
        assert_eq!(table.view().row(1).to_vec(), table.row(1));
        table.view_mut()[[0, 2]] = 9.0;
        assert_eq!(table.as_slice(), [1.0, 2.0, 9.0, 4.0, 5.0, 6.0]);
        let transposed = Table::from_array(&table.view().reversed_axes().to_owned());
        assert_eq!(
            transposed.shape(),
            TableShape {
                rows: 3,
                dimension: 2
            }
        );
        assert_eq!(
            transposed.as_slice(),
            [1.0, 4.0, 2.0, 5.0, 9.0, 6.0],
            "a transposed array is copied into rows"
        );
        assert_eq!(Table::from_array(&table.view().to_owned()), table);
    }
}
