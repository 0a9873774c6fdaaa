//! Says how an error ends a run or a command.

use serde::{Deserialize, Serialize};

use super::Error;

/// How an error ends a run or a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorKind {
    /// The input was refused before anything ran.
    RefusedInput,
    /// The ratings do not allow what was asked for, which may show before a run or in it.
    UnfitData,
    /// The run ended early, and the rounds before that are its result.
    EndOfRun,
    /// There is no result, because a file cannot be written or the simulator has a defect.
    Failure,
}

impl Error {
    /// Returns how an error ends a run or a command. Exit codes and runs go by this one list.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Scenario { .. }
            | Self::Usage(_)
            | Self::Read { .. }
            | Self::MalformedLine { .. }
            | Self::UnknownUser { .. }
            | Self::Unrestorable(_) => ErrorKind::RefusedInput,
            Self::Dataset(_) => ErrorKind::UnfitData,
            Self::Ended(_)
            | Self::Diverged { .. }
            | Self::Unscorable { .. }
            | Self::Singular { .. }
            | Self::MethodFailed { .. }
            | Self::Unrepresentable { .. }
            | Self::NonFinite { .. }
            | Self::Interrupted => ErrorKind::EndOfRun,
            Self::OfUser { kind, .. } | Self::Told { kind, .. } => *kind,
            Self::Fetch { .. }
            | Self::Write { .. }
            | Self::Memory(_)
            | Self::Frame(_)
            | Self::Update(_)
            | Self::Unbalanced(_)
            | Self::Actor { .. } => ErrorKind::Failure,
        }
    }

    /// Returns whether a run that ends with this error still has a result, which is its finished
    /// rounds.
    pub fn leaves_a_result(&self) -> bool {
        matches!(self.kind(), ErrorKind::UnfitData | ErrorKind::EndOfRun)
    }

    /// Returns the process exit code: 2 if the input is wrong (the scenario, the command line, the
    /// ratings that they name), 1 if the run itself failed.
    pub fn exit_code(&self) -> u8 {
        match self.kind() {
            ErrorKind::RefusedInput | ErrorKind::UnfitData => 2,
            ErrorKind::EndOfRun | ErrorKind::Failure => 1,
        }
    }
}
