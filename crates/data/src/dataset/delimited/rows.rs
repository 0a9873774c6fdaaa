//! Makes ratings of rows.

use csv::ByteRecord;

use super::columns::Columns;
use super::names::{self, Names};
use super::source::Unit;
use super::times::Times;
use super::{number, trimmed};
use crate::dataset::ratings::{Interaction, Ratings};
use crate::records::{line_of, shown};
use fedrecsim_core::Timestamp;
use fedrecsim_scenario::{DelimitedSpec, OnIncomplete};

/// Returns what is kept of a user's row, if anything is.
pub(super) type Keep<'a> = dyn FnMut(u32, Interaction) -> Option<(u32, Interaction)> + 'a;

/// The rows that have been read so far.
#[derive(Default)]
pub(super) struct Rows {
    /// How many there were.
    pub count: usize,
    /// What messages count.
    unit: Unit,
    /// What is kept of them.
    ratings: Ratings,
    users: Names,
    items: Names,
    times: Times,
    on_incomplete: Option<OnIncomplete>,
    /// How many rows were left out, the line of the first and what it lacks.
    incomplete: Counted,
    first_incomplete: String,
    /// How many names have a character that cannot be seen, and the first of them.
    hidden: Counted,
    first_hidden: String,
    /// How many names are not UTF-8.
    foreign: Counted,
    /// How many names begin with a quotation mark that is never closed.
    open: Counted,
    /// How many names of items are lists of them.
    lists: usize,
}

/// A number of lines, and the first of them.
#[derive(Default)]
struct Counted {
    lines: u64,
    first: u64,
}

impl Counted {
    fn add(&mut self, record: &ByteRecord) {
        if self.lines == 0 {
            self.first = line_of(record);
        }
        self.lines += 1;
    }
}

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

/// What programs write where there is nothing.
const NOTHING: [&[u8]; 13] = [
    b"", b"NaT", b"n/a", b"NA", b"N/A", b"#N/A", b"<NA>", b"NaN", b"nan", b"null", b"NULL",
    b"None", b"\\N",
];

impl Rows {
    pub(super) fn new(layout: &DelimitedSpec, unit: Unit) -> Self {
        Self {
            unit,
            times: Times::new(layout),
            on_incomplete: Some(layout.on_incomplete),
            ..Self::default()
        }
    }

    /// Reads a row, and holds what `keep` makes of it. An incomplete one may be left out and counted.
    pub(super) fn push(
        &mut self,
        columns: &Columns,
        record: &ByteRecord,
        keep: &mut Keep<'_>,
    ) -> Result<(), Fault> {
        match (self.read(columns, record, keep), self.on_incomplete) {
            (Err(Fault::Incomplete(fault)), Some(OnIncomplete::Skip)) => {
                if self.incomplete.lines == 0 {
                    self.first_incomplete = fault;
                }
                self.incomplete.add(record);
                Ok(())
            }
            (read, _) => read,
        }
    }

