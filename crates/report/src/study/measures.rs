//! Names what the tables of a study have columns and rows for: quantities of runs, and what was
//! spent until a goal.

use super::quantities::Quantity;
use super::reach::Goal;

/// Says what is counted until a goal is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpentOn {
    /// Bytes sent by clients.
    Up,
    /// Bytes sent in both directions.
    Both,
    /// Virtual time.
    Time,
}

/// Names something that a table has a column or a row for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// A quantity of the run as a whole.
    Whole(Quantity),
    /// What was spent until a share of a best accuracy was reached.
    Until {
        /// Whose best accuracy it is.
        goal: Goal,
        /// The share, in percent.
        percent: u32,
        /// What is counted.
        spent: SpentOn,
    },
}

impl Measure {
    /// Returns the name in CSV files, with the unit first where a goal follows.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Whole(quantity) => quantity.name().into_owned(),
            Self::Until {
                goal,
                percent,
                spent,
            } => {
                let what = match spent {
                    SpentOn::Up => "up_bytes",
                    SpentOn::Both => "bytes",
                    SpentOn::Time => "virtual_time_s",
                };
                let whose = match goal {
                    Goal::Own => "own",
                    Goal::Compared => "compared",
                };
                format!("{what}_to_{percent}_percent_of_{whose}_best")
            }
        }
    }
}
