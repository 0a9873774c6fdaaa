//! Tells what a text is by its first lines.

use super::dump::dump;
use super::{
    Form, Refusal, WRITE_AS_TEXT, begins, is_comment, json, refusal_of_binary, several_lines,
};

/// Whether a text is that, told by its first line and its second one.
type Test = fn(&[u8], &[u8]) -> bool;

/// What is no table of ratings, told by its first line and its second one, neither of which is a comment.
const TEXTS: [(Refusal, Test); 10] = [
    (
        (
            "a web page",
            "if the download went to a page of its provider, fetch the file itself; if the page has the table, \
             `pandas.read_html` reads it",
        ),
        |first, _| is_of_web(first),
    ),
    (("XML", WRITE_AS_TEXT), |first, _| {
        begins(first, "<?xml") || first.starts_with(b"<") && first.ends_with(b">")
    }),
    (
        ("an ARFF file", "leave out its lines down to `@data`"),
        |first, _| begins(first, "@relation"),
    ),
    (
        (
            "a tuple in parentheses in each line",
            "take them off, as with `sed -E 's/^[(]//; s/[)],?\\r?$//' FILE > mended.csv`",
        ),
        |first, second| is_tuple(first) && (second.is_empty() || is_tuple(second)),
    ),
    (
        (
            "a table for Excel, whose first line has the separator alone",
            "leave out that line, as with `tail -n +2 FILE > mended.csv`",
        ),
        |first, _| begins(first, "sep=") || begins(first, "\"sep="),
    ),
    (
        (
            "a table with a frame, as clients of databases print it",
            "let the client write CSV, or take the frame off, as with `sed '/^[-+|:= ]*$/d; /^(*[0-9][0-9]* rows*/d; \
             s/^|//; s/|$//' FILE > ratings.txt`",
        ),
        |first, second| is_rule(first) || is_rule(second),
    ),
    (
        (
            "a list of ratings in blocks, with their item or their user above them",
            "write that into each line; if it is the item, as Netflix has it, with `awk -F, '{ sub(/\\r$/, \"\") } /:$/ { \
             item = substr($1, 1, length($1) - 1); next } { print $1 \",\" item \",\" $2 \",\" $3 }' FILE > mended.csv`; \
             if it is the user, with `awk -F, '{ sub(/\\r$/, \"\") } /:$/ { user = $1; sub(/:$/, \"\", user); next } { \
             print user \",\" $0 }' FILE > mended.csv`",
        ),
        |first, second| is_block(first) && !second.is_empty() && !is_block(second),
    ),
    (
        (
            "a list of ratings in blocks, with their user and the number of its lines above them",
            "write the user into each line, as with `awk -F '|' 'NF == 2 { user = $1; next } { print user \"\\t\" $0 }' FILE > \
             mended.txt`",
        ),
        |first, second| is_counted_block(first) && second.contains(&b'\t'),
    ),
    (
        (
            "a list of the items of a user in each line (an adjacency list)",
            WRITE_PAIRS,
        ),
        |first, second| is_list(first) && (second.is_empty() || is_list(second)),
    ),
    (
        (
            "a list of numbers with values in each line, as libsvm has it",
            "write one pair in a line; if the first number is the user, with `awk '{ for (i = 2; i <= NF; i++) { \
             split($i, pair, \":\"); print $1, pair[1], pair[2] } }' FILE > ratings.txt`; if it is the rating of the user \
             and the item behind it, with `awk '{ split($2, user, \":\"); split($3, item, \":\"); print user[1], item[1], $1 \
             }' FILE > ratings.txt`",
        ),
        |first, second| is_libsvm(first) && (second.is_empty() || is_libsvm(second)),
    ),
];

/// Returns the form of a text that begins with `head`, whose first lines are `lines`.
///
/// # Errors
/// What is wrong with a text that cannot be read, and what to do.
pub(crate) fn form_of<'h>(
    head: &[u8],
    lines: impl Iterator<Item = &'h [u8]>,
) -> Result<Form, String> {
    if let Some(fault) = refusal_of_binary(head) {
        return Err(fault);
    }
    let refused = |(name, remedy): Refusal| Err(format!("it is {name}: {remedy}"));
    let mut lines = lines.filter(|line| !line.is_empty()).peekable();
    if let Some(line) = lines.peek().filter(|line| begins(line, "%%MatrixMarket")) {
        return refused(matrix_market(line));
    }
    let lines: Vec<&[u8]> = lines
        .filter(|line| !is_comment(line, b""))
        .take(40)
        .collect();
    let line = |place: usize| *lines.get(place).unwrap_or(&&b""[..]);
    let (first, second) = (line(0), line(1));
    if let Some(told) = json::told(head, &lines) {
        return told.or_else(refused);
    }
    if let Some(refusal) = dump(&lines) {
        return refused(refusal);
    }
    if is_yaml(first, second) {
        return refused((
            "a YAML document",
            "write one JSON object in a line, as with `python3 -c 'import json, sys, yaml; [print(json.dumps(row, \
             default=str)) for row in yaml.safe_load(sys.stdin)]' < FILE > mended.jsonl` (with PyYAML)",
        ));
    }
    let of_two = TEXTS.iter().find(|(_, is)| is(first, second));
    let refusal = of_two.map(|(refusal, _)| *refusal);
    match refusal.or_else(|| several_lines::refusal(&lines)) {
        Some(refusal) => refused(refusal),
        None => Ok(Form::Delimited),
    }
}

