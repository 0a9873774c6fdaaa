//! Shows the progress of a run on standard error, because standard output belongs to results: as a
//! bar on a terminal, and elsewhere as a line now and then.

use std::io::Write;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::words;
use fedrecsim_core::Bytes;
use fedrecsim_core::metric::Metric;
use fedrecsim_sim::outcome::{ByDirection, Flow, RoundRecord};

/// The time between two lines where there is no terminal. A run that is over before leaves no line.
pub const LINES_EVERY: Duration = Duration::from_secs(10);

/// The columns of a terminal that does not tell how many it has.
const COLUMNS: usize = 80;

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// As a bar, on a terminal of this many columns if that is known.
    Bar(Option<usize>),
    /// As lines, with at least this time between two of them.
    Lines(Duration),
    /// Not at all.
    Nothing,
}

/// The progress of a run over its rounds.
pub struct Progress {
    rounds: u32,
    headline: Option<Metric>,
    /// The headline metric on the test part, as it was measured last, and after which round.
    accuracy: Option<(String, u32)>,
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

impl Shown {
    fn lines(every: Duration, to: Box<dyn Write + Send>) -> Self {
        Self::Lines {
            every,
            last: Instant::now(),
            to,
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
        Self::Bar {
            bar,
            room: columns.saturating_sub(around),
        }
    }
}

impl Progress {
    /// Begins the display of a run of this many rounds.
    pub fn new(rounds: u32, headline: Option<Metric>, show: Show) -> Self {
        let shown = match show {
            Show::Bar(columns) => {
                let columns = columns.unwrap_or(COLUMNS);
                Shown::bar(rounds, columns, ProgressDrawTarget::stderr())
            }
            Show::Lines(every) => Shown::lines(every, Box::new(std::io::stderr())),
            Show::Nothing => Shown::Nothing,
        };
        Self {
            rounds,
            headline,
            accuracy: None,
            shown,
        }
    }

    /// Shows that a round has ended; `total` was sent so far.
    pub fn round_finished(&mut self, round: &RoundRecord, total: ByDirection<Flow>) {
        let number = round.round;
        if let (Some(metric), Some(accuracy)) = (&self.headline, &round.accuracy)
            && let Some(value) = accuracy.test.get(&metric.name())
        {
            let value = words::accuracy(*value);
            self.accuracy = Some((format!("{} {value}", metric.label()), number));
        }
        let accuracy = match &self.accuracy {
            Some((accuracy, of)) if *of == number => accuracy.clone(),
            Some((accuracy, of)) => format!("{accuracy} after round {of}"),
            None => "not evaluated yet".to_owned(),
        };
        let sent = Bytes::new(total.up.sent + total.down.sent);
        let time = words::duration(round.virtual_time_s);
        let mut parts = vec![
            accuracy,
            format!("{sent} sent"),
            format!("{time} of virtual time"),
        ];
        match &mut self.shown {
            Shown::Nothing => {}
            Shown::Bar { bar, room } => {
                bar.set_position(number.into());
                parts.push(format!("{} left", words::duration(bar.eta().as_secs_f64())));
                bar.set_message(fitting(parts, *room));
            }
            Shown::Lines { every, last, to } => {
                if last.elapsed() >= *every {
                    *last = Instant::now();
                    let (rounds, parts) = (self.rounds, parts.join(", "));
                    // A line that cannot be printed must not end the run.
                    let _ = writeln!(to, "round {number}/{rounds}: {parts}");
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

/// Returns those of the parts that fit into `room` columns, in their order; the last one, which is
/// the time that is left, goes before those in front of it.
fn fitting(mut parts: Vec<String>, room: usize) -> String {
    while parts.len() > 1 && parts.join(", ").chars().count() > room {
        let dropped = if parts.len() > 2 { parts.len() - 2 } else { 1 };
        parts.remove(dropped);
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    use super::*;
    use crate::record::SplitAccuracy;
    use crate::tests::records as sample;

    /// Returns a display that writes as `shown` says, after a round with this accuracy if one is
    /// named, and after round 12.
    fn after_round_12(shown: Shown, accuracy: Option<(f64, u32)>) -> Progress {
        let mut progress = Progress {
            headline: Metric::named("hr@10"),
            shown,
            ..Progress::new(60, None, Show::Nothing)
        };
        if let Some((value, number)) = accuracy {
            let mut round = round(number);
            let test = [("hr@10".to_owned(), value)].into();
            round.accuracy = Some(SplitAccuracy {
                test,
                validation: None,
            });
            progress.round_finished(&round, total());
        }
        if accuracy.is_none_or(|(_, number)| number != 12) {
            progress.round_finished(&round(12), total());
        }
        progress
    }

    fn round(number: u32) -> RoundRecord {
        let mut round = sample::run(1).per_round.remove(0);
        (round.round, round.accuracy, round.virtual_time_s) = (number, None, 42.25);
        round
    }

    fn total() -> ByDirection<Flow> {
        let mut total = ByDirection::<Flow>::default();
        total.down.sent = 1_534_000_000;
        total
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

    /// Returns what a bar shows after round 12, on a terminal of this many columns.
    fn bar_after(accuracy: Option<(f64, u32)>, columns: usize) -> String {
        let terminal = Line::default();
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let bar = Shown::bar(60, columns, target);
        assert!(
            terminal.shown().contains("round 0/60"),
            "{}",
            terminal.shown()
        );
        let progress = after_round_12(bar, accuracy);
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
        let shown = bar_after(Some((0.78441, 12)), 120);
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
        let shown = bar_after(Some((0.78441, 12)), 60);
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
            bar_after(Some((0.78441, 10)), 120)
                .contains("HR@10 0.7844 after round 10, 1.53 GB sent")
        );
        let none = bar_after(None, 120);
        assert!(none.contains("] not evaluated yet, "), "{none}");
    }

    #[test]
    fn without_a_terminal_there_is_a_line_when_its_time_has_come() {
        let written = Line::default();
        let lines = Shown::lines(Duration::ZERO, Box::new(written.clone()));
        let mut every_round = after_round_12(lines, Some((0.78441, 12)));
        every_round.round_finished(&round(13), total());
        assert_eq!(
            written.shown(),
            "round 12/60: HR@10 0.7844, 1.53 GB sent, 42.2 s of virtual time\n\
             round 13/60: HR@10 0.7844 after round 12, 1.53 GB sent, 42.2 s of virtual time\n"
        );
        let written = Line::default();
        let rarely = Shown::lines(Duration::from_secs(1_000_000), Box::new(written.clone()));
        after_round_12(rarely, None);
        assert_eq!(written.shown(), "");
        after_round_12(Shown::Nothing, None);
    }
}
