//! Rounds in which everything happens but learning: what the actors, the calendar and the books cost.
#![allow(clippy::expect_used)] // A benchmark whose own scenario is wrong has nothing better to do than to stop.

use std::sync::Arc;
use std::time::Instant;

use fedrecsim::dataset;
use fedrecsim::error::Result;
use fedrecsim::ids::UserId;
use fedrecsim::method::{Client, Entry, LocalTask, LocalUpdate, Method, Scratch, registry};
use fedrecsim::model::archive::{Archive, ArchiveReader};
use fedrecsim::model::table::{RowSet, Table, TableShape, TableUpdate};
use fedrecsim::rng::Streams;
use fedrecsim::scenario;
use fedrecsim::sim::outcome::{ByDirection, Flow, RoundRecord};
use fedrecsim::sim::{self, RoundObserver, RunControl, World};
use fedrecsim::work::Work;

/// A method that learns nothing: a frame of no rows goes down and up.
const IDLE: Entry = Entry {
    name: "idle",
    summary: "learns nothing",
    source: "this benchmark",
    schema: || schemars::json_schema!({ "type": "object", "additionalProperties": false }),
    resolve: |_| Vec::new(),
    trains: true,
    build: |_, _| Ok(Box::new(Idle)),
};

#[derive(Debug)]
struct Idle;

const SHAPE: TableShape = TableShape { rows: 1, dimension: 1 };

impl Method for Idle {
    fn shape(&self) -> TableShape {
        SHAPE
    }

    fn initial_table(&self) -> Table {
        Table::zeros(SHAPE)
    }

    fn client(&self, _user: UserId) -> Box<dyn Client> {
        Box::new(Idle)
    }

    fn needs_samples(&self) -> bool {
        false
    }
}

impl Client for Idle {
    fn train(&mut self, _task: &LocalTask<'_>, _scratch: &mut Scratch) -> Result<LocalUpdate> {
        let rows = RowSet::Listed(Vec::new());
        let table = TableUpdate { shape: SHAPE, rows, values: bytes::Bytes::new(), others_scale: 1.0 };
        Ok(LocalUpdate { table, loss: 0.0, work: Work::of_row_visits(20) })
    }

    fn score(&self, _global: &Table, _items: &[u32], scores: &mut [f32]) {
        scores.fill(0.0);
    }

    fn visit_private(&self, _sink: &mut dyn FnMut(&[u8])) {}

    fn snapshot(&self) -> Box<dyn Client> {
        Box::new(Idle)
    }

    fn save(&self, _archive: &mut Archive) {}

    fn restore(&mut self, _archive: &mut ArchiveReader) -> Result<()> {
        Ok(())
    }
}

/// When each round ended.
struct Clock(std::sync::mpsc::Sender<Instant>);

impl RoundObserver for Clock {
    fn round_finished(&mut self, _round: &RoundRecord, _total: ByDirection<Flow>) {
        // The receiver outlives the run.
        let _ = self.0.send(Instant::now());
    }
}

/// Prints the calendar's events per second of wall time, and the time of a round, in medians over rounds. A
/// participation has three events: its download, its training and its upload come to their ends.
pub fn rounds(users: u32, cohort: u32, rounds: usize) {
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
    // A file that is part of this program.
    let scenario = scenario::parse(&text, "idle.toml", &[], &vocabulary).expect("a sound scenario");
    let dataset = dataset::load(&scenario.dataset, &[], Streams::new(scenario.seed)).expect("generated ratings");
    let world = World::with_methods(scenario, Arc::new(dataset), &methods).expect("a sound world");
    let (sender, ends) = std::sync::mpsc::channel();
    sim::run(world, &RunControl::with_threads(2), Box::new(Clock(sender))).expect("a run to the end");
    let ends: Vec<Instant> = ends.into_iter().collect();
    let mut times_s: Vec<f64> = ends.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
    // The last one evaluates.
    times_s.pop();
    times_s.sort_unstable_by(f64::total_cmp);
    let median = times_s[times_s.len() / 2];
    let events = 3.0 * f64::from(cohort) / median / 1e6;
    println!("rounds without compute, {users} users, cohort {cohort}: {:.2} ms, {events:.2} M events/s", median * 1e3);
}
