//! Workers that are threads of this process and keep users in its memory: all of them, or those
//! that it owns.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use tokio::sync::mpsc::unbounded_channel;

use super::saved::{SavedPart, put_device, put_end, take_devices, take_parts};
use super::scoring::{Donated, MADE_TOGETHER, Scoring, own_downloads, scored};
use super::worked_out::{WorkedOut, effort_of, work_out};
use super::{Pool, Workers, Working, item_tables};
use crate::sim::baselines::{self, UserAccuracies};
use crate::sim::by_user::ByUser;
use crate::sim::client::{ClientActor, SubmittedTraining};
use crate::sim::device::Device;
use crate::sim::download::OutgoingDownload;
use crate::sim::evaluation::Scored;
use crate::sim::messages::{Effort, FromClient, ToClient};
use crate::sim::upload::UploadFrame;
use crate::sim::world::World;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::ids::UserId;
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_data::dataset::KeptItems;
use fedrecsim_methods::method::Placement;
use fedrecsim_model::model::archive::{Archive, ArchiveReader};
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::state::StateVisitor;
use fedrecsim_scenario::scenario::ItemTable;

/// The number of users whose parameters are lent at a time, for scoring or a digest.
const LENT_AT_ONCE: usize = 1 << 14;

/// The number of users that a worker thread takes at a time. They are few enough that all threads
/// end together, although one user has a hundred times the ratings of another, and enough that
/// handing them out costs little.
const TAKEN_AT_ONCE: usize = 8;

/// Users in the memory of this process, and the threads that compute for them.
pub struct Threads {
    world: Arc<World>,
    pool: Pool,
    /// Once this is true, no more trainings are begun.
    interrupted: Arc<AtomicBool>,
    /// The users who are here, by their numbers.
    own: Range<u32>,
    devices: RefCell<Devices>,
}

/// The users' actors.
#[derive(Default)]
struct Devices {
    /// The actors that have had a message. Until then a user has nothing that does not follow from
    /// its number, so a million users of whom ten thousand take part cost as much memory as ten
    /// thousand do.
    clients: ByUser<ClientActor>,
    /// The users who have submitted a training since the last batch, in that order. Some may have
    /// been cut off since.
    submitted: Vec<UserId>,
}

impl Threads {
    /// Makes the users of `world`, none of whom has taken part.
    pub fn new(world: Arc<World>, pool: Pool, interrupted: Arc<AtomicBool>) -> Self {
        // Data sets with 2^32 users or more are refused on reading.
        let own = 0..world.dataset.users() as u32;
        Self {
            world,
            pool,
            interrupted,
            own,
            devices: RefCell::default(),
        }
    }

    /// Returns these workers for these users alone. The others are in other processes.
    pub(crate) fn owning(self, own: Range<u32>) -> Self {
        Self { own, ..self }
    }

    /// Returns the places of the users who are here in the list of evaluated users.
    pub(crate) fn evaluated(&self) -> Range<usize> {
        let place = |first: u32| {
            self.world
                .candidates
                .evaluated_users()
                .partition_point(|user| user.0 < first)
        };
        place(self.own.start)..place(self.own.end)
    }

    /// Takes over a device from a checkpoint.
    pub(crate) fn adopt(&self, user: UserId, device: Box<Device>) {
        self.devices
            .borrow_mut()
            .clients
            .insert(user, ClientActor::restored(device));
    }

    /// Takes over the devices of its users from parts of a checkpoint, which `archive` knows.
    ///
    /// # Errors
    /// As [`take_parts`].
    pub(crate) fn adopt_parts(&self, parts: &[SavedPart], archive: &ArchiveReader) -> Result<()> {
        take_parts(
            parts,
            &self.own,
            archive,
            &self.world,
            &mut |user, device| {
                self.adopt(user, device);
                Ok(())
            },
        )
    }

    /// Appends the devices that have been made, and their end.
    ///
    /// # Errors
    /// Those of `flush`, and an error if a device is in training.
    pub(crate) fn save_devices(
        &self,
        archive: &mut Archive,
        flush: &mut dyn FnMut(&mut Archive) -> Result<()>,
    ) -> Result<()> {
        let clients = &mut self.devices.borrow_mut().clients;
        for user in clients.keys() {
            let Some(actor) = clients.get_mut(&user) else {
                continue;
            };
            if actor.is_away() {
                let reason = format!("{user} cannot be saved: its parameters are in training");
                return Err(Error::Actor {
                    actor: "client",
                    reason,
                });
            }
            if let Some(device) = actor.parameters() {
                put_device(user, device, archive)?;
                flush(archive)?;
            }
        }
        put_end(archive);
        Ok(())
    }

