//! Workers of a rehearsal: a few users train and are scored for all.
//!
//! A rehearsal is a simulation like any other, except that users with about as many ratings share
//! one training. So it shows how long rounds take in virtual time, what is sent and what the server
//! has to do, at a small part of the cost. Its trained model means nothing.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{StandIns, Workers, Working};
use crate::device::Device;
use crate::download::Download;
use crate::evaluation::{self, Scored};
use crate::invitation::Invited;
use crate::messages::Effort;
use crate::upload::Upload;
use crate::world::World;
use fedrecsim_core::{Error, Result, SimTime, UserId};
use fedrecsim_methods::Placement;
use fedrecsim_model::Model;

/// The number of users who stand for all others.
const REPRESENTATIVES: usize = 24;

/// The measurements of a rehearsal so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rehearsed {
    /// The time that all trainings would take on one thread.
    pub training: Duration,
    /// The time that scoring all evaluated users would take on one thread, over all evaluations.
    pub scoring: Duration,
    /// The time that the rehearsal itself has taken for trainings and scoring.
    pub spent: Duration,
    /// The bytes that uploads take in memory until they are decoded, summed over all trainings.
    pub held_upload_bytes: u64,
    /// The number of trainings.
    pub trainings: u64,
}

/// Trains and scores with a few users for all.
pub(crate) struct Rehearsal {
    world: Arc<World>,
    cast: RefCell<Cast>,
    /// The measurements, for the caller of the rehearsal.
    rehearsed: Arc<Mutex<Rehearsed>>,
}

struct Cast {
    /// The users who stand for all others, class by class, ascending by the number of their ratings.
    representatives: Vec<Representative>,
    everybody: StandIns,
    submitted: Vec<UserId>,
}

pub(super) struct Representative {
    pub user: UserId,
    ratings: usize,
    device: Option<Box<Device>>,
}

/// A training that several users share.
struct SharedTraining {
    effort: Effort,
    result: Result<Upload, String>,
    took: Duration,
}

/// Returns the position in a list of `length` of the middle of one of `parts` equal parts.
fn middle_of(part: usize, parts: usize, length: usize) -> usize {
    (2 * part + 1) * length / (2 * parts)
}

/// Returns the users of `world` who stand for all others: of each class those at even distances in
/// the order of their numbers of ratings.
pub(super) fn representatives(world: &World) -> Vec<Representative> {
    let ratings = |user: &UserId| world.dataset.own_data(*user).items.len();
    let mut users: Vec<UserId> = (0..world.dataset.users_with_history())
        .map(UserId::from)
        .collect();
    users.sort_by_cached_key(|user| (world.class_of(*user), ratings(user), *user));
    let classes = || users.chunk_by(|one, other| world.class_of(*one) == world.class_of(*other));
    let most = REPRESENTATIVES / classes().count().max(1);
    let mut all = Vec::new();
    for of_class in classes() {
        let count = most.clamp(1, of_class.len());
        all.extend((0..count).map(|part| {
            let user = of_class[middle_of(part, count, of_class.len())];
            Representative {
                user,
                ratings: ratings(&user),
                device: None,
            }
        }));
    }
    all
}

impl Rehearsal {
    /// Casts the users of `world`.
    pub(crate) fn new(world: Arc<World>, rehearsed: Arc<Mutex<Rehearsed>>) -> Self {
        let cast = Cast {
            representatives: representatives(&world),
            everybody: StandIns::default(),
            submitted: Vec::new(),
        };
        Self {
            world,
            cast: RefCell::new(cast),
            rehearsed,
        }
    }

