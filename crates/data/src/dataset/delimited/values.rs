//! Says what is wrong with a value, and what to do about it.

use csv::ByteRecord;

use super::columns::{Columns, line_end_in};
use super::dates::{self, has_last_year};
use super::trimmed;
use crate::records::shown;

/// What is wrong with a row.
pub(super) enum Fault {
    /// A field that the row needs is missing.
    Incomplete(String),
    Wrong(String),
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Self::Wrong(message)
    }
}

/// What programs write where there is nothing, or nothing that can be shown.
pub(super) const NOTHING: [&[u8]; 25] = [
    b"",
    b"NaT",
    b"n/a",
    b"NA",
    b"N/A",
    b"#N/A",
    b"<NA>",
    b"NaN",
    b"nan",
    b"null",
    b"NULL",
    b"None",
    b"\\N",
    b"(null)",
    b"--",
    b"undefined",
    b"#NULL!",
    b"#VALUE!",
    b"#REF!",
    b"#NAME?",
    b"#NUM!",
    b"#DIV/0!",
    b"<null>",
    b"n.a.",
    b"(not set)",
];

/// What they write besides where there is no number or no time. It may be a name.
const NO_NUMBER: [&[u8]; 5] = [b"-", b"?", b".", b"none", b"nil"];

/// Returns whether a field stands for no number and no time.
fn is_missing(field: &[u8]) -> bool {
    let is_zero = |byte: &u8| b"0-/:T .".contains(byte);
    NOTHING.contains(&field)
        || NO_NUMBER.contains(&field)
        || field.starts_with(b"0000") && field.iter().all(is_zero)
}

/// Returns what is wrong with a column that should have a number.
pub(super) fn wrong(
    expected: &str,
    (columns, record): (&Columns, &ByteRecord),
    place: usize,
) -> Fault {
    let found = match record.get(place).unwrap_or_default() {
        [] => "nothing".to_owned(),
        field => shown(field),
    };
    let written = String::from_utf8_lossy(trimmed(record, place));
    let hint = if columns.timestamp == Some(place) {
        of_time(&written).or_else(|| of_number(&written))
    } else if columns.label == Some(place) {
        of_label(&written).or_else(|| of_value(&written))
    } else if columns.part == Some(place) {
        Some("write these words in place of its own, a row at a time")
    } else {
        of_number(&written).or_else(|| of_value(&written))
    };
    let hint = line_end_in(written.as_bytes()).or(hint.map(str::to_owned));
    let hint = hint.map_or_else(|| columns.instead_of(place), |hint| format!("; {hint}"));
    let fault = format!(
        "expected {expected} {}, found {found}{hint}",
        columns.name(place)
    );
    let is_no_time = || columns.timestamp == Some(place) && dates::stands_for_none(&written);
    match is_missing(trimmed(record, place)) || is_no_time() {
        true => Fault::Incomplete(fault),
        false => Fault::Wrong(fault),
    }
}

/// Returns what to do with a label that is neither 0 nor 1.
fn of_label(written: &str) -> Option<&'static str> {
    match written.parse::<f64>() {
        Ok(-1.0) => Some("write 0 for what was not wanted"),
        Ok(_) => Some(
            "if it is a rating, name its column with `rating`, and say with `dataset.positive_from` from which one a row \
             is a positive",
        ),
        Err(_) => None,
    }
}

/// Returns what to do with a value that is a word, a percentage or a fraction.
fn of_value(written: &str) -> Option<&'static str> {
    const WORDS: [&str; 12] = [
        "true", "false", "yes", "no", "y", "n", "t", "f", "like", "dislike", "up", "down",
    ];
    let is_number = |text: &str| text.trim().parse::<f64>().is_ok();
    let is_star = |sign: char| "\u{2605}\u{2606}\u{2b50}*".contains(sign);
    let unstarred = written.trim_end_matches(is_star);
    let number = ["stars", "star"]
        .into_iter()
        .find_map(|word| unstarred.strip_suffix(word));
    let is_starred = number.is_some() || unstarred.len() < written.len();
    let number = number.unwrap_or(unstarred);
    if is_starred && (number.is_empty() || is_number(number)) {
        Some("write the number of stars alone")
    } else if WORDS.contains(&&*written.to_lowercase()) {
        Some("write 1 for what was wanted and 0 for what was not, and name the column with `label`")
    } else if written.strip_suffix('%').is_some_and(is_number) {
        Some("leave out the percent sign")
    } else if written
        .split_once('/')
        .is_some_and(|(of, all)| is_number(of) && is_number(all))
    {
        Some("if the number behind the slash is the same in all rows, leave it out with the slash")
    } else {
        None
    }
}

/// Returns what to do with a number that has marks between its digits.
fn of_number(written: &str) -> Option<&'static str> {
    let is_number = |text: &str| text.parse::<f64>().is_ok();
    let is_grouped = |mark: char| {
        let mut groups = written.trim_start_matches('-').split(mark);
        let is_first = |first: &str| (1..=3).contains(&first.len()) && is_number(first);
        let (first, rest): (_, Vec<&str>) = (groups.next().unwrap_or_default(), groups.collect());
        let is_group = |group: &&str| group.len() == 3 && group.bytes().all(|b| b.is_ascii_digit());
        // The last group may have decimals.
        let last = rest
            .last()
            .map(|last| last.split(['.', ',']).next().unwrap_or_default());
        let inner = &rest[..rest.len().saturating_sub(1)];
        is_first(first) && inner.iter().chain(&last).all(is_group) && !rest.is_empty()
    };
    let marks = [',', '.', ' ', '\'', '_', '\u{a0}', '\u{202f}', '\u{2019}'];
    if written.matches(',').count() == 1 && is_grouped(',') && !written.contains('.') {
        Some(
            "if the comma groups digits, leave it out; if decimals stand behind it, write a point in its place",
        )
    } else if marks.into_iter().any(is_grouped) {
        Some("leave out what groups the digits, and write a point before decimals")
    } else {
        let is_decimal = written.contains(',') && is_number(&written.replace(',', "."));
        is_decimal.then_some("write a point before the decimals")
    }
}

/// Returns what to do with a time that is not read.
fn of_time(written: &str) -> Option<&'static str> {
    if written.starts_with('[') && !written.ends_with(']') {
        return Some(
            "brackets do not join fields: write quotation marks in their place, as with `tr '[]' '\"\"' < FILE > mended.txt`",
        );
    }
    if ends_in_a_year(written) {
        if written.len() <= 8 && written.split(['/', '.', '-']).all(|part| part.len() <= 2) {
            return Some("write the year first, and with four digits, as in 2011-04-03");
        }
        return Some("write the year first, for 03/04/2011 may be a day of March or of April");
    }
    dates::remedy(written)
}

/// Returns whether a text is a date whose day or month comes first, as in 12/31/2000 or 31.12.2000 23:59.
fn ends_in_a_year(text: &str) -> bool {
    let date = text.split(' ').next().unwrap_or_default();
    let parts: Vec<&str> = date.split(['/', '.', '-']).collect();
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let is_plain = || text.len() > 7 && text.parse().is_ok_and(has_last_year);
    is_plain()
        || matches!(parts[..], [first, _, year] if first.len() <= 2 && [2, 4].contains(&year.len()))
            && parts.iter().all(|part| is_number(part))
}
