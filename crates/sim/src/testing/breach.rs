//! The clauses of the contract, and the error that says which one a method breaks.

use std::fmt;

use fedrecsim_core::Error;

/// A promise that every method keeps. The simulator relies on all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Clause {
    /// Parameters that the schema does not allow are refused, by name.
    Parameters,
    /// The method announces the size of every block that it makes.
    Sizes,
    /// Two clients that have just been made for one user score alike, in finite numbers.
    FreshClients,
    /// Training comes to its end, an update has the layout that the method announces, and something
    /// has changed.
    Uploads,
    /// The score of an item does not depend on the other items that are asked for.
    ScoresAlone,
    /// Training does not depend on what the buffers were used for before.
    Buffers,
    /// A snapshot is the client as it was, and trains on like it.
    Snapshots,
    /// A client that is saved and restored has the same state, scores alike and trains on alike.
    SavedState,
    /// No value of the private state stands in a frame.
    PrivateState,
    /// The same scenario and seed give the same digest, in another run and with another number of
    /// threads.
    Repeats,
    /// Runs with dropouts, every codec, few participants or other ways to evaluate come to their
    /// end, in finite numbers, and every byte is accounted for.
    EveryWorld,
    /// The same holds for codecs that lose something in both directions.
    LossyCodecs,
    /// A run that goes on from a checkpoint ends as one that was never stopped.
    Resumes,
}

/// A clause that a method breaks, with what was seen.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("method `{method}` breaks the clause {clause:?} ({promise}): {seen}")]
#[non_exhaustive]
pub struct Breach {
    /// The name of the method.
    pub method: String,
    /// The clause.
    pub clause: Clause,
    /// The promise of the clause, in words.
    pub promise: &'static str,
    /// The observation instead, in words.
    pub seen: String,
}

/// Prints the breach as [`Display`](fmt::Display) does, since the test harness prints errors in
/// this way.
impl fmt::Debug for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The observation of a check that breaks a clause's promise, in words.
#[derive(Debug)]
pub(crate) struct Seen(pub String);

impl From<String> for Seen {
    fn from(seen: String) -> Self {
        Self(seen)
    }
}

impl From<Error> for Seen {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

/// Returns what was seen of two things that differ in a `place`, if they do.
pub(crate) fn alike(place: Option<String>, what: &str) -> Result<(), Seen> {
    place.map_or(Ok(()), |place| Err(Seen(format!("{what}{place}"))))
}

/// Returns what was seen, unless `holds` is true.
pub(crate) fn ensure(holds: bool, seen: impl FnOnce() -> String) -> Result<(), Seen> {
    if holds { Ok(()) } else { Err(Seen(seen())) }
}
