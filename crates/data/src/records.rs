//! Reads the fields of delimited text.
//!
//! Fields stand between separators. A field may be quoted as in RFC 4180 (`"a,b"`, `"say ""a"""`), over
//! several lines too. CRLF, blank lines and a UTF-8 byte-order mark are accepted.
//!
//! It reads ratings and traces. The csv crate does not: its separators are single bytes, and the
//! line that it reports for a record is wrong after CRLF or a blank line.

use std::collections::VecDeque;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use csv::{ByteRecord, Position};

use crate::lines::Lines;
use fedrecsim_core::{Error, Result};

/// The most bytes of a record that is quoted over several lines. A quotation mark that is not closed
/// within as many belongs to its field.
const LONGEST_RECORD: usize = 1 << 20;

/// The records of a text, without blank lines.
pub(crate) struct Records<'a> {
    lines: Lines<'a>,
    separator: Vec<u8>,
    /// The lines that were read ahead of the current one.
    ahead: VecDeque<Vec<u8>>,
    /// The number of the current line, from 1, and below its bytes.
    number: u64,
    line: Vec<u8>,
    /// The number of fields of the first record.
    columns: Option<usize>,
    /// What begins a line that is no record, and how many such lines stood before the first record
    /// and after it.
    comment: &'static [u8],
    comments: (u64, u64),
    /// The numbers of fields of the comments before the first record.
    widths: Vec<usize>,
}

impl<'a> Records<'a> {
    /// Starts with the first line of `text`; faults are reported under `path`.
    ///
    /// # Errors
    /// [`Error::Read`] if it cannot be read.
    pub(crate) fn new(
        text: Box<dyn BufRead + 'a>,
        path: &'a Path,
        separator: &str,
    ) -> Result<Self> {
        Self::of(Lines::new(text, path)?, separator, b"")
    }

    /// Starts with the first of some lines. Comments, which begin with one of the bytes `comment`, are
    /// skipped and counted.
    ///
    /// # Errors
    /// [`Error::Usage`] if `separator` is empty.
    pub(crate) fn of(lines: Lines<'a>, separator: &str, comment: &'static [u8]) -> Result<Self> {
        if separator.is_empty() {
            return Err(Error::Usage(
                "the separator of a delimited file must not be empty".into(),
            ));
        }
        Ok(Self {
            lines,
            separator: separator.as_bytes().to_owned(),
            ahead: VecDeque::new(),
            number: 0,
            line: Vec::new(),
            columns: None,
            comment,
            comments: (0, 0),
            widths: Vec::new(),
        })
    }

    /// Reads the next record into `record`, with its line as its position, and returns `false` at
    /// the end of the file.
    pub(crate) fn read(&mut self, record: &mut ByteRecord) -> Result<bool> {
        while self.next_line()? {
            // Blanks alone are no record, unless they separate fields.
            let is_blank = self.line.trim_ascii().is_empty();
            if self.line.is_empty() || is_blank && !self.separator.trim_ascii().is_empty() {
                continue;
            }
            record.clear();
            let is_open = split_fields(&self.line, &self.separator, record);
            if self.comment.contains(&self.line[0]) && self.is_comment(record) {
                continue;
            }
            let number = self.number;
            if is_open {
                self.join(record)?;
            }
            self.columns.get_or_insert(record.len());
            let mut position = Position::new();
            position.set_line(number);
            record.set_position(Some(position));
            return Ok(true);
        }
        Ok(false)
    }

    /// Returns whether a line that looks like a comment is one, and counts it. After the first record
    /// it may be another one, if no comment has been read yet.
    fn is_comment(&mut self, record: &ByteRecord) -> bool {
        let (before, after) = &mut self.comments;
        match self.columns {
            None => {
                *before += 1;
                self.widths.push(record.len());
            }
            Some(columns) if *before + *after == 0 && columns == record.len() => return false,
            Some(_) => *after += 1,
        }
        true
    }

    /// Returns how many lines were comments, before the first record and after it.
    pub(crate) fn comments(&self) -> (u64, u64) {
        self.comments
    }

    /// Returns how many comments before the first record have as many fields as that, so that they may be
    /// records themselves.
    pub(crate) fn comments_like_records(&self) -> usize {
        let is_like = |width: &&usize| Some(**width) == self.columns;
        self.widths.iter().filter(is_like).count()
    }

    fn next_line(&mut self) -> Result<bool> {
        self.number += 1;
        if let Some(line) = self.ahead.pop_front() {
            self.line = line;
            return Ok(true);
        }
        self.line.clear();
        self.lines.append(&mut self.line)
    }

