//! Shows the progress of a run on standard error, because standard output belongs to results: as a
//! bar on a terminal, and elsewhere as a line now and then.

use std::fmt;
use std::io::Write;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::words;
use fedrecsim_core::Bytes;

/// The time between two lines where there is no terminal. A run that is over before leaves no line.
pub const LINES_EVERY: Duration = Duration::from_secs(10);

/// The columns of a terminal that does not tell how many it has.
const COLUMNS: usize = 80;

/// What is known at the end of a round.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressLine {
    /// Number of rounds finished.
    pub round: u32,
    /// The latest accuracy; `None` before the first evaluation.
    pub accuracy: Option<LatestAccuracy>,
    /// Bytes sent so far, both directions.
    pub bytes: u64,
    /// Virtual time so far.
    pub virtual_time_s: f64,
}

/// The headline metric on the test part, as it was measured last.
#[derive(Clone, Debug, PartialEq)]
pub struct LatestAccuracy {
    /// Its name.
    pub label: String,
    /// Its value.
    pub value: f64,
    /// The round after which it was measured.
    pub round: u32,
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// As a bar, on a terminal of so many columns if that is known.
    Bar(Option<usize>),
    /// As lines, with at least this time between two of them.
    Lines(Duration),
    /// Not at all.
    Nothing,
}

/// The progress of a run over its rounds.
#[derive(Debug)]
pub struct Progress {
    rounds: u32,
    shown: Shown,
}

enum Shown {
    Bar {
        bar: ProgressBar,
        room: usize,
    },
    Lines {
        every: Duration,
        last: Instant,
        to: Box<dyn Write + Send>,
    },
    Nothing,
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bar { .. } => "Bar",
            Self::Lines { .. } => "Lines",
            Self::Nothing => "Nothing",
        })
    }
}

impl Progress {
    /// Shows the progress of so many rounds on standard error.
    pub fn new(rounds: u32, show: Show) -> Self {
        match show {
            Show::Bar(columns) => Self::bar(
                rounds,
                columns.unwrap_or(COLUMNS),
                ProgressDrawTarget::stderr(),
            ),
            Show::Lines(every) => Self::lines(rounds, every, Box::new(std::io::stderr())),
            Show::Nothing => Self {
                rounds,
                shown: Shown::Nothing,
            },
        }
    }

    fn lines(rounds: u32, every: Duration, to: Box<dyn Write + Send>) -> Self {
        Self {
            rounds,
            shown: Shown::Lines {
                every,
                last: Instant::now(),
                to,
            },
        }
    }

    fn bar(rounds: u32, columns: usize, target: ProgressDrawTarget) -> Self {
        let bar = ProgressBar::with_draw_target(Some(rounds.into()), target);
        let width = if columns < 100 { 10 } else { 24 };
        if let Ok(style) = ProgressStyle::with_template(&format!(
            "round {{pos}}/{{len}} [{{bar:{width}}}] {{msg}}"
        )) {
            bar.set_style(style.progress_chars("=> "));
        }
        // The words around the message: the counts are as wide as the number of rounds. The last
        // column stays free, since some terminals begin a new line once it is written to.
        let around = "round / [] ".len() + 2 * rounds.to_string().len() + width + 1;
        bar.set_message("no round finished yet");
        bar.tick();
        Self {
            rounds,
            shown: Shown::Bar {
                bar,
                room: columns.saturating_sub(around),
            },
        }
    }

    /// Shows a finished round.
    pub fn round_finished(&mut self, line: &ProgressLine) {
        match &mut self.shown {
            Shown::Nothing => {}
            Shown::Bar { bar, room } => {
                bar.set_position(line.round.into());
                let left = format!("{} left", words::duration(bar.eta().as_secs_f64()));
                bar.set_message(fitting(&[parts(line), vec![left]].concat(), *room));
            }
            Shown::Lines { every, last, to } => {
                if last.elapsed() >= *every {
                    *last = Instant::now();
                    let text = format!(
                        "round {}/{}: {}\n",
                        line.round,
                        self.rounds,
                        parts(line).join(", ")
                    );
                    // A line that cannot be printed must not end the run.
                    let _ = to.write_all(text.as_bytes());
                }
            }
        }
    }

    /// Removes the bar from the screen. The summary reports the rest.
    pub fn finish(&self) {
        if let Shown::Bar { bar, .. } = &self.shown {
            bar.finish_and_clear();
        }
    }
}

/// Returns what a line says, the most important first.
fn parts(line: &ProgressLine) -> Vec<String> {
    let accuracy = match &line.accuracy {
        Some(LatestAccuracy {
            label,
            value,
            round,
        }) if *round == line.round => {
            format!("{label} {}", words::accuracy(*value))
        }
        Some(LatestAccuracy {
            label,
            value,
            round,
        }) => {
            format!("{label} {} after round {round}", words::accuracy(*value))
        }
        None => "not evaluated yet".to_owned(),
    };
    let sent = format!("{} sent", Bytes::new(line.bytes));
    vec![
        accuracy,
        sent,
        format!("{} of virtual time", words::duration(line.virtual_time_s)),
    ]
}

