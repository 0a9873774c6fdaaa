//! The exchange between a client and the third party in a participation: a request and its reply,
//! both of which are really encoded and decoded.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::download::FrameFormat;
use super::world::World;
use crate::privacy::Protection;
use fedrecsim_core::error::Result;
use fedrecsim_core::work::Work;
use fedrecsim_methods::method::third_party::ArrivedRequest;
use fedrecsim_methods::method::{Client, Exchange, LocalTask, Scratch, ThirdParty};
use fedrecsim_model::codec::{
    BlockCodecs, CodecMemory, EncodeContext, Frame, FrameParts, Randomness,
};
use fedrecsim_model::model::archive::{Archive, ArchiveReader};
use fedrecsim_model::model::blocks::{Model, ModelUpdate};
use fedrecsim_model::model::layout::Layout;
use fedrecsim_scenario::scenario::CodecName;

/// The request and the reply of one participation.
#[derive(Debug)]
pub struct Consultation {
    /// The work of making the request.
    pub request_work: Work,
    /// The frame that the third party receives.
    pub request: Frame,
    /// The work of making the reply.
    pub reply_work: Work,
    /// The frame that the client receives.
    pub reply: Frame,
}

/// The source of the third party's reply to a training.
#[derive(Clone)]
pub enum ReplySource {
    /// The third party makes it, with the state that it had when the user was invited.
    ThirdParty(Arc<dyn ThirdParty>),
    /// It was read from a checkpoint, which was written after the training had been worked out.
    Saved(Arc<Consultation>),
}

/// The part of an exchange that a checkpoint stores beside its frames.
#[derive(Serialize, Deserialize)]
struct SavedExchange {
    request: (Work, FrameParts),
    reply: (Work, FrameParts),
}

impl ReplySource {
    /// Returns what was exchanged; `None` if the third party is still to be asked.
    pub(crate) fn saved(self) -> Option<Arc<Consultation>> {
        match self {
            Self::Saved(consultation) => Some(consultation),
            Self::ThirdParty(_) => None,
        }
    }
}

impl Consultation {
    /// Appends the exchange to `archive`.
    pub(crate) fn save(&self, archive: &mut Archive) {
        let Self {
            request_work,
            request,
            reply_work,
            reply,
        } = self;
        archive.put(&SavedExchange {
            request: (*request_work, request.parts),
            reply: (*reply_work, reply.parts),
        });
        archive.put_bytes(&request.bytes);
        archive.put_bytes(&reply.bytes);
    }

    /// Reads what [`Self::save`] appended.
    ///
    /// # Errors
    /// [`Error::Checkpoint`](fedrecsim_core::error::Error::Checkpoint) if the archive holds something else.
    pub(crate) fn restore(archive: &mut ArchiveReader) -> Result<Self> {
        let SavedExchange {
            request: (request_work, request),
            reply: (reply_work, reply),
        } = archive.take()?;
        let request = Frame::of_saved(archive.take_bytes()?.into(), request)?;
        let reply = Frame::of_saved(archive.take_bytes()?.into(), reply)?;
        Ok(Self {
            request_work,
            request,
            reply_work,
            reply,
        })
    }
}

/// Returns the codec of requests and replies, which are lists of rows.
fn rows() -> BlockCodecs {
    BlockCodecs::every(CodecName::RowsF32)
}

/// Returns how a request or a reply of `layout` is to be read.
pub(crate) fn format(layout: &Layout) -> FrameFormat {
    FrameFormat {
        codecs: rows(),
        layout: layout.clone(),
    }
}

/// Decodes a request or a reply.
///
/// # Errors
/// [`Error::Frame`](fedrecsim_core::error::Error::Frame) if the frame does not have `layout`.
pub(crate) fn decode(frame: &Bytes, layout: &Layout) -> Result<ModelUpdate> {
    rows().decode(frame, layout, &Model::none())
}

/// Exchanges a request and a reply with the third party: encodes the client's request, has the
/// third party make its reply, and encodes that. Returns both frames, and what the client reads in
/// the reply.
///
/// # Errors
/// Whatever error the client or the third party returns.
pub(crate) fn with_third_party(
    reply_source: &ReplySource,
    exchange: &Exchange,
    client: &dyn Client,
    task: &LocalTask<'_>,
    (world, scratch): (&World, &mut Scratch),
) -> Result<(Arc<Consultation>, ModelUpdate)> {
    let consultation = match reply_source {
        ReplySource::Saved(consultation) => Arc::clone(consultation),
        ReplySource::ThirdParty(third_party) => {
            let mut asked = client.request(task, scratch)?;
            let randomness =
                Randomness::of_consultation(task.streams, task.user.0, task.invitation_id.0);
            if let Some(mechanism) = &world.privacy {
                let rated = world.dataset.train_items(task.user);
                let (layout, base) = (&exchange.request, &Model::none());
                mechanism.protect(
                    &mut asked.update,
                    &Protection {
                        layout,
                        base,
                        rated,
                        randomness,
                    },
                )?;
            }
            let request = encode(&asked.update, &exchange.request, randomness)?;
            let update = decode(&request.bytes, &exchange.request)?;
            let arrived = ArrivedRequest::new(task.user, task.invitation_id, task.phase, &update);
            let reply = third_party.reply(&arrived)?;
            let (request_work, reply_work) = (asked.work, reply.work);
            let reply = encode(&reply.update, &exchange.reply, randomness)?;
            Arc::new(Consultation {
                request_work,
                request,
                reply_work,
                reply,
            })
        }
    };
    let reply = decode(&consultation.reply.bytes, &exchange.reply)?;
    Ok((consultation, reply))
}

/// Encodes a request or a reply. The receiver has nothing yet, so rows that are left out are zero.
fn encode(update: &ModelUpdate, layout: &Layout, randomness: Randomness) -> Result<Frame> {
    let mut context = EncodeContext {
        base: &Model::none(),
        memory: &mut CodecMemory::default(),
        randomness,
    };
    rows().encode(update, layout, &mut context)
}
