//! What is asked of devices beside their trainings: how well they score, and digests of what they
//! keep. None of it belongs to the run's bytes.

use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Devices;
use crate::baselines::UserAccuracies;
use crate::download::Download;
use crate::evaluation::{Scored, UserAccuracy};
use crate::invitation::Invited;
use crate::messages::Effort;
use crate::resident::unanswered;
use crate::upload::Upload;
use crate::workers::{Flush, Pool, SavedPart, Scoring, Workers, Working, own_downloads, put_end};
use crate::world::World;
use fedrecsim_core::{Error, ErrorKind, Result, SimTime, UserId};
use fedrecsim_model::archive::damaged;
use fedrecsim_model::{Archive, ArchiveReader, Model};

/// The number of users whose own downloads are sent at once, in order to be scored.
pub(super) const SCORED_AT_ONCE: usize = 1 << 10;

/// A question to the devices of a process. What it refers to follows it.
#[derive(Serialize, Deserialize)]
enum Question {
    /// Score your evaluated users with this download, and say what they would be shown if so.
    Evaluate(bool),
    /// Score the evaluated users at these places of the list, each with its own download, likewise.
    EvaluatePersonal(usize, usize, bool),
    /// Score your evaluated users with the trivial baselines.
    Baselines,
    /// Return the digests of what your users keep.
    Digests,
    /// Be in this run from now on, as you were after the rounds of a checkpoint with these parts, or
    /// as if you had never taken part.
    Begin(u64, Option<(u32, Vec<SavedPart>)>),
    /// Leave your part of the checkpoint after these rounds, as this one of so many processes.
    Save(u32, (u32, u32)),
}

/// The processes that have devices.
pub trait Hosts {
    /// Returns the users of each of them, which together are all users, in ascending order.
    fn users(&self) -> Vec<Range<u32>>;

    /// Asks one of them, by its place in the list.
    ///
    /// # Errors
    /// Those of the devices, and an error if the process does not come back.
    fn ask(&self, place: usize, question: Bytes) -> Working<'_, Bytes>;

    /// Asks one of them as the run begins. A process that comes later without having been in the
    /// run has to be asked `anew`, before anything else.
    ///
    /// # Errors
    /// As [`Self::ask`].
    fn ask_first(&self, place: usize, question: Bytes, _anew: Bytes) -> Working<'_, Bytes> {
        self.ask(place, question)
    }

    /// Returns how many times a process has come whose devices begin anew.
    fn begun_anew(&self) -> u64 {
        0
    }

    /// Takes note that all are scored, as they are now.
    fn scored(&self) {}

    /// Takes note that one of them has answered a question with what is no answer to it, for so many
    /// times and for this reason. It may be asked again then.
    ///
    /// # Errors
    /// An error that ends the run, if it is not to be asked again.
    fn distrust(&self, _place: usize, _times: u32, reason: Error) -> Result<()> {
        Err(reason)
    }

    /// Returns a number that no other run has, which devices are told.
    fn run(&self) -> u64 {
        1
    }
}

/// Returns workers that ask `hosts` for what they compute.
pub fn remote_workers<H: Hosts + 'static>(
    hosts: H,
) -> impl FnOnce(Arc<World>, Pool) -> Rc<dyn Workers> {
    |world, pool| Rc::new(Remote { world, pool, hosts })
}

struct Remote<H> {
    world: Arc<World>,
    pool: Pool,
    hosts: H,
}

