use std::collections::BTreeSet;

use fedrecsim_core::UserId;
use fedrecsim_core::metric::ListFigures;
use fedrecsim_sim::{Recommended, RunControl, Simulation, Until};

use crate::support::{run, small, small_of_ratings, small_with, world};

/// Returns coverage, Gini index, novelty and share of the long tail of these lists of ten, by their
/// definitions.
fn naive(lists: &[Vec<Recommended>], ratings: &[u32], users: usize) -> [f64; 4] {
    let all: Vec<usize> = lists.iter().flatten().map(|of| of.item as usize).collect();
    let items = ratings.len();
    let distinct: BTreeSet<usize> = all.iter().copied().collect();
    let count = |item: usize| all.iter().filter(|shown| **shown == item).count() as f64;
    let counts: Vec<f64> = (0..items).map(count).collect();
    // The mean difference of all pairs, by twice the mean, and corrected for a finite number.
    let pairs = counts
        .iter()
        .flat_map(|a| counts.iter().map(move |b| (a - b).abs()));
    let gini = pairs.sum::<f64>() / (2.0 * (items - 1) as f64 * all.len() as f64);
    let share = |item: &usize| f64::from(ratings[*item].max(1)) / users as f64;
    let novelty = all.iter().map(|item| -share(item).log2()).sum::<f64>();
    let mut order: Vec<usize> = (0..items).collect();
    order.sort_by_key(|item| std::cmp::Reverse(ratings[*item]));
    let total: u32 = ratings.iter().sum();
    let mut before = 0;
    let mut head = BTreeSet::new();
    for item in order {
        if f64::from(before) < 0.8 * f64::from(total) {
            head.insert(item);
        }
        before += ratings[item];
    }
    let tail = all.iter().filter(|item| !head.contains(item)).count();
    [
        distinct.len() as f64 / items as f64,
        gini,
        novelty / all.len() as f64,
        tail as f64 / all.len() as f64,
    ]
}

fn assert_close(figures: ListFigures, expected: [f64; 4], what: &str) {
    let found = [
        figures.coverage,
        figures.gini,
        figures.novelty_bits,
        figures.long_tail_share,
    ];
    for (found, expected) in found.into_iter().zip(expected) {
        assert!(
            (found - expected).abs() < 1e-12,
            "{what}: {found}, not {expected}"
        );
    }
}

/// If this fails, the figures of a report are not those of the lists that `recommend` shows, or those of
/// popularity beside them are not.
#[test]
fn figures_are_those_of_the_lists_that_users_would_be_shown() {
    let full = "evaluation.ranking=\"full-catalogue\"";
    for scenario in [
        small(&[]),
        small_with("fedmf", &[]),
        small_with("fedmf", &[full]),
        small_with("fedncf", &[full]),
        small_with("itemknn", &[]),
        small_with("popularity", &[]),
    ] {
        let name = scenario.method.name.clone();
        let control = RunControl::with_threads(2);
        let mut simulation = Simulation::new(world(scenario), &control).unwrap();
        simulation
            .step_until(Until::Round(u32::MAX), &mut ())
            .unwrap();
        let dataset = &simulation.world().dataset;
        let (ratings, users) = (dataset.popularity(), dataset.users());
        let of_all = |list: &dyn Fn(UserId) -> Vec<Recommended>| -> Vec<Vec<Recommended>> {
            (0..users).map(|user| list(UserId::from(user))).collect()
        };
        let own = of_all(&|user| simulation.recommend(user, 10).unwrap());
        let popular = of_all(&|user| simulation.recommend_popular(user, 10).unwrap());
        let outcome = simulation.finish().unwrap();
        let figures = outcome.beyond_accuracy.unwrap();
        assert_eq!((figures.list_length, figures.users), (10, users as u64));
        assert_close(figures.method, naive(&own, &ratings, users), &name);
        if name == "popularity" {
            assert_eq!(figures.method, figures.popularity);
        }
        assert_close(figures.popularity, naive(&popular, &ratings, users), &name);
    }
}

/// If this fails, a run that ends by its patience has no figures, or a run of ratings has some.
#[test]
fn a_run_has_figures_however_it_ends_if_it_has_lists() {
    let keys = [
        "training.rounds=50",
        "evaluation.patience=2",
        "evaluation.every_rounds=2",
    ];
    let settled = run(small_with("fedmf", &keys), 1);
    assert!(settled.rounds.len() < 50, "its patience did not end it");
    assert!(settled.beyond_accuracy.is_some());
    let cutoff = run(small(&["evaluation.headline=\"ndcg@5\""]), 1);
    assert_eq!(cutoff.beyond_accuracy.map(|of| of.list_length), Some(5));
    assert_eq!(run(small_of_ratings("pmf", &[]), 1).beyond_accuracy, None);
}
