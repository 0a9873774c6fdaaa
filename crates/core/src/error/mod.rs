//! Defines the one error type, which says what went wrong and where.
//!
//! A variant is a kind of place to look at (a line, a file, a round and user), not a module that
//! failed. The exit code of a command follows from it.

mod kind;
mod who;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::ids::{Round, UserId};

pub use kind::ErrorKind;
pub use who::Who;

/// Result with the crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can stop a command, with the place that a user has to look at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A scenario or a study file with mistakes; the text lists every one with line and column.
    #[error("{report}")]
    Scenario {
        /// The rendered list of faults.
        report: String,
        /// Number of faults in the list.
        faults: usize,
    },
    /// A request that cannot be carried out as given: a command-line value, an output folder, a
    /// cohort that does not fit the data.
    #[error("{0}")]
    Usage(String),
    /// Memory that is not there; the text says what it was for, or what would fit.
    #[error("{0}")]
    Memory(String),
    /// An input file that cannot be read.
    #[error("cannot read {}: {reason}", shown(path))]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason, or where the file can be had.
        reason: String,
    },
    /// A data set that cannot be had from where it was to come from.
    #[error("cannot fetch {address}: {reason}")]
    Fetch {
        /// The address.
        address: String,
        /// What went wrong, and what to do.
        reason: String,
    },
    /// A result that cannot be written.
    #[error("cannot write {}: {source}", shown(path))]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A ratings file with content that cannot be used.
    #[error("{}:{line}: {message}", shown(path))]
    MalformedLine {
        /// The file.
        path: PathBuf,
        /// Line, counted from one.
        line: u64,
        /// The reason.
        message: String,
    },
    /// A name that no user of the run has.
    #[error("{place}there is no user {name:?}: {remark}")]
    UnknownUser {
        /// Where the name stands, with a colon; nothing if that is plain.
        place: String,
        /// The name.
        name: String,
        /// A name that may be meant, or the key of the scenario that leaves the user out.
        remark: String,
    },
    /// A data set that is readable but does not allow the requested evaluation or training.
    #[error("{0}")]
    Dataset(String),
    /// What a run asks for that a user's ratings, or what its device holds, do not allow.
    #[error("{user}: {reason}")]
    OfUser {
        /// In which way it ends a run or a command.
        kind: ErrorKind,
        /// The user.
        user: Who,
        /// What is not there, and what to do.
        reason: String,
    },
    /// Parameters that became non-finite or larger than the scenario's divergence limit.
    #[error(
        "training diverged in round {} ({}): {parameter} reached {value:e} (limit {limit:e}); lower the learning rates or the regulariser's weight",
        round.0 + 1,
        who(user)
    )]
    Diverged {
        /// The round, numbered from zero.
        round: Round,
        /// The user whose training produced the value; `None` for a step of the server.
        user: Option<Who>,
        /// The parameter, by its name in the papers.
        parameter: Cow<'static, str>,
        /// The offending value (its magnitude, or NaN).
        value: f32,
        /// The largest magnitude that the scenario allows.
        limit: f32,
    },
    /// No ranking or prediction can be made for a user, because the server sent values that are not
    /// finite.
    #[error(
        "training diverged: {place} cannot be computed from what {user} has received; lower the learning rates or the regulariser's weight, or send values with finer steps"
    )]
    Unscorable {
        /// The user.
        user: Who,
        /// What cannot be computed.
        place: Cow<'static, str>,
    },
    /// A system of equations that a method cannot solve, because a regulariser weighs too little
    /// for what it is added to, or because training has diverged.
    #[error(
        "the system of equations of {system} has no solution {}: {cause}; give the regulariser more weight, or lower the learning rates",
        place_of(*round, user)
    )]
    Singular {
        /// The round, numbered from zero; `None` where a device scores.
        round: Option<Round>,
        /// The user whose device has the system; `None` for a step of the server.
        user: Option<Who>,
        /// The system of equations.
        system: Cow<'static, str>,
        /// Why that cannot be done.
        cause: String,
    },
    /// The code of a method that cannot go on, such as an exception of one that is written in
    /// another language.
    #[error("the method `{method}` failed {}: {reason}", place_of(*round, user))]
    MethodFailed {
        /// The method's name.
        method: String,
        /// The round, numbered from zero, if it is known.
        round: Option<Round>,
        /// The user that the method was at work for; `None` for a step of the server.
        user: Option<Who>,
        /// What went wrong.
        reason: String,
    },
    /// A value that the codec of its block has no symbol for.
    #[error(
        "cannot encode {place}: the value {value:e} {reason}; choose other values in `codec`, or lower the learning rates"
    )]
    Unrepresentable {
        /// The block, and where it was to be sent.
        place: String,
        /// The value.
        value: f32,
        /// Why the codec cannot represent the value.
        reason: Cow<'static, str>,
    },
    /// A frame cannot be decoded.
    #[error("cannot decode a frame: {0}")]
    Frame(String),
    /// A table update that contradicts itself or meets a table of another shape: a defect of the
    /// simulator.
    #[error("cannot use a table update: {0}")]
    Update(String),
    /// Bytes do not balance, which is a defect of the simulator, so the run is refused.
    #[error("the byte ledger does not balance: {0}")]
    Unbalanced(String),
    /// A figure of the report that is not a finite number. JSON would write it as `null`, and a
    /// reader would take it for "not measured", so the report is refused.
    #[error("the report is refused: {place} is {value}, not a finite number")]
    NonFinite {
        /// Path of the figure in the run record, such as `accuracy.test.hr@10`.
        place: String,
        /// The value, which is NaN or an infinity.
        value: f64,
    },
    /// An actor stopped answering, which is a defect of the simulator.
    #[error("the {actor} actor did not answer: {reason}")]
    Actor {
        /// Name of the actor.
        actor: &'static str,
        /// The reason, as far as it is known.
        reason: String,
    },
    /// A saved state that cannot be restored: it is damaged, of another version, scenario or data
    /// set, or missing.
    #[error("cannot resume: {0}")]
    Unrestorable(String),
    /// The user stopped the run.
    #[error("interrupted")]
    Interrupted,
    /// A layer above ended a run early, for a reason that it has a type for. See
    /// [`Self::ended_by`].
    #[error("{0}")]
    Ended(Box<dyn std::error::Error + Send + Sync>),
    /// An error of another process or of the command line. Only its kind and its message are known.
    #[error("{message}")]
    Told {
        /// In which way it ends a run or a command.
        kind: ErrorKind,
        /// What it says.
        message: String,
    },
}