    /// Appends the device of `user`, if it has been made, and the end of the devices. Returns
    /// whether this is possible; it is not while the device is in training.
    ///
    /// # Errors
    /// As [`put_device`].
    pub(crate) fn show_device(&self, user: UserId, archive: &mut Archive) -> Result<bool> {
        let clients = &mut self.devices.borrow_mut().clients;
        if let Some(actor) = clients.get_mut(&user) {
            if actor.is_away() {
                return Ok(false);
            }
            actor
                .parameters()
                .map_or(Ok(()), |device| put_device(user, device, archive))?;
        }
        put_end(archive);
        Ok(true)
    }

    /// Works out all trainings that were submitted, as [`Workers::train`] does, and gives `each` of
    /// them away while others are worked out. Their order depends on the threads.
    ///
    /// # Errors
    /// As [`Workers::train`], and the first one of `each`.
    pub(crate) async fn train_each(
        &self,
        each: &mut dyn FnMut(UserId, &Effort) -> Result<()>,
    ) -> Result<()> {
        if self.devices.borrow().submitted.len() <= 1 {
            return self
                .train()
                .await?
                .iter()
                .try_for_each(|(user, effort)| each(*user, effort));
        }
        let batch = self.devices.borrow_mut().begin_trainings();
        let (world, interrupted) = (Arc::clone(&self.world), Arc::clone(&self.interrupted));
        let (sender, mut ready) = unbounded_channel();
        let training = self.pool.begin(move || {
            batch
                .into_par_iter()
                .chunks(TAKEN_AT_ONCE)
                .with_max_len(1)
                .for_each(|some| {
                    let worked = some
                        .into_iter()
                        .map(|training| work_out(training, &world, &interrupted));
                    // If this fails, the simulation was dropped.
                    let _ = sender.send(worked.collect::<Vec<_>>());
                });
        });
        let mut result = Ok(());
        while let Some(worked) = ready.recv().await {
            for worked in worked {
                let trained = self.devices.borrow_mut().take_back(worked, &self.world);
                // All are taken back, whatever becomes of them.
                if let (Some((user, effort)), Ok(())) = (trained, &result) {
                    result = each(user, &effort);
                }
            }
        }
        training.await.and(result)
    }

    /// Gives the upload of a training that has been worked out, or its error, to `send`, for the
    /// server's process.
    ///
    /// # Errors
    /// Those of `send`, and an error if no training has been worked out, which is a defect of the
    /// simulator.
    pub(crate) fn hand_out_upload<T>(
        &self,
        user: UserId,
        send: impl FnOnce(Result<(UploadFrame, f64), &Error>) -> Result<T>,
    ) -> Result<T> {
        let mut devices = self.devices.borrow_mut();
        match devices
            .clients
            .get_mut(&user)
            .and_then(ClientActor::hand_out_upload)
        {
            Some(upload) => send(upload),
            None => Err(Error::Actor {
                actor: "client",
                reason: format!("{user} has not trained"),
            }),
        }
    }

    /// Scores the evaluated users at these `places` of their list. `donated` holds the item tables
    /// of the users with whose tables they do so, if they do.
    ///
    /// # Errors
    /// As [`Workers::evaluate`].
    pub(crate) async fn score(
        &self,
        places: Range<usize>,
        donated: Donated,
        scoring: &Arc<Scoring>,
    ) -> Result<Vec<Scored>> {
        let (world, scoring) = (Arc::clone(&self.world), Arc::clone(scoring));
        let (first, users) = (
            places.start,
            world.candidates.evaluated_users()[places].to_vec(),
        );
        let all = self.with_parameters(users, move |offset, device| {
            let _stage = enter(Stage::Evaluate);
            scored(
                &world,
                (first, offset),
                device.client.as_ref(),
                &donated,
                &scoring,
            )
        });
        all.await?.into_iter().collect()
    }

