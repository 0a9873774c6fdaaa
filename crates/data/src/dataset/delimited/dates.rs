//! Tells dates in fields and in numbers.

use std::borrow::Cow;

use csv::ByteRecord;

use super::trimmed;
use fedrecsim_core::Timestamp;

/// Reads a date as [`Timestamp::parse`] does, or in another form that has one meaning.
pub(super) fn parse(text: &str) -> Option<Timestamp> {
    // Most files have the usual form.
    if !text.contains(":60")
        && let Some(usual) = Timestamp::parse(text)
    {
        return Some(usual);
    }
    let text = text.replace('\u{2212}', "-");
    of_leap_second(&text)
        .or_else(|| of_midnight(&text))
        .or_else(|| of_milliseconds(&text))
        .or_else(|| Timestamp::parse(&with_all_digits(&text)?))
        .or_else(|| Timestamp::parse(&as_in_mails(&text)?))
        .or_else(|| Timestamp::parse(&with_month(&text)?))
        .or_else(|| Timestamp::parse(&text))
}

/// Returns the last instant before the next minute of a time in a leap second, as in `23:59:60.5`: it is after
/// all of the second before. A form without fractions, as that of mails, has the beginning of that second.
fn of_leap_second(text: &str) -> Option<Timestamp> {
    let (before, behind) = text.split_once(":60")?;
    let place = before.len().checked_sub(3)?;
    if before.as_bytes()[place] != b':' {
        return None;
    }
    let is_digit = |character: char| character.is_ascii_digit();
    let fraction = behind.strip_prefix('.');
    let zone = fraction.map_or(behind, |digits| digits.trim_start_matches(is_digit));
    Timestamp::parse(&format!("{before}:59.999999999{zone}"))
        .or_else(|| Timestamp::parse(&format!("{before}:59{zone}")))
}

/// Returns the beginning of the next day for the end of one, as in `2016-12-31T24:00:00`.
fn of_midnight(text: &str) -> Option<Timestamp> {
    const DAY_NS: i64 = 86_400_000_000_000;
    let (date, rest) = text
        .split_once("24:00")
        .filter(|(date, _)| date.len() == 11)?;
    let zone = rest.strip_prefix(":00").unwrap_or(rest);
    let zone = zone
        .strip_prefix('.')
        .map_or(zone, |zeros| zeros.trim_start_matches('0'));
    let begins = Timestamp::parse(&format!("{date}00:00:00{zone}"))?;
    begins.0.checked_add(DAY_NS).map(Timestamp)
}

/// Returns the instant of milliseconds as .NET writes them into JSON: `/Date(978307199000+0100)/`, whose offset
/// is only for showing them.
fn of_milliseconds(text: &str) -> Option<Timestamp> {
    let inner = text.strip_prefix("/Date(")?.strip_suffix(")/")?;
    let offset = inner
        .char_indices()
        .skip(1)
        .find(|(_, character)| "+-".contains(*character));
    let (number, offset) = inner.split_at(offset.map_or(inner.len(), |(place, _)| place));
    let is_offset = offset.is_empty() || offset.len() == 5 && offset[1..].parse::<u16>().is_ok();
    let number: i64 = number.parse().ok().filter(|_| is_offset)?;
    number.checked_mul(1_000_000).map(Timestamp)
}

/// Returns a date whose year stands first with two digits of its month, day and hour.
fn with_all_digits(text: &str) -> Option<String> {
    let end = text.find([' ', 'T']).unwrap_or(text.len());
    let (date, time) = text.split_at(end);
    let mark = date.chars().find(|character| "-/".contains(*character))?;
    let [year, month, day] = date.split(mark).collect::<Vec<_>>()[..] else {
        return None;
    };
    let is_short =
        |part: &str| (1..=2).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    let is_date = year.len() == 4 && is_short(month) && is_short(day);
    let time = time.trim_start_matches([' ', 'T']);
    let between = if time.is_empty() { "" } else { " " };
    is_date.then(|| {
        format!(
            "{year}-{month:0>2}-{day:0>2}{between}{}",
            with_two_digits(time)
        )
    })
}

