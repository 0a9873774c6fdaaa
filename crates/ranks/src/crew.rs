//! The other ranks, as rank 0 reaches them from the beginning of the program to its end: at first all
//! agree on what they are about to run.

use serde::{Deserialize, Serialize};

use super::link::{Link, Parcel};
use super::wire::{Outbox, Question};
use fedrecsim_core::error::{Error, Result};

/// What the ranks of a run must have in common: a name and a text for each, such as the scenario.
pub type Identity = Vec<(String, String)>;

/// What a rank says before the first round.
#[derive(Serialize, Deserialize)]
enum Hello {
    /// It is about to run this.
    Ready(Identity),
    /// It knows this of its users, and waits for what is known of all.
    Share(Vec<u8>),
    /// It cannot go on.
    Failed(String),
}

/// What rank 0 answers.
#[derive(Serialize, Deserialize)]
enum Answer {
    /// All agree.
    Go,
    /// This is known of all users.
    Whole(Vec<u8>),
    /// The run does not begin.
    End,
}

/// Tells rank 0 what this rank is about to run, or why it cannot, and waits for the answer. Returns
/// whether the run goes on.
///
/// # Errors
/// `Stop::ProcessLost` if rank 0 is not there any more.
pub fn announce(
    link: &mut dyn Link,
    identity: std::result::Result<Identity, String>,
) -> Result<bool> {
    say(link, &identity.map_or_else(Hello::Failed, Hello::Ready))?;
    Ok(matches!(
        postcard::from_bytes(&link.receive()?.bytes),
        Ok(Answer::Go)
    ))
}

/// Tells rank 0 what is known of the users of this rank, or why nothing is, and returns what is
/// known of all; `None` if the run does not go on.
///
/// # Errors
/// As [`announce`].
pub fn contribute(
    link: &mut dyn Link,
    share: std::result::Result<Vec<u8>, String>,
) -> Result<Option<Vec<u8>>> {
    say(link, &share.map_or_else(Hello::Failed, Hello::Share))?;
    Ok(match postcard::from_bytes(&link.receive()?.bytes) {
        Ok(Answer::Whole(whole)) => Some(whole),
        Ok(Answer::Go | Answer::End) | Err(_) => None,
    })
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

    /// Makes the crew of the other ranks, each of which is about to [`announce`]
    /// what it runs.
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

    /// Hears what every rank is about to run, and has all of them go on if that is what rank 0
    /// runs. They speak once more unless it is the last time.
    ///
    /// # Errors
    /// `Error::Usage` for the first rank that is about to run
    /// something else, or cannot.
    pub fn agree(&mut self, own: &Identity, is_last: bool) -> Result<()> {
        for (place, link) in self.links.iter_mut().enumerate() {
            self.speaks[place] = false;
            hear(place + 1, link.as_mut(), own)?;
        }
        for (place, link) in self.links.iter_mut().enumerate() {
            say(link.as_mut(), &Answer::Go)?;
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
            say(link.as_mut(), &Answer::Whole(whole.clone()))?;
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
                let _ = say(link.as_mut(), &Answer::End);
                continue;
            }
            let stop = Outbox::default().message(Vec::new(), Question::Stop);
            // A rank that is not there any more need not be told.
            let _ = stop.and_then(|mut stop| link.send(Parcel::of(&mut stop, true)?));
        }
    }
}

/// Hears what the rank on the other side of `link`, of this number, is about to run, and compares
/// it with `own`.
///
/// # Errors
/// [`Error::Usage`], with what differs or why the rank cannot run, and `Stop::ProcessLost`.
fn hear(rank: usize, link: &mut dyn Link, own: &Identity) -> Result<()> {
    let theirs = match heard(rank, link)? {
        Hello::Ready(theirs) => theirs,
        Hello::Share(_) | Hello::Failed(_) => return Err(otherwise(rank)),
    };
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

/// Hears what the rank on the other side of `link`, of this number, knows of its users.
///
/// # Errors
/// As [`hear`].
fn hear_share(rank: usize, link: &mut dyn Link) -> Result<Vec<u8>> {
    match heard(rank, link)? {
        Hello::Share(share) => Ok(share),
        Hello::Ready(_) | Hello::Failed(_) => Err(otherwise(rank)),
    }
}

fn say(link: &mut dyn Link, what: &impl Serialize) -> Result<()> {
    link.send(Parcel::last(
        postcard::to_stdvec(what).map_err(|reason| Error::Usage(reason.to_string()))?,
    ))
}

fn heard(rank: usize, link: &mut dyn Link) -> Result<Hello> {
    match postcard::from_bytes(&link.receive()?.bytes) {
        Ok(Hello::Failed(reason)) => {
            Err(Error::Usage(format!("rank {rank} cannot begin: {reason}")))
        }
        Ok(hello) => Ok(hello),
        Err(_) => Err(otherwise(rank)),
    }
}

fn otherwise(rank: usize) -> Error {
    Error::Usage(format!(
        "rank {rank} begins in another way; it may be another build of the program"
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
