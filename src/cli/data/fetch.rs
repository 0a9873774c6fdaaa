//! Carries out `data fetch`: downloads, checks and unpacks public data sets.

use std::fs;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};

use super::checksum;
use super::download::download;
use super::unpack::{LIMITS, unpack};
use crate::cli::Finished;
use crate::cli::args::DataFetchArgs;
use crate::cli::inputs::data_directories;
use crate::scenario::DatasetSpec;
use crate::{Error, Result};
use fedrecsim_data::dataset::public::{Archive, KnownDataset, by_hand, datasets};
use fedrecsim_data::dataset::registry;
use fedrecsim_report::{FolderLock, MadeFolders};

/// Fetches the data sets, and returns what was done and what went wrong. One that cannot be had
/// does not keep the others from being fetched. Progress is shown if `visible` is true.
pub(crate) fn fetch(arguments: &DataFetchArgs, visible: bool) -> Finished {
    let sets = match chosen(arguments) {
        Ok(sets) => sets,
        Err(error) => return error.into(),
    };
    let mut finished = Finished::default();
    for set in sets {
        match fetch_one(set, arguments, visible) {
            Ok(text) => finished.output += &text,
            Err(error) => finished.errors.push(error),
        }
    }
    finished
}

/// Returns the data sets that are named.
fn chosen(arguments: &DataFetchArgs) -> Result<Vec<&'static KnownDataset>> {
    let by_name = |name: &String| {
        if let Some(set) = by_hand().iter().find(|set| set.name == *name) {
            let (page, steps) = (&set.page, &set.steps);
            return Err(Error::Usage(format!(
                "{name} has to be fetched by hand, from {page}. {steps}. `fedrecsim data list {name}` says how \
                 it is read"
            )));
        }
        let found = datasets().iter().find(|set| set.name == *name);
        found.ok_or_else(|| {
            let known: Vec<&str> = datasets().iter().map(|set| set.name.as_str()).collect();
            let known = known.join(", ");
            Error::Usage(format!(
                "there is no data set {name:?} to fetch; there are {known}"
            ))
        })
    };
    let sets: Vec<_> = arguments.names.iter().map(by_name).collect::<Result<_>>()?;
    if arguments.archive.is_some() && sets.len() > 1 {
        let message = "--archive is the file of one data set; name that one alone";
        return Err(Error::Usage(message.to_owned()));
    }
    match &arguments.from {
        Some(from) if !from.contains("://") => Err(Error::Usage(format!(
            "--from {from} is no address, such as https://example.org/data"
        ))),
        _ => Ok(sets),
    }
}

fn fetch_one(set: &KnownDataset, arguments: &DataFetchArgs, visible: bool) -> Result<String> {
    let folders = data_directories(arguments.data_dir.as_deref());
    if let Ok(found) = registry::locate(&DatasetSpec::named(set.id), &folders) {
        let path = found.path.display();
        return Ok(format!("{}: {path} is here already\n", set.name));
    }
    let bar = bar(&set.name, visible);
    let job = Job {
        archive: &set.archive,
        set,
        file: set.fetched_file(),
        folder: &folders[0],
        from: arguments.from.as_deref(),
        given: arguments.archive.as_deref(),
    };
    let fetched = job.run(&mut |length, whole| {
        whole.into_iter().for_each(|whole| bar.set_length(whole));
        bar.set_position(length);
    });
    bar.finish_and_clear();
    Ok(format!(
        "{}: {}\n  licence: {}\n  cite: {}\n",
        set.name, fetched?, set.licence, set.citation
    ))
}

/// Returns a bar on standard error, or one that nobody sees.
fn bar(name: &str, visible: bool) -> ProgressBar {
    if !visible {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::no_length();
    let template = "{msg} [{bar:24}] {decimal_bytes} of {decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_message(name.to_owned());
    bar
}

/// A data set to be fetched.
pub(super) struct Job<'a> {
    /// The provider's offer.
    pub archive: &'a Archive,
    /// The data set, which tells the layout of the ratings file.
    pub set: &'a KnownDataset,
    /// The ratings file, as `FOLDER/NAME` below the data folder.
    pub file: &'a str,
    /// The data folder.
    pub folder: &'a Path,
    /// The address in place of the provider's, without the name of the file.
    pub from: Option<&'a str>,
    /// A file that was downloaded by somebody else.
    pub given: Option<&'a Path>,
}

impl Job<'_> {
    /// Fetches the data set, and says what was done.
    ///
    /// # Errors
    /// [`Error::Fetch`] if the provider's file cannot be fetched, or is the wrong one and was
    /// removed. [`Error::Read`] or [`Error::MalformedLine`] if a file that somebody else has
    /// downloaded is the wrong one; it stays. [`Error::Write`] if the data folder cannot be
    /// written, and [`Error::Usage`] if something else is in its place.
    pub(crate) fn run(&self, progress: super::download::Progress) -> Result<String> {
        let _made = MadeFolders::make(self.folder)?;
        let _lock = FolderLock::take_for("the data sets in", self.folder)?;
        let target = self.folder.join(self.file);
        let own = target.parent().unwrap_or(self.folder);
        let ratings = target.file_name().unwrap_or_default().to_string_lossy();
        let is_in_use = |mut entries: fs::ReadDir| entries.next().is_some();
        if own.read_dir().is_ok_and(is_in_use) {
            return Err(Error::Usage(format!(
                "{} is there already, but has no {ratings}; move it out of the way, or name another --data-dir",
                own.display()
            )));
        }
        let (file, origin, is_temporary) = self.obtain(progress)?;
        let used = checksum::check(&file, self.archive, self.folder).and_then(|checked| {
            let content = (self.archive.content, self.set);
            unpack(&file, content, own, &ratings, LIMITS)?;
            checked.record()
        });
        // A downloaded archive is not kept: what it held is in the folder by now, or it could not
        // be unpacked.
        let removed = is_temporary.then(|| fs::remove_file(&file));
        match (used, removed) {
            (Ok(verdict), _) => Ok(format!("{} is from {origin}; {verdict}", target.display())),
            (Err(error), Some(removed)) => Err(of_download(error, origin, &file, removed)),
            (Err(error), None) => Err(error),
        }
    }

    /// Returns the provider's file, where it is from, and whether nobody but this command wants it.
    fn obtain(&self, progress: super::download::Progress) -> Result<(PathBuf, String, bool)> {
        let here = self.folder.join(self.archive.file_name());
        let given = self
            .given
            .or(Some(here.as_path()).filter(|here| here.is_file()));
        if let Some(file) = given {
            return Ok((file.to_owned(), file.display().to_string(), false));
        }
        let name = self.archive.file_name();
        let url = match self.from {
            Some(from) => format!("{}/{name}", from.trim_end_matches('/')),
            None => self.archive.url.clone(),
        };
        download(&url, &here, progress)?;
        Ok((here, url, true))
    }
}

/// Returns the error of a file from `origin` that was downloaded, was of no use, and was `removed`.
fn of_download(error: Error, origin: String, file: &Path, removed: std::io::Result<()>) -> Error {
    let reason = match error {
        Error::Read { path, reason } if path == file => reason,
        Error::MalformedLine {
            path,
            line,
            message,
        } if path == file => {
            format!("line {line} of it is no rating: {message}")
        }
        other => return other,
    };
    let removed = match removed {
        Ok(()) => "the download is removed. It was damaged on its way, or its address has \
                   something else now, such as another version of the data set or the page of a \
                   proxy"
            .to_owned(),
        Err(reason) => format!("{} cannot be removed ({reason})", file.display()),
    };
    Error::fetch(origin, format!("{reason}; {removed}"))
}
