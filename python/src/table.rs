//! Passes the tables of a run to any library that reads Arrow, without a copy.
//!
//! The two capsules of Arrow's protocol are made here, as the crate that would make them
//! (`pyo3-arrow`) is for another major version of `arrow-array` than that of this tree.

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, RecordBatchReader,
    StringArray, UInt64Array,
};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use numpy::PyArray1;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList};

use crate::error::FedrecsimError;

/// A table of a run.
#[pyclass(frozen, module = "fedrecsim._native")]
pub struct Table(pub RecordBatch);

fn failed(reason: impl ToString) -> PyErr {
    FedrecsimError::new_err(reason.to_string())
}

impl Table {
    /// Returns the table in Arrow's format for files and pipes.
    ///
    /// # Errors
    /// It cannot fail for tables of numbers and texts.
    pub fn to_ipc(&self) -> PyResult<Vec<u8>> {
        let mut writer = StreamWriter::try_new(Vec::new(), &self.0.schema()).map_err(failed)?;
        writer.write(&self.0).map_err(failed)?;
        writer.into_inner().map_err(failed)
    }

    /// Reads a table that [`Self::to_ipc`] has written.
    ///
    /// # Errors
    /// [`FedrecsimError`] for something else.
    pub fn of_ipc(bytes: Vec<u8>) -> PyResult<Self> {
        let mut reader = StreamReader::try_new(Cursor::new(bytes), None).map_err(failed)?;
        let schema = reader.schema();
        let batch = reader.next().transpose().map_err(failed)?;
        Ok(Self(
            batch.unwrap_or_else(|| RecordBatch::new_empty(schema)),
        ))
    }
}

#[pymethods]
impl Table {
    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.0
            .schema()
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect()
    }

    /// The type of every column, as Arrow names it.
    #[getter]
    fn types(&self) -> Vec<String> {
        self.0
            .schema()
            .fields()
            .iter()
            .map(|field| field.data_type().to_string())
            .collect()
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// Returns a column: an array of integers, one of floats with NaN for what is not there, or a
    /// list of texts.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let column = self
            .0
            .column_by_name(name)
            .ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        if let Some(counts) = column.as_primitive_opt::<UInt64Type>() {
            if counts.null_count() == 0 {
                return Ok(PyArray1::from_slice(py, counts.values()).into_any());
            }
            let values = counts
                .iter()
                .map(|value| value.map_or(f64::NAN, |value| value as f64));
            return Ok(PyArray1::from_iter(py, values).into_any());
        }
        if let Some(numbers) = column.as_primitive_opt::<Float64Type>() {
            let values = numbers.iter().map(|value| value.unwrap_or(f64::NAN));
            return Ok(PyArray1::from_iter(py, values).into_any());
        }
        match column.as_string_opt::<i32>() {
            Some(texts) => Ok(PyList::new(py, texts.iter())?.into_any()),
            None => Err(failed(format!(
                "the column {name} has a type that no table has"
            ))),
        }
    }

    /// The table's schema in Arrow's C interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = arrow_array::ffi::FFI_ArrowSchema::try_from(self.0.schema().as_ref())
            .map_err(failed)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The table in Arrow's C interface; it is not copied.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A reader may ask for other types, and has to take those that there are.
        let _ = requested_schema;
        let batches = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        let reader: Box<dyn RecordBatchReader + Send> = Box::new(batches);
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
    }

    /// Makes a table of columns, each with its name, its cells as texts, and their kind: `count`, `number` or `text`.
    #[staticmethod]
    fn of_cells(columns: Vec<(String, String, Vec<Option<String>>)>) -> PyResult<Self> {
        let mut arrays: Vec<(String, ArrayRef)> = Vec::new();
        for (name, kind, cells) in columns {
            let texts = cells.iter().map(Option::as_deref);
            let array: ArrayRef = match &*kind {
                "count" => Arc::new(
                    texts
                        .map(|cell| cell?.parse().ok())
                        .collect::<UInt64Array>(),
                ),
                "number" => Arc::new(
                    texts
                        .map(|cell| cell?.parse().ok())
                        .collect::<Float64Array>(),
                ),
                _ => Arc::new(texts.collect::<StringArray>()),
            };
            arrays.push((name, array));
        }
        let fields = arrays
            .iter()
            .map(|(name, array)| arrow_schema::Field::new(name, array.data_type().clone(), true));
        let schema = Arc::new(arrow_schema::Schema::new(fields.collect::<Vec<_>>()));
        let columns = arrays.into_iter().map(|(_, array)| array).collect();
        RecordBatch::try_new(schema, columns)
            .map(Self)
            .map_err(failed)
    }

    /// Reads a table from the bytes that pickling made of it.
    #[staticmethod]
    fn restore(bytes: Vec<u8>) -> PyResult<Self> {
        Self::of_ipc(bytes)
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let restore = py.get_type::<Self>().getattr("restore")?;
        Ok((restore, (PyBytes::new(py, &self.to_ipc()?),)))
    }
}
