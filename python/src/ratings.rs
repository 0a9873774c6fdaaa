//! Takes ratings that Python has in memory, through Arrow's C interface or as arrays of NumPy.

use std::sync::Arc;

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float32Array, Float64Array, Int64Array, StringArray,
    TimestampNanosecondArray, UInt64Array,
};
use fedrecsim_data::dataset::given::{self, Given, GivenRows};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::cells;
use crate::error::refused;

/// The name of the capsule of a stream.
const STREAM: &std::ffi::CStr = c"arrow_array_stream";

/// Ratings in memory, which a scenario names by `path` as long as this is there.
#[pyclass(frozen, module = "fedrecsim._native")]
pub struct Ratings {
    given: Given,
    rows: Arc<Rows>,
}

impl Ratings {
    /// Makes rows known to scenarios.
    fn of(rows: Rows) -> Self {
        let rows = Arc::new(rows);
        let given = given::give(Arc::clone(&rows) as Arc<dyn GivenRows>);
        Self { given, rows }
    }
}

#[pymethods]
impl Ratings {
    /// Takes the columns `wanted` of a stream of Arrow, without a copy.
    #[staticmethod]
    fn of_stream(
        py: Python<'_>,
        stream: &Bound<'_, PyCapsule>,
        wanted: Vec<String>,
    ) -> PyResult<Self> {
        let pointer = stream
            .pointer_checked(Some(STREAM))?
            .cast::<FFI_ArrowArrayStream>();
        // SAFETY: A capsule of this name holds a stream by Arrow's protocol, and the interpreter's lock is
        // held. What takes a stream over marks that of the capsule as released.
        #[allow(unsafe_code)]
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) };
        py.detach(|| Rows::of_stream(stream, wanted))
            .map(Self::of)
            .map_err(refused)
    }

    /// Takes columns of NumPy, which are copied once. They have the same length.
    #[staticmethod]
    fn of_arrays(py: Python<'_>, columns: Vec<(String, Bound<'_, PyAny>, bool)>) -> PyResult<Self> {
        let mut names = Vec::new();
        let mut arrays = Vec::new();
        for (name, values, are_times) in columns {
            arrays.push(array(&values, are_times)?);
            names.push(name);
        }
        py.detach(|| Rows::new(names, vec![arrays]))
            .map(Self::of)
            .map_err(refused)
    }

    /// The value of `dataset.path` for these ratings.
    #[getter]
    fn path(&self) -> String {
        self.given.path().display().to_string()
    }

    fn __len__(&self) -> usize {
        self.rows.count()
    }

    /// Returns the texts of a column, as names of users and items are read.
    fn texts(&self, column: usize) -> Vec<String> {
        let mut texts = Vec::with_capacity(self.rows.count());
        for row in 0..self.rows.count() {
            let mut place = 0;
            self.rows.read(row, &mut |field| {
                if place == column {
                    texts.push(String::from_utf8_lossy(field.trim_ascii()).into_owned());
                }
                place += 1;
            });
        }
        texts
    }

    /// Returns whether a column has whole numbers.
    fn is_whole(&self, column: usize) -> bool {
        let arrays = self
            .rows
            .chunks
            .iter()
            .filter_map(|chunk| chunk.get(column));
        arrays
            .into_iter()
            .all(|array| array.data_type().is_integer())
    }
}

/// Returns an array of NumPy, or a list of texts and `None`, for Arrow. Times are nanoseconds since 1970.
fn array(values: &Bound<'_, PyAny>, are_times: bool) -> PyResult<ArrayRef> {
    if let Ok(values) = values.extract::<PyReadonlyArray1<'_, i64>>() {
        let values = values.as_slice()?;
        if are_times {
            // The least integer is NumPy's word for no time.
            let known = |time: &i64| (*time != i64::MIN).then_some(*time);
            let times: TimestampNanosecondArray = values.iter().map(known).collect();
            return Ok(Arc::new(times));
        }
        return Ok(Arc::new(Int64Array::from(values.to_vec())));
    }
    if let Ok(values) = values.extract::<PyReadonlyArray1<'_, u64>>() {
        return Ok(Arc::new(UInt64Array::from(values.as_slice()?.to_vec())));
    }
    if let Ok(values) = values.extract::<PyReadonlyArray1<'_, f64>>() {
        return Ok(Arc::new(Float64Array::from(values.as_slice()?.to_vec())));
    }
    if let Ok(values) = values.extract::<PyReadonlyArray1<'_, f32>>() {
        return Ok(Arc::new(Float32Array::from(values.as_slice()?.to_vec())));
    }
    if let Ok(values) = values.extract::<PyReadonlyArray1<'_, bool>>() {
        return Ok(Arc::new(BooleanArray::from(values.as_slice()?.to_vec())));
    }
    let texts: Vec<Option<String>> = values.extract()?;
    Ok(Arc::new(StringArray::from(texts)))
}

/// Columns in chunks, as Arrow has them.
struct Rows {
    names: Vec<String>,
    chunks: Vec<Vec<ArrayRef>>,
    /// The number of rows up to the end of each chunk.
    ends: Vec<usize>,
}

impl Rows {
    /// Reads the columns `wanted` of a stream.
    ///
    /// # Errors
    /// What is wrong with the stream or a column.
    fn of_stream(stream: FFI_ArrowArrayStream, wanted: Vec<String>) -> Result<Self, String> {
        let failed = |reason: arrow_schema::ArrowError| format!("the ratings: {reason}");
        let reader = RecordBatchStreamReader::try_new(stream).map_err(failed)?;
        let mut chunks = Vec::new();
        for batch in reader {
            let batch = batch.map_err(failed)?;
            let column = |name: &String| {
                let column = batch.column_by_name(name);
                column
                    .cloned()
                    .ok_or_else(|| format!("the ratings have no column `{name}`"))
            };
            chunks.push(wanted.iter().map(column).collect::<Result<_, _>>()?);
        }
        Self::new(wanted, chunks)
    }

    /// Checks the types of columns.
    fn new(names: Vec<String>, chunks: Vec<Vec<ArrayRef>>) -> Result<Self, String> {
        let mut ends = Vec::new();
        for chunk in &chunks {
            for (name, array) in names.iter().zip(chunk) {
                cells::check(name, array.data_type())?;
            }
            let before = ends.last().copied().unwrap_or(0);
            ends.push(before + chunk.first().map_or(0, |array| array.len()));
        }
        if ends.last().is_none_or(|rows| *rows == 0) {
            return Err("the ratings have no rows".to_owned());
        }
        Ok(Self {
            names,
            chunks,
            ends,
        })
    }
}

impl GivenRows for Rows {
    fn columns(&self) -> &[String] {
        &self.names
    }

    fn count(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    fn read(&self, row: usize, field: &mut dyn FnMut(&[u8])) {
        let chunk = self.ends.partition_point(|end| *end <= row);
        let start = if chunk == 0 { 0 } else { self.ends[chunk - 1] };
        let mut text = String::new();
        for array in &self.chunks[chunk] {
            text.clear();
            cells::write(&**array, row - start, &mut text);
            field(text.as_bytes());
        }
    }
}
