//! Reads the lines and fields of delimited text.
//!
//! Fields stand between separators. A field may be quoted as in RFC 4180 (`"a,b"`, `"say ""a"""`),
//! but never extends beyond the end of a line. CRLF, blank lines and a UTF-8 byte-order mark are
//! accepted.
//!
//! It reads ratings and traces. The csv crate does not: its separators are single bytes, and the
//! line that it reports for a record is wrong after CRLF or a blank line.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use csv::{ByteRecord, Position};

use fedrecsim_core::{Error, Result};

/// The records of a text, without blank lines.
pub(crate) struct Records<'a> {
    path: &'a Path,
    separator: &'a [u8],
    text: Box<dyn BufRead + 'a>,
    /// The number of the current line, from 1, and below its bytes.
    number: u64,
    line: Vec<u8>,
}

impl<'a> Records<'a> {
    /// Starts with the first line of `text`; faults are reported under `path`.
    ///
    /// # Errors
    /// [`Error::Read`] if it cannot be read, [`Error::Usage`] if `separator` is empty.
    pub(crate) fn new(
        mut text: Box<dyn BufRead + 'a>,
        path: &'a Path,
        separator: &'a str,
    ) -> Result<Self> {
        const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
        if separator.is_empty() {
            return Err(Error::Usage(
                "the separator of a delimited file must not be empty".into(),
            ));
        }
        if text
            .fill_buf()
            .map_err(|error| Error::read(path, error))?
            .starts_with(BYTE_ORDER_MARK)
        {
            text.consume(BYTE_ORDER_MARK.len());
        }
        Ok(Self {
            path,
            separator: separator.as_bytes(),
            text,
            number: 0,
            line: Vec::new(),
        })
    }

    /// Reads the next record into `record`, with its line as its position, and returns `false` at
    /// the end of the file.
    pub(crate) fn read(&mut self, record: &mut ByteRecord) -> Result<bool> {
        loop {
            self.line.clear();
            self.number += 1;
            let length = self
                .text
                .read_until(b'\n', &mut self.line)
                .map_err(|error| Error::read(self.path, error))?;
            if length == 0 {
                return Ok(false);
            }
            let end = self
                .line
                .iter()
                .rposition(|byte| !b"\r\n".contains(byte))
                .map_or(0, |last| last + 1);
            if end == 0 {
                continue;
            }
            record.clear();
            split_fields(&self.line[..end], self.separator, record);
            let mut position = Position::new();
            position.set_line(self.number);
            record.set_position(Some(position));
            return Ok(true);
        }
    }
}

/// Returns the places that a path of a scenario may mean: as given, then, if it is relative, below
/// each of `data_directories`.
pub(crate) fn as_given_or_below(path: &Path, data_directories: &[PathBuf]) -> Vec<PathBuf> {
    // If the path is absolute, joining it would discard the folder.
    let folders = data_directories.iter().filter(|_| path.is_relative());
    let below = folders.map(|folder| folder.join(path));
    std::iter::once(path.to_owned()).chain(below).collect()
}

/// Returns the line of a record, from 1.
pub(crate) fn line_of(record: &ByteRecord) -> u64 {
    record.position().map_or(0, Position::line)
}

/// Returns the error of a line that does not have the right form.
pub(crate) fn malformed(path: &Path, line: u64, message: String) -> Error {
    Error::MalformedLine {
        path: path.to_owned(),
        line,
        message,
    }
}

/// Returns a field as messages show it: quoted, and cut short if it is long.
pub(crate) fn shown(field: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(field).chars().take(60).collect();
    format!("{text:?}")
}

fn split_fields(line: &[u8], separator: &[u8], record: &mut ByteRecord) {
    let mut rest = Some(line);
    while let Some(text) = rest {
        rest = match quoted(text, separator) {
            Some((field, rest)) => {
                record.push_field(&field);
                rest
            }
            None => {
                let end = find(text, separator);
                record.push_field(&text[..end.unwrap_or(text.len())]);
                end.map(|end| &text[end + separator.len()..])
            }
        };
    }
}

