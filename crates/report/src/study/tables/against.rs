//! Writes the tables of a study whose arms are compared to others than the study says.

use super::{Files, csv, markdown};
use crate::study::plan;
use crate::study::results::Results;
use fedrecsim_core::error::Result;

/// Returns the files of results that are compared to `other`, beside those of
/// [`files`](super::files): `NAME-against-OTHER.md` and `summary-against-OTHER.csv`.
///
/// # Errors
/// Those of the library that writes CSV.
pub fn files_against(results: &Results, name: &str, other: &str) -> Result<Files> {
    let other = plan::folder_of(other);
    Ok(vec![
        (
            format!("{name}-against-{other}.md"),
            markdown(results).into_bytes(),
        ),
        (
            format!("summary-against-{other}.csv"),
            csv::arms(&results.of_begun_arms())?.into_bytes(),
        ),
    ])
}
