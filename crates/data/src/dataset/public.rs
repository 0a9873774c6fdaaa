//! Lists the public data sets that a scenario can name, and those that have to be fetched by hand.
//!
//! They stand in `datasets.toml`: whose they are, where they can be had, what their files are
//! called and how they are laid out.

use std::io::{BufRead, Read};
use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;

use super::compressed;
use fedrecsim_core::{Error, Result};
use fedrecsim_scenario::{ColumnRef, DatasetName, DelimitedSpec};

/// The most bytes of a first line that tell the layout of a file.
const LONGEST_HEADER: u64 = 1 << 16;

#[derive(Default, Deserialize)]
struct Lists {
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

/// A known public data set.
#[derive(Debug, Deserialize)]
pub struct KnownDataset {
    /// The data set.
    #[serde(rename = "name")]
    pub id: DatasetName,
    /// Its name in scenarios and commands.
    #[serde(skip)]
    pub name: String,
    /// The data set's name in prose.
    pub title: String,
    /// Its size, in the numbers of its provider.
    pub holds: String,
    /// Usual places of the ratings file below a data folder, tried in this order.
    pub usual_files: Vec<String>,
    /// What its provider offers.
    pub archive: Archive,
    /// The terms of the licence, in one line.
    pub licence: String,
    /// The work to cite.
    pub citation: String,
    /// Whether an item's first appearance stands for the time of its ratings.
    #[serde(default)]
    pub(super) ordered_by_item: bool,
    layouts: Vec<DelimitedSpec>,
}

impl KnownDataset {
    /// Returns how many users it has, if its provider says so.
    pub fn users(&self) -> Option<u64> {
        let (before, _) = self.holds.split_once(" users")?;
        let number = before.rsplit(' ').next()?;
        number.replace(',', "").parse().ok()
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
pub struct ByHand {
    /// Its name in commands.
    pub name: String,
    /// The data set's name in prose.
    pub title: String,
    /// Its size, in the numbers of its provider.
    pub holds: String,
    /// The page of its provider.
    pub page: String,
    /// The terms of the licence, in one line.
    pub licence: String,
    /// The work to cite.
    pub citation: String,
    /// How it is fetched and read.
    pub steps: String,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::dataset::delimited;

    /// If this fails, a file that was unpacked without a folder of its own is silently read as any
    /// of several data sets.
    #[test]
    fn no_file_is_found_for_two_data_sets() {
        let mut all: Vec<&String> = datasets().iter().flat_map(|set| &set.usual_files).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(
            all.len(),
            count,
            "one of {all:?} is a usual file of two data sets"
        );
    }

    /// If this fails, a copy of MovieLens 1M that is laid out in one of its known ways is refused.
    #[test]
    fn the_columns_that_a_file_names_decide_its_layout() {
        let set = known(DatasetName::Ml1m).unwrap();
        for (text, timestamp, order) in [
            ("1::7::5::978300760\n", true, false),
            ("user,movie,rating,order,timestamp\n1,7,5,2,\n", true, true),
            ("user,movie,rating,order\r\n1,7,5,2\r\n", false, true),
            (
                "\"user\",\"movie\",\"rating\",\"order\",\"timestamp\"\n1,7,5,2,\n",
                true,
                true,
            ),
        ] {
            let file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
            std::fs::write(file.path(), text).unwrap();
            let layout = set.layout(file.path()).unwrap();
            let has = (layout.timestamp.is_some(), layout.order.is_some());
            assert_eq!(has, (timestamp, order), "{text}");
            let read = delimited::read(file.path(), &layout).unwrap();
            assert_eq!(read.interactions.len(), 1, "{text}");
        }
    }

    /// If this fails, a study is said to show more or less than it can.
    #[test]
    fn the_number_of_users_is_that_of_the_provider() {
        let users = |id| known(id).and_then(|set| set.users());
        assert_eq!(users(DatasetName::Ml100k), Some(943));
        assert_eq!(users(DatasetName::Ml1m), Some(6040));
        let unknown: Vec<&str> = datasets()
            .iter()
            .filter(|set| set.users().is_none())
            .map(|set| set.name.as_str())
            .collect();
        assert_eq!(unknown, ["amazon-instant-video"]);
    }

    /// If this fails, a data set that scenarios can name is in no list, or what is fetched is not
    /// found afterwards.
    #[test]
    fn every_public_data_set_has_one_entry_with_a_folder_of_its_own() {
        for set in datasets() {
            assert!(![DatasetName::Generated, DatasetName::Delimited].contains(&set.id));
            assert_eq!(known(set.id).map(|found| &found.name), Some(&set.name));
        }
        assert_eq!(datasets().len(), 11);
        assert!(!by_hand().is_empty());
        for set in datasets() {
            assert_eq!(
                set.fetched_file().split('/').next(),
                Some(set.name.as_str())
            );
            assert_eq!(set.fetched_file().split('/').count(), 2);
            assert!(set.archive.url.starts_with("https://"), "{}", set.name);
            assert!(
                set.archive
                    .sha256
                    .as_ref()
                    .is_none_or(|digits| digits.len() == 64),
                "{}",
                set.name
            );
        }
    }
}
