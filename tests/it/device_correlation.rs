use fedrecsim_sim::Outcome;

use crate::support::{parse, run};

/// Users of two tastes, whose devices differ tenfold and more.
const FLEET: &str = r#"
[method.fcf]

[dataset]
name = "generated"

[dataset.generator]
users = 600
items = 400
ratings_per_user = 20
ratings_log_sigma = 0
taste_strength = 10
taste_dimension = 2
popularity_exponent = 0.3

[training]
rounds = 30

[evaluation]
every_rounds = 30
ranking = "full-catalogue"
metrics = ["ndcg@10"]
headline = "ndcg@10"

[devices.speed.lognormal]
median_ns_per_row_visit = 1e6
log_sigma = 1
"#;

/// Leaves a third of the users in every round: those with the fastest devices.
const DEADLINE: &str = "training.mode={ over-selection = { factor = 1, deadline_s = 0.6 } }";

fn fleet(seed: u64, correlation: f64, others: &[&str]) -> Outcome {
    let seed = format!("seed={seed}");
    let correlation = format!("dataset.generator.device_correlation={correlation}");
    run(
        parse(FLEET, &[&[&*seed, &*correlation], others].concat()),
        2,
    )
}

fn ndcg(outcome: &Outcome) -> f64 {
    let last = outcome.rounds.last().unwrap();
    last.accuracy.as_ref().unwrap().test["ndcg@10"]
}

/// If this fails, tastes that go with devices change more than who has which device, or a deadline costs
/// no more then than where it leaves users of all tastes (the effect that Maeng et al. describe, RecSys
/// 2022).
#[test]
fn a_deadline_costs_accuracy_where_slow_users_have_tastes_of_their_own() {
    let few = ["training.rounds=2", "evaluation.every_rounds=2"];
    let [apart, together] = [0.0, 0.9].map(|correlation| fleet(1, correlation, &few));
    let accuracy = |outcome: &Outcome| outcome.rounds[1].accuracy.clone();
    assert_eq!(accuracy(&apart), accuracy(&together));
    assert_ne!(apart.durations, together.durations);
    let mean = |correlation: f64| {
        let seeds = 1..=2;
        seeds
            .map(|seed| ndcg(&fleet(seed, correlation, &[DEADLINE])))
            .sum::<f64>()
            / 2.0
    };
    let (apart, together) = (mean(0.0), mean(0.9));
    assert!(together < 0.85 * apart, "{together} and {apart}");
}