    /// Scores the evaluated users at these `places`, of whom each receives what is for it alone,
    /// some users at a time.
    async fn score_with_own_downloads(
        &self,
        places: Range<usize>,
        download: &Arc<OutgoingDownload>,
    ) -> Result<Vec<Scored>> {
        let mut scored = Vec::with_capacity(places.len());
        let at_once = self.pool.threads() * MADE_TOGETHER;
        for first in places.clone().step_by(at_once) {
            let places = first..places.end.min(first + at_once);
            let (download, world, of) = (
                Arc::clone(download),
                Arc::clone(&self.world),
                places.clone(),
            );
            let made = self
                .pool
                .run(move || own_downloads(&download, of, &world))
                .await??;
            scored.extend(
                self.score(places, Donated::new(), &Arc::new(Scoring::Personal(made)))
                    .await?,
            );
        }
        Ok(scored)
    }

    /// Scores the evaluated users at these `places` with the item tables of others, some users at a
    /// time.
    async fn score_with_tables_of_others(
        &self,
        places: Range<usize>,
        scoring: &Arc<Scoring>,
    ) -> Result<Vec<Scored>> {
        let mut scored = Vec::with_capacity(places.len());
        for first in places.clone().step_by(item_tables::HELD_AT_ONCE) {
            let places = first..places.end.min(first + item_tables::HELD_AT_ONCE);
            let users = &self.world.candidates.evaluated_users()[places.clone()];
            // Several users may have the same donor, whose device can be lent once at a time.
            let donors: BTreeSet<UserId> = users
                .iter()
                .map(|user| item_tables::donor_of(*user, &self.world))
                .collect();
            let donors: Vec<UserId> = donors.into_iter().collect();
            let tables = self
                .with_parameters(donors.clone(), |_, device| device.client.personal_table())
                .await?;
            let donated = donors
                .into_iter()
                .zip(tables)
                .map(|(donor, table)| Ok((donor, table?)));
            scored.extend(
                self.score(places, donated.collect::<Result<_>>()?, scoring)
                    .await?,
            );
        }
        Ok(scored)
    }

    /// Runs `work` on the devices of `users`, in parallel, and returns the results in the order of
    /// `users`. A device that has not been made yet is made for this, and dropped again.
    async fn with_parameters<T: Send + 'static>(
        &self,
        users: Vec<UserId>,
        work: impl Fn(usize, &mut Device) -> T + Send + Sync + 'static,
    ) -> Result<Vec<T>> {
        let work = Arc::new(work);
        let mut results = Vec::with_capacity(users.len());
        for users in users.chunks(LENT_AT_ONCE) {
            let (first, world, work) = (results.len(), Arc::clone(&self.world), Arc::clone(&work));
            let lent = self.devices.borrow_mut().lend(users)?;
            let worked = self.pool.run(move || {
                let work =
                    |(offset, (user, device)): (usize, (UserId, Option<Box<Device>>))| match device
                    {
                        Some(mut device) => (work(first + offset, &mut device), user, Some(device)),
                        None => (
                            work(first + offset, &mut Device::new(world.method.client(user))),
                            user,
                            None,
                        ),
                    };
                lent.into_par_iter()
                    .with_max_len(TAKEN_AT_ONCE)
                    .enumerate()
                    .map(work)
                    .collect::<Vec<_>>()
            });
            let worked = worked.await?;
            let mut devices = self.devices.borrow_mut();
            for (result, user, client) in worked {
                results.push(result);
                if let (Some(client), Some(actor)) = (client, devices.clients.get_mut(&user)) {
                    actor.take_back(Some(client));
                }
            }
        }
        Ok(results)
    }
}

impl Devices {
    /// Lends the devices of `users`; `None` for those that have not been made yet.
    fn lend(&mut self, users: &[UserId]) -> Result<Vec<(UserId, Option<Box<Device>>)>> {
        let lend = |user: &UserId| {
            let Some(actor) = self.clients.get_mut(user) else {
                return Ok((*user, None));
            };
            if actor.is_away() {
                let reason = format!("{user} cannot lend its parameters: they are in training");
                return Err(Error::Actor {
                    actor: "client",
                    reason,
                });
            }
            if actor.parameters().is_none() {
                return Ok((*user, None));
            }
            Ok((*user, actor.lend()))
        };
        users.iter().map(lend).collect()
    }

    /// Takes the submitted trainings that are still wanted.
    fn begin_trainings(&mut self) -> Vec<SubmittedTraining> {
        let submitted = std::mem::take(&mut self.submitted);
        let clients = &mut self.clients;
        submitted
            .into_iter()
            .filter_map(|user| clients.get_mut(&user)?.begin_training(user))
            .collect()
    }

