//! The other ranks, which answer what rank 0 asks of their users.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::errors;
use super::link::{Link, Parcel};
use super::share::Shares;
use super::wire::{Inbox, Note, Question, put_trained};
use fedrecsim_core::{Error, Result, memory};
use fedrecsim_methods::Placement;
use fedrecsim_model::state::restore_model;
use fedrecsim_model::{Archive, ArchiveReader};
use fedrecsim_sim::workers::{
    Download, Pool, SavedPart, Scoring, Threads, UserAccuracy, WorkedOut, Workers, take_devices,
};
use fedrecsim_sim::{CheckpointStore, Stop, World};

/// The least number of bytes of trained devices that are sent while training goes on. Sending takes
/// some looks at what has come, which are a millisecond apart, so that shorter parcels would not
/// all be across by the end of the trainings.
const SENT_AT_ONCE: usize = 8 << 20;

/// A process of a run other than that with the server.
pub struct Rank {
    /// The number of its worker threads, at least 1.
    pub threads: usize,
    /// Once this is true, it begins no more trainings.
    pub interrupted: Arc<AtomicBool>,
    /// Its number, from 1.
    pub rank: u32,
    /// The number of all processes.
    pub ranks: u32,
    /// The way to rank 0.
    pub link: Box<dyn Link>,
    /// The place for its parts of checkpoints.
    pub store: Box<dyn CheckpointStore>,
    /// The checkpoint that the run goes on from, if it does; only its parts are read here.
    pub resumed: Option<ArchiveReader>,
}

