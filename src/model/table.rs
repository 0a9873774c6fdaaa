//! The shared item table, and what a client or a server says about it.

use std::sync::Arc;

use ndarray::{Array2, ArrayView1};

/// Shape of an item table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableShape {
    /// Number of rows (items, m).
    pub rows: usize,
    /// Number of columns (latent dimensions, k).
    pub dimension: usize,
}

impl TableShape {
    /// Number of values, m k.
    pub const fn values(self) -> usize {
        self.rows * self.dimension
    }
}

/// A dense item table (m x k, row-major). Immutable once it is shared: every round has its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    values: Array2<f32>,
}

/// A table that several actors read.
pub type SharedTable = Arc<Table>;

impl Table {
    /// All zeros.
    pub fn zeros(shape: TableShape) -> Self {
        Self { values: Array2::zeros((shape.rows, shape.dimension)) }
    }

    /// From row-major values; `None` unless there are exactly m k of them.
    pub fn from_values(shape: TableShape, values: Vec<f32>) -> Option<Self> {
        Array2::from_shape_vec((shape.rows, shape.dimension), values).ok().map(|values| Self { values })
    }

    /// Filled row by row, so that the draw of a row does not depend on the layout in memory.
    pub fn from_fn(shape: TableShape, mut value: impl FnMut() -> f32) -> Self {
        Self { values: Array2::from_shape_simple_fn((shape.rows, shape.dimension), &mut value) }
    }

    /// The shape.
    pub fn shape(&self) -> TableShape {
        TableShape { rows: self.values.nrows(), dimension: self.values.ncols() }
    }

    /// Row `row`, k values.
    #[inline]
    pub fn row(&self, row: usize) -> &[f32] {
        let k = self.values.ncols();
        &self.as_slice()[row * k..(row + 1) * k]
    }

    /// Row `row` as an ndarray view.
    pub fn row_view(&self, row: usize) -> ArrayView1<'_, f32> {
        self.values.row(row)
    }

    /// All values, row-major.
    #[inline]
    pub fn as_slice(&self) -> &[f32] {
        // Every constructor builds standard (row-major, contiguous) layout.
        self.values.as_slice().unwrap_or(&[])
    }

    /// All values, row-major, for writing.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [f32] {
        self.values.as_slice_mut().unwrap_or(&mut [])
    }
}

/// Which rows a [`TableUpdate`] lists.
#[derive(Clone, Debug, PartialEq)]
pub enum RowSet {
    /// Every row, in order.
    All,
    /// These rows, strictly ascending.
    Listed(Vec<u32>),
}

impl RowSet {
    /// Number of rows listed, in a table of this shape.
    pub fn len(&self, shape: TableShape) -> usize {
        match self {
            Self::All => shape.rows,
            Self::Listed(rows) => rows.len(),
        }
    }
}

/// A whole table, said briefly: the listed rows with their values; every other row is `others_scale` times
/// the same row of the base, which sender and receiver both have.
#[derive(Clone, Debug, PartialEq)]
pub struct TableUpdate {
    /// Shape of the whole table.
    pub shape: TableShape,
    /// The rows listed.
    pub rows: RowSet,
    /// Their values, row after row (rows x k), little-endian IEEE 754 single precision: the layout of the
    /// wire, so that lossless codecs neither convert nor copy on receipt.
    pub values: bytes::Bytes,
    /// Factor of all rows that are not listed.
    pub others_scale: f32,
}
