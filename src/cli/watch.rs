//! Watches a run of the command round by round.

use std::path::Path;
use std::time::{Duration, Instant};

use super::args::ProgressArg;
use super::{Followed, Session, screen};
use crate::scenario::Scenario;
use fedrecsim_report::progress::{LINES_EVERY, Progress, Show};
use fedrecsim_sim::RoundObserver;
use fedrecsim_sim::outcome::{ByDirection, Flow, RoundRecord};

/// Shows progress, measures wall-clock time and tells who follows the run; none of it reaches the
/// result.
pub(crate) struct Watch<'s> {
    progress: Progress,
    /// Who follows the run, once it has begun.
    follow: Option<&'s (dyn Fn(Followed<'_>) + Sync)>,
    /// When the last round ended, or the first one began.
    last: Instant,
    /// Wall-clock time between the ends of rounds.
    laps: Vec<Duration>,
}

impl<'s> Watch<'s> {
    /// Begins to watch a run of this scenario.
    pub(crate) fn new(scenario: &Scenario, how: ProgressArg, session: &Session<'s>) -> Self {
        let show = match how {
            ProgressArg::Off => Show::Nothing,
            ProgressArg::Rounds => Show::Lines(Duration::ZERO),
            ProgressArg::Auto if session.visible => Show::Bar(screen::of_stderr()),
            ProgressArg::Auto => Show::Lines(LINES_EVERY),
        };
        let headline = scenario.evaluation.headline();
        Self {
            progress: Progress::new(scenario.training.rounds, headline, show),
            follow: None,
            last: Instant::now(),
            laps: Vec::new(),
        }
    }

    /// Tells who follows the run that it begins, and from now on of its rounds.
    pub(crate) fn begin(
        &mut self,
        scenario: &Scenario,
        folder: Option<&Path>,
        session: &Session<'s>,
    ) {
        self.follow = session.follow;
        if let Some(follow) = self.follow {
            follow(Followed::Begun { scenario, folder });
        }
    }

    /// Shows no more progress.
    pub(crate) fn finish(&mut self) {
        self.progress.finish();
    }

    /// Returns the median of the wall-clock times of rounds.
    pub(crate) fn per_round(&self) -> Duration {
        let mut sorted = self.laps.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }
}

impl RoundObserver for Watch<'_> {
    fn round_finished(&mut self, round: &RoundRecord, total: ByDirection<Flow>) {
        let now = Instant::now();
        let took = now - std::mem::replace(&mut self.last, now);
        self.laps.push(took);
        self.progress.round_finished(round, total);
        if let Some(follow) = self.follow {
            let record = round;
            follow(Followed::Round { record, took });
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.progress.finish();
    }
}
