//! Declares and parses the values of options.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

#[cfg(feature = "parquet")]
use clap::ValueEnum;

/// The formats of tables.
#[cfg(feature = "parquet")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// `rounds.csv` and `users.csv`.
    #[default]
    Csv,
    /// `rounds.parquet` and `users.parquet` as well.
    Parquet,
}

/// Parses a virtual time that the clock can show.
pub(crate) fn virtual_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=1e10).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds from 0 to 1e10".to_owned()),
    }
}

/// Parses a number of threads from 1 to 1024.
pub(crate) fn threads(text: &str) -> Result<NonZeroUsize, String> {
    match text.parse::<NonZeroUsize>() {
        Ok(threads) if threads.get() <= 1024 => Ok(threads),
        _ => Err("expected a whole number from 1 to 1024".to_owned()),
    }
}

/// Parses a number of rounds, at least one.
pub(crate) fn rounds(text: &str) -> Result<NonZeroU32, String> {
    text.parse()
        .map_err(|_| format!("expected a whole number from 1 to {}", u32::MAX))
}

/// Parses a duration with its unit, such as `55m` or `1h 30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| "expected a duration with its unit, such as 55m, 90s or 1h30m".to_owned())
}

/// Parses the beginning of a digest, at least 8 hexadecimal digits, and returns it in lower case.
pub(crate) fn digest(text: &str) -> Result<String, String> {
    if (8..=64).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        Ok(text.to_ascii_lowercase())
    } else {
        Err("expected 8 to 64 hexadecimal digits".to_owned())
    }
}

/// Parses an amount of memory in gigabytes.
pub(crate) fn gigabytes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(amount) if amount > 0.0 && amount <= 1e6 => Ok(amount),
        _ => Err("expected a number of gigabytes above 0".to_owned()),
    }
}
