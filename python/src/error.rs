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

/// The options of the command that have another form as arguments in Python.
const ARGUMENTS: [(&str, &str); 9] = [
    ("--overwrite", "`overwrite=True`"),
    ("--out", "`out`"),
    ("--data-dir", "`data_dir`"),
    ("--checkpoint-every", "`checkpoint_every`"),
    ("--threads", "`threads`"),
    ("--memory", "`memory_gb`"),
    ("--seeds", "`seeds`"),
    ("--jobs", "`jobs`"),
    ("--set", "`set`"),
];

/// Returns a message with the arguments of Python in the place of options. Whole commands stay as they are:
/// they stand in backquotes.
fn in_python(message: &str) -> String {
    let mut parts: Vec<String> = message.split('`').map(str::to_owned).collect();
    for (place, part) in parts.iter_mut().enumerate() {
        for (option, argument) in ARGUMENTS {
            match place % 2 == 0 {
                true => *part = part.replace(option, argument),
                false if part == option => *part = argument.trim_matches('`').to_owned(),
                false => {}
            }
        }
    }
    parts.join("`")
}

/// Returns the exception of an error. An input that was refused before anything ran is a
/// [`ScenarioError`], and a file that is not there a [`MissingFileError`].
pub fn exception(error: Error) -> PyErr {
    let message = in_python(&error.to_string());
    match (&error, error.kind()) {
        (Error::Interrupted, _) => PyKeyboardInterrupt::new_err(()),
        (Error::Read { path, .. }, _) if !path.exists() && !is_given(path) => {
            MissingFileError::new_err(message)
        }
        (_, ErrorKind::RefusedInput | ErrorKind::UnfitData) => ScenarioError::new_err(message),
        _ => FedrecsimError::new_err(message),
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