/// Returns those of the parts that fit into `room` columns, in their order; the last one, which is
/// the time that is left, goes before those in front of it.
fn fitting(parts: &[String], room: usize) -> String {
    let mut kept: Vec<&str> = parts.iter().map(String::as_str).collect();
    while kept.len() > 1 && kept.join(", ").chars().count() > room {
        let dropped = if kept.len() > 2 { kept.len() - 2 } else { 1 };
        kept.remove(dropped);
    }
    kept.join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    use super::*;

    fn line(accuracy: Option<(f64, u32)>) -> ProgressLine {
        let accuracy = accuracy.map(|(value, round)| LatestAccuracy {
            label: "HR@10".to_owned(),
            value,
            round,
        });
        ProgressLine {
            round: 12,
            accuracy,
            bytes: 1_534_000_000,
            virtual_time_s: 42.25,
        }
    }

    /// A terminal of one line that keeps what was written since the line was last cleared.
    #[derive(Clone, Debug, Default)]
    struct Line(Arc<Mutex<String>>);

    impl Line {
        fn shown(&self) -> String {
            self.0.lock().unwrap().clone()
        }
    }

    impl Write for Line {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0
                .lock()
                .unwrap()
                .push_str(std::str::from_utf8(bytes).unwrap());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

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

    /// Returns what a bar shows after a round, on a terminal of so many columns.
    fn bar_after(line: &ProgressLine, columns: usize) -> String {
        let terminal = Line::default();
        let mut progress = Progress::bar(
            60,
            columns,
            ProgressDrawTarget::term_like(Box::new(terminal.clone())),
        );
        assert!(
            terminal.shown().contains("round 0/60"),
            "{}",
            terminal.shown()
        );
        progress.round_finished(line);
        let Shown::Bar { bar, .. } = &progress.shown else {
            panic!("no bar")
        };
        // The bar limits how often it redraws, so the test asks for the state as it is now.
        bar.force_draw();
        let shown = terminal.shown();
        progress.finish();
        assert_eq!(
            terminal.shown().trim(),
            "",
            "the bar must not stay on the screen above the summary"
        );
        shown
    }

    #[test]
    fn the_bar_shows_round_accuracy_bytes_time_and_what_is_left() {
        let shown = bar_after(&line(Some((0.78441, 12))), 120);
        for part in [
            "round 12/60",
            "HR@10 0.7844,",
            "1.53 GB sent",
            "42.2 s of virtual time",
            "left",
        ] {
            assert!(shown.contains(part), "no {part:?} in {shown:?}");
        }
    }

    /// If this fails, the bar of a narrow terminal takes several lines, or loses what matters most.
    #[test]
    fn the_bar_fits_a_terminal_of_sixty_columns() {
        let shown = bar_after(&line(Some((0.78441, 12))), 60);
        assert!(shown.trim_end().chars().count() < 60, "{shown:?}");
        assert!(
            shown.contains("] HR@10 0.7844, ") && shown.trim_end().ends_with("left"),
            "{shown:?}"
        );
    }

    /// If this fails, a run that is evaluated every tenth round shows no accuracy in nine rounds of
    /// ten.
    #[test]
    fn the_latest_accuracy_stays_with_the_round_that_it_is_of() {
        assert!(
            bar_after(&line(Some((0.78441, 10))), 120)
                .contains("HR@10 0.7844 after round 10, 1.53 GB sent")
        );
        let none = bar_after(&line(None), 120);
        assert!(none.contains("] not evaluated yet, "), "{none}");
    }

    #[test]
    fn without_a_terminal_there_is_a_line_when_its_time_has_come() {
        let written = Line::default();
        let mut every_round = Progress::lines(60, Duration::ZERO, Box::new(written.clone()));
        every_round.round_finished(&line(Some((0.78441, 12))));
        every_round.round_finished(&ProgressLine {
            round: 13,
            ..line(Some((0.78441, 12)))
        });
        assert_eq!(
            written.shown(),
            "round 12/60: HR@10 0.7844, 1.53 GB sent, 42.2 s of virtual time\n\
             round 13/60: HR@10 0.7844 after round 12, 1.53 GB sent, 42.2 s of virtual time\n"
        );
        let written = Line::default();
        let mut rarely = Progress::lines(
            60,
            Duration::from_secs(1_000_000),
            Box::new(written.clone()),
        );
        rarely.round_finished(&line(None));
        assert_eq!(written.shown(), "");
        Progress::new(60, Show::Nothing).round_finished(&line(None));
    }
}
