//! The server's link, which transfers in progress share, and the line of those who wait for a
//! connection.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::calendar::Appointment;
use crate::fair_link::FairLink;
use crate::outcome::ByDirection;
use fedrecsim_core::{Direction, SimTime, UserId};
use fedrecsim_data::population::shared_capacity;
use fedrecsim_scenario::NetworkSpec;

/// The server's link, if it is limited.
#[derive(Serialize, Deserialize)]
pub(super) struct ServerLink {
    pub lanes: ByDirection<Lane>,
    /// The limit of transfers at a time, both directions together.
    connections: Option<u32>,
    pub in_progress: u32,
    /// The users who wait for a connection, by a number that grows, so that the first to come is
    /// the first to be served.
    pub line: BTreeMap<u64, UserId>,
    pub next_in_line: u64,
}

/// One direction of the server's link.
#[derive(Serialize, Deserialize)]
pub(super) struct Lane {
    pub link: FairLink,
    /// The next end that is in the calendar.
    #[serde(skip)]
    pub next_end: Option<(SimTime, Appointment)>,
}

impl ServerLink {
    /// Makes the server's link; `None` if it has no limit.
    pub(crate) fn new(network: &NetworkSpec) -> Option<Self> {
        let spec = &network.server;
        let is_limited = spec.uplink_mbit_per_s.is_some() || spec.downlink_mbit_per_s.is_some();
        let limited = is_limited || spec.connections.is_some();
        let lane = |direction| Lane {
            link: FairLink::new(shared_capacity(network, direction)),
            next_end: None,
        };
        limited.then(|| Self {
            lanes: ByDirection {
                up: lane(Direction::Up),
                down: lane(Direction::Down),
            },
            connections: spec.connections,
            in_progress: 0,
            line: BTreeMap::new(),
            next_in_line: 0,
        })
    }

    pub(crate) fn has_a_connection_free(&self) -> bool {
        self.connections
            .is_none_or(|connections| self.in_progress < connections)
    }
}
