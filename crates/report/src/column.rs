//! Columns of tables as data: a figure's name, unit and meaning, how it is read from a row, and
//! where it is shown.
//!
//! `columns.csv` lists the columns of rounds, users, items and runs: a row is a serialised record, and a
//! column is a path into it. CSV, Arrow, Parquet, Markdown, pages and the reference in `docs/` read
//! these lists. A [`Cell`] is what a reader sees of a figure.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::sync::LazyLock;

use ciborium::Value as Tree;
use serde::de::IntoDeserializer;
use serde::{Deserialize, Deserializer, Serialize};

use super::words;
/// How a figure is measured. The type of its column and its words follow from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// A number without a unit.
    #[default]
    Number,
    /// A whole number of things.
    Count,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Seconds.
    Seconds,
    /// Joules.
    Joules,
    /// Grams.
    Grams,
    /// A metric.
    Accuracy,
    /// A part of a whole, from 0 to 1.
    Share,
    /// The epsilon of differential privacy.
    Epsilon,
    /// A chance from 0 to 1, such as an AUC.
    Chance,
    /// A name, which is no number.
    Name,
}

impl Unit {
    /// Returns whether all values are whole numbers.
    #[cfg(feature = "arrow")]
    pub(crate) fn is_whole(self) -> bool {
        matches!(self, Self::Count | Self::Bytes)
    }

    /// Returns a value in the words of a reader.
    pub(crate) fn words(self, value: f64) -> String {
        match self {
            Self::Number => format!("{value:.5}"),
            Self::Count if value.fract() == 0.0 => words::thousands(value as u64),
            // A mean over runs.
            Self::Count => format!("{value:.1}"),
            Self::Bytes => words::bytes(value),
            Self::BytesPerSecond => format!("{}/s", words::bytes(value)),
            Self::Seconds => words::duration(value),
            Self::Joules => words::energy(value),
            Self::Grams => words::mass(value),
            Self::Accuracy => words::accuracy(value),
            Self::Share => format!("{:.2} %", 100.0 * value),
            Self::Epsilon => words::epsilon(value, 3),
            Self::Chance => format!("{value:.3}"),
            Self::Name => value.to_string(),
        }
    }

    /// Returns the cell of a value.
    pub(crate) fn cell(self, value: impl Into<Value>) -> Cell {
        let value = value.into();
        value
            .number()
            .map_or_else(Cell::none, |number| Cell::number(self.words(number), value))
    }

    /// Returns the name in the reference.
    fn name(self) -> String {
        words::name_of(&self).replace('-', " ")
    }
}

/// A number or a name, or nothing where a row has none.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Value {
    /// There is no number.
    #[default]
    Nothing,
    /// A whole number.
    Count(u64),
    /// A number that may have a fraction.
    Number(f64),
    /// A name.
    Name(String),
}

impl Value {
    /// Returns the number; `None` if there is none.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Nothing | Self::Name(_) => None,
            Self::Count(count) => Some(*count as f64),
            Self::Number(number) => Some(*number),
        }
    }
}

impl From<u32> for Value {
    fn from(count: u32) -> Self {
        Self::Count(count.into())
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Nothing, Into::into)
    }
}

/// Writes the number or the name, and nothing if there is none.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => Ok(()),
            Self::Count(count) => count.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// What is shown.
    pub text: String,
    /// The number in full that the cell shows and rows are sorted by; `None` for words, and where
    /// there is no value.
    pub number: Option<String>,
    /// The file or the folder that a page leads to from here.
    pub(crate) link: Option<String>,
}

impl Cell {
    /// Returns a cell that shows `text` for the number `value`.
    pub fn number(text: impl Into<String>, value: impl ToString) -> Self {
        Self {
            number: Some(value.to_string()),
            ..Self::from(text)
        }
    }

    /// Returns a cell without a value.
    pub(crate) fn none() -> Self {
        Self::from("-")
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            number: None,
            link: None,
        }
    }
}

/// A place where a column is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Place {
    /// The table of rounds: `rounds.csv`, `rounds.parquet` and the Arrow table.
    Rounds,
    /// `network.csv`.
    Network,
    /// The table of users: `users.csv`, `users.parquet` and the Arrow table.
    Users,
    /// `items.csv`.
    Items,
    /// The table of rounds on the page of a run.
    Page,
    /// `NAME.csv` and `summary.csv` of a study.
    Study,
    /// A study's table of costs.
    Costs,
    /// A study's table of costs, if some run has more than 0.
    CostsIfAny,
    /// A study's table of what is saved and lost: the bytes.
    Savings,
    /// A study's table of what uploads tell.
    Privacy,
    /// A study's table of how sparse the shared table is.
    Sparsity,
    /// A study's table of what newcomers get.
    Newcomers,
}

