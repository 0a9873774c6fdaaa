//! Carries out `diff`, which compares two reports.

use super::DiffArgs;
use crate::error::Result;
use crate::report::difference::{self, Comparison};

/// Compares two reports.
///
/// # Errors
/// [`Error::Read`](crate::error::Error::Read) if one of them cannot be read.
pub fn diff(arguments: &DiffArgs) -> Result<Comparison> {
    difference::compare(&arguments.one, &arguments.other)
}
