//! Reads comma-separated numbers under a header line, the form of traces.

use std::path::Path;

use csv::ByteRecord;

use crate::records::{Records, line_of};
use fedrecsim_core::error::{Error, Result};

/// A mistake in a line, whose file and number are not known yet.
#[derive(Debug)]
pub(super) struct Fault(String);

impl Fault {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    pub(super) fn at(self, path: &Path, line: u64) -> Error {
        Error::MalformedLine {
            path: path.to_owned(),
            line,
            message: self.0,
        }
    }
}

/// Returns the fault of a user number that leaves out `missing`.
pub(super) fn gap(user: u32, missing: u32) -> Fault {
    Fault(format!(
        "user {user} stands here, but no line has user {missing}: users are numbered from 0 without gaps"
    ))
}

/// Returns the fault of a user who stands in an earlier line too.
pub(super) fn twice(user: u32, line: u64) -> Fault {
    Fault(format!(
        "user {user} stands here for the second time; the first is line {line}"
    ))
}

/// A line with its fields in the order of the columns that were asked for.
pub(super) struct Row<'t> {
    /// Number of the line, from 1.
    pub(super) line: u64,
    names: &'t [&'t str],
    /// The fields, which are empty where the column is absent.
    fields: Vec<&'t str>,
}

impl Row<'_> {
    /// Returns whether a column has a value.
    pub(super) fn has(&self, column: usize) -> bool {
        !self.fields[column].is_empty()
    }

    /// Returns column 0 as the number of a user.
    pub(super) fn user(&self) -> Result<u32, Fault> {
        self.fields[0]
            .parse()
            .map_err(|_| self.wrong(0, "a user's number from 0"))
    }

    /// Returns a column as a number in (0, most].
    pub(super) fn positive(&self, column: usize, most: f64) -> Result<f64, Fault> {
        let number = self
            .number(column)
            .filter(|number| *number > 0.0 && *number <= most);
        number.ok_or_else(|| {
            self.wrong(
                column,
                &format!("a number greater than 0 and at most {most:e}"),
            )
        })
    }

    /// Returns a column as a number in [0, most].
    pub(super) fn not_negative(&self, column: usize, most: f64) -> Result<f64, Fault> {
        let number = self
            .number(column)
            .filter(|number| *number >= 0.0 && *number <= most);
        number.ok_or_else(|| self.wrong(column, &format!("a number from 0 to {most:e}")))
    }

    fn number(&self, column: usize) -> Option<f64> {
        self.fields[column].parse().ok()
    }

    fn wrong(&self, column: usize, expected: &str) -> Fault {
        let found = match self.fields[column] {
            "" => "nothing".to_owned(),
            text => format!("{:?}", text.chars().take(60).collect::<String>()),
        };
        Fault(format!(
            "expected {expected} in column `{}`, found {found}",
            self.names[column]
        ))
    }
}

/// Passes every line of `text` to `each`. The header must have the first `required` of `names`, may
/// have the others, and nothing else. Blank lines are skipped.
///
/// # Errors
/// [`Error::Read`] for a text without a line of numbers, [`Error::MalformedLine`] with the first
/// fault.
pub(super) fn read<const COUNT: usize>(
    text: &str,
    path: &Path,
    names: [&str; COUNT],
    required: usize,
    mut each: impl FnMut(Row<'_>) -> Result<(), Fault>,
) -> Result<()> {
    let mut records = Records::new(text.as_bytes(), path, ",")?;
    let (mut header, mut record, mut rows) = (ByteRecord::new(), ByteRecord::new(), 0);
    if !read_one(&mut records, &mut header)? {
        return Err(Error::read(path, "the file is empty"));
    }
    let first = line_of(&header);
    let header = fields_of(&header).map_err(|fault| fault.at(path, first))?;
    let places = places(&header, &names, required).map_err(|fault| fault.at(path, first))?;
    while read_one(&mut records, &mut record)? {
        let line = line_of(&record);
        rows += 1;
        let parsed = fields_of(&record).and_then(|cells| {
            if cells.len() != header.len() {
                let (expected, found) = (header.len(), cells.len());
                return Err(Fault(format!(
                    "expected {expected} columns as in the header, found {found}"
                )));
            }
            let fields = places
                .iter()
                .map(|place| place.map_or("", |place| cells[place]))
                .collect();
            each(Row {
                line,
                names: &names,
                fields,
            })
        });
        parsed.map_err(|fault| fault.at(path, line))?;
    }
    match rows {
        0 => Err(Error::read(
            path,
            "the file holds a header line and nothing else",
        )),
        _ => Ok(()),
    }
}

/// Reads the next line that is not blank, and returns `false` at the end of the text.
fn read_one(records: &mut Records<'_, &[u8]>, record: &mut ByteRecord) -> Result<bool> {
    while records.read(record)? {
        if record.len() > 1 || !record[0].trim_ascii().is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the fields of a line, without the spaces around them.
fn fields_of(record: &ByteRecord) -> Result<Vec<&str>, Fault> {
    let text = |field| std::str::from_utf8(field).map(str::trim);
    record
        .iter()
        .map(text)
        .collect::<Result<_, _>>()
        .map_err(|_| Fault::new("the line is not UTF-8"))
}

/// Returns the places of `names` in the header, in their order.
fn places(header: &[&str], names: &[&str], required: usize) -> Result<Vec<Option<usize>>, Fault> {
    let quoted = |names: &[&str]| {
        names
            .iter()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    for (place, column) in header.iter().enumerate() {
        if !names.contains(column) {
            let column: String = column.chars().take(60).collect();
            return Err(Fault(format!(
                "unknown column {column:?}: the first line names the columns, separated by commas; known: {}",
                quoted(names)
            )));
        }
        if header[..place].contains(column) {
            return Err(Fault(format!("the header names column `{column}` twice")));
        }
    }
    let places: Vec<Option<usize>> = names
        .iter()
        .map(|name| header.iter().position(|column| column == name))
        .collect();
    match places[..required].iter().position(Option::is_none) {
        Some(missing) => Err(Fault(format!(
            "the header has no column `{}`; needed: {}",
            names[missing],
            quoted(&names[..required])
        ))),
        None => Ok(places),
    }
}
