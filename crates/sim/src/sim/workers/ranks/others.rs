//! What rank 0 knows of the users of other ranks, and how it asks these ranks.

use std::sync::Arc;

use super::crew::Crew;
use super::errors;
use super::link::Parcel;
use super::wire::{Note, Outbox, Question, TrainedElsewhere, take_trained};
use crate::sim::by_user::ByUser;
use crate::sim::download::OutgoingDownload;
use crate::sim::messages::{Effort, FromClient, ToClient};
use crate::sim::upload::UploadFrame;
use crate::sim::workers::saved::{put_end, take_devices};
use crate::sim::world::World;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::ids::UserId;
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_model::model::archive::{Archive, ArchiveReader};

/// What is known here of the users of other ranks.
pub(super) struct Others {
    crew: Crew,
    /// What is to be told to each rank with the next question, from rank 1 on.
    notes: Vec<Vec<Note>>,
    /// The ranks with users who have submitted a training since the rank was last asked to train.
    has_trainings: Vec<bool>,
    /// What each rank has.
    outboxes: Vec<Outbox>,
    /// What users of other ranks are doing, between their invitation and the end of their training.
    parts: ByUser<Part>,
    /// The users of all ranks who have submitted a training since the last batch, in that order.
    pub submitted: Vec<UserId>,
}

/// What a user of another rank does.
pub(super) enum Part {
    /// It has submitted its training.
    Submitted(Arc<OutgoingDownload>),
    /// Its training has been worked out.
    Trained(Result<Box<(UploadFrame, f64)>, Box<Error>>),
}

impl Others {
    /// Makes what is known of ranks whose users have not taken part.
    pub(crate) fn new(crew: Crew) -> Self {
        let others = crew.others();
        Self {
            crew,
            notes: (0..others).map(|_| Vec::new()).collect(),
            has_trainings: vec![false; others],
            outboxes: (0..others).map(|_| Outbox::default()).collect(),
            parts: ByUser::default(),
            submitted: Vec::new(),
        }
    }

    /// Returns the number of the other ranks.
    pub(crate) fn count(&self) -> usize {
        self.notes.len()
    }

