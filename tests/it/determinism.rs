use std::sync::OnceLock;

use fedrecsim_core::{InvitationId, Streams, UserId};
use fedrecsim_data::dataset::negatives::{NegativeSampler, Samples};
use fedrecsim_data::dataset::{self, Against, CandidateScratch};
use fedrecsim_scenario::Scenario;
use fedrecsim_sim::Outcome;

use crate::support::{load, run, small, small_with, world};

/// The digest of `scenarios/quickstart.toml` at its own seed.
///
/// It may change when training, the streams of randomness, frames or the scenario change, and then
/// this line has to change too; the failing test prints the new value, and so does
/// `fedrecsim run scenarios/quickstart.toml`. It may not change with the machine, the build
/// profile, the number of threads, or a rewrite that is to keep results.
const QUICKSTART_DIGEST: &str = "ad2b5ea7bc8e6c5872ba573ec0898a5bdeb8b305d8ecec456b5c253aa64c9fcb";

/// Returns the outcome of the quickstart, which is run once for all tests that look at it.
pub fn quickstart() -> &'static Outcome {
    static OUTCOME: OnceLock<Outcome> = OnceLock::new();
    OUTCOME.get_or_init(|| run(load("scenarios/quickstart.toml", &[]), 2))
}

/// If this fails, results are no longer those of the build that the digest was taken from.
#[test]
fn the_quickstart_has_its_pinned_digest() {
    assert_eq!(quickstart().digest, QUICKSTART_DIGEST);
}

/// Checks that `scenario` gives the same outcome at any number of threads, and returns it. If this
/// fails, thread scheduling or something left over from an earlier run reaches the result.
#[track_caller]
fn assert_reproducible(scenario: &Scenario) -> Outcome {
    let one = run(scenario.clone(), 1);
    for threads in [2, 3, 1] {
        let again = run(scenario.clone(), threads);
        assert_eq!(again.digest, one.digest, "{threads} threads");
        // Equal digests have to mean that these are equal.
        assert_eq!(again.rounds, one.rounds, "{threads} threads");
        assert_eq!(again.baselines, one.baselines, "{threads} threads");
        assert_eq!(again.durations, one.durations, "{threads} threads");
        assert_eq!(
            again.beyond_accuracy, one.beyond_accuracy,
            "{threads} threads"
        );
    }
    let other_seed = run(
        Scenario {
            seed: scenario.seed + 1,
            ..scenario.clone()
        },
        2,
    );
    assert_ne!(other_seed.digest, one.digest, "the seed has no effect");
    one
}

const WORLDLY: [&str; 3] = [
    "network.preset=\"wifi-2020\"",
    "network.dropout=0.3",
    "devices.preset=\"phone-lognormal\"",
];

#[test]
fn fedrap_as_published_is_reproducible() {
    assert_reproducible(&small(&WORLDLY));
}

#[test]
fn fedrap_as_in_the_paper_is_reproducible() {
    let paper = [
        "method.fedrap.objective=\"paper\"",
        "method.fedrap.learning_rate_network=0.001",
        "method.fedrap.learning_rate_tables=0.001",
    ];
    assert_reproducible(&small(&[&WORLDLY[..], &paper].concat()));
}

#[test]
fn fedrap_in_several_batches_is_reproducible() {
    assert_reproducible(&small(&["method.fedrap.batch_size=16"]));
}

#[test]
fn pfedrec_is_reproducible() {
    assert_reproducible(&small_with("pfedrec", &WORLDLY));
}

#[test]
fn fedmf_is_reproducible() {
    assert_reproducible(&small_with("fedmf", &WORLDLY));
}

#[test]
fn partial_cohorts_are_reproducible() {
    for participation in ["{ share = 0.4 }", "{ cohort = 7 }"] {
        let participation = format!("training.participation={participation}");
        assert_reproducible(&small(&[&WORLDLY[..], &[participation.as_str()]].concat()));
    }
}

#[test]
fn every_codec_is_reproducible() {
    for codec in ["dense-f32", "rows-f32", "sparse-f32"] {
        let codecs = [
            format!("codec.uplink=\"{codec}\""),
            format!("codec.downlink=\"{codec}\""),
        ];
        assert_reproducible(&small(
            &[&WORLDLY[..], &codecs.each_ref().map(String::as_str)].concat(),
        ));
    }
}

