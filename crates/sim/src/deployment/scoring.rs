//! What is asked of devices beside their trainings: how well they score, and digests of what they
//! keep. None of it belongs to the run's bytes.

use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
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
use fedrecsim_core::{Error, Result, UserId};
use fedrecsim_model::archive::damaged;
use fedrecsim_model::{Archive, ArchiveReader, Model};

/// The number of users whose own downloads are sent at once, in order to be scored.
pub(super) const SCORED_AT_ONCE: usize = 1 << 10;

/// A question to the devices of a process. What it refers to follows it.
#[derive(Serialize, Deserialize)]
enum Question {
    /// Score your evaluated users with this download.
    Evaluate,
    /// Score the evaluated users at these places of the list, each with its own download.
    EvaluatePersonal(usize, usize),
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
    /// Asks all processes, each with what `put` appends for it, and reads the answers in the order
    /// of users.
    async fn ask_all(
        &self,
        question: Question,
        put: impl Fn(&mut Archive) -> Result<()>,
    ) -> Result<Vec<ArchiveReader>> {
        let mut archive = Archive::default();
        archive.put(&question);
        put(&mut archive)?;
        let question = Bytes::from(archive.take()?);
        // All are asked before the first answer is waited for.
        let places = 0..self.hosts.users().len();
        let asked: Vec<_> = places
            .map(|place| self.hosts.ask(place, question.clone()))
            .collect();
        let mut answers = Vec::new();
        for answer in asked {
            answers.push(opened(answer.await?)?);
        }
        Ok(answers)
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
        for answer in asked {
            opened(answer.await?)?;
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
            let answer = self.hosts.ask(place, archive.take()?.into());
            asked.push((users, answer));
        }
        let mut parts = Vec::new();
        for (users, answer) in asked {
            let part = opened(answer.await?).and_then(|mut answer| answer.take());
            parts.push(part.map_err(|reason| {
                let part = format!("the part of the users {}..{}", users.start, users.end - 1);
                Error::write(part, io::Error::other(reason.to_string()))
            })?);
        }
        Ok(parts)
    }

    /// Asks all processes how well their evaluated users score, in one question each, or in several
    /// where every user has a download of its own.
    async fn accuracies(&self, download: &Arc<Download>) -> Result<Vec<UserAccuracy>> {
        let mut accuracies: Vec<UserAccuracy> = Vec::new();
        if download.makes_each() {
            for (place, users) in self.hosts.users().into_iter().enumerate() {
                let places = self.world.places_of(&users);
                for first in places.clone().step_by(SCORED_AT_ONCE) {
                    let end = places.end.min(first + SCORED_AT_ONCE);
                    let question = self.personal(download, first..end).await?;
                    let answer = self.hosts.ask(place, question).await?;
                    accuracies.append(&mut opened(answer)?.take()?);
                }
            }
        } else {
            let put = |archive: &mut Archive| download.send(UserId::default(), archive);
            for mut answer in self.ask_all(Question::Evaluate, put).await? {
                accuracies.append(&mut answer.take()?);
            }
        }
        Ok(accuracies)
    }

    async fn evaluate_all(&self, download: Arc<Download>) -> Result<Vec<Scored>> {
        let ask = async || self.accuracies(&download).await;
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
    async fn personal(&self, download: &Arc<Download>, places: Range<usize>) -> Result<Bytes> {
        let (download, world) = (Arc::clone(download), Arc::clone(&self.world));
        let make = move || -> Result<Bytes> {
            let mut archive = Archive::default();
            archive.put(&Question::EvaluatePersonal(places.start, places.end));
            for own in own_downloads(&download, places, &world)? {
                // It belongs to one user already, so that it does not matter who is named.
                own.send(UserId::default(), &mut archive)?;
            }
            archive.take().map(Bytes::from)
        };
        self.pool.run(make).await?
    }
}

/// Opens an answer, which begins with whether there is one.
fn opened(answer: Bytes) -> Result<ArchiveReader> {
    let mut archive = ArchiveReader::of_bytes(answer, Vec::new());
    match archive.take()? {
        None => Ok(archive),
        Some((kind, message)) => Err(Error::Told { kind, message }),
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

    fn evaluate(&self, download: Arc<Download>, _: Model) -> Working<'_, Vec<Scored>> {
        Box::pin(self.evaluate_all(download))
    }

    fn baselines(&self) -> Working<'_, UserAccuracies> {
        Box::pin(async move {
            let mut all = UserAccuracies::new();
            for mut answer in self.ask_all(Question::Baselines, |_| Ok(())).await? {
                for (name, mut accuracies) in answer.take::<UserAccuracies>()? {
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
            let ask = async || self.ask_all(Question::Digests, |_| Ok(())).await;
            let mut digests = Vec::new();
            for mut answer in self.of_devices_as_they_are(ask).await? {
                let of_process: Vec<[u8; blake3::OUT_LEN]> = answer.take()?;
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
        answer.put(&None::<(fedrecsim_core::ErrorKind, String)>);
        let answered = match self.answer_into(question, &mut answer).await {
            Ok(()) => answer.take(),
            Err(error) => Err(error),
        };
        answered.map_or_else(|error| refusal(&error), Bytes::from)
    }

    async fn answer_into(&self, question: Bytes, answer: &mut Archive) -> Result<()> {
        let mut archive = ArchiveReader::of_bytes(question, Vec::new());
        match archive.take()? {
            Question::Evaluate => {
                let download = Arc::new(Download::receive(&mut archive, &self.world)?);
                let places = self.threads.evaluated();
                let scored = self
                    .threads
                    .score(places, Scoring::Shared(download))
                    .await?;
                answer.put(&accuracies(scored));
            }
            Question::EvaluatePersonal(first, end) => {
                let own = self.threads.evaluated();
                if !(own.start <= first && first <= end && end <= own.end) {
                    return Err(damaged("users of another process"));
                }
                let downloads = (first..end).map(|_| Download::receive(&mut archive, &self.world));
                let scoring = Scoring::Personal(downloads.collect::<Result<_>>()?);
                answer.put(&accuracies(self.threads.score(first..end, scoring).await?));
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
