//! What Python code is given of a participation, and how its update is read.

use fedrecsim_core::work::Work;
use fedrecsim_core::{Result, Streams};
use fedrecsim_methods::{LocalTask, Trained, largest_magnitude};
use fedrecsim_model::{BlockLayout, ModelUpdate, TableUpdate};
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};

use super::{Shared, often, seed_of};
use crate::arrays::{self, floats, refuse_unknown};
use crate::error::refused;

/// Describes one participation to the client that trains.
#[pyclass(frozen, module = "fedrecsim._native")]
pub struct Task {
    /// The user.
    #[pyo3(get)]
    user: u32,
    /// The round, counted from 1.
    #[pyo3(get)]
    round: u32,
    /// The number of steps that the server has made before.
    #[pyo3(get)]
    step: u32,
    /// The downloaded blocks by their names. They cannot be written to.
    #[pyo3(get)]
    model: Py<PyDict>,
    /// The items of the training samples: the user's own items, each followed by its negatives;
    /// nothing if the method draws none.
    #[pyo3(get)]
    items: Py<PyArray1<i64>>,
    /// The labels of the samples: 1 for the user's own items, and 0 for negatives.
    #[pyo3(get)]
    labels: Py<PyArray1<f32>>,
    rated: Vec<u32>,
    ratings: Vec<f32>,
    invitation: u32,
    streams: Streams,
}

impl Task {
    /// Describes a participation, with the samples that were drawn for it.
    pub fn new(py: Python<'_>, task: &LocalTask<'_>, samples: (&[u32], &[f32])) -> PyResult<Self> {
        let (items, labels) = samples;
        Ok(Self {
            user: task.user.0,
            round: task.round.0 + 1,
            step: task.step.0,
            model: arrays::blocks(py, task.model)?.unbind(),
            items: PyArray1::from_iter(py, items.iter().map(|item| i64::from(*item))).unbind(),
            labels: PyArray1::from_slice(py, labels).unbind(),
            rated: task.own.items.to_vec(),
            ratings: task.own.ratings.iter().collect(),
            invitation: task.invitation_id.0,
            streams: task.streams,
        })
    }
}

#[pymethods]
impl Task {
    /// The items that the user has rated in the training part, ascending.
    #[getter]
    fn rated<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_iter(py, self.rated.iter().map(|item| i64::from(*item)))
    }

    /// The ratings of these items; 1 where the data set has none.
    #[getter]
    fn ratings<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        PyArray1::from_slice(py, &self.ratings)
    }

    /// Returns a number for a generator that nothing else uses, for this participation and a name.
    #[pyo3(signature = (name="train"))]
    fn seed(&self, name: &str) -> u64 {
        seed_of(
            self.streams,
            name,
            u64::from(self.user),
            u64::from(self.invitation),
        )
    }

    /// Returns a generator of NumPy's for this participation and a name. The same run draws the
    /// same numbers.
    #[pyo3(signature = (name="train"))]
    fn rng<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        super::bridge(py, "generator")?.call1((self.seed(name),))
    }
}

/// The result of a method's `train`, from the bridge: the blocks, the loss, the weight, the row
/// visits and the multiply-adds.
type Returned<'py> = (Bound<'py, PyDict>, f64, Option<f32>, Option<u64>, u64);

/// Reads what `train` has returned.
///
/// # Errors
/// The exception of something that is no update of the method's layout.
pub fn read_update(
    py: Python<'_>,
    shared: &Shared,
    task: &LocalTask<'_>,
    returned: &Bound<'_, PyAny>,
) -> PyResult<Result<Trained>> {
    static RETURNED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let returned = often(py, &RETURNED, "returned")?.call1((returned,))?;
    let (blocks, loss, weight, row_visits, multiply_adds): Returned<'_> =
        returned.cast::<PyTuple>()?.extract()?;
    refuse_unknown(&shared.upload, &blocks)?;
    let (mut updates, mut listed) = (Vec::new(), 0);
    for (block, name) in shared.upload.blocks().iter().zip(&shared.block_names) {
        let value = blocks.get_item(*name)?;
        let value = value.ok_or_else(|| refused(format!("the update has no block `{name}`")))?;
        let (update, rows, largest) = read_block(block, &value)?;
        if let Err(diverged) = task.check_magnitude(name, largest) {
            return Ok(Err(diverged));
        }
        listed += rows as u64;
        updates.push(update);
    }
    if shared.facts.weighted != weight.is_some() {
        return Err(refused(
            "an update has a `weight` exactly if its method says that it is `weighted`",
        ));
    }
    let mut update = ModelUpdate::of_blocks(updates);
    if let Some(weight) = weight {
        update = update.weighing(weight);
    }
    let work = Work {
        row_visits: row_visits.unwrap_or(listed),
        multiply_adds,
    };
    Ok(Ok(Trained::new(update, loss, work)))
}

/// Returns what is like an array of integers as an array of NumPy's whose values stand in a row. An
/// array that is one already is not copied.
fn integers(value: Bound<'_, PyAny>) -> PyResult<PyReadonlyArray1<'_, i64>> {
    static CONVERT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if let Ok(array) = value.cast::<PyArray1<i64>>()
        && array.is_c_contiguous()
    {
        return Ok(array.try_readonly()?);
    }
    let converted = often(value.py(), &CONVERT, "integers")?.call1((value,))?;
    Ok(converted.cast_into::<PyArray1<i64>>()?.try_readonly()?)
}

/// Reads the update of a block: a whole array, or rows of it. Returns the number of rows, and the
/// largest magnitude.
fn read_block(
    block: &BlockLayout,
    value: &Bound<'_, PyAny>,
) -> PyResult<(TableUpdate, usize, f32)> {
    let shape = block.shape;
    let Ok(rows) = value.getattr(intern!(value.py(), "rows")) else {
        let table = arrays::table(&block.name, value, shape)?;
        let largest = largest_magnitude(table.as_slice());
        return Ok((TableUpdate::whole(table), shape.rows, largest));
    };
    let scale: f32 = value
        .getattr(intern!(value.py(), "others_scale"))?
        .extract()?;
    let values = floats(&value.getattr(intern!(value.py(), "values"))?)?;
    let rows = integers(rows)?;
    let rows = rows.as_slice()?;
    let wanted = [rows.len(), shape.dimension];
    if values.shape() != wanted {
        let (name, found) = (&block.name, values.shape());
        return Err(refused(format!(
            "the rows of `{name}` have values of the shape {found:?} instead of {wanted:?}"
        )));
    }
    let numbers = rows
        .iter()
        .map(|row| u32::try_from(*row))
        .collect::<Result<Vec<u32>, _>>();
    let numbers = numbers.map_err(|_| {
        refused(format!(
            "the rows of `{}` are not all item numbers",
            block.name
        ))
    })?;
    let slice = arrays::slice(&values)?;
    let update = TableUpdate::listed(shape, numbers, slice, scale);
    let update =
        update.map_err(|reason| refused(format!("the rows of `{}`: {reason}", block.name)))?;
    let largest = largest_magnitude(slice);
    let largest = if scale.is_finite() { largest } else { f32::NAN };
    Ok((update, rows.len(), largest))
}
