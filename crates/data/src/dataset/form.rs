//! Tells what a file is by its first bytes. What is no table of ratings is refused with its name and
//! the way to make one of it.

mod dump;
mod json;
mod office;
mod several_lines;
mod text;

pub(super) use text::{WRITE_PAIRS, form_of};

/// A form of text that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Fields with separators between them.
    Delimited,
    /// Each line is a JSON object.
    JsonLines,
}

/// What a text is that cannot be read, and what to do.
type Refusal = (&'static str, &'static str);

const SAVE_AS_TEXT: &str = "save the sheet with the rows as CSV";
const UNPACK: &str = "unpack it, or compress what is in it with gzip or zstd";
const UNPACK_ONCE: &str = "unpack it once";
const NO_ROWS: &str = "take the file with the rows themselves";
const WRITE_AS_TEXT: &str =
    "write its rows as text, as with `frame.to_csv(\"mended.csv\", index=False)` of pandas";

/// What is no text: its name, its first bytes, and what to do.
const BINARIES: [(&str, &[u8], &str); 36] = [
    ("a zip archive", b"PK\x03\x04", UNPACK),
    (
        "a gzip file within another file",
        b"\x1f\x8b\x08",
        UNPACK_ONCE,
    ),
    (
        "a zstd file within another file",
        b"\x28\xb5\x2f\xfd",
        UNPACK_ONCE,
    ),
    ("a bzip2 archive", b"BZh", UNPACK),
    ("an xz archive", b"\xfd7zXZ\0", UNPACK),
    ("a 7z archive", b"7z\xbc\xaf\x27\x1c", UNPACK),
    ("a rar archive", b"Rar!\x1a\x07", UNPACK),
    ("an lz4 archive", b"\x04\x22\x4d\x18", UNPACK),
    ("an archive of `compress`", b"\x1f\x9d", UNPACK),
    ("a Parquet file", b"PAR1", WRITE_AS_TEXT),
    ("an Arrow file", b"ARROW1", WRITE_AS_TEXT),
    ("a Feather file", b"FEA1", WRITE_AS_TEXT),
    ("an ORC file", b"ORC", WRITE_AS_TEXT),
    ("an Avro file", b"Obj\x01", WRITE_AS_TEXT),
    ("an HDF5 file", b"\x89HDF", WRITE_AS_TEXT),
    ("a NumPy file", b"\x93NUMPY", WRITE_AS_TEXT),
    ("a MATLAB file", b"MATLAB 5.0 MAT", WRITE_AS_TEXT),
    ("an R file", b"RDX3\n", WRITE_AS_TEXT),
    ("an R file", b"RDX2\n", WRITE_AS_TEXT),
    ("an R file", b"X\n\0\0\0", WRITE_AS_TEXT),
    ("a file of SPSS", b"$FL2@(#) ", WRITE_AS_TEXT),
    ("a file of SPSS", b"$FL3@(#) ", WRITE_AS_TEXT),
    ("a file of Stata", b"<stata_dta>", WRITE_AS_TEXT),
    ("a file of Stata", b"\x72\x01\x01", WRITE_AS_TEXT),
    ("a file of Stata", b"\x72\x02\x01", WRITE_AS_TEXT),
    ("a file of Stata", b"\x73\x01\x01", WRITE_AS_TEXT),
    ("a file of Stata", b"\x73\x02\x01", WRITE_AS_TEXT),
    ("a pickle of Python", b"ccopy_reg\n", WRITE_AS_TEXT),
    ("a pickle of Python", b"(lp0\n", WRITE_AS_TEXT),
    ("a pickle of Python", b"(dp0\n", WRITE_AS_TEXT),
    ("a picture", b"\x89PNG\r\n", NO_ROWS),
    ("a picture", b"\xff\xd8\xff", NO_ROWS),
    ("a picture", b"GIF89a", NO_ROWS),
    ("an SQLite database", b"SQLite format 3\0", WRITE_AS_TEXT),
    ("a PDF", b"%PDF-1.", NO_ROWS),
    (
        "a pointer of Git LFS, and not the file",
        b"version https://git-lfs",
        "fetch the file with `git lfs pull`",
    ),
];

/// Returns what is wrong with a file that begins with `head` and is no text, and what to do.
pub(super) fn refusal_of_binary(head: &[u8]) -> Option<String> {
    let is = |name: &str, remedy: &str| Some(format!("it is {name}: {remedy}"));
    if let Some((name, remedy)) = office::document(head) {
        return is(name, remedy);
    }
    let mut binaries = BINARIES.iter();
    if let Some((name, magic, remedy)) = binaries.find(|(_, magic, _)| head.starts_with(magic)) {
        // A name may begin with `ORC` or `PAR1`, and a text goes on as text.
        let begins = &head[..head.len().min(magic.len() + 512)];
        let is_control = |byte: &u8| byte.is_ascii_control() && !b"\t\r\n".contains(byte);
        let is_text = !begins.iter().any(is_control)
            && std::str::from_utf8(begins)
                .map_or_else(|fault| fault.error_len().is_none(), |_| true);
        let has_mark_of_its_own = magic.len() > 8 || magic.contains(&b'\n');
        if has_mark_of_its_own || !is_text {
            return is(name, remedy);
        }
    }
    if head.get(257..262) == Some(b"ustar") {
        return is(
            "a tar archive",
            "unpack it and name the file with the ratings",
        );
    }
    if head.starts_with(b"\x80") && matches!(head.get(1), Some(2..=5)) {
        return is("a pickle of Python", WRITE_AS_TEXT);
    }
    if let Some(encoding) = wide_encoding(head) {
        return Some(format!(
            "it is text in {encoding}: save it as UTF-8, as with `iconv -f {encoding} -t UTF-8 FILE > \
             mended.csv`"
        ));
    }
    if head.contains(&0) {
        return is("no text, for it has bytes of zero", WRITE_AS_TEXT);
    }
    None
}

