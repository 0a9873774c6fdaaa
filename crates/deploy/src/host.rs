//! A process with devices, as the server knows it.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

use super::connection::{ConnectionId, Writer};
use super::message::{Message, Participant};
use super::questions::Questions;
use fedrecsim_core::{InvitationId, UserId};

/// What a process loses with its connection.
#[derive(Debug)]
pub(crate) struct Lost {
    /// The users of the process.
    pub users: Range<u32>,
    /// The invitations that went over the connection.
    pub invited: Vec<Participant>,
}

/// A process, as the server knows it.
pub(crate) struct Host {
    pub users: Range<u32>,
    /// The connection that it has now; `None` while it is away.
    pub connection: Option<(ConnectionId, Writer)>,
    /// The questions that have no answer yet.
    pub questions: Questions,
    /// What it was asked as the run began, and what a process is asked that comes later and has not
    /// been in the run.
    pub first_questions: Option<(Bytes, Bytes)>,
    /// The last invitation of each user that went over this connection.
    pub invited: BTreeMap<UserId, InvitationId>,
    /// The invitations that wait for the process to come back.
    pub waiting: BTreeMap<UserId, (InvitationId, Message)>,
    /// The last upload of each user that the server has. A process that comes back may not have
    /// been told.
    pub taken: BTreeMap<UserId, InvitationId>,
}

impl Host {
    /// Makes a process with these users, which is not there.
    pub(crate) fn of(users: Range<u32>) -> Self {
        Self {
            users,
            connection: None,
            questions: Questions::default(),
            first_questions: None,
            invited: BTreeMap::new(),
            waiting: BTreeMap::new(),
            taken: BTreeMap::new(),
        }
    }

    /// Sends a message about a participation, if the process is there.
    pub(crate) fn send(&self, message: Message) {
        if let Some((_, writer)) = &self.connection {
            writer.send(message);
        }
    }

    /// Returns what its devices are asked if they have not been in the run; `None` if it has not begun
    /// for them, since they have never answered the first question.
    pub(crate) fn asked_anew(&self) -> Option<Bytes> {
        let (first, anew) = self.first_questions.as_ref()?;
        let waits = self.questions.is_asked(first);
        // Where nothing was restored, both questions are the same.
        (!waits || first == anew).then(|| anew.clone())
    }

    /// Forgets the connection, and returns what is lost with it.
    pub(crate) fn lost(&mut self) -> Lost {
        if let Some((_, writer)) = self.connection.take() {
            writer.cut();
        }
        self.questions.connection_ended();
        Lost {
            users: self.users.clone(),
            invited: std::mem::take(&mut self.invited).into_iter().collect(),
        }
    }
}
