//! Reads the rows of a text in the form that it has.

use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;

use csv::{ByteRecord, Position};

use super::json_lines::JsonLines;
use super::{matrix, trimmed};
use crate::dataset::form::{Form, form_of, is_comment, separator_of, without_mark};
use crate::dataset::given::{self, GivenRows};
use crate::lines::Lines;
use crate::records::Records;
use fedrecsim_core::{Error, Result};
use fedrecsim_scenario::{ColumnRef, DelimitedSpec};

/// Where rows come from.
pub(super) enum Input<'a> {
    Text(Box<dyn BufRead + 'a>),
    /// Ratings in memory.
    Given(Arc<dyn GivenRows>),
}

impl Input<'_> {
    /// Returns the name in messages of what a scenario names by `path`.
    pub(super) fn name_of<'p>(&self, path: &'p Path) -> &'p Path {
        match self {
            Self::Text(_) => path,
            Self::Given(_) => Path::new(given::NAME),
        }
    }
}

/// What messages count: lines of a text from 1, or rows in memory from 0, as data frames do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Unit {
    #[default]
    Line,
    Row,
}

impl Unit {
    /// Returns the place of a record in words. Records count lines, from 1.
    pub(super) fn at(self, line: u64) -> String {
        match self {
            Self::Line => format!("line {line}"),
            Self::Row => format!("row {}", line.saturating_sub(1)),
        }
    }
}

/// The rows of a text, or of a table in memory.
pub(super) struct Source<'a> {
    rows: Rows<'a>,
    /// The columns that the layout names.
    names: Vec<String>,
    /// A comment that names the columns.
    commented_header: Option<ByteRecord>,
    /// The number of a later line, from 1, that names the columns.
    pub later_header: Option<usize>,
    /// Whether the second row has more fields than the first.
    pub widens: bool,
    /// Whether the first row names the types of columns beside them, and the columns whose type is a list.
    has_type_names: bool,
    lists: Vec<usize>,
    /// What separates the columns.
    pub separator: String,
    /// Whether the first row names the columns.
    pub has_header: bool,
    /// What was told from the file.
    pub told: Vec<String>,
}

