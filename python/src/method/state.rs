//! Reads and restores the state of Python objects, which are the private side of a user or a server
//! side.

use fedrecsim_core::Result;
use fedrecsim_methods::PersonalVector;
use fedrecsim_model::StateVisitor;
use numpy::{PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyList;

use super::{bridge, often};

/// The values of an attribute.
#[derive(Clone)]
enum Values {
    Single(Vec<f32>),
    Double(Vec<f64>),
    Whole(Vec<i64>),
}

impl Values {
    /// Returns the number of the kind.
    fn kind(&self) -> u8 {
        match self {
            Self::Single(_) => 0,
            Self::Double(_) => 1,
            Self::Whole(_) => 2,
        }
    }

    /// Returns no values of a kind, or what there is if it is of that kind.
    fn of(self, kind: u8) -> Self {
        match (kind, self.kind() == kind) {
            (_, true) => self,
            (0, _) => Self::Single(Vec::new()),
            (1, _) => Self::Double(Vec::new()),
            _ => Self::Whole(Vec::new()),
        }
    }
}

/// An attribute of an object: an array, or a number, which is an array without dimensions.
#[derive(Clone)]
struct Attribute {
    name: String,
    shape: Vec<u64>,
    values: Values,
}

/// The attributes that an object says are its state.
#[derive(Clone)]
pub struct Attributes(Vec<Attribute>);

impl Attributes {
    /// Reads the state of an object.
    ///
    /// # Errors
    /// The exception of the bridge for an attribute that is missing, or is no array and no number.
    pub fn read(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        static STATE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let list = often(object.py(), &STATE, "state")?.call1((object,))?;
        let mut attributes = Vec::new();
        for pair in list.cast::<PyList>()? {
            let (name, array): (String, Bound<'_, PyAny>) = pair.extract()?;
            let (shape, values) = if let Ok(array) = array.cast::<PyArrayDyn<f32>>() {
                (
                    array.shape().to_vec(),
                    Values::Single(array.try_readonly()?.as_slice()?.to_vec()),
                )
            } else if let Ok(array) = array.cast::<PyArrayDyn<f64>>() {
                (
                    array.shape().to_vec(),
                    Values::Double(array.try_readonly()?.as_slice()?.to_vec()),
                )
            } else {
                let array = array.cast::<PyArrayDyn<i64>>()?;
                (
                    array.shape().to_vec(),
                    Values::Whole(array.try_readonly()?.as_slice()?.to_vec()),
                )
            };
            attributes.push(Attribute {
                name,
                shape: shape.into_iter().map(|side| side as u64).collect(),
                values,
            });
        }
        Ok(Self(attributes))
    }

    /// Returns the first array of floating-point numbers that has one dimension.
    pub fn first_vector(&self) -> Option<PersonalVector> {
        let vectors = self.0.iter().filter(|attribute| attribute.shape.len() == 1);
        let mut vectors = vectors.filter_map(|Attribute { name, values, .. }| {
            let values = match values {
                Values::Single(values) => values.clone(),
                Values::Double(values) => values.iter().map(|value| *value as f32).collect(),
                Values::Whole(_) => return None,
            };
            let name = name.clone().into();
            Some(PersonalVector { name, values })
        });
        vectors.next()
    }

    /// Gives an object this state.
    ///
    /// # Errors
    /// The exception of the bridge.
    pub fn write(&self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = object.py();
        let list = PyList::empty(py);
        for Attribute {
            name,
            shape,
            values,
        } in &self.0
        {
            let shape: Vec<usize> = shape.iter().map(|side| *side as usize).collect();
            let array = match values {
                Values::Single(values) => numpy::PyArray1::from_slice(py, values)
                    .reshape(shape)?
                    .into_any(),
                Values::Double(values) => numpy::PyArray1::from_slice(py, values)
                    .reshape(shape)?
                    .into_any(),
                Values::Whole(values) => numpy::PyArray1::from_slice(py, values)
                    .reshape(shape)?
                    .into_any(),
            };
            list.append((name, array))?;
        }
        bridge(py, "restore")?.call1((object, list))?;
        Ok(())
    }

    /// Visits the values.
    ///
    /// # Errors
    /// As [`StateVisitor::values`].
    pub fn visit(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        for Attribute { shape, values, .. } in &mut self.0 {
            // An attribute may be of another kind than that of an object that has just been made.
            let mut kind = values.kind();
            state.plain(&mut kind)?;
            *values = std::mem::replace(values, Values::Whole(Vec::new())).of(kind);
            state.plain(shape)?;
            let count = shape.iter().product::<u64>() as usize;
            match values {
                Values::Single(values) => {
                    values.resize(count, 0.0);
                    state.values(values)?;
                }
                Values::Double(values) => state.plain(values)?,
                Values::Whole(values) => state.plain(values)?,
            }
        }
        Ok(())
    }
}

/// Returns whether a visit may change what is visited.
pub fn changes(state: &StateVisitor<'_>) -> bool {
    matches!(state, StateVisitor::Restore(_) | StateVisitor::Change(_))
}
