//! Checks a provider's file: against the SHA-256 that this program knows, or else against the
//! checksum that the provider offers at present and the SHA-256 of the first download.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use md5::{Digest, Md5};
use ring::digest::{Context, SHA256};

use super::download;
use crate::{Error, Result};
use fedrecsim_data::dataset::public::Archive;

/// The file in a data folder with the checksums of first downloads, in the format of `sha256sum`.
pub(crate) const RECORDS: &str = "SHA256SUMS";

/// The origin of the checksums that a file was compared with, in words.
pub(crate) struct Checked {
    words: String,
    /// The line for the records, if this is the first download.
    first: Option<String>,
    records: PathBuf,
}

impl Checked {
    /// Records the SHA-256 of a first download, and says what was compared.
    ///
    /// # Errors
    /// [`Error::Write`] if it cannot be recorded.
    pub(crate) fn record(self) -> Result<String> {
        if let Some(line) = self.first {
            let file = File::options()
                .create(true)
                .append(true)
                .open(&self.records);
            let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
            written.map_err(|reason| Error::write(&self.records, reason))?;
        }
        Ok(self.words)
    }
}

/// Checks `file`, whose provider offers it as `archive`. A provider that has another version by now
/// agrees with that version; the one that was used until then is not replaced by it unnoticed.
///
/// # Errors
/// [`Error::Read`] if it has another checksum than it should have.
pub(crate) fn check(file: &Path, archive: &Archive, folder: &Path) -> Result<Checked> {
    let (name, records) = (archive.file_name(), folder.join(RECORDS));
    let sha256 = sha256_of(file)?;
    if let Some(known) = &archive.sha256 {
        let whose = "the one that fedrecsim knows";
        demand(file, "SHA-256", &sha256, known, whose)?;
        return Ok(Checked {
            words: format!("its SHA-256 is {whose}"),
            first: None,
            records,
        });
    }
    let url = archive.checksum_url.as_deref();
    let offered = url.map(|url| check_offered(file, name, url)).transpose()?;
    let shown = records.display();
    let kept = format!("its SHA-256, {sha256}, is kept in {shown} for the next time");
    let recorded = recorded(name, &records)?;
    let words = match (offered, &recorded) {
        (Some(Ok(same)), Some(_)) => same,
        (Some(Ok(same)), None) => format!("{same}, and {kept}"),
        (offered, recorded) => {
            let words = match recorded {
                Some(_) => {
                    format!("its SHA-256 is that of the first download, which is in {shown}")
                }
                None => format!(
                    "fedrecsim knows no SHA-256 for it, so the file is accepted unchecked, and {kept}"
                ),
            };
            match offered {
                Some(Err(reason)) => {
                    format!("its provider's checksum cannot be fetched ({reason}); {words}")
                }
                _ => words,
            }
        }
    };
    if let Some(first) = &recorded {
        let whose = format!("that of the first download, which is in {shown}");
        demand(file, "SHA-256", &sha256, first, &whose)?;
    }
    Ok(Checked {
        words,
        first: recorded.is_none().then(|| format!("{sha256}  {name}\n")),
        records,
    })
}

/// Compares the file, which its provider calls `name`, with the checksum at the address `url`, and
/// says that it has it. Without network there is no checksum to compare. That is no error, as
/// the file may have been copied from another machine.
fn check_offered(
    file: &Path,
    name: &str,
    url: &str,
) -> Result<std::result::Result<String, String>> {
    let text = match download::text(url) {
        Ok(text) => text,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let Some(expected) = offered(&text, name) else {
        return Ok(Err(format!("{url} has no MD5 or SHA-256 of {name}")));
    };
    let (algorithm, found) = match expected.len() {
        MD5_DIGITS => ("MD5", md5_of(file)?),
        _ => ("SHA-256", sha256_of(file)?),
    };
    let whose = format!("the one that its provider offers at {url}");
    demand(file, algorithm, &found, expected, &whose)?;
    Ok(Ok(format!("its {algorithm} is {whose}")))
}

/// Refuses a file with another checksum than the expected one.
fn demand(file: &Path, algorithm: &str, found: &str, expected: &str, whose: &str) -> Result<()> {
    if found.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    let reason = format!("its {algorithm} is {found}, and not {expected}, {whose}");
    Err(Error::read(file, reason))
}

const MD5_DIGITS: usize = 32;
const SHA256_DIGITS: usize = 64;

/// Returns the checksum of the file `name` in the text of a checksum file: a line
/// `MD5 (name) = digits`, or `digits  name`, or nothing but the digits. `None` if there is none that
/// is an MD5 or a SHA-256.
pub(crate) fn offered<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let of_line = |line: &'t str| match line.split_once(" = ") {
        Some((before, digits)) => before.ends_with(&format!("({name})")).then_some(digits),
        None => match line.split_once(char::is_whitespace) {
            // An asterisk says that the file was read as bytes.
            Some((digits, of)) => {
                (of.trim_start().trim_start_matches('*') == name).then_some(digits)
            }
            None => Some(line),
        },
    };
    let is_checksum = |digits: &&str| {
        [MD5_DIGITS, SHA256_DIGITS].contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    text.lines()
        .filter_map(|line| of_line(line.trim()))
        .find(is_checksum)
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

/// Returns the MD5 of a file, in hexadecimal. It tells damage from what the provider has, and not a
/// forgery.
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

/// Returns the checksum of the file `name` in the records, if there is one.
fn recorded(name: &str, records: &Path) -> Result<Option<String>> {
    let text = match std::fs::read_to_string(records) {
        Ok(text) => text,
        Err(reason) if reason.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(reason) => return Err(Error::read(records, reason)),
    };
    let of_line = |line: &str| {
        let (checksum, of) = line.split_once("  ")?;
        (of == name).then(|| checksum.to_owned())
    };
    Ok(text.lines().find_map(of_line))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a provider's checksum is not found in its file, or that of another file is
    /// taken for it.
    #[test]
    fn checksums_are_read_in_the_usual_forms() {
        let (md5, sha256) = ("0123456789abcdef".repeat(2), "0123456789ABCDEF".repeat(4));
        let others = format!(
            "MD5 (a-ml.zip) = {}\n{}  ml.zip.txt\n",
            "0".repeat(32),
            "1".repeat(32)
        );
        for (line, digits) in [
            (format!("MD5 (ml.zip) = {md5}\n"), &md5),
            (format!("SHA256 (ml.zip) = {sha256}"), &sha256),
            (format!("{md5}  ml.zip\r\n"), &md5),
            (format!("{sha256} *ml.zip\n"), &sha256),
            (format!("{md5}\n"), &md5),
        ] {
            let text = format!("{others}{line}");
            assert_eq!(offered(&text, "ml.zip"), Some(digits.as_str()), "{line}");
        }
        let (short, odd) = ("0".repeat(40), "g".repeat(32));
        for text in [
            others.as_str(),
            "",
            "<html>Please log in</html>",
            &short,
            &odd,
            &format!("{odd}  ml.zip"),
        ] {
            assert_eq!(offered(text, "ml.zip"), None, "{text}");
        }
    }
}
