//! Makes the folder of a data set from what its provider offers: unpacks, decompresses, or takes
//! the ratings out of reviews.
//!
//! The file was checked, but the checksum may be that of a first download. So an archive is taken
//! for one of a stranger: no name in it may lead out of the folder, and what comes out of it has a
//! limit.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Component, Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use serde::Deserialize;
use zip::ZipArchive;

use crate::{Error, Result};
use fedrecsim_data::dataset::delimited::check_first_row;
use fedrecsim_data::dataset::public::{Content, KnownDataset};

/// The most that may come out of an archive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// In bytes.
    pub bytes: u64,
    /// In files.
    pub files: usize,
}

/// The limits of the public data sets. The largest archive that was unpacked had 1.2 GB in 10 files, and
/// the most files were 23; a table of ratings of Amazon may have about 2 GB.
pub(crate) const LIMITS: Limits = Limits {
    bytes: 4 << 30,
    files: 1000,
};

/// The most bytes of a review. A few kilobytes of an archive may hold one of gigabytes.
const LONGEST_REVIEW: u64 = 1 << 24;

/// A review, as far as it is a rating.
#[derive(Deserialize)]
struct Review {
    #[serde(rename = "reviewerID")]
    user: String,
    #[serde(rename = "asin")]
    item: String,
    #[serde(rename = "overall")]
    rating: f64,
    #[serde(rename = "unixReviewTime")]
    time: i64,
}

/// Makes the new folder `folder` from the file at `archive`. The ratings file in it is called
/// `ratings`. A file of ratings that does not begin with one of `set` is refused.
///
/// If that fails, no folder is left.
///
/// # Errors
/// [`Error::Read`] or [`Error::MalformedLine`] if the file is not what it should be, and
/// [`Error::Write`] if the folder cannot be written.
pub(crate) fn unpack(
    archive: &Path,
    (content, set): (Content, &KnownDataset),
    folder: &Path,
    ratings: &str,
    limits: Limits,
) -> Result<()> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let partial = folder.with_file_name(format!(".fedrecsim-{name}.unpacked"));
    remove(&partial)?;
    fs::create_dir_all(&partial).map_err(|reason| Error::write(&partial, reason))?;
    let made = match content {
        Content::Zip => unzip(archive, &partial, ratings, limits),
        Content::Ratings => {
            // The page of a proxy comes as a file like any other.
            let checked = set
                .layout(archive)
                .and_then(|layout| check_first_row(archive, &layout));
            let source = checked.and_then(|()| open(archive));
            source
                .and_then(|source| copy(source, archive, &partial.join(ratings), limits.bytes))
                .map(drop)
        }
        Content::Reviews => take_ratings(archive, &partial.join(ratings), limits.bytes),
    };
    let made = made
        .and_then(|()| fs::rename(&partial, folder).map_err(|reason| Error::write(folder, reason)));
    if made.is_err() {
        // The first error is the one to tell.
        let _ = remove(&partial);
    }
    made
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|reason| Error::read(path, reason))
}

/// Removes a folder that a process may have left that was killed.
fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(reason) if reason.kind() != io::ErrorKind::NotFound => {
            Err(Error::write(folder, reason))
        }
        _ => Ok(()),
    }
}

/// Writes what `source` holds, which is part of `archive`, to a new file, and returns its length.
fn copy(source: impl Read, archive: &Path, path: &Path, most: u64) -> Result<u64> {
    let unwritten = |reason| Error::write(path, reason);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(unwritten)?;
    }
    let mut file = File::create_new(path).map_err(unwritten)?;
    let mut source = Limited { source, left: most };
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = source
            .read(&mut buffer)
            .map_err(|reason| Error::read(archive, reason))?;
        if read == 0 {
            return Ok(most - source.left);
        }
        file.write_all(&buffer[..read]).map_err(unwritten)?;
    }
}

const TOO_MUCH: &str = "it holds more than any data set, so it is not the expected file";

