//! Defines a cell of a table, which is a number or nothing. CSV and Arrow are written from the same
//! cells.

use std::fmt;

/// A number, or the place of one that is not there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell {
    /// A count.
    Count(Option<u64>),
    /// A number that may have a fraction.
    Number(Option<f64>),
}

impl Cell {
    /// Makes a cell of a count.
    pub(crate) fn count(value: impl Into<u64>) -> Self {
        Self::Count(Some(value.into()))
    }

    /// Makes a cell of a number.
    pub(crate) fn number(value: f64) -> Self {
        Self::Number(Some(value))
    }
}

/// Writes the number as CSV has it; nothing if there is none.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(value) => value.map_or(Ok(()), |value| value.fmt(f)),
            Self::Number(value) => value.map_or(Ok(()), |value| value.fmt(f)),
        }
    }
}
