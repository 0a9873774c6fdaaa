//! Reads ratings from delimited text, with one row per line and columns by name or position.
//!
//! Users and items are numbered in the order of first appearance. Their names are opaque, so `1`
//! and `01` differ. What counts as a line and a field is defined in `records`.

mod own;
mod times;

use std::collections::HashMap;
use std::io::BufRead;
use std::path::Path;

use csv::ByteRecord;

use crate::dataset::compressed;
use crate::dataset::ratings::{Interaction, Ratings};
use crate::records::{Records, line_of, malformed, shown};
use fedrecsim_core::{Error, Result, Timestamp};
use fedrecsim_scenario::{ColumnRef, DelimitedSpec};
use times::Times;

/// Reads every row of the file at `path`, which may be compressed with gzip or zstd.
///
/// # Errors
/// [`Error::Read`] for a file that cannot be opened or is an archive of another kind, and the
/// errors of [`parse`].
pub fn read(path: &Path, layout: &DelimitedSpec) -> Result<Ratings> {
    parse(compressed::open(path)?, path, layout)
}

/// Reads every row of `text`; `path` is the name that faults are reported under.
///
/// Without a timestamp column the order of the rows is the order in time.
///
/// # Errors
/// [`Error::Read`] for a text that cannot be read or holds no rating, [`Error::MalformedLine`] for
/// a line that does not fit `layout`, [`Error::Usage`] for a layout that contradicts itself.
pub fn parse(text: impl BufRead, path: &Path, layout: &DelimitedSpec) -> Result<Ratings> {
    parse_rows(Box::new(text), path, layout, usize::MAX, &mut keep_all)
}

pub(super) use own::read_own;

/// Checks that the file at `path` begins with a rating, after its header if it has one.
///
/// # Errors
/// Those of [`read`].
pub fn check_first_row(path: &Path, layout: &DelimitedSpec) -> Result<()> {
    parse_rows(compressed::open(path)?, path, layout, 1, &mut keep_all).map(drop)
}

/// Returns what is kept of a user's row: all of it.
fn keep_all(user: u32, row: Interaction) -> Option<(u32, Interaction)> {
    Some((user, row))
}

/// Returns what is kept of a user's row, if anything is.
type Keep<'a> = dyn FnMut(u32, Interaction) -> Option<(u32, Interaction)> + 'a;

/// Reads the first `most` rows of `text`, as [`parse`] does, and holds what `keep` makes of a
/// user's row. All users and items are named, even those that are not kept.
fn parse_rows<'a>(
    text: Box<dyn BufRead + 'a>,
    path: &'a Path,
    layout: &'a DelimitedSpec,
    most: usize,
    keep: &mut Keep<'_>,
) -> Result<Ratings> {
    let mut rows = Rows {
        times: Times::new(layout),
        ..Rows::default()
    };
    let mut records = Records::new(text, path, &layout.separator)?;
    let mut record = ByteRecord::new();
    if !records.read(&mut record)? {
        return Err(Error::read(path, "the file is empty"));
    }
    let columns = Columns::resolve(layout, path, &record)?;
    check_header(layout, &record).map_err(|fault| malformed(path, line_of(&record), fault))?;
    let first = record.clone();
    if layout.header && !records.read(&mut record)? {
        return Err(Error::read(
            path,
            "the file holds a header line but no ratings",
        ));
    }
    loop {
        let is_second = rows.count == 1;
        if !layout.header && is_second && names_columns(&columns, &first, &record) {
            return Err(malformed(
                path,
                line_of(&first),
                FORGOTTEN_HEADER.to_owned(),
            ));
        }
        let is_first = rows.count == 0;
        if let Err(mut fault) = rows.push(&columns, &record, keep) {
            if is_first && !layout.header && !has_number(&record) {
                fault += "; if this line names the columns, say `header = true`";
            }
            return Err(malformed(path, line_of(&record), fault));
        }
        if rows.count >= most || !records.read(&mut record)? {
            let last = line_of(&record);
            return rows.finish().map_err(|fault| malformed(path, last, fault));
        }
    }
}