/// A column of a table whose rows are of the type `T`.
pub(crate) struct Column<'a, T> {
    /// The name in files, with the unit last.
    pub(crate) name: Cow<'static, str>,
    /// The name that readers see in tables.
    pub(crate) label: Cow<'static, str>,
    /// How it is measured.
    pub(crate) unit: Unit,
    /// The meaning, in a sentence.
    pub(crate) doc: Cow<'static, str>,
    /// Where it is shown.
    shown_in: Vec<Place>,
    of: Box<dyn Fn(&T) -> Value + 'a>,
}

impl<'a, T> Column<'a, T> {
    /// Returns the column that `of` reads out of a row.
    pub(crate) fn new<V: Into<Value>>(
        name: impl Into<Cow<'static, str>>,
        unit: Unit,
        doc: impl Into<Cow<'static, str>>,
        of: impl Fn(&T) -> V + 'a,
    ) -> Self {
        let name = name.into();
        Self {
            label: name.clone(),
            name,
            unit,
            doc: doc.into(),
            shown_in: Vec::new(),
            of: Box::new(move |row| of(row).into()),
        }
    }

    /// Has readers see another name than that in files.
    pub(crate) fn labelled(self, label: impl Into<Cow<'static, str>>) -> Self {
        Self {
            label: label.into(),
            ..self
        }
    }

    /// Has the column shown at these places.
    fn shown_in(self, places: &[Place]) -> Self {
        Self {
            shown_in: places.into(),
            ..self
        }
    }

    /// Returns the column of rows that have those of this one as a part.
    pub(crate) fn of_part<'b, R>(self, part: fn(&R) -> &T) -> Column<'b, R>
    where
        'a: 'b,
        T: 'b,
        R: 'b,
    {
        Column {
            name: self.name,
            label: self.label,
            unit: self.unit,
            doc: self.doc,
            shown_in: self.shown_in,
            of: Box::new(move |row| (self.of)(part(row))),
        }
    }

    /// Returns the value of a row.
    pub(crate) fn of(&self, row: &T) -> Value {
        (self.of)(row)
    }

    /// Returns whether the column is shown at a place.
    pub(crate) fn is_in(&self, place: Place) -> bool {
        self.shown_in.contains(&place)
    }
}

/// The columns of rounds, users and runs.
const LIST: &str = include_str!("columns.csv");

/// A line of the list.
#[derive(Deserialize)]
pub(crate) struct Listed {
    #[serde(rename = "shown in", deserialize_with = "places")]
    shown_in: Vec<Place>,
    /// The name; braces stand for what a run has several of.
    #[serde(rename = "column")]
    pub name: String,
    label: String,
    unit: Unit,
    /// The path in a row, joined by dots.
    #[serde(rename = "read from")]
    of: String,
    /// The condition on a run for this column; empty for all runs.
    #[serde(rename = "if the run has")]
    pub needed: String,
    #[serde(rename = "what it is")]
    doc: String,
}

fn places<'de, D: Deserializer<'de>>(words: D) -> Result<Vec<Place>, D::Error> {
    let words = String::deserialize(words)?;
    let words = words.split(' ').map(IntoDeserializer::into_deserializer);
    words.map(Place::deserialize).collect()
}

/// Returns the lines of the list that are shown at a place.
pub(crate) fn listed(place: Place) -> impl Iterator<Item = &'static Listed> {
    static LINES: LazyLock<Vec<Listed>> = LazyLock::new(|| {
        // A test reads every line.
        let lines = csv::Reader::from_reader(LIST.as_bytes()).into_deserialize();
        lines.filter_map(Result::ok).collect()
    });
    LINES
        .iter()
        .filter(move |line| line.shown_in.contains(&place))
}

