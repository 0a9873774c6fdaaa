//! The messages between rank 0 and the other ranks, as archives.
//!
//! Rank 0 asks and the others answer, one question at a time on each way. Before its question, a
//! message brings what the users were told since the last one, with the downloads and third parties
//! that are new to the receiver.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use serde::{Deserialize, Serialize};

use super::errors;
use super::link::Parcel;
use fedrecsim_core::work::Work;
use fedrecsim_core::{Error, InvitationId, Result, SimTime, Step, UserId};
use fedrecsim_methods::ThirdParty;
use fedrecsim_model::archive::damaged;
use fedrecsim_model::{Archive, ArchiveReader, StateVisitor};
use fedrecsim_sim::World;
use fedrecsim_sim::workers::{
    Consultation, Download, Effort, Invitation, Invited, ReplySource, StandIns, Upload, WorkedOut,
};

/// A question of rank 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Question {
    /// Work out the trainings that were submitted.
    Train,
    /// Score the evaluated users with this download or model, which follows.
    Evaluate {
        /// Whether what they would be shown is wanted.
        lists: bool,
    },
    /// Score the evaluated users at these places of their list, each with its own download, which
    /// follow.
    EvaluatePersonal {
        /// The first place.
        first: usize,
        /// The place after the last one.
        end: usize,
        /// Whether what they would be shown is wanted.
        lists: bool,
    },
    /// Score the evaluated users with the trivial baselines.
    Baselines,
    /// Return the digests of the private parameters.
    Digests,
    /// Write a part of the checkpoint after this many rounds.
    Save {
        /// The number of rounds that are over.
        rounds: u32,
    },
    /// Return the device of this user, for a study of the method.
    Show(UserId),
    /// Return the items of this user.
    Items(UserId),
    /// Take over the devices that follow.
    Adopt,
    /// Take over the devices in the parts of the checkpoint that follow.
    AdoptParts,
    /// End.
    Stop,
}

/// The messages to a rank's users before a question.
pub(crate) enum Note {
    /// A user is invited, and submits its training.
    Submit(Invited),
    /// The training of a user has come to its virtual end.
    EndTraining(UserId),
    /// The participation of a user ends early.
    BreakOff(UserId),
}

/// A note as it is written. A download follows an invitation, and then the source of replies.
#[derive(Serialize, Deserialize)]
enum SentNote {
    Submit(UserId, Step, InvitationId, bool),
    EndTraining(UserId),
    BreakOff(UserId),
}

/// The source of replies as it is written.
#[derive(Serialize, Deserialize)]
enum SentSource {
    /// There is none.
    None,
    /// A consultation follows.
    Saved,
    /// The third party of this number, which follows if it is new.
    ThirdParty(u32, bool),
}

/// The numbers of what the other side has, by the place in memory.
struct Numbers<T: ?Sized> {
    numbers: BTreeMap<usize, (Weak<T>, u32)>,
    next: u32,
}

impl<T: ?Sized> Default for Numbers<T> {
    fn default() -> Self {
        Self {
            numbers: BTreeMap::new(),
            next: 0,
        }
    }
}

impl<T: ?Sized> Numbers<T> {
    /// Returns the number of `thing`, and whether it is new to the other side.
    fn of(&mut self, thing: &Arc<T>) -> (u32, bool) {
        let place = Arc::as_ptr(thing).cast::<()>() as usize;
        match self.numbers.get(&place) {
            // As long as something refers to a place in memory, nothing else has it.
            Some((_, number)) => (*number, false),
            None => {
                let number = self.next;
                self.next += 1;
                self.numbers.insert(place, (Arc::downgrade(thing), number));
                (number, true)
            }
        }
    }

    /// Returns the numbers of what nobody here holds any more, and forgets them.
    fn forget(&mut self) -> Vec<u32> {
        let gone = |entry: &(Weak<T>, u32)| (entry.0.strong_count() == 0).then_some(entry.1);
        let numbers = self.numbers.values().filter_map(gone).collect();
        self.numbers.retain(|_, entry| gone(entry).is_none());
        numbers
    }
}

