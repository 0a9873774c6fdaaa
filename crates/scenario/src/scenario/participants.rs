//! Checks whether there are as many users as take part in a round.
//!
//! The users of a generated population are known from the scenario alone, those of a file when it
//! has been read. Both are checked by the rules of this file.

use super::keys::{ClientSelection, Participation, TrainingSpec};
use super::policy::{Invitations, Policy};

/// The numbers of users of a run, as far as they are known.
#[derive(Clone, Copy, Debug)]
pub struct Users<'w> {
    /// Number of all users.
    pub all: u32,
    /// Number of users whose device has the memory to take part.
    pub able: u32,
    /// Where the first number comes from, in words that end a sentence: "there are 5 users".
    pub words: &'w str,
}

const GENERATED: &str = "dataset.generator.users";

/// A key of `[training]` that asks for more users than there are, or for others than can be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooFewUsers {
    /// The key, from the top of the file.
    pub key: String,
    /// The other side of the contradiction, where the key may have been left to its default.
    pub other: &'static str,
    /// What is wrong, as a sentence without a full stop.
    pub message: String,
}

impl TrainingSpec {
    /// Returns how many of `users` users a round needs, in modes with cohorts. A share is rounded
    /// to the nearest number, and so is the number that is expected where each user is drawn by
    /// itself.
    pub fn needed(&self, users: u32) -> u32 {
        match self.participation {
            Participation::All => users,
            Participation::Share(share) | Participation::Poisson(share) => {
                ((share * f64::from(users) + 0.5) as u32).clamp(1, users)
            }
            Participation::Cohort(cohort) => cohort,
        }
    }

    /// Returns the probability with which each user takes part by itself, if that is how
    /// participants are found.
    pub fn drawn_apart(&self) -> Option<f64> {
        match self.participation {
            Participation::Poisson(probability) => Some(probability),
            Participation::All | Participation::Share(_) | Participation::Cohort(_) => None,
        }
    }

    /// Returns whether a round needs everybody, whatever their number, in modes with cohorts.
    fn needs_everybody(&self) -> bool {
        matches!(
            self.participation,
            Participation::All | Participation::Share(1.0)
        )
    }
}

/// The concurrency and the steps of a policy with a fixed number of clients at work.
#[derive(Clone, Copy, Debug)]
struct Asynchronous {
    concurrency: u32,
    /// Updates that make a step.
    buffer: u32,
}

impl Asynchronous {
    /// Returns the numbers of `policy`, if it has a fixed number of clients at work. `participants`
    /// is how many a step asks for, or 0 if that is not known.
    fn of(policy: &Policy, participants: u32) -> Option<Self> {
        let Invitations::WheneverFree { concurrency } = policy.invitations else {
            return None;
        };
        let buffer = policy.updates(participants).unwrap_or(1);
        Some(Self {
            concurrency,
            buffer,
        })
    }

    /// Returns the fewest users with whom `steps` steps come to an end, if no update of anybody is
    /// used in two of them in a row.
    ///
    /// Two steps in a row use the updates of 2 B different users. That many are enough: at any
    /// time, those whose update was used in the step before or in the open one, and who therefore
    /// rest, are at most 2 B - 1, since the open step ends with its B-th update. So there is always
    /// somebody who takes part or can be invited, whatever is lost or comes too late.
    fn least_users_without_repeats(self, steps: u32) -> u64 {
        u64::from(self.buffer) * if steps == 1 { 1 } else { 2 }
    }
}

/// Returns the keys of `training`, run under `policy`, that ask for more users than there are.
/// Without `users`, returns those that would do so whatever the number of users.
pub fn too_few_users(
    training: &TrainingSpec,
    policy: &Policy,
    users: Option<Users<'_>>,
) -> Vec<TooFewUsers> {
    let never_twice = training.client_selection == ClientSelection::NeverTwiceInARow;
    let found = [
        drawn_apart_in_vain(training, policy),
        users
            .filter(|_| policy.has_cohorts())
            .and_then(|users| cohort(training, users)),
        nobody_to_over_select(training, policy, users),
        users.and_then(|users| concurrency(training, policy, users)),
        repeats(training, policy, users).filter(|_| never_twice),
    ];
    found.into_iter().flatten().collect()
}

