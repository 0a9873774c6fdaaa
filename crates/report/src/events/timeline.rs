//! Draws some rounds' participations as rows of bars over virtual time.

use std::collections::BTreeMap;

use super::stretch::{Phase, Stretch};
use crate::chart::{self, Axis, Chart, Kind, LineStyle, Mark, Row};
use crate::column::Unit;
use crate::overrides::changed_by_set;
use crate::plot::draw;
use crate::plot::timeline::BAR_WIDTH_MIN;
use crate::setup::mode_in_words;
use crate::words::{counted, duration, thousands};
use fedrecsim_core::legs::{Job, Route};
use fedrecsim_core::{InvitationId, Result, SimDuration, SimTime, UserId, Who};
use fedrecsim_scenario::{Policy, Scenario};
use fedrecsim_sim::outcome::{Ending, RoundSpan};

/// The most rows that a reader can tell apart.
const ROWS_MAX: usize = 60;

/// The latest deadline that is drawn, as a multiple of the time that has events.
const DEADLINE_MAX: f64 = 1.5;

/// The contents of a picture.
#[derive(Debug, Default)]
pub struct Timeline {
    /// First line of the picture.
    title: String,
    /// How rounds are run, in words.
    mode: String,
    /// Which keys of the scenario were changed on the command line, as a sentence, if any were.
    overrides: Option<String>,
    /// Time from the invitation of a round to its deadline.
    deadline: Option<SimDuration>,
    /// The rounds, in order.
    pub(super) rounds: Vec<RoundSpan>,
    /// The stretches of all participations that were invited in these rounds, in the order of their
    /// ends.
    pub(super) stretches: Vec<Stretch>,
    /// Their users.
    pub(super) named: BTreeMap<UserId, Who>,
}

/// The phases that have a colour of their own, by its number: sky blue, orange and green, then four
/// for the exchange with a third party, and grey for waiting.
const COLORS: [(Phase, usize); 8] = [
    (Phase::Transfer(Route::DOWNLOAD), 5),
    (Phase::Work(Job::Training), 4),
    (Phase::Transfer(Route::UPLOAD), 2),
    (Phase::Work(Job::Request), 16),
    (Phase::Work(Job::Reply), 0),
    (Phase::Transfer(Route::REQUEST), 1),
    (Phase::Transfer(Route::REPLY), 3),
    (Phase::InLine(Route::UPLOAD), 17),
];

fn color(phase: Phase) -> usize {
    let shown = match phase {
        Phase::InLine(_) => Phase::InLine(Route::UPLOAD),
        // A method with a third party and requests for rows has two kinds of requests of one
        // colour.
        Phase::Transfer(Route::ROW_REQUEST) => Phase::Transfer(Route::REQUEST),
        Phase::Transfer(Route::ASKED_ROWS) => Phase::Transfer(Route::DOWNLOAD),
        other => other,
    };
    let found = COLORS.iter().find(|(phase, _)| *phase == shown);
    found.map_or(6, |(_, color)| *color)
}

fn mark(end: Ending) -> Option<Mark> {
    match end {
        Ending::Done => None,
        Ending::Late => Some(Mark::Ring),
        Ending::Stale => Some(Mark::Disc),
        Ending::Lost => Some(Mark::Cross),
        Ending::Cancelled => Some(Mark::Square),
        Ending::Unfinished => Some(Mark::Arrow),
    }
}

impl Timeline {
    /// Returns a picture of a scenario; the command line has changed the keys in `set`.
    pub fn of(scenario: &Scenario, set: &[String]) -> Self {
        let Scenario {
            name,
            method,
            seed,
            training,
            ..
        } = scenario;
        let policy = Policy::of(&training.mode);
        Self {
            title: format!("{name}: {}, seed {seed}", method.name),
            mode: mode_in_words(&policy, training),
            overrides: changed_by_set(set, training.rounds),
            deadline: policy.deadline,
            ..Self::default()
        }
    }

