//! Notes names that are probably not what they should be.

use csv::ByteRecord;

use super::dates::is_rounded;
use super::encoding;
use super::source::Unit;
use crate::records::{line_of, shown};

/// A number of lines, and the first of them.
#[derive(Default)]
pub(super) struct Counted {
    pub lines: u64,
    pub first: u64,
}

impl Counted {
    pub(super) fn add(&mut self, record: &ByteRecord) {
        if self.lines == 0 {
            self.first = line_of(record);
        }
        self.lines += 1;
    }
}

/// How many names look like others and are not, and the first of them.
#[derive(Default)]
pub(super) struct Noticed {
    /// Those with a character that cannot be seen.
    hidden: Counted,
    first_hidden: String,
    /// Those that are not UTF-8, and the first of them, one after the other.
    foreign: Counted,
    foreign_text: Vec<u8>,
    /// Those with the character that stands for one that was lost.
    lost: Counted,
    /// Those that begin with a quotation mark and have no other one to close it.
    open: Counted,
    /// Those that a spreadsheet has rounded.
    rounded: Counted,
    first_rounded: String,
}

/// How many bytes of names tell their encoding.
const ENOUGH: usize = 1 << 16;

impl Noticed {
    /// Returns whether a name may be odd, so that [`Self::add`] has to look at it.
    pub(super) fn may_be_odd(name: &[u8]) -> bool {
        let is_plain = |byte: &u8| (b' '..0x7f).contains(byte);
        let is_digit = |byte: &u8| byte.is_ascii_digit();
        !name.iter().all(is_plain)
            || name.starts_with(b"\"")
            || name.first().is_some_and(is_digit) && has_point_or_sign(name)
    }

    /// Looks at a name that has not been read before.
    pub(super) fn add(&mut self, name: &[u8], record: &ByteRecord) {
        let Ok(text) = std::str::from_utf8(name) else {
            self.foreign.add(record);
            if self.foreign_text.len() < ENOUGH {
                self.foreign_text.extend_from_slice(name);
                self.foreign_text.push(b' ');
            }
            return;
        };
        if text.contains(char::REPLACEMENT_CHARACTER) {
            self.lost.add(record);
            return;
        }
        let marks = name.iter().filter(|byte| **byte == b'"').count();
        if name.starts_with(b"\"") && marks % 2 == 1 {
            self.open.add(record);
        } else if has_hidden(text) {
            if self.hidden.lines == 0 {
                self.first_hidden = shown(name);
            }
            self.hidden.add(record);
        } else if has_point_or_sign(name) && is_rounded(text) {
            if self.rounded.lines == 0 {
                self.first_rounded = shown(name);
            }
            self.rounded.add(record);
        }
    }

    /// Returns what is wrong with names that stand for several others.
    pub(super) fn refusal(&self, unit: Unit) -> Option<String> {
        let Counted { lines, first } = self.rounded;
        let first = unit.at(first);
        (lines > 0).then(|| {
            format!(
                "names of users or items that a spreadsheet has rounded: {lines}, the first in {first}: {}; several \
                 users or items may have become one of them, so export the file anew, and open it with this column as \
                 text if at all",
                self.first_rounded
            )
        })
    }

    /// Returns a warning for each kind.
    pub(super) fn warnings(&self, unit: Unit) -> Vec<String> {
        let kinds = [
            (
                &self.foreign,
                "are not UTF-8",
                format!("; {}", encoding::advice(&self.foreign_text)),
            ),
            (
                &self.lost,
                "have U+FFFD in place of a letter",
                ", which an earlier conversion has lost: different names may have become one; export the file anew, as \
                 UTF-8"
                    .to_owned(),
            ),
            (
                &self.open,
                "begin with a quotation mark that nothing closes",
                ": it counts as a letter of the name".to_owned(),
            ),
            (
                &self.hidden,
                "have blanks or other characters that cannot be seen",
                format!(
                    ": {}; the same name without them counts as another one",
                    self.first_hidden
                ),
            ),
        ];
        let told = kinds.into_iter().filter(|(counted, ..)| counted.lines > 0);
        told.map(|(Counted { lines, first }, what, rest)| {
            let first = unit.at(*first);
            format!("names of users or items that {what}: {lines}, the first in {first}{rest}")
        })
        .collect()
    }
}

/// Returns whether a name with an `e` may be a number: `1.2e17` and `1e+17` are, and `12e4` may be any name.
fn has_point_or_sign(name: &[u8]) -> bool {
    name.iter().any(|byte| b"+.,".contains(byte))
}

/// Returns whether a text has a character that cannot be seen, such as a blank that does not break or one
/// without width.
pub(super) fn has_hidden(text: &str) -> bool {
    let before = std::iter::once(' ').chain(text.chars());
    before
        .zip(text.chars())
        .any(|(before, character)| is_hidden(character) && !changes(character, before))
}

fn is_hidden(character: char) -> bool {
    matches!(character, '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{1680}'
        | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}'
        | '\u{205f}'..='\u{206f}' | '\u{2800}' | '\u{3000}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
        || character.is_control()
}

/// Returns whether a character changes how the one before it looks: a variant of an emoji or of a Chinese
/// letter, or a part of a flag.
fn changes(character: char, before: char) -> bool {
    let is_tag = |character: char| matches!(character, '\u{e0020}'..='\u{e007f}');
    match character {
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => {
            before >= '\u{203c}' && !is_hidden(before)
        }
        _ => is_tag(character) && (before == '\u{1f3f4}' || is_tag(before)),
    }
}
