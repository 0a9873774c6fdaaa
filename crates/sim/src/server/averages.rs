//! The server's step, which decodes the updates that have arrived and hands them to the method's
//! server side.

use std::borrow::Cow;

use rayon::prelude::*;

use super::Open;
use crate::audit::Audit;
use crate::download::{Download, Received};
use crate::invitation::Participant;
use crate::privacy::SumNoise;
use crate::upload::Upload;
use crate::world::World;
use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_core::{InvitationId, Result, Round, Step, UserId};
use fedrecsim_methods::Server;
use fedrecsim_methods::server::{Accumulator, Contribution, StepContext, StepReport, WeightTotals};
use fedrecsim_model::ModelUpdate;
use fedrecsim_scenario::StepWeights;

/// The bytes that are decoded and then added at a time, so that what was decoded is still in the
/// cache.
const BYTES_AT_ONCE: usize = 8 << 20;

/// The least and the largest number of frames that are decoded at a time.
const FRAMES_AT_ONCE: std::ops::RangeInclusive<usize> = 8..=128;

/// Names a step of the server.
#[derive(Clone, Copy)]
pub(super) struct StepName {
    /// Its number among the steps that are not empty.
    pub number: u32,
    /// Its number among all steps.
    pub step: Step,
    /// The round that it belongs to.
    pub round: Round,
}

impl Open {
    fn participant(&self) -> Participant {
        (self.user, self.invitation.id)
    }
}

/// Makes a step of the uploads that have arrived, in the order of users and not of arrival, so that
/// a step does not depend on who has the faster link. The weights are those of the policy's
/// [`UpdateRule`](fedrecsim_scenario::UpdateRule).
///
/// The base b of a fresh update is the model g as the server meant it, so the rules that average
/// differences give the mean of the updates x if all are fresh. The downlink codec's loss of g is
/// taken out of x.
///
/// # Errors
/// An error if a frame does not decode, and any error of the method's server side.
pub(super) fn step(
    world: &World,
    server: &mut dyn Server,
    name: StepName,
    mut arrived: Vec<(Open, Upload)>,
    audit: &mut Audit,
) -> Result<StepReport> {
    arrived.sort_by_cached_key(|(open, _)| open.participant());
    let (policy, step) = (&world.policy, name.number);
    let (mut sums, on_uploads) = accumulator(world, server, step);
    // A few frames at a time are decoded, so that they are still in the cache when they are added.
    let bytes = arrived
        .iter()
        .map(|(open, upload)| decoded_bytes(world, open, upload));
    let frames_at_once = (BYTES_AT_ONCE / bytes.max().unwrap_or(0).max(1))
        .clamp(*FRAMES_AT_ONCE.start(), *FRAMES_AT_ONCE.end());
    let mut noise = on_uploads;
    let decode = |(open, upload)| decode(world, open, upload, on_uploads.as_ref());
    for frames in arrived.chunks(frames_at_once) {
        let decoded = match frames {
            [(open, upload)] => vec![decode((open, upload))?],
            _ => {
                let frames = frames.par_iter().map(|(open, upload)| (open, upload));
                frames.map(decode).collect::<Result<Vec<_>>>()?
            }
        };
        let noisy;
        let participations = frames.iter().map(|(open, _)| open);
        let mut contributions: Vec<Contribution<'_>> = participations
            .clone()
            .zip(&decoded)
            .map(|(open, (update, received))| {
                contribution(world, name.step, open, update, received)
            })
            .collect();
        let asked: Vec<&[u32]> = participations
            .map(|open| open.asked.as_deref().unwrap_or_default())
            .collect();
        audit.look(name.round, (&contributions, &asked), world);
        if let (Some(noise), Some(first)) = (noise.take(), contributions.first_mut()) {
            // A server that adds up has the noise in its sum, whichever update it comes with.
            let described = (world.upload_layout(first.phase, first.user), first.received);
            noisy = noise.added_to(first.update, described, (world.streams, step))?;
            first.update = &noisy;
        }
        sums.absorb(&contributions)?;
    }
    if let Some(noise) = noise {
        absorb_noise_alone(&noise, world, server, &mut *sums, step)?;
    }
    let expected = world.sum_noise.and_then(|noise| noise.divisor());
    let normalise = |totals: &WeightTotals| match expected {
        // The model is g + the sum of x - g over the expected number.
        Some(expected) => StepWeights {
            kept: expected - totals.updates,
            divisor: expected,
        },
        None => policy.step_weights(totals),
    };
    let users = world.dataset.users_with_history() as u32;
    let mut context = StepContext::new(step, users, &normalise, world.streams);
    context.round = name.round;
    context.divergence_limit = world.scenario.training.divergence_limit as f32;
    context.expected_contributions = expected;
    let report = server.step(sums, &context)?;
    if is_small(&arrived) {
        return Ok(report);
    }
    // The uploads are dropped in parallel, since their memory is out of every cache by now. The
    // downloads are not, since most are one and the same, whose count of owners the threads would
    // fight over.
    arrived
        .into_iter()
        .map(|(_, upload)| upload)
        .collect::<Vec<_>>()
        .into_par_iter()
        .for_each(drop);
    Ok(report)
}

