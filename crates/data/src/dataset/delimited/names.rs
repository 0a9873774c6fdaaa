//! Numbers the names of users and items, and finds those that are probably one and the same, written in
//! two ways.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use unicode_normalization::UnicodeNormalization;

use super::noticed::has_hidden;
use crate::records::shown;

/// Numbers of names, in the order of first appearance. The map is only looked up, never iterated.
#[derive(Default)]
pub(super) struct Names(HashMap<Box<[u8]>, u32>);

impl Names {
    /// Returns whether a name has been read.
    pub(super) fn has(&self, name: &[u8]) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn number(&mut self, name: &[u8]) -> Result<u32, String> {
        if let Some(&number) = self.0.get(name) {
            return Ok(number);
        }
        let number = u32::try_from(self.0.len()).map_err(|_| "more than 2^32 names")?;
        self.0.insert(name.into(), number);
        Ok(number)
    }
}

/// Returns a warning of names of one role that differ only in how they are written: `2` and `2.0`, `7`
/// and `07`, `Ann` and `ann`, `'Ann'` and `Ann`, `A &amp; B` and `A & B`, or an accent that is part of its letter or
/// a character of its own.
///
/// Names stay as they are: zeros before a number can have a meaning, and so can capital letters.
pub(super) fn alike(role: &str, names: &[Box<str>], known: &Names) -> Option<String> {
    // Millions of names may have capital letters, so their plain forms are not held.
    let mut written: HashMap<u64, &str> = HashMap::new();
    let mut twins = 0_usize;
    let mut first: Option<(&str, String)> = None;
    for name in names {
        let Some(plain) = plain(name).filter(|plain| **plain != **name) else {
            continue;
        };
        let twin = match known.has(plain.as_bytes()) {
            true => Some(plain),
            false => {
                let other = *written.entry(hash_of(&plain)).or_insert(name);
                let is_twin = other != &**name && self::plain(other).as_ref() == Some(&plain);
                is_twin.then(|| other.to_owned())
            }
        };
        if let Some(twin) = twin {
            twins += 1;
            first.get_or_insert((name, twin));
        }
    }
    let (name, twin) = first?;
    Some(format!(
        "{role} whose names differ from others only in how they are written: {twins}, as {} and {}; they count as \
         different {role}: if they are the same, write each in one way; if not, leave them",
        shown(twin.as_bytes()),
        shown(name.as_bytes())
    ))
}

/// Returns a warning of users or items of whom most stand in single quotes, as SQL writes them. A title may have
/// some of its own.
pub(super) fn in_single_quotes(names: [&[Box<str>]; 2], separator: &str) -> Option<String> {
    let is_quoted = |name: &str| name.len() > 1 && name.starts_with('\'') && name.ends_with('\'');
    let quoted = names.map(|names| {
        let quoted = names.iter().filter(|name| is_quoted(name)).count();
        if 2 * quoted > names.len() { quoted } else { 0 }
    });
    let quoted: usize = quoted.iter().sum();
    (quoted > 0).then(|| {
        format!(
            "names of users or items that stand in single quotes: {quoted}: these count as letters of the names; {}",
            without_single_quotes(separator)
        )
    })
}

/// Returns how to put double quotes in place of single ones. A quote between letters stays, and a doubled one is
/// one: Python's `csv` would lose that of `'O'Hara'`.
pub(super) fn without_single_quotes(separator: &str) -> String {
    let pattern = separator.chars().map(|character| match character {
        '\t' => "\\t".to_owned(),
        mark if mark.is_ascii_punctuation() => format!("\\{mark}"),
        other => other.to_string(),
    });
    let pattern: String = pattern.collect();
    if pattern.is_empty() {
        return "take off the single quotes".to_owned();
    }
    format!(
        r#"take off the single quotes, as with `python3 -c 'import re, sys; sys.stdout.writelines(re.sub(r"(^|{pattern})\x27(.*?)\x27(?={pattern}|$)", lambda found: found[1] + "\"" + found[2].replace("\x27\x27", "\x27").replace("\"", "\"\"") + "\"", line) for line in sys.stdin)' < FILE > mended.csv`"#
    )
}

fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Returns the plain form of a name: a whole number without zeros around it, or composed small letters of usual
/// width, without what web pages and programs put in place of a character or around the name. `None` if it cannot
/// have another one.
fn plain(name: &str) -> Option<String> {
    if name
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return plain_number(name);
    }
    // Another warning is of what cannot be seen.
    if has_hidden(name) {
        return Some(name.to_lowercase().nfc().collect());
    }
    let mut folded: String = name.nfkc().flat_map(char::to_lowercase).collect();
    for (written, meant) in [
        ("&amp;", "&"),
        ("&#39;", "'"),
        ("&quot;", "\""),
        ("%20", " "),
    ] {
        if folded.contains(written) {
            folded = folded.replace(written, meant);
        }
    }
    let words: Vec<&str> = folded.split_whitespace().collect();
    let mut text = words.join(" ");
    const AROUND: [(char, char); 8] = [
        ('\'', '\''),
        ('"', '"'),
        ('\u{2018}', '\u{2019}'),
        ('\u{201c}', '\u{201d}'),
        ('\u{201e}', '\u{201c}'),
        ('\u{ab}', '\u{bb}'),
        ('{', '}'),
        ('(', ')'),
    ];
    let bare = |text: &str| {
        let without = |(open, close): &(char, char)| {
            let inner = text.strip_prefix(*open)?.strip_suffix(*close)?;
            (!inner.is_empty()).then(|| inner.trim().to_owned())
        };
        AROUND.iter().find_map(without)
    };
    if let Some(inner) = bare(&text) {
        text = inner;
    }
    let number = text.strip_prefix('+').unwrap_or(&text);
    plain_number(number).or(Some(text))
}

/// Returns a whole number without zeros around it; `None` if a text is none.
fn plain_number(name: &str) -> Option<String> {
    let whole = name.split_once('.').map_or(name, |(whole, rest)| {
        match rest.bytes().all(|byte| byte == b'0') {
            true => whole,
            false => name,
        }
    });
    if whole.is_empty() || !whole.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = whole.trim_start_matches('0');
    Some(if number.is_empty() { "0" } else { number }.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a name has the plain form of another one, or none although there are several ways to
    /// write it.
    #[test]
    fn names_have_one_plain_form() {
        for (name, form) in [
            ("2", Some("2")),
            ("2.0", Some("2")),
            ("2.00", Some("2")),
            ("02", Some("2")),
            ("0", Some("0")),
            ("000", Some("0")),
            ("2.5", None),
            ("+7", Some("7")),
            ("\u{ff17}", Some("7")),
            ("'ann'", Some("ann")),
            ("\u{201c}Ann\u{201d}", Some("ann")),
            ("Le  Guin", Some("le guin")),
            ("Tom &amp; Jerry", Some("tom & jerry")),
            ("The%20Wire", Some("the wire")),
            ("{A-1}", Some("a-1")),
            ("B00A", Some("b00a")),
            ("\u{c9}T\u{c9}", Some("\u{e9}t\u{e9}")),
            ("-2", Some("-2")),
            ("e\u{301}", Some("\u{e9}")),
            ("\u{e9}", Some("\u{e9}")),
        ] {
            assert_eq!(plain(name).as_deref(), form, "{name}");
        }
    }
}
