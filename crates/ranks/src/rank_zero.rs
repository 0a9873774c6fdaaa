//! The workers of rank 0, which has its own users and asks the other ranks for theirs.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use super::crew::Crew;
use super::others::Others;
use super::share::Shares;
use super::wire::Question;
use bytes::Bytes;
use fedrecsim_core::{Result, SimTime, UserId};
use fedrecsim_data::dataset::KeptItems;
use fedrecsim_methods::{PersonalTable, PersonalVector, Placement};
use fedrecsim_model::archive::damaged;
use fedrecsim_model::state::save_model;
use fedrecsim_model::{Archive, ArchiveReader, Model};
use fedrecsim_sim::World;
use fedrecsim_sim::workers::{
    Download, Effort, Flush, Invited, Keep, MakeWorkers, Pool, SavedPart, Scored, Threads, Upload,
    UserAccuracies, UserAccuracy, Workers, Working, own_downloads, put_device, take_devices,
};

/// The least number of bytes of a checkpoint's devices that are sent to their owner at once.
const ADOPTED_AT_ONCE: usize = 16 << 20;

/// The number of users whose own downloads are sent to a rank at once, in order to be scored.
const SCORED_AT_ONCE: usize = 1 << 10;

/// The users of all ranks, as rank 0 sees them.
struct Ranks {
    world: Arc<World>,
    /// Those who are here.
    own: Threads,
    pool: Pool,
    shares: Shares,
    others: RefCell<Others>,
}

/// Returns the workers of rank 0, whose other ranks are `crew`.
pub(super) fn workers(crew: Crew) -> MakeWorkers {
    Box::new(move |world, pool, interrupted| {
        let shares = Shares::new(world.dataset.users(), crew.ranks());
        let own = Threads::new(Arc::clone(&world), pool.clone(), interrupted);
        Rc::new(Ranks {
            world,
            own: own.owning(shares.of(0)),
            pool,
            shares,
            others: RefCell::new(Others::new(crew)),
        })
    })
}

impl Ranks {
    /// Returns the place of the rank that owns `user`; `None` if the user is here.
    fn place_of(&self, user: UserId) -> Option<usize> {
        (self.shares.owner(user) as usize).checked_sub(1)
    }

    /// Asks all other ranks, and returns their answers together with what is done here meanwhile.
    /// The error of this rank goes first, since its users come first.
    async fn together<T>(
        &self,
        question: Question,
        own: impl Future<Output = Result<T>>,
    ) -> Result<(T, Vec<ArchiveReader>)> {
        self.others
            .borrow_mut()
            .ask_all(question, &mut |_, _| Ok(()))?;
        let own = own.await;
        self.heard(own)
    }

    /// Returns what was done here, with the answers of all other ranks.
    fn heard<T>(&self, own: Result<T>) -> Result<(T, Vec<ArchiveReader>)> {
        let others = &mut *self.others.borrow_mut();
        let answers = others.answers(0..others.count());
        Ok((own?, answers?))
    }

