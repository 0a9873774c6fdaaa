//! Checks of whole runs.

use std::sync::Arc;
use std::time::Duration;

use crate::testing::breach::{Seen, alike, ensure};
use crate::testing::outcome::difference;
use crate::testing::{Contract, check_balance, check_figures, check_resumed_runs};
use crate::{self as sim, Outcome, RehearsalLength, RunControl, World};

/// Runs the world to its end and checks its outcome.
fn run(world: impl Into<Arc<World>>, threads: usize) -> Result<Outcome, Seen> {
    let outcome = sim::run(world, &RunControl::with_threads(threads), &mut ())?;
    if let Some(error) = &outcome.stopped_by {
        return Err(Seen(format!("the run stopped: {error}")));
    }
    check_figures(&outcome)?;
    check_balance(&outcome)?;
    Ok(outcome)
}

/// Checks that two outcomes are the same.
fn same(one: &Outcome, other: &Outcome, what: &str) -> Result<(), Seen> {
    alike(difference(one, other), &format!("{what} differ in "))
}

/// Checks that a run repeats its digest, on as many threads, on more, and in a world that other
/// simulations were in before.
pub(crate) fn repeat_their_digest(contract: &Contract<'_>) -> Result<(), Seen> {
    let run_on = |threads| run(contract.world(&[])?, threads);
    let once = run_on(1)?;
    let rounds = once.rounds.len();
    ensure(rounds == 3, || {
        format!("{rounds} of 3 rounds were finished")
    })?;
    same(&once, &run_on(1)?, "two runs on one thread each")?;
    same(&once, &run_on(3)?, "a run on one thread and one on three")?;
    let world = Arc::new(contract.world(&[])?);
    sim::estimate(&world, 1, REHEARSAL)?;
    same(
        &once,
        &run(world, 2)?,
        "a run and one in a world that was rehearsed in",
    )
}

/// A rehearsal of all rounds, which trains a few users for all.
const REHEARSAL: RehearsalLength = RehearsalLength {
    rounds: 3,
    at_least: Duration::ZERO,
    at_most: Duration::from_secs(60),
};

/// What may differ from world to world: network and devices, codecs, cohorts, negatives and
/// evaluation.
const WORLDS: [&[&str]; 5] = [
    &[
        "network.preset=\"mobile-pessimistic\"",
        "network.dropout=0.4",
        "devices.preset=\"phone-lognormal\"",
    ],
    &[
        "codec.uplink=\"rows-f32\"",
        "codec.downlink=\"sparse-f32\"",
        "training.participation={ cohort = 3 }",
    ],
    &[
        "codec.uplink=\"sparse-f32\"",
        "codec.downlink=\"rows-f32\"",
        "dataset.negatives.pool=\"unrated\"",
    ],
    &[
        "codec.uplink={ delta = true, values = \"int4\", entropy = \"ans\", error_feedback = true }",
        "codec.downlink={ values = \"int8\" }",
        "training.rounds=2",
    ],
    &[
        "dataset.split.leave-one-out.validation_item=false",
        "evaluation.ranking=\"full-catalogue\"",
        "evaluation.users=5",
    ],
];

/// Checks that runs in other worlds come to their end.
pub(crate) fn work_in_every_world(contract: &Contract<'_>) -> Result<(), Seen> {
    WORLDS.into_iter().try_for_each(|overrides| {
        let outcome = contract.world(overrides).and_then(|world| run(world, 2));
        outcome
            .map(drop)
            .map_err(|Seen(seen)| Seen(format!("with {}: {seen}", overrides.join(", "))))
    })
}

/// Checks that runs come to their end, and repeat their digest, with a codec that loses something,
/// remembers it on the device and draws at random.
pub(crate) fn work_with_lossy_codecs(contract: &Contract<'_>) -> Result<(), Seen> {
    const LOSSY: [&str; 4] = [
        "training.participation={ cohort = 15 }",
        "network.dropout=0.2",
        "codec.uplink={ delta = true, values = \"int8\", error_feedback = true }",
        "codec.downlink={ values = \"f16\" }",
    ];
    let lossy = run(contract.world(&LOSSY)?, 1)?;
    same(
        &lossy,
        &run(contract.world(&LOSSY)?, 3)?,
        "a run on one thread and one on three",
    )?;
    if !contract.entry.placement.trains() {
        return Ok(());
    }
    let lossless = run(contract.world(&LOSSY[..2])?, 2)?;
    ensure(lossless.digest != lossy.digest, || {
        "what the codec loses has no effect on the result".to_owned()
    })
}

/// Checks that runs go on from every checkpoint as if they had never been stopped, in rounds that
/// wait for everybody and where participations are under way when a checkpoint is made.
pub(crate) fn go_on_from_checkpoints(contract: &Contract<'_>) -> Result<(), Seen> {
    let synchronous = [
        "training.rounds=4",
        "network.dropout=0.3",
        "training.participation={ share = 0.4 }",
    ];
    let buffered = [
        "training.rounds=4",
        "training.mode={ fedbuff = { concurrency = 12, buffer = 4 } }",
        "network.preset=\"mobile-pessimistic\"",
        "network.dropout=0.2",
    ];
    let in_mode = |mode: &str, overrides: &[&str]| {
        let scenario = contract.scenario(overrides)?;
        let world = || contract.world_of(scenario.clone());
        check_resumed_runs(&world).map_err(|seen| Seen(format!("{mode}: {seen}")))
    };
    in_mode("in synchronous rounds", &synchronous)?;
    if contract.entry.placement.trains() {
        in_mode("under FedBuff", &buffered)
    } else {
        Ok(())
    }
}
