//! The vectors that users keep for themselves.

use fedrecsim_core::{Error, ErrorKind, Who};
use fedrecsim_data::dataset::Dataset;
use fedrecsim_sim::Simulation;
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;

/// The vectors of some users.
pub struct Found {
    /// The name of the vector in the papers.
    name: String,
    /// The length of each.
    length: usize,
    /// The values, one user after the other.
    values: Vec<f32>,
}

impl Found {
    /// Returns the name, and an array with a row for each user.
    pub fn into_array(self, py: Python<'_>) -> PyResult<(String, Bound<'_, PyArray2<f32>>)> {
        let rows = self.values.len().checked_div(self.length).unwrap_or(0);
        let array = PyArray1::from_vec(py, self.values).reshape([rows, self.length])?;
        Ok((self.name, array))
    }
}

/// The vectors of saved users: their names, and the name and the rows of the vectors, which are nothing if
/// the method has none.
pub type SavedVectors = (Vec<String>, Option<(String, Py<PyAny>)>);

/// The vectors that a report has.
pub struct Vectors(pub SavedVectors);

impl Vectors {
    /// Makes those of these users.
    pub fn of(py: Python<'_>, users: Vec<String>, found: Option<Found>) -> PyResult<Self> {
        let array = found.map(|found| found.into_array(py)).transpose()?;
        let array = array.map(|(name, array)| (name, array.into_any().unbind()));
        Ok(Self((users, array)))
    }

    /// Returns the same, which shares the array.
    pub fn shared(&self, py: Python<'_>) -> SavedVectors {
        let (users, array) = &self.0;
        let array = array.as_ref();
        (
            users.clone(),
            array.map(|(name, array)| (name.clone(), array.clone_ref(py))),
        )
    }
}

/// Checks that these are names of users, and names all users if there are none.
pub fn name_all(dataset: &Dataset, users: &mut Vec<String>) -> Result<(), Error> {
    if users.is_empty() {
        let all = (0..dataset.users()).map(|user| dataset.user_name(user.into()).into_owned());
        *users = all.collect();
        return Ok(());
    }
    dataset.users_named(users).map(drop)
}

/// Returns the vectors of these users; nothing if users keep none.
pub fn vectors_of(simulation: &Simulation, users: &[String]) -> Result<Option<Found>, Error> {
    let dataset = &simulation.world().dataset;
    let mut found: Option<Found> = None;
    for user in dataset.users_named(users)? {
        let Some(vector) = simulation.personal_vector(user)? else {
            return Ok(None);
        };
        let found = found.get_or_insert_with(|| Found {
            name: vector.name.clone().into_owned(),
            length: vector.values.len(),
            values: Vec::new(),
        });
        if found.length != vector.values.len() {
            return Err(of_other_length(dataset.who(user), found));
        }
        found.values.extend(vector.values);
    }
    Ok(found)
}

/// Returns the error of a method whose users keep vectors of different lengths.
fn of_other_length(user: Who, found: &Found) -> Error {
    Error::OfUser {
        kind: ErrorKind::RefusedInput,
        user,
        reason: format!(
            "its `{}` has not the length {} of that of the users before, so that they are no array",
            found.name, found.length
        ),
    }
}
