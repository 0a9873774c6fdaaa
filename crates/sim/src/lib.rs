//! The simulated world: actors on a virtual clock.
//!
//! ```text
//!   Simulation            step, step_until, save, restore, model, set_model, finish
//!       |  commands
//!  ─ ─ ─|─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ the simulation's own thread ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─
//!       v    Happened{news}, UploadArrived, RequestArrived, CloseStep
//!   Network ------------------------------------------------------> ServerActor
//!    clock [ns],  <------------------------------------------------  global table,
//!    calendar,       Orders{invitation, alarm, step_due},            cohorts,
//!    links [bit/s],  StepOutcome{model, cancelled}                   averages
//!    faults
//!     |   |   |      submit(Invited), end_training, break_off
//!     |   |   +---------------------------------------------------> ClientActor, one per user:
//!     |   |                                                          private parameters
//!     |   |                                                           |  submitted trainings
//!     |   |          train -> Effort{row visits, bytes}               v
//!     |   +-------------------------------------------------------> Workers ─ ─ ─ ─ ─ ─ ─ ─ ─ worker threads
//!     |                                                              the users live with them
//!     |   ConsultThirdParty, RequestArrived, AbsorbRequests           |
//!     +-----------------> ThirdPartyActor (of methods that have one)  |
//!     |                    state of its own                           |
//!     |   RoundEnded{bookings}                                        |
//!     +-----------------> MetricsActor -------------------------------+
//!                          ledger [bytes], durations [ns], accuracy     evaluate, digests
//! ```
//!
//! The modules in the order of a round: `simulation` starts the actors (`cast`) and lets time run;
//! `messages` has what they say to each other; `server` decides (its `steps` are the rules of each
//! mode, `cohort` and `oort` pick users, `averages` makes the step), and `download` is what it
//! sends; `rounds` has what is open and counted; `network` (`invitations`, `transfers`,
//! `server_link`, `event_handlers`, `watch`) has the clock, with its `calendar` and the `fair_link`
//! that all transfers share; `client` is a user, with `training`, `consultation` and the `workers`
//! that compute for it; `third_party` answers requests; `metrics` measures, with its `ledger` and
//! `evaluation`, and in the end the lists of what users would be `shown` (`beyond_accuracy`).
//! `joins`, `newcomers` and `new_items` are about users or items that come later. `run` drives a simulation to its end,
//! `world` holds what all of them may read, [`outcome`] is what remains of a run, and `checkpoints`
//! are stored on the way. [`deployment`] has the same actors on a real clock, with devices in other
//! processes. The actors know the messages and the pure layers, but not one another.
//!
//! **Order.** Events happen in the calendar's order of (time, sequence). The network waits for
//! every answer before it goes on, so no mailbox decides an order, and what is asked at every event
//! goes past the mailboxes (`resident`).
//!
//! **Modes.** The server decides and the network obeys: after every event the server says whom to
//! invite, when to wake it and whether its step is due. A round of the report has one or more steps
//! of the server. A participation may outlive its round. It is named by its user and the number of
//! its invitation, see [`InvitationId`](fedrecsim_core::InvitationId), and these name its random draws
//! as well.
//!
//! **Legs.** A participation is a list of transfers and work ([`Leg`](fedrecsim_core::legs::Leg)): download,
//! training and upload for most methods. Where clients download only the rows that they need, they
//! ask the server for them first. Where a method has a third party, its client asks that one before
//! it trains (`consultation`). A dropout is one draw over the time that all legs take together, and the
//! ledger is kept for each peer.
//!
//! **Parallelism.** What a client trains on is fixed as soon as it is invited, so it submits its
//! training at once. When the network first needs to know how long a training takes, the workers
//! work out all that were submitted, in one batch on all threads. Each result stays with its user
//! until the virtual end of its training. A user that may be cut off, or may be scored meanwhile,
//! keeps a copy of its parameters from before the training.
//!
//! **Several simulations at once.** A simulation has a thread for its actors and threads for its
//! workers. It shares neither with another one in the same process.
//!
//! **What is public.** A program makes a [`World`], runs it or steps it as a [`Simulation`],
//! watches it with a [`RoundObserver`], keeps [`Checkpoints`] and reads the [`Outcome`]. The
//! modules named above are private, since their types are how the simulation works, and change with
//! it.

pub mod checkpoint;
pub mod deployment;
pub mod privacy;
pub mod testing;

mod audit;
mod baselines;
mod beyond_accuracy;
mod by_user;
mod calendar;
mod cast;
mod catalogue;
mod checkpoints;
mod client;
mod consultation;
mod device;
mod download;
mod durations;
mod estimate;
mod evaluation;
mod fair_link;
mod identity;
mod invitation;
mod joins;
mod leak_test;
mod ledger;
mod messages;
mod metric_set;
mod metrics;
mod network;
mod new_items;
mod newcomers;
mod observer;
pub mod outcome;
mod overheads;
mod phases;
mod protection;
mod resident;
mod rounds;
mod run;
mod selection;
mod server;
mod shown;
mod simulation;
mod start;
mod starting;
mod stop;
#[cfg(test)]
mod tests;
mod third_party;
mod training;
mod upload;
pub mod workers;
mod world;

#[doc(hidden)]
pub use self::{
    calendar::Calendar,
    fair_link::{FairLink, FlowId},
};
pub use self::{
    checkpoints::{CheckpointStore, Checkpoints},
    estimate::{Estimate, MemoryEstimate, RehearsalLength, estimate, estimate_watched},
    leak_test::{LeakFinding, LeakTest, LeakVerdict},
    observer::RoundObserver,
    outcome::Outcome,
    run::{run, run_from, run_to_end},
    simulation::{Recommended, RunControl, Simulation, Until},
    start::{GivenStart, Start, give_start},
    stop::Stop,
    world::World,
};