impl<H: Hosts> Remote<H> {
    /// Asks all processes, each with what `put` appends for it, and returns what `read` makes of their
    /// answers, in the order of users.
    async fn ask_all<T>(
        &self,
        question: Question,
        put: impl Fn(&mut Archive) -> Result<()>,
        read: impl Fn(&mut ArchiveReader, &Range<u32>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut archive = Archive::default();
        archive.put(&question);
        put(&mut archive)?;
        let question = Bytes::from(archive.take()?);
        let all = self.hosts.users();
        // All are asked before the first answer is waited for.
        let places = 0..all.len();
        let asked: Vec<_> = places
            .map(|place| self.hosts.ask(place, question.clone()))
            .collect();
        let mut answers = Vec::new();
        for (place, (answer, users)) in asked.into_iter().zip(&all).enumerate() {
            let read = |answer: &mut ArchiveReader| read(answer, users);
            let answered = self.answered((place, question.clone()), answer, read);
            answers.push(answered.await?);
        }
        Ok(answers)
    }

    /// Waits for the answer of the process at a place to what it was asked, and returns what `read`
    /// makes of it. A process whose answer is none is asked again.
    async fn answered<T>(
        &self,
        (place, question): (usize, Bytes),
        mut answer: Working<'_, Bytes>,
        read: impl Fn(&mut ArchiveReader) -> Result<T>,
    ) -> Result<T> {
        for times in 1.. {
            let mut archive = ArchiveReader::of_bytes(answer.await?, Vec::new());
            let of_device = match archive.take::<Option<(ErrorKind, String)>>() {
                // The devices say what went wrong with them, and would say it again.
                Ok(Some((kind, message))) => return Err(Error::Told { kind, message }),
                Ok(None) => read(&mut archive),
                Err(error) => Err(error),
            };
            match of_device {
                Err(error) => self.hosts.distrust(place, times, error)?,
                read => return read,
            }
            answer = self.hosts.ask(place, question.clone());
        }
        Err(Error::Interrupted)
    }

    /// Asks until no devices have begun anew meanwhile. So all that is answered is of the devices as
    /// they are now, and a replay has to know no more than which of them began anew before.
    async fn of_devices_as_they_are<T>(&self, ask: impl AsyncFn() -> Result<T>) -> Result<T> {
        loop {
            let begun = self.hosts.begun_anew();
            let answered = ask().await?;
            if self.hosts.begun_anew() == begun {
                return Ok(answered);
            }
        }
    }

    /// Has all devices begin, after the rounds of a checkpoint if there is one.
    async fn begin_all(&self, from: Option<(u32, Vec<SavedPart>)>) -> Result<()> {
        let begin = |from| {
            let mut archive = Archive::default();
            archive.put(&Question::Begin(self.hosts.run(), from));
            archive.take().map(Bytes::from)
        };
        let (question, anew) = (begin(from)?, begin(None)?);
        let places = 0..self.hosts.users().len();
        let asked: Vec<_> = places
            .map(|place| self.hosts.ask_first(place, question.clone(), anew.clone()))
            .collect();
        for (place, answer) in asked.into_iter().enumerate() {
            let nothing = |_: &mut ArchiveReader| Ok(());
            self.answered((place, question.clone()), answer, nothing)
                .await?;
        }
        Ok(())
    }

    /// Has all processes write their parts of a checkpoint.
    async fn parts(&self, rounds: u32) -> Result<Vec<SavedPart>> {
        let all = self.hosts.users();
        let mut asked = Vec::new();
        for (place, users) in all.iter().enumerate() {
            let mut archive = Archive::default();
            archive.put(&Question::Save(
                rounds,
                (place as u32 + 1, all.len() as u32 + 1),
            ));
            let question = Bytes::from(archive.take()?);
            let answer = self.hosts.ask(place, question.clone());
            asked.push((users, (place, question), answer));
        }
        let mut parts = Vec::new();
        for (users, asked, answer) in asked {
            let part = self.answered(asked, answer, ArchiveReader::take).await;
            parts.push(part.map_err(|reason| {
                let part = format!("the part of the users {}..{}", users.start, users.end - 1);
                Error::write(part, io::Error::other(reason.to_string()))
            })?);
        }
        Ok(parts)
    }

    /// Asks all processes how well their evaluated users score, in one question each, or in several
    /// where every user has a download of its own.
    async fn accuracies(&self, download: &Arc<Download>, lists: bool) -> Result<Vec<UserAccuracy>> {
        let mut accuracies: Vec<UserAccuracy> = Vec::new();
        if download.makes_each() {
            for (place, users) in self.hosts.users().into_iter().enumerate() {
                let places = self.world.places_of(&users);
                for first in places.clone().step_by(SCORED_AT_ONCE) {
                    let end = places.end.min(first + SCORED_AT_ONCE);
                    let question = self.personal(download, first..end, lists).await?;
                    let answer = self.hosts.ask(place, question.clone());
                    let read =
                        |answer: &mut ArchiveReader| of_users(answer, end - first, &self.world);
                    let answered = self.answered((place, question), answer, read);
                    accuracies.append(&mut answered.await?);
                }
            }
        } else {
            let put = |archive: &mut Archive| download.send(UserId::default(), archive);
            let read = |answer: &mut ArchiveReader, users: &Range<u32>| {
                of_users(answer, self.world.places_of(users).len(), &self.world)
            };
            for mut of_process in self.ask_all(Question::Evaluate(lists), put, read).await? {
                accuracies.append(&mut of_process);
            }
        }
        Ok(accuracies)
    }

    async fn evaluate_all(&self, download: Arc<Download>, lists: bool) -> Result<Vec<Scored>> {
        let ask = async || self.accuracies(&download, lists).await;
        let accuracies = self.of_devices_as_they_are(ask).await?;
        self.hosts.scored();
        let users = self.world.candidates.evaluated_users();
        if accuracies.len() != users.len() {
            return Err(damaged("the accuracy of other users"));
        }
        let scored = accuracies.into_iter().zip(users);
        let scored = scored.map(|(accuracy, user)| {
            let download_bytes = download.parts(*user)?.total();
            Ok(Scored {
                accuracy,
                download_bytes,
            })
        });
        scored.collect()
    }

    /// Makes the question about users who each score with a download of their own.
    async fn personal(
        &self,
        download: &Arc<Download>,
        places: Range<usize>,
        lists: bool,
    ) -> Result<Bytes> {
        let (download, world) = (Arc::clone(download), Arc::clone(&self.world));
        let make = move || -> Result<Bytes> {
            let mut archive = Archive::default();
            archive.put(&Question::EvaluatePersonal(places.start, places.end, lists));
            for own in own_downloads(&download, places, &world)? {
                // It belongs to one user already, so that it does not matter who is named.
                own.send(UserId::default(), &mut archive)?;
            }
            archive.take().map(Bytes::from)
        };
        self.pool.run(make).await?
    }
}

/// Reads a list of so many values.
fn so_many<T: DeserializeOwned>(answer: &mut ArchiveReader, count: usize) -> Result<Vec<T>> {
    let values: Vec<T> = answer.take()?;
    match values.len() == count {
        true => Ok(values),
        false => Err(damaged(format!("{} values, not {count}", values.len()))),
    }
}

/// Reads what was found for so many users, with no item that is not there.
fn of_users(answer: &mut ArchiveReader, count: usize, world: &World) -> Result<Vec<UserAccuracy>> {
    let accuracies: Vec<UserAccuracy> = so_many(answer, count)?;
    let is_there = |item: u32| (item as usize) < world.dataset.items();
    let mut shown = accuracies.iter().filter_map(UserAccuracy::shown);
    let are_there = shown.all(|shown| shown.items().all(is_there));
    match are_there {
        true => Ok(accuracies),
        false => Err(damaged("an item that is not in the catalogue")),
    }
}

impl<H: Hosts> Workers for Remote<H> {
    fn submit(&self, invited: Invited) -> Result<()> {
        Err(trains_elsewhere(invited.user))
    }

