//! Finds the columns of a file.

use std::path::Path;

use csv::ByteRecord;

use super::names::without_single_quotes;
use super::noticed::has_hidden;
use super::source::Source;
use super::{dates, encoding, sizes};
use super::{listed, trimmed};
use crate::dataset::form::{WRITE_PAIRS, separator_of};
use crate::records::{line_of, malformed};
use fedrecsim_core::{Error, Result};
use fedrecsim_scenario::{ColumnRef, DelimitedSpec};

/// The places of the columns, counted from zero.
pub(super) struct Columns {
    pub user: usize,
    pub item: usize,
    pub rating: Option<usize>,
    /// The ratings that are expected, and the lowest and highest of them.
    pub expected_rating: (String, [f64; 2]),
    pub label: Option<usize>,
    pub weight: Option<usize>,
    pub timestamp: Option<usize>,
    pub order: Option<usize>,
    pub part: Option<usize>,
    /// Whether the first row names them.
    pub has_header: bool,
    /// Number of columns in every line.
    pub count: usize,
    /// Whether the first field of each row is its number, which the header does not name.
    pub has_row_names: bool,
    /// What separates them.
    pub separator: String,
    /// The keys of JSON lines, or the names of columns in memory, in the order of the columns.
    keys: Option<Vec<String>>,
    /// The keys of the first of them.
    found: Vec<String>,
}

