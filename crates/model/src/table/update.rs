//! Describes a table by the rows that differ from a base.

use std::ops::Range;

use bytes::Bytes;

use serde::{Deserialize, Serialize};

use super::{
    SharedTable, Table, TableShape, VALUE_BYTES, ValueType, extend_bytes, extend_scaled_bytes,
    floats, overwrite_rows,
};
use crate::kernel::shared_bytes;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::memory;

/// Says which rows a [`TableUpdate`] lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RowSet {
    /// It lists every row, in order.
    All,
    /// It lists these rows, which are strictly ascending.
    Listed(Vec<u32>),
}

impl RowSet {
    /// Returns the number of rows listed, in a table of this shape.
    pub fn len(&self, shape: TableShape) -> usize {
        match self {
            Self::All => shape.rows,
            Self::Listed(rows) => rows.len(),
        }
    }
}

/// Describes a whole table: the listed rows have the given values, and every other row is
/// `others_scale` times the row of the base, which sender and receiver both have.
#[derive(Clone, Debug, PartialEq)]
pub struct TableUpdate {
    /// The shape of the whole table.
    pub shape: TableShape,
    /// The type of the values.
    pub value_type: ValueType,
    /// The rows that are listed.
    pub rows: RowSet,
    /// The values of these rows, row after row (rows x k), in the layout of the wire
    /// (little-endian), so that lossless codecs neither convert nor copy them on receipt.
    pub values: Bytes,
    /// The factor of all rows that are not listed.
    pub others_scale: f32,
}

impl TableUpdate {
    /// Makes an update that lists every row of `table` and shares its memory.
    pub fn whole(table: impl Into<SharedTable>) -> Self {
        let table = table.into();
        let shape = table.shape();
        let values = shared_bytes(table, |table| table.as_slice());
        Self::of_rows(shape, RowSet::All, values)
    }

    /// Makes an update of single precision that lists these rows and leaves the others as they are.
    pub fn of_rows(shape: TableShape, rows: RowSet, values: Bytes) -> Self {
        Self {
            shape,
            value_type: ValueType::F32,
            rows,
            values,
            others_scale: 1.0,
        }
    }

    /// Makes an update that lists every row, with values of any type.
    pub fn raw(shape: TableShape, value_type: ValueType, values: Bytes) -> Self {
        Self {
            value_type,
            ..Self::of_rows(shape, RowSet::All, values)
        }
    }

    /// Makes an update that lists no row: the table stays the same, and a statistic is zero.
    pub fn nothing(shape: TableShape, value_type: ValueType) -> Self {
        Self {
            value_type,
            ..Self::of_rows(shape, RowSet::Listed(Vec::new()), Bytes::new())
        }
    }

    /// Makes an update that lists `rows` (strictly ascending) with their values (rows x k,
    /// row-major). Every other row is `others_scale` times that of the base.
    ///
    /// # Errors
    /// [`Error::Update`] if the rows are not strictly ascending, leave the table, or do not match
    /// the values.
    pub fn listed(
        shape: TableShape,
        rows: Vec<u32>,
        values: &[f32],
        others_scale: f32,
    ) -> Result<Self> {
        let mut bytes = Vec::new();
        memory::reserve(
            &mut bytes,
            VALUE_BYTES * values.len(),
            format_args!("an update of a {shape} table"),
        )?;
        extend_bytes(&mut bytes, values);
        let update = Self {
            others_scale,
            ..Self::of_rows(shape, RowSet::Listed(rows), bytes.into())
        };
        update.check().map(|()| update)
    }

    /// Checks that the rows are strictly ascending and inside the table, and that there are k
    /// values for each.
    ///
    /// # Errors
    /// [`Error::Update`], naming the fault.
    pub fn check(&self) -> Result<()> {
        if let RowSet::Listed(rows) = &self.rows {
            if rows.windows(2).any(|pair| pair[0] >= pair[1]) {
                return Err(Error::Update("its rows are not strictly ascending".into()));
            }
            if let Some(&last) = rows
                .last()
                .filter(|&&last| last as usize >= self.shape.rows)
            {
                return Err(Error::Update(format!(
                    "it lists row {last} of a table of {} rows",
                    self.shape.rows
                )));
            }
        }
        if self.value_type != ValueType::F32 && self.others_scale != 1.0 {
            return Err(Error::Update(
                "it scales rows whose values are no floating-point numbers".into(),
            ));
        }
        let rows = self.rows.len(self.shape);
        let expected = rows.checked_mul(self.row_bytes());
        if expected != Some(self.values.len()) {
            return Err(Error::Update(format!(
                "it lists {rows} rows of {} values but has {} bytes of values",
                self.shape.dimension,
                self.values.len()
            )));
        }
        Ok(())
    }

    /// Returns the bytes of the row at `position` of the list, [`Self::row_bytes`] of them.
    ///
    /// # Panics
    /// If fewer rows are listed.
    #[inline]
    pub fn row_values(&self, position: usize) -> &[u8] {
        let width = self.row_bytes();
        &self.values[position * width..(position + 1) * width]
    }

