//! The server's link, which transfers in progress share, and the line of those who wait for a
//! connection.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::sim::calendar::Appointment;
use crate::sim::fair_link::FairLink;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::ids::UserId;
use fedrecsim_core::units::{Direction, SimTime};
use fedrecsim_data::population::shared_capacity;
use fedrecsim_scenario::scenario::NetworkSpec;

/// The positions of appointments in a checkpoint's list of pending events.
pub(super) type Places = BTreeMap<Appointment, u32>;

/// The server's link, if it is limited.
pub(super) struct ServerLink {
    up: Lane,
    down: Lane,
    /// The limit of transfers at a time, both directions together.
    connections: Option<u32>,
    pub in_progress: u32,
    /// The users who wait for a connection, by a number that grows, so that the first to come is
    /// the first to be served.
    pub line: BTreeMap<u64, UserId>,
    pub next_in_line: u64,
}

/// The server's link in a checkpoint. Each direction has the time of its next end and the position
/// of that event.
#[derive(Serialize, Deserialize)]
pub(super) struct SavedLink {
    up: (FairLink, Option<(SimTime, u32)>),
    down: (FairLink, Option<(SimTime, u32)>),
    in_progress: u32,
    line: BTreeMap<u64, UserId>,
    next_in_line: u64,
}

/// One direction of the server's link.
pub(super) struct Lane {
    pub link: FairLink,
    /// The next end that is in the calendar.
    pub next_end: Option<(SimTime, Appointment)>,
}

impl ServerLink {
    /// Makes the server's link; `None` if it has no limit.
    pub(crate) fn new(network: &NetworkSpec) -> Option<Self> {
        let spec = &network.server;
        let limited =
            spec.uplink.is_some() || spec.downlink.is_some() || spec.connections.is_some();
        let lane = |direction| Lane {
            link: FairLink::new(shared_capacity(network, direction)),
            next_end: None,
        };
        limited.then(|| Self {
            up: lane(Direction::Up),
            down: lane(Direction::Down),
            connections: spec.connections,
            in_progress: 0,
            line: BTreeMap::new(),
            next_in_line: 0,
        })
    }

    /// Returns what a checkpoint stores of the link.
    pub(crate) fn save(&self, places: &Places) -> SavedLink {
        let lane = |lane: &Lane| {
            let next_end = lane
                .next_end
                .and_then(|(time, next)| Some((time, *places.get(&next)?)));
            (lane.link.clone(), next_end)
        };
        SavedLink {
            up: lane(&self.up),
            down: lane(&self.down),
            in_progress: self.in_progress,
            line: self.line.clone(),
            next_in_line: self.next_in_line,
        }
    }

    /// Returns the link that was saved, for the same scenario.
    ///
    /// # Errors
    /// Those of `appointment`, which finds an event's appointment by its position.
    pub(crate) fn restore(
        saved: SavedLink,
        network: &NetworkSpec,
        appointment: impl Fn(u32) -> Result<Appointment>,
    ) -> Result<Option<Self>> {
        let lane = |(link, next_end): (FairLink, Option<(SimTime, u32)>)| -> Result<Lane> {
            let next_end = next_end
                .map(|(time, place)| Ok::<_, Error>((time, appointment(place)?)))
                .transpose()?;
            Ok(Lane { link, next_end })
        };
        let (up, down) = (lane(saved.up)?, lane(saved.down)?);
        let SavedLink {
            in_progress,
            line,
            next_in_line,
            ..
        } = saved;
        Ok(Self::new(network).map(|link| Self {
            up,
            down,
            in_progress,
            line,
            next_in_line,
            ..link
        }))
    }

    /// Clears the line, so that no user in it gets a connection any more.
    pub(crate) fn close(&mut self) {
        self.line.clear();
    }

    pub(crate) fn lane(&mut self, direction: Direction) -> &mut Lane {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    /// Returns the rate of all transfers in a direction together, in bit/s.
    pub(crate) fn load(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Up => self.up.link.rate(),
            Direction::Down => self.down.link.rate(),
        }
    }

    pub(crate) fn has_a_connection_free(&self) -> bool {
        self.connections
            .is_none_or(|connections| self.in_progress < connections)
    }
}