    /// Sends the downloads of single users to the ranks that score them, some to every rank at a
    /// time, and returns what they answer.
    async fn evaluate_personal(
        &self,
        download: &Arc<Download>,
        lists: bool,
    ) -> Result<Vec<UserAccuracy>> {
        let owned = (1..self.shares.ranks()).map(|rank| self.shares.of(rank));
        let evaluated: Vec<Range<usize>> =
            owned.map(|users| self.world.places_of(&users)).collect();
        let mut accuracies: Vec<Vec<UserAccuracy>> = evaluated.iter().map(|_| Vec::new()).collect();
        let longest = evaluated.iter().map(ExactSizeIterator::len).max();
        for begun in (0..longest.unwrap_or(0)).step_by(SCORED_AT_ONCE) {
            let mut asked = Vec::new();
            for (rank, places) in evaluated.iter().enumerate() {
                let first = places.start + begun;
                let end = (first + SCORED_AT_ONCE).min(places.end);
                if first >= end {
                    continue;
                }
                let (download, world) = (Arc::clone(download), Arc::clone(&self.world));
                // They are made on the threads, as they are where all users are in one process.
                let made = self
                    .pool
                    .run(move || personal_downloads(&download, first..end, &world))
                    .await;
                let others = &mut *self.others.borrow_mut();
                let Ok(Ok(made)) = made else {
                    others.answers(asked)?;
                    return made?.map(|_| Vec::new());
                };
                let question = Question::EvaluatePersonal { first, end, lists };
                others.ask_with(rank, question, &mut |archive, _| {
                    made.iter().for_each(|download| archive.put_bytes(download));
                    Ok(())
                })?;
                asked.push(rank);
            }
            let answers = self.others.borrow_mut().answers(asked.iter().copied())?;
            for (rank, mut answer) in asked.into_iter().zip(answers) {
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
        download: &Download,
    ) -> Result<()> {
        let downloads = self.world.placement != Placement::Central && self.world.trains;
        let users = self.world.candidates.evaluated_users();
        for accuracy in next {
            let user = users
                .get(scored.len())
                .ok_or_else(|| damaged("the accuracy of too many users"))?;
            scored.push(Scored {
                accuracy,
                download_bytes: match downloads {
                    true => download.parts(*user)?.total(),
                    false => 0,
                },
            });
        }
        Ok(())
    }

    async fn evaluate_all(
        &self,
        download: Arc<Download>,
        model: Model,
        lists: bool,
    ) -> Result<Vec<Scored>> {
        let is_central = self.world.placement == Placement::Central;
        if download.is_personal() && !is_central {
            let wanted = (lists, SimTime::ZERO);
            let own = self.own.evaluate(Arc::clone(&download), model, wanted);
            let mut scored = own.await?;
            let accuracies = self.evaluate_personal(&download, lists).await?;
            self.append(&mut scored, accuracies, &download)?;
            return Ok(scored);
        }
        let question = Question::Evaluate { lists };
        self.others
            .borrow_mut()
            .ask_all(question, &mut |archive, outbox| {
                if is_central {
                    save_model(archive, &model);
                    return Ok(());
                }
                outbox.put_download(&download, UserId::default(), archive)
            })?;
        let own = self
            .own
            .evaluate(Arc::clone(&download), model.clone(), (lists, SimTime::ZERO));
        let own = own.await;
        let (mut scored, answers) = self.heard(own)?;
        for mut answer in answers {
            self.append(&mut scored, answer.take()?, &download)?;
        }
        Ok(scored)
    }
}

/// Returns the downloads of the evaluated users at these places, as they are sent.
fn personal_downloads(
    download: &Download,
    places: Range<usize>,
    world: &World,
) -> Result<Vec<Bytes>> {
    let sent = |own: Download| {
        let mut archive = Archive::default();
        // The download belongs to one user already, so that the user who is named here makes no
        // difference.
        own.send(UserId::default(), &mut archive)?;
        archive.take().map(Bytes::from)
    };
    let own = own_downloads(download, places, world)?;
    own.into_iter().map(sent).collect()
}

impl Workers for Ranks {
    fn submit(&self, invited: Invited) -> Result<()> {
        match self.place_of(invited.user) {
            Some(place) => self.others.borrow_mut().submit(place, invited),
            None => self.own.submit(invited),
        }
    }

    fn expect_end_of_training(&self, user: UserId) {
        self.own.expect_end_of_training(user);
    }

    fn end_training(&self, user: UserId) -> Result<Upload> {
        match self.place_of(user) {
            Some(place) => self.others.borrow_mut().end_training(place, user),
            None => self.own.end_training(user),
        }
    }

    fn break_off(&self, user: UserId) -> Result<()> {
        let Some(place) = self.place_of(user) else {
            return self.own.break_off(user);
        };
        self.others.borrow_mut().break_off(place, user);
        Ok(())
    }

    fn items_of(&self, user: UserId) -> Result<KeptItems> {
        let Some(place) = self.place_of(user) else {
            return self.own.items_of(user);
        };
        let mut others = self.others.borrow_mut();
        others.ask(place, Question::Items(user))?;
        others.answer(place)?.take()
    }

    fn personal_table(&self, user: UserId) -> Result<Option<PersonalTable>> {
        let Some(place) = self.place_of(user) else {
            return self.own.personal_table(user);
        };
        let mut others = self.others.borrow_mut();
        others.client_of(place, user, &self.world)?.personal_table()
    }

    fn personal_vector(&self, user: UserId) -> Result<Option<PersonalVector>> {
        let Some(place) = self.place_of(user) else {
            return self.own.personal_vector(user);
        };
        let mut others = self.others.borrow_mut();
        others
            .client_of(place, user, &self.world)?
            .personal_vector()
    }

    fn train(&self) -> Working<'_, Vec<(UserId, Effort)>> {
        Box::pin(async move {
            let asked = self.others.borrow_mut().ask_to_train()?;
            let mut efforts = self.own.train().await?;
            let others = &mut *self.others.borrow_mut();
            for place in asked {
                efforts.extend(others.take_trainings(place, &self.world)?);
            }
            Ok(efforts)
        })
    }

    fn evaluate(
        &self,
        download: Arc<Download>,
        model: Model,
        (lists, _): (bool, SimTime),
    ) -> Working<'_, Vec<Scored>> {
        Box::pin(self.evaluate_all(download, model, lists))
    }