fn find(text: &[u8], separator: &[u8]) -> Option<usize> {
    match separator {
        [byte] => text.iter().position(|candidate| candidate == byte),
        _ => text
            .windows(separator.len())
            .position(|window| window == separator),
    }
}

/// Returns the quoted field that `text` begins with, and what follows its separator (`None` at the
/// end of the line). A quotation mark that is not closed in front of a separator belongs to an
/// unquoted field.
fn quoted<'t>(text: &'t [u8], separator: &[u8]) -> Option<(Vec<u8>, Option<&'t [u8]>)> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut field = Vec::new();
    loop {
        let mark = rest.iter().position(|&byte| byte == b'"')?;
        field.extend_from_slice(&rest[..mark]);
        rest = &rest[mark + 1..];
        if rest.is_empty() {
            return Some((field, None));
        }
        if let Some(after) = rest.strip_prefix(separator) {
            return Some((field, Some(after)));
        }
        rest = rest.strip_prefix(b"\"")?;
        field.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Returns the line and the fields of every record.
    fn records(content: &str, separator: &str) -> Vec<(u64, Vec<String>)> {
        let mut records = Records::new(
            Box::new(content.as_bytes()),
            Path::new("ratings"),
            separator,
        )
        .unwrap();
        let (mut record, mut all) = (ByteRecord::new(), Vec::new());
        while records.read(&mut record).unwrap() {
            let fields = record
                .iter()
                .map(|field| String::from_utf8(field.to_vec()).unwrap())
                .collect();
            all.push((record.position().unwrap().line(), fields));
        }
        all
    }

    #[test]
    fn line_ends_blank_lines_and_byte_order_marks_do_not_matter() {
        for separator in [",", "::"] {
            let plain = "1,2,\n5,,7".replace(',', separator);
            let reference = records(&plain, separator);
            assert_eq!(
                reference[0],
                (1, vec!["1".into(), "2".into(), String::new()])
            );
            assert_eq!(
                reference[1],
                (2, vec!["5".into(), String::new(), "7".into()])
            );
            for variant in [
                plain.clone() + "\n\n\n",
                plain.replace('\n', "\r\n") + "\r\n\r\n",
                format!("\u{feff}{plain}"),
            ] {
                assert_eq!(records(&variant, separator), reference, "{variant:?}");
            }
        }
    }

    #[test]
    fn lines_are_counted_as_an_editor_counts_them() {
        // If this fails, an error sends its reader to the wrong line.
        for separator in [",", "::"] {
            for end in ["\n", "\r\n"] {
                let content = "a,b||c,d|e,f|".replace(',', separator).replace('|', end);
                let lines: Vec<u64> = records(&content, separator)
                    .iter()
                    .map(|record| record.0)
                    .collect();
                assert_eq!(lines, [1, 3, 4], "{separator:?} {end:?}");
            }
        }
    }

    #[test]
    fn quotation_marks_enclose_a_field_only_where_they_are_closed_before_a_separator() {
        for separator in [",", "::"] {
            for (line, fields) in [
                (r#""a,b",2"#, vec!["a,b", "2"]),
                (r#"1,"say ""x""""#, vec!["1", "say \"x\""]),
                (r#""","""#, vec!["", ""]),
                (r#""Heroes" live,2"#, vec!["\"Heroes\" live", "2"]),
                (r#"12",2"#, vec!["12\"", "2"]),
                (r#""open,2"#, vec!["\"open", "2"]),
                (r#"",""#, vec![","]),
                (",", vec!["", ""]),
            ] {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|field| field.replace(',', separator))
                    .collect();
                assert_eq!(
                    records(&line.replace(',', separator), separator)[0].1,
                    fields,
                    "{line}"
                );
            }
        }
    }
}
