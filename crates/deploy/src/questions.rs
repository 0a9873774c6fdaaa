//! What a process is asked beside its trainings, and how long and how often it may owe the answer.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::connection::Writer;
use super::message::{Head, Message};
use fedrecsim_core::{Error, Result};
use fedrecsim_sim::Stop;

/// How often a process is asked the same, each time over another connection. One that goes away from
/// a question so often goes away because of it.
pub(crate) const MOST_ASKED: u32 = 10;

/// Where an answer comes.
pub(crate) type Answered = oneshot::Receiver<Result<Bytes>>;

/// The questions to a process that have no answer yet, in their order. They are asked again when the
/// process comes back.
#[derive(Default)]
pub(crate) struct Questions {
    open: VecDeque<Open>,
    /// Since when the present connection has owed the first answer; `None` while there is no
    /// connection, or no question.
    owed_since: Option<Instant>,
}

struct Open {
    question: Bytes,
    asker: oneshot::Sender<Result<Bytes>>,
    /// How often it was the first one that a connection owed an answer to.
    times: u32,
}

impl Questions {
    /// Asks a process, over its connection if it has one.
    pub(crate) fn ask(&mut self, question: Bytes, writer: Option<&Writer>) -> Answered {
        let (asker, answered) = oneshot::channel();
        self.open.push_back(Open {
            question: question.clone(),
            asker,
            times: 0,
        });
        if let Some(writer) = writer {
            if self.open.len() == 1 {
                self.owes();
            }
            writer.send(Message::with(Head::Question, question));
        }
        answered
    }

    /// Has a question be the first one, whose answer nobody waits for.
    pub(crate) fn ask_before_others(&mut self, question: Bytes) {
        let (asker, _) = oneshot::channel();
        self.open.push_front(Open {
            question,
            asker,
            times: 0,
        });
    }

    /// Returns whether this is the first question.
    pub(crate) fn is_asked(&self, question: &Bytes) -> bool {
        let first = self.open.front();
        first.is_some_and(|first| first.question == *question)
    }

    /// Gives up those that were asked too often: they have an error for an answer.
    pub(crate) fn give_up(&mut self, users: &Range<u32>) {
        let is_enough = |first: &Open| first.times >= MOST_ASKED;
        while self.open.front().is_some_and(is_enough)
            && let Some(given_up) = self.open.pop_front()
        {
            // If this fails, nobody waits for it.
            let _ = given_up.asker.send(Err(unanswered(users, GOES_AWAY)));
        }
    }

    /// Asks all of them over a new connection.
    pub(crate) fn ask_again(&mut self, writer: &Writer) {
        for open in &self.open {
            writer.send(Message::with(Head::Question, open.question.clone()));
        }
        self.owes();
    }

    /// Gives the answer to the first question to its asker. Returns whether there was one.
    pub(crate) fn answered(&mut self, answer: Bytes) -> bool {
        let first = self.open.pop_front();
        self.owes();
        let was_asked = first.is_some();
        if let Some(first) = first {
            // Nobody waits for the answer to some questions.
            let _ = first.asker.send(Ok(answer));
        }
        was_asked
    }

    /// Notes that the connection has ended.
    pub(crate) fn connection_ended(&mut self) {
        self.owed_since = None;
    }

    /// Returns since when the present connection has owed an answer.
    pub(crate) fn owed_since(&self) -> Option<Instant> {
        self.owed_since
    }

    /// Notes that the connection owes an answer to the first question from now on, if there is one.
    fn owes(&mut self) {
        self.owed_since = self.open.front_mut().map(|first| {
            first.times += 1;
            Instant::now()
        });
    }
}

const GOES_AWAY: &str = "it went away each time";

/// Returns the error of a process that was asked too often.
pub(crate) fn unanswered(users: &Range<u32>, reason: &str) -> Error {
    let (first, last) = (users.start, users.end - 1);
    let (times, reason) = (MOST_ASKED, reason.to_owned());
    Error::from(Stop::Unanswered {
        first,
        last,
        times,
        reason,
    })
}