/// What rank 0 knows that another rank has.
#[derive(Default)]
pub(crate) struct Outbox {
    downloads: Numbers<Download>,
    third_parties: Numbers<dyn ThirdParty>,
}

impl Outbox {
    /// Begins a message with `notes` and a question.
    ///
    /// # Errors
    /// Those of downloads and of third parties.
    pub(crate) fn message(&mut self, notes: Vec<Note>, question: Question) -> Result<Archive> {
        let mut archive = Archive::with_attachments();
        archive.put(&(self.downloads.forget(), self.third_parties.forget()));
        archive.put(&notes.len());
        for note in notes {
            match note {
                Note::Submit(invited) => self.put_invited(invited, &mut archive)?,
                Note::EndTraining(user) => archive.put(&SentNote::EndTraining(user)),
                Note::BreakOff(user) => archive.put(&SentNote::BreakOff(user)),
            }
        }
        archive.put(&question);
        Ok(archive)
    }

    fn put_invited(&mut self, invited: Invited, archive: &mut Archive) -> Result<()> {
        let Invitation {
            step, id, download, ..
        } = &invited.invitation;
        let user = invited.user;
        archive.put(&SentNote::Submit(user, *step, *id, invited.keep));
        self.put_download(download, user, archive)?;
        match invited.reply_source {
            None => archive.put(&SentSource::None),
            Some(ReplySource::Saved(consultation)) => {
                archive.put(&SentSource::Saved);
                consultation.save(archive);
            }
            Some(ReplySource::Peers(_)) => {
                let reason = "a rank's users ask the third party of their own process".to_owned();
                return Err(Error::Usage(reason));
            }
            Some(ReplySource::ThirdParty(third_party)) => {
                let (number, is_new) = self.third_parties.of(&third_party);
                archive.put(&SentSource::ThirdParty(number, is_new));
                if is_new {
                    let mut state = StateVisitor::Save(archive);
                    third_party.snapshot().visit_state(&mut state)?;
                }
            }
        }
        Ok(())
    }

    /// Appends the number of a download for all, and the download itself if it is new; that of a
    /// single user follows without a number.
    ///
    /// # Errors
    /// Those of the download.
    pub(crate) fn put_download(
        &mut self,
        download: &Arc<Download>,
        user: UserId,
        archive: &mut Archive,
    ) -> Result<()> {
        let known = (!download.is_personal()).then(|| self.downloads.of(download));
        archive.put(&known);
        if known.is_none_or(|(_, is_new)| is_new) {
            download.send(user, archive)
        } else {
            Ok(())
        }
    }
}

/// The objects that a rank has been sent, by number.
#[derive(Default)]
pub(crate) struct Inbox {
    downloads: BTreeMap<u32, Arc<Download>>,
    third_parties: BTreeMap<u32, Arc<dyn ThirdParty>>,
}

impl Inbox {
    /// Reads a message up to its question. Every note is given to `tell`.
    ///
    /// # Errors
    /// `Error::Unrestorable` for a message that cannot be read,
    /// and those of `tell`.
    pub(crate) fn open(
        &mut self,
        message: Parcel,
        world: &World,
        tell: &mut dyn FnMut(Note) -> Result<()>,
    ) -> Result<(Question, ArchiveReader)> {
        let mut archive = message.open();
        let (downloads, third_parties): (Vec<u32>, Vec<u32>) = archive.take()?;
        self.downloads
            .retain(|number, _| !downloads.contains(number));
        self.third_parties
            .retain(|number, _| !third_parties.contains(number));
        let notes: usize = archive.take()?;
        for _ in 0..notes {
            let note = match archive.take()? {
                SentNote::Submit(user, step, id, keep) => Note::Submit(Invited {
                    user,
                    invitation: Invitation {
                        step,
                        id,
                        download: self.take_download(&mut archive, world)?,
                        sent: SimTime::ZERO,
                    },
                    reply_source: self.take_source(&mut archive, world)?,
                    keep,
                }),
                SentNote::EndTraining(user) => Note::EndTraining(user),
                SentNote::BreakOff(user) => Note::BreakOff(user),
            };
            tell(note)?;
        }
        let question = archive.take()?;
        Ok((question, archive))
    }

