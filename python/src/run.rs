//! Carries out a whole run.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::time::Instant;

use fedrecsim_core::metric::Metric;
use fedrecsim_report::Wall;
use fedrecsim_scenario::Loaded;
use fedrecsim_sim::outcome::{ByDirection, Flow, RoundRecord};
use fedrecsim_sim::{self as sim, RoundObserver, RunControl};
use pyo3::prelude::*;

use crate::error::exception;
use crate::inputs::Given;
use crate::report::Report;
use crate::watch::{RoundOver, Told, watched_with_result};

/// Runs a scenario to its end, and returns what remains. `progress` is called with the number of a
/// round that is over, the number of all rounds, the virtual time, the bytes sent so far, and a
/// figure of accuracy. If a signal or `progress` ends it, the exception has what remains as `report`.
#[pyfunction]
#[pyo3(signature = (scenario, threads=None, progress=None))]
pub fn run(
    py: Python<'_>,
    scenario: Given,
    threads: Option<NonZeroUsize>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Report> {
    let started = Instant::now();
    let (
        Loaded {
            scenario: checked,
            warnings,
        },
        world,
    ) = scenario.world(py)?;
    let control = RunControl {
        threads: scenario.threads(threads, &world),
        interrupted: Arc::new(AtomicBool::new(false)),
    };
    let (headline, rounds) = (checked.evaluation.headline(), checked.training.rounds);
    let watched = watched_with_result(py, &control.interrupted, progress.as_ref(), |tell| {
        let mut watch = Watch {
            tell: tell.clone(),
            headline,
            rounds,
            laps: Vec::new(),
            last: Instant::now(),
        };
        let outcome = sim::run(world, &control, &mut watch)?;
        Ok((outcome, watch.laps))
    });
    let (result, raised) = watched?;
    let (outcome, mut laps) = match (result, &raised) {
        (Ok(result), _) => result,
        (Err(error), None) => return Err(exception(error)),
        // Nothing had been finished.
        (Err(_), Some(raised)) => return Err(raised.clone_ref(py)),
    };
    laps.sort_unstable_by(f64::total_cmp);
    let wall = Wall {
        total_s: started.elapsed().as_secs_f64(),
        per_round_ms: laps.get(laps.len() / 2).copied().unwrap_or_default() * 1e3,
        peak_rss_bytes: None,
        threads: control.threads as u32,
    };
    let has_rounds = !outcome.rounds.is_empty();
    let report = Report::of(py, (checked, warnings), outcome, wall);
    let Some(raised) = raised else { return report };
    if let (true, Ok(report)) = (has_rounds, report) {
        raised
            .value(py)
            .setattr("report", Bound::new(py, report)?)?;
    }
    Err(raised)
}

/// Reports rounds and measures their time; neither reaches the result.
struct Watch {
    tell: Sender<Told>,
    headline: Option<Metric>,
    rounds: u32,
    /// The wall-clock seconds between the ends of rounds.
    laps: Vec<f64>,
    last: Instant,
}

impl RoundObserver for Watch {
    fn round_finished(&mut self, round: &RoundRecord, total: ByDirection<Flow>) {
        let now = Instant::now();
        self.laps
            .push((now - std::mem::replace(&mut self.last, now)).as_secs_f64());
        // If the run is being stopped, the receiver is gone, and that is no error.
        let _ = self
            .tell
            .send(told(round, self.rounds, total, self.headline.as_ref()));
    }
}

/// Returns the line on one of this many rounds.
pub fn told(
    round: &RoundRecord,
    rounds: u32,
    total: ByDirection<Flow>,
    headline: Option<&Metric>,
) -> Told {
    let figure = |metric: &Metric| {
        Some((
            metric.label(),
            *round.accuracy.as_ref()?.test.get(&metric.name())?,
        ))
    };
    Told::Round(RoundOver {
        round: round.round,
        rounds,
        virtual_time_s: round.virtual_time_s,
        bytes: total.up.sent + total.down.sent,
        accuracy: headline.and_then(figure),
    })
}