/// Refuses draws of each user by itself where the number of those who are invited has to be a
/// certain one, or where they are picked in another way.
fn drawn_apart_in_vain(training: &TrainingSpec, policy: &Policy) -> Option<TooFewUsers> {
    training.drawn_apart()?;
    let key = "training.participation.poisson".to_owned();
    let is_plain = policy.invitations
        == (Invitations::AtOnce {
            over_selection: 1.0,
        });
    if !is_plain || policy.updates(1).is_some() {
        let message = format!(
            "`poisson` draws each user by itself, and a round of `{}` needs a number of users: take `share` or `cohort`",
            training.mode.key()
        );
        return Some(TooFewUsers {
            key,
            other: "training.mode",
            message,
        });
    }
    (training.client_selection != ClientSelection::Uniform).then(|| TooFewUsers {
        key,
        other: "training.client_selection",
        message: "`poisson` draws each user by itself, which no other `client_selection` than `uniform` does"
            .to_owned(),
    })
}

fn cohort(training: &TrainingSpec, users: Users<'_>) -> Option<TooFewUsers> {
    let Participation::Cohort(cohort) = training.participation else {
        return None;
    };
    (cohort > users.all).then(|| TooFewUsers {
        key: "training.participation.cohort".to_owned(),
        other: GENERATED,
        message: format!(
            "a cohort of {cohort} is larger than the population: {}",
            users.words
        ),
    })
}

/// Refuses over-selection where everybody is needed: it is then the synchronous mode by another
/// name, unless a deadline ends its rounds.
fn nobody_to_over_select(
    training: &TrainingSpec,
    policy: &Policy,
    users: Option<Users<'_>>,
) -> Option<TooFewUsers> {
    let Invitations::AtOnce { over_selection } = policy.invitations else {
        return None;
    };
    let needs_all = users.map_or(training.needs_everybody(), |users| {
        training.needed(users.all) == users.all
    });
    (needs_all && over_selection > 1.0 && policy.deadline.is_none()).then(|| TooFewUsers {
        key: "training.participation".to_owned(),
        other: "training.mode",
        message: format!(
            "`over-selection` has nobody to invite beyond those who are needed, as a round takes {}: take a smaller \
             `share` or `cohort`, or give the mode a `deadline_s`",
            users
                .filter(|users| users.all > 1)
                .map_or("everybody".to_owned(), |users| format!("all {} users", users.all))
        ),
    })
}

fn concurrency(training: &TrainingSpec, policy: &Policy, users: Users<'_>) -> Option<TooFewUsers> {
    let mode = Asynchronous::of(policy, training.needed(users.all))?;
    (mode.concurrency > users.all).then(|| TooFewUsers {
        key: format!("training.mode.{}.concurrency", training.mode.key()),
        other: GENERATED,
        message: format!(
            "{} clients cannot take part at a time: {}",
            mode.concurrency, users.words
        ),
    })
}

/// Refuses `never-twice-in-a-row` where some round has nobody left, because everybody was in the
/// one before.
fn repeats(
    training: &TrainingSpec,
    policy: &Policy,
    users: Option<Users<'_>>,
) -> Option<TooFewUsers> {
    let steps = training.steps();
    let whom = match users {
        Some(users) if users.able < users.all => "users with the memory to take part",
        _ => "users",
    };
    let mode = Asynchronous::of(policy, users.map_or(0, |users| training.needed(users.all)));
    let reason = if let (Some(mode), Some(users)) = (mode, users) {
        let (name, least) = (training.mode.key(), mode.least_users_without_repeats(steps));
        (u64::from(users.able) < least).then(|| {
            let updates = if mode.buffer == 1 { "1 update".to_owned() } else { format!("{} updates", mode.buffer) };
            format!(
                "a round of `{name}` takes {updates}, so there must be at least {least} {whom}, found {}",
                users.able
            )
        })
    } else if let Some(users) = users {
        // Two cohorts in a row need twice as many users as one.
        let invited = policy.invited(training.needed(users.all), users.all);
        (steps > 1 && u64::from(invited) * 2 > u64::from(users.able)).then(|| {
            format!("{invited} users are invited to each round, which is more than half of the {} {whom}", users.able)
        })
    } else {
        let invites_all = mode.is_none() && training.needs_everybody();
        (steps > 1 && invites_all).then(|| "everybody is invited to each round".to_owned())
    };
    reason.map(|reason| TooFewUsers {
        key: "training.client_selection".to_owned(),
        other: "training.participation",
        message: format!("`never-twice-in-a-row` cannot be kept: {reason}"),
    })
}
