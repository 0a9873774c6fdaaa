//! The ways between two processes of one simulation.

use std::sync::mpsc::{Receiver, Sender, channel};

use crate::error::{Error, Result};

/// A way to another process of the same simulation, on which whole messages travel in order.
pub trait Link: Send {
    /// Sends a message.
    ///
    /// # Errors
    /// [`Error::RankLost`] if the other side is not there any more.
    fn send(&mut self, message: Vec<u8>) -> Result<()>;

    /// Waits for the next message.
    ///
    /// # Errors
    /// As [`Self::send`].
    fn receive(&mut self) -> Result<Vec<u8>>;
}

/// A way to another thread of this process, by which tests run several ranks without any other process.
struct InMemory {
    other_side: u32,
    to: Sender<Vec<u8>>,
    from: Receiver<Vec<u8>>,
}

/// Returns both ends of a way within this process: rank 0's, and that of the rank `rank`.
pub fn in_memory(rank: u32) -> (Box<dyn Link>, Box<dyn Link>) {
    let (down, from_zero) = channel();
    let (up, from_rank) = channel();
    let of_zero = InMemory { other_side: rank, to: down, from: from_rank };
    (Box::new(of_zero), Box::new(InMemory { other_side: 0, to: up, from: from_zero }))
}

impl InMemory {
    fn lost(&self) -> Error {
        Error::rank_lost(self.other_side, "its thread has ended")
    }
}

impl Link for InMemory {
    fn send(&mut self, message: Vec<u8>) -> Result<()> {
        self.to.send(message).map_err(|_| self.lost())
    }

    fn receive(&mut self) -> Result<Vec<u8>> {
        self.from.recv().map_err(|_| self.lost())
    }
}