/// Returns a date whose month is a word, as mails have it: that of X (Twitter), C, JavaScript, web servers, or
/// of RFC 850, whose day of the week says which century is meant.
fn as_in_mails(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let offset = |zone: &str| match zone {
        "UTC" | "GMT" | "Z" | "" => "+0000".to_owned(),
        zone => zone.strip_prefix("GMT").unwrap_or(zone).to_owned(),
    };
    let is_year = |word: &str| word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit());
    match words[..] {
        [week, month, day, time, zone, year] if is_year(year) => Some(format!(
            "{week}, {day} {month} {year} {time} {}",
            offset(zone)
        )),
        [week, month, day, time, year] if is_year(year) && time.contains(':') => {
            Some(format!("{week}, {day} {month} {year} {time} +0000"))
        }
        [week, month, day, year, time, zone, ..] if is_year(year) && zone.starts_with("GMT") => {
            Some(format!(
                "{week}, {day} {month} {year} {time} {}",
                offset(zone)
            ))
        }
        [week, date, time, zone] if week.ends_with(',') => {
            let [day, month, year] = date.split('-').collect::<Vec<_>>()[..] else {
                return None;
            };
            let number: u8 = year.parse().ok().filter(|_| year.len() == 2)?;
            let century = if number < 70 { "20" } else { "19" };
            let week = week.get(..3)?;
            Some(format!(
                "{week}, {day} {month} {century}{year} {time} {}",
                offset(zone)
            ))
        }
        [at, zone] => {
            let (at, zone) = (
                at.strip_prefix('[').unwrap_or(at),
                zone.strip_suffix(']').unwrap_or(zone),
            );
            let (date, time) = at.split_once(':')?;
            let [day, month, year] = date.split('/').collect::<Vec<_>>()[..] else {
                return None;
            };
            is_year(year).then(|| format!("{day} {month} {year} {time} {}", offset(zone)))
        }
        _ => None,
    }
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// Returns the number of a month by its name, or by the beginning of that.
fn month(word: &str) -> Option<usize> {
    let word = word.trim_end_matches('.').to_lowercase();
    let is_name = |name: &&str| word.len() > 2 && name.starts_with(&word);
    MONTHS.iter().position(is_name).map(|at| at + 1)
}

/// Returns a day, perhaps with a time, whose month is a word, or whose comma says that the month is before it:
/// `13/Mar/2011`, `March 13, 2011` or `03 13, 2011`, as Amazon's reviews have it.
fn with_month(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let parts = |date: &'_ str| -> Option<[String; 3]> {
        let parts: Vec<String> = date.split(['/', '-']).map(str::to_owned).collect();
        parts.try_into().ok()
    };
    let ([first, second, year], time) = match words[..] {
        [date] => (parts(date)?, "00:00".to_owned()),
        [date, time] => (parts(date)?, time.to_owned()),
        [one, two, year] => ([one, two, year].map(str::to_owned), "00:00".to_owned()),
        [one, two, year, ref time @ ..] if time.len() < 3 => {
            ([one, two, year].map(str::to_owned), time.join(" "))
        }
        _ => return None,
    };
    let year = year.trim_end_matches(',');
    let day_before_comma = second.strip_suffix(',').unwrap_or(&second);
    let (month, day) = match (month(&first), month(&second), second.ends_with(',')) {
        (Some(month), _, _) => (month, day_before_comma),
        (None, Some(month), false) => (month, &*first),
        (None, None, true) => (first.parse().ok()?, day_before_comma),
        _ => return None,
    };
    (year.len() == 4).then(|| format!("{year}-{month:0>2}-{day:0>2} {}", with_two_digits(&time)))
}

/// Returns whether a number is at the end of 64 bits or of the clock. Programs write those for a missing time,
/// such as nines, or -2^63 for `NaT` of pandas.
pub(super) fn is_end(text: &str, number: f64) -> bool {
    // Reals are rounded, and `NaT` may have been divided into another unit.
    let is_last = |unit: f64| (number.abs() * unit - i64::MAX as f64).abs() < unit;
    let digits = text.strip_suffix(".0").unwrap_or(text);
    let are_nines = || digits.len() % 3 == 1 && digits.bytes().all(|byte| byte == b'9');
    number.abs() > 9e9 && ([1e9, 1e6, 1e3, 1.0].into_iter().any(is_last) || are_nines())
}

/// The years beyond the clock that programs write for a missing time: the first ones of ISO 8601, .NET, MySQL and
/// Windows, and the last one of most.
const YEARS_OF_NONE: [u16; 5] = [0, 1, 1000, 1601, 9999];

/// Returns whether programs write this for a missing time: a date in one of [`YEARS_OF_NONE`], or a number of
/// [`is_end`].
pub(super) fn stands_for_none(text: &str) -> bool {
    match text.parse() {
        Ok(number) => is_end(text, number),
        Err(_) => year_beyond(text).is_some_and(|year| YEARS_OF_NONE.contains(&year)),
    }
}

/// Returns the year of a date before 1678 or after 2261.
fn year_beyond(text: &str) -> Option<u16> {
    let (year, rest) = text.split_at_checked(4)?;
    // The year 2000 has all days that a year has, and its January those of any month in another calendar.
    let has_day = || {
        let day = rest.get(3..).unwrap_or_default();
        [format!("2000{rest}"), format!("2000-01{day}")]
            .iter()
            .any(|date| parse(date).is_some())
    };
    let year = year.parse().ok()?;
    let is_beyond = !(1678..=2261).contains(&year);
    (rest.starts_with(['-', '/']) && is_beyond && has_day()).then_some(year)
}

