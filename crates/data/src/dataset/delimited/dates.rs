//! Tells dates in fields and in numbers.

use std::borrow::Cow;

use csv::ByteRecord;

use super::trimmed;
use fedrecsim_core::Timestamp;

/// Returns the instant of a date that is written without hyphens: a day, or one with hours, minutes,
/// seconds and milliseconds. Seconds since 1970 look like a day with hours only after 2030.
pub(super) fn calendar_date(number: i64) -> Option<Timestamp> {
    let digits = number.to_string();
    if !digits.starts_with("19") && !digits.starts_with("20") {
        return None;
    }
    let (day, time) = digits.split_at_checked(8)?;
    let text = match time.len() {
        0 => digits,
        2 => format!("{day}T{time}00"),
        4 | 6 => format!("{day}T{time}"),
        9 => format!("{day}T{}.{}", &time[..6], &time[6..]),
        _ => return None,
    };
    Timestamp::parse(&text)
}

/// Returns whether a number is a date without hyphens whose day or month comes first: `31122000`, or
/// `12312000235959`. A first zero is not among its digits.
pub(super) fn has_last_year(number: i64) -> bool {
    let digits = number.to_string();
    let digits = format!("{}{digits}", &"0"[..digits.len() % 2]);
    let (Some(first), Some(second), Some(year)) =
        (digits.get(..2), digits.get(2..4), digits.get(4..8))
    else {
        return false;
    };
    let is_date = |month: &str, day: &str| {
        calendar_date(
            format!("{year}{month}{day}{}", &digits[8..])
                .parse()
                .unwrap_or(0),
        )
        .is_some()
    };
    [8, 12, 14].contains(&digits.len()) && (is_date(first, second) || is_date(second, first))
}

/// Returns whether a number is written with fewer digits than it has, as in `1.57E+09`.
pub(super) fn is_rounded(text: &str) -> bool {
    let place = text.bytes().position(|byte| byte | 0x20 == b'e');
    let parts = place.map(|place| (&text[..place], &text[place + 1..]));
    let Some((digits, Ok(exponent))) = parts.map(|(d, e)| (d, e.parse::<usize>())) else {
        return false;
    };
    let digits = digits.replace(',', ".");
    let decimals = digits.split_once('.').map_or("", |(_, decimals)| decimals);
    exponent > decimals.len() && digits.parse::<f64>().is_ok_and(|digits| digits != 0.0)
}

/// Returns a timestamp as it is written. To a date belongs the time of day in the next column, and the
/// offset or the half of the day behind that, if these columns are free.
pub(super) fn with_time_of_day(
    record: &ByteRecord,
    place: usize,
    is_free: impl Fn(usize) -> bool,
) -> Cow<'_, str> {
    let text = |place: usize| std::str::from_utf8(trimmed(record, place)).unwrap_or_default();
    let date = text(place);
    if !is_free(place + 1) || !is_day_with_time(record, place) {
        return date.into();
    }
    let offset = text(place + 2);
    let is_offset = is_free(place + 2)
        && (["UTC", "GMT", "Z"].contains(&offset)
            || is_half_or_zone(offset)
            || offset.len() > 4 && offset.starts_with(['+', '-']));
    let offset = if is_offset { offset } else { "" };
    format!("{date} {} {offset}", with_two_digits(text(place + 1)))
        .trim_end()
        .to_owned()
        .into()
}

/// Returns whether the field at `place` is a day, and the next one its time.
pub(super) fn is_day_with_time(record: &ByteRecord, place: usize) -> bool {
    let text = |place: usize| std::str::from_utf8(trimmed(record, place)).unwrap_or_default();
    is_day(text(place)) && is_time_of_day(text(place + 1))
}

/// Returns whether a text is a date without a time.
fn is_day(text: &str) -> bool {
    text.len() == 10 && text.contains(['-', '/']) && Timestamp::parse(text).is_some()
}

/// Returns whether a text is a time without a date, as in `23:59` or `23:59:59.5`.
fn is_time_of_day(text: &str) -> bool {
    text.contains(':')
        && Timestamp::parse(&format!("2000-01-01T{}", with_two_digits(text))).is_some()
}

/// Returns whether a text is a half of the day, as in `p.m.`, or an abbreviated zone. Neither is read, so that
/// a date with it is refused.
fn is_half_or_zone(text: &str) -> bool {
    const ZONES: [&str; 12] = [
        "EST", "EDT", "CST", "CDT", "MST", "MDT", "PST", "PDT", "CET", "CEST", "BST", "JST",
    ];
    let letters = text.replace(['.', ' '], "").to_uppercase();
    ["AM", "PM"].contains(&letters.as_str()) || ZONES.contains(&text)
}

/// Returns a time of day with two digits of the hour.
fn with_two_digits(time: &str) -> Cow<'_, str> {
    match time.as_bytes().get(1) {
        Some(b':') => format!("0{time}").into(),
        _ => time.into(),
    }
}
