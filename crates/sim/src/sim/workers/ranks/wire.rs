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
use crate::sim::consultation::{Consultation, ReplySource};
use crate::sim::download::{AskedRows, OutgoingDownload};
use crate::sim::messages::{Effort, ToClient};
use crate::sim::upload::UploadFrame;
use crate::sim::world::World;
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::{InvitationId, Step, UserId};
use fedrecsim_core::work::Work;
use fedrecsim_methods::method::ThirdParty;
use fedrecsim_model::codec::{Frame, FrameParts};
use fedrecsim_model::model::archive::{Archive, ArchiveReader, damaged};
use fedrecsim_model::model::state::StateVisitor;

/// A question of rank 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Question {
    /// Work out the trainings that were submitted.
    Train,
    /// Score the evaluated users with this download or model, which follows.
    Evaluate,
    /// Score the evaluated users at these places of their list, each with its own download, which
    /// follow.
    EvaluatePersonal {
        /// The first place.
        first: usize,
        /// The place after the last one.
        end: usize,
    },
    /// Score the evaluated users with the trivial baselines.
    Baselines,
    /// Return the digests of the private parameters.
    Digests,
    /// Write a part of the checkpoint after so many rounds.
    Save {
        /// The number of rounds that are over.
        rounds: u32,
    },
    /// Return the device of this user, whom somebody studies.
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

/// Something that a user was told.
pub(crate) enum Note {
    /// It takes part.
    Participate {
        /// The user.
        user: UserId,
        /// The step in which it was invited.
        step: Step,
        /// The invitation.
        invitation_id: InvitationId,
        /// The download.
        download: Arc<OutgoingDownload>,
        /// The source of the third party's reply.
        reply_source: Option<ReplySource>,
        /// Whether it keeps a copy of its parameters.
        keep: bool,
    },
    /// Its training has come to its virtual end.
    Ended(UserId),
    /// It is cut off.
    CutOff(UserId),
}

/// A note as it is written. A download follows one who takes part, and then the source of replies.
#[derive(Serialize, Deserialize)]
enum SentNote {
    Participate {
        user: UserId,
        step: Step,
        invitation_id: InvitationId,
        keep: bool,
    },
    Ended(UserId),
    CutOff(UserId),
}

