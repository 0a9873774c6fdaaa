//! Workers that are threads of this process and keep users in its memory: all of them, or those
//! that it owns.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use tokio::sync::mpsc::unbounded_channel;

use super::saved::{Keep, SavedPart, put_device, put_end, take_devices, take_parts};
use super::scoring::{Donated, Scoring, donor_of, own_downloads, scored};
use super::{Flush, Pool, Workers, Working};
use crate::baselines::{self, UserAccuracies};
use crate::by_user::ByUser;
use crate::checkpoints::{CheckpointStore, WRITTEN_AT_ONCE};
use crate::client::ClientActor;
use crate::device::Device;
use crate::download::{Download, MADE_TOGETHER};
use crate::evaluation::{self, Scored};
use crate::invitation::Invited;
use crate::messages::Effort;
use crate::newcomers::{self, ScoredAfter};
use crate::resident::unanswered;
use crate::training::WorkedOut;
use crate::upload::Upload;
use crate::world::World;
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_core::{Error, ErrorKind, Result, Round, SimTime, UserId};
use fedrecsim_data::dataset::KeptItems;
use fedrecsim_methods::{PersonalTable, PersonalVector, Placement};
use fedrecsim_model::{Archive, ArchiveReader, Model, StateVisitor};
use fedrecsim_scenario::ItemTable;

/// The number of users whose tables are held at a time, for others to score with.
const HELD_AT_ONCE: usize = 64;

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

/// A training that was submitted, with the user's device if that has been made.
type Submitted = (Invited, Option<Box<Device>>);

/// The users' actors.
#[derive(Default)]
struct Devices {
    /// The actors that have had a message. Until then everything of a user follows from its number,
    /// so a million users with ten thousand participants cost as much memory as ten thousand users.
    clients: ByUser<ClientActor>,
    /// The users who have submitted a training since the last batch, in that order. Some of these
    /// participations may be over.
    submitted: Vec<UserId>,
}

impl Threads {
    /// Makes the users of `world`. None of them has taken part.
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
    pub fn owning(self, own: Range<u32>) -> Self {
        Self { own, ..self }
    }

    /// Returns the places of the users who are here in the list of evaluated users.
    pub fn evaluated(&self) -> Range<usize> {
        self.world.places_of(&self.own)
    }

    /// Takes over a device from a checkpoint.
    pub fn adopt(&self, user: UserId, device: Box<Device>) {
        self.devices
            .borrow_mut()
            .clients
            .insert(user, ClientActor::restored(device));
    }

