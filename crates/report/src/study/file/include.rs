//! Reads a study file with those that it includes.
//!
//! A file that is included says what the file that includes it does not: its settings and the keys of its
//! `set` count unless there are others of their names, and so do its axes and every other key.

use std::ops::Range;
use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use toml::{Spanned, Value};

use super::{Faults, OfAll, RawAxis, RawStudy};
use fedrecsim_core::{Error, Result};
use fedrecsim_scenario::{Fault, Override, Place, Sources, shipped};

/// The most files that a study is made of.
const MOST_FILES: usize = 100;

/// The files of a study, as they are named in messages, and their texts. The first one is the study's own.
///
/// Stretches of all files are told apart by their starts, as if one text stood behind the other.
#[derive(Default)]
pub(super) struct Files {
    files: Vec<(String, String)>,
    starts: Vec<usize>,
}

impl Files {
    /// Adds a file and reads it alone.
    fn read(
        &mut self,
        path: &Path,
        text: &str,
    ) -> std::result::Result<RawStudy, (Range<usize>, String)> {
        let start = self.files.last().map_or(0, |(_, text)| {
            self.starts[self.starts.len() - 1] + text.len() + 1
        });
        self.starts.push(start);
        self.files
            .push((path.display().to_string(), text.to_owned()));
        // The blanks have every place that is told count from the start of all texts.
        let padded = " ".repeat(start) + text;
        toml::from_str(&padded).map_err(|error| {
            let span = error.span().unwrap_or(start..start);
            let before = padded.get(..span.start).unwrap_or_default().trim_end();
            let message = match before.lines().last() == Some("settings =") {
                true => "`settings` has named settings below it; what a search has chosen is named by `chosen = \"FILE\"`",
                // A table in single brackets stands where a list of tables belongs.
                false if error.message().starts_with("invalid type: map, expected a sequence") => {
                    "this is a list of tables: write its head in double brackets, as in `[[axes]]`"
                }
                false => error.message().trim_end(),
            };
            (span, message.to_owned())
        })
    }

    /// Returns the place of a stretch of all texts.
    pub(super) fn place(&self, span: Range<usize>) -> Place {
        let source = self
            .starts
            .partition_point(|start| *start <= span.start)
            .saturating_sub(1);
        let start = self.starts.get(source).copied().unwrap_or(0);
        Place {
            source,
            span: span.start - start..span.end.max(span.start) - start,
        }
    }

    /// Returns the override of a key that a stretch sets.
    pub(super) fn setting(&self, key: &str, value: &Value, span: &Range<usize>) -> Override {
        let Place { source, span } = self.place(span.clone());
        let written = self.files.get(source).map(|(name, text)| {
            // The stretch of a table may be that of its head alone.
            let rest = text.get(span.start..).unwrap_or_default();
            let start = span.start + rest.find(key).unwrap_or(0);
            let before = text.get(..start).unwrap_or_default();
            (name.clone(), Some(before.matches('\n').count() + 1))
        });
        let text = format!("{key}={value}");
        Override { text, written }
    }

    /// Returns whether a stretch belongs to the study's own file.
    pub(super) fn is_own(&self, span: &Range<usize>) -> bool {
        self.place(span.clone()).source == Sources::FILE
    }

    /// Returns an error that lists the faults.
    pub(super) fn report(&self, faults: Vec<Fault>) -> Error {
        let texts = self
            .files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()));
        Sources::of(texts.collect()).report(faults)
    }
}

/// Returns what the file at `path` with the text `text` says, and those that it includes.
pub(super) fn read(
    (text, is_shipped): (&str, bool),
    path: &Path,
    faults: &mut Faults,
) -> Option<RawStudy> {
    merged((text, is_shipped), path, &mut vec![path.to_owned()], faults)
}

