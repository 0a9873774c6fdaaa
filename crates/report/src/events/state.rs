//! Describes the state of a run at an instant, from the events until then.

use std::collections::BTreeMap;

use super::stretch::{Participations, Phase, Stretch};
use crate::document::{Block, Document};
use crate::setup;
use crate::words::{counted, thousands};
use fedrecsim_core::legs::{Job, Route};
use fedrecsim_core::work::Work;
use fedrecsim_core::{Bytes, Direction, SimTime, UserId, Who};
use fedrecsim_scenario::{Policy, Scenario};
use fedrecsim_sim::outcome::{Booking, Ending, LinkEvent, RoundSpan};

/// The most users that are named for each phase.
const NAMED_MAX: usize = 12;

/// The width of a line, in characters.
const WIDTH: usize = 100;

/// How far a run got that was asked to go on up to an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// It got to that instant.
    Instant,
    /// It got to the end of its last round, which is not later than the instant.
    LastRound,
    /// An error ended it before the instant.
    Failure,
}

/// The state of a run, gathered from its events.
#[derive(Debug, Default)]
pub struct State {
    participations: Participations,
    last_round: Option<RoundSpan>,
    /// Number of rounds with an update in their average.
    model_steps: u32,
    /// Number of updates that have arrived since the last round ended.
    waiting: u32,
    begun: u64,
    /// Numbers of participations by how they ended; those under way are unfinished.
    ended: BTreeMap<Ending, u64>,
    /// Bytes that were carried, by direction and by how the transfer ended.
    carried: BTreeMap<(Direction, Ending), u64>,
    work: Work,
    under_way: Vec<Stretch>,
}

impl State {
    /// Takes what happened while a round was open, or since the last one ended.
    pub fn take(&mut self, span: Option<RoundSpan>, bookings: &[Booking]) {
        let open_round = self.last_round.map_or(0, |last| last.round) + 1;
        for booking in bookings {
            if let LinkEvent::Sent(Route::DOWNLOAD | Route::ROW_REQUEST, _)
            | LinkEvent::WorkBegan(_) = booking.event
            {
                self.begun += 1;
            }
            if let Some(stretch) = self.participations.follow(open_round, booking) {
                self.end(stretch);
            }
        }
        if let Some(span) = span {
            self.model_steps += span.steps;
            self.waiting = 0;
            self.last_round = Some(span);
        }
    }

    fn end(&mut self, stretch: Stretch) {
        if !matches!(stretch.phase, Phase::Work(job) if !job.is_the_devices()) {
            self.work += stretch.work;
        }
        if let Phase::Transfer(route) = stretch.phase {
            *self
                .carried
                .entry((route.direction, stretch.ending))
                .or_default() += stretch.carried_bytes;
            self.waiting += u32::from(route == Route::UPLOAD && stretch.ending == Ending::Done);
        }
        if stretch.is_last() {
            *self.ended.entry(stretch.ending).or_default() += 1;
        }
        if stretch.ending == Ending::Unfinished {
            self.under_way.push(stretch);
        }
    }

