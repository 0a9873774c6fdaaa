//! The same run in real time: the server's actors here, devices elsewhere, and nothing but encoded
//! frames between them.
//!
//! The [`Coordinator`] is the server: its owner has the clock and the connections, tells it what
//! has happened, and carries out its [`Order`]s. [`Devices`] are the users of one process: they
//! are given invitations, and return uploads. What they compute is what a simulation computes, by
//! the same code; only instants differ.

use std::sync::Arc;

use super::invitation::Participant;
use super::world::World;
use fedrecsim_core::legs::Peer;
use fedrecsim_core::work::Work;
use fedrecsim_core::{Error, SimTime, Step};
use fedrecsim_methods::Phase;
use fedrecsim_model::codec::Frame;

mod arrivals;
mod coordinator;
mod devices;
mod held;
mod in_memory;
mod keeping;
mod measure;
mod participation;
mod replay;
mod scoring;
mod shaped;
#[cfg(test)]
mod tests;

pub use self::{
    arrivals::{ARRIVALS_FILE, Arrivals, Recorded},
    coordinator::{Coordinator, check},
    devices::{Devices, Trained},
    measure::{Measured, measure},
    replay::replay,
    scoring::{Hosts, remote_workers},
    shaped::Shaped,
};
pub use super::consultation::{AskPeers, Message};

/// What the coordinator is told.
#[derive(Debug)]
pub enum Event {
    /// It wanted to be woken now.
    AlarmRings,
    /// Something has happened to a participation.
    Of(Participant, Told),
}

/// What is told of a participation.
#[derive(Debug)]
pub enum Told {
    /// The frame on its way to the device has come.
    Received,
    /// A request to this peer has come.
    Asked(Peer, Sent),
    /// The upload has come, with the mean local loss of the training.
    Uploaded(Sent, f64),
    /// The participation is lost, with its connection or because the device gave up.
    Lost,
    /// The training failed, which ends the run.
    Failed(Error),
}

/// A frame that a device has sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The frame. Its parts have the length of its bytes, which whoever reads it from a connection
    /// has checked.
    pub frame: Frame,
    /// The work that it took.
    pub work: Work,
    /// The time that the device took for the work, in nanoseconds.
    pub took_ns: u64,
}

/// What the coordinator wants to be done.
#[derive(Debug)]
pub enum Order {
    /// Invite a user.
    Invite(Invite),
    /// Bring the reply to a request.
    Reply(Participant, Frame),
    /// Tell the device that the server has its upload, so that its training takes effect.
    Taken(Participant),
    /// Tell the device that its participation is over without effect.
    Cancel(Participant),
    /// Let the alarm ring at this instant.
    WakeAt(SimTime),
    /// End the round, since its last step is made. Devices are scored then, so they have to be told
    /// of the orders before this one.
    EndRound,
}

/// An invitation on its way to its device.
#[derive(Clone, Debug)]
pub struct Invite {
    /// The user, and the number of the invitation.
    pub participant: Participant,
    /// The step whose model is downloaded.
    pub step: Step,
    /// The number of the download, which is the same for equal frames.
    pub number: u32,
    /// The phase of the method.
    pub phase: Phase,
    /// The download; empty where nothing is downloaded, or rows are asked for first.
    pub frame: Frame,
}

/// Returns the length of the longest frame that travels in `world`, or a little more.
pub fn longest_frame(world: &World) -> u64 {
    // A codec may send a position with each value, and a scale with each row.
    const WITH_POSITIONS: u64 = 4;
    const HEADER: u64 = 1 << 16;
    let exchanges = (0..world.phases()).filter_map(|phase| world.exchange(Phase(phase as u8)));
    let requests = exchanges.flat_map(|exchange| [&exchange.request, &exchange.reply]);
    let frames = world.upload_layouts().chain(world.download_layouts());
    let layouts = frames.chain(requests);
    let longest = layouts.map(|layout| layout.bytes() as u64).max();
    HEADER + WITH_POSITIONS * longest.unwrap_or(0)
}

/// Returns the length of the longest question about scores that is asked in `world`, or more.
pub fn longest_question(world: &World) -> u64 {
    longest_frame(world).saturating_mul(scoring::SCORED_AT_ONCE as u64)
}

/// Asks the peers of the devices of a process.
pub type Peers = Arc<dyn AskPeers>;