const FORGOTTEN_HEADER: &str = "there is no number in this line, and there are numbers in the next one: if it names \
                                the columns, say `header = true`; if it is a rating, let it stand further down";

/// Refuses a line of nothing but numbers as a header, since a rating would be lost.
fn check_header(layout: &DelimitedSpec, first: &ByteRecord) -> Result<(), String> {
    let named =
        matches!(layout.user, ColumnRef::Name(_)) || matches!(layout.item, ColumnRef::Name(_));
    if !layout.header || named || !(0..first.len()).all(|place| is_number(first, place)) {
        return Ok(());
    }
    Err(format!(
        "`header = true` says that this line names the columns, but it holds {}: if it is a rating, \
         say `header = false`",
        listed(first)
    ))
}

/// Returns whether the first line probably names the columns: none of its fields is a number, while
/// user and item of the second line are numbers.
fn names_columns(columns: &Columns, first: &ByteRecord, second: &ByteRecord) -> bool {
    let in_second = [columns.user, columns.item]
        .iter()
        .all(|&place| is_number(second, place));
    in_second && !has_number(first)
}

fn has_number(record: &ByteRecord) -> bool {
    (0..record.len()).any(|place| is_number(record, place))
}

fn is_number(record: &ByteRecord, place: usize) -> bool {
    number::<f64>(record, place).is_some()
}

/// The places of the columns, counted from zero.
struct Columns {
    user: usize,
    item: usize,
    rating: Option<usize>,
    /// The ratings that are expected, and the lowest and highest of them.
    expected_rating: (String, [f64; 2]),
    label: Option<usize>,
    weight: Option<usize>,
    timestamp: Option<usize>,
    order: Option<usize>,
    /// Number of columns in every line.
    count: usize,
}

impl Columns {
    fn resolve(layout: &DelimitedSpec, path: &Path, first: &ByteRecord) -> Result<Self> {
        let fault = |message| Err(malformed(path, line_of(first), message));
        let find = |role: &str, column: &ColumnRef| match column {
            ColumnRef::Name(name) if !layout.header => Err(Error::Usage(format!(
                "the {role} column is given by name ({name:?}), but the file is said to have no header line"
            ))),
            ColumnRef::Name(name) => {
                let mut places =
                    (0..first.len()).filter(|&place| trimmed(first, place) == name.as_bytes());
                match (places.next(), places.next()) {
                    (Some(place), None) => Ok(place),
                    (None, _) => fault(format!(
                        "expected a header with a column {name:?} (the {role}), found the columns {}",
                        listed(first)
                    )),
                    (Some(_), Some(_)) => fault(format!(
                        "the header names column {name:?} (the {role}) more than once"
                    )),
                }
            }
            ColumnRef::Position(0) => Err(Error::Usage(format!(
                "the {role} column is 0; columns count from 1"
            ))),
            &ColumnRef::Position(position) if position as usize > first.len() => fault(format!(
                "expected at least {position} columns separated by {:?} (column {position} is the {role}), found {}: {}",
                layout.separator,
                first.len(),
                listed(first)
            )),
            &ColumnRef::Position(position) => Ok(position as usize - 1),
        };
        let optional = |role: &str, column: &Option<ColumnRef>| {
            column.as_ref().map(|c| find(role, c)).transpose()
        };
        Ok(Self {
            user: find("user", &layout.user)?,
            item: find("item", &layout.item)?,
            rating: optional("rating", &layout.rating)?,
            expected_rating: match layout.rating_range {
                Some([lowest, highest]) => (
                    format!("a rating from {lowest} to {highest}"),
                    [lowest, highest],
                ),
                None => ("a finite rating".to_owned(), [f64::MIN, f64::MAX]),
            },
            label: optional("label", &layout.label)?,
            weight: optional("weight", &layout.weight)?,
            timestamp: optional("timestamp", &layout.timestamp)?,
            order: optional("order", &layout.order)?,
            count: first.len(),
        })
    }
}

