//! What is asked of devices beside their trainings: how well they score, and digests of what they
//! keep. None of it belongs to the run's bytes.

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
use crate::workers::{Pool, Scoring, Workers, Working, own_downloads};
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

    async fn evaluate_all(&self, download: Arc<Download>) -> Result<Vec<Scored>> {
        let mut accuracies: Vec<UserAccuracy> = Vec::new();
        if download.makes_each() {
            for (place, users) in self.hosts.users().into_iter().enumerate() {
                let places = self.world.places_of(&users);
                for first in places.clone().step_by(SCORED_AT_ONCE) {
                    let end = places.end.min(first + SCORED_AT_ONCE);
                    let question = self.personal(&download, first..end).await?;
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
            let mut digests = Vec::new();
            for mut answer in self.ask_all(Question::Digests, |_| Ok(())).await? {
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
