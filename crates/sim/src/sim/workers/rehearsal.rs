//! Workers of a rehearsal, in which a few users train and are scored for all.
//!
//! A rehearsal is a simulation like any other, except that users with about as many ratings share
//! one training. So it shows how long rounds take in virtual time, what is sent and what the server
//! has to do, at a small part of the cost. What is learned in it means nothing.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Workers, Working};
use crate::sim::consultation::ReplySource;
use crate::sim::device::Device;
use crate::sim::download::OutgoingDownload;
use crate::sim::evaluation::{self, Scored};
use crate::sim::messages::{Effort, FromClient, ToClient};
use crate::sim::training::Assignment;
use crate::sim::upload::UploadFrame;
use crate::sim::world::World;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::ids::{InvitationId, Step, UserId};
use fedrecsim_data::dataset::KeptItems;
use fedrecsim_methods::method::Placement;
use fedrecsim_model::model::archive::{Archive, ArchiveReader};
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::state::StateVisitor;

/// The number of users who stand for all others.
const REPRESENTATIVES: usize = 24;

/// What a rehearsal has measured so far.
#[derive(Clone, Debug, Default)]
pub struct Rehearsed {
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
pub struct Rehearsal {
    world: Arc<World>,
    cast: RefCell<Cast>,
}

struct Cast {
    /// The users who stand for all others, ascending by the number of their ratings.
    representatives: Vec<Representative>,
    /// What users are doing, between their invitation and the end of their training.
    parts: BTreeMap<UserId, Part>,
    submitted: Vec<UserId>,
    rehearsed: Rehearsed,
}

struct Representative {
    user: UserId,
    ratings: usize,
    device: Option<Box<Device>>,
}

/// A training that several users share.
struct SharedTraining {
    effort: Effort,
    result: Result<(UploadFrame, f64), String>,
    took: Duration,
    held_upload_bytes: u64,
}

enum Part {
    Submitted {
        step: Step,
        invitation_id: InvitationId,
        download: Arc<OutgoingDownload>,
        source: Option<ReplySource>,
    },
    Trained(Result<(UploadFrame, f64), String>),
}

impl Rehearsal {
    /// Casts the users of `world` who stand for all others: those at even distances in the order of
    /// their numbers of ratings.
    pub(crate) fn new(world: Arc<World>) -> Self {
        let ratings = |user: &UserId| world.dataset.own_data(*user).items().len();
        let mut users: Vec<UserId> = (0..world.dataset.users()).map(UserId::from).collect();
        users.sort_by_key(|user| (ratings(user), *user));
        let count = REPRESENTATIVES.min(users.len());
        let place = |number: usize| (2 * number + 1) * users.len() / (2 * count);
        let representatives = (0..count).map(|number| {
            let user = users[place(number)];
            Representative {
                user,
                ratings: ratings(&user),
                device: None,
            }
        });
        let representatives = representatives.collect();
        let cast = Cast {
            representatives,
            parts: BTreeMap::new(),
            submitted: Vec::new(),
            rehearsed: Rehearsed::default(),
        };
        Self {
            world,
            cast: RefCell::new(cast),
        }
    }

    /// Returns what has been measured so far.
    pub(crate) fn rehearsed(&self) -> Rehearsed {
        self.cast.borrow().rehearsed.clone()
    }

    /// Returns the position of the representative who stands for `user`: the nearest by the number
    /// of ratings. Where several are equally near, users are spread over them, since a training
    /// that is measured by itself finds nothing in the processor's caches and would stand for
    /// thousands of users whose predecessor has left everything there.
    fn representative_of(&self, cast: &Cast, user: UserId) -> usize {
        let own = self.world.dataset.own_data(user).items().len();
        let all = &cast.representatives;
        let above = all.partition_point(|representative| representative.ratings < own);
        let distance = |position: usize| all[position].ratings.abs_diff(own);
        let is_below_closer =
            above > 0 && (above == all.len() || distance(above - 1) < distance(above));
        let nearest = all[if is_below_closer { above - 1 } else { above }].ratings;
        let first = all.partition_point(|representative| representative.ratings < nearest);
        let end = all.partition_point(|representative| representative.ratings <= nearest);
        first + user.index() % (end - first)
    }

