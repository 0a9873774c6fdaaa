//! Faults and the texts that they are in: where a mistake is, and how it is shown.

use std::borrow::Cow;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use fedrecsim_core::Error;

/// A stretch of one of the [`Sources`], in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub source: usize,
    pub span: Range<usize>,
}

impl Place {
    /// The scenario file as a whole, which is the place of what is missing from it.
    pub const FILE: Self = Self {
        source: Sources::FILE,
        span: 0..0,
    };

    /// Makes the place of a stretch of a source.
    pub(super) fn new(source: usize, span: Range<usize>) -> Self {
        Self { source, span }
    }
}

/// The most faults that a report shows; it counts the others. Nobody mends more at a time.
pub(super) const MOST_SHOWN: usize = 100;

/// The most characters of a message. What a longer one quotes from the text is shortened.
const LONGEST_MESSAGE: usize = 800;

/// The longest line, in bytes, that is shown below a fault.
const LONGEST_EXCERPT: usize = 1000;

/// One mistake of the user.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub(crate) place: Place,
    pub(crate) message: String,
    /// The place of the other key that a contradiction is about.
    pub(super) other: Option<Place>,
}

impl Fault {
    /// Makes a fault with a message of one line: line ends and other control characters in quoted
    /// text, which would command a terminal, are escaped.
    pub fn new(place: &Place, message: impl AsRef<str>) -> Self {
        let escaped = |character: char| match character.is_control() {
            true => character.escape_default().to_string(),
            false => character.to_string(),
        };
        Self {
            place: place.clone(),
            message: shortened(message.as_ref()).chars().map(escaped).collect(),
            other: None,
        }
    }
}

/// Returns `message`, or its beginning and end if it is too long for a reader.
fn shortened(message: &str) -> Cow<'_, str> {
    let (length, half) = (message.chars().count(), LONGEST_MESSAGE / 2);
    if length <= LONGEST_MESSAGE {
        return message.into();
    }
    let part = |from| -> String { message.chars().skip(from).take(half).collect() };
    format!("{} [...] {}", part(0), part(length - half)).into()
}

/// A change to a scenario, and where it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The change, of the form `table.key=value`.
    pub text: String,
    /// The place that faults name: a file with its line, or an argument without one. `None` is the
    /// command line.
    pub written: Option<(String, Option<usize>)>,
}

impl Override {
    /// Returns the overrides of a command line.
    pub fn of_line(texts: &[String]) -> Vec<Self> {
        texts.iter().map(Into::into).collect()
    }
}

impl<T: Into<String>> From<T> for Override {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            written: None,
        }
    }
}

/// The texts that a scenario is made of: the file, then one per override.
///
/// Each keeps its own offsets, so an override never shifts what is said about the file.
#[derive(Debug)]
pub struct Sources<'a> {
    texts: Vec<Source<'a>>,
}

/// One text and where it is found.
#[derive(Clone, Copy, Debug)]
struct Source<'a> {
    /// The name that faults are reported under.
    name: &'a str,
    text: &'a str,
    /// The line of the file of this name that the text is an entry of; none if it is the whole of what
    /// has the name.
    line: Option<usize>,
}

impl<'a> Source<'a> {
    fn of_override(of: &'a Override) -> Self {
        let (name, line) = match &of.written {
            None => ("--set", None),
            Some((name, line)) => (name.as_str(), *line),
        };
        let text = &of.text;
        Self { name, text, line }
    }
}

impl<'a> Sources<'a> {
    /// The index of the scenario file.
    pub const FILE: usize = 0;

    /// Makes the sources. `file` is the name that faults are reported under.
    pub fn new(file: &'a str, text: &'a str, overrides: &'a [Override]) -> Self {
        let mut sources = Self::of(vec![(file, text)]);
        sources
            .texts
            .extend(overrides.iter().map(Source::of_override));
        sources
    }

    /// Makes the sources of several texts, each with the name that faults are reported under; the
    /// first one is the file.
    pub fn of(texts: Vec<(&'a str, &'a str)>) -> Self {
        let line = None;
        let texts = texts.into_iter();
        Self {
            texts: texts
                .map(|(name, text)| Source { name, text, line })
                .collect(),
        }
    }

