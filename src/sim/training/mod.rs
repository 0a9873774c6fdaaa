//! What a worker thread does for a client: decode, sample, train, encode.
//!
//! An [`Assignment`] has everything that the result depends on, so whichever thread takes it, and whenever, the same
//! comes out.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;

use super::device::Device;
use super::download::OutgoingDownload;
use super::world::World;
use crate::codec::{self, EncodeContext, Frame, Randomness};
use crate::error::{Error, Result};
use crate::ids::{InvitationId, Step, UserId};
use crate::method::{LocalTask, LocalUpdate, Scratch};
use crate::model::blocks::Utility;
use crate::stages::{Stage, enter};
use crate::work::Work;

/// One training, with everything that it depends on: the user's state, taken from its actor, and the download.
pub struct Assignment {
    /// The user.
    pub user: UserId,
    /// The step whose model is trained.
    pub step: Step,
    /// Number of the invitation.
    pub invitation_id: InvitationId,
    /// What the user's device keeps; `None` if it is still to be made.
    pub device: Option<Box<Device>>,
    /// The download.
    pub download: Arc<OutgoingDownload>,
}

/// A training's result. The parameters go back to the user's actor; the frame to the server.
pub struct Trained {
    /// What the device keeps after training.
    pub device: Box<Device>,
    /// The upload.
    pub frame: Frame,
    /// Mean local loss.
    pub loss: f64,
    /// What the training took.
    pub work: Work,
}

thread_local! {
    /// Buffers of one worker thread. They carry nothing from one client to the next.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Assignment {
    /// Does the work with the device, which is in the result. A pure function of the assignment and the world, whichever
    /// thread runs it.
    ///
    /// # Errors
    /// Divergence, too few negatives, a frame that does not decode.
    pub fn run(&mut self, world: &World) -> Result<Box<Trained>> {
        SCRATCH.with_borrow_mut(|scratch| self.run_with(world, scratch))
    }

    fn run_with(&mut self, world: &World, scratch: &mut Scratch) -> Result<Box<Trained>> {
        let _stage = enter(Stage::Train);
        let mut device = self.device.take().unwrap_or_else(|| Box::new(Device::new(world.method.client(self.user))));
        let received = self.download.received(self.user)?;
        let round = world.scenario.training.round_of(self.step);
        let task = LocalTask::new(
            (self.user, round, self.invitation_id),
            &received.model,
            (&world.dataset, &world.scenario.dataset.negatives),
            world.streams,
            world.scenario.training.divergence_limit,
        )
        .in_phase(self.download.phase())
        .at_step(self.step);
        let LocalUpdate { mut update, loss, work, .. } = device.client.train(&task, scratch)?;
        if !loss.is_finite() {
            let user = self.user;
            let (value, limit) = (loss as f32, task.divergence_limit);
            return Err(Error::Diverged { round, user: Some(user), parameter: "the local loss", value, limit });
        }
        let _encoding = enter(Stage::Encode);
        let layout = world.upload_layout(task.phase);
        let (user, invitation) = (u64::from(self.user.0), u64::from(self.invitation_id.0));
        let randomness = Randomness { streams: world.streams, user, invitation };
        if let Some(mechanism) = &world.privacy {
            mechanism.protect(&mut update, layout, randomness)?;
        }
        if layout.reports_utility() {
            let ratings = world.dataset.train_items(self.user).len() as u32;
            update.scalars.utility = Some(Utility { loss: loss as f32, ratings });
        }
        let mut context = EncodeContext { base: &received.model, memory: &mut device.memory, randomness };
        let frame = codec::encode(world.uplink, &update, layout, &mut context)?;
        // What a mechanism has changed is not what the client returned.
        let held = if world.privacy.is_none() { frame.hold_values_of(world.uplink, &mut update) } else { None };
        if held.is_some() {
            device.client.was_sent(&update);
        }
        // The values are in the frame; the next client of this thread writes its own there, unless they are kept.
        let values = held.or_else(|| update.blocks.pop().map(|block| block.values));
        if let Some(Ok(values)) = values.map(Bytes::try_into_mut) {
            scratch.values = values.into();
        }
        Ok(Box::new(Trained { device, frame, loss, work }))
    }
}

#[cfg(test)]
mod reuse;