impl Columns {
    /// Finds the columns in the first row of `source`.
    ///
    /// # Errors
    /// [`Error::MalformedLine`] for a column that is not there, [`Error::Usage`] for a layout that
    /// contradicts itself.
    pub(super) fn resolve(
        layout: &DelimitedSpec,
        path: &Path,
        (first, source): (&ByteRecord, &Source<'_>),
    ) -> Result<Self> {
        let separator = &source.separator;
        let fault = |message| Err(malformed(path, line_of(first), message));
        let find = |role: &str, column: &ColumnRef| match column {
            ColumnRef::Name(name) if !source.has_header => Err(Error::Usage(format!(
                "the {role} column is given by name ({name:?}), but the file is said to have no header line"
            ))),
            ColumnRef::Name(name) => {
                let mut places =
                    (0..first.len()).filter(|&place| trimmed(first, place) == name.as_bytes());
                match (places.next(), places.next()) {
                    (Some(place), None) => Ok(place),
                    (None, _) => fault(format!(
                        "expected a header with a column {name:?} (the {role}), found the columns {}{}",
                        listed(first),
                        match source.later_header {
                            Some(line) if line > line_of(first) as usize => format!(
                                "; line {line} has them: leave out those above, as with `tail -n +{line} FILE > mended.csv`"
                            ),
                            _ => remedy(first, (role, name), separator),
                        }
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
                "expected at least {position} columns separated by {separator:?} (column {position} is the {role}), found {}: {}{}",
                first.len(),
                listed(first),
                match source.widens {
                    true if first.len() > 1 && sizes::may_be_sizes(first) => {
                        format!("; {}", sizes::SIZES)
                    }
                    true => format!("; {IF_A_TITLE}"),
                    false => other_separator(first, separator),
                }
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
            part: optional("part", &layout.part)?,
            has_header: source.has_header,
            count: first.len(),
            has_row_names: false,
            separator: separator.clone(),
            keys: source.has_types().then(|| {
                first
                    .iter()
                    .map(|key| String::from_utf8_lossy(key).into())
                    .collect()
            }),
            found: source.keys().unwrap_or_default().to_owned(),
        })
    }

    /// Returns the columns of numbers, times and labels.
    pub(super) fn numbers(&self) -> impl Iterator<Item = usize> {
        [
            self.rating,
            self.label,
            self.weight,
            self.timestamp,
            self.order,
        ]
        .into_iter()
        .flatten()
    }

    /// Puts a column of numbers of rows before all others.
    pub(super) fn shift(&mut self) {
        let optional = [
            &mut self.rating,
            &mut self.label,
            &mut self.weight,
            &mut self.timestamp,
            &mut self.order,
            &mut self.part,
        ];
        let others = optional.into_iter().flatten();
        others
            .chain([&mut self.user, &mut self.item, &mut self.count])
            .for_each(|place| *place += 1);
        self.has_row_names = true;
    }

    /// Returns whether the column at `place` is read.
    pub(super) fn is_used(&self, place: usize) -> bool {
        let texts = [Some(self.user), Some(self.item), self.part];
        let mut used = self.numbers().chain(texts.into_iter().flatten());
        used.any(|used| used == place)
    }

    /// Returns a row that has one field more than the header since a blank separates columns and stands
    /// between date and time: with both in one field.
    pub(super) fn with_one_time(&self, record: &ByteRecord) -> Option<ByteRecord> {
        let place = self.timestamp.filter(|place| {
            self.separator == " "
                && record.len() == self.count + 1
                && dates::is_day_with_time(record, *place)
        })?;
        let mut joined = ByteRecord::new();
        for (at, field) in record.iter().enumerate() {
            match at {
                _ if at == place => {
                    joined.push_field(&[field, b" ", &record[place + 1]].concat());
                }
                _ if at == place + 1 => {}
                _ => joined.push_field(field),
            }
        }
        joined.set_position(record.position().cloned());
        Some(joined)
    }

    /// Returns the name of a column in messages.
    pub(super) fn name(&self, place: usize) -> String {
        match &self.keys {
            None => format!("in column {}", place + 1),
            Some(keys) => format!("under {:?}", keys[place]),
        }
    }

    /// Returns whether every value is written with its type, so that a text is never nothing.
    pub(super) fn has_types(&self) -> bool {
        self.keys.is_some()
    }

    /// Returns what the first object has in place of a key; nothing if it has that key too.
    pub(super) fn instead_of(&self, place: usize) -> String {
        match &self.keys {
            Some(keys) if !self.found.is_empty() && !self.found.contains(&keys[place]) => {
                let found = listed(&self.found.iter().collect());
                format!("; the first object has the keys {found}")
            }
            _ => String::new(),
        }
    }

    /// Returns whether all keys that are wanted are among these.
    pub(super) fn has_keys(&self, found: &[String]) -> bool {
        let wanted = self.keys.iter().flatten();
        wanted.into_iter().all(|key| found.contains(key))
    }

    /// Returns whether a row with the wrong number of columns seems to list the items of a user.
    pub(super) fn is_list(&self, record: &ByteRecord) -> bool {
        let is_number = |field: &[u8]| !field.is_empty() && field.iter().all(u8::is_ascii_digit);
        self.numbers().next().is_none()
            && record.iter().all(is_number)
            && " \t,;|".contains(&self.separator)
    }

    /// Returns whether a row with the wrong number of columns could list items by their names.
    fn may_be_list(&self, record: &ByteRecord) -> bool {
        self.numbers().next().is_none()
            && record.len().abs_diff(self.count) > 1
            && record
                .iter()
                .all(|field| !field.is_empty() && !field.contains(&b'"'))
    }

    /// Returns why a row has the wrong number of columns.
    pub(super) fn wrong_count(&self, record: &ByteRecord) -> String {
        let hint = match self.is_list(record) {
            true => format!(
                "; if each line lists the items of a user (an adjacency list), {WRITE_PAIRS}"
            ),
            false if self.may_be_list(record) => format!(
                "; if each line lists the items of a user (an adjacency list), write one pair in a line, as with `python3 -c \
                 'import csv, sys; csv.writer(sys.stdout).writerows((row[0], item) for row in csv.reader(sys.stdin, \
                 delimiter={:?}) for item in row[1:])' < FILE > pairs.csv`",
                self.separator
            ),
            false if record.iter().any(|field| line_end_in(field).is_some()) => {
                let mut ends = record.iter().filter_map(line_end_in);
                format!("; {}", ends.next().unwrap_or_default())
            }
            false if record.iter().any(|field| field.contains(&b'"')) => {
                "; a field with a separator or a quotation mark in it stands in quotation marks, and its own ones \
                 are doubled, as in `\"5\"\" disk\"`"
                    .to_owned()
            }
            false => self.decimal_comma(record).unwrap_or_default(),
        };
        format!(
            "expected {} columns as in the first line, found {}: {}{hint}",
            self.count,
            record.len(),
            listed(record)
        )
    }
}

/// Returns what to do about a header without a column: its name if it is written in another way, or what
/// helps with the form of the file.
fn remedy(first: &ByteRecord, (role, name): (&str, &str), separator: &str) -> String {
    let letters = |name: &str| -> String {
        let kept = name.chars().filter(|c| c.is_alphanumeric());
        kept.flat_map(char::to_lowercase).collect()
    };
    let names = || first.iter().map(String::from_utf8_lossy);
    if names().filter(|name| name.len() > 2).count() > 0
        && names().all(|name| name.starts_with('\'') && name.ends_with('\''))
    {
        return format!("; {}", without_single_quotes(separator));
    }
    let line = first.iter().collect::<Vec<_>>().join(&b' ');
    if let Some(hint) = line_end_in(&line) {
        return format!("; {hint}");
    }
    if std::str::from_utf8(&line).is_err() {
        return format!("; this line is not UTF-8: {}", encoding::advice(&line));
    }
    if let Some(found) = names().find(|found| letters(found) == letters(name)) {
        let (found, hidden) = in_toml(found.trim_matches(|c: char| c.is_ascii_whitespace()));
        let hidden = if hidden {
            "; that name has characters that cannot be seen"
        } else {
            ""
        };
        return format!("; did you mean `{role} = {found}`?{hidden}");
    }
    if first.len() > 20 {
        return "; if each column is an item (a matrix), write one rating in a line, as with \
                `frame.melt(id_vars=\"user\", var_name=\"item\", value_name=\"rating\").dropna()` of pandas"
            .to_owned();
    }
    other_separator(first, separator)
}

/// Returns what to do about a field with a character that ends lines for some programs, and does not here.
pub(super) fn line_end_in(field: &[u8]) -> Option<String> {
    const ENDS: [(&str, &str); 4] = [
        ("\r", "CR alone"),
        ("\u{85}", "U+0085 (NEL)"),
        ("\u{2028}", "U+2028 (LS)"),
        ("\u{2029}", "U+2029 (PS)"),
    ];
    let has = |end: &str| field.windows(end.len()).any(|part| part == end.as_bytes());
    let (_, name) = ENDS.iter().find(|(end, _)| has(end))?;
    Some(format!(
        "there is {name} within this line: if lines end so, write all ends alike, as with `python3 -c 'import sys; \
         print(*sys.stdin.read().splitlines(), sep=\"\\n\")' < FILE > mended.csv`"
    ))
}

/// Returns a name as a scenario has to write it, and whether it has characters that cannot be seen.
fn in_toml(name: &str) -> (String, bool) {
    let is_hidden = |character: char| has_hidden(character.encode_utf8(&mut [0; 4]));
    let written = name.chars().map(|character| match character {
        '"' | '\\' => format!("\\{character}"),
        hidden if is_hidden(hidden) => match u32::from(hidden) {
            number @ ..=0xffff => format!("\\u{number:04x}"),
            number => format!("\\U{number:08x}"),
        },
        seen => seen.to_string(),
    });
    let written: String = written.collect();
    (format!("\"{written}\""), name.chars().any(is_hidden))
}

/// What to do about a line that says what the file is.
pub(super) const IF_A_TITLE: &str = "if this line is a title, put `#` in front of it";

/// Returns advice to take another separator, if the whole first line is one field and has one.
fn other_separator(first: &ByteRecord, separator: &str) -> String {
    let line = first.get(0).unwrap_or_default();
    match separator_of(std::iter::once(line)).filter(|_| first.len() == 1) {
        Some((other, _)) if other != separator => {
            format!("; the line seems to be separated by {other:?}: say `separator = {other:?}`")
        }
        _ => String::new(),
    }
}
