//! Reads the times of ratings.
//!
//! Their unit is often told by the largest of all, so numbers are kept as they are written until the
//! file has been read.

use std::borrow::Cow;

use csv::ByteRecord;

use super::columns::Columns;
use super::dates::{self, calendar_date, has_last_year, is_end, is_rounded, with_time_of_day};
use super::kept_numbers::{Kept, Number};
use super::{number, trimmed};
use crate::dataset::ratings::Interaction;
use fedrecsim_core::Timestamp;
use fedrecsim_scenario::{DelimitedSpec, TimestampFormat};

/// The times of the rows that have been read so far.
#[derive(Default)]
pub(super) struct Times {
    /// How they are written; `None` as long as only numbers have been read, whose unit is not known.
    format: Option<TimestampFormat>,
    /// Whether the scenario says how.
    was_given: bool,
    /// Whether rows are ordered by a column of its own.
    is_ordered: bool,
    /// The size of the largest number, if one has been read.
    largest: Option<f64>,
    /// The first and the last timestamp: dates in nanoseconds, numbers as they are written.
    span: Option<(f64, f64)>,
    /// How the numbers are kept until their unit is known.
    kept: Kept,
    /// Whether some number was no date without hyphens, as in `20001231235959`, and none with its year
    /// last, as in `31122000`.
    has_plain_number: bool,
    has_no_last_year: bool,
    /// Whether some date had its rest, as its time of day, in the next columns.
    has_rest: bool,
    /// How many numbers are written with fewer digits than they have, as in `1.57E+09`.
    rounded: u64,
}

/// The size from which numbers count seconds since 1970, and not the rows: it is March 1973.
pub(super) const FEWEST_SECONDS: f64 = 1e8;

/// The ends of 32-bit integers, which many programs write for a missing time. 999999999 is a real time
/// in 2001.
const MISSING_SECONDS: [i64; 3] = [i32::MAX as i64, i32::MIN as i64, u32::MAX as i64];

/// The last day without hyphens, which stands for a missing date.
const LAST_DAY: f64 = 99_991_231.0;

const SECOND_NS: i64 = 1_000_000_000;
const DAY_NS: i64 = 86_400 * SECOND_NS;

/// The beginning of 1995, before which nobody rated anything online.
const FIRST_RATINGS_NS: i64 = 788_918_400 * SECOND_NS;

/// The beginning of 2040, after which nobody has rated anything yet.
const AFTER_LAST_RATINGS_NS: i64 = 2_208_988_800_000_000_000;

/// The seconds from 1900, when NTP's times begin, to 1970.
const SECONDS_FROM_1900: i64 = 2_208_988_800;

const IF_NOT_MEANT: &str = "if that is not meant, their unit is another one (`dataset.columns.timestamp_format`), they count \
                            from another year than 1970, or they stand for missing ones";

const LEAVE_EMPTY: &str =
    "leave the field empty and set `dataset.columns.on_incomplete = \"skip\"`";

const A_DATE: &str = "a date, as in \"2000-12-31 23:59:59\"";

impl Times {
    pub(super) fn new(layout: &DelimitedSpec) -> Self {
        Self {
            format: layout.timestamp_format,
            was_given: layout.timestamp_format.is_some(),
            is_ordered: layout.order.is_some(),
            ..Self::default()
        }
    }

    /// Reads the key that orders a row, and its instant as far as one is written. Numbers stand in
    /// their own unit until [`Self::finish`]; those of the rows `before` may change their form.
    ///
    /// # Errors
    /// What was expected, and in which column.
    pub(super) fn read(
        &mut self,
        record: &ByteRecord,
        columns: &Columns,
        before: &mut [Interaction],
    ) -> Result<(i64, Timestamp), (String, usize)> {
        let is_blank = |place: &usize| trimmed(record, *place).is_empty();
        let timestamp = columns.timestamp;
        let instant = match timestamp.filter(|place| !(self.is_ordered && is_blank(place))) {
            Some(place) => {
                let text = with_time_of_day(record, place, |place| !columns.is_used(place));
                self.has_rest |= matches!(text, Cow::Owned(_));
                let instant = self.instant(&text, before);
                let whole = |expected| match &text {
                    Cow::Borrowed(_) => expected,
                    Cow::Owned(text) => format!(
                        "a date that reads, with the time in the next columns, as \"2000-12-31 23:59:59\" and \
                         not as {text:?}"
                    ),
                };
                Timestamp(instant.map_err(|expected| (whole(expected), place))?)
            }
            None => Timestamp::UNKNOWN,
        };
        let Some(place) = columns.order else {
            return Ok((instant.0, instant));
        };
        let wrong = || ("an order (a whole number)".to_owned(), place);
        Ok((number(record, place).ok_or_else(wrong)?, instant))
    }

