use std::collections::BTreeSet;

use fedrecsim_core::metric::ListFigures;
use fedrecsim_core::{Streams, UserId};
use fedrecsim_data::dataset::{self, Dataset};
use fedrecsim_sim::outcome::BeyondAccuracy;
use fedrecsim_sim::{Recommended, RunControl, Simulation, Until, World};

use crate::support::{
    Workshop, parse, run, small, small_of_ratings, small_with, world, world_over,
};

/// What figures are worked out from by their definitions: the items that each user has in its training
/// ratings, one as often as it was rated.
struct Naive {
    histories: Vec<Vec<usize>>,
    /// The numbers of ratings of all items.
    ratings: Vec<usize>,
    /// The numbers of users who have rated them.
    raters: Vec<usize>,
    /// The group of each item: head, middle or tail.
    groups: Vec<usize>,
}

impl Naive {
    fn new(dataset: &Dataset) -> Self {
        let items = dataset.items();
        let users = (0..dataset.users()).map(UserId::from);
        let history = |user| dataset.own_data(user).positives().map(|item| item as usize);
        let histories: Vec<Vec<usize>> = users.map(|user| history(user).collect()).collect();
        let count = |item: usize| histories.iter().flatten().filter(|of| **of == item).count();
        let ratings: Vec<usize> = (0..items).map(count).collect();
        let knows = |item: usize| histories.iter().filter(|of| of.contains(&item)).count();
        let mut order: Vec<usize> = (0..items).collect();
        order.sort_by_key(|item| std::cmp::Reverse(ratings[*item]));
        let (total, mut before): (usize, _) = (ratings.iter().sum(), 0);
        let mut groups = vec![0; items];
        for item in order {
            groups[item] =
                usize::from(10 * before >= 2 * total) + usize::from(10 * before >= 8 * total);
            before += ratings[item];
        }
        Self {
            raters: (0..items).map(knows).collect(),
            histories,
            ratings,
            groups,
        }
    }

    /// Returns the shares of the groups of `items`.
    fn shares(&self, items: &[usize]) -> [f64; 3] {
        [0, 1, 2].map(|group| {
            let of_group = items.iter().filter(|item| self.groups[**item] == group);
            of_group.count() as f64 / items.len() as f64
        })
    }

    /// Returns how far a list is from a history: the entropy of the mean of their shares, less the mean
    /// of their entropies.
    fn deviation(&self, list: &[usize], history: &[usize]) -> f64 {
        let entropy = |shares: [f64; 3]| -> f64 {
            let some = shares.into_iter().filter(|share| *share > 0.0);
            some.map(|share| -share * share.log2()).sum()
        };
        let [p, q] = [list, history].map(|items| self.shares(items));
        let mean = [0, 1, 2].map(|group| f64::midpoint(p[group], q[group]));
        entropy(mean) - f64::midpoint(entropy(p), entropy(q))
    }

    /// Returns coverage, Gini index, novelty, share of the long tail and deviation of these lists.
    fn figures(&self, lists: &[Vec<Recommended>]) -> [f64; 5] {
        let items = self.ratings.len();
        let of = |list: &Vec<Recommended>| list.iter().map(|of| of.item as usize).collect();
        let lists: Vec<Vec<usize>> = lists.iter().map(of).collect();
        let all = lists.concat();
        let distinct: BTreeSet<usize> = all.iter().copied().collect();
        let count = |item: usize| all.iter().filter(|shown| **shown == item).count() as f64;
        let counts: Vec<f64> = (0..items).map(count).collect();
        // The mean difference of all pairs, by twice the mean, and corrected for a finite number.
        let pairs = counts
            .iter()
            .flat_map(|a| counts.iter().map(move |b| (a - b).abs()));
        let gini = pairs.sum::<f64>() / (2.0 * (items - 1) as f64 * all.len() as f64);
        let share = |item: &usize| self.raters[*item].max(1) as f64 / self.histories.len() as f64;
        let novelty = all.iter().map(|item| -share(item).log2()).sum::<f64>();
        let pairs = lists.iter().zip(&self.histories);
        let deviations = pairs.map(|(list, history)| self.deviation(list, history));
        [
            distinct.len() as f64 / items as f64,
            gini,
            novelty / all.len() as f64,
            self.shares(&all)[2],
            deviations.sum::<f64>() / lists.len() as f64,
        ]
    }
}

