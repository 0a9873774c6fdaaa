//! The users' actors, found by number.

use std::cell::RefCell;

use actix::dev::RecipientRequest;
use actix::prelude::*;

use super::by_user::ByUser;
use super::messages::ToClient;
use crate::ids::UserId;

/// Where each user's actor can be reached. An actor starts when it is first spoken to: until then it has nothing that
/// does not follow from the user's number, and a million users of whom ten thousand take part cost what ten thousand do.
pub struct Directory {
    start: Box<dyn Fn(UserId) -> Recipient<ToClient>>,
    started: RefCell<ByUser<Recipient<ToClient>>>,
}

impl Directory {
    /// A directory in which nobody has started; `start` is called once for each user that is spoken to.
    pub fn new(start: impl Fn(UserId) -> Recipient<ToClient> + 'static) -> Self {
        Self { start: Box::new(start), started: RefCell::default() }
    }

    /// Adds an actor that has started.
    pub fn add(&self, user: UserId, actor: Recipient<ToClient>) {
        self.started.borrow_mut().insert(user, actor);
    }

    /// Sends `message` to `user`; it is in the mailbox when this returns.
    pub fn send(&self, user: UserId, message: ToClient) -> RecipientRequest<ToClient> {
        self.started.borrow_mut().get_or_insert_with(user, || (self.start)(user)).send(message)
    }

    /// Whether `user` has been spoken to.
    pub fn has_started(&self, user: UserId) -> bool {
        self.started.borrow().contains_key(&user)
    }

    /// All that have been spoken to, ascending.
    pub fn started(&self) -> Vec<UserId> {
        self.started.borrow().keys()
    }
}
