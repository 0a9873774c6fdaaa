//! Tells what a text is by its first lines.

use super::dump::dump;
use super::{Form, WRITE_AS_TEXT, is_comment, refusal_of_binary, several_lines};

/// What a text is that cannot be read, and what to do.
pub(super) type Refusal = (&'static str, &'static str);

/// Whether a text is that, told by its first line and its second one.
type Test = fn(&[u8], &[u8]) -> bool;

/// What is no table of ratings, told by its first line and its second one, neither of which is a comment.
const TEXTS: [(Refusal, Test); 10] = [
    (
        (
            "a web page",
            "the download went to a page of its provider; fetch the file itself",
        ),
        |first, _| begins(first, "<!doctype") || begins(first, "<html"),
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

/// What JSON has no object in each line, by its beginning: without blanks, with `0` for numbers in
/// quotation marks and `k` for texts.
const JSON: [(&str, Refusal); 12] = [
    (
        "{\"k\":{\"0\":",
        (
            "a JSON document of columns, as `frame.to_json()` of pandas writes it",
            OF_COLUMNS,
        ),
    ),
    (
        "{\"0\":{\"k\":",
        (
            "a JSON document of numbered rows",
            "write one object in a line, as with `jq -c '.[]' FILE > mended.jsonl`",
        ),
    ),
    (
        "{\"columns\":[",
        ("a JSON document with columns and data", OF_DATA),
    ),
    (
        "{\"schema\":{\"fields\":",
        (
            "a JSON document with a table",
            "write one object in a line, as with `jq -c '.data[]' FILE > mended.jsonl`",
        ),
    ),
    ("[{'", PYTHON_LIST),
    ("[{u'", PYTHON_LIST),
    ("{'", PYTHON),
    ("{u'", PYTHON),
    ("{u\"", PYTHON),
    (
        "[[",
        (
            "a JSON array of arrays",
            "write them as CSV, as with `jq -r '.[] | @csv' FILE > mended.csv`",
        ),
    ),
    ("[{", JSON_ARRAY),
    ("[\"", JSON_ARRAY),
];

/// What a single JSON object is that has the table within it.
fn within(beginning: &str) -> Option<Refusal> {
    let is_map = |start: &&str| {
        let inner = beginning.strip_prefix(*start);
        inner.is_some_and(|inner| inner.starts_with(|c: char| c == '-' || c.is_ascii_digit()))
    };
    if ["{\"k\":{\"k\":", "{\"0\":{\"0\":"].iter().any(is_map) {
        return Some((
            "a JSON document with an object of ratings for each user",
            "write one object in a line, as with `jq -c 'to_entries[] | .key as $user | .value | to_entries[] | {user: \
             $user, item: .key, rating: .value}' FILE > mended.jsonl`",
        ));
    }
    let mut kinds = WITHIN.iter();
    let (_, refusal) = kinds.find(|(part, _)| beginning.contains(part))?;
    beginning.starts_with('{').then_some(*refusal)
}

/// What a single JSON object has within it, where that is the table, as [`JSON`] has it.
const WITHIN: [(&str, Refusal); 3] = [
    (
        "{\"0\":[",
        (
            "a JSON document with an array of items for each user",
            "write one object in a line, as with `jq -c 'to_entries[] | .key as $user | .value[] | {user: $user} + \
             (objects // {item: .})' FILE > mended.jsonl`",
        ),
    ),
    (
        "\"k\":[{\"",
        (
            "a JSON document with an array of objects in it",
            "write one object in a line, as with `jq -c 'first(.. | arrays | select(.[0] | type == \"object\"))[]' FILE > \
             mended.jsonl`",
        ),
    ),
    (
        "\"k\":[[",
        (
            "a JSON document with an array of arrays in it",
            "write them as CSV, as with `jq -r 'first(.. | arrays | select(.[0] | type == \"array\"))[] | @csv' FILE > \
             mended.csv`",
        ),
    ),
];

/// What begins each object of a JSON text sequence.
const RECORD_SEPARATOR: u8 = 0x1e;

const JSON_SEQUENCE: Refusal = (
    "a JSON text sequence, as `jq --seq` writes it",
    "write one object in a line, as with `tr -d '\\036' < FILE | jq -c . > mended.jsonl`",
);
const JSON_ARRAY: Refusal = (
    "a JSON array",
    "write one object in a line, as with `jq -c '.[]' FILE > mended.jsonl`",
);
const OF_COLUMNS: &str = "write one object in a line, as with `jq -c '. as $all | .[keys_unsorted[0]] | keys_unsorted[] as $row | $all | \
                          map_values(.[$row])' FILE > mended.jsonl`";
const OF_DATA: &str =
    "write it as CSV, as with `jq -r '.columns, .data[] | @csv' FILE > mended.csv`";
const PYTHON: Refusal = (
    "a list of Python dictionaries, and not JSON",
    "write each as JSON, as with `python3 -c 'import ast, json, sys; [print(json.dumps(ast.literal_eval(line))) for line \
     in sys.stdin]' < FILE > mended.jsonl`",
);
const PYTHON_LIST: Refusal = (
    "a list of Python dictionaries, and not JSON",
    "write each as JSON, as with `python3 -c 'import ast, json, sys; [print(json.dumps(row)) for row in \
     ast.literal_eval(sys.stdin.read())]' < FILE > mended.jsonl`",
);

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
    if (lines.peek()).is_some_and(|line| begins(line, "%%MatrixMarket")) {
        return refused((
            "a Matrix Market file, whose first line of numbers has the sizes",
            "leave out that line and those with `%`, as with `grep -v % FILE | tail -n +2 > ratings.txt`",
        ));
    }
    let lines: Vec<&[u8]> = lines
        .filter(|line| !is_comment(line, b""))
        .take(40)
        .collect();
    let line = |place: usize| *lines.get(place).unwrap_or(&&b""[..]);
    let (first, second) = (line(0), line(1));
    if first.first() == Some(&RECORD_SEPARATOR) {
        return refused(JSON_SEQUENCE);
    }
    if first.starts_with(b"[") && first.ends_with(b"]") && second.starts_with(b"[") {
        return refused((
            "a JSON array in each line",
            "write them as CSV, as with `jq -r '@csv' FILE > mended.csv`",
        ));
    }
    if [r#""{\""#, r#""[{\""#]
        .iter()
        .any(|start| begins(first, start))
    {
        return refused((
            "JSON within a JSON text",
            "write one object in a line, as with `jq -c 'fromjson | (arrays | .[]), objects' FILE > mended.jsonl`",
        ));
    }
    let beginning = skeleton(&lines.concat());
    if let Some((_, refusal)) = JSON.iter().find(|(start, _)| beginning.starts_with(start)) {
        return refused(*refusal);
    }
    let is_number = |text: &str| text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    let array = beginning.strip_prefix('[');
    if array.is_some_and(|rest| rest.is_empty() || is_number(rest)) {
        return refused(JSON_ARRAY);
    }
    let has = |text: &[u8]| head.windows(text.len()).any(|part| part == text);
    let are_lines = has(b"}\n{") || has(b"}\r\n{") || second.starts_with(b"{\"");
    if let Some(refusal) = within(&beginning).filter(|_| !are_lines) {
        return refused(refusal);
    }
    if first == b"{" {
        return refused((
            "a JSON document over several lines",
            "write one object in a line, as with `jq -c . FILE > mended.jsonl`",
        ));
    }
    if beginning.starts_with("{\"") || beginning.starts_with("{}") {
        return Ok(Form::JsonLines);
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

/// Returns the beginning of a text as [`JSON`] has it.
fn skeleton(text: &[u8]) -> String {
    let mut skeleton = String::new();
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first()
        && skeleton.len() < 200
    {
        rest = behind;
        if byte.is_ascii_whitespace() {
            continue;
        }
        skeleton.push(byte.into());
        if b"\"'".contains(&byte) {
            let end = rest.iter().position(|other| *other == byte);
            let (inner, behind) = rest.split_at(end.unwrap_or(rest.len()));
            skeleton += match inner {
                b"columns" | b"schema" | b"fields" => std::str::from_utf8(inner).unwrap_or("k"),
                _ if !inner.is_empty() && inner.iter().all(u8::is_ascii_digit) => "0",
                _ => "k",
            };
            skeleton.extend(behind.first().map(|_| char::from(byte)));
            rest = behind.get(1..).unwrap_or_default();
        }
    }
    skeleton
}

/// Returns whether a line begins with `text`, in capital letters or small ones.
pub(super) fn begins(line: &[u8], text: &str) -> bool {
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

/// Returns whether a line stands in parentheses, with commas between its fields.
fn is_tuple(line: &[u8]) -> bool {
    let line = line.strip_suffix(b",").unwrap_or(line);
    line.starts_with(b"(") && line.ends_with(b")") && line.contains(&b',')
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
