//! The processes that have devices, as the server knows them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Notify;

use super::accept::Coming;
use super::connection::{ConnectionId, Writer};
use super::host::{Host, Lost};
use super::message::{Head, Message, Participant, to};
use super::questions::Questions;
use fedrecsim_core::UserId;

/// What a process that comes means for the run.
#[derive(Debug)]
pub(crate) struct Joined {
    /// What is lost with its connection before.
    pub lost: Option<Lost>,
    /// Whether its devices have lost what they learned in this run, and begin anew.
    pub begins_anew: bool,
}

/// A process whose devices begin anew.
#[derive(Debug)]
pub(crate) struct Anew {
    pub users: Range<u32>,
    /// Whether they had been scored after the last round before.
    pub scored: bool,
}

/// The processes, by the first of their users.
#[derive(Default)]
pub(crate) struct Connections {
    users: u32,
    /// The number of the run.
    run: u64,
    hosts: RefCell<BTreeMap<u32, Host>>,
    /// How long a process may take for an answer.
    answer_within: Duration,
    /// The users of those that have come, until the run has said so.
    came: RefCell<Vec<Range<u32>>>,
    /// Those that have come without what they had learned, until the run takes note.
    anew: RefCell<Vec<Anew>>,
    /// Why peers were refused, until the run has said so.
    refused: RefCell<Vec<String>>,
    /// How many have come so.
    begun_anew: Cell<u64>,
    /// Whether the processes are settled, since the run has begun. Before that, one that goes away
    /// is forgotten.
    settled: Cell<bool>,
    /// Wakes whoever waits for a process to come, or says who is away.
    pub changed: Notify,
}

/// The reasons that are kept until they are told. A server that computes for long tells only of so many.
const REFUSED: usize = 1000;

impl Connections {
    /// Makes the processes of a run with this many users and this number, which answer in this time.
    pub(crate) fn new(users: u32, run: u64, answer_within: Duration) -> Self {
        Self {
            users,
            run,
            answer_within,
            ..Self::default()
        }
    }

    /// Takes in a process that has come, or has come back. Its new connection takes the place of
    /// the one before.
    ///
    /// # Errors
    /// Why it may not take part.
    pub(crate) fn join(
        &self,
        coming: &Coming,
        id: ConnectionId,
        writer: Writer,
    ) -> Result<Joined, String> {
        let users = coming.users.clone();
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
        let host = hosts.entry(first).or_insert_with(|| Host::of(users));
        let lost = host.connection.is_some().then(|| host.lost());
        let anew = match coming.run == self.run {
            true => None,
            false => host.asked_anew(),
        };
        let begins_anew = anew.is_some();
        // Before the beginning is asked for, which may be one of them.
        host.questions.give_up(&host.users);
        if let Some(anew) = anew {
            // What has waited was made for devices that knew more.
            host.waiting.clear();
            if !host.questions.is_asked(&anew) {
                // The answer is not waited for. A process whose devices cannot begin ends by itself.
                host.questions.ask_before_others(anew);
            }
            self.begun_anew.set(self.begun_anew.get() + 1);
            let (users, scored) = (coming.users.clone(), true);
            let mut all = self.anew.borrow_mut();
            // Devices that begin anew twice before the run takes note have begun anew.
            if !all.iter().any(|anew| anew.scored && anew.users == users) {
                all.push(Anew { users, scored });
            }
        }
        writer.send(Message::new(Head::Welcome));
        // What is taken comes first, as scores depend on it.
        for taken in host.taken.iter() {
            let to = to((*taken.0, *taken.1));
            writer.send(Message::new(Head::Taken { to }));
        }
        host.questions.ask_again(&writer);
        for (user, (invitation, message)) in std::mem::take(&mut host.waiting) {
            host.invited.insert(user, invitation);
            writer.send(message);
        }
        host.connection = Some((id, writer));
        let mut came = self.came.borrow_mut();
        if !came.contains(&coming.users) {
            came.push(coming.users.clone());
        }
        self.changed.notify_one();
        Ok(Joined { lost, begins_anew })
    }

    /// Takes note that a connection has ended, and returns what is lost with it; `None` if it was not
    /// the present one of its process.
    pub(crate) fn gone(&self, id: ConnectionId) -> Option<Lost> {
        let mut hosts = self.hosts.borrow_mut();
        let is_of = |host: &&mut Host| {
            let connection = host.connection.as_ref();
            connection.is_some_and(|(own, _)| *own == id)
        };
        let lost = hosts.values_mut().find(is_of)?.lost();
        if !self.settled.get() {
            hosts.retain(|_, host| host.connection.is_some());
        }
        self.changed.notify_one();
        Some(lost)
    }

    /// Gives an answer to whoever has asked, and returns whether anybody has. An answer to nothing is
    /// nonsense.
    pub(crate) fn answered(&self, id: ConnectionId, answer: Bytes) -> bool {
        let mut hosts = self.hosts.borrow_mut();
        let mut hosts = hosts.values_mut();
        let answered = hosts.find_map(|host| match &host.connection {
            Some((own, _)) if *own == id => Some(&mut host.questions),
            _ => None,
        });
        answered.is_some_and(|questions| questions.answered(answer))
    }

    /// Takes note of a peer that was refused, for this reason, and returns whether nothing was to be
    /// told before.
    pub(crate) fn refused(&self, reason: String) -> bool {
        let mut refused = self.refused.borrow_mut();
        let is_first = refused.is_empty();
        if refused.len() < REFUSED {
            refused.push(reason);
        }
        // A server that waits is to say so now.
        self.changed.notify_one();
        is_first
    }

