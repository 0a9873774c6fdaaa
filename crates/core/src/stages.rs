//! Names the stages of a run, as spans of `tracing`.
//!
//! A stage is entered with [`enter`] and left when the guard is dropped. Whoever wants to know
//! where the time of a run goes subscribes to the target [`TARGET`], as `run --stage-times` does.
//! Where nobody subscribes, a stage costs one load and one branch, and no clock is read. In no case
//! does a time reach a result (contract 1).

use tracing::span::EnteredSpan;
use tracing::trace_span;

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The server picks a cohort.
    Select,
    /// A table becomes a frame: the broadcast and every upload.
    Encode,
    /// Distinct rows are collected, and those of the download and of the private table brought side
    /// by side.
    Gather,
    /// Training negatives are drawn.
    SampleNegatives,
    /// Local steps, all epochs; link and dropout of the participation are drawn.
    Train,
    /// Trained rows go back into the private table.
    Scatter,
    /// A frame becomes a table: the broadcast once, and every upload.
    Decode,
    /// The server averages.
    Aggregate,
    /// Candidates are scored and held-out items ranked.
    Evaluate,
    /// Events, bookings, ledger and digest.
    Simulate,
    /// Messages: from a question to its answer, less the time that the answer took to work out.
    Actors,
    /// The arbiter's thread waits for the workers.
    Wait,
}

impl Stage {
    /// All stages, in the order of a round.
    pub const ALL: [Self; 12] = [
        Self::Select,
        Self::Encode,
        Self::Gather,
        Self::SampleNegatives,
        Self::Train,
        Self::Scatter,
        Self::Decode,
        Self::Aggregate,
        Self::Evaluate,
        Self::Simulate,
        Self::Actors,
        Self::Wait,
    ];

    /// Returns the stage's name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Select => "select",
            Self::Encode => "encode",
            Self::Gather => "gather",
            Self::SampleNegatives => "sample negatives",
            Self::Train => "train",
            Self::Scatter => "scatter",
            Self::Decode => "decode",
            Self::Aggregate => "aggregate",
            Self::Evaluate => "evaluate",
            Self::Simulate => "simulate",
            Self::Actors => "actors",
            Self::Wait => "wait for workers",
        }
    }
}

/// The target of the spans, by which a subscriber tells them from those of other crates.
pub const TARGET: &str = "fedrecsim::stage";

/// Enters `stage` until the returned guard is dropped.
#[inline]
pub fn enter(stage: Stage) -> EnteredSpan {
    /// Makes the span of the stage. Each stage needs a place of its own in the code, where
    /// `tracing` keeps whether anybody listens.
    macro_rules! span {
        ($($name:ident)*) => {
            match stage {
                $(Stage::$name => trace_span!(target: TARGET, Stage::$name.name()),)*
            }
        };
    }
    span!(Select Encode Gather SampleNegatives Train Scatter Decode Aggregate Evaluate Simulate Actors Wait).entered()
}
