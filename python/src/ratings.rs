//! Takes ratings that Python has in memory, through Arrow's C interface or as arrays of NumPy.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::temporal_conversions::as_datetime;
use arrow_array::types::{
    Date32Type, Date64Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, Float32Array, Float64Array, Int64Array,
    StringArray, TimestampNanosecondArray, UInt64Array,
};
use arrow_schema::{DataType, TimeUnit};
use fedrecsim_data::dataset::given::{self, Given, GivenRows};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

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
                check(name, array.data_type())?;
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
            write(&**array, row - start, &mut text);
            field(text.as_bytes());
        }
    }
}

/// Refuses a type that has no text.
///
/// # Errors
/// What to do about it.
fn check(name: &str, data_type: &DataType) -> Result<(), String> {
    use DataType::{
        Binary, Boolean, Date32, Date64, Decimal128, Dictionary, FixedSizeBinary, FixedSizeList,
        Float32, Float64, Int8, Int16, Int32, Int64, LargeList, LargeUtf8, List, Null, Timestamp,
        UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    let remedy = match data_type {
        Boolean | Date32 | Date64 | Float32 | Float64 | Int8 | Int16 | Int32 | Int64
        | LargeUtf8 | Null | Timestamp(..) | UInt8 | UInt16 | UInt32 | UInt64 | Utf8 | Utf8View => {
            return Ok(());
        }
        FixedSizeBinary(16) => return Ok(()),
        Dictionary(_, values) => return check(name, values),
        List(_) | LargeList(_) | FixedSizeList(..) => {
            format!("write one value in a row, as with `frame.explode({name:?})`")
        }
        Decimal128(..) => format!("make it a float, as with `frame[{name:?}].astype(float)`"),
        Binary => format!("make it a text, as with `frame[{name:?}].str.decode(\"utf-8\")`"),
        _ => "make it numbers, texts or times".to_owned(),
    };
    Err(format!(
        "the column `{name}` of the ratings has the type {data_type}, and must have numbers, texts or times: {remedy}"
    ))
}

/// Appends the text of a value, as a file has it; nothing for one that is missing.
fn write(array: &dyn Array, row: usize, text: &mut String) {
    use DataType::{
        Boolean, Date32, Date64, Dictionary, FixedSizeBinary, Float32, Float64, Int8, Int16, Int32,
        Int64, LargeUtf8, Timestamp, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    if array.is_null(row) {
        return;
    }
    // Writing to a text cannot fail.
    let _ = match array.data_type() {
        Utf8 => text.write_str(array.as_string::<i32>().value(row)),
        LargeUtf8 => text.write_str(array.as_string::<i64>().value(row)),
        Utf8View => text.write_str(array.as_string_view().value(row)),
        Int8 => write!(text, "{}", value::<Int8Type>(array, row)),
        Int16 => write!(text, "{}", value::<Int16Type>(array, row)),
        Int32 => write!(text, "{}", value::<Int32Type>(array, row)),
        Int64 => write!(text, "{}", value::<Int64Type>(array, row)),
        UInt8 => write!(text, "{}", value::<UInt8Type>(array, row)),
        UInt16 => write!(text, "{}", value::<UInt16Type>(array, row)),
        UInt32 => write!(text, "{}", value::<UInt32Type>(array, row)),
        UInt64 => write!(text, "{}", value::<UInt64Type>(array, row)),
        // Frames have NaN for what is missing. `2.0` stays `2.0`, as they write it.
        Float32 => match value::<Float32Type>(array, row) {
            number if number.is_nan() => Ok(()),
            number => write!(text, "{number:?}"),
        },
        Float64 => match value::<Float64Type>(array, row) {
            number if number.is_nan() => Ok(()),
            number => write!(text, "{number:?}"),
        },
        Boolean => write!(text, "{}", u8::from(array.as_boolean().value(row))),
        FixedSizeBinary(_) => uuid(array.as_fixed_size_binary().value(row), text),
        Date32 => date::<Date32Type>(i64::from(value::<Date32Type>(array, row)), text),
        Date64 => date::<Date64Type>(value::<Date64Type>(array, row), text),
        Timestamp(unit, _) => match unit {
            TimeUnit::Second => {
                date::<TimestampSecondType>(value::<TimestampSecondType>(array, row), text)
            }
            TimeUnit::Millisecond => date::<TimestampMillisecondType>(
                value::<TimestampMillisecondType>(array, row),
                text,
            ),
            TimeUnit::Microsecond => date::<TimestampMicrosecondType>(
                value::<TimestampMicrosecondType>(array, row),
                text,
            ),
            TimeUnit::Nanosecond => {
                date::<TimestampNanosecondType>(value::<TimestampNanosecondType>(array, row), text)
            }
        },
        Dictionary(..) => {
            if let Some(dictionary) = array.as_any_dictionary_opt() {
                let mut key = String::new();
                write(dictionary.keys(), row, &mut key);
                if let Ok(key) = key.parse() {
                    write(&**dictionary.values(), key, text);
                }
            }
            Ok(())
        }
        // Other types are refused before.
        _ => Ok(()),
    };
}

fn value<T: ArrowPrimitiveType>(array: &dyn Array, row: usize) -> T::Native {
    array.as_primitive::<T>().value(row)
}

/// Appends an instant in UTC as a date. One that is out of the calendar's range stays a number, which is refused
/// with its row.
fn date<T: ArrowPrimitiveType>(instant: i64, text: &mut String) -> std::fmt::Result {
    match as_datetime::<T>(instant) {
        Some(date) => write!(text, "{date}"),
        None => write!(text, "{instant} is no date"),
    }
}

/// Appends the 16 bytes of a UUID in its usual form.
fn uuid(bytes: &[u8], text: &mut String) -> std::fmt::Result {
    for (place, byte) in bytes.iter().enumerate() {
        if [4, 6, 8, 10].contains(&place) {
            text.write_char('-')?;
        }
        write!(text, "{byte:02x}")?;
    }
    Ok(())
}
