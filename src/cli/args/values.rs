//! Declares the values of options: their ranges, and how those are read that clap does not know.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;

use crate::{Error, Result};

/// The formats of tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    /// `rounds.csv` and `users.csv`.
    #[default]
    Csv,
    /// `rounds.parquet` and `users.parquet` as well; takes the feature `parquet`.
    Parquet,
}

/// What a run is held against: the same scenario without what the method's server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ControlArg {
    /// Devices that share nothing (`training.aggregation = "none"`).
    None,
    /// A server that takes the plain mean (`training.aggregation = "mean"`).
    Mean,
}

/// Where the links or the devices of a run in real time come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pretend {
    /// From the scenario, so that the run takes the time that its simulation tells.
    #[default]
    Scenario,
    /// They are as they are.
    None,
}

/// Checks that this build can write Parquet files, before anything is done for one.
///
/// # Errors
/// [`Error::Usage`] in a build without the feature.
pub(crate) fn check_parquet() -> Result<()> {
    match cfg!(feature = "parquet") {
        true => Ok(()),
        false => Err(Error::without_feature("parquet", "writes Parquet files")),
    }
}

/// Takes a number of threads. Without a limit, more threads than any machine has would take minutes
/// to start before they exhaust the machine.
pub(crate) fn threads(text: &str) -> Result<u16, String> {
    whole(text, 1..=1024, "from 1 to 1024")
}

/// Takes a number of rounds or of one round.
pub(crate) fn from_one(text: &str) -> Result<u32, String> {
    whole(text, 1..=u32::MAX, "of at least 1")
}

/// Takes a number of tasks.
pub(crate) fn tasks(text: &str) -> Result<NonZeroUsize, String> {
    whole(text, NonZeroUsize::MIN..=NonZeroUsize::MAX, "of at least 1")
}

/// Takes a seed. TOML integers end at 2^63 - 1, and the seed must survive being printed as one.
pub(crate) fn seeds(text: &str) -> Result<u64, String> {
    let largest = i64::MAX as u64;
    whole(text, 0..=largest, &format!("from 0 to {largest}"))
}

fn whole<T: FromStr + PartialOrd>(
    text: &str,
    range: RangeInclusive<T>,
    expected: &str,
) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("expected a whole number {expected}"))
}

/// Takes a span of wall-clock time.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let span = humantime::parse_duration(text);
    span.map_err(|_| {
        "expected a time of at least 0 with its units, such as 55m or 1h30m".to_owned()
    })
}

/// Takes a virtual time that the clock can show.
pub(crate) fn virtual_seconds(text: &str) -> Result<f64, String> {
    number(text, 0.0..=1e10, "a number of seconds from 0 to 1e10")
}

/// Takes an amount of memory in gigabytes.
pub(crate) fn gigabytes(text: &str) -> Result<f64, String> {
    let above_zero = f64::MIN_POSITIVE..=1e6;
    number(text, above_zero, "a number of gigabytes above 0")
}

fn number(text: &str, range: RangeInclusive<f64>, expected: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("expected {expected}"))
}

/// Reads the first and the last of some users.
///
/// # Errors
/// What was expected.
pub(crate) fn users(text: &str) -> Result<(u32, u32), String> {
    let expected = || "expected FIRST..LAST, such as 0..99 for a hundred users".to_owned();
    let (first, last) = text.split_once("..").ok_or_else(expected)?;
    let [first, last] = [first, last].map(|number| number.trim().parse().ok());
    let (first, last): (u32, u32) = first.zip(last).ok_or_else(expected)?;
    match first <= last && last < u32::MAX {
        true => Ok((first, last)),
        false => Err(expected()),
    }
}

/// Takes the beginning of a digest, at least 8 hexadecimal digits, in lower case.
pub(crate) fn digest(text: &str) -> Result<String, String> {
    if (8..=64).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        Ok(text.to_ascii_lowercase())
    } else {
        Err("expected 8 to 64 hexadecimal digits".to_owned())
    }
}
