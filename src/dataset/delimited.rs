//! Ratings from delimited text: one row per line, columns by name or position.
//!
//! With a separator of one byte the file is CSV (RFC 4180: a field may be quoted); with a longer one, such
//! as MovieLens' `::`, fields are what stands between separators. CRLF, blank lines and a UTF-8 byte-order
//! mark are accepted. Users and items are numbered in the order of first appearance; their names are
//! opaque, so `1` and `01` differ.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use csv::{ByteRecord, Position, ReaderBuilder};

use crate::dataset::ratings::{Interaction, Ratings};
use crate::error::{Error, Result};
use crate::scenario::{ColumnRef, DelimitedSpec};

/// Reads every row of the file at `path`.
///
/// Without a timestamp column the order of the file is the order in time.
///
/// # Errors
/// [`Error::Read`] for a file that cannot be opened or holds no rating, [`Error::MalformedLine`] for a line
/// that does not fit `layout`, [`Error::Usage`] for a layout that contradicts itself.
pub fn read(path: &Path, layout: &DelimitedSpec) -> Result<Ratings> {
    let mut records = Records::open(path, &layout.separator)?;
    let mut record = ByteRecord::new();
    if !records.read(&mut record)? {
        return Err(Error::read(path, "the file is empty"));
    }
    let columns = Columns::resolve(layout, &record).map_err(|fault| fault.at(path, &record))?;
    if layout.header && !records.read(&mut record)? {
        return Err(Error::read(path, "the file holds a header line but no ratings"));
    }
    let mut rows = Rows::default();
    loop {
        rows.push(&columns, &record).map_err(|fault| fault.at(path, &record))?;
        if !records.read(&mut record)? {
            return Ok(rows.finish());
        }
    }
}

/// What is wrong, before the file and the line are known.
enum Fault {
    Line(String),
    Layout(String),
}

impl Fault {
    fn at(self, path: &Path, record: &ByteRecord) -> Error {
        let line = record.position().map_or(1, Position::line);
        match self {
            Self::Line(message) => Error::MalformedLine { path: path.to_owned(), line, message },
            Self::Layout(message) => Error::Usage(message),
        }
    }
}

/// The records of a file, blank lines left out.
struct Records<'a> {
    path: &'a Path,
    source: Source<'a>,
}

enum Source<'a> {
    Csv(Box<csv::Reader<BufReader<File>>>),
    Split { file: BufReader<File>, separator: &'a [u8], line: Vec<u8>, number: u64 },
}

impl<'a> Records<'a> {
    fn open(path: &'a Path, separator: &'a str) -> Result<Self> {
        const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
        let mut file = BufReader::new(File::open(path).map_err(|error| Error::read(path, error))?);
        if file.fill_buf().map_err(|error| Error::read(path, error))?.starts_with(BYTE_ORDER_MARK) {
            file.consume(BYTE_ORDER_MARK.len());
        }
        let source = match separator.as_bytes() {
            [] => return Err(Error::Usage("the separator of a delimited file must not be empty".into())),
            // `flexible`: a wrong number of columns is reported here, in this program's words.
            &[byte] => Source::Csv(Box::new(
                ReaderBuilder::new().delimiter(byte).has_headers(false).flexible(true).from_reader(file),
            )),
            separator => Source::Split { file, separator, line: Vec::new(), number: 0 },
        };
        Ok(Self { path, source })
    }

    /// The next record into `record`; `false` at the end of the file.
    fn read(&mut self, record: &mut ByteRecord) -> Result<bool> {
        match &mut self.source {
            Source::Csv(reader) => reader.read_byte_record(record).map_err(|error| Error::read(self.path, error)),
            Source::Split { file, separator, line, number } => loop {
                line.clear();
                *number += 1;
                if file.read_until(b'\n', line).map_err(|error| Error::read(self.path, error))? == 0 {
                    return Ok(false);
                }
                let end = line.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
                if end == 0 {
                    continue;
                }
                record.clear();
                split_fields(&line[..end], separator, record);
                let mut position = Position::new();
                position.set_line(*number);
                record.set_position(Some(position));
                return Ok(true);
            },
        }
    }
}

fn split_fields(mut rest: &[u8], separator: &[u8], record: &mut ByteRecord) {
    while let Some(at) = rest.windows(separator.len()).position(|window| window == separator) {
        record.push_field(&rest[..at]);
        rest = &rest[at + separator.len()..];
    }
    record.push_field(rest);
}

/// Where the columns stand, counted from zero.
struct Columns {
    user: usize,
    item: usize,
    rating: Option<usize>,
    timestamp: Option<usize>,
    /// How many columns every line has.
    count: usize,
}

