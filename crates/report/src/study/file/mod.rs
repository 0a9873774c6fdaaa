//! Reads study files: a base scenario, axes, single arms, named settings that they use, seeds,
//! published values to stand beside, spaces for a search, and the settings that one has chosen.
//!
//! The file is TOML, and unknown keys are faults. Every fault is shown with its line and column;
//! those of the language and of types come one at a time, and those of meaning all at once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use fedrecsim_core::Result;
use fedrecsim_core::metric::Metric;
use fedrecsim_scenario::{Fault, Override, Place};

mod arms;
pub(crate) mod chosen;
mod compared;
mod include;
mod overrides;
mod published;
mod references;
mod settings;
mod spaces;
#[cfg(test)]
mod tests;

pub(super) use arms::MOST_ARMS;
pub use include::or_study;
pub use published::PublishedCourse;
pub use references::Reference;
pub use spaces::{Dimension, Range, Search};

/// A study as its file says it, with its arms listed.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// The name: the stem of the file.
    pub name: String,
    /// The title, which is the name if the file has none.
    pub title: String,
    /// The seeds, each once, in the order of the file.
    pub seeds: Vec<u64>,
    /// Whether the seeds are those of the command line.
    pub(super) seeds_are_named: bool,
    /// The number of overrides of the command line, with which those of every arm end.
    pub(super) last_overrides: usize,
    /// The arms: first the combinations of the axes, then the single ones.
    pub arms: Vec<Arm>,
    /// The names of the metrics that are shown; empty for the headline of the first arm and its
    /// companion.
    pub metrics: Vec<String>,
    /// Values from elsewhere to stand beside.
    pub references: Vec<Reference>,
    /// Courses from elsewhere to stand beside.
    pub courses: Vec<PublishedCourse>,
    /// The treatment of arms whose data set is not on this machine.
    pub missing_data: MissingData,
    /// How settings are searched for, if the file says so.
    pub search: Option<Search>,
    /// What a reader should know of how the arms' settings were found.
    pub(super) warnings: Vec<String>,
}

/// The treatment of arms whose data set is not on this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissingData {
    /// The study does not begin.
    #[default]
    Refuse,
    /// They are not run, and tables say so beside their published values.
    LeaveOut,
}

/// One arm of a study: a scenario that is run with every seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// The name, such as `codec=int8, dropout=0.2`.
    pub name: String,
    /// The name without the values of axes that repeat an experiment. The arms that share it are
    /// pooled, and have the same settings.
    pub experiment: String,
    /// The scenario file.
    pub base: PathBuf,
    /// The changes to it.
    pub(super) set: Vec<Override>,
    /// Its values on the axes, as `axis=value`; empty for a single arm.
    pub values: Vec<String>,
    /// The arm that differences are paired with, by its place among the arms.
    pub compare_to: Option<usize>,
    /// The space that its settings are searched in; empty if they are not.
    pub space: Vec<Dimension>,
    /// The number of trials that its settings were chosen from, if they were.
    pub chosen_from: Option<u32>,
}

impl Arm {
    /// Returns its changes as `run --set` takes them.
    pub fn overrides(&self) -> Vec<String> {
        self.set.iter().map(|of| of.text.clone()).collect()
    }

    /// Returns the arm without its last overrides, which are those of the command line.
    pub(super) fn of_file(&self, last_overrides: usize) -> Self {
        let mut arm = self.clone();
        arm.set.truncate(self.set.len() - last_overrides);
        arm
    }
}

/// The changes of the command line to a study.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Overrides of every run, which come last.
    pub set: Vec<Override>,
    /// Seeds in place of those of the file; none leaves them.
    pub seeds: Vec<u64>,
    /// Whether settings are searched for, so that those that were chosen before do not count.
    pub searches: bool,
}