    /// Returns a date in nanoseconds, or a number as it is written.
    ///
    /// # Errors
    /// What was expected.
    fn instant(&mut self, text: &str, before: &mut [Interaction]) -> Result<i64, String> {
        let is_date = self.format == Some(TimestampFormat::DateTime);
        let real = text.parse().ok();
        if let Some(real) = real.filter(|real: &f64| {
            real.is_finite() && !is_date && !(self.is_over(*real) && is_end(text, *real))
        }) {
            return Ok(self.number(text, real, before));
        }
        let may_be_date = is_date || (self.format.is_none() && self.largest.is_none());
        match dates::parse(text).filter(|_| may_be_date) {
            Some(date) => {
                self.format = Some(TimestampFormat::DateTime);
                self.widen(date.0 as f64);
                Ok(date.0)
            }
            None if is_date => Err(A_DATE.to_owned()),
            None if may_be_date => Err(format!("a timestamp (a finite number, or {A_DATE})")),
            None => Err("a timestamp (a finite number)".to_owned()),
        }
    }

    /// Returns whether a number may be beyond the clock. With a unit, ten nines can be a time on it; without one,
    /// they would set the unit of all others.
    fn is_over(&self, number: f64) -> bool {
        let is_beyond = |format| number.abs() * unit(format).0 as f64 >= i64::MAX as f64;
        self.format.is_none_or(is_beyond)
    }

    /// Returns a number as it is written: whole, or the bits of a real.
    fn number(&mut self, text: &str, real: f64, before: &mut [Interaction]) -> i64 {
        if real != LAST_DAY {
            self.widen(real);
        }
        let is_blank = [0.0, -1.0, LAST_DAY].contains(&real);
        self.rounded += u64::from(is_rounded(text));
        let largest = self.largest.get_or_insert_default();
        *largest = largest.max(real.abs());
        let number = Number::of(text, real);
        if !is_blank {
            self.has_plain_number =
                self.has_plain_number || number.whole.and_then(calendar_date).is_none();
            self.has_no_last_year =
                self.has_no_last_year || !number.whole.is_some_and(has_last_year);
        }
        self.kept.keep(&number, *largest, with_instant(before))
    }

    /// Returns a warning of rounded numbers.
    pub(super) fn warning(&self) -> Option<String> {
        (self.rounded > 0).then(|| {
            format!(
                "timestamps that are rounded, as a spreadsheet shows them (1.57E+09): {}; ratings of many hours have \
                 the same time, so export the file anew with the whole number",
                self.rounded
            )
        })
    }

