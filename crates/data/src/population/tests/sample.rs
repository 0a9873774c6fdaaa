//! Makes populations for tests.
#![allow(clippy::unwrap_used)]

use super::super::*;
use fedrecsim_scenario::{DevicesSpec, MethodVocabulary};

pub(crate) const USERS: u32 = 20_000;

/// Returns the scenario of a file with these lines after its own.
pub(crate) fn scenario_with(tables: &str) -> Scenario {
    let schema = schemars::json_schema!({ "type": "object", "additionalProperties": false });
    let vocabulary = [MethodVocabulary {
        name: "popularity",
        schema,
        resolve: &|_| Vec::new(),
        trains: false,
        runs_at_server: false,
        server_computes: false,
        draws_negatives: true,
        without_controls: None,
        sizes: &|_, _| Vec::new(),
        traffic: Arc::new(|_| None),
    }];
    let text = format!(
        "method = \"popularity\"\ndataset.name = \"ml-100k\"\ntraining.rounds = 1\n{tables}"
    );
    fedrecsim_scenario::parse(&text, "test.toml", &[], &vocabulary).unwrap()
}

/// Returns the users of that scenario, which names no trace.
pub(crate) fn users_of(tables: &str, seed: u64) -> Population {
    Population::new(
        &scenario_with(tables),
        USERS as usize,
        &Traces::default(),
        Streams::new(seed),
    )
    .unwrap()
}

/// Returns the groups of users whose devices are all alike and who have no time zones.
pub(crate) fn groups() -> Arc<Groups> {
    let devices = Devices::new(&DevicesSpec::default(), None, 0.0, Streams::new(1)).unwrap();
    Arc::new(Groups {
        devices,
        daily: None,
        streams: Streams::new(1),
    })
}
