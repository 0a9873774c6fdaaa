//! The work of a worker thread for a client: decode the download, train, encode the upload.
//!
//! An [`Assignment`] has everything on which the result depends, so the result does not depend on
//! the thread or the time.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;

use super::consultation::{self, ReplySource};
use super::device::Device;
use super::download::{AskedRows, OutgoingDownload, Received};
use super::upload::{UploadFrame, UploadOrigin};
use super::world::World;
use crate::privacy::Protection;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::ids::{InvitationId, Step, UserId};
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_core::work::Work;
use fedrecsim_methods::method::{LocalTask, LocalUpdate, Scratch};
use fedrecsim_model::codec::EncodeContext;
use fedrecsim_model::model::blocks::{Model, Utility};

/// One training, with everything on which its result depends: what the user's device keeps, and the
/// download.
pub struct Assignment {
    /// The user.
    pub user: UserId,
    /// The step in which the user was invited.
    pub step: Step,
    /// The number of the invitation.
    pub invitation_id: InvitationId,
    /// The user's device; `None` if it has not been made yet.
    pub device: Option<Box<Device>>,
    /// The download.
    pub download: Arc<OutgoingDownload>,
    /// The source of the third party's reply, if the method has one.
    pub reply_source: Option<ReplySource>,
    /// What the user has asked the server for and got; `None` before the training, and where
    /// nothing has to be asked for.
    pub asked_rows: Option<Arc<AskedRows>>,
}

/// The result of a training. The device goes back to the user's actor, and the frame is sent to the
/// server.
pub struct Trained {
    /// The device after the training.
    pub device: Box<Device>,
    /// The frame of the upload.
    pub frame: UploadFrame,
    /// The mean local loss.
    pub loss: f64,
    /// The work of the training.
    pub work: Work,
}

thread_local! {
    /// The buffers of one worker thread, which carry nothing from one client to the next.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Assignment {
    /// Trains the device, which it moves into the result. The result is a pure function of the
    /// assignment and the world, whichever thread runs it.
    ///
    /// # Errors
    /// An error if the training diverges, there are too few negatives, or a frame does not decode.
    pub fn run(&mut self, world: &World) -> Result<Box<Trained>> {
        SCRATCH.with_borrow_mut(|scratch| self.run_with(world, scratch))
    }

    /// Describes the training to the client, which starts from `model`.
    fn task<'a>(&self, model: &'a Model, world: &'a World) -> LocalTask<'a> {
        LocalTask::new(
            (
                self.user,
                world.scenario.training.round_of(self.step),
                self.invitation_id,
            ),
            model,
            (&world.dataset, &world.scenario.dataset.negatives),
            world.streams,
            world.scenario.training.divergence_limit,
        )
        .in_phase(self.download.phase())
        .at_step(self.step)
    }

    fn run_with(&mut self, world: &World, scratch: &mut Scratch) -> Result<Box<Trained>> {
        let _stage = enter(Stage::Train);
        let mut device = self
            .device
            .take()
            .unwrap_or_else(|| Box::new(Device::new(world.method.client(self.user))));
        let rows = || {
            self.task(&Model::none(), world)
                .sampled_rows(&mut scratch.samples)
        };
        let (received, asked_rows) =
            receive(&self.download, (self.user, self.invitation_id), rows)?;
        self.asked_rows = asked_rows;
        let task = self.task(&received.model, world);
        let round = task.round;
        let exchange = world.exchange(task.phase).zip(self.reply_source.as_ref());
        let consultation = exchange.map(|(exchange, reply_source)| {
            consultation::with_third_party(
                reply_source,
                exchange,
                &*device.client,
                &task,
                (world, &mut *scratch),
            )
        });
        let (consultation, reply) = consultation.transpose()?.unzip();
        // A training that fails after its exchange fails in the same way if it is worked out again.
        self.reply_source = consultation.map(ReplySource::Saved);
        let task = reply.as_ref().map_or(task, |reply| task.with_reply(reply));
        let LocalUpdate {
            mut update,
            loss,
            work,
            ..
        } = device.client.train(&task, scratch)?;
        if !loss.is_finite() {
            let user = self.user;
            let (value, limit) = (loss as f32, task.divergence_limit);
            return Err(Error::Diverged {
                round,
                user: Some(user),
                parameter: "the local loss".into(),
                value,
                limit,
            });
        }
        let _encoding = enter(Stage::Encode);
        let layout = world.upload_layout(task.phase);
        let (user, invitation_id) = (self.user, self.invitation_id);
        let randomness = UploadOrigin {
            user,
            invitation_id,
            download: &self.download,
        }
        .randomness(world);
        if let Some(mechanism) = &world.privacy {
            let rated = world.dataset.train_items(self.user);
            let protection = Protection {
                layout,
                base: &received.model,
                rated,
                randomness,
            };
            mechanism.protect(&mut update, &protection)?;
        }
        if layout.reports_utility() {
            let ratings = world.dataset.train_items(self.user).len() as u32;
            update.scalars.utility = Some(Utility {
                loss: loss as f32,
                ratings,
            });
        }
        if self.download.is_shared()
            && let Some(frame) = UploadFrame::postponed(&mut update, layout, world)?
        {
            return Ok(Box::new(Trained {
                device,
                frame,
                loss,
                work,
            }));
        }
        let mut context = EncodeContext {
            base: &received.model,
            memory: &mut device.memory,
            randomness,
        };
        let frame = world
            .uplink
            .encode(&update, layout, &mut context)
            .map_err(|error| {
                error.within(format_args!(
                    "the upload of {user} in round {}",
                    round.0 + 1
                ))
            })?;
        // What a mechanism has changed is not what the client returned.
        let held = match world.privacy {
            None => frame.hold_values_of(&world.uplink, &mut update, layout),
            Some(_) => None,
        };
        if held.is_some() {
            device.client.was_sent(&update);
        }
        // The values are in the frame; the next client of this thread writes its own there, unless
        // they are kept.
        let values = held.or_else(|| update.blocks.pop().map(|block| block.values));
        if let Some(Ok(values)) = values.map(Bytes::try_into_mut) {
            scratch.values = values.into();
        }
        Ok(Box::new(Trained {
            device,
            frame: UploadFrame::sealed_here(frame),
            loss,
            work,
        }))
    }
}

/// Returns what a participant decodes of its download. Where rows have to be asked for, it asks for
/// those that `rows` lists, and both frames are returned as well.
fn receive<'a>(
    download: &'a OutgoingDownload,
    participant: (UserId, InvitationId),
    rows: impl FnOnce() -> Result<Vec<u32>>,
) -> Result<(Cow<'a, Received>, Option<Arc<AskedRows>>)> {
    if !download.has_to_be_asked() {
        return Ok((download.received(participant.0)?, None));
    }
    let rows = rows()?;
    let asked = download.ask(&rows, participant)?;
    let received = download.received_of_rows(&rows, &asked.download)?;
    Ok((Cow::Owned(received), Some(Arc::new(asked))))
}

#[cfg(test)]
mod reuse;
