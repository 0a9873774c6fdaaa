//! The greetings that are under way. Each has a thread and descriptors, and a peer may stay in one
//! for as long as the silence that is allowed.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::connection::ConnectionId;

/// The peers that have not said who they are, at most. A further one takes the place of the oldest, so
/// that silent peers keep nobody out.
const UNKNOWN: usize = 128;

/// The greetings that are under way, by the connection.
pub(crate) struct Doors {
    greeted: Mutex<BTreeMap<ConnectionId, Greeted>>,
    /// The peers that have said who they are, at most: processes have a user at least.
    known: usize,
}

struct Greeted {
    stream: TcpStream,
    is_known: bool,
}

/// A greeting that is under way until this is dropped. Unless its peer has passed by then, nothing more
/// is read from it: a server whose run is over hears nobody.
pub(crate) struct Door {
    doors: Arc<Doors>,
    id: ConnectionId,
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Some(greeted) = self.doors.greeted().remove(&self.id) {
            let _ = greeted.stream.shutdown(Shutdown::Read);
        }
    }
}

impl Doors {
    /// Makes doors for the processes of so many users.
    pub(crate) fn new(users: usize) -> Arc<Self> {
        Arc::new(Self {
            greeted: Mutex::default(),
            known: users,
        })
    }

    /// Begins a greeting.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn open(self: &Arc<Self>, id: ConnectionId, stream: &TcpStream) -> io::Result<Door> {
        let (stream, is_known) = (stream.try_clone()?, false);
        let mut greeted = self.greeted();
        greeted.insert(id, Greeted { stream, is_known });
        end_oldest(&mut greeted, is_known, UNKNOWN);
        drop(greeted);
        let doors = Arc::clone(self);
        Ok(Door { doors, id })
    }

    fn greeted(&self) -> MutexGuard<'_, BTreeMap<ConnectionId, Greeted>> {
        // Nothing that holds it can panic.
        self.greeted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Door {
    /// Lets the peer in.
    pub(crate) fn pass(self) {
        self.doors.greeted().remove(&self.id);
    }

    /// Notes that the peer has said who it is, so that it may take its time.
    pub(crate) fn is_known(&self) {
        let (mut greeted, is_known) = (self.doors.greeted(), true);
        if let Some(greeted) = greeted.get_mut(&self.id) {
            greeted.is_known = is_known;
        }
        end_oldest(&mut greeted, is_known, self.doors.known);
    }
}

/// Ends the oldest of the greetings of this kind, if there are more than `most`.
fn end_oldest(greeted: &mut BTreeMap<ConnectionId, Greeted>, is_known: bool, most: usize) {
    let mut alike = greeted.iter().filter(|(_, one)| one.is_known == is_known);
    let oldest = alike.next().map(|(id, _)| *id);
    if let Some(oldest) = oldest
        && 1 + alike.count() > most
        && let Some(ended) = greeted.remove(&oldest)
    {
        // Its thread finds its connection ended. One that has ended already cannot be, and need not.
        let _ = ended.stream.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    /// If this fails, peers that say nothing take all descriptors, or keep others out.
    #[test]
    fn a_further_peer_takes_the_place_of_the_oldest_that_has_not_said_who_it_is() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let doors = Doors::new(1);
        let open = |id| {
            let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (stream, _) = listener.accept().unwrap();
            (doors.open(id, &stream).unwrap(), peer, stream)
        };
        let known = open(0);
        known.0.is_known();
        let silent: Vec<_> = (1..=UNKNOWN as u64).map(open).collect();
        let newest = open(1000);
        let is_over = |mut peer: &TcpStream| {
            peer.set_nonblocking(true).unwrap();
            // A connection that is not over would have a reader wait.
            peer.read(&mut [0]).is_ok_and(|read| read == 0)
        };
        let over: Vec<bool> = silent.iter().map(|(_, peer, _)| is_over(peer)).collect();
        assert_eq!(over.iter().position(|over| *over), Some(0));
        assert_eq!(over.iter().filter(|over| **over).count(), 1);
        assert!(!is_over(&known.1) && !is_over(&newest.1));
        // There is one user, and so one process.
        newest.0.is_known();
        assert!(is_over(&known.1) && !is_over(&newest.1));
        drop((known, silent, newest));
        assert!(doors.greeted().is_empty());
    }
}