    fn baselines(&self) -> Working<'_, UserAccuracies> {
        Box::pin(async move {
            let own = self.own.baselines();
            let (mut all, answers) = self.together(Question::Baselines, own).await?;
            for mut answer in answers {
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
            let own = self.own.digests();
            let (mut digests, answers) = self.together(Question::Digests, own).await?;
            for mut answer in answers {
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

    fn save<'a>(
        &'a self,
        rounds: u32,
        archive: &'a mut Archive,
        flush: &'a mut Flush<'_>,
    ) -> Working<'a, ()> {
        Box::pin(async move {
            let question = Question::Save { rounds };
            self.others
                .borrow_mut()
                .ask_all(question, &mut |_, _| Ok(()))?;
            // The other ranks write their parts meanwhile.
            let own = self.own.save_devices(archive, flush);
            let (_, answers) = self.heard(own)?;
            let parts = answers.into_iter().map(|mut answer| answer.take());
            archive.put(&parts.collect::<Result<Vec<SavedPart>>>()?);
            Ok(())
        })
    }

    fn adopt_all(&self, read: &mut dyn FnMut(&mut Keep<'_>) -> Result<()>) -> Result<bool> {
        let others = &mut *self.others.borrow_mut();
        let mut bags: Vec<Archive> = (0..others.count()).map(|_| Archive::default()).collect();
        read(&mut |user, mut device| {
            let Some(place) = self.place_of(user) else {
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
        for (place, bag) in bags.iter_mut().enumerate() {
            if bag.pending() > 0 {
                others.hand_over(place, bag)?;
            }
        }
        Ok(true)
    }

    fn restore<'a>(&'a self, archive: &'a mut ArchiveReader) -> Working<'a, ()> {
        Box::pin(async {
            self.adopt_all(&mut |adopt| take_devices(archive, &self.world, adopt))?;
            let parts: Vec<SavedPart> = archive.take()?;
            if parts.is_empty() {
                return Ok(());
            }
            let others = &mut *self.others.borrow_mut();
            others.ask_all(Question::AdoptParts, &mut |archive, _| {
                archive.put(&parts);
                Ok(())
            })?;
            let own = self.own.adopt_parts(&parts, archive);
            let answers = others.answers(0..others.count());
            own.and(answers.map(drop))
        })
    }
}
