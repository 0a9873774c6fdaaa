//! One user: holds the private parameters and takes part when invited.
//!
//! Its parameters leave it in two ways only, and come back each time: with the assignment that a worker trains
//! ([`super::training`]), and lent for an evaluation. What it sends is the frame that training made.

use std::sync::Arc;

use actix::prelude::*;

use super::messages::{FromClient, ToClient};
use super::training::Assignment;
use super::world::World;
use crate::ids::UserId;
use crate::method::Client;

/// A user's actor. Its parameters are made when they are first needed, and lent out while a worker has them.
pub struct ClientActor {
    user: UserId,
    world: Arc<World>,
    state: State,
}

enum State {
    /// As the method makes it; not yet made.
    Untouched,
    /// Here.
    Held(Box<dyn Client>),
    /// With a worker.
    Away,
}

impl ClientActor {
    /// The actor of `user`.
    pub fn new(user: UserId, world: Arc<World>) -> Self {
        Self { user, world, state: State::Untouched }
    }

    fn take(&mut self) -> Option<Box<dyn Client>> {
        match std::mem::replace(&mut self.state, State::Away) {
            State::Held(client) => Some(client),
            State::Untouched => Some(self.world.method.client(self.user)),
            State::Away => None,
        }
    }
}

impl Actor for ClientActor {
    type Context = Context<Self>;
}

impl Handler<ToClient> for ClientActor {
    type Result = FromClient;

    fn handle(&mut self, message: ToClient, _context: &mut Self::Context) -> FromClient {
        match (message, &self.state) {
            (ToClient::Participate { round, broadcast }, _) => {
                let Some(client) = self.take() else { return FromClient::OutOfTurn };
                let world = Arc::clone(&self.world);
                let user = self.user;
                FromClient::Assignment(Box::new(Assignment { user, round, client, broadcast, world }))
            }
            (ToClient::TrainingEnded(trained), State::Away) => {
                self.state = State::Held(trained.client);
                FromClient::Upload(trained.frame.bytes)
            }
            (ToClient::CutOff(Some(client)), State::Away) => {
                self.state = State::Held(client);
                FromClient::Done
            }
            // Cut off while uploading: the training had ended, and its parameters are here.
            (ToClient::CutOff(None), State::Held(_)) => FromClient::Done,
            (ToClient::Lend, State::Untouched) => FromClient::Lent(self.user, None),
            (ToClient::Lend, State::Held(_)) => FromClient::Lent(self.user, self.take()),
            (ToClient::Return(client), State::Away) => {
                self.state = State::Held(client);
                FromClient::Done
            }
            _ => FromClient::OutOfTurn,
        }
    }
}
