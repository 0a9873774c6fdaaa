//! Lists the public data sets that a scenario can name, and those that have to be fetched by hand.
//!
//! They stand in `datasets.toml`: whose they are, where they can be had, what their files are
//! called and how they are laid out. `public/published.csv` has their sizes once more, written by hand
//! from the sources, and a test holds one against the other.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;

use super::compressed;
use fedrecsim_core::{Error, Result};
use fedrecsim_scenario::{ColumnRef, DatasetName, DelimitedSpec};

/// The most bytes of a first line that tell the layout of a file.
const LONGEST_HEADER: u64 = 1 << 16;

/// What several data sets of a provider have in common.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Family {
    licence: String,
    citation: String,
    #[serde(default)]
    layouts: Vec<DelimitedSpec>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    families: BTreeMap<String, Family>,
    datasets: Vec<KnownDataset>,
    by_hand: Vec<ByHand>,
}

static LISTS: LazyLock<Lists> = LazyLock::new(|| {
    // The text is a part of the program, and a test reads it, so that there is no error.
    let mut lists: Lists = toml::from_str(include_str!("datasets.toml")).unwrap_or_default();
    for set in &mut lists.datasets {
        set.name = toml::Value::try_from(set.id)
            .ok()
            .and_then(|name| Some(name.as_str()?.to_owned()))
            .unwrap_or_default();
        if let Some(family) = lists.families.get(&set.family) {
            set.complete(family);
        }
    }
    lists
});

/// Returns the public data sets that a scenario can name.
pub fn datasets() -> &'static [KnownDataset] {
    &LISTS.datasets
}

/// Returns the public data sets that nobody but their user can fetch.
pub fn by_hand() -> &'static [ByHand] {
    &LISTS.by_hand
}

/// Returns the public data set of this name, if it is known.
pub fn known(name: DatasetName) -> Option<&'static KnownDataset> {
    datasets().iter().find(|set| set.id == name)
}

/// The published numbers of a data set.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// How many users it has.
    pub users: u64,
    /// How many items it has.
    pub items: u64,
    /// How many ratings it has, or other rows.
    pub ratings: u64,
    /// Who says so: an address, or words.
    pub source: String,
}

/// A known public data set.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownDataset {
    /// The data set.
    #[serde(rename = "name")]
    pub id: DatasetName,
    /// Its name in scenarios and commands.
    #[serde(skip)]
    pub name: String,
    #[serde(default)]
    family: String,
    /// The data set's name in prose.
    pub title: String,
    /// What its rows are, where its name does not say that; may be empty.
    #[serde(default)]
    pub about: String,
    /// Its size.
    pub size: Size,
    /// Whether this project has read the provider's file, and found the published numbers in it.
    pub tried: bool,
    /// Usual places of the ratings file below a data folder, tried in this order.
    pub usual_files: Vec<String>,
    /// What its provider offers.
    pub archive: Archive,
    /// The terms of the licence, in one line.
    #[serde(default)]
    pub licence: String,
    /// The work to cite.
    #[serde(default)]
    pub citation: String,
    /// Whether an item's first appearance stands for the time of its ratings.
    #[serde(default)]
    pub(super) ordered_by_item: bool,
    #[serde(default)]
    layouts: Vec<DelimitedSpec>,
}

/// The fewest ratings of an average user among whom most can be tested.
const FEWEST_RATINGS: u64 = 5;

impl KnownDataset {
    /// Takes what it leaves out from its family.
    fn complete(&mut self, family: &Family) {
        let fill = |own: &mut String, usual: &String| {
            if own.is_empty() {
                own.clone_from(usual);
            }
        };
        fill(&mut self.licence, &family.licence);
        fill(&mut self.citation, &family.citation);
        if self.layouts.is_empty() {
            self.layouts.clone_from(&family.layouts);
        }
    }

    /// Returns about how many users can be tested: all of them. `None` where most have a single rating,
    /// so that the number of users says nothing.
    pub fn users(&self) -> Option<u64> {
        (self.size.ratings >= FEWEST_RATINGS * self.size.users).then_some(self.size.users)
    }

    /// Returns the layout of the file that `fedrecsim data fetch` makes.
    pub fn fetched_layout(&self) -> &DelimitedSpec {
        &self.layouts[0]
    }

    /// Returns where `fedrecsim data fetch` puts the ratings file below a data folder.
    pub fn fetched_file(&self) -> &str {
        &self.usual_files[0]
    }

    /// Returns the layout of a ratings file of this data set, which may depend on its name and its
    /// first line.
    pub fn layout(&self, path: &Path) -> Result<DelimitedSpec> {
        let [first, .., last] = &self.layouts[..] else {
            return Ok(self.layouts[0].clone());
        };
        let mut line = Vec::new();
        // The names of columns are short, and a line of a compressed file may have gigabytes.
        let mut text = compressed::open(path)?.take(LONGEST_HEADER);
        let read = text.read_until(b'\n', &mut line);
        read.map_err(|error| Error::read(path, error))?;
        let line = String::from_utf8_lossy(&line);
        let is_usual = path.extension() == Path::new(self.fetched_file()).extension();
        let fits = |layout: &&DelimitedSpec| {
            let names = line
                .split(layout.separator.as_deref().unwrap_or(","))
                .map(|name| name.trim().trim_matches('"'));
            let is_there = |column: &ColumnRef| match column {
                ColumnRef::Position(_) => true,
                ColumnRef::Name(name) => names.clone().any(|found| found == name),
            };
            names.clone().nth(1).is_some() && layout.timestamp.iter().all(is_there)
        };
        let fitting = || self.layouts.iter().find(fits);
        let layout = if is_usual { Some(first) } else { fitting() };
        Ok(layout.unwrap_or(last).clone())
    }
}

/// A file that the provider of a data set offers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Archive {
    /// Its address.
    pub url: String,
    /// Its length in words.
    pub length: String,
    /// Its SHA-256, in hexadecimal, where it is known.
    pub sha256: Option<String>,
    /// The address of the checksum that the provider offers beside the file, an MD5 or a SHA-256;
    /// `None` where none is offered, or none is needed since the SHA-256 is known.
    pub checksum_url: Option<String>,
    /// Its description.
    pub content: Content,
}

impl Archive {
    /// Returns the name of the file.
    pub fn file_name(&self) -> &str {
        self.url.rsplit('/').next().unwrap_or(&self.url)
    }
}

/// The format of a provider's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// A zip archive with the ratings file and others.
    Zip,
    /// The ratings file itself.
    Ratings,
    /// Reviews, one JSON object in a line, compressed with gzip. The ratings are a part of them.
    Reviews,
}

/// A public data set that nobody but its user can fetch.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByHand {
    /// Its name in commands.
    pub name: String,
    /// The data set's name in prose.
    pub title: String,
    /// What its rows are.
    pub about: String,
    /// Its size.
    pub size: Size,
    /// Whether this project has read its file, and found the published numbers in it.
    pub tried: bool,
    /// The page of its provider.
    pub page: String,
    /// The terms of the licence, in one line.
    pub licence: String,
    /// The work to cite.
    pub citation: String,
    /// How it is fetched.
    pub steps: String,
    /// A shell command that makes a table of the provider's file, if that is none.
    pub convert: Option<String>,
    /// The keys of `[dataset.columns]` that read the table.
    pub columns: String,
}

#[cfg(test)]
mod tests;
