//! Makes Arrow tables of a run: its rounds and its users. [`EventTable`](super::events::EventTable)
//! has what happened on links and devices.
//!
//! Programs in other languages read such tables without a copy. The columns of rounds and users are
//! those of `rounds.csv` and `users.csv`, made of the same cells.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{ArrowError, Field, Schema};

use super::column::{self, Column, Place, Unit, Value};
#[cfg(feature = "parquet")]
use super::exporter::Exporter;
#[cfg(feature = "parquet")]
use super::file_names;
use super::record::RunRecord;
use super::{check, rounds as of_rounds, users as of_users};
use fedrecsim_core::{Error, Result};

/// Returns the rounds, with the columns of `rounds.csv`.
///
/// # Errors
/// Those of [`check::check`].
pub fn rounds(record: &RunRecord) -> Result<RecordBatch> {
    check::check(record)?;
    let columns = of_rounds::columns(&of_rounds::Has::of(record), Place::Rounds);
    batch(&columns, of_rounds::rows(record))
}

/// Returns the users, with the columns of `users.csv`; `None` if the totals of single users were
/// not kept.
///
/// # Errors
/// Those of [`check::check`].
pub fn users(record: &RunRecord) -> Result<Option<RecordBatch>> {
    check::check(record)?;
    let users = record.per_user.as_ref().filter(|users| !users.is_empty());
    users
        .map(|users| batch(&of_users::columns(record), of_users::rows(record, users)))
        .transpose()
}

/// Returns the items, with the columns of `items.csv`.
///
/// # Errors
/// Those of [`check::check`].
pub fn items(record: &RunRecord) -> Result<RecordBatch> {
    check::check(record)?;
    let columns = of_rounds::columns(&of_rounds::Has::of(record), Place::Items);
    batch(&columns, record.per_item.iter().map(of_rounds::tree))
}

/// Returns a table of some columns.
fn batch<T>(columns: &[Column<'_, T>], rows: impl Iterator<Item = T>) -> Result<RecordBatch> {
    let array = |(column, values): (&Column<'_, T>, Vec<Value>)| -> ArrayRef {
        if column.unit == Unit::Name {
            let name = |value| match value {
                Value::Name(name) => Some(name),
                _ => None,
            };
            Arc::new(values.into_iter().map(name).collect::<StringArray>())
        } else if column.unit.is_whole() {
            let count = |value: &Value| match value {
                Value::Count(count) => Some(*count),
                _ => None,
            };
            Arc::new(values.iter().map(count).collect::<UInt64Array>())
        } else {
            let numbers = values.iter().map(Value::number);
            Arc::new(numbers.collect::<Float64Array>())
        }
    };
    let values = column::values(columns, rows);
    let names = columns.iter().map(|column| &*column.name);
    of_arrays(names, columns.iter().zip(values).map(array).collect())
}

/// Puts arrays together.
pub(super) fn of_arrays<'n>(
    names: impl Iterator<Item = &'n str>,
    arrays: Vec<ArrayRef>,
) -> Result<RecordBatch> {
    let field =
        |(name, array): (&'n str, &ArrayRef)| Field::new(name, array.data_type().clone(), true);
    let schema = Schema::new(names.zip(&arrays).map(field).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), arrays).map_err(refused)
}

fn refused(reason: ArrowError) -> Error {
    Error::write("an Arrow table", std::io::Error::other(reason))
}

/// Returns the table as a Parquet file.
///
/// # Errors
/// [`Error::Write`] for what Parquet cannot express, which these tables do not have.
#[cfg(feature = "parquet")]
pub(crate) fn to_parquet(name: &str, table: &RecordBatch) -> Result<Vec<u8>> {
    use parquet::arrow::ArrowWriter;
    use parquet::basic::Compression;
    use parquet::file::properties::WriterProperties;

    let failed =
        |reason: parquet::errors::ParquetError| Error::write(name, std::io::Error::other(reason));
    // Without a version, so that the same table gives the same bytes after an update.
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by("fedrecsim".to_owned())
        .build();
    let mut file = Vec::new();
    let mut writer =
        ArrowWriter::try_new(&mut file, table.schema(), Some(properties)).map_err(failed)?;
    writer.write(table).map_err(failed)?;
    writer.close().map_err(failed)?;
    Ok(file)
}

