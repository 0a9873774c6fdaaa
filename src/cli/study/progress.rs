//! Shows the progress over all runs of a study on standard error: a bar on a terminal, elsewhere a
//! line for every run that has ended.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::carrier::End;
use crate::Bytes;
use crate::cli::Session;
use crate::cli::args::ProgressArg;
use crate::metric::Metric;
use fedrecsim_report::{SavedReport, words};

/// The time between two looks at the logs of runs.
const LOGS_EVERY: Duration = Duration::from_secs(1);

/// The bytes at the end of a log that are looked at.
const TAIL_BYTES: u64 = 4096;

/// The length of the bar in thousandths of all work.
const WHOLE: u64 = 1000;

/// The share of all work that has to be done until its pace counts as much as the expected one.
/// The first runs say little of the others where arms differ in work.
const TRUST_IN_ESTIMATES: f64 = 0.1;

/// The progress over all runs.
pub(crate) struct StudyProgress<'a> {
    session: &'a Session<'a>,
    runs: usize,
    over: usize,
    failed: usize,
    weight: f64,
    done_weight: f64,
    /// The wall-clock seconds that a unit of weight is expected to take; `None` if nobody knows.
    pace_s: Option<f64>,
    began: Instant,
    looked: Instant,
    bar: Option<ProgressBar>,
    has_lines: bool,
    /// Whether accuracies stay untold, as those of the test part do in a search.
    hides_results: bool,
}