    /// Returns the stretches of each participation, in the order of the participations' ends.
    fn participations(&self) -> Vec<Vec<&Stretch>> {
        let mut by_name: BTreeMap<(InvitationId, UserId), Vec<&Stretch>> = BTreeMap::new();
        for stretch in &self.stretches {
            by_name
                .entry((stretch.invitation_id, stretch.user))
                .or_default()
                .push(stretch);
        }
        let mut all: Vec<_> = by_name.into_values().collect();
        // The sort is stable, so that participations that end together stay in the order of their
        // users.
        all.sort_by_key(|stretches| stretches.last().map(|last| last.to));
        all
    }

    /// Returns the picture as an SVG document.
    ///
    /// # Errors
    /// Those of [`draw`](crate::plot::draw).
    pub(crate) fn render(&self) -> Result<String> {
        let title = &self.title;
        let (chart, subtitle) = self.chart();
        draw("the picture of events", &chart, 0, (title, &subtitle))
    }

    fn chart(&self) -> (Chart, String) {
        let all = self.participations();
        let start = self
            .rounds
            .first()
            .map_or(SimTime::ZERO, |round| round.began);
        let seconds = |time: SimTime| time.since(start).as_secs_f64();
        let shown = spread(all.len(), ROWS_MAX).map(|place| &all[place]);
        let shown: Vec<&Vec<&Stretch>> = shown.collect();
        let rows = shown.iter().map(|stretches| self.row(stretches, seconds));
        let rows: Vec<Row> = rows.collect();
        let ends = self.rounds.iter().map(|round| seconds(round.ended));
        let mut rules: Vec<(LineStyle, f64)> = ends.map(|end| (LineStyle::Solid, end)).collect();
        let bars = rows.iter().flat_map(|row| &row.bars).map(|bar| bar.2);
        let ends = rules.iter().map(|(_, at_s)| *at_s);
        let happened_s = bars.chain(ends).fold(0.0, f64::max);
        // A deadline that is far away would leave little room for what happens, so it is not drawn.
        let near = |at_s: &f64| *at_s <= DEADLINE_MAX * happened_s;
        let deadlines: Vec<f64> = self
            .deadlines()
            .into_iter()
            .map(seconds)
            .filter(near)
            .collect();
        let length_s = deadlines.iter().copied().fold(happened_s, f64::max);
        rules.extend(deadlines.iter().map(|at_s| (LineStyle::Dashed, *at_s)));
        let mut lines = vec![(LineStyle::Solid, "end of a round".to_owned())];
        lines.extend(self.deadline.map(|deadline| {
            let beyond = if deadlines.is_empty() {
                ", beyond the picture"
            } else {
                ""
            };
            let deadline = duration(deadline.as_secs_f64());
            (
                LineStyle::Dashed,
                format!("deadline: {deadline} after the invitation{beyond}"),
            )
        }));
        let occurs = |hue: usize| {
            let mut stretches = shown.iter().copied().flatten();
            stretches.any(|stretch| color(stretch.phase) == hue)
        };
        // These are named even if they do not occur, as every participation has them.
        let always = [
            Phase::Transfer(Route::DOWNLOAD),
            Phase::Transfer(Route::UPLOAD),
            Phase::Work(Job::Training),
        ];
        let is_named = |(phase, hue): &&(Phase, usize)| always.contains(phase) || occurs(*hue);
        let bars = COLORS.iter().filter(is_named);
        let since = self.rounds.first().map(|round| round.round);
        let since = since.map_or_else(String::new, |round| format!("round {round} began"));
        let subtitle = self.subtitle(all.len(), rows.len());
        let timeline = chart::Timeline {
            length_s,
            rows,
            rules,
            bars: bars
                .map(|(phase, color)| (*color, phase_name(*phase).to_owned()))
                .collect(),
            marks: marks(&all, shown.len()),
            lines,
        };
        let across = Axis::new("", format!("virtual time since {since}"), Unit::Seconds);
        let chart = Chart {
            kind: Kind::Timeline(timeline),
            across: vec![across],
            remark: "nobody took part",
            ..Chart::default()
        };
        (chart, subtitle)
    }

