//! Knows the data sets that a scenario can name: what their files are called, how they are laid out, and where they can
//! be had. None of them may be redistributed, so none is part of this project.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use super::compressed;
use crate::error::{Error, Result};
use crate::scenario::{ColumnRef, DelimitedSpec, SourceSpec};

/// A ratings file that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct RatingsFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Layout of the file.
    pub layout: DelimitedSpec,
    /// Whether an item's first appearance stands for the time of its ratings
    /// ([`Ratings::order_by_item_number`](super::ratings::Ratings::order_by_item_number)).
    pub ordered_by_item: bool,
}

/// A known public data set.
#[derive(Debug)]
pub struct KnownDataset {
    /// The data set's name in prose.
    pub title: &'static str,
    /// Usual places of the ratings file below a data folder, tried in this order.
    pub usual_files: &'static [&'static str],
    /// Address of the official archive.
    pub archive_url: &'static str,
    /// SHA-256 of the archive, in hexadecimal.
    pub archive_sha256: &'static str,
    /// What the licence allows, in one line.
    pub licence: &'static str,
    layout: fn(&Path) -> Result<DelimitedSpec>,
    ordered_by_item: bool,
}

const MOVIELENS_LICENCE: &str = "free for research, not for redistribution or commercial use (see its README)";

/// The lowest and the highest rating of MovieLens 100K and 1M.
const STARS: [f64; 2] = [1.0, 5.0];

static ML_100K: KnownDataset = KnownDataset {
    title: "MovieLens 100K",
    usual_files: &["ml-100k/u.data", "u.data"],
    archive_url: "https://files.grouplens.org/datasets/movielens/ml-100k.zip",
    archive_sha256: "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
    licence: MOVIELENS_LICENCE,
    layout: |_| Ok(by_position("\t", false, Some(4))),
    ordered_by_item: false,
};

static ML_1M: KnownDataset = KnownDataset {
    title: "MovieLens 1M",
    usual_files: &["ml-1m/ratings.dat", "ml-1m/ratings.csv", "ratings.dat", "ratings.csv"],
    archive_url: "https://files.grouplens.org/datasets/movielens/ml-1m.zip",
    archive_sha256: "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
    licence: MOVIELENS_LICENCE,
    layout: ml_1m_layout,
    ordered_by_item: false,
};

static LASTFM_2K: KnownDataset = KnownDataset {
    title: "LastFM-2K (HetRec 2011)",
    usual_files: &["lastfm-2k/user_artists.dat", "hetrec2011-lastfm-2k/user_artists.dat", "user_artists.dat"],
    archive_url: "https://files.grouplens.org/datasets/hetrec2011/hetrec2011-lastfm-2k.zip",
    archive_sha256: "6738f48195667ff03caaab4d32ca9a3133d8cc026b7c3cdaf6ce1010e913c59c",
    licence: "free for non-commercial research, not for redistribution (see its readme)",
    // The third column counts plays, which are a weight and not a rating.
    layout: |_| {
        let plays = Some(ColumnRef::Position(3));
        Ok(DelimitedSpec { rating: None, rating_range: None, weight: plays, ..by_position("\t", true, None) })
    },
    ordered_by_item: true,
};

/// Returns the entry of a source that is a known public data set.
pub fn known(source: &SourceSpec) -> Option<&'static KnownDataset> {
    match source {
        SourceSpec::Ml100k => Some(&ML_100K),
        SourceSpec::Ml1m => Some(&ML_1M),
        SourceSpec::LastFm2k => Some(&LASTFM_2K),
        SourceSpec::Generated(_) | SourceSpec::Delimited(_) => None,
    }
}

/// Returns a layout with user, item and a rating of one to five stars in the first three columns.
fn by_position(separator: &str, header: bool, timestamp: Option<u32>) -> DelimitedSpec {
    DelimitedSpec {
        separator: separator.into(),
        header,
        user: ColumnRef::Position(1),
        item: ColumnRef::Position(2),
        rating: Some(ColumnRef::Position(3)),
        rating_range: Some(STARS),
        label: None,
        weight: None,
        timestamp: timestamp.map(ColumnRef::Position),
    }
}

/// Returns the layout of `ratings.dat` as published, or of a `ratings.csv` of the same rows, told apart by the first
/// line.
///
/// The csv's `timestamp` column is filled in for some users only; its `order` column is chronological for all.
fn ml_1m_layout(path: &Path) -> Result<DelimitedSpec> {
    let mut first_line = Vec::new();
    let read = compressed::open(path)?.read_until(b'\n', &mut first_line);
    read.map_err(|error| Error::read(path, error))?;
    let is_dat = path.extension().is_some_and(|extension| extension == "dat");
    if is_dat || first_line.windows(2).any(|pair| pair == b"::") {
        return Ok(by_position("::", false, Some(4)));
    }
    let name = |column: &str| ColumnRef::Name(column.into());
    Ok(DelimitedSpec {
        separator: ",".into(),
        header: true,
        user: name("user"),
        item: name("movie"),
        rating: Some(name("rating")),
        rating_range: Some(STARS),
        label: None,
        weight: None,
        timestamp: Some(name("order")),
    })
}

