//! The server's step: the updates that it took in are decoded and handed to the method's server side.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use rayon::prelude::*;

use crate::codec;
use crate::error::Result;
use crate::ids::{InvitationId, Step, UserId};
use crate::method::Server;
use crate::method::server::{Contribution, StepContext, StepReport, WeightTotals};
use crate::model::blocks::ModelUpdate;
use crate::sim::download::{OutgoingDownload, Received};
use crate::sim::user_order::sort_by_user;
use crate::sim::world::World;
use crate::stages::{Stage, enter};

/// Bytes of the frames that are decoded and added together: what was decoded is to be in the cache still.
const BYTES_AT_ONCE: usize = 8 << 20;

/// How many frames these are, at the least and at the most.
const FRAMES_AT_ONCE: std::ops::RangeInclusive<usize> = 8..=128;

/// An update that the server took in.
pub(super) struct Arrived {
    pub user: UserId,
    pub invitation_id: InvitationId,
    pub frame: Bytes,
    /// What the client started from.
    pub download: Arc<OutgoingDownload>,
    /// Steps of the server since then.
    pub staleness: u32,
}

/// Makes a step of what has arrived, in the order of users and not of arrival: a step does not depend on who has the
/// faster link. Weights are those of the policy's [`UpdateRule`](crate::scenario::UpdateRule).
///
/// A fresh update's b is g as the server meant it, so that the rules by differences are the mean of x if all updates are
/// fresh. What the downlink lost of g is taken out of x.
///
/// # Errors
/// A frame that does not decode, and whatever the method's server side finds wrong.
pub(super) fn step(world: &World, server: &mut dyn Server, step: u32, mut arrived: Vec<Arrived>) -> Result<StepReport> {
    sort_by_user(&mut arrived, |arrived| (arrived.user, arrived.invitation_id));
    let policy = &world.policy;
    let mut sums = server.accumulator();
    // A few at a time, so that what was decoded is still in the cache when it is added.
    let longest = arrived.iter().map(|arrived| arrived.frame.len()).max().unwrap_or(0).max(1);
    let frames_at_once = (BYTES_AT_ONCE / longest).clamp(*FRAMES_AT_ONCE.start(), *FRAMES_AT_ONCE.end());
    for frames in arrived.chunks(frames_at_once) {
        let decoded = match frames {
            [arrived] => vec![decode(world, arrived)?],
            _ => frames.par_iter().map(|arrived| decode(world, arrived)).collect::<Result<Vec<_>>>()?,
        };
        let contributions: Vec<Contribution<'_>> = frames
            .iter()
            .zip(&decoded)
            .map(|(arrived, (update, received))| Contribution {
                user: arrived.user,
                invitation_id: arrived.invitation_id,
                phase: arrived.download.phase(),
                update,
                received: &received.model,
                meant: received.meant.as_ref(),
                download_number: arrived.download.number(),
                weight: policy.weight(arrived.staleness),
                base_weight: policy.base_weight(arrived.staleness),
                is_fresh: arrived.staleness == 0,
            })
            .collect();
        sums.absorb(&contributions)?;
    }
    let normalise = |totals: &WeightTotals| policy.step_weights(totals);
    let training = &world.scenario.training;
    let context = StepContext::new(step, world.dataset.users() as u32, &normalise, world.streams)
        .within(training.round_of(Step(step)), training.divergence_limit);
    let report = server.step(sums, &context)?;
    if is_small(&arrived) {
        return Ok(report);
    }
    // The frames in parallel: their memory is out of every cache by now. Not the downloads, which are one and the same.
    arrived.into_iter().map(|arrived| arrived.frame).collect::<Vec<_>>().into_par_iter().for_each(drop);
    Ok(report)
}

/// Returns whether a step of these updates takes less time than handing it to the worker threads, which is some ten
/// microseconds: that of one update of few rows.
pub(super) fn is_small(arrived: &[Arrived]) -> bool {
    matches!(arrived, [arrived] if arrived.frame.len() < 1 << 16)
}

/// Returns what an update says, and what its sender had received.
fn decode<'a>(world: &World, arrived: &'a Arrived) -> Result<(ModelUpdate, Cow<'a, Received>)> {
    let _stage = enter(Stage::Decode);
    let layout = world.upload_layout(arrived.download.phase());
    let update = codec::decode(world.uplink, &arrived.frame, layout)?;
    Ok((update, arrived.download.received(arrived.user)?))
}
