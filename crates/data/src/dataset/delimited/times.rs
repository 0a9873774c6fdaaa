//! Reads the times of ratings.
//!
//! Their unit is often told by the largest of all, so numbers are kept as they are written until the
//! file has been read.

use csv::ByteRecord;

use super::{number, trimmed, wrong_number};
use crate::dataset::ratings::Interaction;
use fedrecsim_core::Timestamp;
use fedrecsim_scenario::{DelimitedSpec, TimestampFormat};

/// The times of the rows that have been read so far.
#[derive(Default)]
pub(super) struct Times {
    /// How they are written; `None` as long as only numbers have been read, whose unit is not known.
    format: Option<TimestampFormat>,
    /// Whether rows are ordered by a column of its own.
    is_ordered: bool,
    /// The size of the largest number, if one has been read.
    largest: Option<f64>,
    /// Whether some number had a fraction. All of them are then kept as the bits of reals; whole
    /// numbers of nanoseconds have more digits than those.
    is_real: bool,
}

/// The size from which numbers count seconds since 1970, and not the rows: it is March 1973.
const FEWEST_SECONDS: f64 = 1e8;

const A_DATE: &str = "a date, as in \"2000-12-31 23:59:59\"";

impl Times {
    pub(super) fn new(layout: &DelimitedSpec) -> Self {
        Self {
            format: layout.timestamp_format,
            is_ordered: layout.order.is_some(),
            ..Self::default()
        }
    }

    /// Reads the key that orders a row, and its instant as far as one is written. Numbers stand in
    /// their own unit until [`Self::finish`]; those of the rows `before` may change their form.
    pub(super) fn read(
        &mut self,
        record: &ByteRecord,
        (timestamp, order): (Option<usize>, Option<usize>),
        before: &mut [Interaction],
    ) -> Result<(i64, Timestamp), String> {
        let is_blank = |place: &usize| trimmed(record, *place).is_empty();
        let instant = match timestamp.filter(|place| !(self.is_ordered && is_blank(place))) {
            Some(place) => Timestamp(self.instant(record, place, before)?),
            None => Timestamp::UNKNOWN,
        };
        let Some(place) = order else {
            return Ok((instant.0, instant));
        };
        let wrong = || wrong_number("an order (a whole number)", record, place);
        Ok((number(record, place).ok_or_else(wrong)?, instant))
    }

    /// Returns a date in nanoseconds, or a number as it is written.
    fn instant(
        &mut self,
        record: &ByteRecord,
        place: usize,
        before: &mut [Interaction],
    ) -> Result<i64, String> {
        let is_date = self.format == Some(TimestampFormat::DateTime);
        let real = number(record, place).filter(|real: &f64| real.is_finite() && !is_date);
        if let Some(real) = real {
            let largest = self.largest.get_or_insert_default();
            *largest = largest.max(real.abs());
            let whole = number(record, place);
            if whole.is_none() && !self.is_real {
                self.is_real = true;
                for row in with_instant(before) {
                    row.instant.0 = (row.instant.0 as f64).to_bits() as i64;
                }
            }
            // Adding zero makes -0 equal to 0.
            let real = real + 0.0;
            return Ok(match whole {
                Some(whole) if !self.is_real => whole,
                _ => real.to_bits() as i64,
            });
        }
        let text = std::str::from_utf8(trimmed(record, place)).unwrap_or_default();
        let may_be_date = is_date || (self.format.is_none() && self.largest.is_none());
        match Timestamp::parse(text).filter(|_| may_be_date) {
            Some(date) => {
                self.format = Some(TimestampFormat::DateTime);
                Ok(date.0)
            }
            None if is_date => Err(wrong_number(A_DATE, record, place)),
            None if may_be_date => {
                let expected = format!("a timestamp (a finite number, or {A_DATE})");
                Err(wrong_number(&expected, record, place))
            }
            None => Err(wrong_number("a timestamp (a finite number)", record, place)),
        }
    }

    /// Turns the numbers of all rows into nanoseconds, or into what only orders rows if they count no
    /// time.
    pub(super) fn finish(self, rows: &mut [Interaction]) -> Result<(), String> {
        use TimestampFormat::{DateTime, Microseconds, Milliseconds, Nanoseconds, Seconds};
        let Some(largest) = self.largest else {
            return Ok(());
        };
        let format = self.format.or_else(|| unit_of(largest));
        let unit_ns = match format {
            Some(Seconds) => 1_000_000_000,
            Some(Milliseconds) => 1_000_000,
            Some(Microseconds) => 1000,
            Some(Nanoseconds | DateTime) | None => 1,
        };
        if format.is_some() && largest * unit_ns as f64 >= i64::MAX as f64 {
            return Err(format!(
                "the timestamps go up to {largest}, which is after the year 2261 in the unit of \
                 `dataset.columns.timestamp_format`: give a smaller unit"
            ));
        }
        for row in with_instant(rows) {
            let real = f64::from_bits(row.instant.0 as u64);
            let time = match (format, self.is_real) {
                (Some(_), true) => (real * unit_ns as f64).round() as i64,
                (Some(_), false) => row.instant.0 * unit_ns,
                (None, true) => order_of(real),
                (None, false) => row.instant.0,
            };
            row.instant = format.map_or(Timestamp::UNKNOWN, |_| Timestamp(time));
            if !self.is_ordered {
                row.time = time;
            }
        }
        Ok(())
    }
}

/// Returns the unit of numbers of which the largest has this size; `None` if they only order rows.
/// The ranges do not overlap: 1e11 seconds are in the year 5138, and 1e11 milliseconds in 1973.
fn unit_of(largest: f64) -> Option<TimestampFormat> {
    match largest {
        ..FEWEST_SECONDS => None,
        ..1e11 => Some(TimestampFormat::Seconds),
        ..1e14 => Some(TimestampFormat::Milliseconds),
        ..1e17 => Some(TimestampFormat::Microseconds),
        ..9.2e18 => Some(TimestampFormat::Nanoseconds),
        _ => None,
    }
}

/// Returns the rows that have a timestamp.
fn with_instant(rows: &mut [Interaction]) -> impl Iterator<Item = &mut Interaction> {
    rows.iter_mut().filter(|row| row.instant.known().is_some())
}

/// Returns an integer that orders as the real number does (the transformation of
/// [`f64::total_cmp`]).
fn order_of(real: f64) -> i64 {
    let bits = real.to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}
