//! Room for what a peer has sent and nobody has handled yet.
//!
//! A reader that is faster than who handles its messages would fill the memory. So it waits while the
//! room is full, and the peer waits with it: TCP holds it back. It must not wait while this end needs
//! something of the peer, since that comes behind what fills the room. Then the room grows, up to
//! what an honest peer may have on its way.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The bytes of messages that a connection has room for.
pub(crate) const ROOM: usize = 64 << 20;

/// The bytes that a message takes beside its payload, or less.
pub(crate) const OF_A_MESSAGE: usize = 256;

/// The room of a connection.
pub(crate) struct Room {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    taken: usize,
    /// What it grows to while the peer is needed.
    most: usize,
    is_needed: bool,
    is_closed: bool,
}

/// The place of one message, which is free again once this is dropped.
pub(crate) struct Place {
    room: Arc<Room>,
    bytes: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.state().taken -= self.bytes;
        self.room.changed.notify_all();
    }
}

/// Returns the bytes that an honest peer with so many users may have on its way, beside those that
/// there is always room for: a message of each user.
pub(crate) fn of_users(users: usize, largest: u32) -> usize {
    users.saturating_mul(largest as usize + OF_A_MESSAGE)
}

impl Room {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                taken: 0,
                most: ROOM,
                is_needed: false,
                is_closed: false,
            }),
            changed: Condvar::new(),
        })
    }

    /// Has it grow by so many bytes while the peer is needed.
    pub(crate) fn allow(&self, more: usize) {
        self.state().most = ROOM.saturating_add(more);
    }

    /// Says whether this end waits for something of the peer.
    pub(crate) fn needs_peer(&self, is_needed: bool) {
        self.state().is_needed = is_needed;
        self.changed.notify_all();
    }

    /// Has nobody wait for room any more, since the connection has ended.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// Takes the place of a message with so long a payload. Waits while the room is full, and then
    /// takes one whatever its length.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] for a peer that sends more than it may, and
    /// [`io::ErrorKind::ConnectionAborted`] if the connection has ended meanwhile.
    pub(crate) fn take(self: &Arc<Self>, payload: usize) -> io::Result<Place> {
        let bytes = payload + OF_A_MESSAGE;
        let waits = |state: &mut State| state.taken >= ROOM && !state.is_needed && !state.is_closed;
        let waited = self.changed.wait_while(self.state(), waits);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.is_closed {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if state.taken >= state.most {
            let reason = "it sends more than its users have to say";
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        state.taken += bytes;
        drop(state);
        let room = Arc::clone(self);
        Ok(Place { room, bytes })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that holds it can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// If this fails, a peer that sends faster than this end handles fills the memory, or is not read
    /// any more once there is room.
    #[test]
    fn a_reader_waits_while_the_room_is_full() {
        let room = Room::new();
        let first = room.take(ROOM).unwrap();
        let (got, gets) = channel();
        thread::scope(|scope| {
            let waits = &room;
            scope.spawn(move || got.send(waits.take(9).map(drop)).unwrap());
            let early = gets.recv_timeout(Duration::from_millis(20));
            assert_eq!(early.unwrap_err(), RecvTimeoutError::Timeout);
            drop(first);
            gets.recv().unwrap().unwrap();
        });
        assert_eq!(room.state().taken, 0);
    }

    /// If this fails, an answer that is needed never comes, since what fills the room lies before it; or
    /// a peer that owes an answer fills the memory.
    #[test]
    fn a_peer_that_is_needed_has_more_room_and_no_more_than_its_users() {
        let room = Room::new();
        room.allow(of_users(2, 100));
        let _first = room.take(ROOM).unwrap();
        room.needs_peer(true);
        let _second = room.take(500).unwrap();
        let error = room.take(1).map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        room.needs_peer(false);
        room.close();
        let error = room.take(1).map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    }
}
