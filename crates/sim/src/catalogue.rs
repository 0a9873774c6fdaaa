//! Ranks held-out items of many users in the whole catalogue at once, and finds their best items, where
//! their scores are products of their vectors with the rows of one item table.
//!
//! All items are scored in blocks that stay in a cache. Then those that a user has rated are taken
//! out of the ranks again. Scores, and so ranks, have the bits of those of one user alone.

use super::shown::{self, Best};
use super::world::World;
use fedrecsim_core::UserId;
use fedrecsim_core::metric::ranks;
use fedrecsim_data::dataset::Dataset;
use fedrecsim_methods::{Products, Scorer};
use fedrecsim_model::kernel::catalogue::{UserLanes, count_reaching};
use fedrecsim_model::kernel::{LANES, Lanes};

/// The number of items that are scored at a time.
pub(crate) const ITEMS_AT_ONCE: usize = 128;

/// The number of users from which lanes pay.
const USERS_AT_LEAST: usize = 4;

/// What is found for a user by scoring all items that it has not rated.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct InCatalogue {
    /// The ranks of the test and of the validation items, the item with the highest score first.
    pub ranks: [Vec<u32>; 2],
    /// The numbers of other items that they are ranked among.
    pub others: [u32; 2],
    /// The best items, as many as were asked for.
    pub best: Vec<u32>,
}

/// A user whose items are scored together with those of others.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub user: UserId,
    /// What the user has rated, and what is not there yet.
    pub catalogue: &'a Dataset,
    pub products: &'a Products,
    /// How many of the best items are wanted.
    pub list_length: usize,
}

