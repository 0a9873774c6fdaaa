//! Passes tables to NumPy without a copy, and reads arrays.

use std::sync::Arc;

use fedrecsim_model::blocks::{BlockValues, Model};
use fedrecsim_model::{Layout, SharedTable, Table, TableShape, ValueType};
use numpy::{
    PyArray1, PyArray2, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::error::refused;

/// Keeps a table while NumPy looks at it.
#[pyclass(frozen)]
struct Owner(#[allow(dead_code)] SharedTable);

/// Returns a table as an array of two dimensions that cannot be written to. It shares the table's
/// memory.
///
/// # Errors
/// Those of the interpreter.
pub fn view<'py>(py: Python<'py>, table: &SharedTable) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let owner = Bound::new(py, Owner(Arc::clone(table)))?.into_any();
    // SAFETY: The owner holds the table, and its values keep their place for as long as anybody
    // holds it. A shared table is never written to, and the array that NumPy gets here is
    // read-only.
    #[allow(unsafe_code)]
    let array = unsafe { PyArray2::borrow_from_array(&table.view(), owner) };
    array.try_readwrite()?.make_nonwriteable();
    Ok(array)
}

/// Returns the blocks of a model by their names. Tables share the model's memory; integers are
/// copied.
///
/// # Errors
/// Those of the interpreter.
pub fn blocks<'py>(py: Python<'py>, model: &Model) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (block, values) in model.layout().blocks().iter().zip(model.blocks()) {
        match values {
            BlockValues::Table(table) => dict.set_item(&*block.name, view(py, table)?)?,
            BlockValues::Raw(bytes) => {
                let shape = (block.shape.rows, block.shape.dimension);
                let array = raw(py, bytes, block.value_type).call_method1("reshape", shape)?;
                dict.set_item(&*block.name, array)?;
            }
        }
    }
    Ok(dict)
}

/// Returns raw values as an array of one dimension.
fn raw<'py>(py: Python<'py>, bytes: &[u8], value_type: ValueType) -> Bound<'py, PyAny> {
    let (words, _) = bytes.as_chunks::<4>();
    let (long_words, _) = bytes.as_chunks::<8>();
    match value_type {
        ValueType::U32 => {
            PyArray1::from_iter(py, words.iter().map(|word| u32::from_le_bytes(*word))).into_any()
        }
        ValueType::U64 => {
            PyArray1::from_iter(py, long_words.iter().map(|word| u64::from_le_bytes(*word)))
                .into_any()
        }
        ValueType::F32 => {
            PyArray1::from_iter(py, words.iter().map(|word| f32::from_le_bytes(*word))).into_any()
        }
        ValueType::Bytes => PyArray1::from_slice(py, bytes).into_any(),
    }
}

/// Returns what is like an array (of NumPy, PyTorch or nested lists) as an array of single
/// precision whose values stand in a row. An array that is one already is not copied.
///
/// # Errors
/// The exception of the conversion.
pub fn floats<'py>(value: &Bound<'py, PyAny>) -> PyResult<PyReadonlyArrayDyn<'py, f32>> {
    static CONVERT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if let Ok(array) = value.cast::<PyArrayDyn<f32>>()
        && array.is_c_contiguous()
    {
        return Ok(array.try_readonly()?);
    }
    let converted = CONVERT
        .import(value.py(), "fedrecsim._bridge", "floats")?
        .call1((value,))?;
    Ok(converted.cast_into::<PyArrayDyn<f32>>()?.try_readonly()?)
}

/// Returns the values of an array that [`floats`] has returned.
///
/// # Errors
/// It cannot fail, as the values are contiguous.
pub fn slice<'a>(array: &'a PyReadonlyArrayDyn<'_, f32>) -> PyResult<&'a [f32]> {
    Ok(array.as_slice()?)
}

/// Returns an array as a table of this shape.
///
/// # Errors
/// [`ScenarioError`](crate::error::ScenarioError) naming both shapes if the array has another one.
pub fn table(name: &str, value: &Bound<'_, PyAny>, shape: TableShape) -> PyResult<Table> {
    let array = floats(value)?;
    let wanted = [shape.rows, shape.dimension];
    if array.shape() != wanted {
        let found = array.shape();
        return Err(refused(format!(
            "`{name}` has the shape {found:?}, but the layout says {wanted:?}"
        )));
    }
    Ok(Table::new(shape, slice(&array)?.to_vec()))
}

/// Reads a model of this layout from a dictionary of arrays.
///
/// # Errors
/// [`ScenarioError`](crate::error::ScenarioError) for a block that is missing or unknown, or has
/// another shape.
pub fn model(layout: &Layout, arrays: &Bound<'_, PyAny>) -> PyResult<Model> {
    let arrays = arrays
        .cast::<PyDict>()
        .map_err(|_| refused("a model must be a dictionary from block names to arrays"))?;
    refuse_unknown(layout, arrays)?;
    let mut tables = Vec::new();
    for block in layout.blocks() {
        if block.value_type != ValueType::F32 {
            return Err(refused(format!(
                "`{}` does not hold single precision, and cannot be set",
                block.name
            )));
        }
        let array = arrays.get_item(&*block.name)?;
        let array =
            array.ok_or_else(|| refused(format!("the block `{}` is missing", block.name)))?;
        tables.push(table(&block.name, &array, block.shape)?);
    }
    Ok(Model::of_tables(layout.clone(), tables))
}

/// Refuses names that the layout does not have.
///
/// # Errors
/// [`ScenarioError`](crate::error::ScenarioError) with the name.
pub fn refuse_unknown(layout: &Layout, arrays: &Bound<'_, PyDict>) -> PyResult<()> {
    for name in arrays.keys() {
        let name: String = name.extract()?;
        if layout.position(&name).is_none() {
            return Err(refused(format!(
                "there is no block `{name}`; the layout is {layout}"
            )));
        }
    }
    Ok(())
}
