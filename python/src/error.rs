//! Turns the simulator's errors into exceptions.

use fedrecsim_core::{Error, ErrorKind};
use fedrecsim_data::dataset::given::is_given;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::import_exception;
use pyo3::prelude::*;

// They have several bases each, which Python alone can give them.
import_exception!(fedrecsim._errors, FedrecsimError);
import_exception!(fedrecsim._errors, ScenarioError);
import_exception!(fedrecsim._errors, MissingFileError);

/// Returns the exception of an error. An input that was refused before anything ran is a
/// [`ScenarioError`], and a file that is not there a [`MissingFileError`].
pub fn exception(error: Error) -> PyErr {
    match (&error, error.kind()) {
        (Error::Interrupted, _) => PyKeyboardInterrupt::new_err(()),
        (Error::Read { path, .. }, _) if !path.exists() && !is_given(path) => {
            MissingFileError::new_err(error.to_string())
        }
        (_, ErrorKind::RefusedInput | ErrorKind::UnfitData) => {
            ScenarioError::new_err(error.to_string())
        }
        _ => FedrecsimError::new_err(error.to_string()),
    }
}

/// Returns the exception of a mistake in a call.
pub fn refused(reason: impl Into<String>) -> PyErr {
    ScenarioError::new_err(reason.into())
}

/// Turns the error of a result into an exception.
pub trait OrRaise<T> {
    /// Returns the value, or the exception.
    ///
    /// # Errors
    /// The exception of the error.
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T, Error> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(exception)
    }
}
