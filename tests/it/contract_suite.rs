use fedrecsim_methods::registry::{METHODS, vocabulary_of};
use fedrecsim_scenario::unchecked_rules;
use fedrecsim_sim::testing::{Clause, Contract, parameters_for_few_users};

use crate::support::{methods, small_with, world};

/// Names forms of methods that keep other private state, or send something else, than they do by
/// default.
const FORMS: [(&str, &str); 4] = [
    (
        "fedrap",
        "{ learning_rate_tables = 10, noise = { participants = 40 } }",
    ),
    ("fedmf", "{ bias = true, dual_personalization = true }"),
    ("fedncf", "{ dual_personalization = true }"),
    (
        "fedrecon",
        "{ dual_personalization = true, learning_rate_items = 500 }",
    ),
];

/// Checks a clause of the contract for every method of the crate and of the examples, and for their
/// [`FORMS`].
fn assert_kept(clause: Clause) {
    for (name, parameters) in FORMS {
        let entry = METHODS.iter().find(|entry| entry.name == name).unwrap();
        let contract = Contract::of(entry).with_parameters(parameters);
        contract
            .check_clause(clause)
            .unwrap_or_else(|breach| panic!("{parameters}: {breach}"));
    }
    for entry in methods() {
        let contract = Contract::of(&entry).with_parameters(parameters_for_few_users(entry.name));
        contract
            .check_clause(clause)
            .unwrap_or_else(|breach| panic!("{breach}"));
    }
}

/// If this fails, scenario files are checked against less than their schema says.
#[test]
fn every_rule_of_the_methods_schemas_is_checked() {
    assert_eq!(
        unchecked_rules(&vocabulary_of(&methods())),
        Vec::<String>::new()
    );
}

/// If this fails, a method runs with parameters that it must not have.
#[test]
fn every_method_refuses_parameters_that_its_schema_forbids() {
    assert_kept(Clause::Parameters);
}

/// If this fails, a method makes a block whose size has not been checked.
#[test]
fn every_method_announces_the_sizes_of_its_blocks() {
    assert_kept(Clause::Sizes);
}

/// If this fails, evaluation before a user's first round panics or reads garbage.
#[test]
fn every_method_scores_a_user_that_never_took_part() {
    assert_kept(Clause::FreshClients);
}

/// If this fails, an item's score depends on the other items of the list or on their order, and
/// with it the sampled ranking.
#[test]
fn every_method_scores_an_item_alike_in_any_company() {
    assert_kept(Clause::ScoresAlone);
}

/// If this fails, a program that sets the model of a run trains another one.
#[test]
fn every_server_goes_on_from_the_model_that_it_is_given() {
    for entry in methods() {
        let server = |overrides: &[&str]| world(small_with(entry.name, overrides)).method.server();
        let given = server(&["seed=4"]).model().clone();
        let mut server = server(&[]);
        server.set_model(given.clone()).unwrap();
        assert_eq!(server.model(), &given, "{}", entry.name);
    }
}

/// If this fails, a method sends something else than its layout announces, or nothing that the
/// server could learn from.
#[test]
fn every_methods_update_has_its_layout() {
    assert_kept(Clause::Uploads);
}

/// If this fails, buffers of a worker thread carry something from one user to the next.
#[test]
fn every_method_trains_alike_with_used_and_with_fresh_buffers() {
    assert_kept(Clause::Buffers);
}

/// If this fails, a participation that drops out during training leaves a trace on the device.
#[test]
fn every_methods_snapshot_is_the_state_before_training() {
    assert_kept(Clause::Snapshots);
}

/// If this fails, a run that is resumed trains or scores with other private parameters than those
/// that were saved.
#[test]
fn every_method_saves_and_restores_a_client_to_the_bit() {
    assert_kept(Clause::SavedState);
}

/// If this fails, a private parameter of a user leaves the device.
#[test]
fn no_method_sends_a_private_value() {
    assert_kept(Clause::PrivateState);
}

/// If this fails, a method's result depends on threads, on chance, or is not finite.
#[test]
fn every_method_runs_finitely_balances_and_repeats_its_digest() {
    assert_kept(Clause::Repeats);
}

/// If this fails, a method works only if every download arrives, or only with one way of running
/// rounds.
#[test]
fn every_method_runs_in_every_world() {
    assert_kept(Clause::EveryWorld);
}

/// If this fails, a codec that loses something, remembers it and draws at random breaks a promise
/// that lossless ones keep.
#[test]
fn every_method_runs_with_a_codec_that_loses_something_in_both_directions() {
    assert_kept(Clause::LossyCodecs);
}

/// If this fails, a run that was stopped and resumed comes to another result than one that was not.
/// (The test of all modes is in `resume`.)
#[test]
fn every_method_goes_on_from_its_checkpoints() {
    assert_kept(Clause::Resumes);
}
