//! Doubts about a result: what its figures cannot bear, however exact they are.

use super::document::Block;
use super::frame::Frame;
use super::metrics;
use super::record::RunRecord;
use super::reference::RANDOM;
use super::rounds;
use super::words::{self, counted};
use fedrecsim_core::Direction;

/// The share of the rounds at the end in which a best round means that the run was still improving.
const LAST: f64 = 0.1;

/// The most bits per second of a link without a limit that nobody has to doubt.
const PLAUSIBLE_BITS_PER_S: f64 = 1e9;

/// The least time of a training that a device can be believed to need: starting an app takes longer.
const PLAUSIBLE_TRAINING_S: f64 = 1e-3;

/// The least number of tested users that a mean over users can bear.
const ENOUGH_USERS: u64 = 200;

/// How the metric of a run goes on in its last rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// The metric is the same in every round, as that of a method that does not train.
    Flat,
    /// The best round is among the last ones, and the metric still gets better there.
    Improving,
    /// The metric does not get better any more.
    Settled,
    /// There are too few evaluated rounds to tell.
    Unknown,
}

impl Course {
    /// Returns that of a metric, on the validation part if that was evaluated.
    pub(crate) fn of(rounds: &Frame, metric: &str) -> Self {
        let column = |split: &str| -> Vec<(f64, f64)> {
            let values = rounds.get(&format!("{split}_{metric}")).iter();
            let numbers = rounds.get(rounds::ROUND).iter();
            let pairs = numbers.zip(values);
            pairs
                .filter_map(|(round, value)| (*round).zip(*value))
                .collect()
        };
        let validation = column("validation");
        let points = match validation.is_empty() {
            true => column("test"),
            false => validation,
        };
        let [first, .., (last, _)] = &points[..] else {
            return Self::Unknown;
        };
        if points.iter().all(|point| point.1 == first.1) {
            return Self::Flat;
        }
        if points.len() < 3 {
            return Self::Unknown;
        }
        let better = metrics::better(metric);
        let best =
            points.iter().reduce(
                |best, point| match better.compare(point.1, best.1).is_gt() {
                    true => point,
                    false => best,
                },
            );
        let is_late = best.is_some_and(|best| best.0 > (1.0 - LAST) * last);
        // A best value among the last ones may be chance. One that is rising has better means, too.
        let size = (points.len() as f64 * LAST).max(1.0) as usize;
        let mean = |back: usize| {
            let end = points.len() - back * size;
            let part = &points[end - size..end];
            part.iter().map(|point| point.1).sum::<f64>() / size as f64
        };
        let rises = |back: usize| better.compare(mean(back), mean(back + 1)).is_gt();
        match is_late && rises(0) && rises(1) {
            true => Self::Improving,
            false => Self::Settled,
        }
    }

    /// Returns the words of a table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Flat => "the same in every round",
            Self::Improving => "still improving",
            Self::Settled => "settled",
            Self::Unknown => "-",
        }
    }
}

/// A doubt about a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Doubt {
    /// More rounds may give more.
    StillImproving { rounds: u32 },
    /// The server's link has no limit this way, or neither way, and carried so much.
    EndlessLink {
        way: Option<Direction>,
        rounds: u32,
        bytes: u64,
        time_s: f64,
        bits_per_s: f64,
    },
    /// Half of the trainings took no longer than this.
    ShortTraining { median_s: f64 },
    /// So few users are tested.
    FewUsers { users: u64 },
    /// Newcomers come after the last evaluated round, or before the first one.
    UnseenNewcomers {
        at_s: f64,
        are_items: bool,
        never_came: bool,
    },
    /// Scores by chance are as good.
    AtChance { random: f64 },
}

