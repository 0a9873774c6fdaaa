//! Describes the tables of parameters in a file of `run --save-model`, and draws their values.

use std::path::Path;

use ndarray::Array2;
use ndarray_npy::{NpzReader, ReadNpzError};

use super::args::TableArgs;
use super::inputs::{Seekable, seekable};
use super::output_file::{OutputFile, write};
use crate::{Error, Result};
use fedrecsim_report::plot::table::heat_map;
use fedrecsim_report::table::{Summary, THRESHOLDS};
use fedrecsim_report::{self as report, Block, Cell, Document};

type Reader = NpzReader<Box<dyn Seekable>>;

/// Returns a table of what the arrays of the file are like, and draws the heat map if one is asked
/// for.
///
/// # Errors
/// [`Error::Read`] for a file that is no such file, and for an array that it does not have; those
/// of writing a picture.
pub(crate) fn table(arguments: &TableArgs) -> Result<String> {
    let path = &arguments.file;
    let mut reader = NpzReader::new(seekable(path)?).map_err(|reason| unreadable(path, &reason))?;
    let described = if arguments.sum.is_empty() {
        let names = names(&mut reader, path)?.into_iter();
        // Arrays of integers, such as `items-7`, are no parameters.
        names
            .filter_map(|name| Some((name.clone(), array(&mut reader, &name, path).ok()?)))
            .collect()
    } else {
        let total = sum(&mut reader, &arguments.sum, path)?;
        vec![(arguments.sum.join(" + "), total)]
    };
    let Some((name, values)) = described.first() else {
        let reason = "it has no table of floating-point numbers";
        return Err(Error::read(path, reason));
    };
    if let Some(picture) = &arguments.heat_map {
        let from = format!("From {}.", path.display());
        let svg = heat_map(&format!("{name}: values"), &from, &values.view())?;
        // The tables may be those of single users.
        write(OutputFile::create(picture, true, true)?, svg.as_bytes())?;
    }
    Ok(text(&described))
}

fn text(described: &[(String, Array2<f64>)]) -> String {
    let above = THRESHOLDS.iter().map(|threshold| match *threshold {
        0.0 => "> 0".to_owned(),
        threshold => format!("> {threshold:.0e}"),
    });
    let shape = ["table", "values"].map(String::from).into_iter();
    let sizes = ["rows", "mean |value|", "largest"].map(String::from);
    let rows = described.iter().map(|(name, values)| {
        let summary = Summary::of(&values.view());
        let shares = summary.shares_above.iter().chain([&summary.rows_in_use]);
        let shares = shares.map(|share| format!("{:.2}%", 100.0 * share));
        let mut cells = vec![
            name.clone(),
            format!("{} x {}", summary.rows, summary.columns),
        ];
        cells.extend(shares);
        cells.push(format!("{:.4e}", summary.mean_magnitude));
        cells.push(format!("{:.3e}", summary.largest_magnitude));
        cells.into_iter().map(Cell::from).collect()
    });
    let table = report::Table::new("", shape.chain(above).chain(sizes), rows.collect());
    let title = "Shares of values whose magnitude is above a threshold, and of rows with a value other than 0.";
    Document {
        title: title.to_owned(),
        blocks: vec![Block::Table(table)],
        ..Document::default()
    }
    .terminal(None)
}

/// Returns the names of the arrays, in the order of the file.
fn names(reader: &mut Reader, path: &Path) -> Result<Vec<String>> {
    reader.names().map_err(|reason| unreadable(path, &reason))
}

/// Returns the sum of these tables, which must have the same shape.
fn sum(reader: &mut Reader, wanted: &[String], path: &Path) -> Result<Array2<f64>> {
    let mut total = array(reader, &wanted[0], path)?;
    for name in &wanted[1..] {
        let values = array(reader, name, path)?;
        if values.dim() != total.dim() {
            let reason = format!("`{name}` has another shape than `{}`", wanted[0]);
            return Err(Error::read(path, reason));
        }
        total += &values;
    }
    Ok(total)
}

/// Returns the table of this name in double precision.
fn array(reader: &mut Reader, name: &str, path: &Path) -> Result<Array2<f64>> {
    let found: std::result::Result<Array2<f32>, ReadNpzError> = reader.by_name(name);
    let values = found.map_err(|reason| match names(reader, path) {
        Ok(names) if !names.iter().any(|known| known == name) => Error::read(
            path,
            format!(
                "it has no array `{name}`; it has {}. A user's own arrays are there after `--save-users`",
                names.join(", ")
            ),
        ),
        _ => Error::read(path, format!("`{name}`: {reason}")),
    })?;
    if values.is_empty() {
        return Err(Error::read(path, format!("`{name}` has no values")));
    }
    Ok(values.mapv(f64::from))
}

fn unreadable(path: &Path, reason: &ReadNpzError) -> Error {
    Error::read(
        path,
        format!("{reason}; expected a file of `run --save-model`"),
    )
}
