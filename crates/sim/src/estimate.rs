//! Estimates what a run will take, from a rehearsal of its first rounds.

use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::outcome::{ByDirection, RoundRecord};
use super::simulation::{RunControl, Simulation};
use super::workers::{MakeWorkers, Rehearsal, Rehearsed, bytes_of_a_device};
use super::world::World;
use fedrecsim_core::{Error, Result};
use fedrecsim_scenario::{FirstDownload, Invitations};

/// The longest time for training the representatives once more, to see how devices grow.
const GROWING: Duration = Duration::from_millis(100);

/// What takes memory for every user who has taken part, besides what its device keeps: the actor
/// and its box.
const BYTES_PER_ACTOR: u64 = 256;

/// The memory that the allocator takes for a byte of a device, in hundredths.
const DEVICE_OVERHEAD_PERCENT: u64 = 105;

/// Says how long a rehearsal goes on. It ends with the run itself, too.
#[derive(Clone, Copy, Debug)]
pub struct RehearsalLength {
    /// The number of rounds that are enough if they have taken the time `at_least`. Rounds that are
    /// shorter vary more from one to the next, so that more of them are rehearsed.
    pub rounds: u32,
    /// The time after which no more than `rounds` are needed.
    pub at_least: Duration,
    /// The time after which a rehearsal ends with the round under way.
    pub at_most: Duration,
}

/// The expected cost of a run. Everything but the memory is the mean of a round.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The bytes that are sent in a round.
    pub bytes_per_round: ByDirection<f64>,
    /// The virtual time of a round.
    pub virtual_time_per_round_s: f64,
    /// The wall-clock time of a round.
    pub wall_time_per_round_s: f64,
    /// The part of it that is neither training nor scoring. No more than that is the work of a
    /// single thread: the server divides decoding and adding up.
    pub serial_time_per_round_s: f64,
    /// The memory that the run needs beside what the process has in the rehearsal.
    pub memory: MemoryEstimate,
    /// The number of users who are invited in a round.
    pub invited_per_round: f64,
}

/// The memory that a run needs beside what the process has at the end of its rehearsal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryEstimate {
    /// The bytes that the devices of all users keep who take part.
    pub devices_bytes: u64,
    /// The bytes of the uploads that are on their way or with the server at the same time, and of a
    /// third party's replies to those who make them.
    pub uploads_bytes: u64,
}

impl MemoryEstimate {
    /// Returns the sum.
    pub fn total_bytes(&self) -> u64 {
        self.devices_bytes + self.uploads_bytes
    }
}

/// Rehearses the first rounds of `world`, and returns what its run is expected to take on `threads`
/// threads. A rehearsal trains a few users for all, so that it takes a small part of the time of
/// the rounds. Nothing of it reaches the run.
///
/// # Errors
/// Those of the rounds themselves, such as that training diverges or nobody is available.
pub fn estimate(world: &Arc<World>, threads: usize, length: RehearsalLength) -> Result<Estimate> {
    estimate_watched(world, threads, length, &mut || {})
}

/// As [`estimate`], and calls `watch` after each round of the rehearsal, while that holds what it
/// has.
///
/// # Errors
/// Those of [`estimate`].
pub fn estimate_watched(
    world: &Arc<World>,
    threads: usize,
    length: RehearsalLength,
    watch: &mut dyn FnMut(),
) -> Result<Estimate> {
    Ok(rehearse(world, threads, length, watch)?.estimate(world, threads))
}

/// The measurements of a rehearsal.
struct Shown {
    /// The first rounds.
    rounds: Vec<RoundRecord>,
    /// The wall-clock time of trainings and scoring on one thread, and of everything else, over
    /// `timed_rounds`.
    parallel: Duration,
    rest: Duration,
    timed_rounds: usize,
    rehearsed: Rehearsed,
    bytes_of_a_device: u64,
}

/// How long downloads are that bring the differences since the version that a user has.
#[derive(Clone, Copy, Debug)]
struct Differences {
    /// The bytes of the differences from one version to the next.
    each: f64,
    /// The bytes of a whole version.
    whole: f64,
    /// Whether users who have no version draw the first one.
    begin_with_seed: bool,
    /// The share of all users who are invited in a round, everybody alike.
    invited: f64,
}