    fn end_training(&self, user: UserId) -> Result<Upload> {
        Err(trains_elsewhere(user))
    }

    fn break_off(&self, user: UserId) -> Result<()> {
        Err(trains_elsewhere(user))
    }

    fn train(&self) -> Working<'_, Vec<(UserId, Effort)>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn begin(&self) -> Working<'_, ()> {
        Box::pin(self.begin_all(None))
    }

    fn save<'a>(
        &'a self,
        rounds: u32,
        archive: &'a mut Archive,
        _: &'a mut Flush<'_>,
    ) -> Working<'a, ()> {
        Box::pin(async move {
            put_end(archive);
            archive.put(&self.parts(rounds).await?);
            archive.put(&rounds);
            Ok(())
        })
    }

    fn restore<'a>(&'a self, archive: &'a mut ArchiveReader) -> Working<'a, ()> {
        Box::pin(async {
            let here: Option<UserId> = archive.take()?;
            if here.is_some() {
                return Err(damaged(
                    "it is of a run whose devices were not in other processes",
                ));
            }
            let (parts, rounds) = (archive.take()?, archive.take()?);
            self.begin_all(Some((rounds, parts))).await
        })
    }

    fn evaluate(
        &self,
        download: Arc<Download>,
        _: Model,
        (lists, _): (bool, SimTime),
    ) -> Working<'_, Vec<Scored>> {
        Box::pin(self.evaluate_all(download, lists))
    }

    fn baselines(&self) -> Working<'_, UserAccuracies> {
        Box::pin(async move {
            let mut all = UserAccuracies::new();
            let read = |answer: &mut ArchiveReader, users: &Range<u32>| {
                let baselines: UserAccuracies = answer.take()?;
                let places = self.world.places_of(users).len();
                match baselines.iter().all(|(_, all)| all.len() == places) {
                    true => Ok(baselines),
                    false => Err(damaged("the accuracy of other users")),
                }
            };
            let asked = self.ask_all(Question::Baselines, |_| Ok(()), read);
            for of_process in asked.await? {
                for (name, mut accuracies) in of_process {
                    match all.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, known)) => known.append(&mut accuracies),
                        None => all.extend([(name, accuracies)]),
                    }
                }
            }
            Ok(all)
        })
    }

    fn digests(&self) -> Working<'_, Vec<blake3::Hash>> {
        Box::pin(async move {
            let read = |answer: &mut ArchiveReader, users: &Range<u32>| {
                so_many::<[u8; blake3::OUT_LEN]>(answer, users.len())
            };
            let ask = async || self.ask_all(Question::Digests, |_| Ok(()), read).await;
            let mut digests = Vec::new();
            for of_process in self.of_devices_as_they_are(ask).await? {
                digests.extend(of_process.into_iter().map(blake3::Hash::from_bytes));
            }
            match digests.len() == self.world.dataset.users() {
                true => Ok(digests),
                false => Err(damaged("digests of other users")),
            }
        })
    }
}

