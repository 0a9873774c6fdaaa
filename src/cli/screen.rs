//! Prints messages on standard error, in lines that fit the terminal, and coloured only where the
//! terminal shows colours and `NO_COLOR` does not forbid them; and says how many columns there are.
//!
//! A message that cannot be printed, because the disk is full, the terminal is gone or nobody reads
//! the pipe any more, is dropped: it must neither end a run nor change an exit code.

use std::io::{IsTerminal, Write};

use clap::builder::styling::{AnsiColor, Style};
use terminal_size::{Height, Width, terminal_size_of};

use super::wrapped;

/// The width of text that is wrapped, where the terminal has as many columns or more.
const WIDTH: usize = 80;

/// The least width that text is wrapped to; in less, most lines would hold one word.
const LEAST: usize = 30;

/// Returns the number of columns of standard output: those of the terminal, or what `COLUMNS` says;
/// `None` for a file or a pipe, whose lines are as long as they are.
pub(crate) fn of_stdout() -> Option<usize> {
    of_terminal(terminal_size_of(std::io::stdout()))
}

/// Returns the same of standard error.
pub(crate) fn of_stderr() -> Option<usize> {
    of_terminal(terminal_size_of(std::io::stderr()))
}

/// Returns the width of text that is wrapped on standard output.
pub(crate) fn of_text() -> usize {
    of_stdout().map_or(WIDTH, |columns| columns.min(WIDTH))
}

fn of_terminal(size: Option<(Width, Height)>) -> Option<usize> {
    let stated = std::env::var("COLUMNS").ok();
    columns(size.map(|(Width(columns), _)| columns), stated.as_deref())
}

fn columns(terminal: Option<u16>, stated: Option<&str>) -> Option<usize> {
    // A terminal that does not know its size says that it has none.
    let known = terminal.map(usize::from).filter(|columns| *columns > 0);
    let columns = known.or_else(|| stated?.parse().ok());
    let columns = columns.filter(|columns| *columns > 0)?;
    Some(columns.max(LEAST))
}

/// Returns what standard output gets of `text`: nothing that commands a terminal. Where there is none,
/// what turns text stays, since JSON has it in names.
pub(crate) fn for_stdout(text: &str) -> String {
    match std::io::stdout().is_terminal() {
        true => harmless(text),
        false => without(text, char::is_control),
    }
}

/// Prints text as it is, but for what would command a terminal.
pub(crate) fn line(text: &str) {
    print(&harmless(text));
}

/// Prints text as it is.
pub(crate) fn print(text: &str) {
    // There is no better place to tell that standard error cannot be written to. This stream drops
    // colours where they do not belong.
    let _ = anstream::stderr().write_all(text.as_bytes());
}

/// Prints a note, broken between words where the terminal ends.
pub(crate) fn note(text: &str) {
    print(&fitted(&harmless(text), of_stderr()));
}

/// Prints an error, on a line of its own.
pub(crate) fn error(text: &str) {
    print(&headed("error:", AnsiColor::Red, text, of_stderr()));
}

/// Prints a warning about something that does not stop a run, on a line of its own.
pub(crate) fn warn(text: &str) {
    print(&headed("warning:", AnsiColor::Yellow, text, of_stderr()));
}

/// Returns `text` after a coloured word.
fn headed(head: &str, color: AnsiColor, text: &str, columns: Option<usize>) -> String {
    let style = Style::new().bold().fg_color(Some(color.into()));
    let plain = fitted(&format!("{head} {}", harmless(text)), columns);
    format!("{style}{head}{style:#}{}", &plain[head.len()..])
}

/// Returns `text` with the characters escaped that command a terminal. A message quotes names of files
/// and what stands in them.
pub(super) fn harmless(text: &str) -> String {
    without(text, |c| c.is_control() || turns_text(c))
}

/// Returns a name for a column of a table: with everything escaped that would shift it, and cut short if
/// it is long.
pub(crate) fn in_column(name: &str) -> String {
    const LONGEST: usize = 60;
    let shifts = |c: char| c.is_control() || turns_text(c);
    let escaped = |c: char| match shifts(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    let all: String = name.chars().map(escaped).collect();
    match all.chars().count() > LONGEST {
        true => all.chars().take(LONGEST - 3).chain("...".chars()).collect(),
        false => all,
    }
}

/// Returns whether a character changes the direction of text.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns `text` with some characters escaped, of which ends of lines and tabs are none.
fn without(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let escaped = |c: char| match is_escaped(c) && !"\n\t".contains(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(escaped).collect()
}

/// Returns `text` in lines of this many columns. A text of several lines stays as it is, since it
/// shows excerpts of files.
fn fitted(text: &str, columns: Option<usize>) -> String {
    match columns {
        Some(columns) if !text.contains('\n') => wrapped(text, "", columns),
        _ => format!("{text}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_broken_between_words_and_an_excerpt_is_not() {
        let text = "the run has learned nothing, and that is all that there is to say";
        let broken = headed("error:", AnsiColor::Red, text, Some(40));
        assert_eq!(
            broken,
            "\u{1b}[1m\u{1b}[31merror:\u{1b}[0m the run has learned nothing, and\nthat is all that there is to say\n"
        );
        let excerpt = "two lines\n  |  and an excerpt that is longer than the terminal is wide";
        assert!(
            headed("error:", AnsiColor::Red, excerpt, Some(40)).ends_with(&format!(" {excerpt}\n"))
        );
        assert!(headed("error:", AnsiColor::Red, text, None).ends_with(&format!(" {text}\n")));
    }

    /// If this fails, the name of a file can clear the screen, or write another message there.
    #[test]
    fn what_commands_a_terminal_is_escaped() {
        let text = headed(
            "error:",
            AnsiColor::Red,
            "cannot read a\u{1b}[2J\r\u{202e}b:\n\tno",
            None,
        );
        let expected = " cannot read a\\u{1b}[2J\\r\\u{202e}b:\n\tno\n";
        assert!(text.ends_with(expected), "{text:?}");
    }

    #[test]
    fn the_terminal_decides_before_the_variable_and_without_both_nothing_is_wrapped() {
        let stated = |terminal, variable: &str| columns(terminal, Some(variable));
        assert_eq!(columns(Some(61), None), Some(61));
        assert_eq!(stated(Some(61), "100"), Some(61));
        assert_eq!(stated(Some(0), "72"), Some(72));
        assert_eq!(stated(None, "60"), Some(60));
        assert_eq!(stated(None, "3"), Some(LEAST));
        assert_eq!(
            [stated(None, "0"), stated(None, "wide"), columns(None, None)],
            [None, None, None]
        );
    }
}
