//! A run in real time over TCP: the server in one process, devices in others, and nothing but
//! encoded frames between them.
//!
//! [`serve`] runs the server's actors and waits for processes with devices; [`join`] is such a
//! process. A process has one connection, with all of its users on it. `message` is what is said on
//! it, and `connection` reads and writes it: with a thread for each direction, so that a slow peer
//! holds nobody up. Device processes are few, however many users they have, and so are threads.
//!
//! Greeting: hello, offer of the scenario, join with the digests of scenario and data and the users,
//! welcome or a refusal (`accept`). Then invitations come down and uploads go up. Evaluation and digests are
//! questions beside the run, and no byte of them is booked. `run` is the clock that tells the
//! coordinator what has happened.

mod accept;
mod alarm;
mod connection;
mod connections;
mod doors;
mod host;
mod hosting;
mod join;
mod message;
mod news;
mod probe;
mod processes;
mod questions;
mod room;
mod run;
mod serve;
mod sorting;
mod status;
#[cfg(test)]
mod tests;
mod timed;
mod tls;

pub use self::{
    connection::SILENCE,
    join::{Joining, MakeWorld, join},
    message::{Digest, PROTOCOL},
    news::News,
    probe::{MOST_TIME, Way, answer, probe},
    run::OpenArrivals,
    serve::{Serving, serve},
    sorting::read_all,
    status::{Published, Status, publish},
    tls::Keys,
};
