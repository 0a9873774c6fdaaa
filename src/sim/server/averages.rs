//! The server's step: what the updates that it took in make of the global table.

use std::sync::Arc;

use bytes::Bytes;
use rayon::prelude::*;

use crate::codec::Codec;
use crate::error::Result;
use crate::ids::{UserId, Wave};
use crate::model::aggregate::{Aggregate, Averaging};
use crate::model::table::{Table, TableUpdate};
use crate::scenario::Mode;
use crate::sim::broadcast::Broadcast;
use crate::stages::{Stage, enter};

/// Frames that are decoded and added together: some megabytes of them.
const FRAMES_AT_ONCE: usize = 128;

/// An update that the server took in.
pub(super) struct Arrived {
    pub user: UserId,
    pub wave: Wave,
    pub frame: Bytes,
    /// What the client started from.
    pub broadcast: Arc<Broadcast>,
    /// Steps of the server since then.
    pub staleness: u32,
}

/// The table after the step, and what was sent for it.
pub(super) fn step(_mode: &Mode, global: &Table, mut arrived: Vec<Arrived>, codec: &dyn Codec) -> Result<Aggregate> {
    // In the order of users, not of arrival: the average does not depend on who has the faster link.
    arrived.sort_by_key(|arrived| (arrived.user, arrived.wave));
    // Rows that an update leaves out refer to what the client downloaded, which is what the frame said.
    let base = match arrived.first() {
        Some(first) => first.broadcast.table()?,
        None => return Ok(Averaging::new(global).finish()),
    };
    let shape = base.shape();
    let decode = |arrived: &Arrived| {
        let _stage = enter(Stage::Decode);
        codec.decode(&arrived.frame, shape)
    };
    let mut averaging = Averaging::new(&base);
    // A few at a time, so that what was decoded is still in the cache when it is added.
    for frames in arrived.chunks(FRAMES_AT_ONCE) {
        let updates: Vec<TableUpdate> = frames.par_iter().map(decode).collect::<Result<_>>()?;
        averaging.add(&updates);
    }
    let aggregate = averaging.finish();
    // In parallel: their memory is out of every cache by now.
    arrived.into_par_iter().for_each(drop);
    Ok(aggregate)
}
