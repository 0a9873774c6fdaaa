//! Tells what a file is by its first bytes. What is no table of ratings is refused with its name and
//! the way to make one of it.

/// A form of text that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Fields with separators between them.
    Delimited,
    /// Each line is a JSON object.
    JsonLines,
}

const SAVE_AS_TEXT: &str = "save the sheet with the ratings as CSV";
const UNPACK: &str = "unpack it, or compress the ratings with gzip or zstd";
const UNPACK_ONCE: &str = "unpack it once";
const WRITE_AS_TEXT: &str =
    "write its rows as text, as with `frame.to_csv(\"ratings.csv\", index=False)` of pandas";

/// What is no text: its name, its first bytes, and what to do.
const BINARIES: [(&str, &[u8], &str); 21] = [
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
    ("an Excel workbook", b"\xd0\xcf\x11\xe0", SAVE_AS_TEXT),
    ("a Parquet file", b"PAR1", WRITE_AS_TEXT),
    ("an Arrow file", b"ARROW1", WRITE_AS_TEXT),
    ("a Feather file", b"FEA1", WRITE_AS_TEXT),
    ("an ORC file", b"ORC", WRITE_AS_TEXT),
    ("an Avro file", b"Obj\x01", WRITE_AS_TEXT),
    ("an HDF5 file", b"\x89HDF", WRITE_AS_TEXT),
    ("a NumPy file", b"\x93NUMPY", WRITE_AS_TEXT),
    ("a MATLAB file", b"MATLAB 5.0 MAT", WRITE_AS_TEXT),
    ("an SQLite database", b"SQLite format 3\0", WRITE_AS_TEXT),
    (
        "a PDF",
        b"%PDF-1.",
        "take the file with the ratings themselves",
    ),
    (
        "a pointer of Git LFS, and not the file",
        b"version https://git-lfs",
        "fetch the file with `git lfs pull`",
    ),
];

