//! Carries out `diff`, which compares two reports.

use super::DiffArgs;
use fedrecsim_core::error::Result;
use fedrecsim_report::report::difference::{self, Comparison};

/// Compares two reports.
///
/// # Errors
/// [`Error::Read`](fedrecsim_core::error::Error::Read) if one of them cannot be read.
pub fn diff(arguments: &DiffArgs) -> Result<Comparison> {
    difference::compare(&arguments.one, &arguments.other)
}