    /// Returns why peers were refused, once.
    pub(crate) fn were_refused(&self) -> Vec<String> {
        self.refused.take()
    }

    /// Returns the users of the processes that have come, once.
    pub(crate) fn came(&self) -> Vec<Range<u32>> {
        self.came.take()
    }

    /// Returns whether the run has to take note of some that have come without what they had learned.
    pub(crate) fn have_begun_anew(&self) -> bool {
        !self.anew.borrow().is_empty()
    }

    /// Returns the processes that have come without what they had learned, once.
    pub(crate) fn begun_anew(&self) -> Vec<Anew> {
        self.anew.take()
    }

    /// Lets questions to processes that are away have no answer.
    pub(crate) fn stop_asking(&self) {
        for host in self.hosts.borrow_mut().values_mut() {
            if host.connection.is_none() {
                host.questions = Questions::default();
            }
        }
    }

    /// Returns the users of all processes, in ascending order.
    pub(crate) fn users(&self) -> Vec<Range<u32>> {
        let hosts = self.hosts.borrow();
        hosts.values().map(|host| host.users.clone()).collect()
    }

    /// Returns the number of the run.
    pub(crate) fn run(&self) -> u64 {
        self.run
    }

    /// Acts on the questions of the process at this place of the list, with its connection if it has
    /// one.
    pub(crate) fn of_place<T>(
        &self,
        place: usize,
        act: impl FnOnce(&mut Questions, Option<&Writer>) -> T,
    ) -> Option<T> {
        let mut hosts = self.hosts.borrow_mut();
        let host = hosts.values_mut().nth(place)?;
        let writer = host.connection.as_ref().map(|(_, writer)| writer);
        Some(act(&mut host.questions, writer))
    }

    /// Notes what the process at this place is asked as the run begins, and what one that has not been
    /// in the run.
    pub(crate) fn begins_with(&self, place: usize, first: Bytes, anew: Bytes) {
        if let Some(host) = self.hosts.borrow_mut().values_mut().nth(place) {
            host.first_questions = Some((first, anew));
        }
    }

    /// Cuts off the process at this place if its connection has owed an answer for too long, and
    /// returns when to look again.
    pub(crate) fn end_if_silent(&self, place: usize) -> Instant {
        let (now, most) = (Instant::now(), self.answer_within);
        let owed = self.of_place(place, |questions, _| questions.owed_since());
        let ends = owed.flatten().unwrap_or(now) + most;
        if ends <= now {
            self.cut_off(place, &format!("it has owed an answer for {most:?}"));
            return now + most;
        }
        ends
    }

    /// Cuts off the process at this place, for this reason.
    pub(crate) fn cut_off(&self, place: usize, reason: &str) {
        self.of_place(place, |_, writer| {
            writer.iter().for_each(|writer| writer.cut_for(reason));
        });
    }

    /// Returns how many times a process has come whose devices begin anew.
    pub(crate) fn how_often_begun_anew(&self) -> u64 {
        self.begun_anew.get()
    }

    /// Takes note that all are scored, as they are now.
    pub(crate) fn scored(&self) {
        for anew in self.anew.borrow_mut().iter_mut() {
            anew.scored = false;
        }
    }

    /// Invites a user, once its process is there, and returns whether that is now.
    pub(crate) fn invite(&self, (user, invitation): Participant, message: Message) -> bool {
        self.of(user, |host| {
            let is_there = host.connection.is_some();
            if is_there {
                host.invited.insert(user, invitation);
                host.send(message);
            } else {
                host.waiting.insert(user, (invitation, message));
            }
            is_there
        })
        .unwrap_or(false)
    }

    /// Tells the process of a user something about its participation.
    pub(crate) fn tell(&self, (user, invitation): Participant, message: Message) {
        self.of(user, |host| {
            match message.head {
                Head::Taken { .. } => drop(host.taken.insert(user, invitation)),
                Head::Cancel { .. } => drop(host.waiting.remove(&user)),
                _ => {}
            }
            host.send(message);
        });
    }

    fn of<T>(&self, user: UserId, act: impl FnOnce(&mut Host) -> T) -> Option<T> {
        let mut hosts = self.hosts.borrow_mut();
        let (_, host) = hosts.range_mut(..=user.0).next_back()?;
        host.users.contains(&user.0).then(|| act(host))
    }

    /// Returns whether a user's process has this connection.
    pub(crate) fn has(&self, id: ConnectionId, user: u32) -> bool {
        let has = |host: &mut Host| matches!(&host.connection, Some((own, _)) if *own == id);
        self.of(UserId(user), has).unwrap_or(false)
    }

    /// Tells all processes that the run is over, and waits until that is written. None is waited for
    /// before all are told.
    pub(crate) fn say_bye(&self) {
        let hosts = self.hosts.borrow();
        let writers = hosts.values().filter_map(|host| host.connection.as_ref());
        let told: Vec<_> = writers
            .map(|(_, writer)| (writer, writer.say_bye()))
            .collect();
        for (writer, deadline) in told {
            writer.wait_until(deadline);
        }
    }

    /// Takes note that the run begins with these processes.
    pub(crate) fn settle(&self) {
        self.settled.set(true);
    }

    /// Returns whether the run has begun.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled.get()
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