    /// Turns the numbers of all rows into nanoseconds, or into what only orders rows if they count no
    /// time. Returns what was told from the file, if anything was.
    pub(super) fn finish(self, rows: &mut [Interaction]) -> Result<Option<String>, String> {
        let Self {
            was_given,
            span,
            has_rest,
            ..
        } = self;
        let said = |what: &str, instant: &dyn Fn(f64) -> Timestamp| {
            let (first, last) = span.filter(|_| !was_given)?;
            let (first, last) = (instant(first), instant(last));
            let from = match has_rest {
                true => ", with their rest in the next columns",
                false => "",
            };
            Some(format!(
                "timestamps are taken for {what}{from}: {first} to {last}"
            ))
        };
        let Some(largest) = self.largest else {
            // A double rounds the last nanoseconds of a second up to the next one.
            let exact = |ns: f64| {
                let mut instants = rows.iter().map(|row| row.instant);
                instants.find(|instant| instant.0 as f64 == ns)
            };
            let date = |ns: f64| exact(ns).unwrap_or(Timestamp(ns as i64));
            return Ok(said("dates", &date));
        };
        let is_time = largest > 1.0;
        if self.format.is_none() && !self.has_plain_number && is_time {
            for row in with_instant(rows) {
                row.instant = calendar_date(row.instant.0).unwrap_or(row.instant);
            }
            for row in rows.iter_mut().filter(|_| !self.is_ordered) {
                row.time = row.instant.0;
            }
            let date = |number: f64| calendar_date(number as i64).unwrap_or(Timestamp::UNKNOWN);
            return Ok(said("dates without hyphens", &date));
        }
        if let (None, false, Some((first, last))) = (self.format, self.has_no_last_year, span)
            && is_time
        {
            return Err(format!(
                "the timestamps go from {first} to {last}, which are dates whose year stands last: write the year \
                 first, as in 20001231, for 01022000 may be a day of January or of February"
            ));
        }
        if let Some((first, last)) = span
            && let (Some(one), Some(other)) = (unit_of(first), unit_of(last))
            && one != other
        {
            return Err(format!(
                "the timestamps are of two units, for they go from {first} to {last}: write all of them in one; three \
                 zeros behind seconds make milliseconds of them"
            ));
        }
        let format = self.format.or_else(|| unit_of(largest));
        if !was_given
            && format == Some(TimestampFormat::Nanoseconds)
            && largest < FIRST_RATINGS_NS as f64
        {
            return Err(format!(
                "the timestamps go up to {largest}, which is {} in nanoseconds since 1970: if they are file times of \
                 Windows or ticks of .NET, write dates as in \"2000-12-31 23:59:59\"; if they are nanoseconds, give \
                 `dataset.columns.timestamp_format`",
                Timestamp(largest as i64)
            ));
        }
        let (unit_ns, name) = format.map_or((1, ""), unit);
        if format.is_some() && largest * unit_ns as f64 >= i64::MAX as f64 {
            return Err(match was_given {
                true => format!(
                    "the timestamps go up to {largest}, which is after the year 2261 in the unit of \
                     `dataset.columns.timestamp_format`: give a smaller unit"
                ),
                false => format!(
                    "the timestamps go up to {largest}, which is after the year 2261 if they are {name}: \
                     write dates as in \"2000-12-31 23:59:59\", or give \
                     `dataset.columns.timestamp_format`"
                ),
            });
        }
        for row in with_instant(rows) {
            let time = match format {
                Some(_) => self.kept.nanoseconds(row.instant.0, unit_ns),
                None => self.kept.order(row.instant.0),
            };
            row.instant = format.map_or(Timestamp::UNKNOWN, |_| Timestamp(time));
            if !self.is_ordered {
                row.time = time;
            }
        }
        let same = span.filter(|(first, last)| rows.len() > 1 && first == last);
        Ok(match (format, same) {
            (Some(_), _) => said(name, &|number| Timestamp((number * unit_ns as f64) as i64)),
            (None, _) if was_given => None,
            (None, Some((number, _))) => {
                let decides = match self.is_ordered {
                    true => "",
                    false => ", so that the order in the file decides",
                };
                Some(format!(
                    "timestamps are all {number}{decides}: if that is another column, or the decimals of ratings with a \
                     comma, mend `dataset.columns.timestamp` or the separator"
                ))
            }
            (None, None) => Some(format!(
                "timestamps are taken for an order alone: no clock has numbers of their size{}",
                span.and_then(as_days).unwrap_or_default()
            )),
        })
    }

    /// Widens the span of the timestamps.
    fn widen(&mut self, number: f64) {
        let (first, last) = self.span.unwrap_or((number, number));
        self.span = Some((first.min(number), last.max(number)));
    }
}

/// Returns which days numbers are that go from the first to the second, if all are days on which somebody may
/// have rated something: those of a spreadsheet, or those since 1970.
fn as_days((first, last): (f64, f64)) -> Option<String> {
    const DAYS: [(&str, f64); 2] = [
        ("spreadsheets count from 1900", 25_569.0),
        ("count from 1970", 0.0),
    ];
    // A fraction of a day has rounded seconds.
    let instant = |day: f64, before_1970: f64| {
        let seconds = ((day - before_1970) * (DAY_NS / SECOND_NS) as f64).round();
        Timestamp((seconds as i64).saturating_mul(SECOND_NS))
    };
    DAYS.iter().find_map(|(what, before_1970)| {
        let (first, last) = (instant(first, *before_1970), instant(last, *before_1970));
        (first.0 >= FIRST_RATINGS_NS && last.0 < AFTER_LAST_RATINGS_NS).then(|| {
            format!(
                "; as days, which {what}, they go from {first} to {last}: if they are, write dates as in \"2000-12-31 \
                 23:59:59\""
            )
        })
    })
}

