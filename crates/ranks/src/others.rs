//! What rank 0 knows of the users of other ranks, and how it asks these ranks.

use std::collections::BTreeSet;

use super::crew::Crew;
use super::errors;
use super::link::Parcel;
use super::wire::{Note, Outbox, Question, take_trained};
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_core::{Result, UserId};
use fedrecsim_methods::Client;
use fedrecsim_model::{Archive, ArchiveReader};
use fedrecsim_sim::World;
use fedrecsim_sim::workers::{Effort, Invited, StandIns, Upload, put_end, take_devices};

/// The ranks after rank 0. A rank's place is one less than its number.
pub(super) struct Others {
    crew: Crew,
    /// The messages for the users of each rank, to be sent with its next question.
    notes: Vec<Vec<Note>>,
    /// The state of each rank.
    outboxes: Vec<Outbox>,
    /// The places of the ranks with users who have submitted a training since the last batch.
    to_train: BTreeSet<usize>,
    users: StandIns,
}

impl Others {
    /// Makes the state of ranks whose users have not taken part.
    pub(super) fn new(crew: Crew) -> Self {
        let others = crew.ranks() - 1;
        Self {
            crew,
            notes: (0..others).map(|_| Vec::new()).collect(),
            outboxes: (0..others).map(|_| Outbox::default()).collect(),
            to_train: BTreeSet::new(),
            users: StandIns::default(),
        }
    }

    /// Returns the number of the other ranks.
    pub(super) fn count(&self) -> usize {
        self.notes.len()
    }

    /// Asks all other ranks. `more` appends what belongs to the question.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(super) fn ask_all(
        &mut self,
        question: Question,
        more: &mut dyn FnMut(&mut Archive, &mut Outbox) -> Result<()>,
    ) -> Result<()> {
        (0..self.count()).try_for_each(|place| self.ask_with(place, question, more))
    }

    /// Asks a rank, with all that its users were told before.
    ///
    /// # Errors
    /// `Stop::ProcessLost`, and those of what the users were
    /// told.
    pub(super) fn ask(&mut self, place: usize, question: Question) -> Result<()> {
        self.ask_with(place, question, &mut |_, _| Ok(()))
    }

    /// Asks a rank as [`Self::ask`] does. `more` appends what belongs to the question.
    pub(super) fn ask_with(
        &mut self,
        place: usize,
        question: Question,
        more: &mut dyn FnMut(&mut Archive, &mut Outbox) -> Result<()>,
    ) -> Result<()> {
        let _stage = enter(Stage::Wait);
        let (notes, outbox) = (&mut self.notes[place], &mut self.outboxes[place]);
        let mut message = outbox.message(std::mem::take(notes), question)?;
        more(&mut message, outbox)?;
        self.crew.ask(place, Parcel::of(&mut message, true)?)
    }

    /// Waits for the answer of a rank.
    ///
    /// # Errors
    /// `Stop::ProcessLost`, and the error that the rank has sent
    /// in place of an answer.
    pub(super) fn answer(&mut self, place: usize) -> Result<ArchiveReader> {
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
    /// for, since a rank would block forever while sending its answer.
    pub(super) fn answers(
        &mut self,
        places: impl IntoIterator<Item = usize>,
    ) -> Result<Vec<ArchiveReader>> {
        let places = places.into_iter();
        let answers: Vec<_> = places.map(|place| self.answer(place)).collect();
        answers.into_iter().collect()
    }

    /// Has the ranks train that have something to train, and returns their places.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(super) fn ask_to_train(&mut self) -> Result<BTreeSet<usize>> {
        let asked = std::mem::take(&mut self.to_train);
        asked
            .iter()
            .try_for_each(|place| self.ask(*place, Question::Train))?;
        Ok(asked)
    }

    /// Takes in what a rank has trained, part by part, and returns what it takes.
    ///
    /// # Errors
    /// As [`Self::answer`].
    pub(super) fn take_trainings(
        &mut self,
        place: usize,
        world: &World,
    ) -> Result<Vec<(UserId, Effort)>> {
        let mut efforts = Vec::new();
        loop {
            let (mut part, is_last) = self.next_part(place)?;
            while part.take()? {
                let (user, effort, result) = take_trained(&mut part, world, &self.users)?;
                self.users.trained(user, result);
                efforts.push((user, effort));
            }
            if is_last {
                return Ok(efforts);
            }
        }
    }

    /// Submits the training of a user of the rank at `place`, which is told with the next question.
    pub(super) fn submit(&mut self, place: usize, invited: Invited) -> Result<()> {
        self.to_train.insert(place);
        self.notes[place].push(Note::Submit(invited.clone()));
        self.users.submit(invited)
    }

    /// Ends the training of a user of the rank at `place`, which is told with the next question.
    pub(super) fn end_training(&mut self, place: usize, user: UserId) -> Result<Upload> {
        self.notes[place].push(Note::EndTraining(user));
        self.users.end_training(user)
    }

    /// Ends the participation of a user of the rank at `place`, which is told with the next
    /// question.
    pub(super) fn break_off(&mut self, place: usize, user: UserId) {
        self.notes[place].push(Note::BreakOff(user));
        self.users.break_off(user);
    }

    /// Asks for the device of a user of the rank at `place`, and returns what the method keeps there.
    ///
    /// # Errors
    /// As [`Self::ask`] and [`Self::answer`].
    pub(super) fn client_of(
        &mut self,
        place: usize,
        user: UserId,
        world: &World,
    ) -> Result<Box<dyn Client>> {
        self.ask(place, Question::Show(user))?;
        let bytes = self.answer(place)?.take_bytes()?;
        // A device that was not made yet is not shown.
        let mut client = world.method.client(user);
        let mut devices = ArchiveReader::of_bytes(bytes, Vec::new());
        take_devices(&mut devices, world, &mut |_, device| {
            client = device.client;
            Ok(())
        })?;
        Ok(client)
    }

    /// Sends devices to their owner, and waits until it has them.
    pub(super) fn hand_over(&mut self, place: usize, bag: &mut Archive) -> Result<()> {
        // Data that devices share is sent again with the next devices, which are read by
        // themselves.
        let mut devices = std::mem::take(bag);
        put_end(&mut devices);
        let devices = devices.take()?.into();
        self.ask_with(place, Question::Adopt, &mut |archive, _| {
            archive.put_bytes(&devices);
            Ok(())
        })?;
        self.answer(place).map(drop)
    }
}
