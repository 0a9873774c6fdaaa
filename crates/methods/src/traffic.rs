//! Tells what a method exchanges with the server, for the check of a scenario's codecs.

use std::sync::Arc;

use serde_json::Value;

use super::declare::traffic_blocks;
use super::server::Download;
use super::{Class, Entry, Method, Phase, Problem};
use fedrecsim_core::{Streams, UserId};
use fedrecsim_model::noisy_sum::NoisySum;
use fedrecsim_scenario::sizes::ProblemSize;
use fedrecsim_scenario::{Traffic, TrafficOf};

/// Tells what the method of `entry` exchanges, without its data. A method that is made of all
/// ratings exchanges nothing.
pub(super) fn of(entry: Entry) -> TrafficOf {
    Arc::new(move |parameters: &Value| {
        let size = ProblemSize {
            users: 8,
            items: 64,
        };
        let small = Problem::of_size(size, Streams::new(0));
        if !entry.placement.trains() {
            let method = (entry.build)(parameters, &small);
            return Some(Traffic {
                predicts_ratings: method.is_ok_and(|method| method.predicts_ratings()),
                ..Traffic::default()
            });
        }
        (entry.traffic)(parameters).or_else(|| {
            let method = (entry.build)(parameters, &small).ok()?;
            Some(found_out(&*method))
        })
    })
}

/// Finds out what a method exchanges, from its layouts, a client and the server.
pub(super) fn found_out(method: &dyn Method) -> Traffic {
    let mut blocks = Vec::new();
    for phase in (0..method.phases()).map(Phase) {
        blocks.extend(traffic_blocks(
            &method.upload_layout(phase, Class::default()),
            true,
        ));
        blocks.extend(traffic_blocks(
            &method.download_layout(phase, Class::default()),
            false,
        ));
    }
    let (client, server) = (method.client(UserId(0)), method.server());
    let noise = NoisySum::new(1.0, 0.0, Streams::new(0).named("exchanged/noise", 0, 0));
    Traffic {
        blocks,
        has_personal_downloads: matches!(server.download(), Download::PerUser(_)),
        sends_chosen_rows: server.download_to_score().is_some(),
        trains_on_sampled_rows: method.trains_on_sampled_rows(),
        keeps_personal_tables: client.personal_table().is_ok_and(|table| table.is_some()),
        needs_everybody: false,
        upload_use: server.upload_use(),
        makes_noisy_sums: server.noisy_accumulator(noise).is_some(),
        predicts_ratings: method.predicts_ratings(),
        least_steps: method.least_steps(),
    }
}
