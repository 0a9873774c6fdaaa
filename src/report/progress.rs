//! Draws the progress bar, on standard error because standard output belongs to results.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::words;
use crate::units::Bytes;

/// What is known at the end of a round.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressLine {
    /// Number of rounds finished.
    pub round: u32,
    /// Name and latest value of the headline figure on the test part; `None` before the first evaluation.
    pub accuracy: Option<(String, f64)>,
    /// Bytes sent so far, both directions.
    pub bytes: u64,
    /// Virtual time so far.
    pub virtual_time_s: f64,
}

/// A progress bar over the rounds of a run.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Makes a bar over `rounds` rounds, drawn only if `visible` is true and standard error is a terminal.
    pub fn new(rounds: u32, visible: bool) -> Self {
        // indicatif itself hides the bar if standard error is not a terminal.
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self::on(rounds, target)
    }

    fn on(rounds: u32, target: ProgressDrawTarget) -> Self {
        let bar = ProgressBar::with_draw_target(Some(rounds.into()), target);
        if let Ok(style) = ProgressStyle::with_template("round {pos}/{len} [{bar:24}] {msg}, {eta} left") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message("no round finished yet");
        bar.tick();
        Self { bar }
    }

    /// Shows a finished round. The accuracy is the round's own, or the latest if the round was not evaluated.
    pub fn round_finished(&self, line: &ProgressLine) {
        self.bar.set_message(message(line));
        self.bar.set_position(line.round.into());
    }

    /// Removes the bar from the screen. The summary reports the rest.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn message(line: &ProgressLine) -> String {
    let accuracy = match &line.accuracy {
        Some((name, figure)) => format!("{name} {}", words::accuracy(*figure)),
        None => "not evaluated".to_owned(),
    };
    format!("{accuracy}, {} sent, {} of virtual time", Bytes::new(line.bytes), words::duration(line.virtual_time_s))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    use super::*;

    fn line(accuracy: Option<f64>) -> ProgressLine {
        let accuracy = accuracy.map(|figure| ("HR@10".to_owned(), figure));
        ProgressLine { round: 12, accuracy, bytes: 1_534_000_000, virtual_time_s: 42.25 }
    }

    /// A terminal of one line that keeps what was written since the line was last cleared.
    #[derive(Clone, Debug, Default)]
    struct Line(Arc<Mutex<String>>);

    impl TermLike for Line {
        fn width(&self) -> u16 {
            120
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.0.lock().unwrap().clear();
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_bar_shows_round_accuracy_bytes_time_and_what_is_left() {
        let terminal = Line::default();
        let shown = || terminal.0.lock().unwrap().clone();
        let progress = Progress::on(60, ProgressDrawTarget::term_like(Box::new(terminal.clone())));
        assert!(shown().contains("round 0/60"), "{}", shown());
        progress.round_finished(&line(Some(0.78441)));
        // The bar limits how often it redraws, so the test asks for the state as it is now.
        progress.bar.force_draw();
        for part in ["round 12/60", "HR@10 0.7844", "1.53 GB sent", "42.2 s of virtual time", "left"] {
            assert!(shown().contains(part), "no {part:?} in {:?}", shown());
        }
        progress.finish();
        assert_eq!(shown().trim(), "", "the bar must not stay on the screen above the summary");
    }

    #[test]
    fn a_hidden_bar_accepts_rounds_and_draws_nothing() {
        let progress = Progress::new(60, false);
        progress.round_finished(&line(Some(0.78441)));
        assert!(progress.bar.is_hidden());
        assert_eq!(progress.bar.position(), 12);
    }

    #[test]
    fn before_the_first_evaluation_no_accuracy_is_made_up() {
        let text = message(&line(None));
        assert!(text.starts_with("not evaluated, "), "{text}");
    }
}