/// A study file as it is written, with the files that it includes.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawStudy {
    title: Option<String>,
    base: Option<PathBuf>,
    seeds: Option<Spanned<Vec<Spanned<u64>>>>,
    compare_to: Option<Spanned<toml::Value>>,
    #[serde(alias = "figures")]
    metrics: Vec<Spanned<String>>,
    include: Vec<Spanned<PathBuf>>,
    #[serde(rename = "use")]
    uses: Option<Spanned<toml::Value>>,
    set: Option<Spanned<toml::Table>>,
    /// What the included files change in all arms, before this one.
    #[serde(skip)]
    inherited: Vec<OfAll>,
    settings: BTreeMap<String, Spanned<toml::Table>>,
    axes: Vec<Spanned<RawAxis>>,
    arms: Vec<Spanned<RawArm>>,
    references: Vec<Spanned<references::RawReferences>>,
    published_courses: Option<Spanned<PathBuf>>,
    search: Option<Spanned<spaces::RawSearch>>,
    chosen: Option<Spanned<PathBuf>>,
    missing_data: Option<MissingData>,
}

/// What a file changes in all arms.
#[derive(Debug)]
struct OfAll {
    uses: Option<Spanned<toml::Value>>,
    set: Option<Spanned<toml::Table>>,
}

/// One dimension of a study.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAxis {
    name: Spanned<String>,
    key: Option<Spanned<String>>,
    /// Whether its values repeat one experiment.
    #[serde(default)]
    repeats: bool,
    values: Spanned<Vec<Spanned<toml::Value>>>,
}

/// A single arm.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawArm {
    name: Spanned<String>,
    base: Option<PathBuf>,
    #[serde(rename = "use")]
    uses: Option<Spanned<toml::Value>>,
    set: Option<Spanned<toml::Table>>,
    search: Option<Spanned<toml::Table>>,
    compare_to: Option<Spanned<String>>,
}

/// The faults of the files of a study.
#[derive(Default)]
struct Faults {
    files: include::Files,
    all: Vec<Fault>,
}

impl Faults {
    /// Notes a fault at a stretch of the files.
    fn at(&mut self, span: std::ops::Range<usize>, message: impl AsRef<str>) {
        let place = self.files.place(span);
        self.all.push(Fault::new(&place, message));
    }

    /// Notes a fault of what is missing from the file.
    fn missing(&mut self, message: &str) {
        self.all.push(Fault::new(&Place::FILE, message));
    }
}

/// Reads the study file at `path`, whose paths begin in its folder, or the study of this name that comes
/// with the program.
///
/// # Errors
/// [`Error::Read`](fedrecsim_core::Error::Read) if the file cannot be read, and
/// [`Error::Scenario`](fedrecsim_core::Error::Scenario) with its faults.
pub fn load(path: &Path, changes: &Changes) -> Result<(Study, String)> {
    let (text, is_shipped) = include::text_of(path)?;
    let study = read((&text, is_shipped), path, changes)?;
    Ok((study, text))
}

/// Reads the study in `text`, whose faults are reported under the name `path`.
///
/// # Errors
/// [`Error::Scenario`](fedrecsim_core::Error::Scenario) with the faults.
pub fn parse(text: &str, path: &Path, changes: &Changes) -> Result<Study> {
    read((text, false), path, changes)
}

fn read(written: (&str, bool), path: &Path, changes: &Changes) -> Result<Study> {
    let mut faults = Faults::default();
    let raw = include::read(written, path, &mut faults);
    let study = raw.map(|raw| study_of(raw, path, changes, &mut faults));
    match study.filter(|_| faults.all.is_empty()) {
        Some(study) => Ok(study),
        None => Err(faults.files.report(faults.all)),
    }
}

