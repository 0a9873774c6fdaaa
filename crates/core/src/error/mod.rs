//! Defines the one error type, which says what went wrong and where.
//!
//! A variant is a kind of place to look at (a line, a file, a round and user), not a module that
//! failed. The exit code of a command follows from it.

mod kind;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::ids::{Round, UserId};
use crate::units::{SimDuration, SimTime};

pub use kind::ErrorKind;

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
    #[error("cannot read {}: {reason}", path.display())]
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
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A checkpoint that was due could not be written.
    ///
    /// This ends the run: one that went on would have more to lose to a crash than was asked for,
    /// and its report goes to the same disk.
    #[error("cannot write the checkpoint after round {rounds} to {}: {source}; {}", path.display(), way_on(path, *left))]
    CheckpointUnwritten {
        /// The name that the checkpoint would have had.
        path: PathBuf,
        /// Number of rounds that are over.
        rounds: u32,
        /// Number of rounds after which the newest checkpoint that is left was made, if there is
        /// one.
        left: Option<u32>,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A ratings file with content that cannot be used.
    #[error("{}:{line}: {message}", path.display())]
    MalformedLine {
        /// The file.
        path: PathBuf,
        /// Line, counted from one.
        line: u64,
        /// What is wrong there.
        message: String,
    },
    /// A data set that is readable but does not allow the requested evaluation or training.
    #[error("{0}")]
    Dataset(String),
    /// Parameters that became non-finite or larger than the scenario's divergence limit.
    #[error(
        "training diverged in round {} ({}): {parameter} reached {value:e} (limit {limit:e}); lower the learning rates or the regulariser's weight",
        round.0 + 1,
        user.map_or_else(|| "at the server".to_owned(), |user| user.to_string())
    )]
    Diverged {
        /// The round, numbered from zero.
        round: Round,
        /// The user whose training produced the value; `None` for a step of the server.
        user: Option<UserId>,
        /// The parameter, by its name in the papers.
        parameter: Cow<'static, str>,
        /// The offending value (its magnitude, or NaN).
        value: f32,
        /// The largest magnitude that the scenario allows.
        limit: f32,
    },
    /// A user for whom no ranking or prediction can be made, because what the server has sent is no
    /// longer finite.
    #[error(
        "training diverged: {place} cannot be computed from what {user} has received; lower the learning rates or the regulariser's weight, or send values with finer steps"
    )]
    Unscorable {
        /// The user.
        user: UserId,
        /// What cannot be computed.
        place: Cow<'static, str>,
    },
    /// A system of equations that a method cannot solve, because a regulariser weighs too little
    /// for what it is added to, or because training has diverged.
    #[error(
        "the system of equations of {system} has no solution {}: {cause}; give the regulariser more weight, or lower the learning rates",
        place_of(*round, *user)
    )]
    Singular {
        /// The round, numbered from zero; `None` where a device scores.
        round: Option<Round>,
        /// The user whose device has the system; `None` for a step of the server.
        user: Option<UserId>,
        /// What was to be solved for.
        system: Cow<'static, str>,
        /// Why that cannot be done.
        cause: String,
    },
    /// The code of a method that cannot go on, such as an exception of one that is written in
    /// another language.
    #[error("the method `{method}` failed {}: {reason}", place_of(*round, *user))]
    MethodFailed {
        /// The method's name.
        method: String,
        /// The round, numbered from zero, if it is known.
        round: Option<Round>,
        /// The user for whom the method was at work; `None` for a step of the server.
        user: Option<UserId>,
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
        /// What the codec asks of a value.
        reason: Cow<'static, str>,
    },
    /// Virtual time beyond what 64 bits of nanoseconds hold, which is 584 years.
    #[error("round {} takes longer than 584 years of virtual time ({user}); check the network's and the devices' speeds", round.0 + 1)]
    TimeOverflow {
        /// The round, numbered from zero.
        round: Round,
        /// The user whose participation takes so long.
        user: UserId,
    },
    /// A number of steps of the server in a row had no update that arrived in time.
    #[error(
        "nobody finished in the last {steps} steps of the server, which is in round {}: no update arrived in time; check the deadline, the server's link, who stays available, the dropouts and the faults, or raise training.empty_rounds_limit",
        round.0 + 1
    )]
    NobodyFinished {
        /// The round of the step that was not begun, numbered from zero.
        round: Round,
        /// The number of steps that were empty.
        steps: u32,
    },
    /// A run that came to its end without one update that was used, so that its method learned
    /// nothing.
    #[error(
        "the run has learned nothing: {participations} participation{} in {rounds} round{}, and {}",
        if *participations == 1 { "" } else { "s" }, if *rounds == 1 { "" } else { "s" },
        if *uploads_were_empty {
            "no upload carried a value; check what `codec.uplink` selects"
        } else {
            "no update was ever used; check the dropouts, the faults, the deadline and the server's link"
        }
    )]
    NothingLearned {
        /// Number of rounds.
        rounds: u32,
        /// Number of invitations.
        participations: u64,
        /// Whether updates were used that carried no value.
        uploads_were_empty: bool,
    },
    /// A round of an asynchronous mode that gets no update.
    #[error(
        "no update arrives in round {}: {participations} participations in a row came to nothing; check the dropouts, the faults and the availability, or raise training.empty_rounds_limit",
        round.0 + 1
    )]
    NothingArrives {
        /// The round, numbered from zero.
        round: Round,
        /// Number of participations that came to nothing.
        participations: u64,
    },
    /// A round without anybody to invite.
    #[error(
        "nobody can be invited to round {}: the server has waited since {:.0} s, and within {:.0} s of virtual time (training.waiting_limit_s) nobody becomes available whom it may pick{}",
        round.0 + 1, at.as_secs_f64(), limit.as_secs_f64(), who_rests(*resting)
    )]
    NobodyAvailable {
        /// The round, numbered from zero.
        round: Round,
        /// The instant since which the server has been waiting.
        at: SimTime,
        /// The time that the server may wait.
        limit: SimDuration,
        /// Users who may not be picked because they were invited to this round or the last one.
        resting: u32,
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
    /// A process that owns a part of the users is not there any more, so that the run ends with its
    /// finished rounds.
    #[error("rank {rank} of the run was lost: {reason}; {}", way_on.as_deref().unwrap_or("there is no checkpoint to go on from"))]
    RankLost {
        /// The number of the process.
        rank: u32,
        /// How that was noticed.
        reason: String,
        /// What to do, if there is a checkpoint.
        way_on: Option<String>,
    },
    /// A run cannot go on from a checkpoint: it is damaged, of another version, scenario or data
    /// set, or missing.
    #[error("cannot resume: {0}")]
    Checkpoint(String),
    /// The wall-clock time that the run was given is over.
    #[error(
        "stopped after round {rounds}, as the wall-clock time of --max-wall-time was over; `resume` goes on from there"
    )]
    TimeIsUp {
        /// Number of rounds that are over.
        rounds: u32,
    },
    /// A run came to another result than was expected of it.
    #[error("the result digest is {found}, and --expect-digest {expected} was given")]
    OtherDigest {
        /// The beginning of the digest that was expected (hexadecimal).
        expected: String,
        /// The digest of the run (hexadecimal).
        found: String,
    },
    /// Runs of a study have failed. The others have their results, and the tables mark those that
    /// failed.
    #[error(
        "{failed} of {runs} runs of the study failed; the tables mark them, and the same command tries them again"
    )]
    RunsFailed {
        /// Number of runs that failed.
        failed: usize,
        /// Number of runs of the study, or of its part.
        runs: usize,
    },
    /// The user stopped the run.
    #[error("interrupted")]
    Interrupted,
    /// The run has reached the virtual time up to which it was to go.
    #[error("stopped at {} s of virtual time, as asked", at.as_secs_f64())]
    Stopped {
        /// The virtual time that it has reached.
        at: SimTime,
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

    /// Returns the error of a process of the run that is not there any more.
    pub fn rank_lost(rank: u32, reason: impl ToString) -> Self {
        Self::RankLost {
            rank,
            reason: reason.to_string(),
            way_on: None,
        }
    }

    /// Returns the error with `way_on` as what to do, if it is that of a process which is not there
    /// any more.
    pub fn with_way_on(self, way_on: Option<String>) -> Self {
        match self {
            Self::RankLost {
                rank,
                reason,
                way_on: None,
            } => Self::RankLost {
                rank,
                reason,
                way_on,
            },
            other => other,
        }
    }

    /// Returns the error with `whole` added to its place, if it is about a value that a codec
    /// cannot represent: a block becomes the block of an upload.
    pub fn within(self, whole: impl std::fmt::Display) -> Self {
        match self {
            Self::Unrepresentable {
                place,
                value,
                reason,
            } => {
                let place = if place.is_empty() {
                    whole.to_string()
                } else {
                    format!("{place} of {whole}")
                };
                Self::Unrepresentable {
                    place,
                    value,
                    reason,
                }
            }
            other => other,
        }
    }

    /// Returns the error with its round, if it is the failure of a method that does not know which
    /// one it is.
    pub fn in_round(self, of_round: Round) -> Self {
        match self {
            Self::MethodFailed {
                method,
                round,
                user,
                reason,
            } => Self::MethodFailed {
                method,
                round: round.or(Some(of_round)),
                user,
                reason,
            },
            other => other,
        }
    }
}

/// Returns in words what to do after a checkpoint could not be written to `path`.
fn way_on(path: &Path, left: Option<u32>) -> String {
    let folder = path.parent().unwrap_or(path).display();
    match left {
        Some(rounds) => format!(
            "that after round {rounds} is left: see to the cause, and go on from there with `fedrecsim resume {folder}`"
        ),
        None => {
            "there is none before it: see to the cause, and begin anew with --overwrite".to_owned()
        }
    }
}

/// Returns in words where a method was at work.
fn place_of(round: Option<Round>, user: Option<UserId>) -> String {
    let who = user.map_or_else(|| "at the server".to_owned(), |user| user.to_string());
    round.map_or_else(
        || format!("({who})"),
        |round| format!("in round {} ({who})", round.0 + 1),
    )
}

/// Returns in words how many users `never-twice-in-a-row` keeps from taking part; empty if it keeps
/// nobody.
fn who_rests(resting: u32) -> String {
    match resting {
        0 => String::new(),
        1 => "; 1 user rests (`never-twice-in-a-row`)".to_owned(),
        many => format!("; {many} users rest (`never-twice-in-a-row`)"),
    }
}