    /// Returns in words the state of a run of `scenario` that was asked to go on up to `at`, in
    /// lines of at most 100 columns except for the first one. Users are named as `who` says.
    pub fn describe(
        &self,
        scenario: &Scenario,
        at: SimTime,
        reached: Reached,
        who: impl Fn(UserId) -> Who,
    ) -> String {
        let seconds = |time: SimTime| format!("{} s", time.as_secs_f64());
        let planned = scenario.training.rounds;
        let (finished, since) = self
            .last_round
            .map_or((0, SimTime::ZERO), |last| (last.round, last.ended));
        let (name, open) = (&scenario.name, finished + 1);
        let before = if since < at {
            format!(", before {}", seconds(at))
        } else {
            String::new()
        };
        let title = match reached {
            Reached::Instant => format!(
                "{name}, at {}: round {open} of {planned} is open since {}",
                seconds(at),
                seconds(since)
            ),
            Reached::LastRound => format!(
                "{name}: the last of {} has ended at {}{before}",
                counted(planned.into(), "round"),
                seconds(since)
            ),
            Reached::Failure => format!(
                "{name}: the run has failed in round {open} of {planned}, open since {}{before}",
                seconds(since)
            ),
        };
        let mut lines = Vec::new();
        let mut entry = |name: &str, text: String| lines.push((name.to_owned(), text));
        entry(
            "rounds",
            setup::mode_in_words(&Policy::of(&scenario.training.mode), &scenario.training),
        );
        entry("model", counted(self.model_steps.into(), "step"));
        entry("participations", self.participations_in_words());
        for (name, direction) in [("down", Direction::Down), ("up", Direction::Up)] {
            entry(name, self.carried_in_words(direction));
        }
        entry("row visits", thousands(self.work.row_visits));
        if self.work.multiply_adds > 0 {
            entry("multiply-adds", thousands(self.work.multiply_adds));
        }
        if reached == Reached::Instant && self.under_way.is_empty() {
            entry(
                "under way",
                "nobody: the round waits for a user to come, or for its deadline".to_owned(),
            );
        }
        for phase in [
            Phase::InLine(Route::ROW_REQUEST),
            Phase::Transfer(Route::ROW_REQUEST),
            Phase::InLine(Route::ASKED_ROWS),
            Phase::Transfer(Route::ASKED_ROWS),
            Phase::InLine(Route::DOWNLOAD),
            Phase::Transfer(Route::DOWNLOAD),
            Phase::Work(Job::Request),
            Phase::Transfer(Route::REQUEST),
            Phase::Work(Job::Reply),
            Phase::Transfer(Route::REPLY),
            Phase::Work(Job::Training),
            Phase::InLine(Route::UPLOAD),
            Phase::Transfer(Route::UPLOAD),
        ] {
            if let Some(users) = self.users_in_words(phase, &who) {
                let name = match phase {
                    Phase::InLine(Route::DOWNLOAD | Route::ASKED_ROWS) => "in line (down)",
                    Phase::InLine(Route::UPLOAD) => "in line (up)",
                    Phase::InLine(Route::ROW_REQUEST) => "in line (ask)",
                    other => other.name(),
                };
                entry(name, users);
            }
        }
        let blocks = vec![Block::List(lines)];
        let document = Document {
            title,
            blocks,
            ..Document::default()
        };
        document.terminal(Some(WIDTH))
    }

    fn participations_in_words(&self) -> String {
        let count = |end: Ending| self.ended.get(&end).copied().unwrap_or_default();
        let name = |end: Ending| match end {
            Ending::Unfinished => "under way",
            other => other.name(),
        };
        // An update that has arrived is used when its round ends.
        let waiting = u64::from(self.waiting);
        let mut fates = vec![
            (count(Ending::Done) - waiting, "used"),
            (waiting, "waiting for the end of the round"),
        ];
        fates.extend(
            Ending::ALL
                .into_iter()
                .filter(|end| *end != Ending::Done)
                .map(|end| (count(end), name(end))),
        );
        fates.retain(|(count, _)| *count > 0);
        let fates = fates
            .iter()
            .map(|(count, name)| format!("{} {name}", thousands(*count)));
        format!("{} begun{}", thousands(self.begun), listed(fates))
    }

    fn carried_in_words(&self, direction: Direction) -> String {
        let carried = |end: Ending| {
            self.carried
                .get(&(direction, end))
                .copied()
                .unwrap_or_default()
        };
        let name = |end: Ending| match end {
            Ending::Done => "useful",
            Ending::Unfinished => "under way",
            other => other.name(),
        };
        let all: u64 = Ending::ALL.into_iter().map(carried).sum();
        let fates = Ending::ALL.into_iter().filter(|end| carried(*end) > 0);
        let fates = fates.map(|end| format!("{} {}", Bytes::new(carried(end)), name(end)));
        format!("{}{}", Bytes::new(all), listed(fates))
    }