    /// Returns an error that lists the faults in the order of the texts, with line, column and an
    /// excerpt, and then their number. Beyond [`MOST_SHOWN`] they are only counted.
    pub fn report(&self, faults: Vec<Fault>) -> Error {
        let faults = in_order(faults);
        let mut report = String::new();
        for fault in faults.iter().take(MOST_SHOWN) {
            report.push_str(&self.render(fault));
            report.push('\n');
        }
        let count = faults.len();
        // The file whose entries they are, if all are of one.
        let entries: Vec<Source<'_>> = faults
            .iter()
            .map(|of| self.texts[of.place.source])
            .collect();
        let of_one = |of: &&Source<'_>| {
            let is_entry = |one: &Source<'_>| one.line.is_some() && one.name == of.name;
            entries.iter().all(is_entry)
        };
        let file = entries
            .first()
            .filter(of_one)
            .unwrap_or(&self.texts[Self::FILE]);
        report.push_str(&format!(
            "{}: {count} fault{}",
            file.name,
            if count == 1 { "" } else { "s" }
        ));
        if count > MOST_SHOWN {
            report.push_str(&format!(", of which the first {MOST_SHOWN} are shown"));
        }
        Error::Scenario {
            report,
            faults: count,
        }
    }

    /// Returns a line for each fault in the order of the texts, with line and column.
    pub(crate) fn lines(&self, faults: Vec<Fault>) -> Vec<String> {
        in_order(faults)
            .iter()
            .map(|fault| self.headline(fault))
            .collect()
    }

    fn headline(&self, fault: &Fault) -> String {
        // The index is valid: every place is made with the index of the text that it was parsed
        // from.
        let Source { name, text, line } = self.texts[fault.place.source];
        let (at, column) = line_and_column(text, fault.place.span.start);
        match line {
            Some(line) => format!("{name}:{line}: {}", fault.message),
            None => format!("{name}:{at}:{column}: {}", fault.message),
        }
    }

    fn render(&self, fault: &Fault) -> String {
        let headline = self.headline(fault) + "\n";
        let Source { text, line, .. } = self.texts[fault.place.source];
        let span = first_line(text, &fault.place.span);
        let start = text
            .get(..span.start)
            .and_then(|before| before.rfind('\n'))
            .map_or(0, |newline| newline + 1);
        let end = text
            .get(span.end..)
            .and_then(|after| after.find(['\r', '\n']));
        let end = end.map_or(text.len(), |after| span.end + after);
        if fault.place == Place::FILE || end - start > LONGEST_EXCERPT {
            return headline;
        }
        // Only the line itself is shown, since the search for it in a long text would be made for
        // every fault.
        let (at, _) = line_and_column(text, span.start);
        let snippet = Snippet::source(text.get(start..end).unwrap_or_default())
            .line_start(line.unwrap_or(at))
            .annotation(AnnotationKind::Primary.span(span.start - start..span.end - start));
        let excerpt = Renderer::plain().render(&[Group::with_level(Level::ERROR).element(snippet)]);
        headline + &excerpt + "\n"
    }
}

/// Returns the faults in the order of the texts, each once.
fn in_order(mut faults: Vec<Fault>) -> Vec<Fault> {
    faults.sort_by_cached_key(|Fault { place, message, .. }| {
        (
            place.source,
            place.span.start,
            place.span.end,
            message.clone(),
        )
    });
    faults.dedup();
    faults
}

/// Returns the line and column of `offset`, counted in characters and both from 1.
fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (
        before.matches('\n').count() + 1,
        before[line_start..].chars().count() + 1,
    )
}

/// Returns the part of `span` on its first line, so that a fault in a value of many lines is shown
/// where the value starts.
fn first_line(text: &str, span: &Range<usize>) -> Range<usize> {
    let length = text
        .get(span.clone())
        .and_then(|stretch| stretch.find(['\r', '\n']))
        .unwrap_or(span.len());
    span.start..span.start + length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_not_bytes() {
        // If columns were counted in bytes, an editor would jump past the fault on every line with
        // an umlaut.
        let text = "a = 1\nb = \"ü\"  x";
        assert_eq!(line_and_column(text, text.len() - 1), (2, 10));
    }

    #[test]
    fn a_message_stays_one_line_whatever_it_quotes() {
        // A key can be any string. Without escapes, this one would look like a second fault and
        // colour the terminal.
        let fault = Fault::new(&Place::FILE, "unknown key `ä\nf.toml:1:1: \u{1b}[31m`");
        assert_eq!(fault.message, "unknown key `ä\\nf.toml:1:1: \\u{1b}[31m`");
    }

    #[test]
    fn a_message_that_quotes_a_book_is_shortened() {
        let fault = Fault::new(
            &Place::FILE,
            format!("unknown key `{}`; known: `a`", "ü".repeat(1 << 20)),
        );
        assert!(
            fault.message.chars().count() < LONGEST_MESSAGE + 10,
            "{}",
            fault.message.len()
        );
        assert!(
            fault.message.starts_with("unknown key `ü")
                && fault.message.ends_with("ü`; known: `a`")
        );
    }

    /// If this fails, a broken file costs a time in proportion to its length for every one of its
    /// faults.
    #[test]
    fn no_more_than_a_hundred_faults_are_shown_and_the_others_are_counted() {
        let text = "x = 1\n".repeat(20_000);
        let sources = Sources::new("f.toml", &text, &[]);
        let faults = (0..20_000).map(|line| {
            Fault::new(
                &Place {
                    source: 0,
                    span: 6 * line..6 * line + 1,
                },
                "wrong",
            )
        });
        let report = sources.report(faults.collect()).to_string();
        assert_eq!(report.matches(": wrong").count(), 100);
        assert!(
            report.ends_with("f.toml: 20000 faults, of which the first 100 are shown"),
            "{report}"
        );
    }

    #[test]
    fn a_line_that_is_a_book_is_not_shown() {
        let text = format!("x = \"{}\"\n", "y".repeat(1 << 16));
        let sources = Sources::new("f.toml", &text, &[]);
        let report = sources
            .report(vec![Fault::new(
                &Place {
                    source: 0,
                    span: 4..9,
                },
                "wrong",
            )])
            .to_string();
        assert_eq!(report, "f.toml:1:5: wrong\n\nf.toml: 1 fault");
    }

    #[test]
    fn faults_are_listed_in_the_order_of_the_file_then_of_the_overrides_and_counted() {
        let overrides = vec!["seed=x".into()];
        let sources = Sources::new("f.toml", "a = 1\nb = 2\n", &overrides);
        let faults = vec![
            Fault::new(
                &Place {
                    source: 1,
                    span: 5..6,
                },
                "third",
            ),
            Fault::new(
                &Place {
                    source: 0,
                    span: 6..7,
                },
                "second",
            ),
            Fault::new(
                &Place {
                    source: 0,
                    span: 0..1,
                },
                "first",
            ),
            Fault::new(
                &Place {
                    source: 0,
                    span: 0..1,
                },
                "first",
            ),
        ];
        insta::assert_snapshot!(sources.report(faults));
    }
}
