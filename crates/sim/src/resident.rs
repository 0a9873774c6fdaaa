//! Sends messages to an actor of the same thread by a function call, past a mailbox.
//!
//! All actors of a simulation live on one thread, and the asker waits for the answer. So a mailbox
//! keeps no order that would not be kept without it, but it costs a queue, a wake-up and a poll of
//! two tasks (200 to 700 ns). Only the metrics have one, since they wait for the workers.

use std::cell::RefCell;

use actix::dev::MessageResponse;
use actix::prelude::*;

use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_core::{Error, Result, memory};

/// Somebody on this thread who answers messages of type `M` at once.
pub(crate) trait Ask<M: Message> {
    /// Delivers a message, and returns the answer. The actor must not be in the middle of another
    /// answer.
    fn ask(&self, message: M) -> M::Result;
}

/// An actor without a mailbox. Its handlers must answer at once and cannot use the context, which
/// does not run.
pub(crate) struct Resident<A: Actor<Context = Context<A>>> {
    actor: RefCell<A>,
    idle_context: RefCell<Context<A>>,
}

impl<A: Actor<Context = Context<A>>> Resident<A> {
    /// Makes a resident of `actor`, on this thread.
    pub(crate) fn new(actor: A) -> Self {
        Self {
            actor: RefCell::new(actor),
            idle_context: RefCell::new(Context::new()),
        }
    }
}

impl<A, M: Message> Ask<M> for Resident<A>
where
    A: Actor<Context = Context<A>> + Handler<M, Result = M::Result>,
    M::Result: MessageResponse<A, M>,
{
    fn ask(&self, message: M) -> M::Result {
        let _stage = enter(Stage::Actors);
        let mut context = self.idle_context.borrow_mut();
        self.actor.borrow_mut().handle(message, &mut context)
    }
}

/// Waits for the answer of the metrics, and returns it. The time is booked as the actors', less
/// what other stages take of it.
pub(crate) async fn answer_of_metrics<T>(
    question: impl Future<Output = Result<Result<T>, MailboxError>>,
) -> Result<T> {
    let _stage = enter(Stage::Actors);
    let answer = question.await;
    answer.map_err(|reason| unanswered("metrics", reason))?
}

/// Returns the error of an actor that does not answer as it should: it was refused memory, or has a
/// defect.
pub(crate) fn unanswered(actor: &'static str, reason: impl ToString) -> Error {
    memory::shortage_of_this_thread().unwrap_or_else(|| Error::Actor {
        actor,
        reason: reason.to_string(),
    })
}