    fn read(
        &mut self,
        columns: &Columns,
        record: &ByteRecord,
        keep: &mut Keep<'_>,
    ) -> Result<(), Fault> {
        if record.len() != columns.count {
            let fault = columns.wrong_count(record);
            return Err(
                match record.len() < columns.count && !columns.is_list(record) {
                    true => Fault::Incomplete(fault),
                    false => Fault::Wrong(fault),
                },
            );
        }
        let is_nothing = |field: &[u8]| match columns.has_types() {
            true => field.is_empty(),
            false => NOTHING.contains(&field),
        };
        let name = |role: &str, place: usize| match trimmed(record, place) {
            [] if columns.separator == " " => Err(Fault::Wrong(format!(
                "expected the {role} {}, found nothing; if several blanks stand between the columns, leave one, \
                 as with `tr -s ' ' < FILE > ratings.txt`",
                columns.name(place)
            ))),
            nothing if is_nothing(nothing) => {
                let found = match nothing {
                    [] => "nothing".to_owned(),
                    nothing => shown(nothing),
                };
                let instead = columns.instead_of(place);
                let place = columns.name(place);
                Err(Fault::Incomplete(format!(
                    "expected the {role} {place}, found {found}{instead}"
                )))
            }
            name => Ok(name),
        };
        let user_name = name("user", columns.user)?;
        let item_name = name("item", columns.item)?;
        let real = |place: Option<usize>, expected: &str, is_sound: &dyn Fn(f32) -> bool| {
            let Some(place) = place else { return Ok(1.0) };
            number(record, place)
                .filter(|value: &f32| value.is_finite() && is_sound(*value))
                .ok_or_else(|| wrong(expected, (columns, record), place))
        };
        let (expected, [lowest, highest]) = &columns.expected_rating;
        let is_expected = |value| (*lowest as f32..=*highest as f32).contains(&value);
        let rating = real(columns.rating, expected, &is_expected)?;
        let expected = "a weight (a finite number of at least 0)";
        let weight = real(columns.weight, expected, &|value| value >= 0.0)?;
        let is_label = |value| value == 0.0 || value == 1.0;
        let is_positive = real(columns.label, "a label (0 or 1)", &is_label)? == 1.0;
        let (time, instant) = match (columns.timestamp, columns.order) {
            (None, None) => (self.count as i64, Timestamp::UNKNOWN),
            (timestamp, order) => {
                let before = &mut self.ratings.interactions;
                let places = (timestamp, order);
                let time = self.times.read(record, places, before);
                time.map_err(|(expected, place)| wrong(&expected, (columns, record), place))?
            }
        };
        self.look_for_hidden(record, [user_name, item_name]);
        let user = self.users.number(user_name)?;
        if user as usize == self.ratings.user_names.len() {
            self.ratings
                .user_names
                .push(String::from_utf8_lossy(user_name).into());
        }
        let item = self.items.number(item_name)?;
        if item as usize == self.ratings.item_names.len() {
            self.ratings
                .item_names
                .push(String::from_utf8_lossy(item_name).into());
        }
        self.count += 1;
        self.lists += usize::from(is_list(item_name));
        let row = Interaction {
            item,
            rating,
            time,
            instant,
            weight,
            is_positive,
        };
        if let Some((user, row)) = keep(user, row) {
            self.ratings.users.push(user);
            self.ratings.interactions.push(row);
        }
        Ok(())
    }

    /// Notes names that look like others and are not.
    fn look_for_hidden(&mut self, record: &ByteRecord, names: [&[u8]; 2]) {
        let pairs = [&self.users, &self.items].into_iter().zip(names);
        let is_plain = |byte: &u8| (b' '..0x7f).contains(byte);
        let is_odd = |name: &[u8]| !name.iter().all(is_plain) || name.starts_with(b"\"");
        let new = pairs.filter(|(known, name)| is_odd(name) && !known.has(name));
        for (_, name) in new {
            if std::str::from_utf8(name).is_err() {
                self.foreign.add(record);
            } else if name.starts_with(b"\"") && !name[1..].ends_with(b"\"") {
                self.open.add(record);
            } else if has_hidden(name) {
                if self.hidden.lines == 0 {
                    self.first_hidden = shown(name);
                }
                self.hidden.add(record);
            }
        }
    }

