//! The workers of rank 0, which has its own users and asks the other ranks for theirs.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::crew::Crew;
use super::others::Others;
use super::share::Shares;
use super::wire::Question;
use crate::sim::baselines::UserAccuracies;
use crate::sim::by_user::ByUser;
use crate::sim::download::OutgoingDownload;
use crate::sim::evaluation::{Scored, UserAccuracy};
use crate::sim::messages::{Effort, FromClient, ToClient};
use crate::sim::workers::saved::{SavedPart, put_device, take_devices};
use crate::sim::workers::scoring::own_downloads;
use crate::sim::workers::{Pool, Threads, Workers, Working};
use crate::sim::world::World;
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::UserId;
use fedrecsim_data::dataset::KeptItems;
use fedrecsim_methods::method::Placement;
use fedrecsim_model::model::archive::{Archive, ArchiveReader, damaged};
use fedrecsim_model::model::blocks::Model;
use fedrecsim_model::model::state::save_model;

/// The number of bytes from which on devices of a checkpoint are sent to their owner.
const ADOPTED_AT_ONCE: usize = 16 << 20;

/// The number of users whose own downloads are sent to a rank at once, in order to be scored.
const SCORED_AT_ONCE: usize = 1 << 10;

/// The users of all ranks, as rank 0 sees them.
pub struct Ranks {
    world: Arc<World>,
    /// Those who are here.
    own: Threads,
    pool: Pool,
    shares: Shares,
    others: RefCell<Others>,
}

impl Ranks {
    /// Makes the users of `world`, none of whom has taken part. Those of other ranks are with
    /// `crew`.
    pub(crate) fn new(
        world: Arc<World>,
        pool: Pool,
        interrupted: Arc<AtomicBool>,
        crew: Crew,
    ) -> Self {
        let shares = Shares::new(world.dataset.users(), crew.ranks());
        let own = Threads::new(Arc::clone(&world), pool.clone(), interrupted).owning(shares.of(0));
        Self {
            world,
            own,
            pool,
            shares,
            others: RefCell::new(Others::new(crew)),
        }
    }

    /// Returns the places of the users of each other rank in the list of evaluated users, from rank
    /// 1 on.
    fn evaluated(&self) -> Vec<Range<usize>> {
        let place = |first: u32| {
            self.world
                .candidates
                .evaluated_users()
                .partition_point(|user| user.0 < first)
        };
        (1..self.shares.ranks())
            .map(|rank| self.shares.of(rank))
            .map(|own| place(own.start)..place(own.end))
            .collect()
    }

    /// Sends the downloads of single users to the ranks that score them, some to every rank at a
    /// time, and returns what they answer.
    async fn evaluate_personal(
        &self,
        download: &Arc<OutgoingDownload>,
    ) -> Result<Vec<UserAccuracy>> {
        let evaluated = self.evaluated();
        let mut accuracies: Vec<Vec<UserAccuracy>> = evaluated.iter().map(|_| Vec::new()).collect();
        let longest = evaluated
            .iter()
            .map(ExactSizeIterator::len)
            .max()
            .unwrap_or(0);
        for begun in (0..longest).step_by(SCORED_AT_ONCE) {
            let mut asked = Vec::new();
            for (rank, places) in evaluated
                .iter()
                .enumerate()
                .filter(|(_, places)| begun < places.len())
            {
                let (first, end) = (
                    places.start + begun,
                    (places.start + begun + SCORED_AT_ONCE).min(places.end),
                );
                let (download, world) = (Arc::clone(download), Arc::clone(&self.world));
                // They are made on the threads, as they are where all users are in one process.
                let made = self
                    .pool
                    .run(move || personal_downloads(&download, first..end, &world))
                    .await;
                let Ok(Ok(made)) = made else {
                    self.others.borrow_mut().answers(asked)?;
                    return made?.map(|_| Vec::new());
                };
                self.others.borrow_mut().ask(
                    rank,
                    Question::EvaluatePersonal { first, end },
                    &mut |archive, _| {
                        made.iter().for_each(|download| archive.put_bytes(download));
                        Ok(())
                    },
                )?;
                asked.push(rank);
            }
            for (rank, mut answer) in self.others.borrow_mut().answers(asked)? {
                accuracies[rank].append(&mut answer.take()?);
            }
        }
        Ok(accuracies.into_iter().flatten().collect())
    }

