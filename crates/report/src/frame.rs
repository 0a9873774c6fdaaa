//! Columns of numbers by their names, as charts and tables of a report read them.

use std::path::Path;

use super::column::{self, Column, Value, name_of_today};
use fedrecsim_core::{Error, Result};

/// A table of numbers, by the names of its columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Frame {
    columns: Vec<(String, Vec<Option<f64>>)>,
    rows: usize,
}

impl Frame {
    /// Returns the table of some columns.
    pub(crate) fn of<T>(columns: &[Column<'_, T>], rows: impl Iterator<Item = T>) -> Self {
        let values = column::values(columns, rows);
        let rows = values.first().map_or(0, Vec::len);
        let numbers = |values: Vec<Value>| values.iter().map(Value::number).collect();
        let named = columns.iter().map(|column| column.name.to_string());
        Self {
            columns: named.zip(values.into_iter().map(numbers)).collect(),
            rows,
        }
    }

    /// Reads the columns of a CSV file whose names are wanted.
    ///
    /// # Errors
    /// [`Error::Read`] for a file that is not there or is no table, and [`Error::MalformedLine`]
    /// for a cell that is no finite number.
    pub(crate) fn read(path: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Self> {
        let refuse = |reason: csv::Error| Error::read(path, reason);
        let mut reader = csv::Reader::from_path(path).map_err(refuse)?;
        let header = reader.headers().map_err(refuse)?.clone();
        let mut frame = Self::default();
        let mut places = Vec::new();
        let names = header.iter().map(name_of_today).enumerate();
        for (place, name) in names.filter(|(_, name)| is_wanted(name)) {
            places.push(place);
            frame.columns.push((name.to_owned(), Vec::new()));
        }
        for record in reader.records() {
            let record = record.map_err(refuse)?;
            frame.rows += 1;
            for (place, (name, values)) in places.iter().zip(&mut frame.columns) {
                let cell = record.get(*place).unwrap_or_default();
                let value = match cell.parse::<f64>() {
                    Ok(number) if number.is_finite() => Some(number),
                    _ if cell.is_empty() => None,
                    _ => {
                        return Err(Error::MalformedLine {
                            path: path.to_owned(),
                            line: record.position().map_or(0, csv::Position::line),
                            message: format!(
                                "{cell:?} is no finite number for the column `{name}`"
                            ),
                        });
                    }
                };
                values.push(value);
            }
        }
        Ok(frame)
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Returns the names of the columns.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(name, _)| name.as_str())
    }

    /// Returns a column; empty if there is none of this name.
    pub(crate) fn get(&self, name: &str) -> &[Option<f64>] {
        let found = self.columns.iter().find(|(column, _)| column == name);
        found.map_or(&[], |(_, values)| values)
    }

    /// Returns the number in a row of a column; `None` if there is none.
    pub(crate) fn at(&self, name: &str, row: usize) -> Option<f64> {
        self.get(name).get(row).copied().flatten()
    }

    /// Returns the first row whose value in a column is this number.
    pub(crate) fn find(&self, name: &str, number: f64) -> Option<usize> {
        self.get(name)
            .iter()
            .position(|value| *value == Some(number))
    }

    /// Replaces a column, or adds it.
    #[cfg(test)]
    pub(crate) fn set(&mut self, name: &str, values: Vec<Option<f64>>) {
        self.rows = values.len();
        self.columns.retain(|(column, _)| column != name);
        self.columns.push((name.to_owned(), values));
    }
}