    /// Trains the representatives whom the submitted trainings need, each once, and gives everybody
    /// the result.
    fn train_now(&self) -> Vec<(UserId, Effort)> {
        let cast = &mut *self.cast.borrow_mut();
        let mut results: BTreeMap<(usize, u8), SharedTraining> = BTreeMap::new();
        let mut efforts = Vec::new();
        for user in std::mem::take(&mut cast.submitted) {
            let position = self.representative_of(cast, user);
            let Some(Part::Submitted {
                step,
                invitation_id,
                download,
                source,
            }) = cast.parts.remove(&user)
            else {
                continue;
            };
            let training = results
                .entry((position, download.phase().0))
                .or_insert_with(|| {
                    let representative = &mut cast.representatives[position];
                    let device = representative.device.take();
                    let began = Instant::now();
                    // The frames of a small cohort are made together before anybody trains, and
                    // that of the representative has to be at hand like theirs. If it cannot be
                    // made, the training will say why.
                    let _ = download.prepare_as_well(representative.user);
                    cast.rehearsed.spent += began.elapsed();
                    let mut assignment = Assignment {
                        user: representative.user,
                        step,
                        invitation_id,
                        device,
                        download,
                        reply_source: source,
                        asked_rows: None,
                    };
                    let began = Instant::now();
                    let result = assignment.run(&self.world);
                    let took = began.elapsed();
                    cast.rehearsed.spent += took;
                    let asked_rows = assignment.asked_rows;
                    let consultation = assignment.reply_source.and_then(ReplySource::saved);
                    match result {
                        Ok(trained) => {
                            let upload = Some(self.world.upload_size(trained.frame.parts()));
                            let effort = Effort {
                                work: trained.work,
                                upload,
                                consultation,
                                asked_rows,
                            };
                            let held = trained.frame.held_bytes();
                            representative.device = Some(trained.device);
                            SharedTraining {
                                effort,
                                result: Ok((trained.frame, trained.loss)),
                                took,
                                held_upload_bytes: held,
                            }
                        }
                        Err(error) => {
                            let effort = Effort {
                                work: Default::default(),
                                upload: None,
                                consultation,
                                asked_rows,
                            };
                            SharedTraining {
                                effort,
                                result: Err(error.to_string()),
                                took,
                                held_upload_bytes: 0,
                            }
                        }
                    }
                });
            cast.rehearsed.training += training.took;
            cast.rehearsed.trainings += 1;
            cast.rehearsed.held_upload_bytes += training.held_upload_bytes;
            cast.parts
                .insert(user, Part::Trained(training.result.clone()));
            efforts.push((user, training.effort.clone()));
        }
        efforts
    }

    /// Scores the evaluated users nearest to the representatives, and takes their accuracy for
    /// everybody's.
    fn evaluate_now(&self, download: &OutgoingDownload, model: &Model) -> Result<Vec<Scored>> {
        let cast = &mut *self.cast.borrow_mut();
        let world = &*self.world;
        let users = world.candidates.evaluated_users();
        let count = REPRESENTATIVES.min(users.len());
        let mut scored = Vec::with_capacity(users.len());
        let began = Instant::now();
        let place = |number: usize| (2 * number + 1) * users.len() / (2 * count);
        // Downloads of single users are made together, as they are for all users.
        let chosen: Vec<UserId> = (0..count).map(|number| users[place(number)]).collect();
        let own = if download.makes_each() {
            Some(download.of_each(&chosen)?)
        } else {
            None
        };
        for number in 0..count {
            let position = place(number);
            let representative = self.representative_of(cast, users[position]);
            let made;
            let device = match &cast.representatives[representative].device {
                Some(device) => device,
                None => {
                    made = Box::new(Device::new(world.method.client(users[position])));
                    &made
                }
            };
            let is_central = world.placement == Placement::Central;
            let download = own.as_ref().map_or(download, |own| &own[number]);
            let received = if is_central {
                None
            } else {
                Some(download.received(users[position])?)
            };
            let model = received.as_ref().map_or(model, |received| &received.model);
            let accuracy =
                evaluation::user_accuracy(world, position, device.client.as_ref(), model)?;
            scored.push(Scored {
                accuracy,
                download_bytes: 0,
            });
        }
        let took = began.elapsed();
        cast.rehearsed.spent += took;
        cast.rehearsed.scoring += took.mul_f64(users.len() as f64 / count.max(1) as f64);
        Ok((0..users.len())
            .map(|position| scored[position * count / users.len()].clone())
            .collect())
    }

