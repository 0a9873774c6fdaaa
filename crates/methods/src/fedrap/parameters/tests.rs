//! Tests what follows from FedRAP's parameters.
#![allow(clippy::expect_used)]
use super::*;
use serde_json::Value;

fn plan_of(parameters: FedRapParameters) -> FedRap {
    FedRap::of(parameters, &crate::tests::problem_of(1, 1))
}

#[test]
fn curricula_follow_the_papers_formulas_and_the_code_ignores_them() {
    let factor = |curriculum, round| {
        let parameters = FedRapParameters {
            objective: Objective::Paper,
            curriculum,
            ..Default::default()
        };
        plan_of(parameters).curriculum_factor(round)
    };
    assert_eq!(factor(Curriculum::Fixed, 0), 1.0);
    assert!((factor(Curriculum::Tanh, 9) - 0.761_594_2).abs() < 1e-6);
    assert!((factor(Curriculum::Sin, 14) - 0.997_495).abs() < 1e-6);
    assert_eq!(
        factor(Curriculum::Sin, 39),
        0.0,
        "sin(4) < 0 would turn the penalty into a reward"
    );
    assert_eq!(
        [0, 9, 10, 19, 20].map(|round| factor(Curriculum::Square, round)),
        [1.0, 1.0, 0.0, 0.0, 1.0]
    );
    assert_eq!(factor(Curriculum::Frac, 0), 0.5);
    let code = FedRapParameters {
        curriculum: Curriculum::Frac,
        ..Default::default()
    };
    assert_eq!(plan_of(code).curriculum_factor(3), 1.0);
}

#[test]
fn ablations_drop_the_terms_that_lose_their_meaning() {
    let plan = |tables, regularizer| {
        plan_of(FedRapParameters {
            tables,
            regularizer,
            ..Default::default()
        })
    };
    assert_eq!(plan(Tables::COnly, Regularizer::L1).step.lambda, 0.0);
    assert_eq!(plan(Tables::COnly, Regularizer::L1).step.mu, 0.1);
    assert_eq!(plan(Tables::DOnly, Regularizer::L1).step.mu, 0.0);
    assert_eq!(plan(Tables::Both, Regularizer::None).step.mu, 0.0);
    assert_eq!(plan(Tables::Both, Regularizer::None).step.lambda, 0.1);
    assert_eq!(
        plan(Tables::Both, Regularizer::L2).step.penalty,
        Penalty::L2
    );
    let penalty = |objective, regularizer| {
        plan_of(FedRapParameters {
            objective,
            regularizer,
            ..Default::default()
        })
        .step
        .penalty
    };
    for objective in [Objective::PublishedCode, Objective::Paper] {
        assert_eq!(penalty(objective, Regularizer::L1Subgradient), Penalty::L1);
        assert_eq!(
            penalty(objective, Regularizer::L1Proximal),
            Penalty::L1Proximal
        );
    }
    assert_eq!(
        penalty(Objective::PublishedCode, Regularizer::L1),
        Penalty::L1
    );
    assert_eq!(
        penalty(Objective::Paper, Regularizer::L1),
        Penalty::L1Proximal
    );
}

#[test]
fn ablations_decide_which_table_is_kept_and_which_travels() {
    let plan = |tables, aggregate_d| {
        let plan = plan_of(FedRapParameters {
            tables,
            aggregate_d,
            ..Default::default()
        });
        (plan.keeps_d(), plan.shares())
    };
    assert_eq!(plan(Tables::Both, false), (true, true));
    assert_eq!(plan(Tables::COnly, false), (false, true));
    assert_eq!(plan(Tables::DOnly, false), (true, false));
    assert_eq!(
        plan(Tables::DOnly, true),
        (false, true),
        "the averaged D travels in the place of C"
    );
}

#[test]
fn aggregating_d_without_d_only_is_a_fault() {
    let faults = |tables| {
        let mut parameters = FedRapParameters {
            aggregate_d: true,
            tables,
            ..Default::default()
        };
        resolve(&mut parameters).len()
    };
    assert_eq!((faults(Tables::Both), faults(Tables::DOnly)), (1, 0));
}

#[test]
fn resolving_writes_down_what_training_uses() {
    for objective in ["published-code", "paper"] {
        let written = serde_json::json!({ "objective": objective, "weight_decay": 0.5 });
        let mut resolved = written.clone();
        assert_eq!((super::super::ENTRY.resolve)(&mut resolved), []);
        assert_eq!(resolved["weight_decay"], 0.5, "what was written stays");
        let plan = |value: Value| plan_of(serde_json::from_value(value).expect("parameters"));
        assert_eq!(plan(resolved.clone()), plan(written));
        assert!(resolved.get("learning_rate_round_decay").is_some());
    }
}