    fn take_source(
        &mut self,
        archive: &mut ArchiveReader,
        world: &World,
    ) -> Result<Option<ReplySource>> {
        let (number, is_new) = match archive.take()? {
            SentSource::None => return Ok(None),
            SentSource::Saved => {
                let consultation = Arc::new(Consultation::restore(archive)?);
                return Ok(Some(ReplySource::Saved(consultation)));
            }
            SentSource::ThirdParty(number, is_new) => (number, is_new),
        };
        if is_new {
            let made = world.method.third_party();
            let mut made = made.ok_or_else(|| damaged("a third party of another method"))?;
            made.visit_state(&mut StateVisitor::Restore(archive))?;
            self.third_parties.insert(number, made.into());
        }
        let known = self.third_parties.get(&number);
        let known = known.ok_or_else(|| damaged("a third party that was not sent"))?;
        Ok(Some(ReplySource::ThirdParty(Arc::clone(known))))
    }

    /// Reads what [`Outbox::put_download`] has appended.
    ///
    /// # Errors
    /// `Error::Unrestorable` for something else.
    pub(crate) fn take_download(
        &mut self,
        archive: &mut ArchiveReader,
        world: &World,
    ) -> Result<Arc<Download>> {
        let known: Option<(u32, bool)> = archive.take()?;
        let Some((number, is_new)) = known else {
            return Download::receive(archive, world).map(Arc::new);
        };
        if is_new {
            self.downloads
                .insert(number, Arc::new(Download::receive(archive, world)?));
        }
        self.downloads
            .get(&number)
            .cloned()
            .ok_or_else(|| damaged("a download that was not sent"))
    }
}

/// Appends the result of a training. Its upload is taken out, since it is needed here no more.
pub(crate) fn put_trained(worked: &mut WorkedOut, archive: &mut Archive) {
    let effort = &worked.effort;
    let consultations = [&effort.rows, &effort.third_party];
    let has = consultations.map(Option::is_some);
    archive.put(&(worked.invited.user, effort.work, has, worked.result.is_ok()));
    for consultation in consultations.into_iter().flatten() {
        consultation.save(archive);
    }
    match &mut worked.result {
        Ok((_, upload)) => std::mem::replace(upload, Upload::handed_out()).save(archive),
        Err(error) => errors::put(error, archive),
    }
}

/// Reads what [`put_trained`] has appended: what the training takes, and its upload or why there is
/// none.
///
/// # Errors
/// [`Error::Unrestorable`] for something else, and for a user of whom `users` knows no training.
pub(crate) fn take_trained(
    archive: &mut ArchiveReader,
    world: &World,
    users: &StandIns,
) -> Result<(UserId, Effort, Result<Upload, Error>)> {
    let (user, work, [has_rows, has_third_party], is_trained): (UserId, Work, [bool; 2], bool) =
        archive.take()?;
    let mut consultation = |is_there: bool| -> Result<Option<Arc<Consultation>>> {
        match is_there {
            true => Consultation::restore(archive).map(|made| Some(Arc::new(made))),
            false => Ok(None),
        }
    };
    let (rows, third_party) = (consultation(has_rows)?, consultation(has_third_party)?);
    let invited = users.submitted(user);
    let invited = invited.ok_or_else(|| damaged(format!("{user} was not asked to train")))?;
    let result = match is_trained {
        true => {
            let phase = invited.invitation.download.phase();
            Ok(Upload::restore(archive, world.upload_layout(phase, user))?)
        }
        false => Err(errors::take(archive)),
    };
    let upload = result.as_ref().ok();
    let effort = Effort {
        work,
        upload_size: upload.map(|upload: &Upload| world.upload_size(upload.parts())),
        rows,
        third_party,
    };
    Ok((user, effort, result))
}
