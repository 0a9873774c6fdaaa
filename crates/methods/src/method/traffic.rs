//! Tells what a method exchanges with the server, for the check of a scenario's codecs.

use serde_json::Value;

use super::server::Download;
use super::{Entry, Method, Phase, Problem, Protocol};
use fedrecsim_core::ids::UserId;
use fedrecsim_core::rng::Streams;
use fedrecsim_model::model::layout::{BlockKind, Layout, ValueType};
use fedrecsim_model::model::noisy_sum::NoisySum;
use fedrecsim_scenario::scenario::{Traffic, TrafficBlock, TrafficOf};

/// The numbers of users and items of the problem for which a method is built in order to see what
/// it exchanges.
const SMALL_PROBLEM: (usize, usize) = (8, 64);

/// Tells what the method of `entry` exchanges, without its data. A method that is made of all
/// ratings exchanges nothing, and of one that cannot be built for a small problem it is not known.
pub(super) fn of(entry: Entry) -> TrafficOf {
    TrafficOf::new(move |parameters: &Value| {
        if !entry.placement.trains() {
            return Some(Traffic::default());
        }
        let (users, items) = SMALL_PROBLEM;
        let (streams, protocol) = (Streams::new(0), Protocol::default());
        let problem = Problem {
            users,
            items,
            streams,
            all_ratings: None,
            protocol,
        };
        (entry.build)(parameters, &problem)
            .ok()
            .map(|method| by_method(&*method))
    })
}

/// Tells what a method exchanges.
pub fn by_method(method: &dyn Method) -> Traffic {
    let mut traffic = Traffic::default();
    let mut add = |layout: &Layout, is_uploaded| {
        traffic
            .blocks
            .extend(layout.blocks().iter().map(|block| TrafficBlock {
                name: block.name.to_string(),
                is_uploaded,
                has_floats: block.value_type == ValueType::F32,
                has_item_rows: block.kind == BlockKind::ItemTable,
            }));
    };
    for phase in (0..method.phases()).map(Phase) {
        add(&method.upload_layout(phase), true);
        add(&method.download_layout(phase), false);
    }
    traffic.trains_on_sampled_rows = method.trains_on_sampled_rows();
    let client = method.client(UserId(0));
    traffic.keeps_personal_tables = client.personal_table().is_ok_and(|table| table.is_some());
    let server = method.server();
    traffic.upload_use = server.upload_use();
    let noise = NoisySum::new(1.0, 0.0, Streams::new(0).named("exchanged/noise", 0, 0));
    traffic.makes_noisy_sums = server.noisy_accumulator(noise).is_some();
    traffic.has_personal_downloads = matches!(server.download(), Download::PerUser(_));
    traffic
}