    /// Replaces `record`, in which a quotation mark is open at the end of its line, by what it is with
    /// the lines that follow, if the mark is closed there and the number of columns is right.
    fn join(&mut self, record: &mut ByteRecord) -> Result<()> {
        let mut joined = self.line.clone();
        let mut whole = ByteRecord::new();
        for count in 1.. {
            if self.ahead.len() < count {
                let mut next = Vec::new();
                if !self.lines.append(&mut next)? {
                    return Ok(());
                }
                self.ahead.push_back(next);
            }
            let next = &self.ahead[count - 1];
            joined.push(b'\n');
            joined.extend_from_slice(next);
            if joined.len() > LONGEST_RECORD {
                return Ok(());
            }
            // Only a quotation mark can close the field.
            if !next.contains(&b'"') {
                continue;
            }
            whole.clear();
            if split_fields(&joined, &self.separator, &mut whole) {
                continue;
            }
            let is_whole = self.columns.is_none_or(|columns| columns == whole.len());
            let fields = || whole.iter().any(|field| field.contains(&b'\n'));
            // In an unquoted field there is no end of line.
            if is_whole && fields() && !has_bare_break(&joined, &self.separator) {
                *record = whole;
                self.ahead.drain(..count);
                self.number += count as u64;
            }
            return Ok(());
        }
        Ok(())
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

/// Appends the fields of `line` to `record`, and returns whether the last of them begins with a
/// quotation mark that a later line may close.
fn split_fields(line: &[u8], separator: &[u8], record: &mut ByteRecord) -> bool {
    let mut rest = Some(line);
    let mut is_open = false;
    while let Some(text) = rest {
        rest = match quoted(text, separator) {
            Quoted::Closed(field, rest) => {
                record.push_field(&field);
                rest
            }
            unquoted => {
                is_open |= matches!(unquoted, Quoted::Open);
                let end = find(text, separator);
                record.push_field(&text[..end.unwrap_or(text.len())]);
                end.map(|end| &text[end + separator.len()..])
            }
        };
    }
    is_open
}

/// Returns whether an end of line stands outside of quotation marks.
fn has_bare_break(text: &[u8], separator: &[u8]) -> bool {
    let mut rest = Some(text);
    while let Some(text) = rest {
        rest = match quoted(text, separator) {
            Quoted::Closed(_, rest) => rest,
            _ => {
                let end = find(text, separator);
                if text[..end.unwrap_or(text.len())].contains(&b'\n') {
                    return true;
                }
                end.map(|end| &text[end + separator.len()..])
            }
        };
    }
    false
}

fn find(text: &[u8], separator: &[u8]) -> Option<usize> {
    match separator {
        [byte] => text.iter().position(|candidate| candidate == byte),
        _ => text
            .windows(separator.len())
            .position(|window| window == separator),
    }
}

/// What a text begins with.
enum Quoted<'t> {
    /// A quoted field, and what follows its separator (`None` at the end of the line).
    Closed(Vec<u8>, Option<&'t [u8]>),
    /// A quotation mark that is not closed in this text.
    Open,
    /// An unquoted field, to which a quotation mark may belong.
    No,
}

fn quoted<'t>(text: &'t [u8], separator: &[u8]) -> Quoted<'t> {
    let Some(mut rest) = text.strip_prefix(b"\"") else {
        return Quoted::No;
    };
    let mut field = Vec::new();
    loop {
        let Some(mark) = rest.iter().position(|&byte| byte == b'"') else {
            return Quoted::Open;
        };
        field.extend_from_slice(&rest[..mark]);
        rest = &rest[mark + 1..];
        if rest.is_empty() {
            return Quoted::Closed(field, None);
        }
        if let Some(after) = rest.strip_prefix(separator) {
            return Quoted::Closed(field, Some(after));
        }
        let Some(after) = rest.strip_prefix(b"\"") else {
            return Quoted::No;
        };
        rest = after;
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
                plain.clone() + "\n\n  \n\t\n",
                plain.replace('\n', "\r\n") + "\r\n\r\n",
                format!("\u{feff}{plain}"),
            ] {
                assert_eq!(records(&variant, separator), reference, "{variant:?}");
            }
        }
        assert_eq!(records("  \n1,2", ",")[0].0, 2, "blanks name no columns");
        assert_eq!(records("\t\n1\t2", "\t").len(), 2);
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

    /// If this fails, a review of two paragraphs makes a user of its second one.
    #[test]
    fn a_quoted_field_goes_over_lines_only_where_it_is_closed_and_the_columns_are_right() {
        let rows = |text: &str| -> Vec<(u64, Vec<String>)> { records(text, ",") };
        let of = |line: u64, fields: &[&str]| {
            (
                line,
                fields.iter().map(|field| (*field).to_owned()).collect(),
            )
        };
        assert_eq!(
            rows("u,i,text\na,b,\"one\n\ntwo, \"\"three\"\"\"\nc,d,e\n"),
            [
                of(1, &["u", "i", "text"]),
                of(2, &["a", "b", "one\n\ntwo, \"three\""]),
                of(5, &["c", "d", "e"])
            ]
        );
        // A quotation mark that belongs to its field, and one that is never closed.
        assert_eq!(
            rows("\"12 inch,x\n5\",y\n\"open,z\nq,r"),
            [
                of(1, &["12 inch,x\n5", "y"]),
                of(3, &["\"open", "z"]),
                of(4, &["q", "r"])
            ]
        );
        assert_eq!(
            rows("a,b\n\"12 inch,x\n7,5\"\nq,r"),
            [
                of(1, &["a", "b"]),
                of(2, &["\"12 inch", "x"]),
                of(3, &["7", "5\""]),
                of(4, &["q", "r"])
            ]
        );
    }
}