/// Returns the doubts about a run that is judged by a metric.
pub(crate) fn of<S>(run: &RunRecord<S>, rounds: &Frame, metric: &str) -> Vec<Doubt> {
    let is_improving = Course::of(rounds, metric) == Course::Improving;
    let improving = is_improving.then_some(Doubt::StillImproving { rounds: run.rounds });
    let users = run.size.evaluated_users;
    let few = (1..ENOUGH_USERS).contains(&users);
    let few = few.then_some(Doubt::FewUsers { users });
    [
        at_chance(run, metric),
        improving,
        endless_link(run),
        short_training(run),
        unseen_newcomers(run),
        few,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What runs no round, as random scores themselves, cannot have learned.
fn at_chance<S>(run: &RunRecord<S>, metric: &str) -> Option<Doubt> {
    let random = *run.baselines.get(RANDOM)?.test.get(metric)?;
    let own = run.accuracy.test.get(metric)?;
    let is_better = metrics::better(metric).compare(*own, random).is_gt();
    (run.rounds > 0 && !is_better).then_some(Doubt::AtChance { random })
}

fn endless_link<S>(run: &RunRecord<S>) -> Option<Doubt> {
    let network = run.network?;
    let (up, down) = (run.bytes.up.sent, run.bytes.down.sent);
    let (way, bytes) = match (network.up.mean_share, network.down.mean_share) {
        (None, None) => (None, up + down),
        (None, Some(_)) => (Some(Direction::Up), up),
        (Some(_), None) => (Some(Direction::Down), down),
        (Some(_), Some(_)) => return None,
    };
    let bits_per_s = 8.0 * bytes as f64 / run.virtual_time_s;
    (bits_per_s > PLAUSIBLE_BITS_PER_S).then_some(Doubt::EndlessLink {
        way,
        rounds: run.rounds,
        bytes,
        time_s: run.virtual_time_s,
        bits_per_s,
    })
}

fn short_training<S>(run: &RunRecord<S>) -> Option<Doubt> {
    let training = run.durations.get("compute")?;
    let work = &run.work;
    let rows = work.finished + work.lost;
    // Devices of a method that is trained at the server send what it trains on, and train nothing.
    let trains = rows + work.finished_multiply_adds + work.lost_multiply_adds > 0;
    let is_short = trains && training.count > 0 && training.p50_s < PLAUSIBLE_TRAINING_S;
    is_short.then_some(Doubt::ShortTraining {
        median_s: training.p50_s,
    })
}

fn unseen_newcomers<S>(run: &RunRecord<S>) -> Option<Doubt> {
    let newcomers = run.newcomers.as_ref()?;
    let never_came = newcomers.joined.is_none();
    (never_came || newcomers.after_ratings.is_empty()).then_some(Doubt::UnseenNewcomers {
        are_items: newcomers.items > 0,
        at_s: newcomers.at_s,
        never_came,
    })
}

impl Doubt {
    /// Returns whether two doubts are of the same kind.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Returns the doubt about `whom`, such as "FedMF and PFedRec", or about the only run.
    pub(crate) fn note(&self, whom: Option<&str>) -> Block {
        let (title, text) = match *self {
            Self::StillImproving { rounds } => (
                match whom {
                    Some(whom) if whom.contains(" and ") => {
                        format!("{whom} were still improving.")
                    }
                    Some(whom) => match whom.strip_prefix("all ") {
                        Some(rest) => format!("All {rest} were still improving."),
                        None => format!("{whom} was still improving."),
                    },
                    None => "It was still improving.".to_owned(),
                },
                format!(
                    "The best round is {} {}, and the metric still gets better there. More rounds may change the result.",
                    match rounds {
                        0..=10 => "the last of",
                        _ => "among the last tenth of",
                    },
                    counted(rounds.into(), "round")
                ),
            ),
            Self::EndlessLink {
                way,
                rounds,
                bytes,
                time_s,
                bits_per_s,
            } => (
                format!(
                    "The server's {} has no limit{}.",
                    match way {
                        None => "link",
                        Some(Direction::Up) => "uplink",
                        Some(Direction::Down) => "downlink",
                    },
                    whom.map_or_else(String::new, |whom| format!(" ({whom})"))
                ),
                format!(
                    "{} and {} took {}, {} Gbit/s. Virtual times are those of an ideal server; `network.server` \
                     sets a limit.",
                    counted(rounds.into(), "round"),
                    words::bytes(bytes as f64),
                    words::duration(time_s),
                    words::three_digits(bits_per_s / 1e9)
                ),
            ),
            Self::ShortTraining { median_s } => (
                format!(
                    "Training is implausibly short{}.",
                    whom.map_or_else(String::new, |whom| format!(" ({whom})"))
                ),
                format!(
                    "Half of the trainings of a device take {} at most. Starting an app alone takes longer. `devices` says how \
                     fast devices are, and `devices.fixed_ms_per_participation` what each training takes besides.",
                    words::duration(median_s)
                ),
            ),
            Self::AtChance { random } => (
                format!(
                    "No better than chance{}.",
                    whom.map_or_else(String::new, |whom| format!(" ({whom})"))
                ),
                format!(
                    "Random scores have {} on the same candidates. Nothing was learned, or what was learned does not help.",
                    words::short(random)
                ),
            ),
            Self::UnseenNewcomers {
                at_s,
                are_items,
                never_came,
            } => (
                match (never_came, are_items) {
                    (true, false) => "Nobody has come.".to_owned(),
                    (true, true) => "Nothing has come.".to_owned(),
                    (false, false) => "Nobody was scored as new.".to_owned(),
                    (false, true) => "No new item was scored with few ratings.".to_owned(),
                },
                format!(
                    "Newcomers come at {} (`joins.at_s`), and {}.",
                    words::duration(at_s),
                    match (never_came, are_items) {
                        (true, _) => "the last round had ended by then",
                        (false, false) => "no round was evaluated before that",
                        (false, true) =>
                            "no evaluated round began before they had all of their ratings",
                    }
                ),
            ),
            Self::FewUsers { users } => (
                format!(
                    "Only {} tested.",
                    match users {
                        1 => "1 user is".to_owned(),
                        users => format!("{users} users are"),
                    }
                ),
                format!(
                    "A single one of them moves a mean over users by up to {:.3}; smaller differences mean nothing.",
                    1.0 / users as f64
                ),
            ),
        };
        Block::note(title, text)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::record::Distribution;
    use crate::tests::records as sample;
    use fedrecsim_sim::outcome::WorkTotals;

    fn course(values: &[f64]) -> Course {
        let mut frame = Frame::default();
        let rounds = (1..=values.len()).map(|round| Some(round as f64));
        frame.set(rounds::ROUND, rounds.collect());
        frame.set(
            "test_hr@10",
            values.iter().map(|value| Some(*value)).collect(),
        );
        Course::of(&frame, "hr@10")
    }

    /// If this fails, a method is called the worse one because it was stopped too early, and nobody
    /// says so.
    #[test]
    fn a_run_whose_best_round_is_a_rising_last_one_was_still_improving() {
        let rising: Vec<f64> = (0..40).map(|round| 0.01 * f64::from(round)).collect();
        assert_eq!(course(&rising), Course::Improving);
        let settled: Vec<f64> = rising.iter().map(|value| value.min(0.2)).collect();
        assert_eq!(course(&settled), Course::Settled);
        // The best value is the last one by chance: the mean of the last ones is no better.
        let mut chance = settled.clone();
        chance[36..].copy_from_slice(&[0.19, 0.18, 0.19, 0.21]);
        assert_eq!(course(&chance), Course::Settled);
        assert_eq!(course(&[0.4; 9]), Course::Flat);
        assert_eq!(course(&[0.4, 0.5]), Course::Unknown);
        assert_eq!(course(&[0.1, 0.2, 0.3]), Course::Improving);
        assert_eq!(course(&[]), Course::Unknown);
    }

    /// If this fails, a method that has learned nothing is ranked as if it had.
    #[test]
    fn what_is_no_better_than_chance_is_doubted() {
        let mut run = sample::run(4);
        let random = run.baselines.entry(RANDOM.to_owned()).or_default();
        random.test.insert("hr@10".to_owned(), 0.1);
        let is_doubted = |run: &RunRecord| {
            let doubts = of(run, &Frame::default(), "hr@10");
            doubts.contains(&Doubt::AtChance { random: 0.1 })
        };
        for (own, expected) in [(0.09, true), (0.1, true), (0.11, false)] {
            run.accuracy.test.insert("hr@10".to_owned(), own);
            assert_eq!(is_doubted(&run), expected, "{own}");
        }
        run.accuracy.test.insert("hr@10".to_owned(), 0.1);
        run.rounds = 0;
        assert!(!is_doubted(&run), "nothing was to be learned");
    }

    /// If this fails, times that no network and no device could have stand in a report as if they
    /// could.
    #[test]
    fn what_no_server_or_device_can_do_is_doubted_and_so_are_few_users() {
        let mut run = sample::run(4);
        let doubts = |run: &RunRecord| of(run, &Frame::default(), "hr@10");
        let (mut network, known) = (run.network.unwrap_or_default(), doubts(&run));
        assert!(!known.iter().any(|of| matches!(of, Doubt::FewUsers { .. })));
        run.size.evaluated_users = 199;
        run.virtual_time_s = 0.323;
        run.bytes.up.sent = 120_000_000_000;
        network.up.mean_share = None;
        network.down.mean_share = Some(0.1);
        run.network = Some(network);
        let short = Distribution {
            count: 1,
            p50_s: 2e-5,
            ..Distribution::default()
        };
        run.durations.insert("compute".to_owned(), short);
        let told: Vec<String> = doubts(&run)
            .iter()
            .map(|doubt| match doubt.note(Some("fedmf")) {
                Block::Note { title, text } => format!("{title} {text}"),
                other => panic!("{other:?}"),
            })
            .collect();
        for part in [
            "The server's uplink has no limit (fedmf).",
            "took 323 ms, ",
            "20.0 µs at most",
            "Only 199 users are tested.",
        ] {
            assert!(
                told.iter().any(|of| of.contains(part)),
                "no {part} in {told:?}"
            );
        }
        run.work = WorkTotals::default();
        let is_short = |of: &Doubt| matches!(of, Doubt::ShortTraining { .. });
        assert!(
            !doubts(&run).iter().any(is_short),
            "devices that train nothing train too fast"
        );
        network.up.mean_share = Some(0.9);
        network.down.mean_share = Some(0.9);
        run.network = Some(network);
        let is_link = |of: &Doubt| matches!(of, Doubt::EndlessLink { .. });
        assert!(
            !doubts(&run).iter().any(is_link),
            "a limited link is doubted"
        );
    }
}
