//! The other ranks, as rank 0 reaches them from the beginning of the program to its end.

use super::agreement::{Identity, hear, hear_share, let_go_on, tell_end, tell_whole};
use super::link::{Link, Parcel};
use super::wire::{Outbox, Question};
use fedrecsim_core::error::Result;

/// The ways from rank 0 to the other ranks, in their order. When it is dropped, they are told to
/// end.
pub struct Crew {
    links: Vec<Box<dyn Link>>,
    /// Which ranks are about to say something before the first round, and then wait for the answer.
    speaks: Vec<bool>,
    /// How many answers each rank still owes.
    owed: Vec<u32>,
}

impl Crew {
    /// Makes the crew of the other ranks, from number 1 on, which have nothing to agree on.
    pub fn new(links: Vec<Box<dyn Link>>) -> Self {
        Self {
            speaks: vec![false; links.len()],
            owed: vec![0; links.len()],
            links,
        }
    }

    /// Makes the crew of the other ranks, each of which is about to [`announce`](super::announce)
    /// what it runs.
    pub fn assembling(links: Vec<Box<dyn Link>>) -> Self {
        Self {
            speaks: vec![true; links.len()],
            owed: vec![0; links.len()],
            links,
        }
    }

    /// Returns the number of all ranks.
    pub fn ranks(&self) -> usize {
        self.links.len() + 1
    }

    /// Returns the number of the other ranks.
    pub(super) fn others(&self) -> usize {
        self.links.len()
    }

    /// Asks the other rank at `place`, which is one less than its number. Its answer is taken in as
    /// it comes.
    ///
    /// # Errors
    /// [`Error::RankLost`](fedrecsim_core::error::Error::RankLost) if it is not there any more.
    pub(super) fn ask(&mut self, place: usize, question: Parcel) -> Result<()> {
        self.links[place].send(question)?;
        self.links[place].expect();
        self.owed[place] += 1;
        Ok(())
    }

    /// Returns the next part of the answer of the rank at `place`.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(super) fn answer(&mut self, place: usize) -> Result<Parcel> {
        let part = self.links[place].receive()?;
        self.owed[place] -= u32::from(part.is_last);
        Ok(part)
    }

    /// Hears what every rank is about to run, and has all of them go on if that is what rank 0
    /// runs. They speak once more unless it is the last time.
    ///
    /// # Errors
    /// [`Error::Usage`](fedrecsim_core::error::Error::Usage) for the first rank that is about to run
    /// something else, or cannot.
    pub fn agree(&mut self, own: &Identity, is_last: bool) -> Result<()> {
        for (place, link) in self.links.iter_mut().enumerate() {
            self.speaks[place] = false;
            hear(place + 1, link.as_mut(), own)?;
        }
        for (place, link) in self.links.iter_mut().enumerate() {
            let_go_on(link.as_mut())?;
            self.speaks[place] = !is_last;
        }
        Ok(())
    }

    /// Hears what every rank knows of its users, gives it to `add`, and tells all ranks the `whole`
    /// that comes of it. They speak once more.
    ///
    /// # Errors
    /// As [`Self::agree`], and those of `add` and `whole`.
    pub fn combine(
        &mut self,
        add: &mut dyn FnMut(&[u8]) -> Result<()>,
        whole: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<()> {
        for (place, link) in self.links.iter_mut().enumerate() {
            self.speaks[place] = false;
            add(&hear_share(place + 1, link.as_mut())?)?;
        }
        let whole = whole()?;
        for (place, link) in self.links.iter_mut().enumerate() {
            tell_whole(link.as_mut(), &whole)?;
            self.speaks[place] = true;
        }
        Ok(())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for (place, link) in self.links.iter_mut().enumerate() {
            // A rank that has something to say waits until it was heard, before the first round and
            // after.
            if self.speaks[place] && link.receive().is_err() {
                continue;
            }
            let mut owed = self.owed[place];
            while owed > 0 {
                let Ok(part) = link.receive() else { break };
                owed -= u32::from(part.is_last);
            }
            if self.speaks[place] {
                let _ = tell_end(link.as_mut());
                continue;
            }
            let stop = Outbox::default().message(Vec::new(), Question::Stop);
            // A rank that is not there any more need not be told.
            let _ = stop.and_then(|mut stop| link.send(Parcel::of(&mut stop, true)?));
        }
    }
}
