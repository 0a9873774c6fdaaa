//! Prints messages on standard error, in lines that fit the terminal, and coloured only where the
//! terminal shows colours and `NO_COLOR` does not forbid them.
//!
//! A message that cannot be printed, because the disk is full, the terminal is gone or nobody reads
//! the pipe any more, is dropped: it must neither end a run nor change an exit code.

use std::io::Write;

use clap::builder::styling::{AnsiColor, Style};

use super::width;
use super::wrapped;

/// Prints text as it is.
pub(crate) fn print(text: &str) {
    // There is no better place to tell that standard error cannot be written to. This stream drops
    // colours where they do not belong.
    let _ = anstream::stderr().write_all(text.as_bytes());
}

/// Prints a note, broken between words where the terminal ends.
pub(crate) fn note(text: &str) {
    print(&fitted(text, width::of_stderr()));
}

/// Prints an error, on a line of its own.
pub(crate) fn error(text: &str) {
    print(&headed("error:", AnsiColor::Red, text, width::of_stderr()));
}

/// Prints a warning about something that does not stop a run, on a line of its own.
pub(crate) fn warn(text: &str) {
    print(&headed(
        "warning:",
        AnsiColor::Yellow,
        text,
        width::of_stderr(),
    ));
}

/// Returns `text` after a coloured word.
fn headed(head: &str, color: AnsiColor, text: &str, columns: Option<usize>) -> String {
    let style = Style::new().bold().fg_color(Some(color.into()));
    let plain = fitted(&format!("{head} {text}"), columns);
    format!("{style}{head}{style:#}{}", &plain[head.len()..])
}

/// Returns `text` in lines of so many columns. A text of several lines stays as it is, since it
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
}