    /// Takes over the devices of its users from parts of a checkpoint, which `archive` knows.
    ///
    /// # Errors
    /// As [`take_parts`].
    pub fn adopt_parts(&self, parts: &[SavedPart], archive: &ArchiveReader) -> Result<()> {
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

    /// Makes all users be as if they had never taken part.
    pub(crate) fn begin_anew(&self) {
        self.devices.take();
    }

    /// Makes a user be as if it had never taken part.
    pub(crate) fn forget(&self, user: UserId) {
        self.devices.borrow_mut().clients.remove(&user);
    }

    /// Appends the devices that have been made, and their end.
    ///
    /// # Errors
    /// Those of `flush`, and an error if a device is in training.
    pub fn save_devices(&self, archive: &mut Archive, flush: &mut Flush<'_>) -> Result<()> {
        let clients = &mut self.devices.borrow_mut().clients;
        for user in clients.keys() {
            let Some(actor) = clients.get_mut(&user) else {
                continue;
            };
            if actor.is_away() {
                return Err(unlendable(user));
            }
            if let Some(device) = actor.device() {
                put_device(user, device, archive)?;
                flush(archive)?;
            }
        }
        put_end(archive);
        Ok(())
    }

    /// Writes a part of the checkpoint after `rounds` rounds to `store`, with the devices that have
    /// been made and what `put_rest` appends, and returns its digest.
    ///
    /// # Errors
    /// Those of `store`, and an error if a device is in training.
    pub fn save_part(
        &self,
        rounds: u32,
        store: &mut dyn CheckpointStore,
        put_rest: &mut dyn FnMut(&mut Archive),
    ) -> Result<[u8; blake3::OUT_LEN]> {
        let mut digest = blake3::Hasher::new();
        store.begin(rounds)?;
        let mut archive = Archive::default();
        let mut write = |archive: &mut Archive| {
            let piece = archive.take()?;
            digest.update(&piece);
            store.write(&piece)
        };
        self.save_devices(
            &mut archive,
            &mut |archive| match archive.pending() >= WRITTEN_AT_ONCE {
                true => write(archive),
                false => Ok(()),
            },
        )?;
        put_rest(&mut archive);
        write(&mut archive)?;
        store.commit()?;
        Ok(*digest.finalize().as_bytes())
    }

    /// Returns the device of `user`, if it has been made, for [`take_devices`].
    ///
    /// # Errors
    /// [`Error::Usage`] while the device is in training, and those of [`put_device`].
    pub fn device_of(&self, user: UserId) -> Result<Vec<u8>> {
        let mut archive = Archive::default();
        if let Some(device) = self.devices.borrow_mut().idle_device(user)? {
            put_device(user, device, &mut archive)?;
        }
        put_end(&mut archive);
        archive.take()
    }

    /// Works out all trainings that were submitted, as [`Workers::train`] does, and shows `each` of
    /// them while others are worked out. Their order depends on the threads.
    ///
    /// # Errors
    /// As [`Workers::train`], and the first one of `each`.
    pub async fn train_each(
        &self,
        each: &mut dyn FnMut(&mut WorkedOut) -> Result<()>,
    ) -> Result<()> {
        let (batch, work_out) = self.begin_trainings();
        let _waiting = enter(Stage::Wait);
        let (sender, mut ready) = unbounded_channel();
        let training = self.pool.begin(move || {
            batch
                .into_par_iter()
                .chunks(TAKEN_AT_ONCE)
                .with_max_len(1)
                .for_each(|some| {
                    let worked: Vec<WorkedOut> = some.into_iter().map(&work_out).collect();
                    // If this fails, the simulation was dropped.
                    let _ = sender.send(worked);
                });
        });
        let mut result = Ok(());
        while let Some(worked) = ready.recv().await {
            for mut worked in worked {
                if result.is_ok() {
                    result = each(&mut worked);
                }
                // All are taken back, even after an error.
                self.take_back(worked);
            }
        }
        training.await.and(result)
    }

    /// Takes the submitted trainings that are still wanted, and what works one out.
    fn begin_trainings(
        &self,
    ) -> (
        Vec<Submitted>,
        impl Fn(Submitted) -> WorkedOut + Send + Sync + 'static,
    ) {
        let batch = self.devices.borrow_mut().begin_trainings();
        let (world, interrupted) = (Arc::clone(&self.world), Arc::clone(&self.interrupted));
        let work_out =
            move |(invited, device): Submitted| invited.work_out(device, &world, &interrupted);
        (batch, work_out)
    }

    /// Gives what was worked out back to its device.
    fn take_back(&self, worked: WorkedOut) {
        let clients = &mut self.devices.borrow_mut().clients;
        if let Some(actor) = clients.get_mut(&worked.invited.user) {
            actor.worked_out(worked);
        }
    }

    /// Returns a copy of the upload of a user whose training waits for its end.
    ///
    /// # Errors
    /// The error of a training that failed.
    pub(crate) fn waiting_upload(&self, user: UserId) -> Result<Upload> {
        self.devices.borrow_mut().client(user).waiting_upload()
    }

    /// Scores the evaluated users at these `places` of their list, with what they would be shown, if
    /// `lists` are wanted.
    ///
    /// # Errors
    /// As [`Workers::evaluate`].
    pub async fn score(
        &self,
        places: Range<usize>,
        scoring: Scoring,
        lists: bool,
    ) -> Result<Vec<Scored>> {
        // Where several processes score, nothing becomes known later.
        let wanted = (lists, SimTime::ZERO);
        self.score_with(places, Donated::new(), Arc::new(scoring), wanted)
            .await
    }

    async fn score_with(
        &self,
        places: Range<usize>,
        donated: Donated,
        scoring: Arc<Scoring>,
        (lists, now): (bool, SimTime),
    ) -> Result<Vec<Scored>> {
        let (world, donated) = (&self.world, Arc::new(donated));
        let mut all = Vec::with_capacity(places.len());
        // No more vectors wait to be ranked together than devices are lent.
        for begin in places.clone().step_by(LENT_AT_ONCE) {
            let some = begin..places.end.min(begin + LENT_AT_ONCE);
            let users = world.candidates.evaluated_users()[some].to_vec();
            let (own_world, donated, scoring) = (
                Arc::clone(world),
                Arc::clone(&donated),
                Arc::clone(&scoring),
            );
            let (first, skipped) = (places.start, begin - places.start);
            let begun = self.with_parameters(users, move |offset, device| {
                let _stage = enter(Stage::Evaluate);
                let (place, client) = ((first, skipped + offset), device.client.as_ref());
                let wanted = (lists, now);
                scored(&own_world, place, client, &donated, (&scoring, wanted))
            });
            let (begun, own_world) = (begun.await?, Arc::clone(world));
            let complete = move || {
                let catalogue = own_world.catalogue(own_world.known_at(now));
                evaluation::place_in_catalogue((&own_world, catalogue), begin, begun, lists)
            };
            all.extend(self.pool.run(complete).await??);
        }
        Ok(all)
    }

    /// Scores the evaluated users who are here. Where each receives a download of its own, or scores
    /// with the item table of another, some users are scored at a time.
    async fn score_all(
        &self,
        download: Arc<Download>,
        model: Model,
        wanted: (bool, SimTime),
    ) -> Result<Vec<Scored>> {
        let (world, places) = (&self.world, self.evaluated());
        let is_central = world.placement == Placement::Central;
        let with_tables_of_others = world.scenario.evaluation.item_table == ItemTable::AnotherUsers;
        let own_download = download.makes_each() && !is_central && !with_tables_of_others;
        let at_once = match (with_tables_of_others, own_download) {
            (true, _) => HELD_AT_ONCE,
            (false, true) => self.pool.threads() * MADE_TOGETHER,
            (false, false) => places.len().max(1),
        };
        let shared = Arc::new(match is_central {
            true => Scoring::AtServer(model),
            false => Scoring::Shared(Arc::clone(&download)),
        });
        let mut scored = Vec::with_capacity(places.len());
        for first in places.clone().step_by(at_once) {
            let some = first..places.end.min(first + at_once);
            let donated = match with_tables_of_others {
                true => self.donated_to(some.clone()).await?,
                false => Donated::new(),
            };
            let scoring = if own_download {
                let (download, world, of) =
                    (Arc::clone(&download), Arc::clone(world), some.clone());
                let made = self.pool.run(move || own_downloads(&download, of, &world));
                Arc::new(Scoring::Personal(made.await??))
            } else {
                Arc::clone(&shared)
            };
            scored.extend(self.score_with(some, donated, scoring, wanted).await?);
        }
        Ok(scored)
    }

    /// Returns the item tables that the evaluated users at these `places` score with.
    async fn donated_to(&self, places: Range<usize>) -> Result<Donated> {
        let users = &self.world.candidates.evaluated_users()[places];
        // Several users may have the same donor, whose device can be lent once at a time.
        let donors: BTreeSet<UserId> = users
            .iter()
            .map(|user| donor_of(*user, &self.world))
            .collect();
        let donors: Vec<UserId> = donors.into_iter().collect();
        let tables = self
            .with_parameters(donors.clone(), |_, device| device.client.personal_table())
            .await?;
        let donated = donors.into_iter().zip(tables);
        donated.map(|(donor, table)| Ok((donor, table?))).collect()
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
                let work = |(offset, (user, device)): (usize, (UserId, Option<Box<Device>>))| {
                    let is_made = device.is_some();
                    let mut device = device.unwrap_or_else(|| Device::new(user, &world));
                    let result = work(first + offset, &mut device);
                    (result, user, is_made.then_some(device))
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
    fn client(&mut self, user: UserId) -> &mut ClientActor {
        self.clients.get_or_insert_with(user, ClientActor::default)
    }

    /// Returns the device of a user who is not in training; `None` if it has not been made yet.
    fn idle_device(&mut self, user: UserId) -> Result<Option<&mut Device>> {
        match self.clients.get_mut(&user) {
            Some(actor) if actor.is_away() => Err(Error::OfUser {
                kind: ErrorKind::RefusedInput,
                user: user.into(),
                reason:
                    "it is in training, and what its device keeps cannot be seen now; go on to \
                         the end of the round"
                        .to_owned(),
            }),
            actor => Ok(actor.and_then(ClientActor::device)),
        }
    }

    /// Lends the devices of `users`; `None` for those that have not been made yet.
    fn lend(&mut self, users: &[UserId]) -> Result<Vec<(UserId, Option<Box<Device>>)>> {
        let lend = |user: &UserId| match self.clients.get_mut(user) {
            Some(actor) if actor.is_away() => Err(unlendable(*user)),
            Some(actor) if actor.is_made() => Ok((*user, actor.lend())),
            _ => Ok((*user, None)),
        };
        users.iter().map(lend).collect()
    }

    /// Takes the submitted trainings that are still wanted.
    fn begin_trainings(&mut self) -> Vec<Submitted> {
        let submitted = std::mem::take(&mut self.submitted);
        let clients = &mut self.clients;
        submitted
            .into_iter()
            .filter_map(|user| clients.get_mut(&user)?.begin_training())
            .collect()
    }
}

fn unlendable(user: UserId) -> Error {
    let reason = format!("{user} cannot lend its parameters: they are in training");
    unanswered("client", reason)
}

impl Workers for Threads {
    fn submit(&self, invited: Invited) -> Result<()> {
        let mut devices = self.devices.borrow_mut();
        devices.submitted.push(invited.user);
        devices.client(invited.user).submit(invited)
    }

    fn expect_end_of_training(&self, user: UserId) {
        if let Some(client) = self.devices.borrow().clients.get(&user) {
            client.prefetch();
        }
    }

    fn end_training(&self, user: UserId) -> Result<Upload> {
        self.devices.borrow_mut().client(user).end_training()
    }

    fn break_off(&self, user: UserId) -> Result<()> {
        self.devices.borrow_mut().client(user).break_off()
    }

    fn items_of(&self, user: UserId) -> Result<KeptItems> {
        Ok(self.world.dataset.kept_items(user))
    }

    fn personal_table(&self, user: UserId) -> Result<Option<PersonalTable>> {
        match self.devices.borrow_mut().idle_device(user)? {
            Some(device) => device.client.personal_table(),
            None => self.world.method.client(user).personal_table(),
        }
    }

    fn personal_vector(&self, user: UserId) -> Result<Option<PersonalVector>> {
        match self.devices.borrow_mut().idle_device(user)? {
            Some(device) => device.client.personal_vector(),
            None => self.world.method.client(user).personal_vector(),
        }
    }

    fn train(&self) -> Working<'_, Vec<(UserId, Effort)>> {
        Box::pin(async move {
            let (batch, work_out) = self.begin_trainings();
            // They are taken back together: to wake this thread for each would cost more than some
            // methods' trainings.
            let worked: Vec<WorkedOut> = match batch.len() {
                0 | 1 => batch.into_iter().map(work_out).collect(),
                _ => {
                    let batch = batch.into_par_iter().with_max_len(TAKEN_AT_ONCE);
                    let train = move || batch.map(work_out).collect();
                    self.pool.run(train).await?
                }
            };
            let mut efforts = Vec::new();
            for mut worked in worked {
                efforts.push((worked.invited.user, std::mem::take(&mut worked.effort)));
                self.take_back(worked);
            }
            Ok(efforts)
        })
    }

    fn evaluate(
        &self,
        download: Arc<Download>,
        model: Model,
        wanted: (bool, SimTime),
    ) -> Working<'_, Vec<Scored>> {
        Box::pin(self.score_all(download, model, wanted))
    }

    fn newcomers(&self, download: Arc<Download>, round: Round) -> Working<'_, Vec<ScoredAfter>> {
        let world = Arc::clone(&self.world);
        let scored = move || newcomers::scored(&world, &download, round);
        Box::pin(async move { self.pool.run(scored).await? })
    }