/// Returns the encoding of a text whose characters have more than one byte each, by its byte-order mark
/// or by the zeros of its first characters.
fn wide_encoding(head: &[u8]) -> Option<&'static str> {
    let marked = |marks: [&[u8]; 2]| marks.iter().any(|mark| head.starts_with(mark));
    let zeros = |from: usize, step: usize| {
        let mut bytes = head.iter().skip(from).step_by(step).take(32);
        head.len() >= 4 && bytes.all(|byte| *byte == 0)
    };
    // The mark of UTF-32 begins with that of UTF-16.
    if marked([b"\xff\xfe\0\0", b"\0\0\xfe\xff"]) {
        return Some("UTF-32");
    }
    let is_utf32 = zeros(1, 4) && zeros(2, 4);
    match (zeros(0, 4), zeros(3, 4)) {
        (true, false) if is_utf32 => return Some("UTF-32BE"),
        (false, true) if is_utf32 => return Some("UTF-32LE"),
        _ => {}
    }
    if marked([b"\xff\xfe", b"\xfe\xff"]) {
        return Some("UTF-16");
    }
    // Without a mark, programs differ in which byte they take for the first one.
    match (zeros(0, 2), zeros(1, 2)) {
        (true, false) => Some("UTF-16BE"),
        (false, true) => Some("UTF-16LE"),
        _ => None,
    }
}

/// Returns whether a line begins with `text`, in capital letters or small ones.
fn begins(line: &[u8], text: &str) -> bool {
    let head = line.get(..text.len());
    head.is_some_and(|head| head.eq_ignore_ascii_case(text.as_bytes()))
}

/// What begins a line that is no row.
const COMMENTS: [&[u8]; 4] = [b"#", b"%", b";", b"//"];

/// [`COMMENTS`] in messages.
pub(super) const COMMENT_MARKS: &str = "`#`, `%`, `;` or `//`";

/// Returns whether a line seems to be a comment. One that begins with `separator` lacks its first field.
pub(super) fn is_comment(line: &[u8], separator: &[u8]) -> bool {
    let is_first_field = |mark: &[u8]| !separator.is_empty() && mark.starts_with(separator);
    let mut marks = COMMENTS.iter().filter(|mark| !is_first_field(mark));
    marks.any(|mark| line.starts_with(mark))
}

/// Returns a comment without what marks it.
pub(super) fn without_mark(comment: &str) -> &str {
    comment.trim_start_matches(['#', '%', ';', '/', ' '])
}

/// The separators that are told from a line, the first of them that it has.
const SEPARATORS: [(&str, &str); 6] = [
    ("\t", "tabs"),
    ("::", "`::`"),
    (",", "commas"),
    (";", "semicolons"),
    ("|", "`|`"),
    (" ", "blanks"),
];

/// Returns what separates the fields of the first `lines` of a text, and its name; `None` if nothing usual
/// does. If anything does, it occurs as often in each of them, outside of quotation marks. The first line
/// may be a title, which has no fields.
pub(super) fn separator_of<'l>(
    lines: impl Iterator<Item = &'l [u8]>,
) -> Option<(&'static str, &'static str)> {
    let counts: Vec<[usize; SEPARATORS.len()]> = lines
        .take(20)
        .map(|line| {
            let plain = without_quoted(line);
            SEPARATORS.map(|(separator, _)| occurrences(&plain, separator))
        })
        .collect();
    let (first, others) = counts.split_first()?;
    let below_a_title = || even_separator(others).filter(|_| others.len() > 1);
    let any = || first.iter().position(|count| *count > 0);
    let place = even_separator(&counts)
        .or_else(below_a_title)
        .or_else(any)?;
    Some(SEPARATORS[place])
}

/// Returns the separator that occurs most often and as often in each line.
fn even_separator(counts: &[[usize; SEPARATORS.len()]]) -> Option<usize> {
    let first = counts.first()?;
    // Blanks stand in names too, so that they count only where there is nothing else. A decimal comma is
    // rarer than the semicolons around it.
    let others = 0..SEPARATORS.len() - 1;
    let is_even = |place: &usize| {
        first[*place] > 0 && counts.iter().all(|line| line[*place] == first[*place])
    };
    others
        .rev()
        .filter(is_even)
        .max_by_key(|place| first[*place])
}

fn occurrences(line: &[u8], separator: &str) -> usize {
    let windows = line.windows(separator.len());
    windows.filter(|part| *part == separator.as_bytes()).count()
}

/// Returns a line without what stands in quotation marks.
fn without_quoted(line: &[u8]) -> Vec<u8> {
    let mut parts = line.split(|byte| *byte == b'"').enumerate();
    let outside = parts.by_ref().filter(|(place, _)| place % 2 == 0);
    outside.flat_map(|(_, part)| part.to_vec()).collect()
}

#[cfg(test)]
mod tests;
