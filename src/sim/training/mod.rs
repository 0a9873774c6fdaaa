//! What a worker thread does for a client: decode, sample, train, encode.
//!
//! An [`Assignment`] has everything that the result depends on, so whichever thread takes it, and whenever, the same
//! comes out.

use std::cell::RefCell;
use std::sync::Arc;

use super::broadcast::Broadcast;
use super::utility_report::UtilityReport;
use super::world::World;
use crate::codec::Frame;
use crate::dataset::negatives::{NegativeSampler, Samples};
use crate::error::{Error, Result};
use crate::ids::{InvitationId, Round, UserId};
use crate::method::{Client, LocalTask, Scratch};
use crate::stages::{Stage, enter};
use crate::work::Work;

/// One training, with everything that it depends on: the user's state, taken from its actor, and the download.
pub struct Assignment {
    /// The user.
    pub user: UserId,
    /// The round whose model is trained.
    pub round: Round,
    /// Number of the invitation.
    pub invitation_id: InvitationId,
    /// The user's private parameters; `None` if they are still to be made.
    pub client: Option<Box<dyn Client>>,
    /// The download.
    pub broadcast: Arc<Broadcast>,
    /// What everybody may read.
    pub world: Arc<World>,
}

/// A training's result. The parameters go back to the user's actor; the frame to the server.
pub struct Trained {
    /// The private parameters after training.
    pub client: Box<dyn Client>,
    /// The upload.
    pub frame: Frame,
    /// Mean local loss.
    pub loss: f64,
    /// What the training took.
    pub work: Work,
}

/// Buffers of one worker thread. They carry nothing from one client to the next.
#[derive(Default)]
struct Workbench {
    samples: Samples,
    sampler: Option<NegativeSampler>,
    scratch: Scratch,
}

thread_local! {
    static WORKBENCH: RefCell<Workbench> = RefCell::default();
}

impl Assignment {
    /// Does the work. A pure function of the assignment, whichever thread runs it.
    ///
    /// # Errors
    /// Divergence, too few negatives, a frame that does not decode.
    pub fn run(self) -> Result<Box<Trained>> {
        WORKBENCH.with_borrow_mut(|workbench| self.run_with(workbench))
    }

    fn run_with(self, workbench: &mut Workbench) -> Result<Box<Trained>> {
        let _stage = enter(Stage::Train);
        let world = &*self.world;
        let negatives = &world.scenario.dataset.negatives;
        let items = world.dataset.items();
        let Workbench { samples, sampler, scratch } = workbench;
        let sampling = enter(Stage::SampleNegatives);
        if world.method.needs_samples() {
            // A thread serves one run after another; the sampler belongs to a data set.
            let sampler = match sampler {
                Some(sampler) if sampler.fits(items, negatives) => sampler,
                other => other.insert(NegativeSampler::new(items, negatives)),
            };
            sampler.draw(&world.dataset, world.streams, self.user, self.invitation_id, samples)?;
        } else {
            samples.clear();
        }
        drop(sampling);
        let mut client = self.client.unwrap_or_else(|| world.method.client(self.user));
        let global = self.broadcast.table()?;
        let task = LocalTask {
            user: self.user,
            round: self.round,
            invitation_id: self.invitation_id,
            global,
            samples,
            streams: world.streams,
            divergence_limit: world.scenario.training.divergence_limit,
        };
        let update = client.train(&task, scratch)?;
        if !update.loss.is_finite() {
            let (round, user) = (self.round, self.user);
            let (value, limit) = (update.loss as f32, task.divergence_limit);
            return Err(Error::Diverged { round, user, parameter: "the local loss", value, limit });
        }
        let _encoding = enter(Stage::Encode);
        let mut frame = world.uplink.encode(&update.table, global);
        if let Some(values) = frame.values() {
            client.share_values(values);
        }
        // The values are in the frame; the next client of this thread writes its own there, unless they are kept.
        if let Ok(values) = update.table.values.try_into_mut() {
            scratch.values = values.into();
        }
        let (loss, work) = (update.loss, update.work);
        if world.reports_utility() {
            let ratings = world.dataset.train_items(self.user).len() as u32;
            UtilityReport { loss: loss as f32, ratings }.append_to(&mut frame);
        }
        Ok(Box::new(Trained { client, frame, loss, work }))
    }
}

#[cfg(test)]
mod reuse;
