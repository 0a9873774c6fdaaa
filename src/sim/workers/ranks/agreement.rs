//! The agreement of all ranks on what they are about to run, before the first round.

use serde::{Deserialize, Serialize};

use super::link::Link;
use crate::error::{Error, Result};

/// What the ranks of a run must have in common: a name and a text for each, such as the scenario.
pub type Identity = Vec<(String, String)>;

/// What a rank says when it has read its input.
#[derive(Serialize, Deserialize)]
enum Hello {
    /// It could read everything.
    Ready(Identity),
    /// It could not.
    Failed(String),
}

/// What rank 0 answers if all agree. Anything else means the end.
const GO: &[u8] = b"go";

/// Tells rank 0 what this rank is about to run, or why it cannot, and waits for the answer. Returns whether the run begins.
///
/// # Errors
/// [`Error::RankLost`] if rank 0 is not there any more.
pub fn announce(link: &mut dyn Link, identity: std::result::Result<Identity, String>) -> Result<bool> {
    let hello = identity.map_or_else(Hello::Failed, Hello::Ready);
    link.send(postcard::to_stdvec(&hello).map_err(|reason| Error::Usage(reason.to_string()))?)?;
    Ok(link.receive()? == GO)
}

/// Hears what the rank on the other side of `link`, of this number, is about to run, and compares it with `own`.
///
/// # Errors
/// [`Error::Usage`], with what differs or why the rank cannot run, and [`Error::RankLost`].
pub(super) fn hear(rank: usize, link: &mut dyn Link, own: &Identity) -> Result<()> {
    let unreadable = |_| Error::Usage(format!("rank {rank} speaks otherwise; it is another build of the program"));
    let theirs = match postcard::from_bytes(&link.receive()?).map_err(unreadable)? {
        Hello::Ready(theirs) => theirs,
        Hello::Failed(reason) => return Err(Error::Usage(format!("rank {rank} cannot begin: {reason}"))),
    };
    let text_of = |name: &str| theirs.iter().find(|(other, _)| other == name).map_or("nothing", |(_, text)| text);
    let Some((name, text)) = own.iter().find(|(name, text)| text_of(name) != text) else { return Ok(()) };
    let difference = difference(text, text_of(name));
    Err(Error::Usage(format!(
        "rank {rank} has {difference} as its {name}; all ranks of a run must have the same program, scenario and data"
    )))
}

/// Lets the rank on the other side begin.
pub(super) fn let_begin(link: &mut dyn Link) -> Result<()> {
    link.send(GO.to_vec())
}

/// Returns both texts in words that follow "has", or their first lines that differ.
fn difference(own: &str, theirs: &str) -> String {
    let lines = own.lines().zip(theirs.lines()).find(|(own, theirs)| own != theirs);
    let (own, theirs) = lines.unwrap_or((own, theirs));
    let short = |text: &str| text.chars().take(300).collect::<String>();
    format!("`{}` where rank 0 has `{}`", short(theirs), short(own))
}