impl Listed {
    /// Returns the column, with `values` in the place of names in braces.
    pub(crate) fn column(&self, values: &[(&str, &str)]) -> Column<'static, Tree> {
        let filled = |text: &str| {
            let fill = |text: String, (name, value): &(&str, &str)| {
                text.replace(&format!("{{{name}}}"), value)
            };
            values.iter().fold(text.to_owned(), fill)
        };
        let path: Vec<String> = self.of.split('.').map(filled).collect();
        let of = move |row: &Tree| value_at(row, &path);
        let column = Column::new(filled(&self.name), self.unit, filled(&self.doc), of);
        let column = column.shown_in(&self.shown_in);
        match self.label.is_empty() {
            true => column,
            false => column.labelled(filled(&self.label)),
        }
    }
}

/// Returns the number or the name in a row at the end of a path.
fn value_at(row: &Tree, path: &[String]) -> Value {
    let mut tree = row;
    for key in path {
        let is_it = |(name, _): &&(Tree, Tree)| name.as_text() == Some(key);
        let found = match tree {
            Tree::Map(entries) => entries.iter().find(is_it).map(|(_, value)| value),
            Tree::Array(values) => key.parse().ok().and_then(|place: usize| values.get(place)),
            _ => None,
        };
        let Some(found) = found else {
            return Value::Nothing;
        };
        tree = found;
    }
    match tree {
        Tree::Integer(count) => u64::try_from(*count).ok().into(),
        Tree::Float(number) => Value::Number(*number),
        Tree::Text(name) => Value::Name(name.clone()),
        _ => Value::Nothing,
    }
}

/// Returns a table as CSV text with a header line. There may be millions of rows.
pub(crate) fn csv<T>(columns: &[Column<'_, T>], rows: impl Iterator<Item = T>) -> String {
    let mut table = csv::Writer::from_writer(Vec::new());
    // Writing into memory cannot fail, and every row has as many cells.
    let _ = table.write_record(columns.iter().map(|column| column.name.as_bytes()));
    let mut cell = String::new();
    for row in rows {
        for column in columns {
            cell.clear();
            let _ = match column.of(&row) {
                Value::Name(name) => write!(cell, "{}", without_formula(&name)),
                number => write!(cell, "{number}"),
            };
            let _ = table.write_field(&cell);
        }
        let _ = table.write_record(None::<&str>);
    }
    String::from_utf8(table.into_inner().unwrap_or_default()).unwrap_or_default()
}

/// Returns a cell behind an apostrophe if a spreadsheet would carry it out as a formula, as names of
/// users, arms and reasons of failures may have it. Numbers are left as they are.
pub(crate) fn without_formula(cell: &str) -> String {
    let begins_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']);
    let is_number = cell.parse::<f64>().is_ok_and(f64::is_finite);
    match begins_formula && !is_number {
        true => format!("'{cell}"),
        false => cell.to_owned(),
    }
}

/// Returns the values of every column.
pub(crate) fn values<T>(
    columns: &[Column<'_, T>],
    rows: impl Iterator<Item = T>,
) -> Vec<Vec<Value>> {
    let mut values = vec![Vec::new(); columns.len()];
    for row in rows {
        for (values, column) in values.iter_mut().zip(columns) {
            values.push(column.of(&row));
        }
    }
    values
}

/// Returns a part of the reference: a heading, and a Markdown table of columns.
pub(crate) fn reference<T>(file: &str, columns: &[Column<'_, T>]) -> String {
    let line = |column: &Column<'_, T>| {
        let (name, unit, doc) = (&column.name, column.unit.name(), &column.doc);
        format!("| `{name}` | {unit} | {doc} |\n")
    };
    let lines: String = columns.iter().map(line).collect();
    format!("## {file}\n\n| column | unit | what it is |\n|---|---|---|\n{lines}\n")
}

/// Names in reports of older programs, and those of today.
const RENAMED: [(&str, &str); 3] = [
    ("dropped", "lost"),
    ("wasted_j", "unused_j"),
    ("wasted_energy_j", "unused_energy_j"),
];

/// Returns the name that a column or a key of a report has today.
pub(crate) fn name_of_today(name: &str) -> &str {
    let renamed = RENAMED.iter().find(|(old, _)| *old == name);
    renamed.map_or(name, |(_, new)| new)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a column of the list is left out without a word.
    #[test]
    fn every_line_of_the_list_is_read() {
        let lines = csv::Reader::from_reader(LIST.as_bytes()).into_deserialize();
        let lines: csv::Result<Vec<Listed>> = lines.collect();
        assert!(lines.is_ok_and(|lines| lines.len() > 100));
    }
}