/// Returns what is wrong with a file that begins with `head` and is no text, and what to do.
pub(super) fn refusal_of_binary(head: &[u8]) -> Option<String> {
    let is = |name: &str, remedy: &str| Some(format!("it is {name}: {remedy}"));
    let has = |part: &[u8]| head.windows(part.len()).any(|window| window == part);
    if head.starts_with(b"PK\x03\x04") && (has(b"[Content_Types].xml") || has(b"xl/")) {
        return is("an Excel workbook", SAVE_AS_TEXT);
    }
    if head.starts_with(b"PK\x03\x04") && has(b"application/vnd.oasis.opendocument") {
        return is("an OpenDocument sheet", SAVE_AS_TEXT);
    }
    if head.starts_with(b"PK\x03\x04") && has(b".npy") {
        return is("an archive of NumPy", WRITE_AS_TEXT);
    }
    let mut binaries = BINARIES.iter();
    if let Some((name, magic, remedy)) = binaries.find(|(_, magic, _)| head.starts_with(magic)) {
        // A name may begin with `ORC` or `PAR1`, and a text goes on as text.
        let begins = &head[..head.len().min(magic.len() + 16)];
        let is_text = |byte: &u8| (b' '..0x7f).contains(byte) || b"\t\r\n".contains(byte);
        let is_prose = magic.len() > 8;
        if is_prose || !begins.iter().all(is_text) {
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
            "it is text in {encoding}: save it as UTF-8, as with `iconv -f {encoding} -t UTF-8 ratings.csv \
             > utf8.csv`"
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
    let is_utf32 = zeros(1, 4) && zeros(2, 4) && zeros(0, 4) != zeros(3, 4);
    // The mark of UTF-32 begins with that of UTF-16.
    if is_utf32 || marked([b"\xff\xfe\0\0", b"\0\0\xfe\xff"]) {
        Some("UTF-32")
    } else if zeros(0, 2) != zeros(1, 2) || marked([b"\xff\xfe", b"\xfe\xff"]) {
        Some("UTF-16")
    } else {
        None
    }
}

/// Returns the form of a text that begins with `head`, whose first lines are `lines`.
///
/// # Errors
/// What is wrong with a text that cannot be read, and what to do.
pub(super) fn form_of<'h>(
    head: &[u8],
    lines: impl Iterator<Item = &'h [u8]>,
) -> Result<Form, String> {
    if let Some(fault) = refusal_of_binary(head) {
        return Err(fault);
    }
    let refused = |name: &str, remedy: &str| Err(format!("it is {name}: {remedy}"));
    let mut lines = lines.filter(|line| !line.is_empty()).peekable();
    let is_matrix_market = (lines.peek()).is_some_and(|line| begins(line, "%%MatrixMarket"));
    let mut lines = lines.filter(|line| !is_comment(line));
    let (first, second) = (lines.next().unwrap_or_default(), lines.next());
    let after = |mark: &[u8]| Some(first.strip_prefix(mark)?.trim_ascii_start());
    if let Some(rest) = after(b"{") {
        return match rest.first() {
            Some(b'"' | b'}') => Ok(Form::JsonLines),
            // Python 2 marks its texts with a `u`.
            Some(b'\'') | Some(b'u') if is_python(rest) => refused(
                "a list of Python dictionaries, and not JSON",
                "write each with `json.dumps(ast.literal_eval(line))`",
            ),
            None => refused(
                "a JSON document over several lines",
                "write one object in a line, as with `jq -c . ratings.json > ratings.jsonl`",
            ),
            Some(_) => Ok(Form::Delimited),
        };
    }
    if let Some(rest) = after(b"[") {
        let next = rest.first().or_else(|| second?.first());
        if first.ends_with(b"]") && second.is_some_and(|line| line.starts_with(b"[")) {
            return refused(
                "a JSON array in each line",
                "write them as CSV, as with `jq -r '@csv' ratings.json > ratings.csv`",
            );
        }
        if next == Some(&b'[') {
            return refused(
                "a JSON array of arrays",
                "write them as CSV, as with `jq -r '.[] | @csv' ratings.json > ratings.csv`",
            );
        }
        if next.is_none_or(|byte| b"{[\"-0123456789".contains(byte)) {
            return refused(
                "a JSON array",
                "write one object in a line, as with `jq -c '.[]' ratings.json > ratings.jsonl`",
            );
        }
    }
    if begins(first, "<!doctype") || begins(first, "<html") {
        return refused(
            "a web page",
            "the download went to a page of its provider; fetch the file itself",
        );
    }
    if begins(first, "<?xml") || first.starts_with(b"<") && first.ends_with(b">") {
        return refused("XML", WRITE_AS_TEXT);
    }
    if is_matrix_market {
        return refused(
            "a Matrix Market file, whose first line of numbers has the sizes",
            "leave out that line and those with `%`, as with `grep -v % ratings.mtx | tail -n +2 > ratings.txt`",
        );
    }
    if begins(first, "@relation") {
        return refused("an ARFF file", "leave out its lines down to `@data`");
    }
    if begins(first, "sep=") || begins(first, "\"sep=") {
        return refused(
            "a table for Excel, whose first line has the separator alone",
            "leave out that line, as with `tail -n +2 FILE > ratings.csv`",
        );
    }
    if is_block(first) && second.is_some_and(|line| !is_block(line)) {
        return refused(
            "a list of ratings in blocks, one for each item as Netflix has them",
            "write the item into each line, as with `awk -F, '/:$/ { item = substr($1, 1, length($1) - 1); \
             next } { print $1 \",\" item \",\" $2 \",\" $3 }' FILE > ratings.csv`",
        );
    }
    if is_list(first) && second.is_none_or(is_list) {
        return refused(
            "a list of the items of a user in each line (an adjacency list)",
            WRITE_PAIRS,
        );
    }
    Ok(Form::Delimited)
}

/// Returns whether a text in quotation marks of Python begins here.
fn is_python(text: &[u8]) -> bool {
    let quoted = text.strip_prefix(b"u").unwrap_or(text);
    matches!(quoted.first(), Some(b'\'' | b'"'))
}

/// What begins a line that is no row.
pub(super) const COMMENT: &[u8] = b"#%";

pub(super) fn is_comment(line: &[u8]) -> bool {
    line.first().is_some_and(|byte| COMMENT.contains(byte))
}

/// Returns whether a line begins with `text`, in capital letters or small ones.
fn begins(line: &[u8], text: &str) -> bool {
    let head = line.get(..text.len());
    head.is_some_and(|head| head.eq_ignore_ascii_case(text.as_bytes()))
}

/// Returns whether a line is a number with a colon, and numbers behind it.
fn is_list(line: &[u8]) -> bool {
    let mut words = line.split(|byte| b" \t,".contains(byte));
    let is_number = |word: &[u8]| word.iter().all(u8::is_ascii_digit);
    words.next().is_some_and(is_block)
        && words.clone().any(|word| !word.is_empty())
        && words.all(is_number)
}

/// What to do with a list of items in each line.
pub(super) const WRITE_PAIRS: &str = "write one pair in a line, as with `awk '{ gsub(/[:,]/, \" \"); for (i = 2; i <= NF; i++) \
                                      print $1, $i }' FILE > pairs.txt`";

/// Returns whether a line is a number and a colon.
fn is_block(line: &[u8]) -> bool {
    line.strip_suffix(b":")
        .is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
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
/// does. If anything does, it occurs as often in each of them, outside of quotation marks.
pub(super) fn separator_of<'l>(
    lines: impl Iterator<Item = &'l [u8]>,
) -> Option<(&'static str, &'static str)> {
    let mut counts = lines.take(20).map(|line| {
        let plain = without_quoted(line);
        SEPARATORS.map(|(separator, _)| occurrences(&plain, separator))
    });
    let first = counts.next()?;
    let mut is_even = first.map(|count| count > 0);
    for of_line in counts {
        for (place, even) in is_even.iter_mut().enumerate() {
            *even = *even && of_line[place] == first[place];
        }
    }
    // Blanks stand in names too, so that they count only where there is nothing else. A decimal comma is
    // rarer than the semicolons around it.
    let others = 0..SEPARATORS.len() - 1;
    let most = others.filter(|place| is_even[*place]).rev();
    let even = most.max_by_key(|place| first[*place]);
    let place = even.or_else(|| first.iter().position(|count| *count > 0))?;
    Some(SEPARATORS[place])
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
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn told(head: &[u8]) -> Result<Form, String> {
        form_of(
            head,
            head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii),
        )
    }

    /// If one of these is read, its first line is a user.
    #[test]
    fn what_is_no_table_is_refused_by_name_with_a_remedy() {
        let utf16: Vec<u8> = "1,2,3\n"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        let big: Vec<u8> = "1,2,3\n"
            .encode_utf16()
            .flat_map(u16::to_be_bytes)
            .collect();
        let utf32: Vec<u8> = "1,2,3\n"
            .chars()
            .flat_map(|character| u32::from(character).to_le_bytes())
            .collect();
        let mut tar = vec![b'x'; 600];
        tar[257..262].copy_from_slice(b"ustar");
        for (head, name, remedy) in [
            (&b"PK\x03\x04....ratings.csv"[..], "a zip archive", "unpack"),
            (
                b"PK\x03\x04....[Content_Types].xml",
                "an Excel workbook",
                "CSV",
            ),
            (b"\xd0\xcf\x11\xe0\xa1\xb1", "an Excel workbook", "CSV"),
            (b"PAR1\x15\x04", "a Parquet file", "to_csv"),
            (b"BZh91AY&SY\xd3\x17", "a bzip2 archive", "unpack"),
            (b"\x80\x04\x95....", "a pickle", "to_csv"),
            (&tar, "a tar archive", "unpack"),
            (&[b"\xff\xfe", &utf16[..]].concat(), "UTF-16", "iconv"),
            (&utf16, "UTF-16", "iconv"),
            (&big, "UTF-16", "iconv"),
            (&utf32, "UTF-32", "iconv -f UTF-32 "),
            (
                &[b"\0\0\xfe\xff", &b"\0\0\x001"[..]].concat(),
                "UTF-32",
                "iconv",
            ),
            (b"1,2\0,3\n", "no text", "to_csv"),
            (b"[{\"u\": 1}]", "a JSON array", "jq -c"),
            (b"[\n  {\"u\": 1}\n]", "a JSON array", "jq -c"),
            (b"[[1, 2, 3]]", "a JSON array of arrays", ".[] | @csv"),
            (b"[\n[1, 2, 3]\n]", "a JSON array of arrays", ".[] | @csv"),
            (b"[1, 2]\n[1, 3]\n", "a JSON array in each line", "'@csv'"),
            (b"<ratings>\n<r u='1'/>\n", "XML", "to_csv"),
            (b"\x1f\x8b\x08\0", "a gzip file within another", "once"),
            (
                b"PK\x03\x04....mimetypeapplication/vnd.oasis.opendocument.spreadsheet",
                "an OpenDocument sheet",
                "CSV",
            ),
            (b"PK\x03\x04....users.npy", "an archive of NumPy", "to_csv"),
            (b"{\n \"u\": 1\n}", "over several lines", "jq -c"),
            (
                b"{'reviewerID': 'A'}\n",
                "Python dictionaries",
                "json.dumps",
            ),
            (
                b"{u'username': u'Chaos Syren', u'hours': 0.1}\n",
                "Python dictionaries",
                "json.dumps",
            ),
            (b"1:\n1488844,3,2005-09-06\n", "Netflix", "awk"),
            (
                b"% by hand\n@relation ratings\n@attribute user\n",
                "ARFF",
                "@data",
            ),
            (b"# u: i\n1: 10 20\n2: 7\n", "an adjacency list", "awk"),
            (b"1: 10, 20\n", "an adjacency list", "awk"),
            (b"# all\n[{\"u\": 1}]", "a JSON array", "jq -c"),
            (b"<!DOCTYPE html>\n", "a web page", "fetch the file itself"),
            (b"sep=;\nuser;item\n", "a table for Excel", "tail -n +2"),
            (
                b"%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 5\n",
                "Matrix Market",
                "leave out that line",
            ),
            (
                b"version https://git-lfs.github.com/spec/v1\n",
                "Git LFS",
                "git lfs pull",
            ),
        ] {
            let fault = told(head).unwrap_err();
            assert!(
                fault.starts_with("it is ") && fault.contains(name) && fault.contains(remedy),
                "{fault}"
            );
        }
    }

    #[test]
    fn tables_are_told_from_json_lines() {
        for head in [
            &b""[..],
            b"1,2,3\n",
            b"{group},item\n",
            b"{user},item\n",
            b"[user],[item]\n",
            b"1:,2:\n",
            b"1:\n2:\n",
            b"1: 10\n2 10\n",
            b"1::10\n2::10\n",
            b"12:30 7\n",
            b"PK1,7\n",
            b"ORC1,7,3,1300000000\nPAR1,7,3,1300000000\n",
            b"PAR1,7\n",
            b"\xe9mile,7\n",
        ] {
            assert_eq!(told(head), Ok(Form::Delimited), "{head:?}");
        }
        for head in [&b"{\"u\": 1}\n"[..], b"\n { \"u\":1}\n", b"{}\n"] {
            assert_eq!(told(head), Ok(Form::JsonLines), "{head:?}");
        }
    }

    #[test]
    fn the_separator_is_the_usual_one_that_every_line_has_as_often() {
        let of = |text: &'static str| separator_of(text.split('\n').map(str::as_bytes));
        for (line, name) in [
            ("1\t2,3", "tabs"),
            ("1::2::3", "`::`"),
            ("a b,2;3", "commas"),
            ("1;2 3", "semicolons"),
            ("1|2", "`|`"),
            ("1 2", "blanks"),
            ("ann;\"Friends, S1\"\nben;\"Lost, S2\"", "semicolons"),
            ("1|Le Guin, Ursula\n2|Woolf", "`|`"),
            ("1|The Good, the Bad, the Ugly|5\n1|Heat|4", "`|`"),
            ("1;2;3,5\n1;3;4,0", "semicolons"),
            ("1,The Lord of the Rings,5", "commas"),
            ("1::Good, the Bad::5\n1::Heat::4", "`::`"),
        ] {
            assert_eq!(of(line).unwrap().1, name);
        }
        assert_eq!(of("12"), None);
    }
}
