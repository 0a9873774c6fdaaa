//! The ways between two processes of one simulation.

use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;

use fedrecsim_core::{Error, Result};
use fedrecsim_model::{Archive, ArchiveReader};
use fedrecsim_sim::Stop;

/// What crosses between two processes at once: a question or the beginning of a run, or an answer
/// or a part of one.
#[derive(Clone, Debug, Default)]
pub struct Parcel {
    /// An archive, or another text that both sides understand.
    pub bytes: Vec<u8>,
    /// Long values that are attached to the archive. They are sent without a copy.
    pub attached: Vec<Bytes>,
    /// Whether no other part of the same answer follows.
    pub is_last: bool,
}

impl Parcel {
    /// Makes a parcel which no other part follows.
    pub(crate) fn last(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            attached: Vec::new(),
            is_last: true,
        }
    }

    /// Takes out what was put into an archive. Data for another part must not have tables or shared
    /// bytes: the archive knows those that it has held, but not the reader of that part.
    ///
    /// # Errors
    /// As [`Archive::take`].
    pub(crate) fn of(archive: &mut Archive, is_last: bool) -> Result<Self> {
        Ok(Self {
            bytes: archive.take()?,
            attached: archive.take_attached(),
            is_last,
        })
    }

    /// Returns the reader of the archive.
    pub fn open(self) -> ArchiveReader {
        ArchiveReader::of_bytes(self.bytes, self.attached)
    }

    /// Returns the number of bytes that cross.
    pub fn length(&self) -> usize {
        self.bytes.len() + self.attached.iter().map(Bytes::len).sum::<usize>()
    }
}

/// A link to another process of the same simulation; parcels arrive in order.
pub trait Link: Send {
    /// Sends a parcel, which may still wait to be on its way when this returns.
    ///
    /// # Errors
    /// `Stop::ProcessLost` if the other side is known not to be there any more.
    fn send(&mut self, parcel: Parcel) -> Result<()>;

    /// Takes in the parcels of the next answer while the caller does something else. By default,
    /// each of them waits until it is received.
    fn expect(&mut self) {}

    /// Waits for the next parcel.
    ///
    /// # Errors
    /// `Stop::ProcessLost` if the other side is not there any more.
    fn receive(&mut self) -> Result<Parcel>;
}

/// A link to another thread of this process, so that tests run several ranks in one process.
struct InMemory {
    other_side: u32,
    to: Sender<Parcel>,
    from: Receiver<Parcel>,
}

/// Returns both ends of a way within this process: rank 0's, and that of the rank `rank`.
pub fn in_memory(rank: u32) -> (Box<dyn Link>, Box<dyn Link>) {
    let (down, from_zero) = channel();
    let (up, from_rank) = channel();
    let of_zero = InMemory {
        other_side: rank,
        to: down,
        from: from_rank,
    };
    (
        Box::new(of_zero),
        Box::new(InMemory {
            other_side: 0,
            to: up,
            from: from_zero,
        }),
    )
}

impl InMemory {
    fn lost(&self) -> Error {
        Stop::process_lost(self.other_side, "its thread has ended")
    }
}

impl Link for InMemory {
    fn send(&mut self, parcel: Parcel) -> Result<()> {
        self.to.send(parcel).map_err(|_| self.lost())
    }

    fn receive(&mut self) -> Result<Parcel> {
        self.from.recv().map_err(|_| self.lost())
    }
}