/// Answers what rank 0 asks of the users of this rank, until it is told to end.
///
/// # Errors
/// `Stop::ProcessLost` if rank 0 is not there any more, and those of starting the threads. An error
/// in what was asked is sent to rank 0, which ends the run.
pub fn serve(world: Arc<World>, rank: Rank) -> Result<()> {
    let Rank {
        threads,
        interrupted,
        rank,
        ranks,
        mut link,
        store,
        resumed,
    } = rank;
    let started = memory::contained(|| {
        let refuse = |reason: std::io::Error| {
            Error::Usage(format!("cannot start the runtime of rank {rank}: {reason}"))
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .map_err(refuse)?;
        let own = Shares::new(world.dataset.users(), ranks as usize).of(rank);
        let pool = Pool::start(threads)?;
        let threads = Threads::new(Arc::clone(&world), pool, interrupted).owning(own.clone());
        let saved = SavedPart {
            rank,
            ranks,
            users: (own.start, own.end),
            digest: [0; blake3::OUT_LEN],
        };
        Ok((
            runtime,
            Serving {
                world,
                threads,
                inbox: Inbox::default(),
                store,
                resumed,
                saved,
            },
        ))
    });
    let (runtime, mut serving) = match started {
        Ok(started) => started,
        Err(error) => {
            // Rank 0 learns of it from the answer to its first question, and ends the run.
            link.receive()?;
            link.send(refusal(&error)?)?;
            return link.receive().map(drop);
        }
    };
    loop {
        let message = link.receive()?;
        let answer = memory::contained(|| {
            // The runtime is this thread's alone, and nothing else is to be done on it meanwhile.
            let answer = runtime.block_on(serving.answer(message, link.as_mut()))?;
            answer
                .map(|mut answer| Parcel::of(&mut answer, true))
                .transpose()
        });
        match answer {
            Ok(None) => return Ok(()),
            Ok(Some(answer)) => link.send(answer)?,
            Err(error) if matches!(error.ended_by(), Some(Stop::ProcessLost { .. })) => {
                return Err(error);
            }
            Err(error) => {
                let dataset = &serving.world.dataset;
                link.send(refusal(&error.naming(|user| dataset.who(user)))?)?;
            }
        }
    }
}

/// Returns the answer that something cannot be done.
fn refusal(error: &Error) -> Result<Parcel> {
    let mut answer = Archive::default();
    answer.put(&false);
    errors::put(error, &mut answer);
    Parcel::of(&mut answer, true)
}

struct Serving {
    world: Arc<World>,
    threads: Threads,
    inbox: Inbox,
    store: Box<dyn CheckpointStore>,
    resumed: Option<ArchiveReader>,
    /// The report to rank 0 on a part of a checkpoint.
    saved: SavedPart,
}

impl Serving {
    /// Does what a message asks for, and returns the answer; `None` if it asks for the end. Of a
    /// long answer, all parts but the last one are sent.
    async fn answer(&mut self, message: Parcel, link: &mut dyn Link) -> Result<Option<Archive>> {
        let threads = &self.threads;
        let (question, mut archive) =
            self.inbox
                .open(message, &self.world, &mut |note| match note {
                    Note::Submit(invited) => threads.submit(invited),
                    Note::EndTraining(user) => {
                        // Rank 0 has the upload, or the error, since the training was worked out.
                        let _ = threads.end_training(user);
                        Ok(())
                    }
                    Note::BreakOff(user) => threads.break_off(user),
                })?;
        let mut answer = Archive::with_attachments();
        answer.put(&true);
        match question {
            Question::Stop => return Ok(None),
            Question::Train => self.train(&mut answer, link).await?,
            Question::Evaluate { lists } => {
                let scoring = match self.world.placement {
                    Placement::Central => Scoring::AtServer(restore_model(
                        &mut archive,
                        self.world.method.initial().layout(),
                    )?),
                    _ => Scoring::Shared(self.inbox.take_download(&mut archive, &self.world)?),
                };
                let places = self.threads.evaluated();
                answer.put(&self.score(places, scoring, lists).await?);
            }
            Question::EvaluatePersonal { first, end, lists } => {
                let downloads = (first..end).map(|_| {
                    let bytes = archive.take_bytes()?;
                    Download::receive(&mut ArchiveReader::of_bytes(bytes, Vec::new()), &self.world)
                });
                let downloads = downloads.collect::<Result<_>>()?;
                let scoring = Scoring::Personal(downloads);
                answer.put(&self.score(first..end, scoring, lists).await?);
            }
            Question::Baselines => answer.put(&self.threads.baselines().await?),
            Question::Digests => {
                let digests = self.threads.digests().await?;
                answer.put_bytes(
                    &digests
                        .iter()
                        .flat_map(|digest| *digest.as_bytes())
                        .collect(),
                );
            }
            Question::Save { rounds } => {
                let part = self.save(rounds)?;
                answer.put(&part);
            }
            Question::Show(user) => {
                answer.put_bytes(&self.threads.device_of(user)?.into());
            }
            Question::Items(user) => answer.put(&self.threads.items_of(user)?),
            Question::Adopt => {
                let mut devices = ArchiveReader::of_bytes(archive.take_bytes()?, Vec::new());
                take_devices(&mut devices, &self.world, &mut |user, device| {
                    self.threads.adopt(user, device);
                    Ok(())
                })?;
            }
            Question::AdoptParts => {
                let parts: Vec<SavedPart> = archive.take()?;
                let absent =
                    || Error::Unrestorable("this rank has not opened the checkpoint".to_owned());
                self.threads
                    .adopt_parts(&parts, self.resumed.as_ref().ok_or_else(absent)?)?;
            }
        }
        Ok(Some(answer))
    }

    /// Works out the trainings, and sends what was trained while the rest is trained.
    async fn train(&self, answer: &mut Archive, link: &mut dyn Link) -> Result<()> {
        // Rank 0 puts what was trained in order, and it does not matter which thread has ended
        // first.
        let mut send = |worked: &mut WorkedOut| {
            if answer.pending() >= SENT_AT_ONCE {
                answer.put(&false);
                link.send(Parcel::of(answer, false)?)?;
                answer.put(&true);
            }
            answer.put(&true);
            put_trained(worked, answer);
            Ok(())
        };
        self.threads.train_each(&mut send).await?;
        answer.put(&false);
        Ok(())
    }

    async fn score(
        &self,
        places: std::ops::Range<usize>,
        scoring: Scoring,
        lists: bool,
    ) -> Result<Vec<UserAccuracy>> {
        let scored = self.threads.score(places, scoring, lists).await?;
        Ok(scored.into_iter().map(|scored| scored.accuracy).collect())
    }

    /// Writes a part of a checkpoint, and returns the report on it to rank 0.
    fn save(&mut self, rounds: u32) -> Result<SavedPart> {
        let store = self.store.as_mut();
        let digest = self.threads.save_part(rounds, store, &mut |_| {})?;
        Ok(SavedPart {
            digest,
            ..self.saved.clone()
        })
    }
}