impl<'a> StudyProgress<'a> {
    /// Begins to show the progress of this many runs, which together have this weight. A unit of it
    /// is expected to take `pace_s` seconds.
    pub(crate) fn new(
        runs: usize,
        (weight, pace_s): (f64, Option<f64>),
        asked: ProgressArg,
        session: &'a Session<'a>,
    ) -> Self {
        let bar = (asked == ProgressArg::Auto && session.visible && runs > 0).then(|| {
            let bar = ProgressBar::new(WHOLE);
            if let Ok(style) = ProgressStyle::with_template("[{bar:24}] {msg}") {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.set_message(format!("0 of {runs} runs"));
            bar.tick();
            bar
        });
        let now = Instant::now();
        let has_lines = asked != ProgressArg::Off;
        Self {
            session,
            runs,
            over: 0,
            failed: 0,
            weight,
            done_weight: 0.0,
            pace_s,
            began: now,
            looked: now,
            bar,
            has_lines,
            hides_results: false,
        }
    }

    /// Tells no accuracy of the runs.
    pub(crate) fn hide_results(&mut self) {
        self.hides_results = true;
    }

    /// Tells of a run that has ended, with its report in `folder` if it has a result.
    pub(crate) fn ended(
        &mut self,
        name: &str,
        folder: &Path,
        weight: f64,
        took: Duration,
        how: &End,
    ) {
        self.over += 1;
        self.done_weight += weight;
        let took = words::duration(took.as_secs_f64());
        let what = match how {
            End::Done if self.hides_results => format!("took {took}"),
            End::Done => format!("{}, took {took}", result_in(folder)),
            End::Stopped => "stopped".to_owned(),
            End::Failed(reason) => {
                self.failed += 1;
                format!("failed after {took}: {reason}")
            }
        };
        let left = self.left(0.0).map(|left| format!("; {left} left"));
        let left = left.unwrap_or_default();
        let line = format!("{}/{}: {name}: {what}{left}", self.over, self.runs);
        match &self.bar {
            Some(bar) => bar.suspend(|| self.session.line(&line)),
            None if self.has_lines => self.session.line(&line),
            None => {}
        }
        self.looked = self.began;
    }

    /// Looks at the logs of the runs that are under way now and then, each with its weight, and
    /// moves the bar.
    pub(crate) fn look(&mut self, running: impl Iterator<Item = (PathBuf, f64)>) {
        let is_due = self.looked.elapsed() >= LOGS_EVERY;
        let Some(bar) = self.bar.clone().filter(|_| is_due) else {
            return;
        };
        self.looked = Instant::now();
        let (mut under_way, mut part) = (0, 0.0);
        for (log, weight) in running {
            under_way += 1;
            part += weight * share_of(&tail(&log));
        }
        bar.set_position((self.share(part) * WHOLE as f64) as u64);
        let failed = match self.failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        let left = self.left(part).map(|left| format!(", {left} left"));
        let left = left.unwrap_or_default();
        bar.set_message(format!(
            "{} of {} runs{failed}, {under_way} under way{left}",
            self.over, self.runs
        ));
    }

    /// Removes the bar from the screen.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Returns the share of the work that is done, if so much of the runs under way is.
    fn share(&self, part: f64) -> f64 {
        match self.weight > 0.0 {
            true => ((self.done_weight + part) / self.weight).clamp(0.0, 1.0),
            false => 1.0,
        }
    }

    /// Returns the time that is left in words; `None` if nobody knows, or nothing is.
    fn left(&self, part: f64) -> Option<String> {
        let left = self.left_s(self.began.elapsed().as_secs_f64(), part)?;
        (self.over < self.runs).then(|| words::duration(left))
    }

    /// Returns the seconds that are left this long after the beginning, if so much of the runs under
    /// way is done: what is left by the pace so far, which counts more and more beside the expected
    /// one.
    fn left_s(&self, elapsed_s: f64, part: f64) -> Option<f64> {
        let share = self.share(part);
        // The expected pace counts like a part of the work that took as long as expected.
        let (counted_s, counted) = match self.pace_s {
            Some(pace_s) => (
                elapsed_s + pace_s * TRUST_IN_ESTIMATES * self.weight,
                share + TRUST_IN_ESTIMATES,
            ),
            None => (elapsed_s, share),
        };
        (counted > 0.0).then(|| counted_s / counted * (1.0 - share))
    }
}

impl Drop for StudyProgress<'_> {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Returns the result of the run in `folder` in a few words.
fn result_in(folder: &Path) -> String {
    let Ok(report) = SavedReport::read(folder) else {
        return "done".to_owned();
    };
    let run = report.run;
    let headline = run.scenario["evaluation"]["headline"].as_str();
    let accuracy = headline.and_then(Metric::named).and_then(|headline| {
        let value = words::accuracy(*run.accuracy.test.get(&headline.name())?);
        Some(format!("{} {value}, ", headline.label()))
    });
    let bytes = Bytes::new(run.bytes.up.sent + run.bytes.down.sent);
    format!("{}{bytes} sent", accuracy.unwrap_or_default())
}

/// Returns the end of a log.
fn tail(log: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// Returns the share of its rounds that a run has finished according to its log, whose lines begin
/// with `round 3/40:`.
fn share_of(log: &str) -> f64 {
    let share = |line: &str| {
        let (done, all) = line
            .strip_prefix("round ")?
            .split_once(':')?
            .0
            .split_once('/')?;
        let (done, all): (f64, f64) = (done.parse().ok()?, all.parse().ok()?);
        (all > 0.0).then_some(done / all)
    };
    log.lines().rev().find_map(share).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_a_run_tells_how_far_it_is() {
        assert_eq!(
            share_of("x\nround 3/40: HR@10 0.1\nround 4/40: HR@10 0.2, 1 MB sent\nwarning: y\n"),
            0.1
        );
        assert_eq!(
            [share_of(""), share_of("round x/0:\nround 1/0: z")],
            [0.0, 0.0]
        );
    }

    /// If this fails, the time that is left is that of another amount of work.
    #[test]
    fn the_share_of_the_work_counts_runs_by_their_weight() {
        let session = Session::new(&[]);
        let mut progress = StudyProgress::new(3, (10.0, None), ProgressArg::Off, &session);
        assert_eq!((progress.share(0.0), progress.left(0.0)), (0.0, None));
        progress.ended(
            "a",
            Path::new("a"),
            5.0,
            Duration::from_secs(1),
            &End::Stopped,
        );
        assert_eq!(progress.share(2.5), 0.75);
        assert!(progress.left(0.0).is_some());
    }
    /// If this fails, a study whose first runs are short says days that are left of minutes.
    #[test]
    fn first_runs_that_are_slower_than_expected_do_not_decide_what_is_left() {
        let session = Session::new(&[]);
        let mut progress = StudyProgress::new(9, (300.0, Some(0.5)), ProgressArg::Off, &session);
        assert_eq!(progress.left_s(0.0, 0.0), Some(150.0));
        progress.done_weight = 0.01;
        let left_s = progress.left_s(5.0, 0.0).unwrap_or(0.0);
        assert!((150.0..250.0).contains(&left_s), "{left_s} s");
        // At the end the pace so far has decided.
        progress.done_weight = 270.0;
        assert_eq!(progress.left_s(585.0, 0.0).map(f64::round), Some(60.0));
    }
}
