//! The other ranks, as rank 0 reaches them from the program's start to its end. At first all agree
//! on what they are about to run.

use serde::Serialize;

use super::link::{Link, Parcel};
use super::wire::{Outbox, Question};
use fedrecsim_core::{Error, Result};

/// The inputs that the ranks of a run must have in common: a name and a text for each, such as the
/// scenario.
pub type Identity = Vec<(String, String)>;

/// A rank's answer before the first round: its data, or why it cannot go on.
type Hello = std::result::Result<Vec<u8>, String>;

/// What rank 0 answers; `None` if the run does not begin.
type Answer = Option<Vec<u8>>;

/// Tells rank 0 what this rank is about to run, or why it cannot, and waits for the answer. Returns
/// whether the run goes on.
///
/// # Errors
/// [`Stop::ProcessLost`](fedrecsim_sim::Stop::ProcessLost) if rank 0 is gone.
pub fn announce(
    link: &mut dyn Link,
    identity: std::result::Result<Identity, String>,
) -> Result<bool> {
    let identity = match identity {
        Ok(identity) => Ok(encoded(&identity)?),
        Err(reason) => Err(reason),
    };
    Ok(contribute(link, identity)?.is_some())
}

/// Tells rank 0 the totals of this rank's users, or why there are none, and returns the totals of
/// all users; `None` if the run does not go on.
///
/// # Errors
/// As [`announce`].
pub fn contribute(
    link: &mut dyn Link,
    share: std::result::Result<Vec<u8>, String>,
) -> Result<Option<Vec<u8>>> {
    link.send(Parcel::last(encoded::<Hello>(&share)?))?;
    Ok(postcard::from_bytes::<Answer>(&link.receive()?.bytes).unwrap_or(None))
}

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
        Self::of(links, false)
    }

    /// Makes the crew of the other ranks, which are about to [`announce`] what they run.
    pub fn assembling(links: Vec<Box<dyn Link>>) -> Self {
        Self::of(links, true)
    }

    fn of(links: Vec<Box<dyn Link>>, speak: bool) -> Self {
        Self {
            speaks: vec![speak; links.len()],
            owed: vec![0; links.len()],
            links,
        }
    }

    /// Returns the number of all ranks.
    pub fn ranks(&self) -> usize {
        self.links.len() + 1
    }

    /// Asks the other rank at `place`, which is one less than its number. Its answer is taken in as
    /// it comes.
    ///
    /// # Errors
    /// `Stop::ProcessLost` if it is not there any more.
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

    /// Receives what every rank is about to run, and lets all of them go on if it is the same as on
    /// rank 0. They speak once more unless it is the last time.
    ///
    /// # Errors
    /// `Error::Usage` for the first rank that is about to run
    /// something else, or cannot.
    pub fn agree(&mut self, own: &Identity, is_last: bool) -> Result<()> {
        self.hear(&mut |rank, theirs| compare(rank, theirs, own))?;
        self.tell(Vec::new(), !is_last)
    }

    /// Receives the totals of every rank's users, gives them to `add`, and sends the resulting
    /// `whole` to all ranks. They speak once more.
    ///
    /// # Errors
    /// As [`Self::agree`], and those of `add` and `whole`.
    pub fn combine(
        &mut self,
        add: &mut dyn FnMut(&[u8]) -> Result<()>,
        whole: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<()> {
        self.hear(&mut |_, share| add(share))?;
        self.tell(whole()?, true)
    }

    /// Hears what every rank has to say, in their order.
    fn hear(&mut self, each: &mut dyn FnMut(usize, &[u8]) -> Result<()>) -> Result<()> {
        for (place, link) in self.links.iter_mut().enumerate() {
            self.speaks[place] = false;
            let rank = place + 1;
            match postcard::from_bytes::<Hello>(&link.receive()?.bytes) {
                Ok(Ok(said)) => each(rank, &said)?,
                Ok(Err(reason)) => {
                    let refusal = format!("rank {rank} cannot begin: {reason}");
                    return Err(Error::Usage(refusal));
                }
                Err(_) => return Err(otherwise(rank)),
            }
        }
        Ok(())
    }

    /// Answers all ranks, which then speak `once_more` or do not.
    fn tell(&mut self, answer: Vec<u8>, once_more: bool) -> Result<()> {
        let answer = encoded::<Answer>(&Some(answer))?;
        for (place, link) in self.links.iter_mut().enumerate() {
            link.send(Parcel::last(answer.clone()))?;
            self.speaks[place] = once_more;
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
                let end = encoded::<Answer>(&None).map(Parcel::last);
                let _ = end.and_then(|end| link.send(end));
                continue;
            }
            let stop = Outbox::default().message(Vec::new(), Question::Stop);
            // A rank that is not there any more need not be told.
            let _ = stop.and_then(|mut stop| link.send(Parcel::of(&mut stop, true)?));
        }
    }
}

/// Compares what a rank is about to run with what rank 0 runs.
///
/// # Errors
/// [`Error::Usage`], with what differs.
fn compare(rank: usize, theirs: &[u8], own: &Identity) -> Result<()> {
    let theirs: Identity = postcard::from_bytes(theirs).map_err(|_| otherwise(rank))?;
    let text_of = |name: &str| {
        theirs
            .iter()
            .find(|(other, _)| other == name)
            .map_or("nothing", |(_, text)| text)
    };
    let Some((name, text)) = own.iter().find(|(name, text)| text_of(name) != text) else {
        return Ok(());
    };
    let difference = difference(text, text_of(name));
    Err(Error::Usage(format!(
        "rank {rank} has {difference} as its {name}; all ranks of a run must have the same program, scenario and data"
    )))
}

fn encoded<T: Serialize>(what: &T) -> Result<Vec<u8>> {
    postcard::to_stdvec(what).map_err(|reason| Error::Usage(reason.to_string()))
}

fn otherwise(rank: usize) -> Error {
    Error::Usage(format!(
        "rank {rank} starts differently; it may be another build of the program"
    ))
}

/// Returns both texts in words that follow "has", or their first lines that differ.
fn difference(own: &str, theirs: &str) -> String {
    let lines = own
        .lines()
        .zip(theirs.lines())
        .find(|(own, theirs)| own != theirs);
    let (own, theirs) = lines.unwrap_or((own, theirs));
    let short = |text: &str| text.chars().take(300).collect::<String>();
    format!("`{}` where rank 0 has `{}`", short(theirs), short(own))
}
