//! Reads the fields of delimited text.
//!
//! Fields stand between separators. A field may be quoted as in RFC 4180 (`"a,b"`, `"say ""a"""`), over
//! several lines too, and with blanks around its quotation marks. CRLF, blank lines and a UTF-8
//! byte-order mark are accepted.
//!
//! It reads ratings and traces. The csv crate does not: its separators are single bytes, and the
//! line that it reports for a record is wrong after CRLF or a blank line.

use std::collections::VecDeque;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use csv::{ByteRecord, Position};

use crate::fields::{has_bare_break, has_escape, split};
use crate::lines::Lines;
use fedrecsim_core::{Error, Result};

/// The most bytes of a record that is quoted over several lines. A quotation mark that is not closed
/// within as many belongs to its field.
const LONGEST_RECORD: usize = 1 << 20;

/// Returns whether a line seems to be a comment, by the line and the separator.
type IsComment = fn(&[u8], &[u8]) -> bool;

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
    /// Whether a line seems to be no record, and how many such lines stood before the first record
    /// and after it.
    is_comment: IsComment,
    comments: (u64, u64),
    /// The numbers of fields of the comments before the first record.
    widths: Vec<usize>,
    /// How many quoted fields over several lines may have swallowed records, and the line of the first.
    swallowed: (u64, u64),
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
        Self::of(Lines::new(text, path)?, separator, |_, _| false)
    }

    /// Starts with the first of some lines. Comments are skipped and counted.
    ///
    /// # Errors
    /// [`Error::Usage`] if `separator` is empty.
    pub(crate) fn of(lines: Lines<'a>, separator: &str, is_comment: IsComment) -> Result<Self> {
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
            is_comment,
            comments: (0, 0),
            widths: Vec::new(),
            swallowed: (0, 0),
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
            let is_open = self.split(record);
            if (self.is_comment)(&self.line, &self.separator) && self.counts_as_comment(record) {
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

    /// Splits the current line, and returns whether a field is open at its end. If the number of columns
    /// is right only where `\"` is a quotation mark of its field, it is one.
    fn split(&self, record: &mut ByteRecord) -> bool {
        let is_open = split(&self.line, &self.separator, false, record);
        let Some(columns) = self.columns.filter(|columns| *columns != record.len()) else {
            return is_open;
        };
        let mut escaped = ByteRecord::new();
        if has_escape(&self.line)
            && !split(&self.line, &self.separator, true, &mut escaped)
            && escaped.len() == columns
        {
            *record = escaped;
            return false;
        }
        is_open
    }

    /// Returns whether a line that looks like a comment is one, and counts it. After the first record
    /// it may be another one, if no comment has been read yet.
    fn counts_as_comment(&mut self, record: &ByteRecord) -> bool {
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
            if split(&joined, &self.separator, false, &mut whole) {
                continue;
            }
            let is_whole = self.columns.is_none_or(|columns| columns == whole.len());
            let fields = || whole.iter().any(|field| field.contains(&b'\n'));
            // In an unquoted field there is no end of line.
            if is_whole && fields() && !has_bare_break(&joined, &self.separator) {
                let (rows, are_all) = self.rows_among(count, record, whole.len());
                if are_all {
                    return Ok(());
                }
                if rows > 0 {
                    let (fields, first) = self.swallowed;
                    self.swallowed = (fields + 1, if fields == 0 { self.number } else { first });
                }
                *record = whole;
                self.ahead.drain(..count);
                self.number += count as u64;
            }
            return Ok(());
        }
        Ok(())
    }

    /// Returns how many of the next `count` lines seem to be records: they have all `columns`, and numbers
    /// where the record `first` has them. Says also whether all lines do that are not blank, and are told
    /// by their numbers.
    fn rows_among(&self, count: usize, first: &ByteRecord, columns: usize) -> (usize, bool) {
        let is_number = |field: &[u8]| {
            std::str::from_utf8(field).is_ok_and(|text| text.trim().parse::<f64>().is_ok())
        };
        let numbers: Vec<bool> = first.iter().map(is_number).collect();
        let is_like = |row: &ByteRecord| {
            let mut both = row.iter().zip(&numbers).filter(|(_, number)| **number);
            both.all(|(field, _)| is_number(field))
        };
        let lines = self.ahead.iter().take(count);
        let split = |line: &Vec<u8>| {
            let mut row = ByteRecord::new();
            split(line, &self.separator, false, &mut row);
            row
        };
        let lines = lines.filter(|line| !line.trim_ascii().is_empty());
        let rows: Vec<ByteRecord> = lines.map(split).collect();
        let has_all = |row: &&ByteRecord| row.len() == columns && first.len() == columns;
        let like = rows.iter().filter(has_all).filter(|row| is_like(row));
        let like = like.count();
        (like, numbers.contains(&true) && like == rows.len())
    }

    /// Returns how many quoted fields over several lines have a line that may be a record, and the line of
    /// the first.
    pub(crate) fn swallowed(&self) -> (u64, u64) {
        self.swallowed
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

    /// If this fails, a stray quotation mark swallows the rows down to the next one.
    #[test]
    fn a_field_that_is_closed_far_below_swallows_no_rows() {
        let rows = "u,i,title\na,1,\"Heat\nb,2,Alien\n\nc,3,5\" disk\"\nd,4,Up\n";
        let fields: Vec<Vec<String>> = records(rows, ",").into_iter().map(|row| row.1).collect();
        assert_eq!(fields[1], ["a", "1", "\"Heat"]);
        assert_eq!(fields[3], ["c", "3", "5\" disk\""]);
        assert_eq!(fields.len(), 5);
        let swallowed = |text: &'static str| {
            let mut records =
                Records::new(Box::new(text.as_bytes()), Path::new("ratings"), ",").unwrap();
            let mut record = ByteRecord::new();
            while records.read(&mut record).unwrap() {}
            records.swallowed()
        };
        // Without numbers, a line of a text may look like a row; with them it has them too.
        assert_eq!(swallowed("u,text\na,\"yes\nb,no\nwell\"\nc,no\n"), (1, 2));
        assert_eq!(swallowed("u,text\na,\"yes,\n\nno\"\nc,no\n"), (0, 0));
        assert_eq!(swallowed("u,text\n1,\"yes\nb,no\nwell\"\n2,no\n"), (0, 0));
        assert_eq!(swallowed("u,text\n1,\"yes\n2,no\nwell\"\n3,no\n"), (1, 2));
    }
}
