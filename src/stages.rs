//! Measures where the time of a run goes, stage by stage: `cargo run --release --features stage-times -- run ...`.
//!
//! A stage is entered with [`enter`] and left when the guard is dropped. A stage that is entered within another one
//! stops the other's watch, so every nanosecond of a thread counts once. Without the feature `stage-times` these
//! functions do nothing: no clock is read. In no build does a time reach a result (contract 1).

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The server picks a cohort.
    Select,
    /// A table becomes a frame: the broadcast and every upload.
    Encode,
    /// Distinct rows are collected, and those of the download and of the private table brought side by side.
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

#[cfg(feature = "stage-times")]
pub use recording::{Watch, enter, table};

/// A stage that is being timed until this is dropped.
#[cfg(not(feature = "stage-times"))]
#[must_use]
#[derive(Debug)]
pub struct Watch(());

/// Enters `stage`.
#[cfg(not(feature = "stage-times"))]
#[inline(always)]
pub const fn enter(_stage: Stage) -> Watch {
    Watch(())
}

/// Returns milliseconds per round by stage, all threads together; empty without the feature `stage-times`.
#[cfg(not(feature = "stage-times"))]
pub const fn table() -> String {
    String::new()
}

#[cfg(feature = "stage-times")]
mod recording {
    use std::cell::Cell;
    use std::fmt::Write;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Instant;

    use super::Stage;

    static NANOSECONDS: [AtomicU64; Stage::ALL.len()] = [const { AtomicU64::new(0) }; Stage::ALL.len()];
    static ENTERED: [AtomicU64; Stage::ALL.len()] = [const { AtomicU64::new(0) }; Stage::ALL.len()];

    thread_local! {
        /// The current stage of this thread, and when it began.
        static OPEN: Cell<Option<(Stage, Instant)>> = const { Cell::new(None) };
    }

    /// A stage that is being timed until this is dropped.
    #[must_use]
    #[derive(Debug)]
    pub struct Watch {
        outer: Option<Stage>,
    }

    /// Enters `stage`.
    pub fn enter(stage: Stage) -> Watch {
        ENTERED[stage as usize].fetch_add(1, Ordering::Relaxed);
        Watch { outer: switch_to(Some(stage)) }
    }

    impl Drop for Watch {
        fn drop(&mut self) {
            switch_to(self.outer);
        }
    }

    /// Adds the time of the current stage to its total, starts the next one, and returns which one it was.
    fn switch_to(next: Option<Stage>) -> Option<Stage> {
        let now = Instant::now();
        let (stage, since) = OPEN.replace(next.map(|stage| (stage, now)))?;
        NANOSECONDS[stage as usize].fetch_add((now - since).as_nanos() as u64, Ordering::Relaxed);
        Some(stage)
    }

    /// Returns milliseconds per round by stage, all threads together.
    pub fn table() -> String {
        let read = |cells: &[AtomicU64], stage: Stage| cells[stage as usize].load(Ordering::Relaxed);
        let rounds = read(&ENTERED, Stage::Select).max(1) as f64;
        let busy = Stage::ALL.iter().filter(|stage| **stage != Stage::Wait);
        let total: u64 = busy.map(|stage| read(&NANOSECONDS, *stage)).sum();
        let mut text = format!("{:<18} {:>12} {:>7} {:>12}\n", "stage", "ms a round", "share", "times");
        for stage in Stage::ALL {
            let nanoseconds = read(&NANOSECONDS, stage) as f64;
            let share = match stage {
                Stage::Wait => String::new(),
                _ => format!("{:.1} %", 100.0 * nanoseconds / total as f64),
            };
            let (milliseconds, times) = (nanoseconds / rounds / 1e6, read(&ENTERED, stage) as f64 / rounds);
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:<18} {milliseconds:>12.3} {share:>7} {times:>12.1}", stage.name());
        }
        let _ =
            writeln!(text, "{:<18} {:>12.3}   over all threads, waiting left out", "sum", total as f64 / rounds / 1e6);
        text
    }
}