fn assert_close(figures: ListFigures, expected: [f64; 5], what: &str) {
    let found = [
        figures.coverage,
        figures.gini,
        figures.novelty_bits,
        figures.long_tail_share,
        figures.popularity_deviation.unwrap(),
    ];
    for (found, expected) in found.into_iter().zip(expected) {
        assert!(
            (found - expected).abs() < 1e-12,
            "{what}: {found}, not {expected}"
        );
    }
}

/// Runs to the end, and compares the figures with those of the lists of ten that `recommend` shows.
fn compare(world: World) -> BeyondAccuracy {
    let name = world.scenario.method.name.clone();
    let mut simulation = Simulation::new(world, &RunControl::with_threads(2)).unwrap();
    simulation
        .step_until(Until::Round(u32::MAX), &mut ())
        .unwrap();
    let naive = Naive::new(&simulation.world().dataset);
    let users = naive.histories.len();
    let of_all = |list: &dyn Fn(UserId) -> Vec<Recommended>| -> Vec<Vec<Recommended>> {
        (0..users).map(|user| list(UserId::from(user))).collect()
    };
    let own = of_all(&|user| simulation.recommend(user, 10).unwrap());
    let popular = of_all(&|user| simulation.recommend_popular(user, 10).unwrap());
    let figures = simulation.finish().unwrap().beyond_accuracy.unwrap();
    assert_eq!((figures.list_length, figures.users), (10, users as u64));
    assert_close(figures.method, naive.figures(&own), &name);
    assert_close(figures.popularity, naive.figures(&popular), &name);
    let in_tail = naive.groups.iter().filter(|group| **group == 2).count();
    assert_eq!(figures.long_tail_items, in_tail as u64, "{name}");
    let of_histories = naive.histories.iter().map(|of| naive.shares(of)[2]);
    let expected = of_histories.sum::<f64>() / users as f64;
    let found = figures.history_long_tail_share.unwrap();
    assert!(
        (found - expected).abs() < 1e-12,
        "{name}: {found}, not {expected}"
    );
    figures
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
        let is_popularity = scenario.method.name == "popularity";
        let figures = compare(world(scenario));
        assert!(!is_popularity || figures.method == figures.popularity);
    }
}

/// If this fails, an item that few users have rated often is taken for one that many know, so that
/// novelty is too low, and negative with more ratings than users.
#[test]
fn a_user_that_repeats_an_item_knows_it_once() {
    let workshop = Workshop::new();
    let rows = |user: u32| {
        let items = (0..8).map(move |n| (user * 7 + n * 5) % 40);
        let often = |item: u32| if item.is_multiple_of(4) { 9 } else { 1 };
        let row = move |item| format!("{user},{item},{item}\n").repeat(often(item));
        items.map(row).collect::<String>()
    };
    let path = workshop.write("often.csv", &(0..12).map(rows).collect::<String>());
    let text = format!(
        "seed = 3\nmethod = \"fedmf\"\n[dataset]\nname = \"delimited\"\npath = {:?}\ncolumns = {{ separator = ',', \
         user = 1, item = 2, timestamp = 3 }}\n[training]\nrounds = 2\n[evaluation]\nranking = \"full-catalogue\"\n",
        path.display().to_string()
    );
    let scenario = parse(&text, &[]);
    let dataset = dataset::load(&scenario.dataset, &[], Streams::new(3)).unwrap();
    let most = dataset.popularity().into_iter().max();
    assert!(
        most > Some(12),
        "no item has more ratings than there are users"
    );
    compare(world_over(scenario, dataset));
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