    /// Takes back what was lent for a training, with its result.
    fn take_back(&mut self, worked: WorkedOut, world: &World) -> Option<(UserId, Effort)> {
        let WorkedOut {
            assignment,
            keep,
            kept,
            result,
        } = worked;
        let user = assignment.user;
        let effort = effort_of(&result, assignment, world);
        self.clients.get_mut(&user)?.worked_out(keep, kept, result);
        Some((user, effort))
    }
}

impl Workers for Threads {
    fn tell(&self, user: UserId, message: ToClient) -> FromClient {
        let mut devices = self.devices.borrow_mut();
        if let ToClient::Participate { .. } = message {
            devices.submitted.push(user);
        }
        devices
            .clients
            .get_or_insert_with(user, ClientActor::default)
            .receive(message)
    }

    fn items_of(&self, user: UserId) -> Result<KeptItems> {
        Ok(self.world.dataset.kept_items(user))
    }

    fn expect_end_of_training(&self, user: UserId) {
        if let Some(client) = self.devices.borrow().clients.get(&user) {
            client.prefetch();
        }
    }

    fn train(&self) -> Working<'_, Vec<(UserId, Effort)>> {
        let batch = self.devices.borrow_mut().begin_trainings();
        Box::pin(async move {
            let (world, interrupted) = (Arc::clone(&self.world), Arc::clone(&self.interrupted));
            let work_out = move |training| work_out(training, &world, &interrupted);
            let worked: Vec<WorkedOut> = if batch.len() <= 1 {
                batch.into_iter().map(work_out).collect()
            } else {
                let train = move || {
                    batch
                        .into_par_iter()
                        .with_max_len(TAKEN_AT_ONCE)
                        .map(work_out)
                        .collect()
                };
                self.pool.run(train).await?
            };
            let mut devices = self.devices.borrow_mut();
            Ok(worked
                .into_iter()
                .filter_map(|worked| devices.take_back(worked, &self.world))
                .collect())
        })
    }

    fn evaluate(&self, download: Arc<OutgoingDownload>, model: Model) -> Working<'_, Vec<Scored>> {
        Box::pin(async move {
            let is_central = self.world.placement == Placement::Central;
            let own_downloads = download.makes_each() && !is_central;
            let scoring = Arc::new(if is_central {
                Scoring::AtServer(model)
            } else {
                Scoring::Shared(Arc::clone(&download))
            });
            match self.world.scenario.evaluation.item_table {
                ItemTable::Own | ItemTable::Shared if own_downloads => {
                    self.score_with_own_downloads(self.evaluated(), &download)
                        .await
                }
                ItemTable::AnotherUsers => {
                    self.score_with_tables_of_others(self.evaluated(), &scoring)
                        .await
                }
                ItemTable::Own | ItemTable::Shared => {
                    self.score(self.evaluated(), Donated::new(), &scoring).await
                }
            }
        })
    }

    fn baselines(&self) -> Working<'_, UserAccuracies> {
        let (world, places) = (Arc::clone(&self.world), self.evaluated());
        Box::pin(async move {
            self.pool
                .run(move || baselines::accuracies(&world, places))
                .await?
        })
    }

    fn digests(&self) -> Working<'_, Vec<blake3::Hash>> {
        let digests = self.with_parameters(self.own.clone().map(UserId).collect(), |_, device| {
            digest_of(device)
        });
        Box::pin(async move { digests.await?.into_iter().collect() })
    }

    fn save(
        &self,
        _: u32,
        archive: &mut Archive,
        flush: &mut dyn FnMut(&mut Archive) -> Result<()>,
    ) -> Result<()> {
        self.save_devices(archive, flush)?;
        archive.put(&Vec::<SavedPart>::new());
        Ok(())
    }

    fn restore(&self, archive: &mut ArchiveReader) -> Result<()> {
        take_devices(archive, &self.world, &mut |user, device| {
            self.adopt(user, device);
            Ok(())
        })?;
        let parts: Vec<SavedPart> = archive.take()?;
        self.adopt_parts(&parts, archive)
    }
}

/// Returns a digest of everything that a device keeps.
fn digest_of(device: &mut Device) -> Result<blake3::Hash> {
    // The state is hashed in large pieces, since the hash then takes several chunks at a time.
    let (mut digest, mut piece) = (blake3::Hasher::new(), Vec::with_capacity(1 << 16));
    device.visit_state(&mut StateVisitor::Digest(&mut |bytes| {
        piece.extend_from_slice(bytes);
        if piece.len() >= 1 << 16 {
            digest.update(&piece);
            piece.clear();
        }
    }))?;
    digest.update(&piece);
    Ok(digest.finalize())
}