    /// Appends the accuracy of the next evaluated users, with what each of them downloads in order
    /// to be scored.
    fn append(
        &self,
        scored: &mut Vec<Scored>,
        next: Vec<UserAccuracy>,
        download: &OutgoingDownload,
    ) -> Result<()> {
        let downloads = self.world.placement != Placement::Central && self.world.trains;
        let users = self.world.candidates.evaluated_users();
        for accuracy in next {
            let user = users
                .get(scored.len())
                .ok_or_else(|| damaged("the accuracy of too many users"))?;
            let download_bytes = if downloads {
                download.parts(*user)?.total()
            } else {
                0
            };
            scored.push(Scored {
                accuracy,
                download_bytes,
            });
        }
        Ok(())
    }
}

/// Returns the downloads of the evaluated users at these places, as they are sent.
fn personal_downloads(
    download: &OutgoingDownload,
    places: Range<usize>,
    world: &World,
) -> Result<Vec<Vec<u8>>> {
    let sent = |own: OutgoingDownload| {
        let mut archive = Archive::default();
        // The download belongs to one user already, so that the user who is named here makes no
        // difference.
        own.send(UserId::default(), &mut archive)?;
        archive.take()
    };
    own_downloads(download, places, world)?
        .into_iter()
        .map(sent)
        .collect()
}

impl Workers for Ranks {
    fn tell(&self, user: UserId, message: ToClient) -> FromClient {
        let mut others = self.others.borrow_mut();
        if let ToClient::Participate { .. } = message {
            others.submitted.push(user);
        }
        let Some(place) = (self.shares.owner(user) as usize).checked_sub(1) else {
            return self.own.tell(user, message);
        };
        match message {
            ToClient::ShowPersonalTable => {
                let shown = others.shown(place, user, &self.world);
                shown.unwrap_or_else(|error| FromClient::PersonalTable(Some(Err(error))))
            }
            message => others.tell(place, user, message),
        }
    }

    fn items_of(&self, user: UserId) -> Result<KeptItems> {
        let Some(place) = (self.shares.owner(user) as usize).checked_sub(1) else {
            return self.own.items_of(user);
        };
        let mut others = self.others.borrow_mut();
        others.ask(place, Question::Items(user), &mut |_, _| Ok(()))?;
        others.answer(place)?.take()
    }

    fn expect_end_of_training(&self, user: UserId) {
        self.own.expect_end_of_training(user);
    }

