//! The shared item table, and what a client or a server says about it.
//!
//! A [`Table`] is what a method trains and a server averages; a [`TableUpdate`] says a whole table briefly, by the rows
//! that differ from what both sides have, and is what a [codec](crate::codec) makes bytes of.

use std::sync::Arc;

pub use update::{RowSet, TableUpdate};

mod update;

/// Bytes of one value: IEEE 754 single precision.
pub const VALUE_BYTES: usize = size_of::<f32>();

/// Shape of an item table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableShape {
    /// Number of rows (items, m).
    pub rows: usize,
    /// Number of columns (latent dimensions, k).
    pub dimension: usize,
}

impl std::fmt::Display for TableShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} x {}", self.rows, self.dimension)
    }
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
    shape: TableShape,
    values: Vec<f32>,
}

/// A table that several actors read.
pub type SharedTable = Arc<Table>;

impl Table {
    /// All zeros.
    pub fn zeros(shape: TableShape) -> Self {
        Self { shape, values: vec![0.0; shape.values()] }
    }

    /// From row-major values; `None` unless there are exactly m k of them.
    pub fn from_values(shape: TableShape, values: Vec<f32>) -> Option<Self> {
        (values.len() == shape.values()).then_some(Self { shape, values })
    }

    /// Filled row by row, so that the draw of a row does not depend on the layout in memory.
    pub fn from_fn(shape: TableShape, mut value: impl FnMut() -> f32) -> Self {
        Self { shape, values: (0..shape.values()).map(|_| value()).collect() }
    }

    /// The shape.
    pub fn shape(&self) -> TableShape {
        self.shape
    }

    /// Row `row`, k values.
    #[inline]
    pub fn row(&self, row: usize) -> &[f32] {
        let k = self.shape.dimension;
        &self.values[row * k..(row + 1) * k]
    }

    /// All values, row-major.
    #[inline]
    pub fn as_slice(&self) -> &[f32] {
        &self.values
    }

    /// All values, row-major, for writing.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [f32] {
        &mut self.values
    }
}

/// Reads values from the layout of the wire; bytes short of a whole value at the end are left out.
#[inline]
pub fn floats(bytes: &[u8]) -> impl ExactSizeIterator<Item = f32> {
    bytes.as_chunks().0.iter().map(|&value| f32::from_le_bytes(value))
}

/// Appends values in the layout of the wire.
pub fn extend_bytes(out: &mut Vec<u8>, values: &[f32]) {
    extend_scaled_bytes(out, values, 1.0);
}

/// Appends `scale` times the values in the layout of the wire; with a scale of 1 the values themselves.
fn extend_scaled_bytes(out: &mut Vec<u8>, values: &[f32], scale: f32) {
    // In blocks, so that what `resize` zeroes is still in L1 when it is overwritten.
    for values in values.chunks(256) {
        let start = out.len();
        out.resize(start + VALUE_BYTES * values.len(), 0);
        let (bytes, _) = out[start..].as_chunks_mut();
        if scale == 1.0 {
            // Not a multiplication by one: that would quieten signalling NaNs.
            bytes.iter_mut().zip(values).for_each(|(bytes, value)| *bytes = value.to_le_bytes());
        } else {
            bytes.iter_mut().zip(values).for_each(|(bytes, value)| *bytes = (value * scale).to_le_bytes());
        }
    }
}
