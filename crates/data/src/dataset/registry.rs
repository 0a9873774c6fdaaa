//! Finds the ratings file of a data set that a scenario names, or says where it was looked for and
//! how it can be had.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::given;
use super::public::{KnownDataset, known};
use crate::records::as_given_or_below;
use fedrecsim_core::{Error, Result, shell_word};
use fedrecsim_scenario::{DatasetSpec, DelimitedSpec};

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

/// Finds the ratings file of `spec`.
///
/// Its `path` names the file, or a folder that holds it under its usual name, or ratings in memory. A path is absolute,
/// or relative to the working directory or to one of `data_directories`, tried in this order.
/// Without it the usual places below each of `data_directories` are tried.
///
/// # Errors
/// [`Error::Read`] if there is no such file, with the places that were tried and where the data set
/// can be had; [`Error::Usage`] for a delimited file without a path, and for a generated population.
pub fn locate(spec: &DatasetSpec, data_directories: &[PathBuf]) -> Result<RatingsFile> {
    let (known, path) = (known(spec.name), spec.path.as_deref());
    let places = match path.filter(|path| given::is_given(path)) {
        Some(path) => {
            given::find(path)?;
            vec![path.to_owned()]
        }
        None => places(known, path, data_directories),
    };
    let is_there = |place: &&PathBuf| given::is_given(place) || place.is_file();
    if let Some(found) = places.iter().find(is_there) {
        let layout = match (&spec.columns, known) {
            (Some(layout), _) => layout.clone(),
            (None, Some(set)) => set.layout(found)?,
            (None, None) => {
                return Err(Error::Usage(
                    "a generated population has no ratings file".into(),
                ));
            }
        };
        return Ok(RatingsFile {
            path: found.clone(),
            layout,
            ordered_by_item: known.is_some_and(|set| set.ordered_by_item),
        });
    }
    match path.or_else(|| known.map(|set| Path::new(set.fetched_file()))) {
        Some(wanted) => Err(Error::read(
            wanted,
            missing(&places, known, data_directories),
        )),
        None => Err(Error::Usage(
            "dataset.path must name the ratings file".into(),
        )),
    }
}

/// Returns whether all places where [`locate`] looks for the ratings file of `spec` are empty. A
/// file that is there and cannot be read is not missing, and neither are generated ratings and those in
/// memory.
pub fn is_missing(spec: &DatasetSpec, data_directories: &[PathBuf]) -> bool {
    let (known, path) = (known(spec.name), spec.path.as_deref());
    let is_absent = |place: &PathBuf| matches!(place.try_exists(), Ok(false));
    (path.is_some_and(|path| !given::is_given(path)) || path.is_none() && known.is_some())
        && places(known, path, data_directories).iter().all(is_absent)
}

/// Returns the places to look for a ratings file, in this order.
fn places(
    known: Option<&KnownDataset>,
    path: Option<&Path>,
    data_directories: &[PathBuf],
) -> Vec<PathBuf> {
    let usual_files = known.map_or(&[][..], |set| &set.usual_files);
    match path {
        Some(path) => {
            let bases = as_given_or_below(path, data_directories).into_iter();
            bases.flat_map(|base| within(base, usual_files)).collect()
        }
        None => data_directories
            .iter()
            .flat_map(|folder| usual_files.iter().map(|file| folder.join(file)))
            .collect(),
    }
}

