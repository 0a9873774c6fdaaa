//! Instants of the world's clock, at which users rated items. Simulated time is
//! [`SimTime`](crate::SimTime).

use std::fmt;

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An instant, in nanoseconds since the beginning of 1970 (UTC). It lies between 1678 and 2261.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Timestamp(pub i64);

/// The nanoseconds of a day.
const DAY_NS: f64 = 86_400e9;

impl Timestamp {
    /// Stands where no instant is known. It is before all others.
    pub const UNKNOWN: Self = Self(i64::MIN);

    /// Returns the instant, if it is known.
    pub fn known(self) -> Option<Self> {
        (self != Self::UNKNOWN).then_some(self)
    }

    /// Reads a date, a date and a time (with a blank or a `T` between them), or a date of an e-mail
    /// (RFC 2822). Slashes may stand for the hyphens, and `UTC` or a blank before the offset. Without
    /// an offset the time is UTC. `None` for anything else, and for other centuries.
    pub fn parse(text: &str) -> Option<Self> {
        if has_impossible_offset(text) {
            return None;
        }
        let of = |instant: jiff::Timestamp| i64::try_from(instant.as_nanosecond()).ok().map(Self);
        let usual = |text: &str| {
            if let Ok(instant) = text.parse() {
                return of(instant);
            }
            // A text with an offset or a zone that was not read above is no local time.
            if text.contains('[') {
                return None;
            }
            let local = text.parse::<DateTime>().ok()?;
            of(local
                .to_zoned(TimeZone::fixed(Offset::UTC))
                .ok()?
                .timestamp())
        };
        usual(text)
            .or_else(|| usual(&in_usual_form(text)?))
            .or_else(|| of(jiff::fmt::rfc2822::parse(text).ok()?.timestamp()))
    }

    /// Returns the days from `earlier` to here, with fractions.
    pub fn days_since(self, earlier: Self) -> f64 {
        (self.0 as f64 - earlier.0 as f64) / DAY_NS
    }
}

/// Returns whether a text ends in an offset from UTC that no place on Earth has: more than 18 hours.
fn has_impossible_offset(text: &str) -> bool {
    let offset = text.rfind(['+', '-']).filter(|&place| place >= 10);
    let hours = offset.and_then(|place| text.get(place + 1..place + 3)?.parse::<u8>().ok());
    hours.is_some_and(|hours| hours > 18)
}

/// Returns a date as ISO 8601 has it, if it differs from that in its slashes or in what stands before
/// its offset.
fn in_usual_form(text: &str) -> Option<String> {
    let (date, rest) = text.split_at_checked(10)?;
    let is_date = date.bytes().enumerate().all(|(place, byte)| match place {
        4 | 7 => b"-/".contains(&byte),
        _ => byte.is_ascii_digit(),
    });
    let (time, offset) = match rest.trim_start_matches([' ', 'T']).split_once(' ') {
        Some((time, "UTC" | "GMT" | "Z")) => (time, "Z"),
        Some((time, offset)) if offset.starts_with(['+', '-']) => (time, offset),
        Some(_) => return None,
        None => (rest.trim_start_matches([' ', 'T']), ""),
    };
    let between = if time.is_empty() { "" } else { "T" };
    is_date.then(|| format!("{}{between}{time}{offset}", date.replace('/', "-")))
}

/// Shows the date and the time to the second, in UTC.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_nanosecond(self.0.into()) {
            Ok(instant) => write!(f, "{}", instant.strftime("%Y-%m-%d %H:%M:%S")),
            Err(_) => f.write_str("an unknown time"),
        }
    }
}

impl From<Timestamp> for String {
    fn from(instant: Timestamp) -> Self {
        instant.to_string()
    }
}

impl TryFrom<String> for Timestamp {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let instant = Self::parse(&text);
        instant.ok_or_else(|| format!("{text:?} is no date, as in \"2000-12-31 23:59:59\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a date is read as another one, or in a zone that depends on the machine.
    #[test]
    fn dates_are_read_in_their_usual_forms() {
        let second = |seconds: i64| Some(Timestamp(seconds * 1_000_000_000));
        for (text, instant) in [
            ("1970-01-01", second(0)),
            ("1970-01-02 00:00:01", second(86_401)),
            ("2000-12-31T23:59:59Z", second(978_307_199)),
            ("2001-01-01T01:59:59+02:00", second(978_307_199)),
            (
                "2000-12-31 23:59:59.25",
                Some(Timestamp(978_307_199_250_000_000)),
            ),
            ("Sun, 31 Dec 2000 23:59:59 +0000", second(978_307_199)),
            ("2001-01-01T08:59:59+09:00[Asia/Tokyo]", second(978_307_199)),
            ("2001-01-01T08:59:59[Asia/Tokyo]", None),
            ("31 Dec 2000 23:59:59 GMT", second(978_307_199)),
            ("2000-12-31t23:59:59z", second(978_307_199)),
            ("2000-12-31 23:59:59+00:00", second(978_307_199)),
            ("2000-12-31T18:59:59-0500", second(978_307_199)),
            ("2000-12-31 23:59:59 UTC", second(978_307_199)),
            ("2001-01-01 01:59:59 +0200", second(978_307_199)),
            ("2000/12/31 23:59:59", second(978_307_199)),
            ("2000/12/31", second(978_220_800)),
            ("2000-12-31T23:59Z", second(978_307_140)),
            ("2000-12-31 23:59", second(978_307_140)),
            ("20001231T235959Z", second(978_307_199)),
            (
                "2000-12-31T23:59:59.123456789Z",
                Some(Timestamp(978_307_199_123_456_789)),
            ),
            ("2000-12-31 23:59:59 CET", None),
            ("2000-12-31T23:59:59+25:00", None),
            ("Sun, 31 Dec 2000 23:59:59 +2500", None),
            ("12/31/2000", None),
            ("31.12.2000", None),
            ("978307199", None),
            ("2000-13-01", None),
            ("", None),
        ] {
            assert_eq!(Timestamp::parse(text), instant, "{text:?}");
        }
        let shown = Timestamp(978_307_199_250_000_000).to_string();
        assert_eq!(shown, "2000-12-31 23:59:59");
    }
}
