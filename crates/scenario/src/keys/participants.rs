//! Checks whether there are as many users as take part in a round.
//!
//! The users of a generated population are known from the scenario alone, those of a file when it
//! has been read. Both are checked by the rules of this file.

use super::dataset::USERS;
use super::{ClientSelection, Participants, TrainingSpec, name_of};
use crate::policy::{Invitations, Policy};

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

/// A key of `[training]` that asks for more users than there are, or for others than there can be;
/// the other side of the contradiction (the key may have been left to its default); and the reason,
/// as a sentence without a full stop.
type TooFew = (String, &'static str, String);

impl TrainingSpec {
    /// Returns how many of `users` users a round needs, in modes with cohorts. A share is rounded
    /// to the nearest number, and so is the number that is expected where each user is drawn by
    /// itself.
    pub fn needed(&self, users: u32) -> u32 {
        match self.participation {
            Participants::All => users,
            Participants::Share(share) | Participants::Poisson(share) => {
                ((share * f64::from(users) + 0.5) as u32).clamp(1, users)
            }
            Participants::Cohort(cohort) => cohort,
        }
    }

    /// Returns the probability that each user takes part by itself, if participants are drawn that
    /// way.
    pub fn drawn_apart(&self) -> Option<f64> {
        match self.participation {
            Participants::Poisson(probability) => Some(probability),
            _ => None,
        }
    }

    /// Returns whether a round needs everybody, for any number of users, in modes with cohorts.
    fn needs_everybody(&self) -> bool {
        matches!(
            self.participation,
            Participants::All | Participants::Share(1.0)
        )
    }
}

/// Returns the keys of `training`, run under `policy`, that ask for more users than there are.
/// Without `users`, returns those that would do so for any number of users.
pub fn too_few_users(
    training: &TrainingSpec,
    policy: &Policy,
    users: Option<Users<'_>>,
) -> Vec<TooFew> {
    let mode = name_of(&training.mode);
    let mut found = Vec::new();
    let mut refuse =
        |key: &str, other, message| found.push((format!("training.{key}"), other, message));
    if training.drawn_apart().is_some() {
        let once = Invitations::AtOnce {
            over_selection: 1.0,
        };
        let (key, both) = (
            "participation.poisson",
            "`poisson` draws each user by itself",
        );
        if policy.invitations != once || policy.updates(1).is_some() {
            refuse(
                key,
                "training.mode",
                format!(
                    "{both}, and a round of `{mode}` needs a number of users: take `share` or \
                     `cohort`"
                ),
            );
        } else if training.client_selection != ClientSelection::Uniform {
            refuse(
                key,
                "training.client_selection",
                format!("{both}, which no other `client_selection` than `uniform` does"),
            );
        }
    }
    if let (Participants::Cohort(cohort), Some(users)) = (training.participation, users)
        && policy.has_cohorts()
        && cohort > users.all
    {
        let words = users.words;
        refuse(
            "participation.cohort",
            USERS,
            format!("a cohort of {cohort} is larger than the population: {words}"),
        );
    }
    match policy.invitations {
        // Over-selection where everybody is needed is the synchronous mode by another name, unless
        // a deadline ends its rounds.
        Invitations::AtOnce { over_selection } => {
            let needs_all = users.map_or(training.needs_everybody(), |users| {
                training.needed(users.all) == users.all
            });
            if needs_all && over_selection > 1.0 && policy.deadline.is_none() {
                let whom = match users {
                    Some(users) if users.all > 1 => format!("all {} users", users.all),
                    _ => "everybody".to_owned(),
                };
                refuse(
                    "participation",
                    "training.mode",
                    format!(
                        "`over-selection` has nobody else to invite, as a round takes {whom}: \
                         take a smaller `share` or `cohort`, or give the mode a `deadline_s`"
                    ),
                );
            }
        }
        Invitations::WheneverFree { concurrency } => {
            if let Some(users) = users.filter(|users| concurrency > users.all) {
                let words = users.words;
                refuse(
                    &format!("mode.{mode}.concurrency"),
                    USERS,
                    format!("{concurrency} clients cannot take part at a time: {words}"),
                );
            }
        }
    }
    if training.client_selection == ClientSelection::NeverTwiceInARow
        && let Some(reason) = repeats(training, policy, users)
    {
        refuse(
            "client_selection",
            "training.participation",
            format!("`never-twice-in-a-row` cannot be kept: {reason}"),
        );
    }
    found
}

/// Returns why `never-twice-in-a-row` has nobody left to pick in some round, if that is so:
/// everybody was in the round before.
fn repeats(training: &TrainingSpec, policy: &Policy, users: Option<Users<'_>>) -> Option<String> {
    let steps = training.steps();
    let Some(Users { all, able, .. }) = users else {
        let is_in_each = policy.has_cohorts() && steps > 1 && training.needs_everybody();
        return is_in_each.then(|| "everybody is invited to each round".to_owned());
    };
    let whom = match able < all {
        true => "users with the memory to take part",
        false => "users",
    };
    if policy.has_cohorts() {
        // Two cohorts in a row need twice as many users as one.
        let invited = policy.invited(training.needed(all), all);
        let is_too_many = steps > 1 && u64::from(invited) * 2 > u64::from(able);
        return is_too_many.then(|| {
            format!("{invited} users are invited to each round, which is more than half of the {able} {whom}")
        });
    }
    // Two steps in a row use the updates of 2 B different users. That many are enough. Users rest
    // if the step before or the open one used their update, and these are at most 2 B - 1, since
    // the open step ends with its B-th update. So there is always somebody who takes part or can be
    // invited, even if updates are lost or come too late.
    let buffer = policy.updates(training.needed(all)).unwrap_or(1);
    let least = u64::from(buffer) * if steps == 1 { 1 } else { 2 };
    (u64::from(able) < least).then(|| {
        let name = name_of(&training.mode);
        let plural = if buffer == 1 { "" } else { "s" };
        format!(
            "a round of `{name}` takes {buffer} update{plural}, so there must be at least {least} {whom}, found {able}"
        )
    })
}
