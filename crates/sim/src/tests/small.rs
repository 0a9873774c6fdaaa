//! A world that is small enough for unit tests.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use crate::world::World;
use fedrecsim_core::Streams;
use fedrecsim_data::dataset;
use fedrecsim_methods::registry::vocabulary;
use fedrecsim_scenario as scenario;

const SMALL: &str = r#"
method = "fedmf"

[dataset]
name = "generated"

[dataset.generator]
users = 21
items = 150
ratings_per_user = 10

[training]
rounds = 1

[codec]
uplink = "dense-f32"

[evaluation]
ranking.sampled.candidates = 20
"#;

/// Returns a world of FedMF with 21 users and 150 items, where `overrides` replace keys of the
/// scenario.
pub(crate) fn world(overrides: &[&str]) -> Arc<World> {
    let overrides: Vec<String> = overrides.iter().map(ToString::to_string).collect();
    let scenario = scenario::parse(SMALL, "small.toml", &overrides, &vocabulary()).unwrap();
    let dataset = dataset::load(&scenario.dataset, &[], Streams::new(scenario.seed)).unwrap();
    Arc::new(World::new(scenario, Arc::new(dataset)).unwrap())
}
