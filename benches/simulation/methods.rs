//! Measures whole rounds of methods, on a generated population as large as MovieLens 100K and with
//! as many ratings.
//!
//! Only speed is measured: the ratings are not the real ones, but a round computes and moves as
//! much as with real data.
#![allow(clippy::expect_used)] // A benchmark whose own scenario is wrong has nothing better to do than to stop.

use std::sync::Arc;
use std::time::Instant;

use fedrecsim_core::Streams;
use fedrecsim_data::dataset;
use fedrecsim_methods::registry;
use fedrecsim_scenario as scenario;
use fedrecsim_sim::{RunControl, Simulation, World};

/// Rounds before the first that is measured: most private rows are held by then.
const WARM_UP: usize = 5;

/// Rounds that are measured.
const ROUNDS: usize = 30;

/// Threads, as in the figures of the README.
const THREADS: usize = 2;

/// A method and the codec of its uploads.
const CASES: [(&str, &str); 4] = [
    ("fedrap = { learning_rate_tables = 200 }", "rows-f32"),
    ("pfedrec = {}", "rows-f32"),
    ("fedmf = {}", "rows-f32"),
    ("fedmf = {}", "dense-f32"),
];

/// Prints the median time of a round of each.
pub(crate) fn rounds() {
    for (method, uplink) in CASES {
        let text = format!(
            "seed = 1\nmethod.{method}\n\
             [dataset]\nname = \"generated\"\nnegatives.pool = \"unrated\"\n\
             generator = {{ users = 943, items = 1682, ratings_per_user = 105 }}\n\
             [training]\nrounds = {}\n[codec]\nuplink = \"{uplink}\"\n[network]\npreset = \"lan\"\n",
            WARM_UP + ROUNDS
        );
        let scenario =
            scenario::parse(&text, "bench", &[], &registry::vocabulary()).expect("a good scenario");
        let data = dataset::load(&scenario.dataset, &[], Streams::new(scenario.seed))
            .expect("a population");
        let world = World::new(scenario, Arc::new(data)).expect("a world");
        let mut simulation =
            Simulation::new(world, &RunControl::with_threads(THREADS)).expect("a simulation");
        let mut milliseconds = Vec::with_capacity(WARM_UP + ROUNDS);
        for _ in 0..WARM_UP + ROUNDS {
            let start = Instant::now();
            simulation.step().expect("a round");
            milliseconds.push(start.elapsed().as_secs_f64() * 1e3);
        }
        let measured = &mut milliseconds[WARM_UP..];
        measured.sort_unstable_by(f64::total_cmp);
        let name = method.split(' ').next().unwrap_or(method);
        println!(
            "{name:<8} {uplink:<10} {THREADS} threads: a round takes {:7.1} ms, the fastest {:7.1}",
            measured[ROUNDS / 2],
            measured[0]
        );
    }
}