    /// Asks all other ranks.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) fn ask_all(
        &mut self,
        question: Question,
        more: &mut dyn FnMut(usize, &mut Archive, &mut Outbox) -> Result<()>,
    ) -> Result<()> {
        (0..self.count()).try_for_each(|place| {
            self.ask(place, question, &mut |archive, outbox| {
                more(place, archive, outbox)
            })
        })
    }

    /// Asks a rank, with all that its users were told before. `more` appends what belongs to the
    /// question.
    pub(crate) fn ask(
        &mut self,
        place: usize,
        question: Question,
        more: &mut dyn FnMut(&mut Archive, &mut Outbox) -> Result<()>,
    ) -> Result<()> {
        let _stage = enter(Stage::Wait);
        let (notes, outbox) = (
            std::mem::take(&mut self.notes[place]),
            &mut self.outboxes[place],
        );
        let mut message = outbox.message(notes, question)?;
        more(&mut message, outbox)?;
        self.crew.ask(place, Parcel::of(&mut message, true)?)
    }

    /// Waits for the answer of a rank.
    ///
    /// # Errors
    /// [`Error::RankLost`], and the error that the rank has sent in place of an answer.
    pub(crate) fn answer(&mut self, place: usize) -> Result<ArchiveReader> {
        Ok(self.next_part(place)?.0)
    }

    /// Waits for the next part of the answer of a rank, and says whether it is the last one.
    fn next_part(&mut self, place: usize) -> Result<(ArchiveReader, bool)> {
        let _stage = enter(Stage::Wait);
        let part = self.crew.answer(place)?;
        let is_last = part.is_last;
        let mut archive = part.open();
        let is_answered: bool = archive.take()?;
        if is_answered {
            Ok((archive, is_last))
        } else {
            Err(errors::take(&mut archive))
        }
    }

    /// Returns the answers of these ranks, or the first error among them. All answers are waited
    /// for, as otherwise a rank would wait for ever to be rid of its answer.
    pub(crate) fn answers(
        &mut self,
        places: impl IntoIterator<Item = usize>,
    ) -> Result<Vec<(usize, ArchiveReader)>> {
        let answers: Vec<_> = places
            .into_iter()
            .map(|place| (place, self.answer(place)))
            .collect();
        answers
            .into_iter()
            .map(|(place, answer)| answer.map(|answer| (place, answer)))
            .collect()
    }

    /// Has the ranks train that have something to train, and returns them.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) fn ask_to_train(&mut self) -> Result<Vec<usize>> {
        let asked: Vec<usize> = (0..self.count())
            .filter(|place| self.has_trainings[*place])
            .collect();
        for &place in &asked {
            self.has_trainings[place] = false;
            self.ask(place, Question::Train, &mut |_, _| Ok(()))?;
        }
        Ok(asked)
    }

    /// Takes in what these ranks have trained, part by part.
    ///
    /// # Errors
    /// As [`Self::answer`], of the first of the ranks.
    pub(crate) fn take_trainings(
        &mut self,
        places: Vec<usize>,
        world: &World,
        efforts: &mut ByUser<Effort>,
    ) -> Result<()> {
        for place in places {
            loop {
                let (mut part, is_last) = self.next_part(place)?;
                self.take_trained(&mut part, world, efforts)?;
                if is_last {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Takes in a part of what a rank has trained.
    fn take_trained(
        &mut self,
        archive: &mut ArchiveReader,
        world: &World,
        efforts: &mut ByUser<Effort>,
    ) -> Result<()> {
        while archive.take()? {
            let parts = &self.parts;
            let download_of = |user: UserId| match parts.get(&user) {
                Some(Part::Submitted(download)) => Some(Arc::clone(download)),
                Some(Part::Trained(_)) | None => None,
            };
            let TrainedElsewhere {
                user,
                effort,
                upload,
            } = take_trained(archive, world, download_of)?;
            self.parts
                .insert(user, Part::Trained(upload.map(Box::new).map_err(Box::new)));
            efforts.insert(user, effort);
        }
        Ok(())
    }

    /// Delivers a message to a user of the rank at `place`. What it changes there is told with the
    /// next question.
    pub(crate) fn tell(&mut self, place: usize, user: UserId, message: ToClient) -> FromClient {
        match message {
            ToClient::Participate {
                step,
                invitation_id,
                download,
                reply_source,
                keep,
            } => {
                if self.parts.contains_key(&user) {
                    return FromClient::OutOfTurn;
                }
                self.parts
                    .insert(user, Part::Submitted(Arc::clone(&download)));
                self.has_trainings[place] = true;
                self.notes[place].push(Note::Participate {
                    user,
                    step,
                    invitation_id,
                    download,
                    reply_source,
                    keep,
                });
                FromClient::Done
            }
            ToClient::Received(frame, format) => match self.parts.get(&user) {
                Some(_) => FromClient::Sound(format.reads(&frame)),
                None => FromClient::OutOfTurn,
            },
            ToClient::TrainingEnded => {
                let Some(Part::Trained(trained)) = self.parts.remove(&user) else {
                    return FromClient::OutOfTurn;
                };
                self.notes[place].push(Note::Ended(user));
                match trained {
                    Ok(upload) => FromClient::Upload {
                        frame: upload.0,
                        loss: upload.1,
                    },
                    Err(error) => FromClient::Failed(*error),
                }
            }
            ToClient::CutOff => {
                self.parts.remove(&user);
                self.notes[place].push(Note::CutOff(user));
                FromClient::Done
            }
            // Its rank is asked ([`Self::shown`]).
            ToClient::ShowPersonalTable => FromClient::OutOfTurn,
        }
    }

    /// Asks for the device of a user of the rank at `place`, and returns its item table as its
    /// actor would.
    ///
    /// # Errors
    /// As [`Self::ask`] and [`Self::answer`].
    pub(crate) fn shown(
        &mut self,
        place: usize,
        user: UserId,
        world: &World,
    ) -> Result<FromClient> {
        self.ask(place, Question::Show(user), &mut |_, _| Ok(()))?;
        let mut answer = self.answer(place)?;
        let (is_here, bytes): (bool, _) = (answer.take()?, answer.take_bytes()?);
        if !is_here {
            return Ok(FromClient::OutOfTurn);
        }
        let mut table = None;
        take_devices(
            &mut ArchiveReader::of_bytes(bytes),
            world,
            &mut |_, device| {
                table = Some(device.client.personal_table());
                Ok(())
            },
        )?;
        Ok(FromClient::PersonalTable(table))
    }

    /// Sends devices to their owner, and waits until it has them.
    pub(crate) fn hand_over(&mut self, place: usize, bag: &mut Archive) -> Result<()> {
        // What is shared among devices is sent again with the next ones, which are read by
        // themselves.
        let mut devices = std::mem::take(bag);
        put_end(&mut devices);
        let devices = devices.take()?;
        self.ask(place, Question::Adopt, &mut |archive, _| {
            archive.put_bytes(&devices);
            Ok(())
        })?;
        self.answer(place).map(drop)
    }
}
