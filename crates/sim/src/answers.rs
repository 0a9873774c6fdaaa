//! What becomes of a question to another actor: the answer of the metrics, and the error of an actor
//! that does not answer as it should.

use actix::MailboxError;

use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_core::{Error, Result, memory};

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
