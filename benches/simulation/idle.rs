//! Measures rounds in which everything happens but learning: what the actors, the calendar and the
//! books cost.
#![allow(clippy::expect_used)] // A benchmark whose own scenario is wrong has nothing better to do than to stop.

use std::sync::Arc;
use std::time::Instant;

use fedrecsim_core::work::Work;
use fedrecsim_core::{Result, Streams, UserId};
use fedrecsim_data::dataset;
use fedrecsim_methods::{
    Client, Entry, LocalTask, Method, Scoring, ScoringContext, Scratch, Trained, registry,
};
use fedrecsim_model::{
    Model, ModelUpdate, StateVisitor, Table, TableShape, TableUpdate, ValueType,
};
use fedrecsim_scenario as scenario;
use fedrecsim_sim::outcome::{ByDirection, Flow, RoundRecord};
use fedrecsim_sim::{self as sim, RoundObserver, RunControl, World};

/// A method that learns nothing: a frame without rows goes down and up.
const IDLE: Entry = Entry {
    name: "idle",
    summary: "learns nothing",
    source: "this benchmark",
    draws_negatives: false,
    build: &|_, _| Ok(Box::new(Idle)),
    ..Entry::BY_HAND
};

#[derive(Clone, Debug)]
struct Idle;

const SHAPE: TableShape = TableShape {
    rows: 1,
    dimension: 1,
};

impl Method for Idle {
    fn initial(&self) -> Model {
        Model::of_table("nothing", Table::zeros(SHAPE))
    }

    fn client(&self, _user: UserId) -> Box<dyn Client> {
        Box::new(Idle)
    }
}

impl Client for Idle {
    fn train(&mut self, _task: &LocalTask<'_>, _scratch: &mut Scratch) -> Result<Trained> {
        Ok(Trained::new(
            ModelUpdate::of_table(TableUpdate::nothing(SHAPE, ValueType::F32)),
            0.0,
            Work::of_row_visits(20),
        ))
    }

    fn scorer<'a>(&'a self, _context: ScoringContext<'a>) -> Scoring<'a> {
        Ok(Box::new(|_: &[u32], scores: &mut [f32]| scores.fill(0.0)))
    }

    fn visit_state(&mut self, _state: &mut StateVisitor<'_>) -> Result<()> {
        Ok(())
    }
}

/// Takes the time when each round ends.
struct Clock(Vec<Instant>);

impl RoundObserver for Clock {
    fn round_finished(&mut self, _round: &RoundRecord, _total: ByDirection<Flow>) {
        self.0.push(Instant::now());
    }
}

/// Prints the calendar's events per second of wall time, and the time of a round, in medians over
/// rounds, and returns the former, in millions. A participation has three events, the ends of its
/// download, its training and its upload.
pub(crate) fn rounds(users: u32, cohort: u32, rounds: usize) -> f64 {
    let text = format!(
        r#"
        method = "idle"
        [dataset]
        name = "generated"
        validation_item = false
        [dataset.generator]
        users = {users}
        items = 1000
        ratings_per_user = 3
        ratings_log_sigma = 0
        [dataset.negatives]
        per_positive = 1
        [training]
        rounds = {rounds}
        participation = {{ cohort = {cohort} }}
        [evaluation]
        users = 1
        every_rounds = 1000
        [codec]
        uplink = "rows-f32"
        [network]
        preset = "wifi-2020"
        [devices]
        preset = "phone-lognormal"
        "#
    );
    let methods = [IDLE];
    let vocabulary = registry::vocabulary_of(&methods);
    // The file is part of this program, so it is a sound scenario.
    let scenario = scenario::parse(&text, "idle.toml", &[], &vocabulary).expect("a sound scenario");
    let dataset = dataset::load(&scenario.dataset, &[], Streams::new(scenario.seed))
        .expect("generated ratings");
    let world = World::with_methods(scenario, Arc::new(dataset), &methods).expect("a sound world");
    let mut clock = Clock(Vec::new());
    sim::run(world, &RunControl::with_threads(2), &mut clock).expect("a run to the end");
    let ends = clock.0;
    let mut times_s: Vec<f64> = ends
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).as_secs_f64())
        .collect();
    // The last round is left out because it evaluates.
    times_s.pop();
    times_s.sort_unstable_by(f64::total_cmp);
    let median = times_s[times_s.len() / 2];
    let events = 3.0 * f64::from(cohort) / median / 1e6;
    println!(
        "rounds without compute, {users} users, cohort {cohort}: {:.2} ms, {events:.2} M events/s",
        median * 1e3
    );
    events
}
