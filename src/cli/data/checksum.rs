//! Checks a file of a provider against the SHA-256 that is known of it, or else against that of the first download.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use ring::digest::{Context, SHA256};

use crate::error::{Error, Result};

/// The file in a data folder with the checksums of first downloads, in the format of `sha256sum`.
pub const RECORDS: &str = "SHA256SUMS";

/// What a checksum was compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// With the one that this program knows.
    Known,
    /// With the one of the first download.
    SameAsFirst,
    /// With nothing: this is the first download.
    First,
}

/// A checksum that is not the expected one.
#[derive(Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The expected one.
    pub expected: String,
    /// Whether it is that of the first download, which the records hold, and not one that this program knows.
    pub is_recorded: bool,
}

/// Returns the SHA-256 of a file, in hexadecimal.
///
/// # Errors
/// [`Error::Read`] if the file cannot be read.
pub fn sha256_of(path: &Path) -> Result<String> {
    let unreadable = |reason: std::io::Error| Error::read(path, reason);
    let mut file = File::open(path).map_err(unreadable)?;
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).map_err(unreadable)? {
            0 => break,
            length => context.update(&buffer[..length]),
        }
    }
    Ok(context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compares the checksum `found` of the file `name` with the known one or, where there is none, with the record in
/// `folder`.
///
/// # Errors
/// [`Error::Read`] if there are records that cannot be read.
pub fn compare(found: &str, known: Option<&str>, name: &str, folder: &Path) -> Result<Result<Verdict, Mismatch>> {
    let (expected, verdict) = match known {
        Some(known) => (known.to_owned(), Verdict::Known),
        None => match recorded(name, folder)? {
            Some(first) => (first, Verdict::SameAsFirst),
            None => return Ok(Ok(Verdict::First)),
        },
    };
    let is_same = found.eq_ignore_ascii_case(&expected);
    let is_recorded = verdict == Verdict::SameAsFirst;
    Ok(if is_same { Ok(verdict) } else { Err(Mismatch { expected, is_recorded }) })
}

/// Returns the checksum of the file `name` in the records of `folder`, if there is one.
fn recorded(name: &str, folder: &Path) -> Result<Option<String>> {
    let path = folder.join(RECORDS);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(reason) if reason.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(reason) => return Err(Error::read(path, reason)),
    };
    let of_line = |line: &str| {
        let (checksum, of) = line.split_once("  ")?;
        (of == name).then(|| checksum.to_owned())
    };
    Ok(text.lines().find_map(of_line))
}

/// Adds the checksum of the file `name` to the records in `folder`.
///
/// # Errors
/// [`Error::Write`] if they cannot be written.
pub fn record(checksum: &str, name: &str, folder: &Path) -> Result<()> {
    let path = folder.join(RECORDS);
    let unwritten = |reason: std::io::Error| Error::write(&path, reason);
    let mut file = File::options().create(true).append(true).open(&path).map_err(unwritten)?;
    file.write_all(format!("{checksum}  {name}\n").as_bytes()).map_err(unwritten)
}
