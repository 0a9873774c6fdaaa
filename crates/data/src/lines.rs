//! Reads the lines of a text, each of which has a limit.
//!
//! A line ends with LF, CRLF, or, in a text that has no LF, with CR alone.

use std::io::{BufRead, Cursor, Read};
use std::path::Path;
use std::rc::Rc;

use fedrecsim_core::{Error, Result};

/// The most bytes of a line. A longer one is no rating, and a compressed file of a few kilobytes may
/// have one of gigabytes.
pub(crate) const LONGEST_LINE: usize = 1 << 24;

/// How many of its first bytes tell what a text is.
const HEAD: usize = 8192;

/// The lines of a text.
pub(crate) struct Lines<'a> {
    path: &'a Path,
    text: Box<dyn BufRead + 'a>,
    /// The first bytes of the text.
    head: Rc<[u8]>,
    end: u8,
    /// The number of the line that was read last, from 1.
    pub number: u64,
}

impl<'a> Lines<'a> {
    /// Starts with the first line of `text`, after a byte-order mark; faults are reported under `path`.
    ///
    /// # Errors
    /// [`Error::Read`] if it cannot be read.
    pub(crate) fn new(mut text: Box<dyn BufRead + 'a>, path: &'a Path) -> Result<Self> {
        const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
        let mut head = Vec::new();
        let read = text.by_ref().take(HEAD as u64).read_to_end(&mut head);
        read.map_err(|error| Error::read(path, error))?;
        if head.starts_with(BYTE_ORDER_MARK) {
            head.drain(..BYTE_ORDER_MARK.len());
        }
        let head: Rc<[u8]> = head.into();
        let ends_with_cr = !head.contains(&b'\n')
            && head
                .windows(2)
                .any(|two| two[0] == b'\r' && two[1] != b'\r');
        Ok(Self {
            path,
            text: Box::new(Cursor::new(Rc::clone(&head)).chain(text)),
            head,
            end: if ends_with_cr { b'\r' } else { b'\n' },
            number: 0,
        })
    }

    /// Returns the first bytes of the text.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Returns the whole lines among the first bytes of the text, or a part of its only line.
    pub(crate) fn first(&self) -> impl Iterator<Item = &[u8]> {
        let end = self.end;
        let whole = (self.head.iter().rposition(|byte| *byte == end))
            .filter(|_| self.head.len() >= HEAD - 3)
            .unwrap_or(self.head.len());
        self.head[..whole]
            .split(move |byte| *byte == end)
            .map(<[u8]>::trim_ascii)
    }

    /// Appends the next line to `line`, without its end, and returns `false` at the end of the text.
    ///
    /// # Errors
    /// [`Error::Read`] if it cannot be read, [`Error::MalformedLine`] if it is too long.
    pub(crate) fn append(&mut self, line: &mut Vec<u8>) -> Result<bool> {
        let start = line.len();
        let mut limited = self.text.by_ref().take(LONGEST_LINE as u64 + 1);
        let length = limited
            .read_until(self.end, line)
            .map_err(|error| Error::read(self.path, error))?;
        if length == 0 {
            return Ok(false);
        }
        self.number += 1;
        if length > LONGEST_LINE {
            return Err(Error::MalformedLine {
                path: self.path.to_owned(),
                line: self.number,
                message: format!(
                    "the line has more than {} MiB, so it is no row of a table: write one row in a line",
                    LONGEST_LINE >> 20
                ),
            });
        }
        while line.len() > start && b"\r\n".contains(&line[line.len() - 1]) {
            line.pop();
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::{BufReader, repeat};

    use super::*;

    fn lines(text: &str) -> Vec<String> {
        let mut lines = Lines::new(Box::new(text.as_bytes()), Path::new("ratings")).unwrap();
        let (mut line, mut all) = (Vec::new(), Vec::new());
        while lines.append(&mut line).unwrap() {
            all.push(String::from_utf8(std::mem::take(&mut line)).unwrap());
        }
        all
    }

    /// If this fails, a file of an old Macintosh is one line, and the last user of it is a novel.
    #[test]
    fn carriage_returns_end_lines_only_where_nothing_else_does() {
        assert_eq!(lines("a\rb\rc"), ["a", "b", "c"]);
        assert_eq!(lines("a\rb\r"), ["a", "b"]);
        assert_eq!(lines("a\r\nb\r\n"), ["a", "b"]);
        assert_eq!(lines("a\rb\nc"), ["a\rb", "c"]);
        assert_eq!(lines("a\r"), ["a"]);
        assert_eq!(lines(""), [""; 0]);
    }

    /// If this fails, a file of a few kilobytes takes the memory of the machine.
    #[test]
    fn a_line_has_a_limit() {
        let endless = BufReader::new(repeat(b'x').take(1 << 40));
        let mut lines = Lines::new(Box::new(endless), Path::new("ratings")).unwrap();
        let mut line = Vec::new();
        let fault = lines.append(&mut line).unwrap_err().to_string();
        assert!(
            fault.starts_with("ratings:1: the line has more than 16 MiB"),
            "{fault}"
        );
        assert!(line.capacity() <= 4 * LONGEST_LINE);
    }
}