/// Returns the fields of a line, quoted, and cut short if they are long.
fn listed(record: &ByteRecord) -> String {
    let fields: Vec<String> = record.iter().take(12).map(shown).collect();
    fields.join(", ") + if record.len() > 12 { ", ..." } else { "" }
}

/// Returns a field without the blanks around it.
fn trimmed(record: &ByteRecord, place: usize) -> &[u8] {
    record.get(place).unwrap_or_default().trim_ascii()
}

/// The rows that have been read so far.
#[derive(Default)]
struct Rows {
    /// How many there were.
    count: usize,
    /// What is kept of them.
    ratings: Ratings,
    users: Names,
    items: Names,
    times: Times,
}

impl Rows {
    fn push(
        &mut self,
        columns: &Columns,
        record: &ByteRecord,
        keep: &mut Keep<'_>,
    ) -> Result<(), String> {
        if record.len() != columns.count {
            return Err(format!(
                "expected {} columns as in the first line, found {}: {}",
                columns.count,
                record.len(),
                listed(record)
            ));
        }
        let name = |role: &str, place: usize| match trimmed(record, place) {
            [] => Err(format!(
                "expected the {role} in column {}, found nothing",
                place + 1
            )),
            name => Ok(name),
        };
        let user_name = name("user", columns.user)?;
        let item_name = name("item", columns.item)?;
        let real = |place: Option<usize>, expected: &str, is_sound: &dyn Fn(f32) -> bool| {
            let Some(place) = place else { return Ok(1.0) };
            number(record, place)
                .filter(|value: &f32| value.is_finite() && is_sound(*value))
                .ok_or_else(|| wrong_number(expected, record, place))
        };
        let (expected, [lowest, highest]) = &columns.expected_rating;
        let is_expected = |value| (*lowest..=*highest).contains(&f64::from(value));
        let rating = real(columns.rating, expected, &is_expected)?;
        let expected = "a weight (a finite number of at least 0)";
        let weight = real(columns.weight, expected, &|value| value >= 0.0)?;
        let is_label = |value| value == 0.0 || value == 1.0;
        let is_positive = real(columns.label, "a label (0 or 1)", &is_label)? == 1.0;
        let (time, instant) = match (columns.timestamp, columns.order) {
            (None, None) => (self.count as i64, Timestamp::UNKNOWN),
            columns => {
                let before = &mut self.ratings.interactions;
                self.times.read(record, columns, before)?
            }
        };
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

    /// Returns what is kept of all rows, with their times in nanoseconds.
    fn finish(mut self) -> Result<Ratings, String> {
        self.times.finish(&mut self.ratings.interactions)?;
        Ok(self.ratings)
    }
}

fn number<T: std::str::FromStr>(record: &ByteRecord, place: usize) -> Option<T> {
    std::str::from_utf8(trimmed(record, place))
        .ok()?
        .parse()
        .ok()
}

fn wrong_number(expected: &str, record: &ByteRecord, place: usize) -> String {
    let found = shown(record.get(place).unwrap_or_default());
    format!("expected {expected} in column {}, found {found}", place + 1)
}

/// Numbers of names, in the order of first appearance. The map is only looked up, never iterated.
#[derive(Default)]
struct Names(HashMap<Box<[u8]>, u32>);

impl Names {
    fn number(&mut self, name: &[u8]) -> Result<u32, String> {
        if let Some(&number) = self.0.get(name) {
            return Ok(number);
        }
        let number = u32::try_from(self.0.len()).map_err(|_| "more than 2^32 names")?;
        self.0.insert(name.into(), number);
        Ok(number)
    }
}

#[cfg(test)]
mod tests;
