//! The simulated world: actors on a virtual clock.
//!
//! ```text
//!                  BeginRound / UplinkArrived / ParticipationLost / CloseRound
//!   ServerActor <------------------------------------------------- NetworkActor ---------------> ClientActor
//!    global table,   Invitation{cohort, frame} / verdicts           clock [ns],   Participate      one per user:
//!    cohorts,        ---------------------------------------------> calendar,     TrainingEnded    private
//!    averages                                                       links [bit/s] CutOff           parameters
//!                                                                       |                             ^
//!                                                   bookings, RoundEnd  |                             | Lend, Return
//!                                                                       v                             | (evaluation)
//!                                                                  MetricsActor ----------------------+
//!                                                                   ledger [bytes], durations [ns], accuracy
//! ```
//!
//! Read in the order of a round: [`messages`], [`server`] with the [`broadcast`] that it sends, [`network`] with its
//! [`calendar`], [`fair_link`] (the server's link as all transfers share it), [`client`] with [`training`], [`metrics`]
//! with its [`ledger`] and [`evaluation`]. [`mod@run`] wires them, [`world`] holds what all of them may read,
//! [`outcome`] what is left in the end, [`checkpoints`] what is left on the way. The actors know the messages and the pure layers, never one another.
//!
//! **Order.** Everything happens in (time, sequence) order of the calendar. The network asks and awaits every
//! answer before it goes on, so the order in which mailboxes are polled cannot reach a result.
//!
//! **Parallelism.** What a client trains on is fixed as soon as it is invited. So the user actors hand over their
//! state at once, one batch of trainings runs on all threads, and each result waits for the virtual end of
//! its training.

pub mod broadcast;
pub mod calendar;
pub mod checkpoints;
pub mod client;
pub mod evaluation;
pub mod fair_link;
pub mod ledger;
pub mod messages;
pub mod metrics;
pub mod network;
pub mod observer;
pub mod outcome;
pub mod run;
pub mod server;
#[cfg(test)]
mod small;
pub mod training;
pub mod world;

pub use checkpoints::{CheckpointStore, Checkpoints};
pub use observer::RoundObserver;
pub use outcome::Outcome;
pub use run::{RunControl, run, run_from};
pub use world::World;