/// The contents of an archive. To read more than is allowed is an error, and not the end.
struct Limited<R> {
    source: R,
    /// The bytes that may still come.
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.left = self
            .left
            .checked_sub(read as u64)
            .ok_or_else(|| io::Error::other(TOO_MUCH))?;
        Ok(read)
    }
}

/// Unpacks the folder of a zip archive that holds `ratings`.
fn unzip(archive: &Path, folder: &Path, ratings: &str, limits: Limits) -> Result<()> {
    let unreadable = |reason: zip::result::ZipError| Error::read(archive, reason);
    let mut zip = ZipArchive::new(BufReader::new(open(archive)?)).map_err(unreadable)?;
    if zip.len() > limits.files {
        return Err(Error::read(archive, TOO_MUCH));
    }
    let mut paths = Vec::with_capacity(zip.len());
    for index in 0..zip.len() {
        let entry = zip.by_index(index).map_err(unreadable)?;
        let Some(path) = safe(entry.name()).filter(|_| !entry.is_symlink()) else {
            let reason = format!(
                "{:?} in it would be written outside of its folder",
                entry.name()
            );
            return Err(Error::read(archive, reason));
        };
        paths.push((path, entry.is_dir()));
    }
    let holds_ratings = |path: &&PathBuf| path.file_name().is_some_and(|name| name == ratings);
    let places = paths
        .iter()
        .filter(|(_, is_dir)| !is_dir)
        .map(|(path, _)| path)
        .filter(holds_ratings);
    let Some(place) = places.min_by_key(|path| path.components().count()) else {
        return Err(Error::read(archive, format!("there is no {ratings} in it")));
    };
    let top = place.parent().unwrap_or(Path::new("")).to_owned();
    let mut left = limits.bytes;
    for (index, (path, is_dir)) in paths.iter().enumerate() {
        let Ok(below) = path.strip_prefix(&top) else {
            continue;
        };
        if !is_dir {
            let entry = zip.by_index(index).map_err(unreadable)?;
            left -= copy(entry, archive, &folder.join(below), left)?;
        }
    }
    Ok(())
}

/// Returns the path of a name in an archive; `None` if it could lead out of the folder, here or on
/// another system.
fn safe(name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    let is_below = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    (is_below && !name.is_empty() && !name.contains(['\\', ':', '\0'])).then(|| path.to_owned())
}

/// Writes the ratings of compressed reviews as a csv with a header.
fn take_ratings(archive: &Path, path: &Path, most: u64) -> Result<()> {
    let unwritten = |reason: csv::Error| Error::write(path, reason.into());
    let mut text = BufReader::new(Limited {
        source: MultiGzDecoder::new(BufReader::new(open(archive)?)),
        left: most,
    });
    let mut line = Vec::new();
    let file = File::create_new(path).map_err(|reason| Error::write(path, reason))?;
    let mut csv = csv::Writer::from_writer(BufWriter::new(file));
    csv.write_record(["user", "item", "rating", "timestamp"])
        .map_err(unwritten)?;
    for number in 1.. {
        line.clear();
        let mut limited = text.by_ref().take(LONGEST_REVIEW + 1);
        let read = limited.read_until(b'\n', &mut line);
        let unreadable =
            |reason: &dyn Display| Error::read(archive, format!("review {number}: {reason}"));
        if read.map_err(|reason| unreadable(&reason))? == 0 {
            break;
        }
        if line.len() as u64 > LONGEST_REVIEW {
            return Err(unreadable(
                &"it is longer than any review, of which one stands in each line",
            ));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let review: Review = serde_json::from_slice(&line).map_err(|reason| unreadable(&reason))?;
        let row = [
            review.user,
            review.item,
            review.rating.to_string(),
            review.time.to_string(),
        ];
        csv.write_record(row).map_err(unwritten)?;
    }
    csv.flush().map_err(|reason| Error::write(path, reason))
}