    /// Changes what has been measured so far.
    fn measure(&self, change: impl FnOnce(&mut Rehearsed)) {
        // A thread that panics leaves no figure half written.
        change(
            &mut self
                .rehearsed
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// Returns the position of the representative who stands for `user`: of its class, the nearest by
    /// the number of ratings. Where several are equally near, users are spread over them, since a training
    /// that is measured by itself finds nothing in the processor's caches and would stand for
    /// thousands of users whose predecessor has left everything there. `None` if nobody of the class
    /// trains.
    fn representative_of(&self, cast: &Cast, user: UserId) -> Option<usize> {
        let own = self.world.dataset.own_data(user).items.len();
        let class = self.world.class_of(user);
        let of_class = |other: &Representative| self.world.class_of(other.user);
        let all = &cast.representatives;
        let begin = all.partition_point(|other| of_class(other) < class);
        let all = &all[begin..all.partition_point(|other| of_class(other) <= class)];
        let above = all.partition_point(|representative| representative.ratings < own);
        let distance = |position: usize| all[position].ratings.abs_diff(own);
        let is_below_closer =
            above > 0 && (above == all.len() || distance(above - 1) < distance(above));
        let nearest = all
            .get(if is_below_closer { above - 1 } else { above })?
            .ratings;
        let first = all.partition_point(|representative| representative.ratings < nearest);
        let end = all.partition_point(|representative| representative.ratings <= nearest);
        Some(begin + first + user.index() % (end - first))
    }

    /// Trains each representative that the submitted trainings need once, and gives everybody the
    /// result.
    fn train_now(&self) -> Vec<(UserId, Effort)> {
        let cast = &mut *self.cast.borrow_mut();
        let mut trainings: BTreeMap<(usize, u8), SharedTraining> = BTreeMap::new();
        let mut efforts = Vec::new();
        for user in std::mem::take(&mut cast.submitted) {
            let position = self.representative_of(cast, user);
            let (Some(position), Some(invited)) = (position, cast.everybody.submitted(user)) else {
                continue;
            };
            let representative = &mut cast.representatives[position];
            let training = trainings
                .entry((position, invited.invitation.download.phase().0))
                .or_insert_with(|| self.train_for_all(representative, invited));
            self.measure(|rehearsed| {
                rehearsed.training += training.took;
                rehearsed.trainings += 1;
                rehearsed.held_upload_bytes += match &training.result {
                    Ok(upload) => upload.held_bytes(),
                    Err(_) => 0,
                };
            });
            let result = training.result.clone().map_err(Error::Usage);
            cast.everybody.trained(user, result);
            efforts.push((user, training.effort.clone()));
        }
        efforts
    }

    /// Has a representative train in place of the user who is invited.
    fn train_for_all(
        &self,
        representative: &mut Representative,
        invited: &Invited,
    ) -> SharedTraining {
        let began = Instant::now();
        let invited = Invited {
            user: representative.user,
            keep: false,
            ..invited.clone()
        };
        let device = representative.device.take();
        let worked = invited.work_out(device, &self.world, &AtomicBool::default());
        let took = began.elapsed();
        self.measure(|rehearsed| rehearsed.spent += took);
        let result = worked.result.map(|(device, upload)| {
            representative.device = Some(device);
            upload
        });
        SharedTraining {
            effort: worked.effort,
            result: result.map_err(|error| error.to_string()),
            took,
        }
    }

    /// Scores the evaluated users nearest to the representatives, and takes their accuracy for
    /// everybody's.
    fn evaluate_now(&self, download: &Download, model: &Model) -> Result<Vec<Scored>> {
        let cast = &mut *self.cast.borrow_mut();
        let world = &*self.world;
        let users = world.candidates.evaluated_users();
        let count = REPRESENTATIVES.min(users.len());
        let mut scored = Vec::with_capacity(users.len());
        let began = Instant::now();
        let places = (0..count).map(|part| middle_of(part, count, users.len()));
        // Downloads of single users are made together, as they are for all users.
        let chosen: Vec<UserId> = places.clone().map(|place| users[place]).collect();
        let own = match download.makes_each() {
            true => Some(download.of_each(&chosen)?),
            false => None,
        };
        for (number, position) in places.enumerate() {
            let user = users[position];
            let representative = self.representative_of(cast, user);
            let trained = representative.map(|place| &cast.representatives[place].device);
            let made;
            let device = match trained {
                Some(Some(device)) => device,
                _ => {
                    made = Device::new(user, world);
                    &made
                }
            };
            let download = own.as_ref().map_or(download, |own| &own[number]);
            let received = match world.placement {
                Placement::Central => None,
                _ => Some(download.received(user)?),
            };
            let model = received.as_ref().map_or(model, |received| &received.model);
            scored.push(Scored {
                accuracy: evaluation::user_accuracy(
                    world,
                    position,
                    device.client.as_ref(),
                    model,
                    false,
                )?,
                download_bytes: 0,
            });
        }
        let took = began.elapsed();
        self.measure(|rehearsed| {
            rehearsed.spent += took;
            rehearsed.scoring += took.mul_f64(users.len() as f64 / count.max(1) as f64);
        });
        Ok((0..users.len())
            .map(|position| scored[position * count / users.len()].clone())
            .collect())
    }
}

impl Workers for Rehearsal {
    fn submit(&self, invited: Invited) -> Result<()> {
        let cast = &mut *self.cast.borrow_mut();
        cast.submitted.push(invited.user);
        cast.everybody.submit(invited)
    }

    fn end_training(&self, user: UserId) -> Result<Upload> {
        self.cast.borrow_mut().everybody.end_training(user)
    }

    fn break_off(&self, user: UserId) -> Result<()> {
        self.cast.borrow_mut().everybody.break_off(user);
        Ok(())
    }

    fn train(&self) -> Working<'_, Vec<(UserId, Effort)>> {
        Box::pin(async move { Ok(self.train_now()) })
    }

    /// A rehearsal is of rounds, and lists are made once in a run.
    fn evaluate(
        &self,
        download: Arc<Download>,
        model: Model,
        _: (bool, SimTime),
    ) -> Working<'_, Vec<Scored>> {
        Box::pin(async move { self.evaluate_now(&download, &model) })
    }

