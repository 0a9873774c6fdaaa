//! Room for what a peer has sent and nobody has handled yet.
//!
//! A peer that sends faster than its messages are handled would fill the memory. An honest one has no more on
//! its way than two messages of each of its users, so that one with more is cut off. To stop reading instead would
//! hold an honest peer back: what it sends is handled when a training ends or a round does, and its own writes
//! would take too long meanwhile.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of messages that a connection has room for, whoever its peer is.
pub(crate) const ROOM: usize = 64 << 20;

/// The bytes that a message takes beside its payload, or less.
pub(crate) const OF_A_MESSAGE: usize = 256;

/// The room of a connection.
pub(crate) struct Room {
    taken: AtomicUsize,
    most: AtomicUsize,
}

/// The place of one message, which is free again once this is dropped.
pub(crate) struct Place {
    room: Arc<Room>,
    bytes: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Returns the bytes that an honest peer with so many users may have on its way, beside those that
/// there is always room for: two messages of each user, one of which may be of a participation that is over.
pub(crate) fn of_users(users: usize, largest: u32) -> usize {
    users.saturating_mul(2 * (largest as usize + OF_A_MESSAGE))
}

impl Room {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            taken: AtomicUsize::new(0),
            most: AtomicUsize::new(ROOM),
        })
    }

    /// Has it grow by so many bytes.
    pub(crate) fn allow(&self, more: usize) {
        let most = ROOM.saturating_add(more);
        self.most.store(most, Ordering::Relaxed);
    }

    /// Takes the place of a message with so long a payload, whatever its length, unless the room is full.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] for a peer that sends more than it may.
    pub(crate) fn take(self: &Arc<Self>, payload: usize) -> io::Result<Place> {
        if self.taken.load(Ordering::Relaxed) >= self.most.load(Ordering::Relaxed) {
            let reason = "it sends more than its users have to say";
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        let bytes = payload + OF_A_MESSAGE;
        // One thread reads, so that nobody else takes a place meanwhile.
        self.taken.fetch_add(bytes, Ordering::Relaxed);
        let room = Arc::clone(self);
        Ok(Place { room, bytes })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// If this fails, a peer that sends faster than this end handles fills the memory, or an honest one is cut
    /// off.
    #[test]
    fn a_peer_has_room_for_the_messages_of_its_users() {
        let room = Room::new();
        let first = room.take(ROOM).unwrap();
        assert_eq!(
            room.take(1).map(drop).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        room.allow(of_users(2, 100));
        let _second = room.take(1_500).unwrap();
        assert!(room.take(1).is_err());
        drop(first);
        room.take(1).unwrap();
    }
}