    /// Returns what is kept of all rows, with their times in nanoseconds, and what was noticed.
    pub(super) fn finish(mut self) -> Result<Ratings, String> {
        if self.lists > 0 && 2 * self.lists >= self.count {
            return Err(LISTS.to_owned());
        }
        self.ratings.warnings.extend(self.times.warning());
        let Ratings {
            user_names,
            item_names,
            warnings,
            ..
        } = &mut self.ratings;
        warnings.extend(names::alike("users", user_names, &self.users));
        warnings.extend(names::alike("items", item_names, &self.items));
        self.ratings
            .told
            .extend(self.times.finish(&mut self.ratings.interactions)?);
        let Counted { lines, first } = self.incomplete;
        let first = self.unit.at(first);
        if self.count == 0 && lines > 0 {
            return Err(format!(
                "none of the {lines} rows is complete; in {first}: {}",
                self.first_incomplete
            ));
        }
        if lines > 0 {
            self.ratings.warnings.push(format!(
                "incomplete rows that are left out: {lines} of {}, the first in {first} \
                 (dataset.columns.on_incomplete)",
                self.count as u64 + lines
            ));
        }
        let Counted { lines, first } = self.foreign;
        let first = self.unit.at(first);
        if lines > 0 {
            self.ratings.warnings.push(format!(
                "names of users or items that are not UTF-8: {lines}, the first in {first}; save the file \
                 as UTF-8, as with `iconv -f LATIN1 -t UTF-8 ratings.csv > utf8.csv`"
            ));
        }
        let Counted { lines, first } = self.open;
        let first = self.unit.at(first);
        if lines > 0 {
            self.ratings.warnings.push(format!(
                "names of users or items that begin with a quotation mark that is never closed: {lines}, the first in \
                 {first}"
            ));
        }
        let Counted { lines, first } = self.hidden;
        let first = self.unit.at(first);
        if lines > 0 {
            self.ratings.warnings.push(format!(
                "names of users or items with blanks or other characters that cannot be seen: {lines}, the first \
                 in {first}: {}; the same name without them counts as another one",
                self.first_hidden
            ));
        }
        Ok(self.ratings)
    }
}

/// Returns what is wrong with a column that should have a number.
fn wrong(expected: &str, (columns, record): (&Columns, &ByteRecord), place: usize) -> Fault {
    let found = match record.get(place).unwrap_or_default() {
        [] => "nothing".to_owned(),
        field => shown(field),
    };
    let written = String::from_utf8_lossy(trimmed(record, place));
    let hint = if written.contains(',') && written.replace(',', ".").parse::<f64>().is_ok() {
        "; write a point before the decimals".to_owned()
    } else if columns.timestamp == Some(place) && ends_in_a_year(&written) {
        "; write the year first, for 03/04/2011 may be a day of March or of April".to_owned()
    } else {
        columns.instead_of(place)
    };
    let fault = format!(
        "expected {expected} {}, found {found}{hint}",
        columns.name(place)
    );
    match NOTHING.contains(&trimmed(record, place)) {
        true => Fault::Incomplete(fault),
        false => Fault::Wrong(fault),
    }
}

/// What is said of rows whose items are lists.
const LISTS: &str = "the rows have lists of items: write one item in a row, as with \
                     `frame.assign(item=frame[\"item\"].str.strip(\"[]\").str.split(\",\")).explode(\"item\")` of pandas";

/// Returns whether the name of an item is a list: in brackets, or of whole numbers.
fn is_list(name: &[u8]) -> bool {
    let is_number = |part: &[u8]| {
        let part = part.trim_ascii();
        !part.is_empty() && part.iter().all(u8::is_ascii_digit)
    };
    let of_numbers = |separator: u8| {
        name.contains(&separator) && name.split(|byte| *byte == separator).all(is_number)
    };
    name.starts_with(b"[") && name.ends_with(b"]") || b",;| ".iter().any(|&byte| of_numbers(byte))
}

/// Returns whether a text is a date whose day or month comes first, as in 12/31/2000 or 31.12.2000 23:59.
fn ends_in_a_year(text: &str) -> bool {
    let date = text.split(' ').next().unwrap_or_default();
    let parts: Vec<&str> = date.split(['/', '.', '-']).collect();
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    matches!(parts[..], [first, _, year] if first.len() <= 2 && [2, 4].contains(&year.len()))
        && parts.iter().all(|part| is_number(part))
}

/// Returns whether a name has a character that cannot be seen, such as a blank that does not break or
/// one without width.
fn has_hidden(name: &[u8]) -> bool {
    let is_hidden = |character: char| {
        matches!(character, '\u{a0}' | '\u{ad}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}'
            | '\u{205f}'..='\u{2064}' | '\u{3000}' | '\u{feff}')
            || character.is_control()
    };
    String::from_utf8_lossy(name).chars().any(is_hidden)
}
