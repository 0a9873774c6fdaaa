//! Sends messages to an actor of the same thread by a function call, past a mailbox.
//!
//! All actors of a simulation live on one thread, and whoever asks waits for the answer. So a
//! mailbox keeps no order that would not be kept without it, but it costs a queue, a wake-up and a
//! poll of two tasks (200 to 700 ns). Only the metrics have one, since they wait for the workers.

use std::cell::RefCell;
use std::rc::Rc;

use actix::dev::MessageResponse;
use actix::prelude::*;

/// A function that delivers messages of one kind to an actor of this thread, which answers at once.
pub(crate) type Port<M> = Rc<dyn Fn(M) -> <M as Message>::Result>;

/// An actor without a mailbox. Its handlers must answer at once and cannot use the context, which
/// does not run.
pub(crate) struct Resident<A: Actor<Context = Context<A>>> {
    actor: RefCell<A>,
    idle_context: RefCell<Context<A>>,
}

impl<A: Actor<Context = Context<A>>> Resident<A> {
    /// Makes a resident of `actor`, on this thread.
    pub(crate) fn new(actor: A) -> Rc<Self> {
        Rc::new(Self {
            actor: RefCell::new(actor),
            idle_context: RefCell::new(Context::new()),
        })
    }

    /// Sends the actor a message and returns its answer. The actor must not be in the middle of
    /// another answer.
    pub(crate) fn ask<M: Message>(&self, message: M) -> M::Result
    where
        A: Handler<M, Result = M::Result>,
        M::Result: MessageResponse<A, M>,
    {
        self.actor
            .borrow_mut()
            .handle(message, &mut self.idle_context.borrow_mut())
    }

    /// Returns a port for one kind of message.
    pub(crate) fn port<M: Message + 'static>(self: &Rc<Self>) -> Port<M>
    where
        A: Handler<M, Result = M::Result>,
        M::Result: MessageResponse<A, M>,
    {
        let resident = Rc::clone(self);
        Rc::new(move |message| resident.ask(message))
    }
}