enum Rows<'a> {
    Delimited(Records<'a>),
    Json(JsonLines<'a>),
    /// Ratings in memory, and the number of the next row.
    Given(Arc<dyn GivenRows>, usize),
}

impl<'a> Source<'a> {
    /// Starts with the first row of `input`.
    ///
    /// # Errors
    /// [`Error::Read`] if it cannot be read or is of a form that is not, [`Error::Usage`] for a layout
    /// that contradicts itself.
    pub(super) fn new(input: Input<'a>, path: &'a Path, layout: &'a DelimitedSpec) -> Result<Self> {
        let text = match input {
            Input::Text(text) => text,
            Input::Given(rows) => {
                return Ok(Self {
                    rows: Rows::Given(rows, 0),
                    names: Vec::new(),
                    commented_header: None,
                    later_header: None,
                    widens: false,
                    has_type_names: false,
                    lists: Vec::new(),
                    separator: String::new(),
                    has_header: true,
                    told: Vec::new(),
                });
            }
        };
        let lines = Lines::new(text, path)?;
        let form =
            form_of(lines.head(), lines.first()).map_err(|fault| Error::read(path, fault))?;
        match form {
            Form::Delimited => Self::delimited(lines, path, layout),
            Form::JsonLines => Ok(Self {
                rows: Rows::Json(JsonLines::new(lines, path, keys(layout, path)?)),
                names: Vec::new(),
                commented_header: None,
                later_header: None,
                widens: false,
                has_type_names: false,
                lists: Vec::new(),
                separator: String::new(),
                has_header: true,
                told: vec!["each line is a JSON object".to_owned()],
            }),
        }
    }

    fn delimited(lines: Lines<'a>, path: &Path, layout: &DelimitedSpec) -> Result<Self> {
        let mut told = Vec::new();
        let given = layout.separator.as_deref().unwrap_or_default();
        let is_row = |line: &&[u8]| !line.is_empty() && !is_comment(line, given.as_bytes());
        let has_rows = lines.first().any(|line| is_row(&line));
        // Where every line begins with a semicolon, the first column is empty.
        let rows = lines.first().filter(|line| match has_rows {
            true => is_row(line),
            false => line.starts_with(b";"),
        });
        let separator = match (&layout.separator, separator_of(rows)) {
            (Some(given), _) => given.clone(),
            (None, Some((separator, name))) => {
                told.push(format!("columns are separated by {name}"));
                separator.to_owned()
            }
            (None, None) if !has_rows => ",".to_owned(),
            (None, None) => {
                return Err(Error::read(
                    path,
                    "nothing in its first line looks like a separator of columns: name it with \
                     `dataset.columns.separator`",
                ));
            }
        };
        let names: Vec<&str> = columns_of(layout).filter_map(name_of).collect();
        if names.is_empty() && layout.header != Some(true) {
            let rows = lines.first().filter(is_row);
            if let Some(fault) = matrix::refusal(rows, &separator) {
                return Err(Error::read(path, fault));
            }
        }
        let comments = lines
            .first()
            .take_while(|line| line.is_empty() || is_comment(line, separator.as_bytes()));
        let mut fields = comments.map(|line| fields_of(line, &separator));
        let has = |fields: &ByteRecord, name: &str| {
            (0..fields.len()).any(|place| trimmed(fields, place) == name.as_bytes())
        };
        let commented_header =
            fields.find(|fields| !names.is_empty() && names.iter().all(|name| has(fields, name)));
        drop(fields);
        let is_header = |line: &[u8]| {
            let fields: Vec<&str> = std::str::from_utf8(line)
                .unwrap_or_default()
                .split([',', ';', '\t', '|'])
                .map(|field| field.trim_matches(['"', ' ']))
                .collect();
            !names.is_empty() && names.iter().all(|name| fields.contains(name))
        };
        let later_header = lines.first().position(is_header).map(|at| at + 1);
        let separators = |line: &[u8]| String::from_utf8_lossy(line).matches(&separator).count();
        let mut widths = lines.first().filter(is_row).map(separators);
        let widens = widths.next() < widths.next();
        drop(widths);
        Ok(Self {
            has_header: layout.header.unwrap_or(!names.is_empty()),
            names: names.into_iter().map(str::to_owned).collect(),
            rows: Rows::Delimited(Records::of(lines, &separator, is_comment)?),
            commented_header,
            later_header,
            widens,
            has_type_names: false,
            lists: Vec::new(),
            separator,
            told,
        })
    }

    /// Reads the first row, which may name the columns.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(super) fn read_first(&mut self, record: &mut ByteRecord) -> Result<bool> {
        if let Some(header) = self.commented_header.take() {
            *record = header;
            return Ok(true);
        }
        if let Rows::Given(rows, _) = &self.rows {
            *record = rows.columns().iter().collect();
            return Ok(true);
        }
        if !self.read(record)? {
            return Ok(false);
        }
        if let Some(names) = names_without_types(record) {
            let is_list = |place: &usize| trimmed(record, *place).ends_with(b"_seq");
            self.lists = (0..record.len()).filter(is_list).collect();
            // A name in the scenario such as `user_id:token` has the type in it, so that this header is meant as it stands.
            let is_asked = |field: &[u8]| {
                self.names
                    .iter()
                    .any(|name| name.as_bytes() == field.trim_ascii())
            };
            if !record.iter().any(is_asked) {
                *record = names;
            }
            (self.has_header, self.has_type_names) = (true, true);
            self.told
                .push("the first line names columns and their types, as RecBole has it".to_owned());
        }
        Ok(true)
    }

    /// Reads the next row into `record`, with its line as its position, and returns `false` at the end
    /// of the file.
    ///
    /// # Errors
    /// [`Error::Read`] if it cannot be read, [`Error::MalformedLine`] for a line that is too long or is
    /// no object.
    pub(super) fn read(&mut self, record: &mut ByteRecord) -> Result<bool> {
        match &mut self.rows {
            Rows::Delimited(records) => records.read(record),
            Rows::Json(lines) => lines.read(record),
            Rows::Given(rows, next) => {
                record.clear();
                if *next >= rows.count() {
                    return Ok(false);
                }
                rows.read(*next, &mut |field| record.push_field(field));
                let mut position = Position::new();
                *next += 1;
                position.set_line(*next as u64);
                record.set_position(Some(position));
                Ok(true)
            }
        }
    }

    /// Returns whether every value has its type, so that a text is never nothing, and columns go by names.
    pub(super) fn has_types(&self) -> bool {
        !matches!(self.rows, Rows::Delimited(_))
    }

    /// Returns what messages count.
    pub(super) fn unit(&self) -> Unit {
        match self.rows {
            Rows::Given(..) => Unit::Row,
            Rows::Delimited(_) | Rows::Json(_) => Unit::Line,
        }
    }

    /// Returns the keys of the first object, if the rows are objects.
    pub(super) fn keys(&self) -> Option<&[String]> {
        match &self.rows {
            Rows::Delimited(_) | Rows::Given(..) => None,
            Rows::Json(lines) => Some(lines.found()),
        }
    }

    /// Returns whether all columns are found by their names.
    pub(super) fn is_all_named(&self, layout: &DelimitedSpec) -> bool {
        columns_of(layout).count() == self.names.len()
    }

    /// Returns whether some first line must name the columns: it has types, or a column is found by its name.
    pub(super) fn has_names(&self) -> bool {
        self.has_types() || self.has_type_names || !self.names.is_empty()
    }

    /// Returns what to do about a column that is read, and has lists by its type.
    pub(super) fn refusal_of_lists(
        &self,
        is_used: impl Fn(usize) -> bool,
        count: usize,
    ) -> Option<String> {
        let at = self.lists.iter().find(|place| is_used(**place))? + 1;
        let separator = self.separator.escape_default();
        Some(format!(
            "column {at} has a list in each row, for its type is one (`_seq`): write one of the list in a row, as with \
             `awk -F'{separator}' -v OFS='{separator}' '{{ sub(/\\r$/, \"\") }} NR == 1 {{ sub(/_seq$/, \"\", ${at}); \
             print; next }} {{ n = split(${at}, all, \" \"); for (i = 1; i <= n; i++) {{ ${at} = all[i]; print }} }}' \
             FILE > mended.inter`{}",
            match count {
                2 => "",
                _ => "; the other columns are repeated",
            }
        ))
    }

    /// Returns how many lines were no rows, before the first row and after it.
    pub(super) fn comments(&self) -> (u64, u64) {
        match &self.rows {
            Rows::Delimited(records) => records.comments(),
            Rows::Json(_) | Rows::Given(..) => (0, 0),
        }
    }

    /// Returns how many quoted fields over several lines may have swallowed rows, and the line of the first.
    pub(super) fn swallowed(&self) -> (u64, u64) {
        match &self.rows {
            Rows::Delimited(records) => records.swallowed(),
            Rows::Json(_) | Rows::Given(..) => (0, 0),
        }
    }

    /// Returns how many of those before the first row look like rows.
    pub(super) fn comments_like_rows(&self) -> usize {
        match &self.rows {
            Rows::Delimited(records) => records.comments_like_records(),
            Rows::Json(_) | Rows::Given(..) => 0,
        }
    }
}