/// Returns what is found for each of `users`. There is nothing where too few users in sequence share an
/// item table, and nothing where a score is NaN: these users have to be ranked one after the other.
pub(crate) fn in_catalogue_at_once(
    world: &World,
    users: &[Asked<'_>],
    items_at_once: usize,
) -> Vec<Option<InCatalogue>> {
    let groups = users.chunk_by(|a, b| share_table(a.products, b.products));
    let found = groups.map(|group| match group.len() {
        ..USERS_AT_LEAST => vec![None; group.len()],
        _ => in_catalogue_of_group(world, group, items_at_once),
    });
    found.flatten().collect()
}

fn share_table(a: &Products, b: &Products) -> bool {
    let item_bias = |products: &Products| {
        let bias = products.item_bias.as_ref();
        bias.map(|(factor, biases)| (factor.to_bits(), std::ptr::from_ref(&**biases)))
    };
    std::ptr::eq(&*a.table, &*b.table) && item_bias(a) == item_bias(b)
}

/// What a user has rated: the items that are held out, and all that are taken out of the ranks.
struct Rated {
    /// The scores of the test and of the validation items, the highest first, where they are ranked.
    held_out: [Vec<f32>; 2],
    /// How many rated items score at least as high as each of these; `None` if a score is NaN.
    reaching: Option<Vec<u32>>,
    /// The numbers of rated items, by which the test and the validation items are ranked lower.
    items: [usize; 2],
}

impl Rated {
    fn new(world: &World, asked: Asked<'_>) -> Self {
        let Asked {
            user,
            catalogue: dataset,
            products,
            ..
        } = asked;
        let mut items: Vec<u32> = dataset.items_without_rank(user).collect();
        items.sort_unstable();
        items.dedup();
        if !world.ranks_in_catalogue() {
            return Self {
                held_out: Default::default(),
                reaching: Some(Vec::new()),
                items: [items.len(); 2],
            };
        }
        let mut scores = vec![0.0; items.len()];
        let is_scored = products.score(&items, &mut scores).is_ok();
        let score_of = |item: &u32| scores[items.partition_point(|rated| rated < item)];
        let held_out = [dataset.test(user), dataset.validation(user)].map(|held_out| {
            let mut scores: Vec<f32> = held_out.items.iter().map(score_of).collect();
            scores.sort_unstable_by(|a, b| b.total_cmp(a));
            scores
        });
        // Validation items are ranked among the test items that come later.
        let later = match dataset.tests_come_later() {
            true => &held_out[0][..],
            false => &[],
        };
        let reaching = ranks(&held_out.concat(), &scores).zip(ranks(&held_out[1], later));
        let reaching = reaching.filter(|_| is_scored).map(|(mut reaching, later)| {
            let of_validation = reaching[held_out[0].len()..].iter_mut();
            of_validation
                .zip(later)
                .for_each(|(rated, later)| *rated -= later);
            reaching
        });
        Self {
            reaching,
            items: [items.len(), items.len() - later.len()],
            held_out,
        }
    }

    /// Returns what is found, given how many of all `items` are no NaN, and then how many score at least
    /// as high as each held-out item, and the `best` items.
    fn found(
        self,
        items: usize,
        mut counts: impl Iterator<Item = u32>,
        best: Vec<u32>,
    ) -> Option<InCatalogue> {
        if counts.next() != Some(items as u32) {
            return None;
        }
        let mut ranks = counts.zip(self.reaching?).map(|(all, rated)| all - rated);
        let ranks = self
            .held_out
            .map(|held_out| ranks.by_ref().take(held_out.len()).collect());
        Some(InCatalogue {
            ranks,
            others: self.items.map(|rated| (items - rated) as u32),
            best,
        })
    }
}

/// The best items of a user so far.
struct List {
    best: Best,
    /// The items that are in no list of the user, ascending.
    rated: Vec<u32>,
}

impl List {
    fn new(asked: Asked<'_>) -> Self {
        Self {
            best: Best::new(asked.list_length),
            rated: match asked.list_length {
                0 => Vec::new(),
                _ => shown::rated(asked.catalogue, asked.user),
            },
        }
    }

    /// Takes in the scores of the items from `first` on.
    fn take(&mut self, first: usize, scores: impl Iterator<Item = f32>) {
        for (item, score) in (first as u32..).zip(scores) {
            if score >= self.best.bound() && self.rated.binary_search(&item).is_err() {
                self.best.offer(item, score);
            }
        }
    }
}

/// Up to sixteen users, a lane each.
struct Group {
    lanes: UserLanes,
    /// Minus infinity, which every score reaches that is no NaN, and then the scores of the held-out
    /// items.
    bounds: Vec<Lanes>,
    /// The number of items that reach each bound.
    counts: Vec<[u32; LANES]>,
    lists: Vec<List>,
    /// Whether one of the lists is to have items.
    has_lists: bool,
}

impl Group {
    fn new(users: &[Asked<'_>], rated: &[Rated]) -> Self {
        let mut bounds = vec![[f32::NEG_INFINITY; LANES]];
        for (lane, rated) in rated.iter().enumerate() {
            for (number, score) in rated.held_out.iter().flatten().enumerate() {
                if bounds.len() < number + 2 {
                    bounds.push([f32::INFINITY; LANES]);
                }
                bounds[number + 1][lane] = *score;
            }
        }
        let vectors = users.iter();
        let vectors = vectors.map(|asked| (&*asked.products.vector, asked.products.bias));
        Self {
            lanes: UserLanes::new(vectors),
            counts: vec![[0; LANES]; bounds.len()],
            bounds,
            lists: users.iter().map(|user| List::new(*user)).collect(),
            has_lists: users.iter().any(|user| user.list_length > 0),
        }
    }

    /// Takes in the scores of the items from `first` on.
    fn take(&mut self, first: usize, scores: &[Lanes]) {
        count_reaching(scores, &self.bounds, &mut self.counts);
        if !self.has_lists {
            return;
        }
        let mut bounds = [f32::INFINITY; LANES];
        for (bound, list) in bounds.iter_mut().zip(&self.lists) {
            *bound = list.best.bound();
        }
        // Soon few blocks have an item that is good enough.
        let mut counts = [[0; LANES]];
        count_reaching(scores, &[bounds], &mut counts);
        let lists = self.lists.iter_mut().enumerate().zip(counts[0]);
        for ((lane, list), _) in lists.filter(|(_, count)| *count > 0) {
            list.take(first, scores.iter().map(|scores| scores[lane]));
        }
    }
}

/// Finds what is to be found for users who share their item table.
fn in_catalogue_of_group(
    world: &World,
    users: &[Asked<'_>],
    items_at_once: usize,
) -> Vec<Option<InCatalogue>> {
    let rated: Vec<Rated> = users.iter().map(|user| Rated::new(world, *user)).collect();
    let groups = users.chunks(LANES).zip(rated.chunks(LANES));
    let mut groups: Vec<Group> = groups
        .map(|(users, rated)| Group::new(users, rated))
        .collect();
    let Products {
        table, item_bias, ..
    } = users[0].products;
    let (items, dimension) = (world.dataset.items(), table.shape().dimension);
    let mut scores = vec![[0.0; LANES]; items_at_once];
    for first in (0..items).step_by(items_at_once) {
        let block = first..items.min(first + items_at_once);
        let rows = &table.as_slice()[block.start * dimension..block.end * dimension];
        let scores = &mut scores[..block.len()];
        for group in &mut groups {
            group.lanes.score(rows, scores);
            if let Some((factor, biases)) = item_bias {
                for (scores, item) in scores.iter_mut().zip(block.clone()) {
                    let bias = factor * biases.row(item)[0];
                    scores.iter_mut().for_each(|score| *score += bias);
                }
            }
            group.take(first, scores);
        }
    }
    let of_group = |group: Group| {
        let counts = group.counts;
        let lists = group.lists.into_iter().enumerate();
        lists.map(move |(lane, list)| {
            let counts: Vec<u32> = counts.iter().map(|counts| counts[lane]).collect();
            (counts, list.best.into_items())
        })
    };
    let found = rated.into_iter().zip(groups.into_iter().flat_map(of_group));
    found
        .map(|(rated, (counts, best))| rated.found(items, counts.into_iter(), best))
        .collect()
}