    fn train(&self) -> Working<'_, Vec<(UserId, Effort)>> {
        Box::pin(async move {
            let (submitted, asked) = {
                let others = &mut *self.others.borrow_mut();
                let asked = others.ask_to_train()?;
                (std::mem::take(&mut others.submitted), asked)
            };
            let own = self.own.train().await;
            let others = &mut *self.others.borrow_mut();
            let mut efforts = ByUser::default();
            own?.into_iter()
                .for_each(|(user, effort)| drop(efforts.insert(user, effort)));
            others.take_trainings(asked, &self.world, &mut efforts)?;
            Ok(submitted
                .into_iter()
                .filter_map(|user| Some((user, efforts.remove(&user)?)))
                .collect())
        })
    }

    fn evaluate(&self, download: Arc<OutgoingDownload>, model: Model) -> Working<'_, Vec<Scored>> {
        Box::pin(async move {
            let is_central = self.world.placement == Placement::Central;
            if download.is_personal() && !is_central {
                let mut scored = self.own.evaluate(Arc::clone(&download), model).await?;
                let accuracies = self.evaluate_personal(&download).await?;
                self.append(&mut scored, accuracies, &download)?;
                return Ok(scored);
            }
            self.others
                .borrow_mut()
                .ask_all(Question::Evaluate, &mut |_, archive, outbox| {
                    if is_central {
                        save_model(archive, &model);
                        return Ok(());
                    }
                    outbox.put_download(&download, UserId::default(), archive)
                })?;
            let own = self
                .own
                .evaluate(Arc::clone(&download), model.clone())
                .await;
            let others = &mut *self.others.borrow_mut();
            let answers = others.answers(0..others.count());
            // Of several users who cannot be scored the first one is named, and those who are here
            // come first.
            let mut scored = own?;
            for (_, mut answer) in answers? {
                self.append(&mut scored, answer.take()?, &download)?;
            }
            Ok(scored)
        })
    }

    fn baselines(&self) -> Working<'_, UserAccuracies> {
        Box::pin(async move {
            self.others
                .borrow_mut()
                .ask_all(Question::Baselines, &mut |_, _, _| Ok(()))?;
            let own = self.own.baselines().await;
            let others = &mut *self.others.borrow_mut();
            let answers = others.answers(0..others.count());
            let mut all = own?;
            for (_, mut answer) in answers? {
                let next: UserAccuracies = answer.take()?;
                all.iter_mut()
                    .zip(next)
                    .for_each(|((_, accuracies), (_, mut next))| accuracies.append(&mut next));
            }
            Ok(all)
        })
    }

    fn digests(&self) -> Working<'_, Vec<blake3::Hash>> {
        Box::pin(async move {
            self.others
                .borrow_mut()
                .ask_all(Question::Digests, &mut |_, _, _| Ok(()))?;
            let own = self.own.digests().await;
            let others = &mut *self.others.borrow_mut();
            let answers = others.answers(0..others.count());
            let mut digests = own?;
            for (_, mut answer) in answers? {
                let bytes = answer.take_bytes()?;
                let (each, rest) = bytes.as_chunks::<{ blake3::OUT_LEN }>();
                if !rest.is_empty() {
                    return Err(damaged("digests of another length"));
                }
                digests.extend(each.iter().map(|digest| blake3::Hash::from_bytes(*digest)));
            }
            Ok(digests)
        })
    }

    fn save(
        &self,
        rounds: u32,
        archive: &mut Archive,
        flush: &mut dyn FnMut(&mut Archive) -> Result<()>,
    ) -> Result<()> {
        let others = &mut *self.others.borrow_mut();
        others.ask_all(Question::Save { rounds }, &mut |_, _, _| Ok(()))?;
        // The other ranks write their parts meanwhile.
        let own = self.own.save_devices(archive, flush);
        let answers = others.answers(0..others.count());
        own?;
        let parts: Result<Vec<SavedPart>> = answers?
            .into_iter()
            .map(|(_, mut answer)| answer.take())
            .collect();
        archive.put(&parts?);
        Ok(())
    }

    fn restore(&self, archive: &mut ArchiveReader) -> Result<()> {
        let others = &mut *self.others.borrow_mut();
        let mut bags: Vec<Archive> = (0..others.count()).map(|_| Archive::default()).collect();
        take_devices(archive, &self.world, &mut |user, mut device| {
            let Some(place) = (self.shares.owner(user) as usize).checked_sub(1) else {
                self.own.adopt(user, device);
                return Ok(());
            };
            put_device(user, &mut device, &mut bags[place])?;
            if bags[place].pending() >= ADOPTED_AT_ONCE {
                others.hand_over(place, &mut bags[place])
            } else {
                Ok(())
            }
        })?;
        for (place, bag) in bags
            .iter_mut()
            .enumerate()
            .filter(|(_, bag)| bag.pending() > 0)
        {
            others.hand_over(place, bag)?;
        }
        let parts: Vec<SavedPart> = archive.take()?;
        if parts.is_empty() {
            return Ok(());
        }
        others.ask_all(Question::AdoptParts, &mut |_, archive, _| {
            archive.put(&parts);
            Ok(())
        })?;
        let own = self.own.adopt_parts(&parts, archive);
        let answers = others.answers(0..others.count());
        own.and(answers.map(drop))
    }
}