impl Differences {
    /// Returns what the first rounds have shown; `None` if downloads are no differences.
    fn shown(world: &World, rounds: &[RoundRecord]) -> Option<Self> {
        let (first, last) = (rounds.first()?, rounds.last()?);
        let cost = last.versions?;
        let begin_with_seed = world.scenario.codec.first_download == FirstDownload::Seed;
        let of_participant = first.bytes.down.sent as f64 / f64::from(first.invited.max(1));
        Some(Self {
            // Every round has added the differences of its step.
            each: cost.differences_bytes as f64 / rounds.len() as f64,
            whole: if begin_with_seed {
                cost.model_bytes as f64
            } else {
                of_participant
            },
            begin_with_seed,
            invited: (f64::from(last.invited) / world.dataset.users_with_history().max(1) as f64)
                .min(1.0),
        })
    }

    /// Returns the bytes that a participant downloads on average after this many rounds.
    fn after(&self, rounds: u32) -> f64 {
        let (mut sum, mut is_left) = (0.0, 1.0);
        // With the probability `is_left`, the participant has not taken part in any of the last
        // rounds.
        for behind in 1..=rounds {
            let bytes = f64::from(behind) * self.each;
            if bytes >= self.whole {
                return sum + is_left * self.whole;
            }
            sum += is_left * self.invited * bytes;
            is_left *= 1.0 - self.invited;
        }
        let of_others = if self.begin_with_seed {
            f64::from(rounds) * self.each
        } else {
            self.whole
        };
        sum + is_left * of_others
    }

    /// Returns the bytes that a participant downloads, as the mean of this many rounds from the first
    /// one on.
    fn mean(&self, rounds: u32) -> f64 {
        (0..rounds).map(|before| self.after(before)).sum::<f64>() / f64::from(rounds.max(1))
    }
}

fn rehearse(
    world: &Arc<World>,
    threads: usize,
    length: RehearsalLength,
    watch: &mut dyn FnMut(),
) -> Result<Shown> {
    let measured = Arc::new(Mutex::new(Rehearsed::default()));
    let shared = Arc::clone(&measured);
    let workers: MakeWorkers = Box::new(|world, _, _| Rc::new(Rehearsal::new(world, shared)));
    let control = RunControl::with_threads(threads);
    let mut simulation = Simulation::with_workers(Arc::clone(world), &control, None, workers)?;
    // A thread that panics leaves no figure half written.
    let rehearsed = || {
        measured
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    };
    let began = Instant::now();
    let mut shown = Vec::new();
    // The first round makes room for everything that later rounds find made, so that it is timed
    // only if it is alone.
    let mut before = (Duration::ZERO, Rehearsed::default());
    let is_enough = |rounds: usize, took: Duration| {
        rounds > 0
            && (took >= length.at_most
                || (rounds >= length.rounds as usize && took >= length.at_least))
    };
    while !is_enough(shown.len(), began.elapsed()) {
        let Some(record) = simulation.step()? else {
            break;
        };
        shown.push(record);
        watch();
        if shown.len() == 1 && !is_enough(1, began.elapsed()) {
            before = (began.elapsed(), rehearsed());
        }
    }
    let took = began.elapsed();
    if shown.is_empty() {
        let reason = simulation
            .stopped_by()
            .map(ToString::to_string)
            .unwrap_or_default();
        return Err(Error::Usage(format!(
            "nothing can be estimated, since no round ends: {reason}"
        )));
    }
    let invited = mean_of_a_round(world, &shown, |round| f64::from(round.invited));
    let participations = world.participations_of_a_user(invited);
    let bytes_of_a_device = bytes_of_a_device(world, participations.ceil() as u32, GROWING)?;
    let rehearsed = rehearsed();
    let is_first_left_out = shown.len() > 1 && !before.0.is_zero();
    let (began, earlier) = if is_first_left_out {
        before
    } else {
        Default::default()
    };
    let spent = rehearsed.spent.saturating_sub(earlier.spent);
    let rest = took.saturating_sub(began).saturating_sub(spent);
    let parallel =
        (rehearsed.training + rehearsed.scoring).saturating_sub(earlier.training + earlier.scoring);
    let timed_rounds = shown.len() - usize::from(is_first_left_out);
    Ok(Shown {
        rounds: shown,
        parallel,
        rest,
        timed_rounds,
        rehearsed,
        bytes_of_a_device,
    })
}

/// Returns the mean of an amount over all rounds of a run. The first one may differ from all
/// others, since asynchronous modes begin by inviting more users than later.
fn mean_of_a_round(
    world: &World,
    shown: &[RoundRecord],
    amount: impl Fn(&RoundRecord) -> f64,
) -> f64 {
    let [first, later @ ..] = shown else {
        return 0.0;
    };
    if later.is_empty() {
        return amount(first);
    }
    let rounds = f64::from(world.scenario.training.rounds);
    let mean = later.iter().map(&amount).sum::<f64>() / later.len() as f64;
    (amount(first) + (rounds - 1.0) * mean) / rounds
}

