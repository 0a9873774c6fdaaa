//! The other ranks, as rank 0 reaches them from the beginning of the program to its end.

use super::agreement::{Identity, hear, let_begin};
use super::link::Link;
use super::wire::{Outbox, Question};
use crate::error::Result;

/// The ways from rank 0 to the other ranks, in their order. When it is dropped, they are told to end.
pub struct Crew {
    links: Vec<Box<dyn Link>>,
    /// The number of ranks that have said what they are about to run.
    heard: usize,
}

impl Crew {
    /// Makes the crew of the other ranks, from number 1 on, which have nothing to agree on.
    pub fn new(links: Vec<Box<dyn Link>>) -> Self {
        Self { heard: links.len(), links }
    }

    /// Makes the crew of the other ranks, each of which is about to [`announce`](super::announce) what it runs.
    pub fn assembling(links: Vec<Box<dyn Link>>) -> Self {
        Self { heard: 0, links }
    }

    /// Returns the number of all ranks.
    pub fn ranks(&self) -> usize {
        self.links.len() + 1
    }

    /// Returns the number of the other ranks.
    pub(super) fn others(&self) -> usize {
        self.links.len()
    }

    /// Returns the way to the other rank at `place`, which is one less than its number.
    pub(super) fn link(&mut self, place: usize) -> &mut dyn Link {
        self.links[place].as_mut()
    }

    /// Hears what every rank is about to run, and has all of them begin if that is what rank 0 runs.
    ///
    /// # Errors
    /// [`Error::Usage`](crate::error::Error::Usage) for the first rank that is about to run something else, or cannot.
    pub fn agree(&mut self, own: &Identity) -> Result<()> {
        while self.heard < self.links.len() {
            self.heard += 1;
            hear(self.heard, self.links[self.heard - 1].as_mut(), own)?;
        }
        self.links.iter_mut().try_for_each(|link| let_begin(link.as_mut()))
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for (place, link) in self.links.iter_mut().enumerate() {
            // A rank that has not been heard waits until it has.
            if place >= self.heard && link.receive().is_err() {
                continue;
            }
            let stop = Outbox::default().message(Vec::new(), Question::Stop).and_then(|mut message| message.take());
            // A rank that is not there any more need not be told.
            let _ = stop.and_then(|message| link.send(message));
        }
    }
}
