//! What is found for newcomers: users who come in the course of the run.
//!
//! Until they come, every evaluation scores them as if they had just come: a new device, the
//! parameters that the server has, and their earliest ratings. Nothing of that is sent or kept.
//! The server has had nothing of them by then, so that these are the figures of real newcomers.

use std::sync::Arc;

use rayon::prelude::*;

use super::baselines::UserAccuracies;
use super::device::Device;
use super::download::Download;
use super::evaluation::{self, Scored, UserAccuracy};
use super::invitation::{Invitation, Invited};
use super::joins::Joins;
use super::outcome::{AfterRatings, Joined, Newcomers, NewcomersRecord, RoundRecord};
use super::training;
use super::world::World;
use fedrecsim_core::{Error, InvitationId, Result, Round, SimTime, Step, UserId};
use fedrecsim_data::dataset::Dataset;

/// The accuracy of the newcomers who have so many ratings, before they come.
pub type ScoredAfter = (u32, Vec<UserAccuracy>);

/// Scores the evaluated newcomers after each number of ratings, those who have as many. Their devices
/// train as in `round`.
///
/// # Errors
/// Those of a training, and as [`evaluation::user_accuracy`].
pub(crate) fn scored(
    world: &World,
    download: &Arc<Download>,
    round: Round,
) -> Result<Vec<ScoredAfter>> {
    let Some(joins) = &world.joins else {
        return Ok(Vec::new());
    };
    let of_all = joins
        .known
        .iter()
        .map(|(ratings, known)| -> Result<ScoredAfter> {
            let evaluated = world.candidates.evaluated_users().iter().enumerate();
            let has_enough = |user: UserId| known.train_items(user).len() == *ratings as usize;
            let places = evaluated.filter(|(_, user)| joins.includes(**user) && has_enough(**user));
            let places: Vec<usize> = places.map(|(place, _)| place).collect();
            let scored = places
                .into_par_iter()
                .map(|place| scored_one(world, (joins, known), place, (download, round)));
            Ok((*ratings, scored.collect::<Result<_>>()?))
        });
    of_all.collect()
}

/// Scores the newcomer at `place` of the evaluated users with a device that is new, and that has
/// what `known` says of its user's ratings.
fn scored_one(
    world: &World,
    (joins, known): (&Joins, &Dataset),
    place: usize,
    (download, round): (&Arc<Download>, Round),
) -> Result<UserAccuracy> {
    let user = world.candidates.evaluated_users()[place];
    let own = match download.makes_each() {
        true => download.of_each(&[user])?.pop(),
        false => None,
    };
    let received = own.as_ref().unwrap_or(download).received(user)?;
    let mut device = Device::new(user, world);
    let trainings = match known.train_items(user).is_empty() {
        true => 0,
        false => joins.spec.local_trainings,
    };
    for number in 0..trainings {
        let invitation = Invitation {
            step: Step(world.scenario.training.steps_of(round).start),
            // Real invitations count from 0, and scoring draws its samples under the last number.
            id: InvitationId(u32::MAX - 1 - number),
            download: Arc::clone(download),
        };
        let invited = Invited {
            user,
            invitation,
            reply_source: None,
            keep: false,
        };
        training::train_unsent(&invited, &mut device, &received.model, (world, known))
            .map_err(of_newcomer)?;
    }
    let client = device.client.as_ref();
    evaluation::user_accuracy_with(known, world, place, (client, &received.model), false)
}

/// Says of an explosion that nobody who takes part has caused it.
fn of_newcomer(mut error: Error) -> Error {
    if let Error::Diverged { parameter, .. } = &mut error {
        *parameter =
            format!("{parameter} of a newcomer's new device (joins.local_trainings)").into();
    }
    error
}

/// Has newcomers who have not come at `now` download nothing in order to score.
pub(crate) fn forget_downloads_of_absent(world: &World, now: SimTime, scored: &mut [Scored]) {
    let absent = world
        .joins
        .as_ref()
        .filter(|joins| joins.since(now).is_none());
    let Some(joins) = absent else { return };
    for (user, scored) in world.candidates.evaluated_users().iter().zip(scored) {
        if joins.includes(*user) {
            scored.download_bytes = 0;
        }
    }
}

/// Returns the record of a round that ended at `now`; `None` if nobody comes in the course of the run.
/// `after` is what was found before they come, `scored` of all evaluated users, and `bytes_of` what
/// a user has sent and received.
pub(crate) fn record(
    world: &World,
    now: SimTime,
    (after, scored): (&[ScoredAfter], &[Scored]),
    bytes_of: impl Fn(UserId) -> u64,
) -> Option<NewcomersRecord> {
    let (joins, metric_set) = (world.joins.as_ref()?, &world.metric_set);
    let after_ratings = after.iter().map(|(ratings, accuracies)| AfterRatings {
        ratings: *ratings,
        users: accuracies.len() as u64,
        test: evaluation::test_means(accuracies, metric_set),
    });
    let evaluated = world.candidates.evaluated_users().iter().zip(scored);
    let own: Vec<_> = evaluated
        .filter(|(user, _)| joins.includes(**user))
        .collect();
    let joined = joins.since(now).map(|since| Joined {
        users: own.len() as u64,
        since_s: since.as_secs_f64(),
        bytes: own.iter().map(|(user, _)| bytes_of(**user)).sum(),
        test: evaluation::test_means(own.iter().map(|(_, scored)| &scored.accuracy), metric_set),
    });
    Some(NewcomersRecord {
        after_ratings: after_ratings.collect(),
        joined,
    })
}

/// Returns what the `rounds` of a run say of its newcomers; `None` if nobody comes. `baselines` are
/// those of all evaluated users.
pub(crate) fn outcome(
    world: &World,
    rounds: &[RoundRecord],
    baselines: &UserAccuracies,
) -> Option<Newcomers> {
    let joins = world.joins.as_ref()?;
    let of_newcomers = |(name, all): &(String, Vec<UserAccuracy>)| {
        let users = world.candidates.evaluated_users().iter().zip(all);
        let own = users.filter(|(user, _)| joins.includes(**user));
        let own = own.map(|(_, accuracy)| accuracy);
        (name.clone(), evaluation::test_means(own, &world.metric_set))
    };
    let baselines = baselines.iter().map(of_newcomers).collect();
    let who = (joins.count(), joins.spec.at_s);
    Some(Newcomers::of(
        who,
        rounds,
        baselines,
        &world.scenario.evaluation,
    ))
}
