//! Tells JSON and what looks like it by the first lines of a text.

use serde::de::IgnoredAny;

use super::{Form, Refusal, begins};

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
const LINES_OF_ARRAY: Refusal = (
    "a JSON array with an object in each line",
    "take off the brackets and the commas, as with `sed 's/^[[[:space:]]*//; s/[],[:space:]]*$//; /^$/d' FILE > mended.jsonl`",
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

/// Returns what a text of JSON or of Python is: its form, or what is wrong with it; `None` of any other text.
/// The text begins with `head`. The slice `lines` has its first lines without comments.
pub(super) fn told(head: &[u8], lines: &[&[u8]]) -> Option<Result<Form, Refusal>> {
    let line = |place: usize| *lines.get(place).unwrap_or(&&b""[..]);
    let (first, second) = (line(0), line(1));
    if first.first() == Some(&RECORD_SEPARATOR) {
        return Some(Err(JSON_SEQUENCE));
    }
    if let Some(refusal) = in_brackets(first, second) {
        return Some(Err(refusal));
    }
    if [r#""{\""#, r#""[{\""#]
        .iter()
        .any(|start| begins(first, start))
    {
        return Some(Err((
            "JSON within a JSON text",
            "write one object in a line, as with `jq -c 'fromjson | (arrays | .[]), objects' FILE > mended.jsonl`",
        )));
    }
    if has_an_object_in_each_line(lines) {
        return Some(Err(LINES_OF_ARRAY));
    }
    let beginning = skeleton(&lines.concat());
    if let Some((_, refusal)) = JSON.iter().find(|(start, _)| beginning.starts_with(start)) {
        return Some(Err(*refusal));
    }
    let is_number = |text: &str| text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    let array = beginning.strip_prefix('[');
    if array.is_some_and(|rest| rest.is_empty() || is_number(rest)) {
        return Some(Err(JSON_ARRAY));
    }
    let has = |text: &[u8]| head.windows(text.len()).any(|part| part == text);
    let are_lines = has(b"}\n{") || has(b"}\r\n{") || second.starts_with(b"{\"");
    if let Some(refusal) = within(&beginning).filter(|_| !are_lines) {
        return Some(Err(refusal));
    }
    if first == b"{" {
        return Some(Err((
            "a JSON document over several lines",
            "write one object in a line, as with `jq -c . FILE > mended.jsonl`",
        )));
    }
    if beginning.starts_with("{\"") || beginning.starts_with("{}") {
        return Some(Ok(Form::JsonLines));
    }
    None
}

/// Returns whether a text is an array with one whole object in each line. A comma behind the last one, which a parser
/// of JSON refuses, does not matter to who takes the lines.
fn has_an_object_in_each_line(lines: &[&[u8]]) -> bool {
    let mut objects = lines.iter().enumerate().filter_map(|(number, line)| {
        let line = match number {
            0 => line.strip_prefix(b"[")?.trim_ascii_start(),
            _ => line,
        };
        let end = line.iter().rposition(|byte| !b"], \t".contains(byte))?;
        Some(&line[..=end])
    });
    let is_object =
        |text: &[u8]| text.starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(text).is_ok();
    let begins = lines.first().is_some_and(|line| line.starts_with(b"["));
    begins && objects.clone().count() > 1 && objects.all(is_object)
}

/// Returns what a text is whose first line is in brackets and no line of which is a JSON object, and what to do.
fn in_brackets(first: &[u8], second: &[u8]) -> Option<Refusal> {
    let inner = first.strip_prefix(b"[")?.strip_suffix(b"]")?;
    let has = |byte: u8| inner.contains(&byte);
    if !second.starts_with(b"[") {
        return (second.contains(&b'=') && !has(b',')).then_some((
            "a file of settings in sections (INI or TOML)",
            "take the file with the rows themselves",
        ));
    }
    if has(b'\'') && !has(b'"') {
        return Some((
            "a Python list in each line, and not JSON",
            "write them as CSV, as with `python3 -c 'import ast, csv, sys; csv.writer(sys.stdout).writerows(map(ast.literal_eval, \
             sys.stdin))' < FILE > mended.csv`",
        ));
    }
    if !has(b',') && !has(b'"') && has(b' ') {
        return Some((
            "an array of NumPy as it prints them",
            "leave out the brackets, as with `tr -s '[] ' ' ' < FILE | sed 's/^ //; s/ $//' > mended.txt`",
        ));
    }
    Some((
        "a JSON array in each line",
        "write them as CSV, as with `jq -r '@csv' FILE > mended.csv`",
    ))
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
