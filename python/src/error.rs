//! Turns the simulator's errors into exceptions.

use fedrecsim_core::{Error, ErrorKind};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt};
use pyo3::prelude::*;

create_exception!(
    fedrecsim,
    FedrecsimError,
    PyException,
    "What keeps fedrecsim from doing what it was asked for. The message is that of the command."
);
create_exception!(
    fedrecsim,
    ScenarioError,
    FedrecsimError,
    "A scenario, a study or a value that cannot be used, with the place of every fault."
);

/// Returns the exception of an error. An input that was refused before anything ran is a
/// [`ScenarioError`].
pub fn exception(error: Error) -> PyErr {
    match (&error, error.kind()) {
        (Error::Interrupted, _) => PyKeyboardInterrupt::new_err(()),
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
