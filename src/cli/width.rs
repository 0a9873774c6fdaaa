//! Says how many columns text may have.

use std::ffi::OsStr;

use terminal_size::{Width, terminal_size_of};

/// The width of text that is wrapped, where the terminal has as many columns or more.
const WIDTH: usize = 80;

/// The least width that text is wrapped to; in less, most lines would hold one word.
const LEAST: usize = 30;

/// Returns the number of columns of standard output: those of the terminal, or what `COLUMNS` says;
/// `None` for a file or a pipe, whose lines are as long as they are.
pub(crate) fn of_stdout() -> Option<usize> {
    columns(
        terminal_size_of(std::io::stdout()).map(|(Width(columns), _)| columns),
        variable().as_deref(),
    )
}

/// Returns the same of standard error.
pub(crate) fn of_stderr() -> Option<usize> {
    columns(
        terminal_size_of(std::io::stderr()).map(|(Width(columns), _)| columns),
        variable().as_deref(),
    )
}

/// Returns the width of text that is wrapped on standard output.
pub(crate) fn of_text() -> usize {
    of_stdout().map_or(WIDTH, |columns| columns.min(WIDTH))
}

fn variable() -> Option<std::ffi::OsString> {
    std::env::var_os("COLUMNS")
}

fn columns(terminal: Option<u16>, variable: Option<&OsStr>) -> Option<usize> {
    let stated = variable
        .and_then(OsStr::to_str)
        .and_then(|text| text.parse().ok());
    // A terminal that does not know its size says that it has none.
    let known = terminal
        .map(usize::from)
        .filter(|columns| *columns > 0)
        .or(stated);
    known
        .filter(|columns| *columns > 0)
        .map(|columns| columns.max(LEAST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminal_decides_before_the_variable_and_without_both_nothing_is_wrapped() {
        let stated = |terminal, variable: &str| columns(terminal, Some(OsStr::new(variable)));
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