/// Returns `base`, or the usual files in it if it is a folder, and then those that expect it as their
/// folder.
fn within(base: PathBuf, usual_files: &[String]) -> Vec<PathBuf> {
    if !base.is_dir() || usual_files.is_empty() {
        return vec![base];
    }
    let mut places: Vec<PathBuf> = usual_files.iter().map(|file| base.join(file)).collect();
    for (folder, name) in usual_files.iter().filter_map(|file| file.rsplit_once('/')) {
        let place = base.join(name);
        if base.ends_with(folder) && !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// Returns a character of a path, escaped if it commands a terminal.
fn on_one_line(character: char) -> String {
    match character.is_control() {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    }
}

/// Returns what stands at a place and is no file, or why nobody can tell; `None` if nothing is there.
fn kind_of(place: &Path) -> Option<String> {
    match place.metadata() {
        Ok(found) if found.is_dir() => Some("a folder".to_owned()),
        Ok(_) => Some(
            "a pipe or a device, which can be read only once: write it to a file first".to_owned(),
        ),
        Err(reason)
            if matches!(
                reason.kind(),
                ErrorKind::NotFound | ErrorKind::NotADirectory
            ) =>
        {
            None
        }
        Err(reason) => Some(reason.to_string()),
    }
}

/// Returns the place of a path of a scenario: the first for which `is` holds, as given or below one of
/// `data_directories`.
///
/// # Errors
/// [`Error::Read`] if there is none, with the places.
pub fn place_of(
    path: &Path,
    data_directories: &[PathBuf],
    is: impl Fn(&Path) -> bool,
) -> Result<PathBuf> {
    let places = as_given_or_below(path, data_directories);
    let found = places.iter().find(|place| is(place));
    found
        .cloned()
        .ok_or_else(|| Error::read(path, missing(&places, None, data_directories)))
}

/// Returns a message that says where a file was looked for, and how to get it if it is a known data
/// set.
fn missing(
    places: &[PathBuf],
    known: Option<&KnownDataset>,
    data_directories: &[PathBuf],
) -> String {
    let kinds: Vec<Option<String>> = places.iter().map(|place| kind_of(place)).collect();
    let mut reason = match kinds.iter().flatten().next() {
        _ if places.is_empty() => "there is no such file (no data folder to look in)".to_owned(),
        None => "there is no such file; looked for".to_owned(),
        Some(_) => "there is no file that can be read; looked for".to_owned(),
    };
    for (place, kind) in places.iter().zip(&kinds) {
        let kind = kind
            .as_ref()
            .map_or_else(String::new, |kind| format!(" ({kind})"));
        let place: String = place.to_string_lossy().chars().map(on_one_line).collect();
        reason += &format!("\n  {place}{kind}");
    }
    let has_control = |place: &PathBuf| place.to_string_lossy().contains(char::is_control);
    if places.iter().any(has_control) {
        reason += "\nA backslash in double quotes has made a control character of a part of the path: write it in \
                   single quotes, as in 'C:\\new'";
    }
    if let Some(set) = known {
        // A single folder is one that was named, and not the first of those that are usual.
        let folder = match data_directories {
            [folder] => format!(" --data-dir {}", shell_word(&folder.to_string_lossy())),
            _ => String::new(),
        };
        let checksum = set
            .archive
            .sha256
            .as_ref()
            .map_or_else(String::new, |sha256| format!("\n(sha256 {sha256})"));
        reason += &format!(
            "\n{} is not distributed with fedrecsim; its licence: {}.\nFetch it with `fedrecsim data fetch \
             {}{folder}`, or take it from {}{checksum}\nand unpack it in a data folder, or name its place with \
             dataset.path",
            set.title, set.licence, set.name, set.archive.url
        );
    }
    reason
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;
    use fedrecsim_scenario::DatasetName::{self, Delimited, LastFm2k, Ml1m, Ml20m, Ml25m, Ml100k};

    /// Returns the data set of this name, in the file or folder `path` if that is given.
    fn spec(name: DatasetName, path: Option<&Path>) -> DatasetSpec {
        let columns = "separator = ','\nuser = 1\nitem = 2\n";
        DatasetSpec {
            columns: (name == Delimited).then(|| toml::from_str(columns).unwrap()),
            path: path.map(Path::to_owned),
            ..DatasetSpec::named(name)
        }
    }

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
        let found = locate(&spec(Ml100k, None), &folders).unwrap();
        assert_eq!(found.path, second.path().join("ml-100k/u.data"));
    }

    #[test]
    fn a_path_may_name_the_file_or_its_folder_here_or_in_a_data_folder() {
        let data = folder(&["sub/user_artists.dat"]);
        let folders = [data.path().to_owned()];
        let file = data.path().join("sub/user_artists.dat");
        for path in [
            file.as_path(),
            &data.path().join("sub"),
            Path::new("sub"),
            Path::new("sub/user_artists.dat"),
        ] {
            let found = locate(&spec(LastFm2k, Some(path)), &folders).unwrap();
            assert_eq!(found.path, file, "{}", path.display());
            assert!(found.ordered_by_item);
        }
    }

    /// If this fails, `dataset.path = "DATA/ml-20m"` finds nothing, or a file without a folder of
    /// its own is read as a data set that it may not be.
    #[test]
    fn the_folder_of_a_data_set_may_be_named_and_a_file_outside_of_it_is_not_taken() {
        let data = folder(&["ml-20m/ratings.csv", "ratings.csv"]);
        let folders = [data.path().to_owned()];
        let file = data.path().join("ml-20m/ratings.csv");
        for path in [
            None,
            Some(Path::new("ml-20m")),
            Some(&data.path().join("ml-20m")),
            Some(data.path()),
        ] {
            assert_eq!(
                locate(&spec(Ml20m, path), &folders).unwrap().path,
                file,
                "{path:?}"
            );
        }
        for path in [None, Some(Path::new("ml-20m")), Some(data.path())] {
            locate(&spec(Ml25m, path), &folders).unwrap_err();
        }
    }

    /// If this fails, a data set that is here and cannot be read is left out of a study as if it
    /// were not here.
    #[test]
    fn only_what_is_not_there_is_missing() {
        let data = folder(&["ml-1m/ratings.csv"]);
        let folders = [data.path().to_owned()];
        fs::write(
            data.path().join("ml-1m/ratings.csv"),
            b"PK\x03\x04 an archive",
        )
        .unwrap();
        assert!(matches!(
            locate(&spec(Ml1m, None), &folders),
            Err(Error::Read { .. })
        ));
        assert!(!is_missing(&spec(Ml1m, None), &folders));
        assert!(
            is_missing(&spec(Ml100k, None), &folders)
                && is_missing(&spec(Ml1m, Some(Path::new("elsewhere"))), &folders)
        );
        assert!(is_missing(
            &spec(Delimited, Some(Path::new("mine.csv"))),
            &folders
        ));
        // A folder in place of the file, and a file that is not named at all, are mistakes.
        assert!(
            !is_missing(&spec(Delimited, Some(data.path())), &folders)
                && !is_missing(&spec(Delimited, None), &folders)
        );
    }

    #[test]
    fn a_missing_data_set_says_where_it_was_sought_and_where_it_can_be_had() {
        let data = folder(&[]);
        let message = locate(&spec(Ml1m, None), &[data.path().to_owned()])
            .unwrap_err()
            .to_string();
        for part in [
            "cannot read ml-1m/ratings.dat: there is no such file; looked for",
            &*data.path().join("ml-1m/ratings.csv").to_string_lossy(),
            "not distributed with fedrecsim",
            &format!(
                "`fedrecsim data fetch ml-1m --data-dir {}`",
                data.path().display()
            ),
            "https://files.grouplens.org/datasets/movielens/ml-1m.zip",
            "sha256 a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
        ] {
            assert!(message.contains(part), "{part:?} is not in:\n{message}");
        }
        let message = locate(&spec(Ml1m, None), &[]).unwrap_err().to_string();
        assert!(message.contains("no data folder to look in"), "{message}");
        assert!(
            message.contains("`fedrecsim data fetch ml-1m`"),
            "{message}"
        );
    }

    #[test]
    fn a_delimited_file_must_be_named_and_must_be_a_file() {
        let message = locate(&spec(Delimited, None), &[]).unwrap_err().to_string();
        assert_eq!(message, "dataset.path must name the ratings file");
        let data = folder(&[]);
        let message = locate(&spec(Delimited, Some(data.path())), &[])
            .unwrap_err()
            .to_string();
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
            assert_eq!(
                locate(&spec(Ml1m, Some(&path)), &[])
                    .unwrap()
                    .layout
                    .separator
                    .as_deref(),
                Some(separator),
                "{name}"
            );
        }
    }
}
