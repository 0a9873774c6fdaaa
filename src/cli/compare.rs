//! Carries out `compare`: the tables of a study, for reports that exist.

use super::CompareArgs;
use super::study::write_files;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_report::report::read::SavedReport;
use fedrecsim_report::study::compare::{self, Wanted};
use fedrecsim_report::study::tables;
use fedrecsim_scenario::scenario::MethodVocabulary;

/// The name of the tables' files.
const NAME: &str = "compare";

/// Returns the tables as Markdown, and writes them with pictures to the folder that the arguments
/// name.
///
/// # Errors
/// [`Error::Read`] for a report that cannot be read, [`Error::Usage`] for reports that cannot be
/// compared and for files that are there already, [`Error::Write`].
pub fn compare(arguments: &CompareArgs, vocabulary: &[MethodVocabulary]) -> Result<String> {
    let reports = arguments
        .reports
        .iter()
        .map(|folder| SavedReport::read(folder))
        .collect::<Result<Vec<_>>>()?;
    let title = format!("Comparison of {} reports", reports.len());
    let wanted = Wanted {
        title,
        compare_to: arguments.to.clone(),
        figures: arguments.figures.clone(),
    };
    let results = compare::results(reports, wanted, vocabulary)?;
    if let Some(folder) = &arguments.out {
        std::fs::create_dir_all(folder).map_err(|reason| Error::write(folder, reason))?;
        write_files(folder, tables::files(&results, NAME)?, arguments.overwrite)?;
    }
    Ok(tables::markdown(&results))
}
