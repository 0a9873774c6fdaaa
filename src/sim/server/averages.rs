//! The server's step: what the updates that it took in make of the global table.

use std::sync::Arc;

use bytes::Bytes;
use rayon::prelude::*;

use crate::codec::Codec;
use crate::error::Result;
use crate::ids::{InvitationId, UserId};
use crate::math;
use crate::model::aggregate::{Aggregate, Averaging, Contribution};
use crate::model::table::{Table, TableShape};
use crate::scenario::{Mode, StalenessWeight};
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

/// The table after the step, and what was sent for it.
///
/// With x the client's table, b the one that it started from, s its staleness and w(s) the staleness weight:
/// - synchronous, over-selection: mean of x;
/// - semi-synchronous: g + sum of w(s) (x - b) / sum of w(s);
/// - FedBuff: g + server rate x sum of w(s) (x - b) / number of updates (Nguyen et al. 2022, algorithm 1);
/// - FedAsync: (1 - a) g + a x with a = mixing x w(s) (Xie et al. 2019, algorithm 1).
///
/// A fresh update's b is g as the client received it, so the second and third are the mean of x if all are fresh.
pub(super) fn step(mode: &Mode, global: &Table, mut arrived: Vec<Arrived>, codec: &dyn Codec) -> Result<Aggregate> {
    // In the order of users, not of arrival: the average does not depend on who has the faster link.
    arrived.sort_by_key(|arrived| (arrived.user, arrived.invitation_id));
    let shape = global.shape();
    let mut averaging = Averaging::new(shape);
    let Rule { kept, divisor } = Rule::of(mode, &arrived);
    // A few at a time, so that what was decoded is still in the cache when it is added.
    for frames in arrived.chunks(FRAMES_AT_ONCE) {
        let decoded = frames.par_iter().map(|arrived| contribution(mode, arrived, codec, shape));
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
    mode: &Mode,
    arrived: &'a Arrived,
    codec: &dyn Codec,
    shape: TableShape,
) -> Result<Contribution<'a>> {
    let _stage = enter(Stage::Decode);
    let (weight, base_weight) = weights(mode, arrived.staleness);
    // Rows that an update leaves out refer to what the client downloaded, which is what the frame said.
    let base = arrived.broadcast.table()?;
    let base_number = arrived.broadcast.first_invitation().0;
    Ok(Contribution { update: codec.decode(&arrived.frame, shape)?, base, base_number, weight, base_weight })
}

/// What x counts, and what is taken away of b.
fn weights(mode: &Mode, staleness: u32) -> (f64, f64) {
    let (weight, of_difference) = match mode {
        Mode::Synchronous | Mode::OverSelection(_) => (1.0, false),
        Mode::SemiSynchronous(spec) => (staleness_weight(spec.staleness_weight, staleness), true),
        Mode::FedBuff(spec) => (spec.server_rate * staleness_weight(spec.staleness_weight, staleness), true),
        Mode::FedAsync(spec) => (spec.mixing * staleness_weight(spec.staleness_weight, staleness), false),
    };
    // The b of a fresh update is g, which `Rule` has counted.
    (weight, if of_difference && staleness > 0 { weight } else { 0.0 })
}

/// How much of g is kept, and what everything is divided by.
#[derive(Debug, PartialEq)]
struct Rule {
    kept: f64,
    divisor: f64,
}

impl Rule {
    fn of(mode: &Mode, arrived: &[Arrived]) -> Self {
        let sum = |of: &dyn Fn(&Arrived) -> bool| -> f64 {
            arrived.iter().filter(|arrived| of(arrived)).map(|arrived| weights(mode, arrived.staleness).0).sum()
        };
        let all = arrived.len() as f64;
        match mode {
            Mode::Synchronous | Mode::OverSelection(_) => Self { kept: 0.0, divisor: all },
            Mode::SemiSynchronous(_) => Self { kept: sum(&|arrived| arrived.staleness > 0), divisor: sum(&|_| true) },
            Mode::FedBuff(_) => Self { kept: all - sum(&|arrived| arrived.staleness == 0), divisor: all },
            // One update at a time.
            Mode::FedAsync(_) => Self { kept: 1.0 - sum(&|_| true), divisor: 1.0 },
        }
    }
}

/// w(s).
fn staleness_weight(weight: StalenessWeight, staleness: u32) -> f64 {
    match weight {
        StalenessWeight::Constant => 1.0,
        // ln 1 is 0 and exp 0 is 1, so a fresh update has its whole weight.
        StalenessWeight::Polynomial(exponent) => math::exp(-exponent * math::ln(1.0 + f64::from(staleness))),
        StalenessWeight::Hinge { b, .. } if staleness <= b => 1.0,
        StalenessWeight::Hinge { a, b } => 1.0 / (a * f64::from(staleness - b) + 1.0),
    }
}