/// Reads a file, which the last of the files `within` is, and those that it includes.
fn merged(
    (text, is_shipped): (&str, bool),
    path: &Path,
    within: &mut Vec<PathBuf>,
    faults: &mut Faults,
) -> Option<RawStudy> {
    let mut study = match faults.files.read(path, text) {
        Ok(study) => study,
        Err((span, message)) => {
            faults.at(span, message);
            return None;
        }
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    study.begin_in(folder, is_shipped);
    // If two included files set the same key, the later one wins.
    for written in std::mem::take(&mut study.include).into_iter().rev() {
        let (span, written) = (written.span(), written.into_inner());
        let path = found_from(folder, &written, is_shipped);
        if within.iter().any(|other| is_same(other, &path)) {
            let circle = within
                .iter()
                .map(|file| file.display().to_string() + " includes ");
            let message = format!(
                "a file cannot include itself: {}{}",
                circle.collect::<String>(),
                path.display()
            );
            faults.at(span, message);
            continue;
        }
        if faults.files.files.len() >= MOST_FILES {
            faults.at(
                span,
                format!("a study is made of at most {MOST_FILES} files"),
            );
            continue;
        }
        let (text, is_shipped) = match text_of(&path) {
            Ok(read) => read,
            Err(reason) => {
                faults.at(span, format!("`include`: {reason}"));
                continue;
            }
        };
        within.push(path.clone());
        if let Some(included) = merged((&text, is_shipped), &path, within, faults) {
            study.add(included);
        }
        within.pop();
    }
    Some(study)
}

/// Returns where a file is that a study in `folder` names: there or, if nothing is there and it is a name
/// alone, among those that come with the program. What a study that comes with the program names comes with
/// it too.
fn found_from(folder: &Path, written: &Path, is_shipped: bool) -> PathBuf {
    let there = folder.join(written);
    let comes = || shipped::has_scenario(written) || text_of_shipped(written).is_some();
    match written.file_name() {
        Some(name) if is_shipped || !there.exists() && comes() => name.into(),
        _ => there,
    }
}

/// Returns whether two paths are those of one file.
fn is_same(one: &Path, other: &Path) -> bool {
    let found = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    found(one) == found(other)
}

/// The studies that come with the program.
static STUDIES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/shipped");

/// Reads the text of a study file, or of the study of this name that comes with the program, and says
/// whether it is that.
///
/// # Errors
/// [`Error::Read`](fedrecsim_core::Error::Read) if it cannot be read or is too long.
pub(super) fn text_of(path: &Path) -> Result<(String, bool)> {
    shipped::read(path, &STUDIES, "study").map_err(|error| {
        let kinds = [&STUDIES, &shipped::SCENARIOS];
        shipped::or_other_kind(error, path, kinds, ["scenario", "run"])
    })
}

/// Returns the error of a scenario that could not be read; if `path` is the name of a study, it says so.
pub fn or_study(error: Error, path: &Path) -> Error {
    let kinds = [&shipped::SCENARIOS, &STUDIES];
    shipped::or_other_kind(error, path, kinds, ["study", "study"])
}

/// Returns the text of a file beside the studies that come with the program.
pub(super) fn text_of_shipped(path: &Path) -> Option<&'static str> {
    shipped::text_of(path, &STUDIES)
}

impl RawStudy {
    /// Has the paths of a file begin in its folder.
    fn begin_in(&mut self, folder: &Path, is_shipped: bool) {
        let files = [&mut self.chosen, &mut self.published_courses];
        let files = files.into_iter().flatten().map(Spanned::as_mut);
        let of_arms = self
            .arms
            .iter_mut()
            .filter_map(|arm| arm.as_mut().base.as_mut());
        for path in self.base.iter_mut().chain(of_arms).chain(files) {
            *path = found_from(folder, path, is_shipped);
        }
    }

    /// Adds what an included file says to what is said already.
    fn add(&mut self, included: Self) {
        let Self {
            title,
            base,
            seeds,
            compare_to,
            metrics,
            include: _,
            uses,
            set,
            mut inherited,
            settings,
            axes,
            arms,
            references,
            published_courses,
            search,
            chosen,
            missing_data,
        } = included;
        inherited.push(OfAll { uses, set });
        self.inherited.splice(0..0, inherited);
        for (name, written) in settings {
            self.settings.entry(name).or_insert(written);
        }
        or(&mut self.title, title);
        or(&mut self.base, base);
        or(&mut self.seeds, seeds);
        or(&mut self.compare_to, compare_to);
        or(&mut self.published_courses, published_courses);
        or(&mut self.search, search);
        or(&mut self.chosen, chosen);
        or(&mut self.missing_data, missing_data);
        or_all(&mut self.metrics, metrics);
        let name = |axis: &Spanned<RawAxis>| axis.as_ref().name.as_ref().clone();
        let own: Vec<String> = self.axes.iter().map(name).collect();
        let others = axes.into_iter().filter(|axis| !own.contains(&name(axis)));
        self.axes.extend(others);
        or_all(&mut self.arms, arms);
        or_all(&mut self.references, references);
    }
}

/// Sets what is not said yet.
fn or<T>(own: &mut Option<T>, other: Option<T>) {
    if own.is_none() {
        *own = other;
    }
}

/// Sets a list that has nothing yet.
fn or_all<T>(own: &mut Vec<T>, other: Vec<T>) {
    if own.is_empty() {
        *own = other;
    }
}
