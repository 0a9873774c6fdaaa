//! Measures where the time of a run goes, stage by stage, for `--stage-times`.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::{Error, Result};
use fedrecsim_core::stages::{Stage, TARGET};
use fedrecsim_report::{Cell, Table};

/// The time of every stage so far. A stage that is entered within another one stops the other's
/// watch, so every nanosecond of a thread counts once.
#[derive(Debug, Default)]
pub(super) struct StageTimes {
    nanoseconds: [AtomicU64; Stage::ALL.len()],
    entered: [AtomicU64; Stage::ALL.len()],
}

/// The stages that a thread is in, the innermost one last, and the time since which that one has
/// been measured.
#[derive(Default)]
struct Open {
    stages: Vec<usize>,
    since: Option<Instant>,
}

thread_local! {
    static OPEN: RefCell<Open> = RefCell::default();
}

impl StageTimes {
    /// Begins to measure the stages of this process, which can be done once.
    ///
    /// # Errors
    /// [`Error::Usage`] if somebody else has subscribed to the spans of this process.
    pub(super) fn measure() -> Result<Arc<Self>> {
        let times = Arc::new(Self::default());
        tracing::subscriber::set_global_default(Arc::clone(&times)).map_err(|reason| {
            Error::Usage(format!("the times of stages cannot be measured: {reason}"))
        })?;
        Ok(times)
    }

    /// Adds the time of the innermost stage of this thread to its total, and changes which one that
    /// is.
    fn switch(&self, change: impl FnOnce(&mut Vec<usize>)) {
        OPEN.with_borrow_mut(|Open { stages, since }| {
            let now = Instant::now();
            if let (Some(&stage), Some(began)) = (stages.last(), *since) {
                self.nanoseconds[stage]
                    .fetch_add((now - began).as_nanos() as u64, Ordering::Relaxed);
            }
            change(stages);
            *since = Some(now);
        });
    }

    /// Returns milliseconds per round by stage, all threads together.
    pub(super) fn table(&self) -> String {
        let read =
            |cells: &[AtomicU64], stage: Stage| cells[stage as usize].load(Ordering::Relaxed);
        let rounds = read(&self.entered, Stage::Select).max(1) as f64;
        let milliseconds = |stage| read(&self.nanoseconds, stage) as f64 / rounds / 1e6;
        let is_busy = |stage: &Stage| *stage != Stage::Wait;
        let total: f64 = Stage::ALL
            .into_iter()
            .filter(is_busy)
            .map(milliseconds)
            .sum();
        let row = |stage: Stage| {
            let share = 100.0 * milliseconds(stage) / total.max(f64::MIN_POSITIVE);
            let share = Some(format!("{share:.1} %")).filter(|_| is_busy(&stage));
            let times = read(&self.entered, stage) as f64 / rounds;
            let shown = format!("{:.3}", milliseconds(stage));
            vec![
                Cell::from(stage.name()),
                Cell::from(shown),
                Cell::from(share.unwrap_or_default()),
                Cell::from(format!("{times:.1}")),
            ]
        };
        let header = ["stage", "ms a round", "share", "times"];
        let rows = Stage::ALL.into_iter().map(row).collect();
        format!(
            "{}sum over all threads, waiting left out: {total:.3} ms a round\n",
            Table::new("", header, rows).terminal()
        )
    }
}

/// The span of a stage has the number of the stage, counted from 1, since a span must not have the
/// number 0.
impl Subscriber for StageTimes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == TARGET
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let stage = Stage::ALL
            .iter()
            .position(|stage| stage.name() == span.metadata().name());
        Id::from_u64(stage.unwrap_or(Stage::ALL.len()) as u64 + 1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, _event: &Event<'_>) {}

    fn enter(&self, span: &Id) {
        let stage = span.into_u64() as usize - 1;
        if let Some(entered) = self.entered.get(stage) {
            entered.fetch_add(1, Ordering::Relaxed);
            self.switch(|stages| stages.push(stage));
        }
    }

    fn exit(&self, span: &Id) {
        if (span.into_u64() as usize) <= Stage::ALL.len() {
            self.switch(|stages| {
                stages.pop();
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedrecsim_core::stages::enter;

    /// If this fails, the time of a stage within another one counts twice, or for the wrong one, or
    /// not at all.
    #[test]
    fn every_stage_counts_for_itself() {
        let times = Arc::new(StageTimes::default());
        tracing::subscriber::with_default(Arc::clone(&times), || {
            let _training = enter(Stage::Train);
            for _ in 0..3 {
                let _inner = enter(Stage::Encode);
            }
            Stage::ALL.map(enter).into_iter().rev().for_each(drop);
        });
        let entered = Stage::ALL.map(|stage| times.entered[stage as usize].load(Ordering::Relaxed));
        assert_eq!(
            entered,
            Stage::ALL.map(|stage| 1
                + u64::from(stage == Stage::Train)
                + 3 * u64::from(stage == Stage::Encode))
        );
        assert!(OPEN.with_borrow(|open| open.stages.is_empty()));
        let table = times.table();
        assert!(
            Stage::ALL.iter().all(|stage| table.contains(stage.name())),
            "{table}"
        );
    }
}