impl World {
    /// Returns how often a user takes part in the whole run, if this many are invited in a round.
    fn participations_of_a_user(&self, invited_per_round: f64) -> f64 {
        let rounds = f64::from(self.scenario.training.rounds);
        rounds * invited_per_round / self.dataset.users_with_history().max(1) as f64
    }
}

impl Shown {
    /// Returns how many uploads are held at the same time: those of one step (a round may have
    /// several steps), or those of all who take part at a time.
    fn uploads_at_once(&self, world: &World) -> u32 {
        let most_invited = self
            .rounds
            .iter()
            .map(|round| round.invited)
            .max()
            .unwrap_or(0);
        let of_a_step = most_invited.div_ceil(world.scenario.training.steps_per_round);
        match world.policy.invitations {
            Invitations::AtOnce { .. } => of_a_step,
            Invitations::WheneverFree { concurrency } => {
                of_a_step.max(concurrency.min(most_invited))
            }
        }
    }

    /// Returns the bytes that a participant has from a third party, which come in one round with the
    /// uploads: those of the round with the longest replies, as the first ones know of nobody.
    fn most_of_a_reply(&self) -> f64 {
        let of_a_round = |round: &RoundRecord| {
            let bytes = round.third_party_bytes.map_or(0, |bytes| bytes.down.sent);
            bytes as f64 / f64::from(round.invited.max(1))
        };
        self.rounds.iter().map(of_a_round).fold(0.0, f64::max)
    }

    /// Returns the bytes that are sent down in a round. Where downloads are the differences since
    /// the version that a user has, they are the shorter the more users have a version, which is a
    /// matter of more rounds than were rehearsed.
    fn down_per_round(&self, world: &World) -> f64 {
        let mean = mean_of_a_round(world, &self.rounds, |round| round.bytes.down.sent as f64);
        let Some(differences) = Differences::shown(world, &self.rounds) else {
            return mean;
        };
        let rehearsed = self.rounds.len() as u32;
        let sent = self
            .rounds
            .iter()
            .map(|round| round.bytes.down.sent as f64)
            .sum::<f64>()
            / f64::from(rehearsed);
        match differences.mean(rehearsed) {
            expected if expected > 0.0 => {
                sent * differences.mean(world.scenario.training.rounds) / expected
            }
            _ => mean,
        }
    }