    fn digests(&self) -> Working<'_, Vec<blake3::Hash>> {
        // A rehearsal has no result, so that nobody compares it.
        let users = self.world.dataset.users();
        Box::pin(async move { Ok(vec![blake3::hash(b""); users]) })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::small;

    /// If this fails, users are rehearsed by somebody who has more or fewer ratings than another
    /// representative would.
    #[test]
    fn everybody_is_stood_for_by_who_has_the_nearest_number_of_ratings() {
        let world = small::world(&["dataset.generator.users=100"]);
        let rehearsal = Rehearsal::new(Arc::clone(&world), Arc::default());
        let cast = rehearsal.cast.borrow();
        assert_eq!(cast.representatives.len(), REPRESENTATIVES);
        assert!(
            cast.representatives
                .is_sorted_by_key(|representative| representative.ratings)
        );
        let mut by_ratings: Vec<UserId> = (0..100).map(UserId).collect();
        by_ratings.sort_by_key(|user| (world.dataset.own_data(*user).items.len(), *user));
        // A hundred users in 24 equal parts, and the middle of each.
        for (number, representative) in cast.representatives.iter().enumerate() {
            let middle = (number as f64 + 0.5) * 100.0 / 24.0;
            assert_eq!(
                representative.user, by_ratings[middle as usize],
                "part {number}"
            );
        }
        for user in (0..100).map(UserId) {
            let ratings = world.dataset.own_data(user).items.len();
            let distance =
                |representative: &Representative| representative.ratings.abs_diff(ratings);
            let chosen = &cast.representatives[rehearsal.representative_of(&cast, user).unwrap()];
            let nearest = cast.representatives.iter().map(distance).min();
            assert_eq!(
                Some(distance(chosen)),
                nearest,
                "user {user:?} with {ratings} ratings"
            );
        }
    }
}