/// Returns the figures that training decides: the table, and for every round the loss and the
/// magnitudes of C, by their bits.
fn learned(outcome: &Outcome) -> impl PartialEq + std::fmt::Debug + use<> {
    let bits: Vec<u32> = outcome
        .model
        .table(0)
        .as_slice()
        .iter()
        .map(|value| value.to_bits())
        .collect();
    let rounds: Vec<_> = outcome
        .rounds
        .iter()
        .map(|round| (round.loss.map(f64::to_bits), round.sparsity))
        .collect();
    (bits, rounds)
}

/// If this fails, evaluating a run changes it.
#[test]
fn evaluating_less_often_changes_nothing_but_what_is_known() {
    for method in ["fedrap", "pfedrec", "fedmf"] {
        let often = run(small_with(method, &["training.rounds=5"]), 2);
        let rarely = run(
            small_with(method, &["training.rounds=5", "evaluation.every_rounds=3"]),
            2,
        );
        assert_eq!(learned(&often), learned(&rarely), "{method}");
        let evaluated: Vec<u32> = rarely
            .rounds
            .iter()
            .filter(|round| round.accuracy.is_some())
            .map(|round| round.round)
            .collect();
        assert_eq!(
            evaluated,
            [3, 5],
            "{method}: every third round and the last"
        );
        assert_eq!(
            often.rounds[4].accuracy, rarely.rounds[4].accuracy,
            "{method}"
        );
        assert_eq!(often.bytes, rarely.bytes, "{method}");
    }
}

/// If this fails, the order of arrival or the clock reaches what is learned.
#[test]
fn a_network_that_loses_nothing_changes_time_and_not_learning() {
    for method in ["fedrap", "pfedrec", "fedmf"] {
        let lan = run(small_with(method, &["network.preset=\"lan\""]), 2);
        let wifi = run(
            small_with(
                method,
                &[
                    "network.preset=\"wifi-2020\"",
                    "devices.preset=\"phone-lognormal\"",
                ],
            ),
            2,
        );
        assert_eq!(learned(&lan), learned(&wifi), "{method}");
        for (lan, wifi) in lan.rounds.iter().zip(&wifi.rounds) {
            assert_eq!(lan.accuracy, wifi.accuracy, "{method}, round {}", lan.round);
            assert!(
                wifi.duration_s > lan.duration_s,
                "{method}, round {}: wifi is no slower",
                lan.round
            );
        }
    }
}

/// If this fails, users share a stream of randomness: comparing populations of two sizes would
/// compare two draws.
#[test]
fn one_more_user_leaves_the_others_as_they_were() {
    let few = small(&WORLDLY);
    let more = small(&[&WORLDLY[..], &["dataset.generator.users=41"]].concat());
    let streams = Streams::new(few.seed);
    let load = |scenario: &Scenario| dataset::load(&scenario.dataset, &[], streams).unwrap();
    let (few_data, more_data) = (load(&few), load(&more));
    assert_eq!((few_data.users(), more_data.users()), (40, 41));
    let (few_world, more_world) = (world(few.clone()), world(more));
    let mut sampler = NegativeSampler::new(few_data.items(), &few.dataset.negatives);
    let mut scratch = CandidateScratch::default();
    let (mut few_samples, mut more_samples) = (Samples::default(), Samples::default());
    for user in (0..40).map(UserId) {
        assert_eq!(
            few_data.train_items(user),
            more_data.train_items(user),
            "{user}"
        );
        assert!(
            few_data
                .own_data(user)
                .ratings
                .iter()
                .eq(more_data.own_data(user).ratings.iter()),
            "{user}"
        );
        assert_eq!(few_data.test(user), more_data.test(user), "{user}");
        assert_eq!(
            few_data.validation(user),
            more_data.validation(user),
            "{user}"
        );
        let position = user.index();
        let few_candidates = few_world
            .candidates
            .list(Against::TestCandidates, &few_data, position, &mut scratch)
            .to_vec();
        assert_eq!(
            few_candidates,
            more_world
                .candidates
                .list(Against::TestCandidates, &more_data, position, &mut scratch),
            "{user}"
        );
        for round in [InvitationId(0), InvitationId(7)] {
            sampler
                .draw(&few_data, streams, user, round, &mut few_samples)
                .unwrap();
            sampler
                .draw(&more_data, streams, user, round, &mut more_samples)
                .unwrap();
            assert_eq!(few_samples, more_samples, "{user}, {round}");
            let conditions = few_world.population.conditions(user, round);
            assert_eq!(
                conditions,
                more_world.population.conditions(user, round),
                "{user}, {round}"
            );
        }
    }
}