    /// Returns which users are in `phase` and how far they are; `None` if there are none.
    fn users_in_words(&self, phase: Phase, who: impl Fn(UserId) -> Who) -> Option<String> {
        let users: Vec<&Stretch> = self
            .under_way
            .iter()
            .filter(|stretch| stretch.phase == phase)
            .collect();
        let how_far = |stretch: &Stretch| match stretch.phase {
            Phase::InLine(_) => format!("since {} s", stretch.from.as_secs_f64()),
            Phase::Transfer(_) if stretch.carried_bytes == stretch.frame_bytes => {
                format!("all {} sent", Bytes::new(stretch.frame_bytes))
            }
            Phase::Transfer(_) => {
                format!(
                    "{} of {}",
                    Bytes::new(stretch.carried_bytes),
                    Bytes::new(stretch.frame_bytes)
                )
            }
            Phase::Work(_) => counted(stretch.work.row_visits, "row visit"),
        };
        let named: Vec<String> = users
            .iter()
            .take(NAMED_MAX)
            .map(|stretch| format!("{:#} ({})", who(stretch.user), how_far(stretch)))
            .collect();
        let more = match users.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(", and {} more", thousands(more as u64)),
        };
        (!users.is_empty()).then(|| {
            format!(
                "{}: {}{more}",
                counted(users.len() as u64, "user"),
                named.join(", ")
            )
        })
    }
}

/// Returns the parts of something after a colon; nothing without any.
fn listed(parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<String> = parts.collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!(": {}", parts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::events::{Scene, ended, parts, two_rounds};
    use crate::tests::records as sample;

    #[test]
    fn the_state_within_a_round_reads_like_this() {
        let mut state = State::default();
        let [(first, bookings), _] = two_rounds();
        state.take(Some(first), &bookings);
        // User 2 is still uploading when the run is stopped.
        let rest = Scene::default()
            .at(9_000, 5, LinkEvent::Sent(Route::DOWNLOAD, parts(100)))
            .at(9_000, 6, LinkEvent::Sent(Route::DOWNLOAD, parts(100)))
            .at(9_000, 6, LinkEvent::InLine(Route::DOWNLOAD))
            .at(9_400, 2, ended(Route::UPLOAD, Ending::Unfinished, 55, 400))
            .at(
                9_400,
                5,
                ended(Route::DOWNLOAD, Ending::Unfinished, 30, 400),
            )
            .at(9_400, 6, ended(Route::DOWNLOAD, Ending::Unfinished, 0, 400));
        state.take(None, &rest.bookings);
        let scenario = sample::run(60).scenario;
        insta::assert_snapshot!(state.describe(
            &scenario,
            SimTime::from_nanos(9_400),
            Reached::Instant,
            |user| Who {
                id: user,
                name: (user == UserId(5)).then(|| "Zoë".into()),
            },
        ));
    }

    #[test]
    fn a_round_of_nobody_says_what_it_waits_for() {
        let state = State::default();
        let says = |reached| {
            let text = state.describe(
                &sample::run(60).scenario,
                SimTime::from_nanos(9_400),
                reached,
                Who::from,
            );
            text.contains("waits for a user to come")
        };
        assert!(says(Reached::Instant) && !says(Reached::LastRound));
    }

    /// If this fails, a reader takes the end of a run for its state at the instant that was asked
    /// for.
    #[test]
    fn a_run_that_does_not_get_that_far_says_where_it_ended() {
        let mut state = State::default();
        let [(first, bookings), _] = two_rounds();
        state.take(Some(first), &bookings);
        let first_line = |at, reached| {
            let text = state.describe(
                &sample::run(60).scenario,
                SimTime::from_nanos(at),
                reached,
                Who::from,
            );
            text.lines().next().map(str::to_owned)
        };
        let expected = |text: &str| Some(format!("ml100k-fedrap: {text}"));
        let failed = "the run has failed in round 2 of 60, open since 0.000009 s, before 7 s";
        assert_eq!(
            first_line(7_000_000_000, Reached::Failure),
            expected(failed)
        );
        let over = "the last of 60 rounds has ended at 0.000009 s";
        assert_eq!(
            first_line(9_000, Reached::LastRound),
            expected(over),
            "at that instant, and not before it"
        );
        assert_eq!(
            first_line(9_500, Reached::LastRound),
            expected(&format!("{over}, before 0.0000095 s"))
        );
    }

    #[test]
    fn updates_wait_until_their_round_ends() {
        let mut state = State::default();
        let [(first, bookings), _] = two_rounds();
        state.take(None, &bookings);
        assert_eq!((state.waiting, state.model_steps), (1, 0));
        let mut state = State::default();
        state.take(Some(first), &bookings);
        assert_eq!((state.waiting, state.model_steps), (0, 1));
    }
}