    /// Trains every representative `participations` times more, until `time` is over, and returns
    /// the bytes that a device keeps after them, as the mean over the representatives. Nothing of
    /// it counts as measured.
    ///
    /// # Errors
    /// Those of the method, which may fail for want of negatives, say.
    pub(crate) fn bytes_of_a_device(&self, participations: u32, time: Duration) -> Result<u64> {
        let cast = self.cast.borrow();
        let world = &*self.world;
        let first = Arc::new(OutgoingDownload::first(world)?);
        let each = time / cast.representatives.len().max(1) as u32;
        if participations == 0 {
            return Ok(0);
        }
        let users: Vec<UserId> = cast
            .representatives
            .iter()
            .map(|representative| representative.user)
            .collect();
        let mut bytes = 0;
        for (position, &user) in users.iter().enumerate() {
            let began = Instant::now();
            let neighbour = users[(position + 1) % users.len()];
            let neighbours = Box::new(Device::new(world.method.client(neighbour)));
            // What a device shares with others, such as the table that it downloaded, is not its
            // own.
            let mut other = trained_once_more(world, (neighbour, 1), neighbours, &first)?;
            let mut device = Box::new(Device::new(world.method.client(user)));
            let mut sizes = vec![size_of_device(&mut device, &mut other)?];
            while sizes.len() as u64 <= u64::from(participations) && began.elapsed() < each {
                // The model stays as it was at first, so that training may diverge where it would
                // not in the run.
                let Ok(trained) =
                    trained_once_more(world, (user, sizes.len() as u32), device, &first)
                else {
                    break;
                };
                device = trained;
                sizes.push(size_of_device(&mut device, &mut other)?);
            }
            bytes += extrapolated(&sizes, participations);
        }
        Ok(bytes / users.len().max(1) as u64)
    }
}

/// Returns the size after `participations`, of which `sizes` has the first ones. What is new in a
/// participation becomes less, so that the last growth goes on at the rate at which it has shrunk.
fn extrapolated(sizes: &[u64], participations: u32) -> u64 {
    let last = sizes.last().copied().unwrap_or(0) as f64;
    let missing = (u64::from(participations) + 1).saturating_sub(sizes.len() as u64);
    let growth = |from: usize| {
        sizes
            .get(from + 1)
            .zip(sizes.get(from))
            .map(|(next, size)| *next as f64 - *size as f64)
    };
    let (Some(first), Some(latest)) = (growth(1), growth(sizes.len().saturating_sub(2))) else {
        // Nothing is known but the first participation, whose growth is that of a device that had
        // nothing.
        return last as u64;
    };
    let steps = sizes.len().saturating_sub(3).max(1) as f64;
    let shrinks_by = if first > 0.0 {
        (latest / first).clamp(0.0, 1.0).powf(1.0 / steps)
    } else {
        0.0
    };
    let grown = if shrinks_by < 1.0 {
        latest * shrinks_by * (1.0 - shrinks_by.powf(missing as f64)) / (1.0 - shrinks_by)
    } else {
        latest * missing as f64
    };
    (last + grown.max(0.0)) as u64
}

/// Returns a device after another training with this download.
fn trained_once_more(
    world: &World,
    (user, number): (UserId, u32),
    device: Box<Device>,
    download: &Arc<OutgoingDownload>,
) -> Result<Box<Device>> {
    let (step, invitation_id, download) =
        (Step(number), InvitationId(number), Arc::clone(download));
    let (device, reply_source, asked_rows) = (Some(device), None, None);
    let mut assignment = Assignment {
        user,
        step,
        invitation_id,
        device,
        download,
        reply_source,
        asked_rows,
    };
    Ok(assignment.run(world)?.device)
}

/// Returns the bytes that a device keeps and does not share with another one. An archive has what
/// is shared only once.
fn size_of_device(device: &mut Device, other: &mut Device) -> Result<u64> {
    let mut archive = Archive::default();
    other.visit_state(&mut StateVisitor::Save(&mut archive))?;
    let before = archive.pending();
    device.visit_state(&mut StateVisitor::Save(&mut archive))?;
    Ok((archive.pending() - before) as u64)
}

impl Workers for Rehearsal {
    fn tell(&self, user: UserId, message: ToClient) -> FromClient {
        let cast = &mut *self.cast.borrow_mut();
        match message {
            ToClient::Participate {
                step,
                invitation_id,
                download,
                reply_source: source,
                ..
            } => {
                cast.submitted.push(user);
                cast.parts.insert(
                    user,
                    Part::Submitted {
                        step,
                        invitation_id,
                        download,
                        source,
                    },
                );
                FromClient::Done
            }
            ToClient::Received(frame, format) => FromClient::Sound(format.reads(&frame)),
            ToClient::TrainingEnded => match cast.parts.remove(&user) {
                Some(Part::Trained(Ok((frame, loss)))) => FromClient::Upload { frame, loss },
                Some(Part::Trained(Err(reason))) => FromClient::Failed(Error::Usage(reason)),
                _ => FromClient::OutOfTurn,
            },
            ToClient::CutOff => {
                cast.parts.remove(&user);
                FromClient::Done
            }
            // Nobody studies the users of a rehearsal, most of whom are played by others.
            ToClient::ShowPersonalTable => FromClient::OutOfTurn,
        }
    }

