//! Carries out a whole run.

use std::num::NonZeroUsize;
use std::sync::mpsc::Sender;
use std::time::Instant;

use fedrecsim_core::metric::Metric;
use fedrecsim_report::Wall;
use fedrecsim_sim::RoundObserver;
use fedrecsim_sim::outcome::{ByDirection, Flow, RoundRecord};
use pyo3::prelude::*;

use crate::error::exception;
use crate::inputs::Given;
use crate::report::Report;
use crate::running::Folder;
use crate::simulation::Simulation;
use crate::watch::{RoundOver, Told, watched_with_result};

/// Runs a scenario to its end, and returns what remains. `progress` is called with the number of a
/// round that is over, the number of all rounds, the virtual time, the bytes sent so far, and a
/// figure of accuracy. If a signal or `progress` ends it, the exception has what remains as `report`.
/// Checkpoints and the report go to `folder`; with `keep` and without a folder, what remains has the
/// parameters from which another run can start.
#[pyfunction]
#[pyo3(signature = (scenario, threads=None, progress=None, folder=None, keep=false, save_users=None))]
pub fn run(
    py: Python<'_>,
    scenario: Given,
    threads: Option<NonZeroUsize>,
    progress: Option<Bound<'_, PyAny>>,
    folder: Option<Folder>,
    keep: bool,
    save_users: Option<Vec<String>>,
) -> PyResult<Report> {
    let started = Instant::now();
    let simulation = Simulation::start(py, &scenario, threads, None, (folder, save_users))?;
    let (control, checked) = (simulation.control(), simulation.scenario());
    let (headline, rounds) = (checked.evaluation.headline(), checked.training.rounds);
    let watched = watched_with_result(py, &control.interrupted, progress.as_ref(), |tell| {
        let mut watch = Watch {
            tell: tell.clone(),
            headline,
            rounds,
            laps: Vec::new(),
            last: Instant::now(),
        };
        simulation.hold(|running| {
            while running.step(&mut watch)?.is_some() {}
            Ok(())
        })?;
        Ok(watch.laps)
    });
    let (result, raised) = watched?;
    let mut laps = match (result, &raised) {
        (Ok(laps), _) => laps,
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
    let has_rounds = simulation.hold(|running| Ok(running.simulation.rounds() > 0));
    let report = simulation.finish_in(py, keep, wall);
    let Some(raised) = raised else { return report };
    if let (Ok(true), Ok(report)) = (has_rounds, report) {
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
