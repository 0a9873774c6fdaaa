//! What is found for newcomers: users or items that come in the course of the run.
//!
//! Until users come, every evaluation scores them as if they had just come: a new device, the
//! parameters that the server has, and their earliest ratings. Nothing of that is sent or kept.
//! The server has had nothing of them by then, so that these are the figures of real newcomers.
//!
//! Items are judged by the users who have one of them held out, from their coming on. All that have come
//! are candidates then.

use std::sync::Arc;

use rayon::prelude::*;

use super::baselines::UserAccuracies;
use super::device::Device;
use super::download::Download;
use super::evaluation::{self, Scored, UserAccuracy};
use super::invitation::Invited;
use super::joins::Joins;
use super::ledger::Ledger;
use super::new_items;
use super::outcome::{
    AfterRatings, ByDirection, Flow, Joined, Newcomers, NewcomersRecord, RoundRecord, handled_bytes,
};
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
    // Only items have a stage without a number.
    let numbered = joins.known.iter();
    let numbered = numbered.filter_map(|(ratings, known)| ratings.map(|ratings| (ratings, known)));
    let of_all = numbered.map(|(ratings, known)| -> Result<ScoredAfter> {
        let evaluated = world.candidates.evaluated_users().iter().enumerate();
        let has_enough = |user: UserId| known.train_items(user).len() == ratings as usize;
        let places = evaluated.filter(|(_, user)| joins.is_apart(**user) && has_enough(**user));
        let places: Vec<usize> = places.map(|(place, _)| place).collect();
        let scored = places
            .into_par_iter()
            .map(|place| scored_one(world, (joins, known), place, (download, round)));
        Ok((ratings, scored.collect::<Result<_>>()?))
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
        let step = Step(world.scenario.training.steps_of(round).start);
        // Real invitations count from 0, and scoring draws its samples under the last number.
        let id = InvitationId(u32::MAX - 1 - number);
        let invited = Invited::alone(user, step, id, download);
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
    let joins = world.joins.as_ref();
    let Some(joins) = joins.filter(|joins| joins.awaits_users(now)) else {
        return;
    };
    for (user, scored) in world.candidates.evaluated_users().iter().zip(scored) {
        if joins.is_apart(*user) {
            scored.download_bytes = 0;
        }
    }
}

/// The ledger of the run, its rounds so far, and the bytes of the present one.
type Traffic<'a> = (&'a Ledger, &'a [RoundRecord], &'a ByDirection<Flow>);

/// Returns the record of a round that `began` and `ended` then; `None` if nothing comes in the course of
/// the run. `after` is what was found before users come, and `scored` of all evaluated users.
pub(crate) fn record(
    world: &World,
    (began, ended): (SimTime, SimTime),
    (after, scored): (&[ScoredAfter], &[Scored]),
    (ledger, rounds, bytes): Traffic<'_>,
) -> Option<NewcomersRecord> {
    let (joins, metric_set) = (world.joins.as_ref()?, &world.metric_set);
    let test_means = |accuracies: &[&UserAccuracy]| {
        evaluation::test_means(accuracies.iter().copied(), metric_set)
    };
    let accuracies: Vec<&UserAccuracy> = scored.iter().map(|scored| &scored.accuracy).collect();
    let own = own_of(world, joins, &accuracies);
    let after_ratings = match new_items::ratings_in(joins, (began, ended)) {
        Some(ratings) => {
            let with_as_many = new_items::with_ratings(world, joins, ratings, &own);
            vec![AfterRatings {
                ratings,
                users: with_as_many.len() as u64,
                test: test_means(&with_as_many),
            }]
        }
        None => after
            .iter()
            .map(|(ratings, accuracies)| AfterRatings {
                ratings: *ratings,
                users: accuracies.len() as u64,
                test: evaluation::test_means(accuracies, metric_set),
            })
            .collect(),
    };
    let bytes_of = |user: UserId| {
        let bytes = ledger.of_client(&user);
        bytes.map_or(0, |bytes| handled_bytes(&bytes))
    };
    let joined = joins.since(ended).map(|since| Joined {
        users: own.len() as u64,
        since_s: since.as_secs_f64(),
        bytes: match joins.items() {
            0 => own.iter().map(|(user, _)| bytes_of(*user)).sum(),
            _ => new_items::bytes_since(joins, rounds) + handled_bytes(bytes),
        },
        test: test_means(
            &own.iter()
                .map(|(_, accuracy)| *accuracy)
                .collect::<Vec<_>>(),
        ),
    });
    Some(NewcomersRecord {
        after_ratings,
        joined,
        others: (joins.items() > 0).then(|| new_items::of_others(world, joins, &accuracies)),
    })
}

/// Returns the users who are judged as newcomers, or by new items, each with its accuracy.
fn own_of<'a>(
    world: &World,
    joins: &Joins,
    accuracies: &[&'a UserAccuracy],
) -> Vec<(UserId, &'a UserAccuracy)> {
    let users = world.candidates.evaluated_users().iter().copied();
    let all = users.zip(accuracies.iter().copied());
    all.filter(|(user, _)| joins.judges(*user, &world.dataset))
        .collect()
}

/// Returns what the `rounds` of a run say of its newcomers; `None` if nothing comes. `baselines` are
/// those of all evaluated users.
pub(crate) fn outcome(
    world: &World,
    rounds: &[RoundRecord],
    baselines: &UserAccuracies,
) -> Option<Newcomers> {
    let joins = world.joins.as_ref()?;
    let of_newcomers = |(name, all): &(String, Vec<UserAccuracy>)| {
        let own = own_of(world, joins, &all.iter().collect::<Vec<_>>());
        let own = own.into_iter().map(|(_, accuracy)| accuracy);
        (name.clone(), evaluation::test_means(own, &world.metric_set))
    };
    let who = Newcomers {
        users: joins.users(),
        items: joins.items(),
        devices: match joins.items() {
            0 => None,
            _ => Some(world.dataset.users_with_history() as u64),
        },
        at_s: joins.spec.at_s,
        baselines: baselines.iter().map(of_newcomers).collect(),
        ..Newcomers::default()
    };
    Some(who.with(rounds, &world.scenario.evaluation))
}
