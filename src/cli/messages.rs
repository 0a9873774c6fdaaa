//! Prints messages on standard error.
//!
//! A message that cannot be printed, because the disk is full, the terminal is gone or nobody reads the pipe any more,
//! is dropped: it must neither end a run nor change an exit code.

use std::io::{Write, stderr};

/// Prints text as it is.
pub fn print(text: &str) {
    // There is no better place to tell that standard error cannot be written to.
    let _ = stderr().write_all(text.as_bytes());
}

/// Prints an error, on a line of its own.
pub fn error(text: &str) {
    print(&format!("error: {text}\n"));
}

/// Prints a warning about something that does not stop a run, on a line of its own.
pub fn warn(text: &str) {
    print(&format!("warning: {text}\n"));
}