/// Returns the columns that a layout names, in the order of their keys.
pub(super) fn columns_of(layout: &DelimitedSpec) -> impl Iterator<Item = &ColumnRef> {
    let optional = [
        &layout.rating,
        &layout.label,
        &layout.weight,
        &layout.timestamp,
        &layout.order,
        &layout.part,
    ];
    [&layout.user, &layout.item]
        .into_iter()
        .chain(optional.into_iter().flatten())
}

fn name_of(column: &ColumnRef) -> Option<&str> {
    match column {
        ColumnRef::Name(name) => Some(name),
        ColumnRef::Position(_) => None,
    }
}

/// Returns the keys of JSON lines that a layout names.
///
/// # Errors
/// [`Error::Usage`] for a layout with positions.
fn keys(layout: &DelimitedSpec, path: &Path) -> Result<Vec<String>> {
    let key = |column: &ColumnRef| match column {
        ColumnRef::Name(name) => Ok(name.clone()),
        ColumnRef::Position(position) => Err(Error::Usage(format!(
            "{} has a JSON object in each line, and no column {position}: give the keys of the objects, \
             as in `user = \"user_id\"`",
            path.display()
        ))),
    };
    columns_of(layout).map(key).collect()
}

/// Returns the fields of a comment without what marks it.
fn fields_of(comment: &[u8], separator: &str) -> ByteRecord {
    let text = String::from_utf8_lossy(comment);
    let fields = without_mark(&text).split(separator);
    fields.map(str::trim).collect()
}

/// Returns the names of a header with types, as in `user_id:token`; `None` if it has none.
pub(super) fn names_without_types(header: &ByteRecord) -> Option<ByteRecord> {
    let name = |field: &[u8]| {
        let field = field.trim_ascii();
        let types: [&[u8]; 4] = [b":token", b":float", b":token_seq", b":float_seq"];
        let name = types.iter().find_map(|end| field.strip_suffix(*end))?;
        Some(name.to_owned())
    };
    let names: Option<Vec<Vec<u8>>> = header.iter().map(name).collect();
    let mut names = ByteRecord::from(names?);
    names.set_position(header.position().cloned());
    Some(names)
}
