//! The processes that have devices, as the server knows them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};

use super::connection::Writer;
use super::message::{Head, Message};
use fedrecsim_core::{Error, UserId};
use fedrecsim_sim::deployment::Hosts;
use fedrecsim_sim::workers::Working;

/// The number of a connection.
pub(crate) type ConnectionId = u64;

/// The processes, by the first of their users.
#[derive(Default)]
pub(crate) struct Connections {
    users: u32,
    hosts: RefCell<BTreeMap<u32, Host>>,
    /// Whether the processes are settled, since the run has begun. Before that, one that goes away
    /// is forgotten.
    settled: Cell<bool>,
    /// Wakes whoever waits for a process to come.
    pub came: Notify,
}

struct Host {
    users: Range<u32>,
    /// The connection that it has now; `None` while it is away.
    connection: Option<(ConnectionId, Writer)>,
    /// The questions that have no answer yet, in their order. One is asked again if its process
    /// goes away and comes back.
    questions: VecDeque<(Bytes, oneshot::Sender<Bytes>)>,
}

impl Connections {
    pub(crate) fn new(users: u32) -> Self {
        Self {
            users,
            ..Self::default()
        }
    }

    /// Takes in a process that has come, or has come back. Its new connection takes the place of
    /// the one before, which is returned.
    ///
    /// # Errors
    /// Why it may not take part.
    pub(crate) fn join(
        &self,
        users: Range<u32>,
        id: ConnectionId,
        writer: Writer,
    ) -> Result<Option<ConnectionId>, String> {
        let (first, end) = (users.start, users.end);
        if first >= end || end > self.users {
            let last = self.users.saturating_sub(1);
            return Err(format!(
                "there are no users {first}..{}: the users are 0..{last}",
                i64::from(end) - 1
            ));
        }
        let mut hosts = self.hosts.borrow_mut();
        let overlaps = |host: &&Host| host.users.start < end && first < host.users.end;
        if let Some(other) = hosts
            .values()
            .find(overlaps)
            .filter(|host| host.users != users)
        {
            return Err(format!(
                "another process has the users {}..{}, and these are among them; give each \
                 process users of its own",
                other.users.start,
                other.users.end - 1
            ));
        }
        let host = hosts.entry(first).or_insert_with(|| Host {
            users,
            connection: None,
            questions: VecDeque::new(),
        });
        writer.send(Message::new(Head::Welcome));
        for (question, _) in &host.questions {
            writer.send(Message::with(Head::Question, question.clone()));
        }
        let before = host.connection.replace((id, writer));
        self.came.notify_one();
        Ok(before.map(|(id, writer)| {
            writer.cut();
            id
        }))
    }

    /// Takes note that a connection has ended, and returns whether it was the present one of its
    /// process.
    pub(crate) fn gone(&self, id: ConnectionId) -> bool {
        let mut hosts = self.hosts.borrow_mut();
        let is_of = |host: &&mut Host| {
            let connection = host.connection.as_ref();
            connection.is_some_and(|(own, _)| *own == id)
        };
        let Some(host) = hosts.values_mut().find(is_of) else {
            return false;
        };
        if let Some((_, writer)) = host.connection.take() {
            writer.cut();
        }
        if !self.settled.get() {
            hosts.retain(|_, host| host.connection.is_some());
        }
        true
    }

    /// Gives an answer to whoever has asked. An answer that nobody waits for is nonsense.
    pub(crate) fn answered(&self, id: ConnectionId, answer: Bytes) -> bool {
        let mut hosts = self.hosts.borrow_mut();
        let mut hosts = hosts.values_mut();
        let host = hosts.find(|host| matches!(&host.connection, Some((own, _)) if *own == id));
        let asked = host.and_then(|host| host.questions.pop_front());
        asked.is_some_and(|(_, asker)| asker.send(answer).is_ok())
    }

    /// Sends a message to the process of a user, and returns the connection; `None` if the process
    /// is not there.
    pub(crate) fn send(&self, user: UserId, message: Message) -> Option<ConnectionId> {
        let hosts = self.hosts.borrow();
        let host = hosts.range(..=user.0).next_back();
        let host = host.filter(|(_, host)| host.users.contains(&user.0));
        let (id, writer) = host.and_then(|(_, host)| host.connection.as_ref())?;
        writer.send(message);
        Some(*id)
    }

    /// Returns whether a user's process has this connection.
    pub(crate) fn has(&self, id: ConnectionId, user: u32) -> bool {
        let hosts = self.hosts.borrow();
        let host = hosts.range(..=user).next_back();
        host.is_some_and(|(_, host)| {
            let connection = host.connection.as_ref();
            host.users.contains(&user) && connection.is_some_and(|(own, _)| *own == id)
        })
    }

    /// Tells all processes that the run is over.
    pub(crate) fn say_bye(&self) {
        for host in self.hosts.borrow().values() {
            if let Some((_, writer)) = &host.connection {
                writer.say_bye();
            }
        }
    }

    /// Takes note that the run begins with these processes.
    pub(crate) fn settle(&self) {
        self.settled.set(true);
    }

    /// Returns the users whose process is not there, in words; `None` if all are there.
    pub(crate) fn missing(&self) -> Option<String> {
        let hosts = self.hosts.borrow();
        let mut missing = Vec::new();
        let mut next = 0;
        let mut miss = |before: u32, next: u32| {
            if next < before {
                missing.push(format!("{next}..{}", before - 1));
            }
        };
        for host in hosts.values().filter(|host| host.connection.is_some()) {
            miss(host.users.start, next);
            next = host.users.end;
        }
        miss(self.users, next);
        (!missing.is_empty()).then(|| missing.join(", "))
    }
}

/// The processes, for the workers that ask them.
pub(crate) struct Processes(pub Rc<Connections>);

impl Hosts for Processes {
    fn users(&self) -> Vec<Range<u32>> {
        let hosts = self.0.hosts.borrow();
        hosts.values().map(|host| host.users.clone()).collect()
    }

    fn ask(&self, place: usize, question: Bytes) -> Working<'_, Bytes> {
        let (answer, answered) = oneshot::channel();
        if let Some(host) = self.0.hosts.borrow_mut().values_mut().nth(place) {
            if let Some((_, writer)) = &host.connection {
                writer.send(Message::with(Head::Question, question.clone()));
            }
            host.questions.push_back((question, answer));
        }
        Box::pin(async { answered.await.map_err(|_| Error::Interrupted) })
    }
}
