//! Describes the tables of parameters in a file of `run --save-model`, and draws them.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use ndarray::{Array1, Array2};
use ndarray_npy::{NpzReader, ReadNpzError};

use super::TableArgs;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_report::report::table::{Summary, THRESHOLDS};

type Reader = NpzReader<BufReader<File>>;

/// Returns a table of what the arrays of the file are like, and writes the pictures that are asked
/// for.
///
/// # Errors
/// [`Error::Read`] for a file that is no such file, and for an array that it does not have; those
/// of writing a picture.
pub fn table(arguments: &TableArgs) -> Result<String> {
    let path = &arguments.file;
    let file = File::open(path).map_err(|reason| Error::read(path, reason.to_string()))?;
    let mut reader =
        NpzReader::new(BufReader::new(file)).map_err(|reason| unreadable(path, &reason))?;
    let mut described = Vec::new();
    if arguments.sum.is_empty() {
        for name in names(&mut reader, path)? {
            // Arrays of integers, such as `items-7`, are no parameters.
            if let Ok(values) = array(&mut reader, &name, path) {
                described.push((name, values));
            }
        }
    } else {
        described.push((
            arguments.sum.join(" + "),
            sum(&mut reader, &arguments.sum, path)?,
        ));
    }
    if described.is_empty() {
        return Err(Error::read(
            path,
            "it has no table of floating-point numbers",
        ));
    }
    #[cfg(feature = "plots")]
    draw(arguments, &mut reader, &described[0].0, &described[0].1)?;
    Ok(text(&described))
}

fn text(described: &[(String, Array2<f64>)]) -> String {
    let width = described
        .iter()
        .map(|(name, _)| name.chars().count())
        .max()
        .unwrap_or(0)
        .max("table".len());
    let label = |threshold: &f64| {
        if *threshold > 0.0 {
            format!("> {threshold:.0e}")
        } else {
            "> 0".to_owned()
        }
    };
    let thresholds: String = THRESHOLDS
        .iter()
        .map(|threshold| format!(" {:>9}", label(threshold)))
        .collect();
    let mut text = format!(
        "Shares of values whose magnitude is above a threshold, and of rows with a value other than 0.\n\n\
         {:<width$}  {:>13}{thresholds} {:>9} {:>12} {:>10}\n",
        "table", "values", "rows", "mean |value|", "largest"
    );
    for (name, values) in described {
        let summary = Summary::of(&values.view());
        let percent = |share: f64| format!(" {:>8.2}%", 100.0 * share);
        let shares: String = summary
            .shares_above
            .iter()
            .map(|share| percent(*share))
            .collect();
        let shape = format!("{} x {}", summary.rows, summary.columns);
        text.push_str(&format!(
            "{name:<width$}  {shape:>13}{shares}{} {:>12.4e} {:>10.3e}\n",
            percent(summary.rows_in_use),
            summary.mean_magnitude,
            summary.largest_magnitude
        ));
    }
    text
}

/// Writes the pictures that are asked for.
#[cfg(feature = "plots")]
fn draw(
    arguments: &TableArgs,
    reader: &mut Reader,
    name: &str,
    values: &Array2<f64>,
) -> Result<()> {
    use fedrecsim_report::report::plot::table::{heat_map, scatter};

    let write = |path: &Path, svg: String| {
        std::fs::write(path, svg).map_err(|reason| Error::write(path, reason))
    };
    let (from, path) = (arguments.file.display(), &arguments.file);
    if let Some(picture) = &arguments.map {
        let items = arguments
            .user
            .map(|user| items_of(reader, user, path))
            .transpose()?;
        if let Some(items) = items.as_ref().filter(|items| items.len() != values.nrows()) {
            let found = format!(
                "`{name}` has {} rows, and there are {} items",
                values.nrows(),
                items.len()
            );
            return Err(Error::read(path, found));
        }
        let places = fedrecsim_report::report::table::map(&values.view())?;
        let whose = arguments
            .user
            .map_or(String::new(), |user| format!("; the items of user {user}"));
        let subtitle = format!("Rows of {name} in {from}, by t-SNE{whose}.");
        write(
            picture,
            scatter(
                &format!("{name}: which rows are alike"),
                &subtitle,
                &places,
                items.as_deref(),
            )?,
        )?;
    }
    if let Some(picture) = &arguments.heat_map {
        write(
            picture,
            heat_map(
                &format!("{name}: values"),
                &format!("From {from}."),
                &values.view(),
            )?,
        )?;
    }
    Ok(())
}

/// Returns the names of the arrays, in the order of the file.
fn names(reader: &mut Reader, path: &Path) -> Result<Vec<String>> {
    reader.names().map_err(|reason| unreadable(path, &reason))
}

/// Returns the sum of these tables, which must have the same shape.
fn sum(reader: &mut Reader, wanted: &[String], path: &Path) -> Result<Array2<f64>> {
    let mut total: Option<Array2<f64>> = None;
    for name in wanted {
        let values = array(reader, name, path)?;
        total = Some(match total {
            None => values,
            Some(total) if total.dim() == values.dim() => total + values,
            Some(_) => {
                return Err(Error::read(
                    path,
                    format!("`{name}` has another shape than `{}`", wanted[0]),
                ));
            }
        });
    }
    total.ok_or_else(|| Error::read(path, "no table is named"))
}

/// Returns the table of this name in double precision.
fn array(reader: &mut Reader, name: &str, path: &Path) -> Result<Array2<f64>> {
    let found: std::result::Result<Array2<f32>, ReadNpzError> = reader.by_name(name);
    let values = found.map_err(|reason| match names(reader, path) {
        Ok(names) if !names.iter().any(|known| known == name) => Error::read(
            path,
            format!("it has no array `{name}`; it has {}", names.join(", ")),
        ),
        _ => Error::read(path, format!("`{name}`: {reason}")),
    })?;
    if values.is_empty() {
        return Err(Error::read(path, format!("`{name}` has no values")));
    }
    Ok(values.mapv(f64::from))
}

/// Returns what the file says of the items of `user`.
#[cfg(feature = "plots")]
fn items_of(reader: &mut Reader, user: u32, path: &Path) -> Result<Vec<u8>> {
    let items: Array1<u8> = reader.by_name(&format!("items-{user}")).map_err(|_| {
        Error::read(
            path,
            format!("it says nothing of user {user}: name the user in `run --save-users {user}`"),
        )
    })?;
    Ok(items.to_vec())
}

fn unreadable(path: &Path, reason: &ReadNpzError) -> Error {
    Error::read(
        path,
        format!("{reason}; what is needed is a file of `run --save-model`"),
    )
}
