//! Computes checksums of a provider's file, and compares its SHA-256 with the known one, or else
//! with that of the first download.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use md5::{Digest, Md5};
use ring::digest::{Context, SHA256};

use fedrecsim_core::error::{Error, Result};

/// The file in a data folder with the checksums of first downloads, in the format of `sha256sum`.
pub(crate) const RECORDS: &str = "SHA256SUMS";

/// How a checksum is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// MD5. It tells damage from what the provider has, and not a forgery.
    Md5,
    /// SHA-256.
    Sha256,
}

/// What a checksum was compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// With the one that this program knows.
    Known,
    /// With the one of the first download.
    SameAsFirst,
    /// With nothing: this is the first download.
    First,
}

/// A checksum that is not the expected one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// How both are computed.
    pub algorithm: Algorithm,
    /// That of the file.
    pub found: String,
    /// The expected one.
    pub expected: String,
    /// Whose the expected one is, in words.
    pub whose: String,
}

impl Algorithm {
    /// Returns the name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Sha256 => "SHA-256",
        }
    }

    /// Returns the algorithm of a checksum with these digits; `None` if it is none of the two.
    pub(crate) fn of_digits(digits: &str) -> Option<Self> {
        let is_hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        match digits.len() {
            32 if is_hexadecimal => Some(Self::Md5),
            64 if is_hexadecimal => Some(Self::Sha256),
            _ => None,
        }
    }

    /// Returns the checksum of a file, in hexadecimal.
    ///
    /// # Errors
    /// [`Error::Read`] if the file cannot be read.
    pub(crate) fn of_file(self, path: &Path) -> Result<String> {
        match self {
            Self::Md5 => md5_of(path),
            Self::Sha256 => sha256_of(path),
        }
    }
}

/// Returns the SHA-256 of a file, in hexadecimal.
///
/// # Errors
/// [`Error::Read`] if the file cannot be read.
pub(crate) fn sha256_of(path: &Path) -> Result<String> {
    let mut context = Context::new(&SHA256);
    read_through(path, |bytes| context.update(bytes))?;
    Ok(hexadecimal(context.finish().as_ref()))
}

/// Returns the MD5 of a file, in hexadecimal.
///
/// # Errors
/// [`Error::Read`] if the file cannot be read.
pub(crate) fn md5_of(path: &Path) -> Result<String> {
    let mut context = Md5::new();
    read_through(path, |bytes| context.update(bytes))?;
    Ok(hexadecimal(&context.finalize()))
}

/// Gives all bytes of a file to `take`, piece by piece.
fn read_through(path: &Path, mut take: impl FnMut(&[u8])) -> Result<()> {
    let unreadable = |reason: std::io::Error| Error::read(path, reason);
    let mut file = File::open(path).map_err(unreadable)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).map_err(unreadable)? {
            0 => return Ok(()),
            length => take(&buffer[..length]),
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares the SHA-256 `found` of the file `name` with the known one or, where there is none, with
/// the record in `folder`.
///
/// # Errors
/// [`Error::Read`] if there are records that cannot be read.
pub fn compare(
    found: &str,
    known: Option<&str>,
    name: &str,
    folder: &Path,
) -> Result<Result<Verdict, Mismatch>> {
    let (expected, verdict, whose) = match known {
        Some(known) => (
            known.to_owned(),
            Verdict::Known,
            "the one that fedrecsim knows".to_owned(),
        ),
        None => match recorded(name, folder)? {
            Some(first) => {
                let records = folder.join(RECORDS);
                let whose = format!(
                    "that of the first download, which is in {}",
                    records.display()
                );
                (first, Verdict::SameAsFirst, whose)
            }
            None => return Ok(Ok(Verdict::First)),
        },
    };
    if found.eq_ignore_ascii_case(&expected) {
        return Ok(Ok(verdict));
    }
    Ok(Err(Mismatch {
        algorithm: Algorithm::Sha256,
        found: found.to_owned(),
        expected,
        whose,
    }))
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
pub(crate) fn record(checksum: &str, name: &str, folder: &Path) -> Result<()> {
    let path = folder.join(RECORDS);
    let unwritten = |reason: std::io::Error| Error::write(&path, reason);
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(unwritten)?;
    file.write_all(format!("{checksum}  {name}\n").as_bytes())
        .map_err(unwritten)
}
