//! Reads comma-separated numbers under a header line, the form of traces.

use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;
use std::path::Path;
use std::str::FromStr;

use csv::ByteRecord;

use crate::records::{Records, line_of, malformed, shown};
use fedrecsim_core::{Error, Result, UserId, Who};

/// The latest second that a trace can name: 31 years.
pub(super) const LAST_SECOND: f64 = 1e9;

/// The users of a run, as a trace may name them.
#[derive(Default)]
pub(super) struct Users<'n> {
    /// Their names in the ratings file; those of a generated population have none. The map is only
    /// looked up, never iterated.
    names: &'n [Box<str>],
    numbers: HashMap<&'n str, u32>,
}

impl<'n> Users<'n> {
    pub(super) fn of(names: &'n [Box<str>]) -> Self {
        let numbers = names.iter().map(|name| &**name).zip(0..).collect();
        Self { names, numbers }
    }

    fn who(&self, user: u32) -> Who {
        Who {
            id: UserId(user),
            name: self.names.get(user as usize).cloned(),
        }
    }
}

/// The column of users' names, in place of that of their numbers.
const NAME: &str = "name";

/// A line with its fields in the order of the columns that were asked for.
pub(super) struct Row<'t> {
    names: &'t [&'t str],
    /// The fields, which are empty where the column is absent.
    fields: Vec<&'t str>,
}

impl Row<'_> {
    /// Returns whether a column has a value.
    pub(super) fn has(&self, column: usize) -> bool {
        !self.fields[column].is_empty()
    }

    /// Returns a column as a number in (0, most].
    pub(super) fn positive(&self, column: usize, most: f64) -> Result<f64, String> {
        let expected = format!("a number greater than 0 and at most {most:e}");
        self.read(column, &expected, |number| *number > 0.0 && *number <= most)
    }

    /// Returns a column as a number in [0, most].
    pub(super) fn not_negative(&self, column: usize, most: f64) -> Result<f64, String> {
        let expected = format!("a number from 0 to {most:e}");
        self.read(column, &expected, |number| (0.0..=most).contains(number))
    }

    /// Returns a column as 0 or a number in [least, most].
    pub(super) fn zero_or_from(&self, column: usize, least: f64, most: f64) -> Result<f64, String> {
        let expected = format!("0 or a number from {least:e} to {most:e}");
        self.read(column, &expected, |number| {
            *number == 0.0 || (least..=most).contains(number)
        })
    }

    /// Reads what a column holds, which is `expected` if it is sound.
    fn read<T: FromStr>(
        &self,
        column: usize,
        expected: &str,
        is_sound: impl Fn(&T) -> bool,
    ) -> Result<T, String> {
        let value = self.fields[column].parse().ok().filter(is_sound);
        value.ok_or_else(|| {
            let found = match self.fields[column] {
                "" => "nothing".to_owned(),
                text => shown(text.as_bytes()),
            };
            let name = self.names[column];
            format!("expected {expected} in column `{name}`, found {found}")
        })
    }
}