fn trains_elsewhere(user: UserId) -> Error {
    unanswered("workers", format!("{user} trains in another process"))
}

impl Devices {
    /// Answers a question of the server about its users. An error is part of the answer.
    pub async fn answer(&self, question: Bytes) -> Bytes {
        let _scoring = self.trains_or_scores.write().await;
        let mut answer = Archive::default();
        answer.put(&None::<(ErrorKind, String)>);
        let answered = match self.answer_into(question, &mut answer).await {
            Ok(()) => answer.take(),
            Err(error) => Err(error),
        };
        answered.map_or_else(|error| refusal(&error), Bytes::from)
    }

    async fn answer_into(&self, question: Bytes, answer: &mut Archive) -> Result<()> {
        let mut archive = ArchiveReader::of_bytes(question, Vec::new());
        match archive.take()? {
            Question::Evaluate(lists) => {
                let download = Arc::new(Download::receive(&mut archive, &self.world)?);
                let places = self.threads.evaluated();
                let scored = self
                    .threads
                    .score(places, Scoring::Shared(download), lists)
                    .await?;
                answer.put(&accuracies(scored));
            }
            Question::EvaluatePersonal(first, end, lists) => {
                let own = self.threads.evaluated();
                if !(own.start <= first && first <= end && end <= own.end) {
                    return Err(damaged("users of another process"));
                }
                let downloads = (first..end).map(|_| Download::receive(&mut archive, &self.world));
                let scoring = Scoring::Personal(downloads.collect::<Result<_>>()?);
                let scored = self.threads.score(first..end, scoring, lists);
                answer.put(&accuracies(scored.await?));
            }
            Question::Baselines => answer.put(&self.threads.baselines().await?),
            Question::Begin(run, from) => self.begin(run, from).inspect_err(|error| {
                let (kind, message) = (error.kind(), error.to_string());
                self.unfit.replace(Some(Error::Told { kind, message }));
            })?,
            Question::Save(rounds, who) => answer.put(&self.save(rounds, who)?),
            Question::Digests => {
                let digests = self.threads.digests().await?;
                let digests = digests.iter().map(|digest| *digest.as_bytes());
                answer.put(&digests.collect::<Vec<_>>());
            }
        }
        Ok(())
    }
}

fn accuracies(scored: Vec<Scored>) -> Vec<UserAccuracy> {
    scored.into_iter().map(|scored| scored.accuracy).collect()
}

fn refusal(error: &Error) -> Bytes {
    let mut answer = Archive::default();
    answer.put(&Some((error.kind(), error.to_string())));
    answer.take().map(Bytes::from).unwrap_or_default()
}
