//! Checks of the private state: that it is copied, saved and restored as a whole.

use crate::testing::Contract;
use crate::testing::bench::{
    Bench, different_scores, different_states, different_updates, restore, state,
};
use crate::testing::breach::Seen;
use fedrecsim_methods::Client;

/// Checks that a client that was restored is the one that was saved, also in what it does later.
pub(crate) fn is_saved_and_restored(contract: &Contract<'_>) -> Result<(), Seen> {
    let mut bench = Bench::new(contract)?;
    let mut client = bench.client(1);
    let rounds = if bench.world.trains { 2 } else { 0 };
    for round in 0..rounds {
        bench.train(client.as_mut(), 1, round)?;
    }
    let mut restored = bench.client(1);
    restore(client.as_mut(), restored.as_mut())?;
    are_alike(&mut bench, client.as_mut(), restored.as_mut(), 1).map_err(|Seen(place)| {
        Seen(format!(
            "of a client that was saved and the one that was restored, {place}"
        ))
    })?;
    if rounds == 0 {
        return Ok(());
    }
    train_alike(&mut bench, client.as_mut(), restored.as_mut(), (1, 2)).map_err(|Seen(place)| {
        Seen(format!(
            "after one more training of a client that was saved and of the one that was restored, {place}; \
             visit_state leaves something out that training uses"
        ))
    })
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
    if let Some(place) =
        different_scores(&scores, &scored).or_else(|| different_states(&before, &copied))
    {
        return Err(Seen(format!(
            "training has changed a copy that was made before it: {place}"
        )));
    }
    // Training after this must not depend on whether the state went through a snapshot.
    let again = bench.train(snapshot.as_mut(), 2, 1)?;
    let states = (state(client.as_mut())?, state(snapshot.as_mut())?);
    match different_updates(&update, &again).or_else(|| different_states(&states.0, &states.1)) {
        Some(place) => Err(Seen(format!(
            "after the same training of a client and of its copy, {place}"
        ))),
        None => Ok(()),
    }
}

/// Checks that two clients have the same state and scores.
fn are_alike(
    bench: &mut Bench,
    one: &mut dyn Client,
    other: &mut dyn Client,
    user: u32,
) -> Result<(), Seen> {
    let states = (state(one)?, state(other)?);
    let scores = (bench.scores(one, user)?, bench.scores(other, user)?);
    let different =
        different_states(&states.0, &states.1).or_else(|| different_scores(&scores.0, &scores.1));
    different.map_or(Ok(()), |place| Err(Seen(place)))
}

/// Checks that two clients return the same update in one more round, and have the same state after
/// it.
fn train_alike(
    bench: &mut Bench,
    one: &mut dyn Client,
    other: &mut dyn Client,
    (user, round): (u32, u32),
) -> Result<(), Seen> {
    let updates = (
        bench.train(one, user, round)?,
        bench.train(other, user, round)?,
    );
    let states = (state(one)?, state(other)?);
    let different = different_updates(&updates.0, &updates.1)
        .or_else(|| different_states(&states.0, &states.1));
    different.map_or(Ok(()), |place| Err(Seen(place)))
}
