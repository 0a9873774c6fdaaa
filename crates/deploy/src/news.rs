//! What the owner of the server is told.

use std::ops::Range;

use fedrecsim_sim::outcome::{ByDirection, Flow, RoundRecord};

/// What the owner of the server is told.
pub enum News<'n> {
    /// The server waits for the processes of these users.
    WaitsFor(&'n str),
    /// All users are there.
    Complete,
    /// The process of these users has come.
    Joined(Range<u32>),
    /// The process of these users was cut off, for this reason.
    Left(Range<u32>, &'n str),
    /// A round is over, with the bytes of the run so far.
    Round(&'n RoundRecord, &'n ByDirection<Flow>),
    /// A peer that was not the process of any users was refused or cut off, for this reason.
    CutOff(&'n str),
    /// A checkpoint is there, after this round.
    Checkpoint(u32),
    /// The devices of these users have lost what they learned.
    BeginsAnew(Range<u32>),
}
