//! One user: holds the private parameters and takes part when invited.
//!
//! Its parameters leave it in two ways only, and come back each time: with the assignment that a worker trains
//! ([`super::training`]), and lent for an evaluation, a digest or a checkpoint. What it sends is the frame that training made.

use std::sync::Arc;

use actix::prelude::*;

use super::device::Device;
use super::messages::{FromClient, ToClient};
use super::training::Assignment;
use super::world::World;
use crate::ids::UserId;

/// A user's actor. Its parameters are made when they are first needed, and lent out while a worker has them.
pub struct ClientActor {
    user: UserId,
    world: Arc<World>,
    parameters: Parameters,
    takes_part: bool,
}

/// The private parameters, as they are at this instant of virtual time.
enum Parameters {
    /// As the method makes them; not yet made.
    Untouched,
    /// Here.
    Held(Box<Device>),
    /// With a worker, or lent.
    Away,
}

impl ClientActor {
    /// The actor of `user`.
    pub fn new(user: UserId, world: Arc<World>) -> Self {
        Self { user, world, parameters: Parameters::Untouched, takes_part: false }
    }

    /// The actor of `user` with the parameters of a checkpoint.
    pub fn restored(user: UserId, world: Arc<World>, device: Box<Device>) -> Self {
        Self { parameters: Parameters::Held(device), ..Self::new(user, world) }
    }

    /// What a worker trains; `None` for parameters that it has to make first. Whoever may be cut off, or asked to
    /// lend, before training has ended gives a copy away.
    fn parameters_to_train(&mut self, keep: bool) -> Option<Box<Device>> {
        match &self.parameters {
            Parameters::Held(device) if keep => Some(Box::new(device.snapshot())),
            Parameters::Untouched if keep => None,
            _ => match std::mem::replace(&mut self.parameters, Parameters::Away) {
                Parameters::Held(client) => Some(client),
                _ => None,
            },
        }
    }
}

impl Actor for ClientActor {
    type Context = Context<Self>;
}

impl Handler<ToClient> for ClientActor {
    type Result = FromClient;

    fn handle(&mut self, message: ToClient, _context: &mut Self::Context) -> FromClient {
        use Parameters::{Away, Held, Untouched};
        match (message, self.takes_part, &self.parameters) {
            (ToClient::Participate { step, invitation_id, download, keep }, false, Held(_) | Untouched) => {
                self.takes_part = true;
                let (user, world) = (self.user, Arc::clone(&self.world));
                let device = self.parameters_to_train(keep);
                FromClient::Assignment(Box::new(Assignment { user, step, invitation_id, device, download, world }))
            }
            (ToClient::Downloaded(frame, download), true, _) => FromClient::Sound(download.reads(&frame)),
            (ToClient::TrainingEnded(trained), true, _) => {
                self.takes_part = false;
                self.parameters = Held(trained.device);
                FromClient::Upload(trained.frame.bytes)
            }
            // During training: what was kept stays. During the upload: training had ended, and its outcome stays.
            (ToClient::CutOff, _, Held(_) | Untouched) => {
                self.takes_part = false;
                FromClient::Done
            }
            (ToClient::Lend, _, Untouched) => FromClient::Lent(self.user, None),
            (ToClient::Lend, _, Held(_)) => match std::mem::replace(&mut self.parameters, Away) {
                Held(client) => FromClient::Lent(self.user, Some(client)),
                _ => FromClient::OutOfTurn,
            },
            (ToClient::Return(client), _, Away) => {
                self.parameters = Held(client);
                FromClient::Done
            }
            _ => FromClient::OutOfTurn,
        }
    }
}
