use std::collections::{BTreeMap, BTreeSet};

use fedrecsim_core::UserId;

use crate::support::{assert_balanced, assert_finite, run, small_of_ratings, world};

/// If this fails, the graph that devices of FedPerGNN expand is not what their ratings have in
/// common, or does not travel by way of the third party.
#[test]
fn fedpergnn_sends_every_own_item_and_receives_its_other_users() {
    let scenario = small_of_ratings(
        "fedpergnn",
        &["training.rounds=2", "codec.uplink=\"rows-f32\""],
    );
    let dataset = world(scenario.clone()).dataset;
    let rated: Vec<BTreeSet<u32>> = (0..dataset.users())
        .map(|user| {
            dataset
                .train_items(UserId::from(user))
                .iter()
                .copied()
                .collect()
        })
        .collect();
    let outcome = run(scenario, 2);
    assert_finite(&outcome);
    assert_balanced(&outcome);
    let mut users_of = BTreeMap::<u32, u64>::new();
    rated
        .iter()
        .flatten()
        .for_each(|item| *users_of.entry(*item).or_default() += 1);
    let pairs: u64 = users_of.values().sum();
    let others: u64 = users_of.values().map(|users| users * (users - 1)).sum();
    assert!(others > 100, "the users have nothing in common");
    for (round, neighbours) in [(0, 0), (1, others)] {
        let bytes = outcome.rounds[round].third_party_bytes.unwrap();
        // A pseudonym takes eight bytes, and an embedding 64 times four.
        assert_eq!(
            bytes.up.values,
            8 * pairs + 256 * rated.len() as u64,
            "round {round}"
        );
        assert_eq!(
            bytes.down.values,
            256 * neighbours,
            "round {round}: nobody was known before the first step"
        );
    }
}

/// If this fails, devices are sent more neighbours than they may be, or train without them.
#[test]
fn the_number_of_neighbours_is_bounded_and_has_an_effect() {
    let outcomes = [1, 2].map(|most| {
        let method = format!("method.fedpergnn={{ neighbours_per_item = {most}, own_items = 3 }}");
        run(
            small_of_ratings("fedpergnn", &[&method, "training.rounds=2"]),
            2,
        )
    });
    let received = outcomes
        .each_ref()
        .map(|outcome| outcome.third_party_bytes.unwrap().down.values);
    assert!(
        0 < received[0] && received[0] < received[1] && received[0] <= 40 * 3 * 256,
        "{received:?}"
    );
    assert_ne!(outcomes[0].model, outcomes[1].model);
}
