//! Carries out the commands that look at reports which exist: `diff`, `compare` and `html`.

use std::path::{Component, Path, PathBuf};

use super::Finished;
use super::args::{CompareArgs, DiffArgs, HtmlArgs};
use super::output_file::write_files;
use crate::scenario::MethodVocabulary;
use crate::{Error, Result};
use fedrecsim_report::study::compare::{self, Wanted};
use fedrecsim_report::study::{saved, tables};
use fedrecsim_report::words::counted;
use fedrecsim_report::{self as report, MadeFolders, SavedReport, html};

/// The name of the tables' files.
const NAME: &str = "compare";

/// Says in what two reports differ.
///
/// # Errors
/// [`Error::Read`] for a report that cannot be read.
pub(crate) fn diff(arguments: &DiffArgs, vocabulary: &[MethodVocabulary]) -> Result<Finished> {
    let comparison = report::compare(&arguments.one, &arguments.other, vocabulary)?;
    Ok(Finished {
        differs: !comparison.is_equal(),
        ..comparison.to_string().into()
    })
}

/// Returns the tables as Markdown, and writes them with pictures to the folder that the arguments
/// name.
///
/// # Errors
/// [`Error::Read`] for a report that cannot be read, [`Error::Usage`] for reports that cannot be
/// compared and for files that are there already, [`Error::Write`].
pub(crate) fn compare(arguments: &CompareArgs, vocabulary: &[MethodVocabulary]) -> Result<String> {
    let reports = arguments.reports.iter();
    let reports: Vec<SavedReport> = reports
        .map(|folder| SavedReport::read(folder))
        .collect::<Result<_>>()?;
    let wanted = Wanted {
        title: format!("Comparison of {}", counted(reports.len() as u64, "report")),
        compare_to: arguments.to.clone(),
        metrics: arguments.figures.clone(),
    };
    let mut results = compare::results(reports, wanted, vocabulary)?;
    if let Some(folder) = &arguments.out {
        let _made = MadeFolders::make(folder)?;
        // The page leads from its folder to those of the runs.
        for run in results.arms.iter_mut().flat_map(|arm| &mut arm.runs) {
            run.folder = from_folder(folder, &run.folder).unwrap_or_else(|| run.folder.clone());
        }
        write_files(folder, tables::files(&results, NAME)?, arguments.overwrite)?;
    }
    Ok(tables::markdown(&results))
}

/// Returns the way from a folder to another one; `None` if one of them cannot be looked at, or they
/// have no root in common.
fn from_folder(from: &Path, to: &Path) -> Option<PathBuf> {
    let [from, to] = [from, to].map(|path| path.canonicalize().ok());
    let (from, to) = (from?, to?);
    let pairs = from.components().zip(to.components());
    let shared = pairs.take_while(|(one, other)| one == other).count();
    if shared == 0 {
        return None;
    }
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    Some(up.chain(to.components().skip(shared)).collect())
}

/// Makes the pages, and returns where they are, a line for each.
///
/// # Errors
/// [`Error::Usage`] for a folder that holds neither a report nor tables of a study; [`Error::Read`]
/// for a report that cannot be read; [`Error::Write`].
pub(crate) fn html(arguments: &HtmlArgs, vocabulary: &[MethodVocabulary]) -> Result<String> {
    let mut written = String::new();
    for folder in &arguments.folders {
        let page = page(folder, vocabulary)?;
        let file = (html::FILE_NAME.to_owned(), page.into_bytes());
        write_files(folder, vec![file], true)?;
        let path = folder.join(html::FILE_NAME);
        written += &format!("written to {}\n", path.display());
    }
    Ok(written)
}

/// Returns the page of what is in `folder`.
fn page(folder: &Path, vocabulary: &[MethodVocabulary]) -> Result<String> {
    if folder.join("run.json").exists() {
        return report::page_of_folder(folder, vocabulary);
    }
    if folder.join(saved::FILE_NAME).exists() {
        return tables::page(&saved::read(folder)?);
    }
    Err(Error::Usage(format!(
        "{} holds neither the run.json of a report nor the {} of a study or a comparison",
        folder.display(),
        saved::FILE_NAME
    )))
}