/// Returns the study; it means something only if there are no faults.
fn study_of(raw: RawStudy, path: &Path, changes: &Changes, faults: &mut Faults) -> Study {
    let name = path.file_stem().unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    let mut arms = arms::list(&raw, &changes.set, faults);
    compared::pair(&mut arms, &raw, faults);
    let search = spaces::search(raw.search, &arms, faults);
    let mut warnings = Vec::new();
    if !changes.searches {
        if let Some(written) = &raw.chosen {
            chosen::take_over(written, &mut arms, changes.set.len(), faults);
        }
        warnings = chosen::warnings(&arms, raw.chosen.is_some());
    }
    let seeds = seeds_of(raw.seeds, &changes.seeds, faults);
    let references = raw.references.into_iter();
    let references = references.flat_map(|written| references::read(written, &arms, faults));
    let references = references.collect();
    let courses = raw
        .published_courses
        .map_or_else(Vec::new, |written| published::read(&written, &arms, faults));
    let metric = |metric: Spanned<String>| {
        check_metric(&metric, faults);
        metric.into_inner()
    };
    Study {
        title: raw.title.unwrap_or_else(|| name.clone()),
        name,
        seeds,
        seeds_are_named: !changes.seeds.is_empty(),
        last_overrides: changes.set.len(),
        metrics: raw.metrics.into_iter().map(metric).collect(),
        arms,
        references,
        courses,
        missing_data: raw.missing_data.unwrap_or_default(),
        search,
        warnings,
    }
}

/// Returns the place of the arm of this name, and notes a fault if there is none.
fn place_of(
    name: &str,
    span: &std::ops::Range<usize>,
    arms: &[Arm],
    faults: &mut Faults,
) -> Option<usize> {
    let found = arms.iter().position(|arm| arm.name == name);
    if found.is_none() {
        let known: Vec<String> = arms.iter().map(|arm| format!("`{}`", arm.name)).collect();
        faults.at(
            span.clone(),
            format!("there is no arm `{name}`; known: {}", known.join("; ")),
        );
    }
    found
}

fn check_key(key: &str, span: &std::ops::Range<usize>, faults: &mut Faults) {
    let is_bare = |part: &str| {
        let is_kept = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        !part.is_empty() && part.chars().all(is_kept)
    };
    if !key.split('.').all(is_bare) {
        faults.at(
            span.clone(),
            format!("`{key}` is no key; one is written as \"training.rounds\""),
        );
    }
    if key == "seed" {
        faults.at(
            span.clone(),
            "the seed is no key of an arm: every arm is run with each of `seeds`",
        );
    }
}

fn check_metric(name: &Spanned<String>, faults: &mut Faults) {
    if Metric::named(name.as_ref()).is_none() {
        let message = format!(
            "`{}` is no metric; one is written as `hr@10` or `rmse`",
            name.as_ref()
        );
        faults.at(name.span(), message);
    }
}

/// Returns the seeds that are run: those of the command line, or those of the file.
fn seeds_of(
    written: Option<Spanned<Vec<Spanned<u64>>>>,
    named: &[u64],
    faults: &mut Faults,
) -> Vec<u64> {
    match &written {
        None if named.is_empty() => {
            faults.missing("`seeds` is missing; write the list of seeds, such as [1, 2, 3]");
        }
        Some(listed) if listed.as_ref().is_empty() => {
            faults.at(listed.span(), "`seeds` is empty: there is nothing to run");
        }
        _ => {}
    }
    let mut seeds = written.map_or_else(Vec::new, |written| listed_seeds(written, faults));
    if !named.is_empty() {
        seeds.clear();
        for seed in named {
            if !seeds.contains(seed) {
                seeds.push(*seed);
            }
        }
    }
    seeds
}

/// Returns a list of seeds, and notes those that are there twice.
fn listed_seeds(written: Spanned<Vec<Spanned<u64>>>, faults: &mut Faults) -> Vec<u64> {
    let mut seeds: Vec<u64> = Vec::new();
    for seed in written.into_inner() {
        let (number, span) = (*seed.as_ref(), seed.span());
        if seeds.contains(&number) {
            faults.at(span, format!("the seed {number} is there twice"));
        }
        seeds.push(number);
    }
    seeds
}