    fn row(&self, stretches: &[&Stretch], seconds: impl Fn(SimTime) -> f64) -> Row {
        let bars = stretches.iter().map(|stretch| {
            (
                color(stretch.phase),
                seconds(stretch.from),
                seconds(stretch.to),
            )
        });
        let last = stretches.last();
        let named = last.and_then(|last| self.named.get(&last.user));
        Row {
            label: named.map_or_else(String::new, |who| format!("{who:#}")),
            bars: bars.collect(),
            mark: last.and_then(|last| Some((mark(last.ending)?, seconds(last.to)))),
        }
    }

    fn subtitle(&self, all: usize, shown: usize) -> String {
        let rounds = match (self.rounds.first(), self.rounds.last()) {
            (Some(first), Some(last)) if first.round < last.round => {
                format!("rounds {} to {}", first.round, last.round)
            }
            (Some(first), _) => format!("round {}", first.round),
            _ => "no round".to_owned(),
        };
        let which = if shown < all {
            format!(
                "{shown} of the {} participations that began in {rounds}, evenly spread",
                thousands(all as u64)
            )
        } else {
            format!(
                "the {} that began in {rounds}",
                counted(all as u64, "participation")
            )
        };
        let shown = format!(
            "{}. Shown: {which}, in the order in which they ended. No bar is narrower than {BAR_WIDTH_MIN} pixels.",
            self.mode
        );
        match &self.overrides {
            Some(overrides) => format!("{shown}\n{overrides}."),
            None => shown,
        }
    }

    /// Returns the deadlines of the rounds, each counted from its invitation.
    fn deadlines(&self) -> Vec<SimTime> {
        let Some(deadline) = self.deadline else {
            return Vec::new();
        };
        let mut invited: BTreeMap<u32, SimTime> = BTreeMap::new();
        for stretch in &self.stretches {
            let first = invited.entry(stretch.round).or_insert(stretch.from);
            *first = (*first).min(stretch.from);
        }
        invited
            .into_values()
            .map(|invited| invited + deadline)
            .collect()
    }
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::InLine(_) => "in line for a connection",
        other => other.name(),
    }
}

/// Returns the marks that occur, with their names and the number of participations that have each,
/// shown or not.
fn marks(participations: &[Vec<&Stretch>], shown: usize) -> Vec<(Mark, String)> {
    let of_all = match participations.len() {
        all if all > shown => format!(" of all {}", thousands(all as u64)),
        _ => String::new(),
    };
    let count = |end: Ending| {
        participations
            .iter()
            .filter(|all| all.last().is_some_and(|last| last.ending == end))
            .count()
    };
    let name = |end: Ending| match end {
        Ending::Done => "used",
        Ending::Late => "late: arrived, not used",
        Ending::Stale => "stale: arrived, too old to be used",
        Ending::Lost => "lost",
        Ending::Cancelled => "cancelled by the server",
        Ending::Unfinished => "under way when the run ended",
    };
    let marked = Ending::ALL
        .into_iter()
        .filter_map(|end| Some((end, mark(end)?)));
    marked
        .filter(|(end, _)| count(*end) > 0)
        .map(|(end, mark)| {
            (
                mark,
                format!("{} ({}{of_all})", name(end), thousands(count(end) as u64)),
            )
        })
        .collect()
}

