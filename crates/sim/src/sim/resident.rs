//! Two ways to send a message to an actor of the same thread: by a function call, or through its
//! mailbox.
//!
//! All actors of a simulation live on one thread, and whoever asks waits for the answer. So a
//! mailbox keeps no order that would not be kept without it, but it costs a queue, a wake-up and a
//! poll of two tasks (200 to 700 ns). What is asked at every event goes through a [`Port`], which
//! is a function call. What is asked once a round goes through the mailbox.

use std::cell::RefCell;
use std::rc::Rc;

use actix::dev::MessageResponse;
use actix::prelude::*;

/// A function that delivers messages of one kind to an actor of this thread, which answers at once.
pub(crate) type Port<M> = Rc<dyn Fn(M) -> <M as Message>::Result>;

/// An actor that takes messages in both ways. Its handlers must answer at once and cannot use the
/// context, since a message through a port comes with a context that does not run.
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

    /// Starts the actor's mailbox, and returns its address.
    pub(crate) fn mailbox(self: &Rc<Self>) -> Addr<Mailbox<A>> {
        Mailbox(Rc::clone(self)).start()
    }
}

/// The mailbox of a [`Resident`], which passes every message on to it.
pub(crate) struct Mailbox<A: Actor<Context = Context<A>>>(Rc<Resident<A>>);

impl<A: Actor<Context = Context<A>>> Actor for Mailbox<A> {
    type Context = Context<Self>;
}

impl<A, M> Handler<M> for Mailbox<A>
where
    A: Actor<Context = Context<A>> + Handler<M, Result = M::Result>,
    M: Message,
    M::Result: MessageResponse<A, M> + MessageResponse<Self, M>,
{
    type Result = M::Result;

    fn handle(&mut self, message: M, _context: &mut Self::Context) -> M::Result {
        self.0.ask(message)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    struct Counter(u32);

    #[derive(Message)]
    #[rtype(result = "u32")]
    struct Add(u32);

    impl Actor for Counter {
        type Context = Context<Self>;
    }

    impl Handler<Add> for Counter {
        type Result = u32;

        fn handle(&mut self, Add(number): Add, _context: &mut Self::Context) -> u32 {
            self.0 += number;
            self.0
        }
    }

    /// If this fails, what is said through a port and what is said through the mailbox reach
    /// different actors.
    #[test]
    fn ports_and_the_mailbox_lead_to_the_same_actor() {
        System::new().block_on(async {
            let counter = Resident::new(Counter(0));
            let (port, other, mailbox) = (
                counter.port::<Add>(),
                counter.port::<Add>(),
                counter.mailbox(),
            );
            assert_eq!(port(Add(1)), 1);
            assert_eq!(mailbox.send(Add(10)).await.unwrap(), 11);
            assert_eq!(other(Add(100)), 111);
        });
    }
}