/// Finds the ratings file of `source`.
///
/// `path` (absolute, or relative to the working directory or to one of `data_directories`, tried in this
/// order) names the file or a folder that holds it under its usual name; without it the usual places below
/// each of `data_directories` are tried.
///
/// # Errors
/// [`Error::Read`] if there is no such file, with the places that were tried and where the data set can be
/// had; [`Error::Usage`] if `source` is a delimited file without a path, or is generated.
pub fn locate(source: &SourceSpec, path: Option<&Path>, data_directories: &[PathBuf]) -> Result<RatingsFile> {
    let known = known(source);
    let usual_files = known.map_or(&[][..], |set| set.usual_files);
    let places: Vec<PathBuf> = match path {
        Some(path) if path.is_absolute() => within(path.to_owned(), usual_files),
        Some(path) => {
            // If `path` is absolute, joining it discards the folder.
            let bases = std::iter::once(path.to_owned()).chain(data_directories.iter().map(|folder| folder.join(path)));
            bases.flat_map(|base| within(base, usual_files)).collect()
        }
        None => data_directories.iter().flat_map(|folder| usual_files.iter().map(|file| folder.join(file))).collect(),
    };
    if let Some(found) = places.iter().find(|place| place.is_file()) {
        let (layout, ordered_by_item) = match (source, known) {
            (SourceSpec::Delimited(layout), _) => (layout.clone(), false),
            (_, Some(set)) => ((set.layout)(found)?, set.ordered_by_item),
            (_, None) => return Err(Error::Usage("a generated population has no ratings file".into())),
        };
        return Ok(RatingsFile { path: found.clone(), layout, ordered_by_item });
    }
    match path.or_else(|| usual_files.first().map(Path::new)) {
        Some(wanted) => Err(Error::read(wanted, missing(&places, known))),
        None => Err(Error::Usage("dataset.path must name the ratings file".into())),
    }
}

/// Returns `base` itself, or, if it is a folder, the usual files in it.
fn within(base: PathBuf, usual_files: &[&str]) -> Vec<PathBuf> {
    if base.is_dir() && !usual_files.is_empty() {
        usual_files.iter().map(|file| base.join(file)).collect()
    } else {
        vec![base]
    }
}

/// Returns a message that says where a file was looked for, and where it can be had.
fn missing(places: &[PathBuf], known: Option<&KnownDataset>) -> String {
    let mut reason = String::from("there is no such file");
    if places.is_empty() {
        reason += " (no data folder to look in)";
    } else {
        reason += "; looked for";
        for place in places {
            reason += &format!("\n  {}{}", place.display(), if place.is_dir() { " (a folder)" } else { "" });
        }
    }
    if let Some(set) = known {
        reason += &format!(
            "\n{} is not distributed with fedrecsim; its licence: {}.\nGet it from {}\n(sha256 {})\nand unpack it in \
             a data folder, or name its place with dataset.path",
            set.title, set.licence, set.archive_url, set.archive_sha256
        );
    }
    reason
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;

    /// Makes a data folder with these (empty) files.
    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        folder
    }

    #[test]
    fn the_usual_places_are_tried_in_every_data_folder() {
        let (first, second) = (folder(&[]), folder(&["ml-100k/u.data"]));
        let folders = [first.path().to_owned(), second.path().to_owned()];
        let found = locate(&SourceSpec::Ml100k, None, &folders).unwrap();
        assert_eq!(found.path, second.path().join("ml-100k/u.data"));
    }

    #[test]
    fn a_path_may_name_the_file_or_its_folder_here_or_in_a_data_folder() {
        let data = folder(&["sub/user_artists.dat"]);
        let folders = [data.path().to_owned()];
        let file = data.path().join("sub/user_artists.dat");
        for path in [file.as_path(), &data.path().join("sub"), Path::new("sub"), Path::new("sub/user_artists.dat")] {
            let found = locate(&SourceSpec::LastFm2k, Some(path), &folders).unwrap();
            assert_eq!(found.path, file, "{}", path.display());
            assert!(found.ordered_by_item);
        }
    }

    #[test]
    fn a_missing_data_set_says_where_it_was_sought_and_where_it_can_be_had() {
        let data = folder(&[]);
        let message = locate(&SourceSpec::Ml1m, None, &[data.path().to_owned()]).unwrap_err().to_string();
        for part in [
            "cannot read ml-1m/ratings.dat: there is no such file; looked for",
            &*data.path().join("ml-1m/ratings.csv").to_string_lossy(),
            "not distributed with fedrecsim",
            "https://files.grouplens.org/datasets/movielens/ml-1m.zip",
            "sha256 a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
        ] {
            assert!(message.contains(part), "{part:?} is not in:\n{message}");
        }
        let message = locate(&SourceSpec::Ml1m, None, &[]).unwrap_err().to_string();
        assert!(message.contains("no data folder to look in"), "{message}");
    }

    #[test]
    fn a_delimited_file_must_be_named_and_must_be_a_file() {
        let layout = SourceSpec::Delimited(by_position(",", false, None));
        let message = locate(&layout, None, &[]).unwrap_err().to_string();
        assert_eq!(message, "dataset.path must name the ratings file");
        let data = folder(&[]);
        let message = locate(&layout, Some(data.path()), &[]).unwrap_err().to_string();
        assert!(message.ends_with("(a folder)"), "{message}");
    }

    #[test]
    fn ml_1m_is_told_apart_by_name_and_first_line() {
        let data = folder(&[]);
        for (name, content, separator) in [
            ("ratings.csv", "user,movie,rating,order,timestamp\n", ","),
            ("ratings.dat", "1::2::3::4\n", "::"),
            ("ratings.txt", "1::2::3::4\n", "::"),
            ("empty.dat", "", "::"),
        ] {
            let path = data.path().join(name);
            fs::write(&path, content).unwrap();
            assert_eq!(locate(&SourceSpec::Ml1m, Some(&path), &[]).unwrap().layout.separator, separator, "{name}");
        }
    }
}