    fn items_of(&self, user: UserId) -> Result<KeptItems> {
        Ok(self.world.dataset.kept_items(user))
    }

    fn train(&self) -> Working<'_, Vec<(UserId, Effort)>> {
        Box::pin(async move { Ok(self.train_now()) })
    }

    fn evaluate(&self, download: Arc<OutgoingDownload>, model: Model) -> Working<'_, Vec<Scored>> {
        Box::pin(async move { self.evaluate_now(&download, &model) })
    }

    fn digests(&self) -> Working<'_, Vec<blake3::Hash>> {
        // A rehearsal has no result, so that nobody compares it.
        let users = self.world.dataset.users();
        Box::pin(async move { Ok(vec![blake3::hash(b""); users]) })
    }

    fn save(
        &self,
        _: u32,
        _: &mut Archive,
        _: &mut dyn FnMut(&mut Archive) -> Result<()>,
    ) -> Result<()> {
        Err(Error::Usage("a rehearsal cannot be saved".to_owned()))
    }

    fn restore(&self, _archive: &mut ArchiveReader) -> Result<()> {
        Err(Error::Usage("a rehearsal begins anew".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::sim::small;

    /// If this fails, users are rehearsed by somebody who has more or fewer ratings than another
    /// representative would.
    #[test]
    fn everybody_is_stood_for_by_who_has_the_nearest_number_of_ratings() {
        let world = small::world(&["dataset.generator.users=100"]);
        let rehearsal = Rehearsal::new(Arc::clone(&world));
        let cast = rehearsal.cast.borrow();
        assert_eq!(cast.representatives.len(), REPRESENTATIVES);
        assert!(
            cast.representatives
                .is_sorted_by_key(|representative| representative.ratings)
        );
        let mut by_ratings: Vec<UserId> = (0..100).map(UserId).collect();
        by_ratings.sort_by_key(|user| (world.dataset.own_data(*user).items().len(), *user));
        // A hundred users in 24 equal parts, and the middle of each.
        for (number, representative) in cast.representatives.iter().enumerate() {
            let middle = (number as f64 + 0.5) * 100.0 / 24.0;
            assert_eq!(
                representative.user, by_ratings[middle as usize],
                "part {number}"
            );
        }
        for user in (0..100).map(UserId) {
            let ratings = world.dataset.own_data(user).items().len();
            let distance =
                |representative: &Representative| representative.ratings.abs_diff(ratings);
            let chosen = &cast.representatives[rehearsal.representative_of(&cast, user)];
            let nearest = cast.representatives.iter().map(distance).min();
            assert_eq!(
                Some(distance(chosen)),
                nearest,
                "user {user:?} with {ratings} ratings"
            );
        }
    }

    /// If this fails, the memory of a long run is taken for that of its first rounds, or for one
    /// that grows for ever.
    #[test]
    fn what_devices_keep_grows_on_as_it_has_grown() {
        // Every participation adds half of what the one before it has added.
        assert_eq!(extrapolated(&[0, 100, 150, 175], 4), 187);
        assert_eq!(extrapolated(&[0, 100, 150, 175], 1000), 200);
        assert_eq!(extrapolated(&[0, 10, 20, 30], 10), 100);
        assert_eq!(extrapolated(&[0, 100, 150, 175], 3), 175);
        assert_eq!(extrapolated(&[0, 100, 100, 100], 1000), 100);
        assert_eq!(
            extrapolated(&[0, 100], 1000),
            100,
            "nothing is known of how it grows"
        );
    }

    /// If this fails, the memory of devices is estimated as that of all representatives together,
    /// or of none.
    #[test]
    fn a_device_keeps_what_its_method_keeps_for_one_user() {
        let world = small::world(&["method={ fedmf = { latent_dimension = 32 } }"]);
        let rehearsal = Rehearsal::new(Arc::clone(&world));
        let bytes = rehearsal.bytes_of_a_device(1, Duration::ZERO).unwrap();
        // A vector of 32 numbers, and little beside it.
        assert!((128..400).contains(&bytes), "{bytes}");
        assert_eq!(rehearsal.bytes_of_a_device(0, Duration::ZERO).unwrap(), 0);
    }
}
