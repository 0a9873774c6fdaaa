//! The agreement of all ranks on what they are about to run, before the first round.

use serde::{Deserialize, Serialize};

use super::link::{Link, Parcel};
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
/// [`Error::RankLost`] if rank 0 is not there any more.
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

/// Hears what the rank on the other side of `link`, of this number, is about to run, and compares
/// it with `own`.
///
/// # Errors
/// [`Error::Usage`], with what differs or why the rank cannot run, and [`Error::RankLost`].
pub(super) fn hear(rank: usize, link: &mut dyn Link, own: &Identity) -> Result<()> {
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
pub(super) fn hear_share(rank: usize, link: &mut dyn Link) -> Result<Vec<u8>> {
    match heard(rank, link)? {
        Hello::Share(share) => Ok(share),
        Hello::Ready(_) | Hello::Failed(_) => Err(otherwise(rank)),
    }
}

/// Lets the rank on the other side go on.
pub(super) fn let_go_on(link: &mut dyn Link) -> Result<()> {
    say(link, &Answer::Go)
}

/// Tells the rank on the other side what is known of all users.
pub(super) fn tell_whole(link: &mut dyn Link, whole: &[u8]) -> Result<()> {
    say(link, &Answer::Whole(whole.to_vec()))
}

/// Tells the rank on the other side that the run does not begin.
pub(super) fn tell_end(link: &mut dyn Link) -> Result<()> {
    say(link, &Answer::End)
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
