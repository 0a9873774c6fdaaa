use std::io::Cursor;

use fedrecsim_core::{Error, SimDuration};
use fedrecsim_scenario::{
    Invitations, LateUpdates, Policy, StalenessWeight, Stragglers, UpdateRule, UpdatesNeeded,
};
use fedrecsim_sim::{self as sim, Outcome, RunControl, Simulation};

use crate::support::{assert_balanced, small_with, world};

/// Returns a policy with eight users always at work, under which the server steps every `seconds`
/// seconds with what has arrived.
fn every(seconds: f64) -> Policy {
    Policy {
        name: "by the clock".into(),
        invitations: Invitations::WheneverFree { concurrency: 8 },
        updates_needed: UpdatesNeeded::NoNumber,
        deadline: Some(SimDuration::from_secs_f64(seconds)),
        late_updates: LateUpdates::Used {
            maximum_staleness: 9,
            weight: StalenessWeight::Constant,
        },
        stragglers: Stragglers::Late,
        update_rule: UpdateRule::DifferencesPerWeight,
    }
}

fn run_under(policy: Policy) -> fedrecsim_core::Result<Outcome> {
    let scenario = small_with(
        "fedmf",
        &["network.preset=\"wifi-2020\"", "training.rounds=5"],
    );
    sim::run(
        world(scenario).with_policy(policy)?,
        &RunControl::with_threads(2),
        &mut (),
    )
}

/// If this fails, a program cannot run a policy that no mode describes.
#[test]
fn a_server_can_step_by_the_clock_whatever_has_arrived() {
    let outcome = run_under(every(0.25)).unwrap();
    assert!(outcome.stopped_by.is_none(), "{:?}", outcome.stopped_by);
    let times: Vec<f64> = outcome
        .rounds
        .iter()
        .map(|round| round.virtual_time_s)
        .collect();
    assert_eq!(times, [0.25, 0.5, 0.75, 1.0, 1.25]);
    assert!(outcome.rounds.iter().all(|round| round.aggregated > 0));
    let counts: Vec<u32> = outcome
        .rounds
        .iter()
        .map(|round| round.aggregated)
        .collect();
    assert!(
        counts.iter().any(|count| *count != counts[0]) || counts[0] > 8,
        "no number ends a step: {counts:?}"
    );
    assert_eq!(outcome.policy.name, "by the clock");
    assert_balanced(&outcome);
    assert_eq!(run_under(every(0.25)).unwrap().digest, outcome.digest);
}

/// If this fails, a simulation that ran under one policy goes on under another, and its result is
/// that of neither.
#[test]
fn a_saved_simulation_goes_on_under_its_own_policy_only() {
    let scenario = || {
        small_with(
            "fedmf",
            &["network.preset=\"wifi-2020\"", "training.rounds=5"],
        )
    };
    let control = RunControl::with_threads(1);
    let mut simulation = Simulation::new(
        world(scenario()).with_policy(every(0.25)).unwrap(),
        &control,
    )
    .unwrap();
    simulation.step().unwrap();
    let mut saved = Vec::new();
    simulation.save(&mut saved).unwrap();
    let restore = |world| Simulation::restore(world, &control, Cursor::new(saved.clone()));
    restore(world(scenario()).with_policy(every(0.25)).unwrap()).unwrap();
    let slower = world(scenario()).with_policy(every(0.5)).unwrap();
    let reseeded = || {
        small_with(
            "fedmf",
            &[
                "network.preset=\"wifi-2020\"",
                "training.rounds=5",
                "seed=2",
            ],
        )
    };
    for (other, reason) in [
        (
            slower,
            "under the policy `by the clock`, with other settings",
        ),
        (world(scenario()), "under the policy `by the clock`"),
        (
            world(reseeded()).with_policy(every(0.25)).unwrap(),
            "with the seed 3",
        ),
    ] {
        let refused = restore(other)
            .err()
            .expect("another world was taken for its own")
            .to_string();
        assert!(refused.contains(reason), "{refused}");
    }
}

#[test]
fn a_policy_without_an_end_or_with_more_users_than_there_are_is_refused() {
    let endless = Policy {
        deadline: None,
        ..every(1.0)
    };
    let crowded = Policy {
        invitations: Invitations::WheneverFree { concurrency: 1_000 },
        ..every(1.0)
    };
    for (policy, reason) in [
        (endless, "is never due"),
        (crowded, "1000 clients cannot take part"),
    ] {
        let refused = run_under(policy).unwrap_err();
        assert!(
            matches!(&refused, Error::Usage(message) if message.contains(reason)),
            "{refused}"
        );
    }
}