impl Error {
    /// Returns the error of a failure to write `path`.
    pub fn write(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Write {
            path: path.into(),
            source,
        }
    }

    /// Returns the error of a failure to read `path`.
    pub fn read(path: impl Into<PathBuf>, reason: impl ToString) -> Self {
        Self::Read {
            path: path.into(),
            reason: reason.to_string(),
        }
    }

    /// Returns the error of a failure to fetch `address`.
    pub fn fetch(address: impl Into<String>, reason: impl ToString) -> Self {
        Self::Fetch {
            address: address.into(),
            reason: reason.to_string(),
        }
    }

    /// Returns the refusal of a build without `feature`, which `does` what was asked for.
    pub fn without_feature(feature: &str, does: &str) -> Self {
        Self::Usage(format!(
            "this program was built without the feature `{feature}`, which {does}; build the command with \
             `cargo install --path . --features {feature}`, or a program of your own with \
             `features = [\"{feature}\"]` at `fedrecsim` in its Cargo.toml"
        ))
    }

    /// Returns why a layer above ended a run early, if the reason is of type `R`.
    pub fn ended_by<R: std::error::Error + 'static>(&self) -> Option<&R> {
        match self {
            Self::Ended(reason) => reason.downcast_ref(),
            _ => None,
        }
    }

    /// Returns the error with `whole` added to its place, if it is about a value that a codec
    /// cannot represent (a block becomes the block of an upload), or with `whole` as the key that has the
    /// name of an unknown user.
    pub fn within(mut self, whole: impl std::fmt::Display) -> Self {
        match &mut self {
            Self::Unrepresentable { place, .. } if place.is_empty() => *place = whole.to_string(),
            Self::Unrepresentable { place, .. } => *place = format!("{place} of {whole}"),
            Self::UnknownUser { place, .. } => *place = format!("{whole}: "),
            _ => {}
        }
        self
    }

    /// Returns the error with its round, if it is the failure of a method that does not know which
    /// one it is.
    pub fn in_round(mut self, of_round: Round) -> Self {
        if let Self::MethodFailed { round, .. } = &mut self {
            round.get_or_insert(of_round);
        }
        self
    }

    /// Has the message say the user's name beside its number, as `who` tells it.
    #[must_use]
    pub fn naming(mut self, who: impl Fn(UserId) -> Who) -> Self {
        let user = match &mut self {
            Self::Unscorable { user, .. } | Self::OfUser { user, .. } => Some(user),
            Self::Diverged { user, .. }
            | Self::Singular { user, .. }
            | Self::MethodFailed { user, .. } => user.as_mut(),
            _ => None,
        };
        if let Some(user) = user {
            *user = who(user.id);
        }
        self
    }
}

/// Returns a path on one line: a name may hold the end of one, and what commands a terminal.
fn shown(path: &Path) -> String {
    let escaped = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    path.to_string_lossy().chars().map(escaped).collect()
}

/// Returns in words where a method was at work.
fn place_of(round: Option<Round>, user: &Option<Who>) -> String {
    let who = who(user);
    round.map_or_else(
        || format!("({who})"),
        |round| format!("in round {} ({who})", round.0 + 1),
    )
}

/// Returns in words for whom a method was at work.
fn who(user: &Option<Who>) -> String {
    let at_the_server = || "at the server".to_owned();
    user.as_ref().map_or_else(at_the_server, Who::to_string)
}