/// Reads the lines about each user, every one as `parse` has it. `finish` makes of them, with their
/// numbers and in the order of the file, what the trace keeps of the user; a fault that it finds has
/// the number of a line, and goes on after the user's number and name. The header must have the first `required` of `names`, may have the others, and nothing
/// else. The first name is that of the users' numbers, in place of which the header may have `name`
/// for those of the ratings file. Lines about others than the `users` of the run are then passed over.
/// Blank lines are skipped.
///
/// # Errors
/// [`Error::Read`] for a text without a line of numbers or without a user of the run,
/// [`Error::MalformedLine`] with the first fault, or for a gap in the users' numbers.
pub(super) fn read_users<T, U, const COUNT: usize>(
    (text, users_of_run): (impl BufRead, &Users<'_>),
    path: &Path,
    mut names: [&str; COUNT],
    required: usize,
    parse: impl Fn(&Row<'_>) -> Result<T, String>,
    finish: impl Fn(Vec<(u64, T)>) -> Result<U, (u64, String)>,
) -> Result<Vec<U>> {
    let mut records = Records::new(Box::new(text), path, ",")?;
    let (mut header, mut record) = (ByteRecord::new(), ByteRecord::new());
    if !read_one(&mut records, &mut header)? {
        return Err(Error::read(path, "the file is empty"));
    }
    let first = line_of(&header);
    let in_header = |fault| malformed(path, first, fault);
    let header = fields_of(&header).map_err(in_header)?;
    let by_name = header.contains(&NAME) && !header.contains(&names[0]);
    if by_name {
        names[0] = NAME;
        if users_of_run.names.is_empty() {
            return Err(in_header(
                "users of a generated population have numbers alone: name the column `user`"
                    .to_owned(),
            ));
        }
    }
    let places = places(&header, &names, required).map_err(in_header)?;
    let mut users: BTreeMap<u32, Vec<(u64, T)>> = BTreeMap::new();
    let mut has_lines = false;
    while read_one(&mut records, &mut record)? {
        let line = line_of(&record);
        let parsed = fields_of(&record).and_then(|cells| {
            if cells.len() != header.len() {
                let (expected, found) = (header.len(), cells.len());
                return Err(format!(
                    "expected {expected} columns as in the header, found {found}"
                ));
            }
            let field = |place: &Option<usize>| place.map_or("", |place| cells[place]);
            let row = Row {
                names: &names,
                fields: places.iter().map(field).collect(),
            };
            if !by_name {
                let value = parse(&row)?;
                let user = row.read(0, "a user's number from 0", |_| true)?;
                return Ok((Some(user), value));
            }
            let user = users_of_run.numbers.get(row.fields[0]).copied();
            let value = parse(&row).map_err(|fault| match user {
                Some(user) => format!("{:#}: {fault}", users_of_run.who(user)),
                None => fault,
            })?;
            Ok((user, value))
        });
        let (user, value) = parsed.map_err(|fault| malformed(path, line, fault))?;
        has_lines = true;
        if let Some(user) = user {
            users.entry(user).or_default().push((line, value));
        }
    }
    if !has_lines {
        return Err(Error::read(
            path,
            "the file holds a header line and nothing else",
        ));
    }
    let missing = (0..)
        .zip(users_of_run.names)
        .find(|(user, _)| !users.contains_key(user));
    if let (true, Some((user, name))) = (by_name, missing) {
        let reason = format!(
            "no line is about user {user} {name:?}: with a column `name` every user of the run needs one"
        );
        return Err(Error::read(path, reason));
    }
    for (missing, (user, lines)) in users.iter().enumerate() {
        if *user as usize != missing {
            let message = format!(
                "user {user} stands here, but no line has user {missing}: users are numbered from 0 without gaps"
            );
            return Err(malformed(path, lines[0].0, message));
        }
    }
    let finished = users.into_iter().map(|(user, lines)| {
        let who = match by_name {
            true => users_of_run.who(user),
            false => UserId(user).into(),
        };
        finish(lines).map_err(|(line, fault)| malformed(path, line, format!("{who:#} {fault}")))
    });
    finished.collect()
}

/// Feeds where the lines of each user begin among those of all to `sink`, and their number.
pub(super) fn visit_offsets<T>(users: &[Vec<T>], sink: &mut dyn FnMut(&[u8])) {
    let mut offset = 0u64;
    sink(&offset.to_le_bytes());
    for lines in users {
        offset += lines.len() as u64;
        sink(&offset.to_le_bytes());
    }
}

/// Reads the next line that is not blank, and returns `false` at the end of the text.
fn read_one(records: &mut Records<'_>, record: &mut ByteRecord) -> Result<bool> {
    while records.read(record)? {
        if record.len() > 1 || !record[0].trim_ascii().is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the fields of a line, without the spaces around them.
fn fields_of(record: &ByteRecord) -> Result<Vec<&str>, String> {
    let text = |field| std::str::from_utf8(field).map(str::trim);
    let fields: Result<_, _> = record.iter().map(text).collect();
    fields.map_err(|_| "the line is not UTF-8; save the file as UTF-8".to_owned())
}

/// Returns the places of `names` in the header, in their order.
fn places(header: &[&str], names: &[&str], required: usize) -> Result<Vec<Option<usize>>, String> {
    let quoted = |names: &[&str]| format!("`{}`", names.join("`, `"));
    for (place, column) in header.iter().enumerate() {
        if !names.contains(column) {
            return Err(format!(
                "unknown column {}: the first line names the columns, separated by commas; known: {}",
                shown(column.as_bytes()),
                quoted(names)
            ));
        }
        if header[..place].contains(column) {
            return Err(format!("the header names column `{column}` twice"));
        }
    }
    let places: Vec<Option<usize>> = names
        .iter()
        .map(|name| header.iter().position(|column| column == name))
        .collect();
    match places[..required].iter().position(Option::is_none) {
        Some(missing) => Err(format!(
            "the header has no column `{}`; needed: {}",
            names[missing],
            quoted(&names[..required])
        )),
        None => Ok(places),
    }
}