/// Returns warnings of instants that stand for missing times, or at which nobody can have rated anything.
pub(super) fn unlikely(rows: &[Interaction]) -> Vec<String> {
    let instants = || rows.iter().filter_map(|row| row.instant.known());
    // Times from a beginning of their own have no calendar.
    let is_clock = |instant: Timestamp| {
        let most = (FEWEST_SECONDS as i64) * SECOND_NS;
        !(-DAY_NS..most).contains(&instant.0)
    };
    if !instants().any(is_clock) {
        return Vec::new();
    }
    // Then the times are of another clock as a whole, and its beginning is no missing one.
    if instants().all(|instant| instant.0 < FIRST_RATINGS_NS) {
        return too_early(instants()).into_iter().collect();
    }
    let missing = || instants().filter(|instant| is_missing(*instant));
    let present = || instants().filter(|instant| !is_missing(*instant));
    let told = missing().next().map(|first| {
        format!(
            "timestamps that many programs write for a missing one, as 0, -1, 2147483647 and their dates: {}, the first \
             {first}; if they are missing, {LEAVE_EMPTY}",
            missing().count()
        )
    });
    let others = [too_early(present()), too_late(present())];
    told.into_iter()
        .chain(others.into_iter().flatten())
        .collect()
}

/// Returns whether an instant is what programs make of a missing time: the beginning of 1970 in some time zone,
/// or the end of their numbers.
fn is_missing(instant: Timestamp) -> bool {
    let is_day = instant.0 % DAY_NS == 0;
    let is_end = |&seconds: &i64| {
        let day = seconds - seconds.rem_euclid(DAY_NS / SECOND_NS);
        instant.0.div_euclid(SECOND_NS) == if is_day { day } else { seconds }
    };
    (-DAY_NS..=DAY_NS).contains(&instant.0) || MISSING_SECONDS.iter().any(is_end)
}

/// Returns a warning of instants before anybody rated anything online.
fn too_early(instants: impl Iterator<Item = Timestamp> + Clone) -> Option<String> {
    let early = instants.filter(|instant| instant.0 < FIRST_RATINGS_NS);
    let first = early.clone().min()?;
    Some(format!(
        "timestamps before 1995: {}, from {first} on; {IF_NOT_MEANT}",
        early.count()
    ))
}

/// Returns a warning of instants that have not been yet.
fn too_late(instants: impl Iterator<Item = Timestamp> + Clone) -> Option<String> {
    let late = instants.filter(|instant| instant.0 >= AFTER_LAST_RATINGS_NS);
    let latest = late.clone().max()?;
    let since_1900 = Timestamp(latest.0 - SECONDS_FROM_1900 * SECOND_NS);
    let epoch = match (FIRST_RATINGS_NS..AFTER_LAST_RATINGS_NS).contains(&since_1900.0) {
        true => format!(
            "; seconds since 1900, as NTP has them, would end at {since_1900}: take {SECONDS_FROM_1900} from each"
        ),
        false => String::new(),
    };
    Some(format!(
        "timestamps from 2040 on: {}, up to {latest}; {IF_NOT_MEANT}{epoch}",
        late.count()
    ))
}

/// Returns a unit in nanoseconds, and its name.
fn unit(format: TimestampFormat) -> (i64, &'static str) {
    match format {
        TimestampFormat::Seconds => (SECOND_NS, "seconds since 1970"),
        TimestampFormat::Milliseconds => (1_000_000, "milliseconds since 1970"),
        TimestampFormat::Microseconds => (1000, "microseconds since 1970"),
        TimestampFormat::Nanoseconds => (1, "nanoseconds since 1970"),
        TimestampFormat::DateTime => (1, ""),
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
