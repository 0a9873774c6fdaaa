//! Checks of what a client scores.

use crate::testing::Contract;
use crate::testing::bench::{Bench, different_scores};
use crate::testing::breach::{Seen, alike, ensure};

/// Checks that clients that have just been made score alike.
pub(crate) fn of_a_user_that_never_took_part(contract: &Contract<'_>) -> Result<(), Seen> {
    let mut bench = Bench::new(contract)?;
    let (one, other) = (bench.client(0), bench.client(0));
    let (one, other) = (
        bench.scores(one.as_ref(), 0)?,
        bench.scores(other.as_ref(), 0)?,
    );
    alike(
        different_scores(&one, &other),
        "of two clients that were made for user 0, ",
    )
}

/// Checks that an item has the same score in every list of items.
pub(crate) fn are_alike_in_any_company(contract: &Contract<'_>) -> Result<(), Seen> {
    let mut bench = Bench::new(contract)?;
    let mut client = bench.client(1);
    if bench.world.trains {
        bench.train(client.as_mut(), 1, 0)?;
    }
    let all = bench.scores(client.as_ref(), 1)?;
    for items in [&[0u32][..], &[7, 80, 149], &[3, 4, 5, 6]] {
        for (&item, score) in items
            .iter()
            .zip(bench.scores_of(client.as_ref(), 1, items)?)
        {
            let in_company = all[item as usize];
            ensure(score.to_bits() == in_company.to_bits(), || {
                format!(
                    "item {item} is scored {score} when items {items:?} are asked for, and {in_company} among all items"
                )
            })?;
        }
    }
    Ok(())
}
