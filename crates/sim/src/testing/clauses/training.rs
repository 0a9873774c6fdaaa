//! Checks of what training returns.

use crate::testing::Contract;
use crate::testing::bench::{Bench, different_updates, state};
use crate::testing::breach::{Seen, alike, ensure};
use fedrecsim_core::UserId;
use fedrecsim_core::work::Work;
use fedrecsim_methods::Scratch;

/// Checks that the first participation of each of ten users does not fail, as far as there is a
/// world for them to take part in.
pub(crate) fn comes_to_its_end(contract: &Contract<'_>) -> Result<(), Seen> {
    let Ok(mut bench) = Bench::new(contract) else {
        return Ok(());
    };
    let users = if bench.world.trains { 0..10 } else { 0..0 };
    for user in users {
        let mut client = bench.client(user);
        bench.train(client.as_mut(), user, 0)?;
    }
    Ok(())
}

/// Checks that an update has the layout that was announced, that it changes something, and that its
/// loss and work can be booked. A method that is not trained has no private state.
pub(crate) fn has_the_layout_of_uploads(contract: &Contract<'_>) -> Result<(), Seen> {
    let mut bench = Bench::new(contract)?;
    let mut client = bench.client(4);
    if !bench.world.trains {
        let length = state(client.as_mut())?.len();
        return ensure(length == 0, || {
            format!("a method that is not trained has {length} bytes of private state")
        });
    }
    let sent = bench.train(client.as_mut(), 4, 0)?;
    let layout = bench.world.upload_layout(bench.phase(), UserId(4));
    sent.update.check(layout)?;
    ensure(sent.loss.is_finite(), || {
        format!("the loss is {}", sent.loss)
    })?;
    // Users of a central method only send what they have.
    let works = bench.world.placement.is_on_devices();
    ensure(!works || sent.work != Work::default(), || {
        "training reports no work, so it would take no time".to_owned()
    })?;
    let model = bench.download(4)?;
    let applied = sent.update.apply(layout, &model)?;
    ensure(applied != model, || {
        "the update leaves the model as it was: nothing was learned".to_owned()
    })
}

/// Checks that training with buffers that other users' trainings have filled gives what it gives
/// with new ones.
pub(crate) fn is_alike_with_used_buffers(contract: &Contract<'_>) -> Result<(), Seen> {
    let mut bench = Bench::new(contract)?;
    if !bench.world.trains {
        return Ok(());
    }
    for user in 0..5 {
        let mut client = bench.client(user);
        bench.train(client.as_mut(), user, 0)?;
    }
    let mut client = bench.client(9);
    let used = bench.train(client.as_mut(), 9, 0)?;
    bench.scratch = Scratch::default();
    let mut client = bench.client(9);
    let fresh = bench.train(client.as_mut(), 9, 0)?;
    alike(
        different_updates(&used, &fresh),
        "with used and with new buffers ",
    )
}
