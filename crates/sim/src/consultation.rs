//! The exchange between a client and a peer before its training: a request and the reply, both
//! really encoded and decoded.

use std::sync::Arc;

use bytes::Bytes;

use super::resident::unanswered;
use super::world::World;
use crate::privacy::Protection;
use fedrecsim_core::legs::Peer;
use fedrecsim_core::work::Work;
use fedrecsim_core::{Direction, InvitationId, Result, UserId};
use fedrecsim_methods::third_party::ArrivedRequest;
use fedrecsim_methods::{Client, Exchange, LocalTask, Phase, Scratch, ThirdParty};
use fedrecsim_model::codec::{
    BlockCodecs, CodecMemory, EncodeContext, Frame, FrameKind, Randomness,
};
use fedrecsim_model::{Archive, ArchiveReader, Layout, Model, ModelUpdate};
use fedrecsim_scenario::CodecName;

/// The request and the reply of one participation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consultation {
    /// The frame that the peer receives.
    pub request: Frame,
    /// The work of making the request.
    pub request_work: Work,
    /// The frame that the client receives.
    pub reply: Frame,
    /// The work of making the reply.
    pub reply_work: Work,
    /// The number of rows that the reply brings, if rows of the model were asked for.
    pub rows: usize,
}

/// Where the third party's reply to a training comes from.
#[derive(Clone)]
pub enum ReplySource {
    /// The third party makes it, with the state that it had when the user was invited.
    ThirdParty(Arc<dyn ThirdParty>),
    /// It was made before, in a run that goes on from a checkpoint.
    Saved(Arc<Consultation>),
    /// The peers of a device that is in another process than they are. They bring the rows that a
    /// client asks for, too.
    Peers(Arc<dyn AskPeers>),
}

/// Asks the peers of a device that is in another process than they are.
pub trait AskPeers: Send + Sync {
    /// Sends a request to `peer`, and waits for its reply.
    ///
    /// # Errors
    /// [`Error::Interrupted`](fedrecsim_core::Error::Interrupted) if no reply will come, and an
    /// error for one that cannot be read.
    fn ask(
        &self,
        participant: (UserId, InvitationId),
        peer: Peer,
        request: Message<'_>,
    ) -> Result<Frame>;
}

/// A request on its way, with the work of making it.
#[derive(Clone, Copy, Debug)]
pub struct Message<'m> {
    /// The frame that the peer receives.
    pub frame: &'m Frame,
    /// The work of making it.
    pub work: Work,
}

impl Consultation {
    /// Returns the frame that travels in this direction.
    pub(crate) fn frame(&self, direction: Direction) -> &Frame {
        match direction {
            Direction::Up => &self.request,
            Direction::Down => &self.reply,
        }
    }

    /// Appends the exchange to `archive`.
    pub fn save(&self, archive: &mut Archive) {
        let (request, reply) = (&self.request, &self.reply);
        archive.put(&(request.parts, self.request_work));
        archive.put(&(reply.parts, self.reply_work, self.rows));
        archive.put_bytes(&request.bytes);
        archive.put_bytes(&reply.bytes);
    }

    /// Reads what [`Self::save`] appended.
    ///
    /// # Errors
    /// As [`ArchiveReader::take`].
    pub fn restore(archive: &mut ArchiveReader) -> Result<Self> {
        let (request, request_work) = archive.take()?;
        let (reply, reply_work, rows) = archive.take()?;
        Ok(Self {
            request: Frame::of_saved(archive.take_bytes()?, request)?,
            request_work,
            reply: Frame::of_saved(archive.take_bytes()?, reply)?,
            reply_work,
            rows,
        })
    }
}

/// Decodes a request or a reply. Both are lists of rows.
///
/// # Errors
/// `Error::Frame` if the frame does not have `layout`.
pub(crate) fn decode(frame: &Bytes, layout: &Layout) -> Result<ModelUpdate> {
    BlockCodecs::every(CodecName::RowsF32).decode(frame, layout, &Model::none())
}

/// Exchanges a request and a reply with the third party: encodes the client's request, has the
/// third party make its reply, and encodes that. Returns both frames, and what the client reads in
/// the reply.
///
/// # Errors
/// Any error of the client or the third party.
pub(crate) fn with_third_party(
    reply_source: &ReplySource,
    exchange: &Exchange,
    client: &dyn Client,
    task: &LocalTask<'_>,
    (world, scratch): (&World, &mut Scratch),
) -> Result<(Arc<Consultation>, ModelUpdate)> {
    let consultation = match reply_source {
        ReplySource::Saved(consultation) => Arc::clone(consultation),
        ReplySource::ThirdParty(_) | ReplySource::Peers(_) => {
            let mut asked = client.request(task, scratch)?;
            let randomness = randomness(task.user, task.invitation_id, world);
            if let Some(mechanism) = &world.privacy {
                let protection = Protection {
                    layout: &exchange.request,
                    base: &Model::none(),
                    rated: world.dataset.train_items(task.user),
                    randomness,
                };
                mechanism.protect(&mut asked.update, &protection)?;
            }
            let request = encode(&asked.update, &exchange.request, randomness)?;
            let participant = (task.user, task.invitation_id);
            let (reply, reply_work) = match reply_source {
                ReplySource::Peers(peers) => {
                    let (frame, work) = (&request, asked.work);
                    let reply =
                        peers.ask(participant, Peer::ThirdParty, Message { frame, work })?;
                    (reply, Work::default())
                }
                source => source.reply(participant, task.phase, &request.bytes, world)?,
            };
            Arc::new(Consultation {
                request,
                request_work: asked.work,
                reply,
                reply_work,
                rows: 0,
            })
        }
    };
    let reply = decode(&consultation.reply.bytes, &exchange.reply)?;
    Ok((consultation, reply))
}

impl ReplySource {
    /// Reads a request as the third party does, and encodes its reply, which it returns with the
    /// work of making it.
    ///
    /// # Errors
    /// `Error::Frame` for a request that does not decode, and those of the third party.
    pub(crate) fn reply(
        &self,
        (user, invitation_id): (UserId, InvitationId),
        phase: Phase,
        request: &Bytes,
        world: &World,
    ) -> Result<(Frame, Work)> {
        let (Self::ThirdParty(third_party), Some(exchange)) = (self, world.exchange(phase)) else {
            let reason = format!("{user} sends a request that nobody answers");
            return Err(unanswered("third party", reason));
        };
        let update = decode(request, &exchange.request)?;
        let reply = third_party.reply(&ArrivedRequest {
            user,
            invitation_id,
            phase,
            update: &update,
        })?;
        let randomness = randomness(user, invitation_id, world);
        let frame = encode(&reply.update, &exchange.reply, randomness)?;
        Ok((frame, reply.work))
    }
}

/// Returns the randomness for encoding the request and the reply of a participation.
fn randomness(user: UserId, invitation_id: InvitationId, world: &World) -> Randomness {
    let (kind, number) = (FrameKind::Consultation, invitation_id.0);
    Randomness::new(world.streams, kind, Some(user.0), number)
}

/// Encodes a request or a reply. The receiver has nothing yet, so rows that are left out are zero.
fn encode(update: &ModelUpdate, layout: &Layout, randomness: Randomness) -> Result<Frame> {
    let mut context = EncodeContext {
        base: &Model::none(),
        memory: &mut CodecMemory::default(),
        randomness,
    };
    BlockCodecs::every(CodecName::RowsF32).encode(update, layout, &mut context)
}
