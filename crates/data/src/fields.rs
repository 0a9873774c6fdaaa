//! Splits a line into fields, which may be quoted.

use std::borrow::Cow;

use csv::ByteRecord;

/// Appends the fields of `line` to `record`, and returns whether the last of them begins with a
/// quotation mark that a later line may close.
///
/// Blanks as separators may be several, and stand before the first field. `has_escapes` says that `\"`
/// is a quotation mark of its field, as Spark writes it. Without it, it is one where the field would
/// not be closed otherwise.
pub(crate) fn split(
    line: &[u8],
    separator: &[u8],
    has_escapes: bool,
    record: &mut ByteRecord,
) -> bool {
    let mut rest = Some(without_gap(line, separator));
    let mut is_open = false;
    while let Some(text) = rest {
        let field = first_of(text, separator, has_escapes);
        record.push_field(&field.text);
        is_open |= field.is_open;
        rest = field.rest;
    }
    is_open
}

/// Returns whether an end of line stands outside of quotation marks.
pub(crate) fn has_bare_break(text: &[u8], separator: &[u8]) -> bool {
    let mut rest = Some(text);
    while let Some(text) = rest {
        let field = first_of(text, separator, false);
        if !field.is_quoted && field.text.contains(&b'\n') {
            return true;
        }
        rest = field.rest;
    }
    false
}

struct Field<'t> {
    text: Cow<'t, [u8]>,
    is_quoted: bool,
    /// Whether it begins with a quotation mark that is not closed in this text.
    is_open: bool,
    /// What follows its separator; `None` at the end of the line.
    rest: Option<&'t [u8]>,
}

fn first_of<'t>(text: &'t [u8], separator: &[u8], has_escapes: bool) -> Field<'t> {
    let mut read = quoted(text, separator, has_escapes);
    let is_torn = matches!(read, Quoted::Open | Quoted::Torn);
    if is_torn && !has_escapes && has_escape(text) {
        let escaped = quoted(text, separator, true);
        if matches!(escaped, Quoted::Closed(..)) {
            read = escaped;
        }
    }
    match read {
        Quoted::Closed(field, rest) => Field {
            text: field.into(),
            is_quoted: true,
            is_open: false,
            rest: rest.map(|rest| without_gap(rest, separator)),
        },
        unquoted => {
            let end = find(text, separator);
            let rest = end.map(|end| &text[end + separator.len()..]);
            // Blanks behind the last field separate nothing.
            let is_last = |rest: &&[u8]| separator != b" " || !rest.trim_ascii().is_empty();
            Field {
                text: text[..end.unwrap_or(text.len())].into(),
                is_quoted: false,
                is_open: matches!(unquoted, Quoted::Open),
                rest: rest
                    .filter(is_last)
                    .map(|rest| without_gap(rest, separator)),
            }
        }
    }
}

/// Returns whether a line has a quotation mark behind a backslash.
pub(crate) fn has_escape(line: &[u8]) -> bool {
    line.windows(2).any(|two| two == b"\\\"")
}

/// Returns a text without the blanks before it, if blanks separate fields.
fn without_gap<'t>(text: &'t [u8], separator: &[u8]) -> &'t [u8] {
    match separator {
        b" " => text.trim_ascii_start(),
        _ => text,
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

/// What a text begins with.
enum Quoted<'t> {
    /// A quoted field, and what follows its separator (`None` at the end of the line).
    Closed(Vec<u8>, Option<&'t [u8]>),
    /// A quotation mark that is not closed in this text.
    Open,
    /// A quotation mark that is closed before no separator, so that it belongs to its field.
    Torn,
    /// An unquoted field.
    No,
}

/// Returns the quoted field that a text begins with. Blanks may stand around it, unless they separate
/// fields.
fn quoted<'t>(text: &'t [u8], separator: &[u8], has_escapes: bool) -> Quoted<'t> {
    let unblanked = |text: &'t [u8]| {
        let is_gap = |byte: &u8| b" \t".contains(byte) && !separator.contains(byte);
        let gap = text.iter().take_while(|byte| is_gap(byte)).count();
        &text[gap..]
    };
    let Some(mut rest) = unblanked(text).strip_prefix(b"\"") else {
        return Quoted::No;
    };
    let mut field = Vec::new();
    loop {
        let is_mark = |byte: &u8| *byte == b'"' || has_escapes && *byte == b'\\';
        let Some(mark) = rest.iter().position(is_mark) else {
            return Quoted::Open;
        };
        field.extend_from_slice(&rest[..mark]);
        let is_escape = rest[mark] == b'\\';
        rest = &rest[mark + 1..];
        if is_escape {
            match rest.first() {
                Some(&byte) if b"\"\\".contains(&byte) => {
                    field.push(byte);
                    rest = &rest[1..];
                }
                _ => field.push(b'\\'),
            }
            continue;
        }
        let behind = [rest, unblanked(rest)];
        if behind[1].is_empty() {
            return Quoted::Closed(field, None);
        }
        if let Some(after) = behind.iter().find_map(|text| text.strip_prefix(separator)) {
            let is_end = separator == b" " && after.trim_ascii().is_empty();
            return Quoted::Closed(field, (!is_end).then_some(after));
        }
        let Some(after) = rest.strip_prefix(b"\"") else {
            return Quoted::Torn;
        };
        rest = after;
        field.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn fields(line: &str, separator: &str) -> Vec<String> {
        let mut record = ByteRecord::new();
        split(line.as_bytes(), separator.as_bytes(), false, &mut record);
        let text = |field: &[u8]| String::from_utf8(field.to_vec()).unwrap();
        record.iter().map(text).collect()
    }

    #[test]
    fn quotation_marks_enclose_a_field_only_where_they_are_closed_before_a_separator() {
        for separator in [",", "::"] {
            for (line, expected) in [
                (r#""a,b",2"#, vec!["a,b", "2"]),
                (r#"1,"say ""x""""#, vec!["1", "say \"x\""]),
                (r#""","""#, vec!["", ""]),
                (r#""Heroes" live,2"#, vec!["\"Heroes\" live", "2"]),
                (r#"12",2"#, vec!["12\"", "2"]),
                (r#""open,2"#, vec!["\"open", "2"]),
                (r#"",""#, vec![","]),
                (",", vec!["", ""]),
                (r#""a", "b,c" ,"d" "#, vec!["a", "b,c", "d"]),
                (" \t\"a,b\"\t,2", vec!["a,b", "2"]),
                (r#""say \"a\", b",2"#, vec![r#"say "a", b"#, "2"]),
                (r#""say \"a, b\".",2"#, vec![r#"say "a, b"."#, "2"]),
                (r#""C:\",2"#, vec!["C:\\", "2"]),
            ] {
                let of = |text: &str| text.replace(',', separator);
                let expected: Vec<String> = expected.into_iter().map(of).collect();
                assert_eq!(fields(&of(line), separator), expected, "{line}");
            }
        }
    }

    /// If this fails, a column that is aligned by blanks is two columns.
    #[test]
    fn blanks_between_fields_are_one_separator() {
        for line in ["a b 5", "  a  b   5  ", r#" "a" "b"  5"#, r#"a b "5" "#] {
            assert_eq!(fields(line, " "), ["a", "b", "5"], "{line:?}");
        }
        assert_eq!(fields("\ta\t\t5", "\t"), ["", "a", "", "5"]);
    }
}
