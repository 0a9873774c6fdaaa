//! The server's step: what the updates that it took in make of the global table.

use std::sync::Arc;

use bytes::Bytes;
use rayon::prelude::*;

use crate::codec::Codec;
use crate::error::Result;
use crate::ids::{InvitationId, UserId};
use crate::model::aggregate::{Aggregate, Averaging, Contribution};
use crate::model::table::{Table, TableShape};
use crate::scenario::{Policy, StepWeights};
use crate::sim::broadcast::Broadcast;
use crate::stages::{Stage, enter};

/// Frames that are decoded and added together: some megabytes of them.
const FRAMES_AT_ONCE: usize = 128;

/// An update that the server took in.
pub(super) struct Arrived {
    pub user: UserId,
    pub invitation_id: InvitationId,
    pub frame: Bytes,
    /// What the client started from.
    pub broadcast: Arc<Broadcast>,
    /// Steps of the server since then.
    pub staleness: u32,
}

/// The table after the step by the policy's [`UpdateRule`](crate::scenario::UpdateRule), and what was sent for it.
///
/// A fresh update's b is g as the client received it, so that the rules by differences are the mean of x if all updates
/// are fresh.
pub(super) fn step(policy: &Policy, global: &Table, mut arrived: Vec<Arrived>, codec: &dyn Codec) -> Result<Aggregate> {
    // In the order of users, not of arrival: the average does not depend on who has the faster link.
    arrived.sort_by_key(|arrived| (arrived.user, arrived.invitation_id));
    let shape = global.shape();
    let mut averaging = Averaging::new(shape);
    let StepWeights { kept, divisor } = policy.step_weights(arrived.iter().map(|arrived| arrived.staleness));
    // A few at a time, so that what was decoded is still in the cache when it is added.
    for frames in arrived.chunks(FRAMES_AT_ONCE) {
        let decoded = frames.par_iter().map(|arrived| contribution(policy, arrived, codec, shape));
        let contributions: Vec<Contribution<'_>> = decoded.collect::<Result<_>>()?;
        averaging.add(&contributions);
    }
    let aggregate = averaging.finish(global, kept, divisor);
    // In parallel: their memory is out of every cache by now.
    arrived.into_par_iter().for_each(drop);
    Ok(aggregate)
}

/// What an update says, and what it counts.
fn contribution<'a>(
    policy: &Policy,
    arrived: &'a Arrived,
    codec: &dyn Codec,
    shape: TableShape,
) -> Result<Contribution<'a>> {
    let _stage = enter(Stage::Decode);
    let (weight, base_weight) = (policy.weight(arrived.staleness), policy.base_weight(arrived.staleness));
    // Rows that an update leaves out refer to what the client downloaded, which is what the frame said.
    let base = arrived.broadcast.table()?;
    let base_number = arrived.broadcast.first_invitation().0;
    Ok(Contribution { update: codec.decode(&arrived.frame, shape)?, base, base_number, weight, base_weight })
}