    /// Returns the listed rows in ascending order, each with the bytes of its values, which
    /// [`floats`] reads.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let listed = match &self.rows {
            RowSet::All => None,
            RowSet::Listed(rows) => Some(rows),
        };
        (0..self.rows.len(self.shape)).map(move |position| {
            let row = listed.map_or(position, |rows| rows[position] as usize);
            (row, self.row_values(position))
        })
    }

    /// Returns for each of `rows` (ascending) its position in the list, for [`Self::row_values`],
    /// or `None` if it is not listed.
    pub fn positions_of(&self, rows: &[u32]) -> impl Iterator<Item = Option<usize>> {
        let mut position = 0;
        rows.iter().map(move |&row| match &self.rows {
            RowSet::All => Some(row as usize),
            RowSet::Listed(listed) => {
                // Both are ascending, so that one pass over the list serves all rows.
                position += listed[position..]
                    .iter()
                    .take_while(|listed| **listed < row)
                    .count();
                (listed.get(position) == Some(&row)).then_some(position)
            }
        })
    }

    /// Returns the whole table (m x k). Listed rows have the bits of their values, and every other
    /// row is `others_scale` times the row of `base` (one f32 multiplication, or an exact copy with
    /// a scale of 1). Without a base, rows that are not listed are zero.
    ///
    /// # Errors
    /// [`Error::Update`] if `base` has another shape, if [`Self::check`] fails, or if the values
    /// are not of single precision; [`Error::Memory`].
    pub fn apply(&self, base: Option<&Table>) -> Result<Table> {
        self.check_base(base)?;
        if self.value_type != ValueType::F32 {
            return Err(Error::Update(
                "its values are not of single precision".into(),
            ));
        }
        let mut values = Vec::new();
        let purpose = format_args!("the {} table of an update", self.shape);
        memory::reserve(&mut values, self.shape.values(), purpose)?;
        self.for_each_stretch(base, |end, others, listed| {
            match others {
                None => values.resize(end * self.shape.dimension, 0.0),
                Some(others) if self.others_scale == 1.0 => values.extend_from_slice(others),
                Some(others) => values.extend(others.iter().map(|value| value * self.others_scale)),
            }
            values.extend(floats(listed));
        });
        Ok(Table::new(self.shape, values))
    }

    /// Appends the bytes of the whole table to `out`. They are those of the table that
    /// [`Self::apply`] returns, in the layout of [`Self::values`].
    ///
    /// # Errors
    /// As for [`Self::apply`].
    pub(crate) fn write_whole(&self, base: Option<&Table>, out: &mut Vec<u8>) -> Result<()> {
        self.check_base(base)?;
        let start = out.len();
        // Copies the base in one piece and overwrites the listed rows, which are often about every
        // other row. One long copy of uncached memory is faster than many short ones.
        if let (RowSet::Listed(rows), Some(table), 1.0) = (&self.rows, base, self.others_scale) {
            extend_bytes(out, table.as_slice());
            overwrite_rows(&mut out[start..], rows, &self.values, self.row_bytes());
            return Ok(());
        }
        self.for_each_stretch(base, |end, others, listed| {
            match others {
                None => out.resize(start + end * self.row_bytes(), 0),
                Some(others) => extend_scaled_bytes(out, others, self.others_scale),
            }
            out.extend_from_slice(listed);
        });
        Ok(())
    }

    /// Returns the bytes of the whole table.
    ///
    /// # Errors
    /// As for [`Self::apply`].
    pub fn to_whole_bytes(&self, base: Option<&Table>) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let purpose = format_args!("the {} table of an update", self.shape);
        memory::reserve(&mut bytes, self.shape.rows * self.row_bytes(), purpose)?;
        self.write_whole(base, &mut bytes).map(|()| bytes)
    }

    /// Checks the update, and that it fits `base`.
    ///
    /// # Errors
    /// [`Error::Update`], naming the fault.
    pub(crate) fn check_base(&self, base: Option<&Table>) -> Result<()> {
        match base {
            Some(table) if table.shape() != self.shape => Err(Error::Update(format!(
                "it is for a {} table and meets a {} one",
                self.shape,
                table.shape()
            ))),
            Some(_) if self.value_type != ValueType::F32 => Err(Error::Update(
                "its values are not of single precision, and its base is".into(),
            )),
            _ => self.check(),
        }
    }

    /// Returns the number of bytes of one row.
    pub fn row_bytes(&self) -> usize {
        self.value_type.bytes() * self.shape.dimension
    }

    /// Goes through the table from the first row to the last in stretches that are as long as
    /// possible, so that they can be copied in bulk. Each is some rows that are not listed and the
    /// listed rows behind them. Calls `visit` with the number of the first listed row, the rows of
    /// the base that come before it, if there is one, and the bytes of the listed rows.
    fn for_each_stretch(
        &self,
        base: Option<&Table>,
        mut visit: impl FnMut(usize, Option<&[f32]>, &[u8]),
    ) {
        let (k, width) = (self.shape.dimension, self.row_bytes());
        let mut stretch = |others: Range<usize>, listed: Range<usize>| {
            let of_base = base.map(|base| &base.as_slice()[others.start * k..others.end * k]);
            let bytes = &self.values[listed.start * width..listed.end * width];
            visit(others.end, of_base, bytes);
        };
        let RowSet::Listed(rows) = &self.rows else {
            return stretch(0..0, 0..self.shape.rows);
        };
        let (mut position, mut row) = (0, 0);
        for run in rows.chunk_by(|&before, &after| after - before == 1) {
            let first = run[0] as usize;
            stretch(row..first, position..position + run.len());
            position += run.len();
            row = first + run.len();
        }
        stretch(row..self.shape.rows, position..position);
    }
}

#[cfg(test)]
mod tests;