impl Columns {
    fn resolve(layout: &DelimitedSpec, first: &ByteRecord) -> Result<Self, Fault> {
        let find = |role: &str, column: &ColumnRef| match column {
            ColumnRef::Name(name) if !layout.header => Err(Fault::Layout(format!(
                "the {role} column is given by name ({name:?}), but the file is said to have no header line"
            ))),
            ColumnRef::Name(name) => {
                let mut places = (0..first.len()).filter(|&place| trimmed(first, place) == name.as_bytes());
                match (places.next(), places.next()) {
                    (Some(place), None) => Ok(place),
                    (None, _) => Err(Fault::Line(format!(
                        "expected a header with a column {name:?} (the {role}), found the columns {}",
                        listed(first)
                    ))),
                    (Some(_), Some(_)) => {
                        Err(Fault::Line(format!("the header names column {name:?} (the {role}) more than once")))
                    }
                }
            }
            ColumnRef::Position(0) => Err(Fault::Layout(format!("the {role} column is 0; columns count from 1"))),
            &ColumnRef::Position(position) if position as usize > first.len() => Err(Fault::Line(format!(
                "expected at least {position} columns separated by {:?} (column {position} is the {role}), found {}: {}",
                layout.separator,
                first.len(),
                listed(first)
            ))),
            &ColumnRef::Position(position) => Ok(position as usize - 1),
        };
        Ok(Self {
            user: find("user", &layout.user)?,
            item: find("item", &layout.item)?,
            rating: layout.rating.as_ref().map(|column| find("rating", column)).transpose()?,
            timestamp: layout.timestamp.as_ref().map(|column| find("timestamp", column)).transpose()?,
            count: first.len(),
        })
    }
}

/// The fields of a line, quoted, cut short where they are long.
fn listed(record: &ByteRecord) -> String {
    let fields: Vec<String> = record.iter().take(12).map(shown).collect();
    fields.join(", ") + if record.len() > 12 { ", ..." } else { "" }
}

/// A field as messages show it.
fn shown(field: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(field).chars().take(60).collect();
    format!("{text:?}")
}

/// A field without the blanks around it.
fn trimmed(record: &ByteRecord, place: usize) -> &[u8] {
    record.get(place).unwrap_or_default().trim_ascii()
}

/// The rows read so far.
#[derive(Default)]
struct Rows {
    ratings: Ratings,
    users: Names,
    items: Names,
    /// Whether some timestamp was no integer, so that all of them are ordered as reals.
    real_times: bool,
}

impl Rows {
    fn push(&mut self, columns: &Columns, record: &ByteRecord) -> Result<(), Fault> {
        if record.len() != columns.count {
            return Err(Fault::Line(format!(
                "expected {} columns as in the first line, found {}: {}",
                columns.count,
                record.len(),
                listed(record)
            )));
        }
        let name = |role: &str, place: usize| match trimmed(record, place) {
            [] => Err(Fault::Line(format!("expected a {role} in column {}, found nothing", place + 1))),
            name => Ok(name),
        };
        let user_name = name("user", columns.user)?;
        let item_name = name("item", columns.item)?;
        let rating = columns.rating.map_or(Ok(1.0), |place| {
            number(record, place)
                .map(|rating: f32| rating)
                .filter(|rating| rating.is_finite())
                .ok_or_else(|| wrong_number("a finite rating", record, place))
        })?;
        let time = match columns.timestamp {
            Some(place) => self.time(record, place)?,
            None => self.ratings.users.len() as i64,
        };
        let user = self.users.number(user_name)?;
        if user as usize == self.ratings.user_names.len() {
            self.ratings.user_names.push(String::from_utf8_lossy(user_name).into());
        }
        let item = self.items.number(item_name)?;
        self.ratings.users.push(user);
        self.ratings.interactions.push(Interaction { item, rating, time });
        Ok(())
    }

    /// The timestamp as a sort key. Integers are kept exactly (nanoseconds of an epoch do not fit a double);
    /// the first real number turns all keys into those of reals.
    fn time(&mut self, record: &ByteRecord, place: usize) -> Result<i64, Fault> {
        if !self.real_times {
            if let Some(time) = number(record, place) {
                return Ok(time);
            }
        }
        let real = number(record, place).filter(|time: &f64| time.is_finite());
        let real = real.ok_or_else(|| wrong_number("a timestamp (a finite number)", record, place))?;
        if !self.real_times {
            self.real_times = true;
            for interaction in &mut self.ratings.interactions {
                interaction.time = order_of(interaction.time as f64);
            }
        }
        Ok(order_of(real))
    }

    fn finish(self) -> Ratings {
        Ratings { items: self.items.0.len() as u32, ..self.ratings }
    }
}

fn number<T: std::str::FromStr>(record: &ByteRecord, place: usize) -> Option<T> {
    std::str::from_utf8(trimmed(record, place)).ok()?.parse().ok()
}

fn wrong_number(expected: &str, record: &ByteRecord, place: usize) -> Fault {
    let found = shown(record.get(place).unwrap_or_default());
    Fault::Line(format!("expected {expected} in column {}, found {found}", place + 1))
}

/// An integer that orders as the real number does (the transformation of [`f64::total_cmp`]).
fn order_of(real: f64) -> i64 {
    // Adding zero makes -0 equal to 0.
    let bits = (real + 0.0).to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// Numbers of names, in the order of first appearance. Only looked up, never iterated.
#[derive(Default)]
struct Names(HashMap<Box<[u8]>, u32>);

impl Names {
    fn number(&mut self, name: &[u8]) -> Result<u32, Fault> {
        if let Some(&number) = self.0.get(name) {
            return Ok(number);
        }
        let number = u32::try_from(self.0.len()).map_err(|_| Fault::Line("more than 2^32 names".into()))?;
        self.0.insert(name.into(), number);
        Ok(number)
    }
}
