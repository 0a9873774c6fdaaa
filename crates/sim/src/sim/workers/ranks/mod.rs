//! Workers on several machines: each user lives in the process that owns it, and trains and is
//! scored there.
//!
//! The processes of a run are its ranks. Rank 0 has the server, the network and the metrics, the
//! calendar and the ledger, and the first users. Its workers are [`Ranks`]. Every other rank has
//! the users after those, and answers what rank 0 asks ([`serve`]). All ranks have made the same
//! world of the same scenario.
//!
//! What crosses between two ranks is what a user is told and answers: a download that is for all
//! once to each rank, every upload once, and the ranks of held-out items. A training that has been
//! worked out has its upload taken out at once, and is on its way while others are worked out; only
//! its end in virtual time is told later. Ranks are asked all together, compute together, and are
//! heard in their order, so that results come in the order of users as they do from
//! [`Threads`](super::Threads), which every rank has. Digests are therefore the same on any number
//! of ranks.
//!
//! A [`Link`] is how two ranks talk. The program has one over MPI; [`in_memory`] has one between
//! threads, for tests.

mod agreement;
mod crew;
mod errors;
mod link;
mod others;
mod rank_zero;
mod serve;
mod share;
mod wire;

pub use agreement::{Identity, announce, contribute};
pub use crew::Crew;
pub use link::{Link, Parcel, in_memory};
pub use rank_zero::Ranks;
pub use serve::{Rank, serve};
pub use share::Shares;
