//! Reads the checksum that a provider offers beside its file, an MD5 or a SHA-256, which counts
//! where this program knows none of its own.

use std::path::Path;

use super::checksum::{Algorithm, Mismatch};
use super::download;
use fedrecsim_core::error::Result;

/// A checksum that a provider offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offered {
    /// How it is computed.
    pub algorithm: Algorithm,
    /// The checksum, in hexadecimal.
    pub digits: String,
}

/// What came of a provider's checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// There is none to ask for, or it is not needed.
    NotAsked,
    /// The file has it.
    Same(Algorithm),
    /// It could not be had, for this reason.
    Missing(String),
}

impl Offered {
    /// Returns the checksum of the file `name` in the text of a checksum file: a line
    /// `MD5 (name) = digits`, or `digits  name`, or nothing but the digits. `None` if there is none
    /// that is an MD5 or a SHA-256.
    pub(crate) fn parse(text: &str, name: &str) -> Option<Self> {
        let of_line = |line: &str| {
            let line = line.trim();
            let digits = match line.split_once(" = ") {
                Some((before, digits)) => {
                    before.ends_with(&format!("({name})")).then_some(digits)?
                }
                None => match line.split_once(char::is_whitespace) {
                    // An asterisk says that the file was read as bytes.
                    Some((digits, of)) => {
                        (of.trim_start().trim_start_matches('*') == name).then_some(digits)?
                    }
                    None => line,
                },
            };
            Some(Self {
                algorithm: Algorithm::of_digits(digits)?,
                digits: digits.to_owned(),
            })
        };
        text.lines().find_map(of_line)
    }

    /// Returns whether the file at `path` has this checksum, and its own one if it has not.
    ///
    /// # Errors
    /// [`Error::Read`](fedrecsim_core::error::Error::Read) if the file cannot be read.
    fn matches(&self, path: &Path) -> Result<Result<(), String>> {
        let found = self.algorithm.of_file(path)?;
        Ok(if found.eq_ignore_ascii_case(&self.digits) {
            Ok(())
        } else {
            Err(found)
        })
    }
}

/// Compares the file at `path`, which its provider calls `name`, with the checksum at the address
/// `url`.
///
/// A checksum that cannot be had is no error: whoever has the file has it perhaps from another
/// machine, and no network.
///
/// # Errors
/// [`Error::Read`](fedrecsim_core::error::Error::Read) if the file cannot be read.
pub fn compare(path: &Path, name: &str, url: &str) -> Result<Result<Outcome, Mismatch>> {
    let offered = match download::text(url) {
        Ok(text) => Offered::parse(&text, name)
            .ok_or_else(|| format!("{url} has no MD5 or SHA-256 of {name}")),
        Err(error) => Err(error.to_string()),
    };
    let offered = match offered {
        Ok(offered) => offered,
        Err(reason) => return Ok(Ok(Outcome::Missing(reason))),
    };
    let algorithm = offered.algorithm;
    Ok(match offered.matches(path)? {
        Ok(()) => Ok(Outcome::Same(algorithm)),
        Err(found) => {
            let whose = format!("the one that its provider offers at {url}");
            Err(Mismatch {
                algorithm,
                found,
                expected: offered.digits,
                whose,
            })
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
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
        for (line, algorithm, digits) in [
            (format!("MD5 (ml.zip) = {md5}\n"), Algorithm::Md5, &md5),
            (
                format!("SHA256 (ml.zip) = {sha256}"),
                Algorithm::Sha256,
                &sha256,
            ),
            (format!("{md5}  ml.zip\r\n"), Algorithm::Md5, &md5),
            (format!("{sha256} *ml.zip\n"), Algorithm::Sha256, &sha256),
            (format!("{md5}\n"), Algorithm::Md5, &md5),
        ] {
            let expected = Offered {
                algorithm,
                digits: digits.clone(),
            };
            assert_eq!(
                Offered::parse(&format!("{others}{line}"), "ml.zip"),
                Some(expected),
                "{line}"
            );
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
            assert_eq!(Offered::parse(text, "ml.zip"), None, "{text}");
        }
    }
}