/// Returns what to do with a time that [`parse`] does not read.
pub(super) fn remedy(text: &str) -> Option<&'static str> {
    if stands_for_none(text) {
        return Some("times go from 1678 to 2261, and programs write others where one is missing");
    }
    if year_beyond(text).is_some() {
        return Some(
            "times go from 1678 to 2261, and these may be years of another calendar: write those of the Gregorian one",
        );
    }
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let last = words.last().copied().unwrap_or_default();
    let is_half =
        |word: &str| ["AM", "PM"].contains(&word.replace('.', "").to_uppercase().as_str());
    let ends_with_half =
        |word: &str| word.len() > 4 && word.is_ascii() && is_half(&word[word.len() - 2..]);
    let parts: Vec<&str> = text.split(['-', '/']).collect();
    let is_number =
        |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let without_week = text.split_once(", ").and_then(|(_, date)| parse(date));
    if is_half(last) || ends_with_half(last) {
        Some("write the hours from 0 to 23, without AM and PM")
    } else if words.len() > 1 && is_half_or_zone(last) || text.ends_with(']') && text.contains('/')
    {
        Some("write the offset from UTC in place of the zone, as in -05:00")
    } else if matches!(parts[..], [year, month] if year.len() == 4 && month.len() <= 2)
        && parts.iter().all(is_number)
    {
        Some("write a day as well, as in 2000-12-01")
    } else if matches!(parts[..], [year, day] if year.len() == 4 && day.len() == 3)
        && parts.iter().all(is_number)
        || is_week(text)
    {
        Some("write the month and its day, as in 2000-12-31")
    } else if matches!(parts[..], [_, word, year] if month(word).is_some() && year.len() == 2) {
        Some("write the year with four digits")
    } else if is_no_day(text) {
        Some("there is no such day or hour: mend it, or find out where it comes from")
    } else if without_week.is_some() {
        Some(
            "the day of the week is not that of the date: leave it out, or find out which of both is right",
        )
    } else if parse(&text[..text.rfind(['+', '-']).unwrap_or(0)]).is_some() {
        Some("no place on Earth is so many hours from UTC: mend the offset or leave it out")
    } else {
        None
    }
}

/// Returns whether a text has the form of a date and a time, which would be one with other digits.
fn is_no_day(text: &str) -> bool {
    let other = |from: usize, digits: &str| {
        let mut mended = text.to_owned();
        let is_there = text.is_ascii()
            && text
                .as_bytes()
                .get(from..from + 2)
                .is_some_and(|part| part.iter().all(u8::is_ascii_digit));
        is_there && {
            mended.replace_range(from..from + 2, digits);
            parse(&mended).is_some()
        }
    };
    [(5, "01"), (8, "01"), (11, "01"), (14, "01"), (17, "01")]
        .into_iter()
        .any(|(from, digits)| other(from, digits))
}

/// Returns whether a text is a week of ISO 8601, as in `2011-W10-7`.
fn is_week(text: &str) -> bool {
    let is_digit = |place| text.as_bytes().get(place).is_some_and(u8::is_ascii_digit);
    let week = text.find('W').filter(|place| (4..6).contains(place));
    week.is_some_and(|place| (0..4).all(is_digit) && is_digit(place + 1))
}

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
/// offset or the half of the day behind that, if these columns are free. To the beginning of a date with
/// words belong as many columns as make it a whole one.
pub(super) fn with_time_of_day(
    record: &ByteRecord,
    place: usize,
    is_free: impl Fn(usize) -> bool,
) -> Cow<'_, str> {
    let text = |place: usize| std::str::from_utf8(trimmed(record, place)).unwrap_or_default();
    let date = text(place);
    if !is_free(place + 1) || !is_day_with_time(record, place) {
        return with_words(record, place, is_free).map_or(date.into(), Cow::Owned);
    }
    let offset = text(place + 2);
    let has_offset = is_free(place + 2) && is_behind_time(offset);
    let offset = if has_offset { offset } else { "" };
    format!("{date} {} {offset}", with_two_digits(text(place + 1)))
        .trim_end()
        .to_owned()
        .into()
}

/// Returns a date with words that blanks have divided into columns, as a web server's log or a mail has it.
///
/// A whole date takes a time of day and its offset alone: another number behind it is a column of its own.
fn with_words(
    record: &ByteRecord,
    place: usize,
    is_free: impl Fn(usize) -> bool,
) -> Option<String> {
    const MOST_WORDS: usize = 6;
    let text = |place: usize| std::str::from_utf8(trimmed(record, place)).unwrap_or_default();
    let is_begun = text(place).starts_with(|sign: char| sign.is_alphabetic() || sign == '[')
        || month(text(place + 1)).is_some();
    if !is_begun {
        return None;
    }
    let most = (place + 1..record.len().min(place + MOST_WORDS))
        .find(|place| !is_free(*place))
        .unwrap_or(record.len().min(place + MOST_WORDS));
    let joined = |end: usize| (place..end).map(text).collect::<Vec<_>>().join(" ");
    let is_whole = |end: &usize| parse(&joined(*end)).is_some();
    let mut end = (place + 1..=most).find(is_whole)?;
    if end < most && text(end).contains(':') {
        end += 1;
    }
    if end < most && joined(end).contains(':') && is_behind_time(text(end)) {
        end += 1;
    }
    (end > place + 1).then(|| joined(end))
}

/// Returns whether a text may stand behind a time of day: an offset, a zone or a half of the day.
fn is_behind_time(text: &str) -> bool {
    ["UTC", "GMT", "Z"].contains(&text)
        || is_half_or_zone(text)
        || text.len() > 4 && text.starts_with(['+', '-'])
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