/// Returns what a file of Matrix Market is, whose first line is `line`, and what to do.
fn matrix_market(line: &[u8]) -> Refusal {
    let mut words = line.split(u8::is_ascii_whitespace);
    match words.any(|word| word.eq_ignore_ascii_case(b"array")) {
        true => (
            "a dense Matrix Market file, whose values stand one in a line, column by column",
            "write one rating in a line; if a row is a user and 0 is no rating, with `grep -v % FILE | awk 'NR == 1 { rows = \
             $1; next } $1 != 0 { place = NR - 2; print place % rows + 1, int(place / rows) + 1, $1 }' > ratings.txt`",
        ),
        false => (
            "a Matrix Market file, whose first line of numbers has the sizes",
            "leave out that line and those with `%`, as with `grep -v % FILE | tail -n +2 > ratings.txt`",
        ),
    }
}

/// Returns whether a line begins with an element of HTML. Not every page has `<html>` first.
fn is_of_web(line: &[u8]) -> bool {
    const ELEMENTS: [&str; 12] = [
        "!doctype html",
        "html",
        "head",
        "body",
        "title",
        "meta",
        "link",
        "script",
        "table",
        "div",
        "p",
        "h1",
    ];
    let Some(inner) = line.strip_prefix(b"<") else {
        return false;
    };
    let is = |element: &&str| {
        let behind = inner.get(element.len());
        begins(inner, element) && behind.is_none_or(|byte| b" >/".contains(byte))
    };
    ELEMENTS.iter().any(is)
}

/// Returns whether a line is a number with a colon, and numbers behind it.
fn is_list(line: &[u8]) -> bool {
    let mut words = line.split(|byte| b" \t,".contains(byte));
    let is_number = |word: &[u8]| word.iter().all(u8::is_ascii_digit);
    words.next().is_some_and(is_block)
        && words.clone().any(|word| !word.is_empty())
        && words.all(is_number)
}

/// Returns whether a line stands in parentheses, with commas between its fields.
fn is_tuple(line: &[u8]) -> bool {
    let line = line.strip_suffix(b",").unwrap_or(line);
    let inner = line
        .strip_prefix(b"(")
        .and_then(|line| line.strip_suffix(b")"));
    inner.is_some_and(|inner| {
        inner.contains(&b',') && !inner.iter().any(|byte| b"()".contains(byte))
    })
}

/// Returns whether a line is a number or a name, and numbers behind it that have a value each, as in
/// `1 3:1 7:0.5`. One pair behind a name may be a time.
fn is_libsvm(line: &[u8]) -> bool {
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    let is_pair = |word: &str| {
        word.split_once(':')
            .is_some_and(|(place, value)| place.parse::<u64>().is_ok() && is_number(value))
    };
    let Ok(line) = std::str::from_utf8(line) else {
        return false;
    };
    let mut words = line.split_ascii_whitespace();
    let first = words.next().unwrap_or_default();
    let least = if is_number(first) { 1 } else { 2 };
    !first.contains(':') && words.clone().count() >= least && words.all(is_pair)
}

/// What to do with a list of items in each line.
pub(crate) const WRITE_PAIRS: &str = "write one pair in a line, as with `awk '{ gsub(/[:,;|]/, \" \"); for (i = 2; i <= NF; i++) \
                                      print $1, $i }' FILE > pairs.txt`";

/// Returns whether a text begins as a list of YAML does: a hyphen, a key and a colon, and another key below.
fn is_yaml(first: &[u8], second: &[u8]) -> bool {
    let has_key = |line: &[u8]| {
        let key = line.iter().position(|byte| *byte == b':');
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-\"'".contains(byte);
        key.is_some_and(|end| {
            end > 0
                && line[..end].iter().all(is_word)
                && matches!(line.get(end + 1), None | Some(b' '))
        })
    };
    let of_list = |line: &[u8]| {
        line.strip_prefix(b"- ")
            .is_some_and(|rest| has_key(rest.trim_ascii()))
    };
    match first {
        b"---" => of_list(second),
        _ => of_list(first) && has_key(second.strip_prefix(b"- ").unwrap_or(second)),
    }
}

/// Returns whether a line is a number and a colon.
fn is_block(line: &[u8]) -> bool {
    line.strip_suffix(b":")
        .is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

/// Returns whether a line is two numbers with a stroke between them, as heads of the KDD Cup of 2011 are.
fn is_counted_block(line: &[u8]) -> bool {
    let is_number = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    let words: Vec<&[u8]> = line.split(|byte| *byte == b'|').collect();
    words.len() == 2 && words.into_iter().all(is_number)
}

/// Returns whether a line only draws the frame of a table.
fn is_rule(line: &[u8]) -> bool {
    line.len() > 2
        && line.iter().all(|byte| b"+-|:= ".contains(byte))
        && line.windows(2).any(|two| two == b"--")
}
