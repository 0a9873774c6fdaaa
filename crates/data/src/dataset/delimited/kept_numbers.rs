//! Keeps the numbers of timestamps until the whole file has told their unit.

use crate::dataset::ratings::Interaction;

const BILLION: i64 = 1_000_000_000;

/// How numbers are kept in the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kept {
    /// As they are: all are whole. Nanoseconds have more digits than a real has.
    #[default]
    Whole,
    /// In thousand millionths, which keeps nine decimals of seconds.
    Billionths,
    /// As the bits of a real.
    Real,
}

/// A number of a row.
pub(super) struct Number {
    real: f64,
    pub whole: Option<i64>,
    billionths: Option<i64>,
}

impl Number {
    /// Returns the number that is written so, which is `real` in double precision.
    pub(super) fn of(text: &str, real: f64) -> Self {
        let mut number = Self {
            real,
            whole: text.parse().ok(),
            billionths: None,
        };
        if number.whole.is_none() {
            number.billionths = billionths(text);
            // A real does not tell nine decimals of seconds from none.
            let has_decimals = number.billionths.is_some_and(|of| of % BILLION != 0);
            let is_whole = !has_decimals && real.fract() == 0.0 && real.abs() < 9e15;
            number.whole = is_whole.then_some(real as i64);
        }
        number.billionths = number
            .billionths
            .or_else(|| number.whole?.checked_mul(BILLION));
        number
    }
}

impl Kept {
    /// Keeps one more number beside those of the rows `before`, which may have to be kept in another
    /// way, and returns it. `largest` is the size of the largest number so far, this one included.
    pub(super) fn keep<'r>(
        &mut self,
        number: &Number,
        largest: f64,
        before: impl Iterator<Item = &'r mut Interaction>,
    ) -> i64 {
        // Whole numbers that were read before become billionths too.
        let fits = largest < (i64::MAX / BILLION) as f64;
        let billionths = number.billionths.filter(|_| fits);
        let kept = match (*self, number.whole, billionths) {
            (Self::Whole, Some(_), _) => Self::Whole,
            (Self::Whole | Self::Billionths, _, Some(_)) => Self::Billionths,
            _ => Self::Real,
        };
        if kept != *self {
            for row in before {
                row.instant.0 = self.turned(row.instant.0, kept);
            }
            *self = kept;
        }
        match (kept, number.whole, billionths) {
            (Self::Whole, Some(whole), _) => whole,
            (Self::Billionths, _, Some(billionths)) => billionths,
            // Adding zero makes -0 equal to 0.
            _ => (number.real + 0.0).to_bits() as i64,
        }
    }

    /// Returns what a number that is kept so becomes if it is kept in another way.
    fn turned(self, number: i64, into: Self) -> i64 {
        match (self, into) {
            (Self::Whole, Self::Billionths) => number.saturating_mul(BILLION),
            (Self::Whole, Self::Real) => (number as f64).to_bits() as i64,
            (Self::Billionths, Self::Real) => (number as f64 / BILLION as f64).to_bits() as i64,
            _ => number,
        }
    }

    /// Returns the nanoseconds of a number that is kept so, in a unit of this many.
    pub(super) fn nanoseconds(self, number: i64, unit_ns: i64) -> i64 {
        match self {
            Self::Whole => number * unit_ns,
            Self::Billionths => {
                // A product of two numbers of 63 bits has 126 bits.
                let product = i128::from(number) * i128::from(unit_ns);
                let half = i128::from(BILLION / 2) * product.signum();
                // The largest number has been held against the end of time.
                i64::try_from((product + half) / i128::from(BILLION)).unwrap_or(i64::MAX)
            }
            Self::Real => {
                let real = f64::from_bits(number as u64);
                // A product of all digits would be rounded.
                real.trunc() as i64 * unit_ns + (real.fract() * unit_ns as f64).round() as i64
            }
        }
    }

    /// Returns an integer that orders as a number does that is kept so (for a real, the
    /// transformation of [`f64::total_cmp`]).
    pub(super) fn order(self, number: i64) -> i64 {
        match self {
            Self::Whole | Self::Billionths => number,
            Self::Real => number ^ ((number >> 63) as u64 >> 1) as i64,
        }
    }
}

/// Returns a number without an exponent in thousand millionths; `None` if it has more decimals, or is
/// too large.
fn billionths(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let decimals = decimals.trim_end_matches('0');
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if decimals.len() > 9 || !is_digits(whole) || !is_digits(decimals) {
        return None;
    }
    let whole: i64 = if whole.is_empty() { "0" } else { whole }.parse().ok()?;
    let decimals: i64 = format!("{decimals:0<9}").parse().ok()?;
    Some(sign * whole.checked_mul(BILLION)?.checked_add(decimals)?)
}