/// Returns at most `most` places out of `all`, evenly spread, with the first and, if there are two,
/// the last among them.
fn spread(all: usize, most: usize) -> impl Iterator<Item = usize> {
    let shown = all.min(most);
    (0..shown).map(move |place| {
        if shown < 2 {
            0
        } else {
            place * (all - 1) / (shown - 1)
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::events::stretch::Participations;
    use crate::tests::events::{span, two_rounds};

    fn timeline() -> Timeline {
        let mut participations = Participations::default();
        let mut timeline = Timeline {
            title: "small".to_owned(),
            mode: "over-selection".to_owned(),
            deadline: Some(SimDuration::from_nanos(8_000)),
            ..Timeline::default()
        };
        let [(first, bookings), (_, late)] = two_rounds();
        timeline.rounds.push(first);
        timeline.stretches.extend(
            bookings
                .iter()
                .filter_map(|booking| participations.follow(1, booking)),
        );
        timeline.stretches.extend(
            late.iter()
                .filter_map(|booking| participations.follow(2, booking)),
        );
        let users = timeline.stretches.iter().map(|stretch| stretch.user);
        timeline.named = users.map(|user| (user, user.into())).collect();
        timeline.named.insert(
            UserId(4),
            Who {
                id: UserId(4),
                name: Some("Zoë".into()),
            },
        );
        timeline
    }

    fn chart_of(timeline: &Timeline) -> chart::Timeline {
        match timeline.chart().0.kind {
            Kind::Timeline(timeline) => timeline,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rows_are_participations_in_the_order_of_their_ends_with_marks() {
        let chart = chart_of(&timeline());
        let rows: Vec<_> = chart
            .rows
            .iter()
            .map(|row| {
                (
                    row.label.as_str(),
                    row.bars.len(),
                    row.mark.map(|(mark, _)| mark),
                )
            })
            .collect();
        assert_eq!(
            rows,
            [
                ("user 3", 2, Some(Mark::Cross)),
                ("user 1", 3, None),
                ("user 4 \"Zoë\"", 2, Some(Mark::Square)),
                ("user 2", 3, Some(Mark::Ring))
            ]
        );
        assert!(
            chart.rules.contains(&(LineStyle::Dashed, 8e-6)),
            "{:?}",
            chart.rules
        );
        assert_eq!(
            chart.length_s, 8.5e-6,
            "the late one's end is on the picture"
        );
    }

    /// If this fails, a long deadline leaves only a corner of the picture to everything that
    /// happens.
    #[test]
    fn a_deadline_far_away_is_told_and_not_drawn() {
        let far = Timeline {
            deadline: Some(SimDuration::from_nanos(1_000_000)),
            ..timeline()
        };
        let chart = chart_of(&far);
        assert!(
            chart
                .rules
                .iter()
                .all(|(rule, _)| *rule == LineStyle::Solid),
            "{:?}",
            chart.rules
        );
        assert_eq!(chart.length_s, 8.5e-6);
        assert_eq!(
            chart.lines[1].1,
            "deadline: 1.00 ms after the invitation, beyond the picture"
        );
    }

    #[test]
    fn a_line_for_connections_is_named_where_there_is_one() {
        let mut timeline = timeline();
        assert_eq!(chart_of(&timeline).bars.len(), 4, "user 4 waits");
        timeline
            .stretches
            .retain(|stretch| !matches!(stretch.phase, Phase::InLine(_)));
        assert_eq!(chart_of(&timeline).bars.len(), 3);
    }

    #[test]
    fn marks_count_the_participations_that_are_not_shown_too() {
        let timeline = timeline();
        let all = timeline.participations();
        assert_eq!(marks(&all, 4)[1].1, "lost (1)");
        assert_eq!(marks(&all, 2)[1].1, "lost (1 of all 4)");
    }

    #[test]
    fn of_many_participations_the_first_and_the_last_are_among_the_shown() {
        let places: Vec<usize> = spread(943, 60).collect();
        assert_eq!((places.len(), places[0], places[59]), (60, 0, 942));
        assert!(places.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(spread(1, 60).collect::<Vec<_>>(), [0]);
        assert_eq!(spread(0, 60).count(), 0);
    }

    #[test]
    fn the_picture_names_its_rows_marks_and_lines() {
        let svg = timeline().render().unwrap();
        for text in [
            "user 2",
            "cancelled by the server (1)",
            "deadline: 8.00 µs",
            "round 1 began",
            "over-selection",
        ] {
            assert!(svg.contains(text), "no {text:?} in\n{svg}");
        }
        assert!(svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn a_round_of_nobody_has_a_picture() {
        let empty = Timeline {
            rounds: vec![span(1, 0, 0, 0)],
            ..Timeline::default()
        };
        assert!(empty.render().unwrap().contains("nobody took part"));
    }
}
