//! Faults and the texts that they are in: where a mistake is, and how it is shown.

use std::cmp::Ordering;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::error::Error;

/// A stretch of one of the [`Sources`], in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) source: usize,
    pub(super) span: Range<usize>,
}

impl Place {
    /// The scenario file as a whole, which is the place of what is missing from it.
    pub(super) const FILE: Self = Self { source: Sources::FILE, span: 0..0 };
}

/// One mistake of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) place: Place,
    pub(super) message: String,
}

impl Fault {
    /// Makes a fault with a message of one line, whatever the message quotes of the text: line ends and other control
    /// characters, which would command a terminal, are escaped.
    pub(super) fn new(place: &Place, message: impl AsRef<str>) -> Self {
        let mut line = String::new();
        for character in message.as_ref().chars() {
            if character.is_control() { line.extend(character.escape_default()) } else { line.push(character) }
        }
        Self { place: place.clone(), message: line }
    }
}

/// The texts that a scenario is made of: the file, then one per override.
///
/// Each keeps its own offsets, so an override never shifts what is said about the file.
#[derive(Debug)]
pub(super) struct Sources<'a> {
    texts: Vec<(&'a str, &'a str)>,
}

impl<'a> Sources<'a> {
    /// The index of the scenario file.
    pub(super) const FILE: usize = 0;

    /// Makes the sources. `file` is the name that faults are reported under.
    pub(super) fn new(file: &'a str, text: &'a str, overrides: &'a [String]) -> Self {
        let overrides = overrides.iter().map(|text| ("--set", text.as_str()));
        Self { texts: std::iter::once((file, text)).chain(overrides).collect() }
    }

    /// Returns an error that lists every fault in the order of the texts, with line, column and an excerpt, and then
    /// their number.
    pub(super) fn report(&self, mut faults: Vec<Fault>) -> Error {
        faults.sort_by(|a, b| order(&a.place, &b.place).then_with(|| a.message.cmp(&b.message)));
        faults.dedup();
        let mut report = String::new();
        for fault in &faults {
            report.push_str(&self.render(fault));
            report.push('\n');
        }
        let count = faults.len();
        let (file, _) = self.texts[Self::FILE];
        report.push_str(&format!("{file}: {count} fault{}", if count == 1 { "" } else { "s" }));
        Error::Scenario { report, faults: count }
    }

    fn render(&self, fault: &Fault) -> String {
        // The index is valid: every place is made with the index of the text that it was parsed from.
        let (name, text) = self.texts[fault.place.source];
        let (line, column) = line_and_column(text, fault.place.span.start);
        let headline = format!("{name}:{line}:{column}: {}\n", fault.message);
        if fault.place == Place::FILE {
            return headline;
        }
        let snippet =
            Snippet::source(text).annotation(AnnotationKind::Primary.span(first_line(text, &fault.place.span)));
        let excerpt = Renderer::plain().render(&[Group::with_level(Level::ERROR).element(snippet)]);
        headline + &excerpt + "\n"
    }
}

fn order(a: &Place, b: &Place) -> Ordering {
    (a.source, a.span.start, a.span.end).cmp(&(b.source, b.span.start, b.span.end))
}

/// Returns the line and column of `offset`, counted in characters and both from 1.
fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// Returns the part of `span` on its first line, so that a fault in a value of many lines is shown where the value
/// starts.
fn first_line(text: &str, span: &Range<usize>) -> Range<usize> {
    let length = text.get(span.clone()).and_then(|stretch| stretch.find(['\r', '\n'])).unwrap_or(span.len());
    span.start..span.start + length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_not_bytes() {
        // If columns were counted in bytes, an editor would jump past the fault on every line with an umlaut.
        let text = "a = 1\nb = \"ü\"  x";
        assert_eq!(line_and_column(text, text.len() - 1), (2, 10));
    }

    #[test]
    fn a_message_stays_one_line_whatever_it_quotes() {
        // A key can be any string. Without escapes, this one would look like a second fault and colour the terminal.
        let fault = Fault::new(&Place::FILE, "unknown key `ä\nf.toml:1:1: \u{1b}[31m`");
        assert_eq!(fault.message, "unknown key `ä\\nf.toml:1:1: \\u{1b}[31m`");
    }

    #[test]
    fn faults_are_listed_in_the_order_of_the_file_then_of_the_overrides_and_counted() {
        let overrides = vec!["seed=x".to_owned()];
        let sources = Sources::new("f.toml", "a = 1\nb = 2\n", &overrides);
        let faults = vec![
            Fault::new(&Place { source: 1, span: 5..6 }, "third"),
            Fault::new(&Place { source: 0, span: 6..7 }, "second"),
            Fault::new(&Place { source: 0, span: 0..1 }, "first"),
            Fault::new(&Place { source: 0, span: 0..1 }, "first"),
        ];
        insta::assert_snapshot!(sources.report(faults));
    }
}
