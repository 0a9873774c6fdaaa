//! Carries out `html`, which makes the interactive pages of reports that exist.

use std::path::Path;

use super::HtmlArgs;
use super::study::write_files;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_report::report::{html, run};
use fedrecsim_report::study::{saved, tables};
use fedrecsim_scenario::scenario::MethodVocabulary;

/// Makes the pages, and returns where they are, a line for each.
///
/// # Errors
/// [`Error::Usage`] for a folder that holds neither a report nor tables of a study, and in a build
/// without the feature `html`; [`Error::Read`] for a report that cannot be read; [`Error::Write`].
pub fn html(arguments: &HtmlArgs, vocabulary: &[MethodVocabulary]) -> Result<String> {
    html::check()?;
    let mut written = String::new();
    for folder in &arguments.folders {
        let page = page(folder, vocabulary)?;
        write_files(
            folder,
            vec![(html::FILE_NAME.to_owned(), page.into_bytes())],
            true,
        )?;
        written.push_str(&format!(
            "written to {}\n",
            folder.join(html::FILE_NAME).display()
        ));
    }
    Ok(written)
}

/// Returns the page of what is in `folder`.
fn page(folder: &Path, vocabulary: &[MethodVocabulary]) -> Result<String> {
    if folder.join("run.json").exists() {
        return run::page_of_folder(folder, vocabulary);
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
