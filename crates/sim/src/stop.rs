//! Why a run ends before its last round, or ends in vain. The finished rounds are its result.

use std::path::{Path, PathBuf};

use fedrecsim_core::{Error, Round, SimDuration, SimTime, Who, shell_word};

/// The reasons why a run ends before its last round, or ends in vain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Stop {
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
    /// Virtual time beyond what 64 bits of nanoseconds hold, which is 584 years.
    #[error(
        "round {} goes on beyond 584 years of virtual time, where the clock ends{}; check the speeds of the network, of the devices and of the server, the delays and the deadline, or run fewer rounds",
        round.0 + 1, user.as_ref().map_or_else(String::new, |user| format!(" ({user})"))
    )]
    TimeOverflow {
        /// The round, numbered from zero.
        round: Round,
        /// A user whose participation goes on beyond the end, if one is under way.
        user: Option<Who>,
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
        "nobody can be invited to round {}: the server has waited since {:.0} s, and {}{}",
        round.0 + 1, at.as_secs_f64(), who_comes(*limit, *comes), who_rests(*resting)
    )]
    NobodyAvailable {
        /// The round, numbered from zero.
        round: Round,
        /// The instant since which the server has been waiting.
        at: SimTime,
        /// The time that the server may wait.
        limit: SimDuration,
        /// Whether somebody whom it may pick comes later.
        comes: bool,
        /// Users who may not be picked because they were invited to this round or the last one.
        resting: u32,
    },
    /// A process that has a part of the users is gone.
    #[error("rank {rank} of the run was lost: {reason}; {}", way_on.as_deref().unwrap_or("there is no checkpoint to go on from"))]
    ProcessLost {
        /// The number of the process.
        rank: u32,
        /// How that was noticed.
        reason: String,
        /// What to do, if there is a checkpoint.
        way_on: Option<String>,
    },
    /// A process with devices never answered what it was asked, however often it came back.
    #[error(
        "the process of the users {first}..{last} was asked {times} times without an answer: {reason}; look at its own output and its memory, \
         start it again, and go on from the last checkpoint with `serve --resume`"
    )]
    Unanswered {
        /// The first user of the process.
        first: u32,
        /// The last one.
        last: u32,
        /// How often it was asked.
        times: u32,
        /// What became of the last time.
        reason: String,
    },
    /// The wall-clock time that the run was given is over.
    #[error(
        "stopped after round {rounds}, as the wall-clock time of --max-wall-time was over; `resume` goes on from there"
    )]
    TimeIsUp {
        /// Number of rounds that are over.
        rounds: u32,
    },
    /// The run has reached the virtual time that it was to reach.
    #[error("stopped at {} s of virtual time, as asked", at.as_secs_f64())]
    Stopped {
        /// The virtual time that it has reached.
        at: SimTime,
    },
}

impl Stop {
    /// Returns the error of a process of the run that is not there any more.
    pub fn process_lost(rank: u32, reason: impl ToString) -> Error {
        let lost = Self::ProcessLost {
            rank,
            reason: reason.to_string(),
            way_on: None,
        };
        lost.into()
    }

    /// Returns an error with what to do if it is the loss of another process and does not say so
    /// yet.
    pub(crate) fn with_way_on(mut error: Error, advice: Option<&str>) -> Error {
        if let Error::Ended(reason) = &mut error
            && let Some(Self::ProcessLost { way_on, .. }) = reason.downcast_mut()
            && way_on.is_none()
        {
            *way_on = advice.map(str::to_owned);
        }
        error
    }
}

impl From<Stop> for Error {
    fn from(stop: Stop) -> Self {
        Self::Ended(Box::new(stop))
    }
}

/// Returns in words what to do after a checkpoint could not be written to `path`.
fn way_on(path: &Path, left: Option<u32>) -> String {
    let folder = shell_word(&path.parent().unwrap_or(path).to_string_lossy());
    match left {
        Some(rounds) => format!(
            "the one after round {rounds} is still there: remove the cause, then go on with `fedrecsim resume {folder}`"
        ),
        None => {
            "there is none before it: remove the cause, then begin anew with --overwrite".to_owned()
        }
    }
}

/// Returns in words that nobody comes in time, or ever.
fn who_comes(limit: SimDuration, comes: bool) -> String {
    let limit = limit.as_secs_f64();
    match comes {
        true => format!(
            "no user whom it may pick becomes available within {limit:.0} s of virtual time (training.waiting_limit_s)"
        ),
        false => {
            "no user whom it may pick is ever available again: look at `availability`".to_owned()
        }
    }
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
