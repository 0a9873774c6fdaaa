//! The simulated world: actors on a virtual clock.
//!
//! ```text
//!            BeginStep, UplinkArrived, ParticipationLost, AlarmRang, CloseStep
//!   ServerActor <--------------------------------------------- NetworkActor ------------------> ClientActor
//!    global table,                                              clock [ns],      Participate       one per user:
//!    cohorts,    ---------------------------------------------> calendar,        TrainingEnded     private
//!    averages    Orders{invitation, alarm, step_due},           links [bit/s],   Downloaded        parameters
//!                StepOutcome{model, given_up}                   faults           CutOff               ^
//!                                                                   |                                 |
//!                                            RoundEnded{bookings}   |                                 | Lend, Return
//!                                                                   v                                 | (evaluation)
//!                                                              MetricsActor --------------------------+
//!                                                               ledger [bytes], durations [ns], accuracy
//! ```
//!
//! Read in the order of a round: [`messages`], [`server`] (its `rounds` are the rules of each mode, `cohort` and `oort`
//! whom it picks, `averages` what an update counts) with the [`download`] that it sends, [`network`] (`invitations`,
//! `transfers`, `event_handlers`) with its [`calendar`] and the [`fair_link`] that all transfers share, [`client`] with
//! [`training`], [`metrics`] with its [`ledger`] and [`evaluation`]. [`mod@run`] wires them, [`world`] holds what all of
//! them may read, [`outcome`] what is left in the end, [`checkpoints`] what is left on the way. The actors know the
//! messages and the pure layers, never one another.
//!
//! **Order.** Everything happens in (time, sequence) order of the calendar. The network asks and awaits every
//! answer before it goes on, so the order in which mailboxes are polled cannot reach a result.
//!
//! **Modes.** The server decides, the network obeys: after everything that happens the server says whom to invite,
//! when to wake it and whether its step is due. A round of the report has one or more steps of the server. A participation
//! may outlive its round; it is named by its user and the number of its invitation, see [`InvitationId`](crate::ids::InvitationId), and
//! so is everything that it draws.
//!
//! **Parallelism.** What a client trains on is fixed as soon as it is invited. So the user actors hand over their
//! state at once; when the first training is needed, all that are waiting are worked out in one batch on all threads,
//! and each result waits for the virtual end of its training. Who may be cut off, or may have to lend its parameters
//! meanwhile, gives a copy away.
//!
//! **What is public.** A program makes a [`World`], runs it, watches it with a [`RoundObserver`], keeps [`Checkpoints`] and
//! reads the [`Outcome`]. The modules named above are private: their types are how the simulation works, and change
//! with it.

mod by_user;
mod calendar;
mod checkpoints;
mod client;
mod device;
mod directory;
mod download;
mod evaluation;
mod fair_link;
#[doc(hidden)]
pub mod internals;
mod ledger;
mod messages;
mod metrics;
mod network;
mod observer;
pub mod outcome;
mod run;
mod server;
#[cfg(test)]
mod small;
mod training;
mod world;
mod yardstick;

pub use checkpoints::{CheckpointStore, Checkpoints};
pub use observer::RoundObserver;
pub use outcome::Outcome;
pub use run::{RunControl, run, run_from};
pub use world::World;