    fn estimate(&self, world: &World, threads: usize) -> Estimate {
        let mean =
            |amount: &dyn Fn(&RoundRecord) -> f64| mean_of_a_round(world, &self.rounds, amount);
        let invited_per_round = mean(&|round| f64::from(round.invited));
        let uploads_at_once = self.uploads_at_once(world);
        let users = world.dataset.users_with_history() as f64;
        // Those who take part at least once, if everybody is picked alike.
        let share = 1.0
            - (1.0 - (invited_per_round / users).min(1.0))
                .powf(f64::from(world.scenario.training.rounds));
        let device = self.bytes_of_a_device * DEVICE_OVERHEAD_PERCENT / 100 + BYTES_PER_ACTOR;
        let upload = self
            .rehearsed
            .held_upload_bytes
            .checked_div(self.rehearsed.trainings)
            .unwrap_or(0);
        let held = (upload as f64 + self.most_of_a_reply()) * f64::from(uploads_at_once);
        let parallel = self.parallel.as_secs_f64() / threads as f64;
        let rest = self.rest.as_secs_f64();
        Estimate {
            bytes_per_round: ByDirection {
                up: mean(&|round| round.bytes.up.sent as f64),
                down: self.down_per_round(world),
            },
            virtual_time_per_round_s: mean(&|round| round.duration_s),
            wall_time_per_round_s: (parallel + rest) / self.timed_rounds as f64,
            serial_time_per_round_s: rest / self.timed_rounds as f64,
            memory: MemoryEstimate {
                devices_bytes: (share * users) as u64 * device,
                uploads_bytes: held as u64,
            },
            invited_per_round,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::outcome::Flow;
    use crate::tests::small;

    fn round(up: u64, down: u64, duration_s: f64, invited: u32) -> RoundRecord {
        let flow = |sent| Flow {
            sent,
            ..Flow::default()
        };
        RoundRecord {
            bytes: ByDirection {
                up: flow(up),
                down: flow(down),
            },
            duration_s,
            invited,
            ..RoundRecord::default()
        }
    }

    /// If this fails, an estimate is not what its rehearsal has shown.
    #[test]
    fn an_estimate_follows_from_what_was_shown() {
        let world = small::world(&["training.rounds=5"]);
        let rehearsed = Rehearsed {
            held_upload_bytes: 4000,
            trainings: 4,
            ..Rehearsed::default()
        };
        let shown = Shown {
            rounds: vec![
                round(1000, 500, 10.0, 21),
                round(400, 100, 2.0, 7),
                RoundRecord {
                    third_party_bytes: Some(round(0, 700, 4.0, 7).bytes),
                    ..round(600, 100, 4.0, 7)
                },
            ],
            parallel: Duration::from_secs(9),
            rest: Duration::from_secs(1),
            timed_rounds: 2,
            rehearsed,
            bytes_of_a_device: 1000,
        };
        let estimate = shown.estimate(&world, 2);
        // The first round counts once, and the mean of the two after it four times.
        assert_eq!(
            estimate.bytes_per_round,
            ByDirection {
                up: 600.0,
                down: 180.0
            }
        );
        assert_eq!(estimate.virtual_time_per_round_s, 4.4);
        assert_eq!(estimate.invited_per_round, 9.8);
        // Two threads share nine seconds, one second is nobody's to share, and two rounds were
        // timed.
        assert_eq!(
            (
                estimate.wall_time_per_round_s,
                estimate.serial_time_per_round_s
            ),
            (2.75, 0.5)
        );
        // Of 21 users 9.8 are invited at a time: after five rounds 20 of them have taken part. 21
        // uploads of 1000 bytes are held at the same time, with replies of 100 bytes.
        let memory = MemoryEstimate {
            devices_bytes: 20 * (1050 + 256),
            uploads_bytes: 21 * 1100,
        };
        assert_eq!(estimate.memory, memory);
        assert_eq!(
            memory.total_bytes(),
            memory.devices_bytes + memory.uploads_bytes
        );
        let participations = world.participations_of_a_user(9.8);
        assert!(
            (participations - 5.0 * 9.8 / 21.0).abs() < 1e-12,
            "{participations}"
        );
    }

    /// If this fails, a run whose rounds have many steps is refused for uploads that it never holds
    /// together.
    #[test]
    fn uploads_are_held_for_a_step_or_by_those_who_are_under_way() {
        let shown = |invited| Shown {
            rounds: vec![round(0, 0, 1.0, invited)],
            parallel: Duration::ZERO,
            rest: Duration::ZERO,
            timed_rounds: 1,
            rehearsed: Rehearsed::default(),
            bytes_of_a_device: 0,
        };
        assert_eq!(shown(21).uploads_at_once(&small::world(&[])), 21);
        assert_eq!(
            shown(20).uploads_at_once(&small::world(&["training.steps_per_round=6"])),
            4
        );
        let asynchronous = [
            "training.steps_per_round=10",
            "training.mode={ fedbuff = { concurrency = 9, buffer = 2 } }",
        ];
        assert_eq!(shown(29).uploads_at_once(&small::world(&asynchronous)), 9);
    }

    /// If this fails, a run with few users a round is expected to send them the whole model each
    /// time.
    #[test]
    fn downloads_become_differences_as_users_come_back() {
        let differences = Differences {
            each: 10.0,
            whole: 100.0,
            begin_with_seed: false,
            invited: 0.5,
        };
        assert_eq!(differences.after(0), 100.0);
        // Half of them have the version before, a quarter the one before that, and the others none.
        assert_eq!(differences.after(1), 0.5 * 10.0 + 0.5 * 100.0);
        assert_eq!(
            differences.after(2),
            0.5 * 10.0 + 0.25 * 20.0 + 0.25 * 100.0
        );
        assert_eq!(differences.mean(2), (100.0 + 55.0) / 2.0);
        let seeded = Differences {
            begin_with_seed: true,
            ..differences
        };
        assert_eq!(
            (seeded.after(0), seeded.after(2)),
            (0.0, 0.5 * 10.0 + 0.5 * 20.0)
        );
        // Nobody gets differences that take more than the whole.
        assert!(
            differences.after(1000) < 20.0
                && Differences {
                    each: 200.0,
                    ..differences
                }
                .after(1000)
                    == 100.0
        );
        assert_eq!(
            Differences {
                invited: 1.0,
                ..differences
            }
            .after(7),
            10.0
        );
    }

    /// If this fails, a run of one round is taken for one of many.
    #[test]
    fn a_round_that_is_alone_is_the_mean() {
        let world = small::world(&[]);
        let shown = [round(1000, 500, 10.0, 21)];
        assert_eq!(
            mean_of_a_round(&world, &shown, |round| round.duration_s),
            10.0
        );
        assert_eq!(mean_of_a_round(&world, &[], |round| round.duration_s), 0.0);
    }
}