/// The source of replies as it is written.
#[derive(Serialize, Deserialize)]
enum SentSource {
    /// There is none.
    None,
    /// An exchange follows.
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
    downloads: Numbers<OutgoingDownload>,
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
            self.put_note(note, &mut archive)?;
        }
        archive.put(&question);
        Ok(archive)
    }

    fn put_note(&mut self, note: Note, archive: &mut Archive) -> Result<()> {
        let (user, step, invitation_id, download, reply_source, keep) = match note {
            Note::Ended(user) => {
                archive.put(&SentNote::Ended(user));
                return Ok(());
            }
            Note::CutOff(user) => {
                archive.put(&SentNote::CutOff(user));
                return Ok(());
            }
            Note::Participate {
                user,
                step,
                invitation_id,
                download,
                reply_source,
                keep,
            } => (user, step, invitation_id, download, reply_source, keep),
        };
        archive.put(&SentNote::Participate {
            user,
            step,
            invitation_id,
            keep,
        });
        self.put_download(&download, user, archive)?;
        match reply_source {
            None => archive.put(&SentSource::None),
            Some(ReplySource::Saved(consultation)) => {
                archive.put(&SentSource::Saved);
                consultation.save(archive);
            }
            Some(ReplySource::ThirdParty(third_party)) => {
                let (number, is_new) = self.third_parties.of(&third_party);
                archive.put(&SentSource::ThirdParty(number, is_new));
                if is_new {
                    third_party
                        .snapshot()
                        .visit_state(&mut StateVisitor::Save(archive))?;
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
        download: &Arc<OutgoingDownload>,
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

/// What a rank has been sent, by its number.
#[derive(Default)]
pub(crate) struct Inbox {
    downloads: BTreeMap<u32, Arc<OutgoingDownload>>,
    third_parties: BTreeMap<u32, Arc<dyn ThirdParty>>,
}

impl Inbox {
    /// Reads a message up to its question. Every note is given to `tell`.
    ///
    /// # Errors
    /// [`Error::Checkpoint`](fedrecsim_core::error::Error::Checkpoint) for a message that cannot be read,
    /// and those of `tell`.
    pub fn open(
        &mut self,
        message: Parcel,
        world: &World,
        tell: &mut dyn FnMut(UserId, ToClient) -> Result<()>,
    ) -> Result<(Question, ArchiveReader)> {
        let mut archive = message.open();
        let (downloads, third_parties): (Vec<u32>, Vec<u32>) = archive.take()?;
        downloads
            .iter()
            .for_each(|number| drop(self.downloads.remove(number)));
        third_parties
            .iter()
            .for_each(|number| drop(self.third_parties.remove(number)));
        let notes: usize = archive.take()?;
        for _ in 0..notes {
            let (user, message) = self.take_note(&mut archive, world)?;
            tell(user, message)?;
        }
        let question = archive.take()?;
        Ok((question, archive))
    }

    fn take_note(
        &mut self,
        archive: &mut ArchiveReader,
        world: &World,
    ) -> Result<(UserId, ToClient)> {
        let (user, step, invitation_id, keep) = match archive.take()? {
            SentNote::Ended(user) => return Ok((user, ToClient::TrainingEnded)),
            SentNote::CutOff(user) => return Ok((user, ToClient::CutOff)),
            SentNote::Participate {
                user,
                step,
                invitation_id,
                keep,
            } => (user, step, invitation_id, keep),
        };
        let download = self.take_download(archive, world)?;
        let reply_source = match archive.take()? {
            SentSource::None => None,
            SentSource::Saved => Some(ReplySource::Saved(Arc::new(Consultation::restore(
                archive,
            )?))),
            SentSource::ThirdParty(number, is_new) => {
                if is_new {
                    let mut made = world
                        .method
                        .third_party()
                        .ok_or_else(|| damaged("a third party of another method"))?;
                    made.visit_state(&mut StateVisitor::Restore(archive))?;
                    self.third_parties.insert(number, made.into());
                }
                let known = self
                    .third_parties
                    .get(&number)
                    .ok_or_else(|| damaged("a third party that was not sent"))?;
                Some(ReplySource::ThirdParty(Arc::clone(known)))
            }
        };
        Ok((
            user,
            ToClient::Participate {
                step,
                invitation_id,
                download,
                reply_source,
                keep,
            },
        ))
    }

    /// Reads what [`Outbox::put_download`] has appended.
    ///
    /// # Errors
    /// [`Error::Checkpoint`](fedrecsim_core::error::Error::Checkpoint) for something else.
    pub(crate) fn take_download(
        &mut self,
        archive: &mut ArchiveReader,
        world: &World,
    ) -> Result<Arc<OutgoingDownload>> {
        let known: Option<(u32, bool)> = archive.take()?;
        let Some((number, is_new)) = known else {
            return OutgoingDownload::receive(archive, world).map(Arc::new);
        };
        if is_new {
            self.downloads
                .insert(number, Arc::new(OutgoingDownload::receive(archive, world)?));
        }
        self.downloads
            .get(&number)
            .cloned()
            .ok_or_else(|| damaged("a download that was not sent"))
    }
}

/// The result of a training as rank 0 needs it.
pub(crate) struct TrainedElsewhere {
    /// The user.
    pub user: UserId,
    /// The work, and what was exchanged before.
    pub effort: Effort,
    /// The upload with its mean local loss, or why there is none.
    pub upload: Result<(UploadFrame, f64)>,
}

/// Appends the result of a training.
///
/// # Errors
/// None, but the shape of [`Threads::hand_out_upload`](super::super::Threads::hand_out_upload) has
/// one.
pub(crate) fn put_trained(
    user: UserId,
    effort: &Effort,
    upload: std::result::Result<(UploadFrame, f64), &fedrecsim_core::error::Error>,
    archive: &mut Archive,
) -> Result<()> {
    let Effort {
        work,
        upload: _,
        consultation,
        asked_rows,
    } = effort;
    let loss = upload.as_ref().ok().map(|(_, loss)| *loss);
    archive.put(&(
        user,
        *work,
        loss,
        consultation.is_some(),
        asked_rows.is_some(),
    ));
    if let Some(consultation) = consultation {
        consultation.save(archive);
    }
    if let Some(asked) = asked_rows {
        let AskedRows {
            request,
            count,
            download,
        } = &**asked;
        archive.put(&(request.parts, *count, download.parts));
        archive.put_bytes(&request.bytes);
        archive.put_bytes(&download.bytes);
    }
    match upload {
        Ok((frame, _)) => frame.save(archive),
        Err(error) => errors::put(error, archive),
    }
    Ok(())
}

/// Reads what [`put_trained`] has appended, for a user whose download `download_of` knows.
///
/// # Errors
/// [`Error::Checkpoint`](fedrecsim_core::error::Error::Checkpoint) for something else.
pub(crate) fn take_trained(
    archive: &mut ArchiveReader,
    world: &World,
    download_of: impl FnOnce(UserId) -> Option<Arc<OutgoingDownload>>,
) -> Result<TrainedElsewhere> {
    let (user, work, loss, has_consultation, has_asked): (UserId, Work, Option<f64>, bool, bool) =
        archive.take()?;
    let consultation = has_consultation
        .then(|| Consultation::restore(archive).map(Arc::new))
        .transpose()?;
    let asked_rows = if has_asked {
        let (request, count, download): (FrameParts, usize, FrameParts) = archive.take()?;
        let request = Frame::of_saved(archive.take_bytes()?.into(), request)?;
        let download = Frame::of_saved(archive.take_bytes()?.into(), download)?;
        Some(Arc::new(AskedRows {
            request,
            count,
            download,
        }))
    } else {
        None
    };
    let download =
        download_of(user).ok_or_else(|| damaged(format!("{user} was not asked to train")))?;
    let upload = match loss {
        Some(loss) => {
            let layout = world.upload_layout(download.phase());
            UploadFrame::restore(archive, layout).map(|frame| (frame, loss))?
        }
        None => {
            let effort = Effort {
                work,
                upload: None,
                consultation,
                asked_rows,
            };
            return Ok(TrainedElsewhere {
                user,
                effort,
                upload: Err(errors::take(archive)),
            });
        }
    };
    let size = world.upload_size(upload.0.parts());
    let effort = Effort {
        work,
        upload: Some(size),
        consultation,
        asked_rows,
    };
    Ok(TrainedElsewhere {
        user,
        effort,
        upload: Ok(upload),
    })
}
