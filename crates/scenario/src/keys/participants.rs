//! Checks whether there are as many users as take part in a round.
//!
//! The users of a generated population are known from the scenario alone, those of a file when it
//! has been read. Both are checked by the rules of this file.

use crate::policy::{Invitations, Policy};
use super::{ClientSelection, Participation, TrainingSpec, name_of};

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

/// A key of `[training]` that asks for more users than there are, or for others than can be had;
/// the other side of the contradiction, where the key may have been left to its default; and what
/// is wrong, as a sentence without a full stop.
type TooFew = (String, &'static str, String);

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

/// Returns the keys of `training`, run under `policy`, that ask for more users than there are.
/// Without `users`, returns those that would do so whatever the number of users.
pub fn too_few_users(
    training: &TrainingSpec,
    policy: &Policy,
    users: Option<Users<'_>>,
) -> Vec<TooFew> {
    let never_twice = training.client_selection == ClientSelection::NeverTwiceInARow;
    let found = [
        drawn_apart_in_vain(training, policy),
        users.and_then(|users| cohort(training, policy, users)),
        nobody_to_over_select(training, policy, users),
        users.and_then(|users| concurrency(training, policy, users)),
        repeats(training, policy, users).filter(|_| never_twice),
    ];
    found.into_iter().flatten().collect()
}

/// Refuses draws of each user by itself where the number of those who are invited has to be a
/// certain one, or where they are picked in another way.
fn drawn_apart_in_vain(training: &TrainingSpec, policy: &Policy) -> Option<TooFew> {
    training.drawn_apart()?;
    let once = Invitations::AtOnce {
        over_selection: 1.0,
    };
    let (other, message) = if policy.invitations != once || policy.updates(1).is_some() {
        let mode = name_of(&training.mode);
        let message = format!(
            "`poisson` draws each user by itself, and a round of `{mode}` needs a number of users: take `share` or `cohort`"
        );
        ("training.mode", message)
    } else if training.client_selection != ClientSelection::Uniform {
        let message = "`poisson` draws each user by itself, which no other `client_selection` than `uniform` does";
        ("training.client_selection", message.to_owned())
    } else {
        return None;
    };
    Some(("training.participation.poisson".to_owned(), other, message))
}

fn cohort(training: &TrainingSpec, policy: &Policy, users: Users<'_>) -> Option<TooFew> {
    let Participation::Cohort(cohort) = training.participation else {
        return None;
    };
    (policy.has_cohorts() && cohort > users.all).then(|| {
        let message = format!(
            "a cohort of {cohort} is larger than the population: {}",
            users.words
        );
        (
            "training.participation.cohort".to_owned(),
            GENERATED,
            message,
        )
    })
}

/// Refuses over-selection where everybody is needed: it is then the synchronous mode by another
/// name, unless a deadline ends its rounds.
fn nobody_to_over_select(
    training: &TrainingSpec,
    policy: &Policy,
    users: Option<Users<'_>>,
) -> Option<TooFew> {
    let Invitations::AtOnce { over_selection } = policy.invitations else {
        return None;
    };
    let needs_all = users.map_or(training.needs_everybody(), |users| {
        training.needed(users.all) == users.all
    });
    (needs_all && over_selection > 1.0 && policy.deadline.is_none()).then(|| {
        let whom = match users {
            Some(users) if users.all > 1 => format!("all {} users", users.all),
            _ => "everybody".to_owned(),
        };
        let message = format!(
            "`over-selection` has nobody to invite beyond those who are needed, as a round takes {whom}: take a smaller \
             `share` or `cohort`, or give the mode a `deadline_s`"
        );
        ("training.participation".to_owned(), "training.mode", message)
    })
}

fn concurrency(training: &TrainingSpec, policy: &Policy, users: Users<'_>) -> Option<TooFew> {
    let Invitations::WheneverFree { concurrency } = policy.invitations else {
        return None;
    };
    (concurrency > users.all).then(|| {
        let key = format!("training.mode.{}.concurrency", name_of(&training.mode));
        let message = format!(
            "{concurrency} clients cannot take part at a time: {}",
            users.words
        );
        (key, GENERATED, message)
    })
}

/// Refuses `never-twice-in-a-row` where some round has nobody left, because everybody was in the
/// one before.
fn repeats(training: &TrainingSpec, policy: &Policy, users: Option<Users<'_>>) -> Option<TooFew> {
    let steps = training.steps();
    let whom = match users {
        Some(users) if users.able < users.all => "users with the memory to take part",
        _ => "users",
    };
    let reason = match (policy.has_cohorts(), users) {
        (false, None) => None,
        (false, Some(users)) => {
            // Two steps in a row use the updates of 2 B different users. That many are enough: at
            // any time, those whose update was used in the step before or in the open one, and who
            // therefore rest, are at most 2 B - 1, since the open step ends with its B-th update.
            // So there is always somebody who takes part or can be invited, whatever is lost or
            // comes too late.
            let buffer = policy.updates(training.needed(users.all)).unwrap_or(1);
            let least = u64::from(buffer) * if steps == 1 { 1 } else { 2 };
            (u64::from(users.able) < least).then(|| {
                let name = name_of(&training.mode);
                let plural = if buffer == 1 { "" } else { "s" };
                format!(
                    "a round of `{name}` takes {buffer} update{plural}, so there must be at least {least} {whom}, found {}",
                    users.able
                )
            })
        }
        (true, None) => (steps > 1 && training.needs_everybody())
            .then(|| "everybody is invited to each round".to_owned()),
        (true, Some(users)) => {
            // Two cohorts in a row need twice as many users as one.
            let invited = policy.invited(training.needed(users.all), users.all);
            (steps > 1 && u64::from(invited) * 2 > u64::from(users.able)).then(|| {
                format!(
                    "{invited} users are invited to each round, which is more than half of the {} {whom}",
                    users.able
                )
            })
        }
    };
    reason.map(|reason| {
        let message = format!("`never-twice-in-a-row` cannot be kept: {reason}");
        let key = "training.client_selection".to_owned();
        (key, "training.participation", message)
    })
}