/// Makes the Parquet files of a report: `rounds.parquet`, and `users.parquet` where users are
/// listed.
#[cfg(feature = "parquet")]
pub const PARQUET: Exporter = Exporter {
    files: &file_names::PARQUET,
    render: |record| {
        let tables = file_names::PARQUET
            .into_iter()
            .zip([Some(rounds(record)?), users(record)?]);
        let file = |(name, table): (&'static str, Option<RecordBatch>)| {
            Some(to_parquet(name, &table?).map(|file| (name, file)))
        };
        tables.filter_map(file).collect()
    },
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, UInt64Type};
    use arrow_schema::DataType;

    use super::*;
    use crate::tests::records as sample;

    /// Returns the cells of a table as CSV has them.
    fn text_of(table: &RecordBatch) -> String {
        let cell = |array: &ArrayRef, row: usize| match array.data_type() {
            _ if array.is_null(row) => String::new(),
            DataType::Utf8 => array.as_string::<i32>().value(row).to_owned(),
            DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).to_string(),
            _ => array.as_primitive::<Float64Type>().value(row).to_string(),
        };
        let names: Vec<String> = table
            .schema()
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect();
        let rows = (0..table.num_rows()).map(|row| {
            let cells: Vec<String> = table
                .columns()
                .iter()
                .map(|array| cell(array, row))
                .collect();
            cells.join(",")
        });
        [names.join(",")]
            .into_iter()
            .chain(rows)
            .map(|line| line + "\n")
            .collect()
    }

    /// If this fails, a table read from another language has other numbers than the report.
    #[test]
    fn tables_have_the_cells_of_the_csv_files() {
        let record = sample::with_users(3);
        assert_eq!(
            text_of(&rounds(&record).unwrap()),
            of_rounds::csv(&record, Place::Rounds).unwrap()
        );
        assert_eq!(
            Some(text_of(&users(&record).unwrap().unwrap())),
            of_users::csv(&record).unwrap()
        );
    }

    /// If this fails, a Parquet file cannot be read, or has lost something.
    #[cfg(feature = "parquet")]
    #[test]
    fn a_parquet_file_is_read_back_as_the_table() {
        use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

        let table = rounds(&sample::run(3)).unwrap();
        let file = bytes::Bytes::from(to_parquet("rounds.parquet", &table).unwrap());
        let read: Vec<RecordBatch> = ParquetRecordBatchReader::try_new(file, 1024)
            .unwrap()
            .map(|b| b.unwrap())
            .collect();
        assert_eq!(read, [table]);
        let files = (PARQUET.render)(&sample::with_users(2)).unwrap();
        assert_eq!(
            files.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
            ["rounds.parquet", "users.parquet"]
        );
    }

    /// If this fails, a table of a run that was stopped at once cannot be put below that of another
    /// one.
    #[test]
    fn types_do_not_depend_on_the_rounds() {
        let none = RunRecord {
            per_round: Vec::new(),
            rounds: 0,
            ..sample::run(2)
        };
        let types = |record: &RunRecord| -> Vec<(String, DataType)> {
            let table = rounds(record).unwrap();
            table
                .schema()
                .fields()
                .iter()
                .map(|field| (field.name().clone(), field.data_type().clone()))
                .collect()
        };
        let (empty, full) = (types(&none), types(&sample::run(2)));
        assert!(
            full.len() > empty.len(),
            "only a run with rounds has columns of accuracy"
        );
        assert!(
            empty.iter().all(|column| full.contains(column)),
            "{empty:?} {full:?}"
        );
    }
}
