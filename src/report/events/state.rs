//! The state of a run at an instant, as the events until then tell it.

use std::collections::BTreeMap;

use super::stretch::{End, Participations, Phase, Stretch};
use crate::report::setup;
use crate::report::words::{counted, thousands};
use crate::scenario::Scenario;
use crate::sim::outcome::events::{Booking, LinkEvent, RoundSpan};
use crate::units::{Bytes, Direction, SimTime};

/// Users that are named of each phase.
const NAMED_MAX: usize = 12;

/// What a run is at.
#[derive(Debug, Default)]
pub struct State {
    participations: Participations,
    last_round: Option<RoundSpan>,
    /// Rounds with an update in their average.
    model_steps: u32,
    /// Updates that have arrived since the last round ended.
    waiting: u32,
    begun: u64,
    /// Participations by how they ended; those under way are unfinished.
    ended: BTreeMap<End, u64>,
    /// What was carried, by direction and what became of it.
    carried: BTreeMap<(Direction, End), u64>,
    row_visits: u64,
    under_way: Vec<Stretch>,
}

impl State {
    /// What happened while a round was open, or since the last one ended.
    pub fn take(&mut self, span: Option<RoundSpan>, bookings: &[Booking]) {
        let open_round = self.last_round.map_or(0, |last| last.round) + 1;
        for booking in bookings {
            if let LinkEvent::Sent(Direction::Down, _) = booking.event {
                self.begun += 1;
            }
            if let Some(stretch) = self.participations.follow(open_round, booking) {
                self.end(stretch);
            }
        }
        if let Some(span) = span {
            self.model_steps += u32::from(span.aggregated > 0);
            self.waiting = 0;
            self.last_round = Some(span);
        }
    }

    fn end(&mut self, stretch: Stretch) {
        self.row_visits += stretch.row_visits;
        if let Phase::Transfer(direction) = stretch.phase {
            *self.carried.entry((direction, stretch.end)).or_default() += stretch.carried_bytes;
            self.waiting += u32::from(direction == Direction::Up && stretch.end == End::Done);
        }
        if stretch.is_last() {
            *self.ended.entry(stretch.end).or_default() += 1;
        }
        if stretch.end == End::Unfinished {
            self.under_way.push(stretch);
        }
    }

    /// The state in words, at `at` of a run of `scenario`; `over` says that its last round has ended before that.
    pub fn describe(&self, scenario: &Scenario, at: SimTime, over: bool) -> String {
        let seconds = |time: SimTime| format!("{} s", time.as_secs_f64());
        let planned = scenario.training.rounds;
        let (finished, since) = self.last_round.map_or((0, SimTime::ZERO), |last| (last.round, last.ended));
        let mut lines = vec![if over {
            let rounds = counted(planned.into(), "round");
            format!("{}: the last of {rounds} has ended at {}, before {}", scenario.name, seconds(since), seconds(at))
        } else {
            let open = format!("round {} of {planned} is open since {}", finished + 1, seconds(since));
            format!("{}, at {}: {open}", scenario.name, seconds(at))
        }];
        let mut entry = |name: &str, text: String| lines.push(format!("  {name:<16}{text}"));
        entry("rounds", setup::mode(&scenario.training.mode));
        entry("model", counted(self.model_steps.into(), "step"));
        entry("updates waiting", format!("{} for the end of the round", thousands(self.waiting.into())));
        entry("participations", self.participations_in_words());
        for (name, direction) in [("down", Direction::Down), ("up", Direction::Up)] {
            entry(name, self.carried_in_words(direction));
        }
        entry("row visits", thousands(self.row_visits));
        for phase in [
            Phase::InLine(Direction::Down),
            Phase::Transfer(Direction::Down),
            Phase::Training,
            Phase::InLine(Direction::Up),
            Phase::Transfer(Direction::Up),
        ] {
            if let Some(users) = self.users_in_words(phase) {
                let name = match phase {
                    Phase::InLine(Direction::Down) => "in line (down)",
                    Phase::InLine(Direction::Up) => "in line (up)",
                    other => other.name(),
                };
                entry(name, users);
            }
        }
        lines.join("\n") + "\n"
    }

    fn participations_in_words(&self) -> String {
        let count = |end: End| self.ended.get(&end).copied().unwrap_or_default();
        let name = |end: End| match end {
            End::Done => "used",
            End::Unfinished => "under way",
            other => other.name(),
        };
        let fates: Vec<String> = End::ALL
            .into_iter()
            .filter(|end| count(*end) > 0)
            .map(|end| format!("{} {}", thousands(count(end)), name(end)))
            .collect();
        let fates = if fates.is_empty() { String::new() } else { format!(": {}", fates.join(", ")) };
        format!("{} begun{fates}", thousands(self.begun))
    }

    fn carried_in_words(&self, direction: Direction) -> String {
        let carried = |end: End| self.carried.get(&(direction, end)).copied().unwrap_or_default();
        let name = |end: End| match end {
            End::Done => "useful",
            End::Unfinished => "under way",
            other => other.name(),
        };
        let all: u64 = End::ALL.into_iter().map(carried).sum();
        let fates: Vec<String> = End::ALL
            .into_iter()
            .filter(|end| carried(*end) > 0)
            .map(|end| format!("{} {}", Bytes::new(carried(end)), name(end)))
            .collect();
        let fates = if fates.is_empty() { String::new() } else { format!(": {}", fates.join(", ")) };
        format!("{}{fates}", Bytes::new(all))
    }

    /// Who is at `phase`, and how far; `None` if nobody is.
    fn users_in_words(&self, phase: Phase) -> Option<String> {
        let users: Vec<&Stretch> = self.under_way.iter().filter(|stretch| stretch.phase == phase).collect();
        let how_far = |stretch: &Stretch| match stretch.phase {
            Phase::InLine(_) => format!("since {} s", stretch.from.as_secs_f64()),
            Phase::Transfer(_) => {
                format!("{} of {}", Bytes::new(stretch.carried_bytes), Bytes::new(stretch.frame_bytes))
            }
            Phase::Training => counted(stretch.row_visits, "row visit"),
        };
        let named: Vec<String> =
            users.iter().take(NAMED_MAX).map(|stretch| format!("{} ({})", stretch.user, how_far(stretch))).collect();
        let more = match users.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(", and {} more", thousands(more as u64)),
        };
        (!users.is_empty()).then(|| format!("{}: {}{more}", counted(users.len() as u64, "user"), named.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::events::sample::{Scene, parts, two_rounds};
    use crate::report::sample;

    #[test]
    fn the_state_within_a_round_reads_like_this() {
        let mut state = State::default();
        let [(first, bookings), _] = two_rounds();
        state.take(Some(first), &bookings);
        // User 2 is still uploading; the run is stopped.
        let rest = Scene::default()
            .at(9_000, 5, LinkEvent::Sent(Direction::Down, parts(100)))
            .at(9_000, 6, LinkEvent::Sent(Direction::Down, parts(100)))
            .at(9_000, 6, LinkEvent::InLine(Direction::Down))
            .at(9_400, 2, LinkEvent::Unfinished(Direction::Up, 55))
            .at(9_400, 5, LinkEvent::Unfinished(Direction::Down, 30))
            .at(9_400, 6, LinkEvent::Unfinished(Direction::Down, 0));
        state.take(None, &rest.bookings);
        let scenario = sample::run(60).scenario;
        insta::assert_snapshot!(state.describe(&scenario, SimTime::from_nanos(9_400), false));
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
