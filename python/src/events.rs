//! Runs a scenario to see what happens on links and devices.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedrecsim::cli::Inputs;
use fedrecsim_core::Error;
use fedrecsim_report::events::{EventLog, Form};
use fedrecsim_scenario::Loaded;
use fedrecsim_sim::outcome::{Booking, ByDirection, Flow, RoundRecord, RoundSpan};
use fedrecsim_sim::{RoundObserver, RunControl, Simulation};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays;
use crate::error::OrRaise;
use crate::inputs::Given;
use crate::run::told;
use crate::table::Table;
use crate::watch::watched;

/// The events of a run, the bytes that it has sent up and down, and its model.
type Seen = (Table, (u64, u64), Py<PyDict>);

/// Runs a scenario, and returns the events of the participations that began in these rounds, with
/// the bytes that the run has sent up and down and its model. A run does the same each time, so
/// these are the events of any run of the scenario.
#[pyfunction]
#[pyo3(signature = (scenario, from_round=1, to_round=None, threads=None, progress=None))]
pub fn events(
    py: Python<'_>,
    scenario: Given,
    from_round: u32,
    to_round: Option<u32>,
    threads: Option<NonZeroUsize>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Seen> {
    let (
        Loaded {
            scenario: checked, ..
        },
        Inputs { world, .. },
    ) = scenario.inputs(py)?;
    let rounds = checked.training.rounds;
    let last = to_round.unwrap_or(rounds);
    let control = RunControl {
        threads: scenario.threads(threads, &world),
        interrupted: Arc::new(AtomicBool::new(false)),
    };
    let (table, sent, model) = watched(py, &control.interrupted, progress.as_ref(), |tell| {
        let unwritten = |reason| Error::write("events", reason);
        let form = Form::Table(Box::default());
        let mut simulation = Simulation::new(world, &control)?;
        let dataset = Arc::clone(&simulation.world().dataset);
        let who = move |user| dataset.who(user);
        let log = EventLog::begin(io::sink(), form, from_round..=last, who);
        let mut log = Log(log.map_err(unwritten)?);
        while !log.0.is_complete() {
            let Some(round) = simulation.step_watched(&mut log)? else {
                break;
            };
            let _ = tell.send(told(&round, rounds, simulation.total(), None));
        }
        let outcome = simulation.finish_watched(&mut log)?;
        match outcome.stopped_by {
            Some(Error::Interrupted) => Err(Error::Interrupted),
            _ => {
                let sent = (outcome.bytes.up.sent, outcome.bytes.down.sent);
                Ok((log.0.into_table().unwrap_or_default(), sent, outcome.model))
            }
        }
    })?;
    Ok((
        Table(table.finish().or_raise()?),
        sent,
        arrays::blocks(py, &model)?.unbind(),
    ))
}

/// Fills the table. It takes no file, so that nothing can fail.
struct Log(EventLog<io::Sink>);

impl RoundObserver for Log {
    fn round_finished(&mut self, _round: &RoundRecord, _total: ByDirection<Flow>) {}

    fn happened(&mut self, round: Option<RoundSpan>, bookings: &[Booking]) {
        let _ = self.0.take(round, bookings);
    }
}