/// Describes an upload that was decoded to the method.
fn contribution<'a>(
    world: &World,
    step: Step,
    open: &Open,
    update: &'a ModelUpdate,
    received: &'a Received,
) -> Contribution<'a> {
    let download = &open.invitation.download;
    let staleness = step.0 - open.invitation.step.0;
    let (user, invitation_id) = open.participant();
    Contribution {
        user,
        invitation_id,
        phase: download.phase(),
        update,
        received: &received.model,
        intended: received.intended.as_ref(),
        download_number: download.base_number_for((user, invitation_id)),
        weight: world.policy.weight(staleness),
        base_weight: world.policy.base_weight(staleness),
        is_fresh: staleness == 0,
    }
}

/// Returns an empty accumulator of the step of this number, and the noise that the sum of its
/// uploads gets; `None` if it gets none. Where the server makes a sum by itself of what it works
/// out from uploads, the noise is in the accumulator.
fn accumulator(
    world: &World,
    server: &dyn Server,
    step: u32,
) -> (Box<dyn Accumulator>, Option<SumNoise>) {
    let of_own_sum =
        |noise: SumNoise| server.noisy_accumulator(noise.of_own_sum(world.streams, step));
    match world.sum_noise.and_then(of_own_sum) {
        Some(sums) => (sums, None),
        None => (server.accumulator(), world.sum_noise),
    }
}

/// Adds noise to sums without any contribution.
fn absorb_noise_alone(
    noise: &SumNoise,
    world: &World,
    server: &dyn Server,
    sums: &mut dyn Accumulator,
    step: u32,
) -> Result<()> {
    let phase = server.phase();
    // A server may use what participants have received, as FedSpec does. So the model goes through
    // the downlink's codec here as it does for participants, and the next model does not tell
    // whether there were any.
    let model = match world.downlink.sends_changes() {
        true => server.model().clone(),
        false => Download::encode(u32::MAX, phase, server.download(), world)?
            .received(UserId(u32::MAX))?
            .model
            .clone(),
    };
    let layout = world.upload_layout(phase, UserId(u32::MAX));
    let noisy = noise.added_to(
        &SumNoise::nothing(layout),
        (layout, &model),
        (world.streams, step),
    )?;
    let (nobody, no_invitation) = (UserId(u32::MAX), InvitationId(u32::MAX));
    sums.absorb(&[Contribution {
        phase,
        ..Contribution::fresh(nobody, no_invitation, &noisy, &model)
    }])
}

/// Returns whether a step of these updates takes less time than handing it to the worker threads,
/// which takes some ten microseconds. This holds for a single small update.
pub(super) fn is_small(arrived: &[(Open, Upload)]) -> bool {
    matches!(arrived, [(_, upload)] if upload.parts().total() < 1 << 16)
}

/// Returns about how many bytes a frame is once it is decoded, or more. A codec that loses
/// something may have made it many times shorter.
fn decoded_bytes(world: &World, open: &Open, upload: &Upload) -> usize {
    let bytes = upload.parts().total() as usize;
    match world.uplink.is_lossless() {
        true => bytes,
        false => bytes.max(
            world
                .upload_layout(open.invitation.download.phase(), open.user)
                .bytes(),
        ),
    }
}

/// Decodes an update, clips what it contributes to a sum with `noise`, and returns it with what its
/// sender had received.
fn decode<'a>(
    world: &World,
    open: &'a Open,
    upload: &Upload,
    noise: Option<&SumNoise>,
) -> Result<(ModelUpdate, Cow<'a, Received>)> {
    let _stage = enter(Stage::Decode);
    let download = &open.invitation.download;
    let layout = world.upload_layout(download.phase(), open.user);
    let received = download.base_of(layout, open.asked.as_deref(), open.participant())?;
    let frame = upload.bytes(open.user, &open.invitation, world)?;
    let sealed = (&frame, upload.integrity());
    let mut update = world.uplink.decode_frame(sealed, layout, &received.model)?;
    if let Some(noise) = noise {
        noise.clip(&mut update, layout, &received.model)?;
    }
    Ok((update, received))
}
