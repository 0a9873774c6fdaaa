//! The ground layer: units, numbers, randomness, errors, portable math, metrics.

mod begin_file;
pub mod error;
pub mod ids;
pub mod legs;
pub mod math;
pub mod memory;
pub mod metric;
pub mod rng;
mod shell;
pub mod stages;
mod timestamp;
pub mod units;
pub mod work;

pub use {
    begin_file::{Partial, begin_file},
    error::{Error, ErrorKind, Result, Who},
    ids::{InvitationId, ItemId, Round, Step, UserId},
    rng::{PortableDraws, Purpose, Stream, Streams},
    shell::shell_word,
    timestamp::Timestamp,
    units::{BitsPerSecond, Bytes, Direction, SimDuration, SimTime},
};
