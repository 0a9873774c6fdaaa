//! What could stand in the place of a faulty key or value, so that the rest of a file can be
//! checked.

use serde_json::Value as Json;

/// What can stand in the place of a fault. Nobody knows what the user meant, so there are two
/// choices wherever the rest of the file could depend on it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Repair {
    /// One of these numbers, words or truth values stands instead of the value at the place of the
    /// fault.
    Values([Json; 2]),
    /// The key at the place of the fault is left out.
    LeaveOut,
    /// The key at the place of the fault has this name.
    Rename(String),
}

impl Repair {
    /// Returns the repair that puts one of two numbers in.
    pub(super) fn numbers(numbers: [f64; 2]) -> Self {
        Self::Values(numbers.map(|number| {
            let is_whole = number.fract() == 0.0 && number.abs() < 1e15;
            if is_whole {
                (number as i64).into()
            } else {
                number.into()
            }
        }))
    }

    /// Returns the repair that puts a word in.
    pub(super) fn word(word: &str) -> Self {
        Self::Values([word, word].map(Json::from))
    }

    /// Returns the repair that puts a truth value in.
    pub(super) fn either() -> Self {
        Self::Values([true, false].map(Json::from))
    }
}