    fn scores(
        &self,
        user: UserId,
        download: Arc<Download>,
        model: Model,
        now: SimTime,
    ) -> Working<'_, Vec<f32>> {
        let world = Arc::clone(&self.world);
        let score = move |_, device: &mut Device| {
            let (known, client) = (world.known_at(now), device.client.as_ref());
            if world.placement == Placement::Central {
                return evaluation::scores(known, &world, user, (client, &model));
            }
            let own = match download.makes_each() {
                true => download.of_each(&[user])?.pop(),
                false => None,
            };
            let received = own.as_ref().unwrap_or(&download).received(user)?;
            evaluation::scores(known, &world, user, (client, &received.model))
        };
        Box::pin(async move {
            let scored = self.with_parameters(vec![user], score).await?;
            scored
                .into_iter()
                .next()
                .unwrap_or_else(|| Err(unlendable(user)))
        })
    }

    fn baselines(&self) -> Working<'_, UserAccuracies> {
        let (world, places) = (Arc::clone(&self.world), self.evaluated());
        Box::pin(async move {
            let accuracies = move || baselines::accuracies(&world, places);
            self.pool.run(accuracies).await?
        })
    }

    fn digests(&self) -> Working<'_, Vec<blake3::Hash>> {
        let digests = self.with_parameters(self.own.clone().map(UserId).collect(), |_, device| {
            digest_of(device)
        });
        Box::pin(async move { digests.await?.into_iter().collect() })
    }

    fn save<'a>(
        &'a self,
        _: u32,
        archive: &'a mut Archive,
        flush: &'a mut Flush<'_>,
    ) -> Working<'a, ()> {
        Box::pin(async {
            self.save_devices(archive, flush)?;
            archive.put(&Vec::<SavedPart>::new());
            Ok(())
        })
    }

    fn restore<'a>(&'a self, archive: &'a mut ArchiveReader) -> Working<'a, ()> {
        Box::pin(async {
            self.adopt_all(&mut |adopt| take_devices(archive, &self.world, adopt))?;
            let parts: Vec<SavedPart> = archive.take()?;
            self.adopt_parts(&parts, archive)
        })
    }

    fn adopt_all(&self, read: &mut dyn FnMut(&mut Keep<'_>) -> Result<()>) -> Result<bool> {
        read(&mut |user, device| {
            self.adopt(user, device);
            Ok(())
        })?;
        Ok(true)
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
