//! Names the stages of a run, as spans of `tracing`.
//!
//! [`enter`] enters a stage, and the drop of its guard leaves it. To see where the time of a run
//! goes, subscribe to the target [`TARGET`], as `run --stage-times` does. Without a subscriber, a
//! stage costs one load and one branch, and no clock is read. No time ever reaches a result
//! (contract 1).

use tracing::span::EnteredSpan;
use tracing::trace_span;

/// The target of the spans, so that a subscriber can tell them from other crates' spans.
pub const TARGET: &str = "fedrecsim::stage";

/// Makes the type of the stages, and [`enter`], from one list. Each stage needs a span in a place of
/// its own in the code, where `tracing` keeps whether anybody listens.
macro_rules! stages {
    ($($(#[$doc:meta])* $stage:ident = $name:literal,)*) => {
        /// The work of a thread.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Stage {
            $($(#[$doc])* $stage,)*
        }

        impl Stage {
            /// All stages, in the order of a round.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$stage),*];

            /// Returns the stage's name in the table.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$stage => $name,)*
                }
            }
        }

        /// Enters `stage` until the returned guard is dropped.
        #[inline]
        pub fn enter(stage: Stage) -> EnteredSpan {
            match stage {
                $(Stage::$stage => trace_span!(target: TARGET, $name),)*
            }
            .entered()
        }
    };
}

stages! {
    /// The server picks a cohort.
    Select = "select",
    /// A table becomes a frame: the broadcast and every upload.
    Encode = "encode",
    /// Distinct rows are collected, and those of the download and of the private table gathered.
    Gather = "gather",
    /// Training negatives are drawn.
    SampleNegatives = "sample negatives",
    /// Local steps, all epochs; link and dropout of the participation are drawn.
    Train = "train",
    /// Trained rows go back into the private table.
    Scatter = "scatter",
    /// A frame becomes a table: the broadcast once, and every upload.
    Decode = "decode",
    /// The server averages.
    Aggregate = "aggregate",
    /// Candidates are scored and held-out items ranked.
    Evaluate = "evaluate",
    /// Events, bookings, ledger and digest.
    Simulate = "simulate",
    /// Messages: from a question to its answer, without the time to compute the answer.
    Actors = "actors",
    /// The arbiter's thread waits for the workers.
    Wait = "wait for workers",
}
