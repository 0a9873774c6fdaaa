//! Describes the legs of a participation: the transfers between a user's device and its peers, and
//! the work between them.

use serde::{Deserialize, Serialize};

use crate::units::Direction;

/// A peer of a user's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Peer {
    /// The server, which holds the model.
    Server,
    /// The third party, which answers requests that are hidden from the server (see
    /// `ThirdParty`).
    ThirdParty,
}

/// The route of a frame: the peer at its other end, the direction, and whether it is about rows
/// that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Route {
    /// The other end of the route; this end is the user's device.
    pub peer: Peer,
    /// Up is away from the user's device, down is towards it.
    pub direction: Direction,
    /// Whether the frame asks for rows of the model, or brings those that were asked for.
    pub is_of_asked_rows: bool,
}

impl Route {
    /// The route of a download, from the server to the device.
    pub const DOWNLOAD: Self = Self::plain(Peer::Server, Direction::Down);
    /// The route of a request, from the device to the third party.
    pub const REQUEST: Self = Self::plain(Peer::ThirdParty, Direction::Up);
    /// The route of a reply, from the third party to the device.
    pub const REPLY: Self = Self::plain(Peer::ThirdParty, Direction::Down);
    /// The route of an upload, from the device to the server.
    pub const UPLOAD: Self = Self::plain(Peer::Server, Direction::Up);
    /// The route of a row request, from the device to the server.
    pub const ROW_REQUEST: Self = Self {
        is_of_asked_rows: true,
        ..Self::UPLOAD
    };
    /// The route of a download of requested rows.
    pub const ASKED_ROWS: Self = Self {
        is_of_asked_rows: true,
        ..Self::DOWNLOAD
    };

    const fn plain(peer: Peer, direction: Direction) -> Self {
        Self {
            peer,
            direction,
            is_of_asked_rows: false,
        }
    }

    /// Returns the name that reports give to a transfer on this route.
    pub fn name(self) -> &'static str {
        match (self.peer, self.direction) {
            (Peer::Server, Direction::Down) => "download",
            (Peer::Server, Direction::Up) if self.is_of_asked_rows => "row-request",
            (Peer::Server, Direction::Up) => "upload",
            (Peer::ThirdParty, Direction::Up) => "request",
            (Peer::ThirdParty, Direction::Down) => "reply",
        }
    }
}

/// The work that is done between two transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Job {
    /// The device makes its request to the third party.
    Request,
    /// The third party makes its reply, at the server's speed.
    Reply,
    /// The device trains.
    Training,
}

impl Job {
    /// Returns the name that reports give to this work.
    pub fn name(self) -> &'static str {
        match self {
            Self::Request => "preparation",
            Self::Reply => "consultation",
            Self::Training => "training",
        }
    }

    /// Returns whether the device does this work.
    pub fn is_the_devices(self) -> bool {
        self != Self::Reply
    }
}

/// What a participant downloads from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Downloads {
    /// Nothing.
    Nothing,
    /// What the server sends by itself.
    Model,
    /// The rows that the participant asks for, and what is sent with them.
    AskedRows,
}

/// One leg of a participation. The next one begins when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Leg {
    /// A frame travels.
    Transfer(Route),
    /// The device or the third party works.
    Work(Job),
}

impl Leg {
    /// Lists the legs of a participation in their order. A device that downloads nothing begins to
    /// train, and one that asks for rows sends its request, at the instant of its invitation,
    /// without any latency.
    pub fn of_participation(downloads: Downloads, asks_a_third_party: bool) -> Vec<Self> {
        let mut legs = match downloads {
            Downloads::Nothing => Vec::new(),
            Downloads::Model => vec![Self::Transfer(Route::DOWNLOAD)],
            Downloads::AskedRows => [Route::ROW_REQUEST, Route::ASKED_ROWS]
                .map(Self::Transfer)
                .to_vec(),
        };
        if asks_a_third_party {
            legs.extend([Self::Work(Job::Request), Self::Transfer(Route::REQUEST)]);
            legs.extend([Self::Work(Job::Reply), Self::Transfer(Route::REPLY)]);
        }
        legs.extend([Self::Work(Job::Training), Self::Transfer(Route::UPLOAD)]);
        legs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a participation leaves out a transfer that costs time and bytes, or makes one
    /// up.
    #[test]
    fn a_participation_has_the_legs_that_its_phase_asks_for() {
        let names = |downloads: Downloads, asks| -> Vec<&str> {
            let name = |leg: Leg| match leg {
                Leg::Transfer(route) => route.name(),
                Leg::Work(job) => job.name(),
            };
            Leg::of_participation(downloads, asks)
                .into_iter()
                .map(name)
                .collect()
        };
        assert_eq!(
            names(Downloads::Model, false),
            ["download", "training", "upload"]
        );
        assert_eq!(names(Downloads::Nothing, false), ["training", "upload"]);
        let rows = names(Downloads::AskedRows, false);
        assert_eq!(rows, ["row-request", "download", "training", "upload"]);
        let asking = [
            "download",
            "preparation",
            "request",
            "consultation",
            "reply",
            "training",
            "upload",
        ];
        assert_eq!(names(Downloads::Model, true), asking);
    }
}
