//! Checks of the private state: that it is copied, saved and restored as a whole.

use crate::testing::Contract;
use crate::testing::bench::{
    Bench, different_scores, different_states, different_updates, restore, state,
};
use crate::testing::breach::{Seen, alike};

/// Checks that a client that was restored is the one that was saved, also in what it does later.
pub(crate) fn is_saved_and_restored(contract: &Contract<'_>) -> Result<(), Seen> {
    let mut bench = Bench::new(contract)?;
    let (mut saved, mut restored) = (bench.client(1), bench.client(1));
    let rounds = if bench.world.trains { 2 } else { 0 };
    for round in 0..rounds {
        bench.train(saved.as_mut(), 1, round)?;
    }
    restore(saved.as_mut(), restored.as_mut())?;
    let states = different_states(&state(saved.as_mut())?, &state(restored.as_mut())?);
    let scores = (
        bench.scores(saved.as_ref(), 1)?,
        bench.scores(restored.as_ref(), 1)?,
    );
    alike(
        states.or_else(|| different_scores(&scores.0, &scores.1)),
        "of a client that was saved and the one that was restored, ",
    )?;
    if rounds == 0 {
        return Ok(());
    }
    let updates = (
        bench.train(saved.as_mut(), 1, 2)?,
        bench.train(restored.as_mut(), 1, 2)?,
    );
    let states = different_states(&state(saved.as_mut())?, &state(restored.as_mut())?);
    alike(
        different_updates(&updates.0, &updates.1).or(states),
        "visit_state leaves something out that training uses: after one more training of a client that was saved and of \
         the one that was restored, ",
    )
}

/// Checks that a snapshot is the state before training, and trains on as its original does.
pub(crate) fn is_copied_by_a_snapshot(contract: &Contract<'_>) -> Result<(), Seen> {
    let mut bench = Bench::new(contract)?;
    if !bench.world.trains {
        return Ok(());
    }
    let mut client = bench.client(2);
    bench.train(client.as_mut(), 2, 0)?;
    let (scores, before) = (bench.scores(client.as_ref(), 2)?, state(client.as_mut())?);
    let mut snapshot = client.snapshot();
    let update = bench.train(client.as_mut(), 2, 1)?;
    let scored = bench.scores(snapshot.as_ref(), 2)?;
    let copied = state(snapshot.as_mut())?;
    alike(
        different_scores(&scores, &scored).or_else(|| different_states(&before, &copied)),
        "training has changed a copy that was made before it: ",
    )?;
    // Training after this must not depend on whether the state went through a snapshot.
    let again = bench.train(snapshot.as_mut(), 2, 1)?;
    let states = different_states(&state(client.as_mut())?, &state(snapshot.as_mut())?);
    alike(
        different_updates(&update, &again).or(states),
        "after the same training of a client and of its copy, ",
    )
}
