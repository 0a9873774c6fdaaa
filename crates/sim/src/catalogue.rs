//! Ranks held-out items of many users in the whole catalogue at once, where their scores are
//! products of their vectors with the rows of one item table.
//!
//! All items are scored in blocks that stay in a cache. Then those that a user has rated are taken
//! out of the ranks again. Scores, and so ranks, have the bits of those of one user alone.

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

/// The ranks of each of a user's test and validation items, and the number of the items that they
/// are ranked among.
pub(crate) type Ranks = ([Vec<u32>; 2], u32);

/// Returns the ranks of the held-out items of each of `users`, the item with the highest score
/// first. There are none where too few users in sequence share an item table, and none where a score
/// is NaN: these users have to be ranked one after the other.
pub(crate) fn ranks_at_once(
    dataset: &Dataset,
    users: &[(UserId, &Products)],
    items_at_once: usize,
) -> Vec<Option<Ranks>> {
    let groups = users.chunk_by(|a, b| share_table(a.1, b.1));
    let ranked = groups.map(|group| match group.len() {
        ..USERS_AT_LEAST => vec![None; group.len()],
        _ => ranks_of_group(dataset, group, items_at_once),
    });
    ranked.flatten().collect()
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
    /// The scores of the test and of the validation items, the highest first.
    held_out: [Vec<f32>; 2],
    /// How many rated items score at least as high as each of these; `None` if a score is NaN.
    reaching: Option<Vec<u32>>,
    /// The number of rated items.
    items: usize,
}

impl Rated {
    fn new(dataset: &Dataset, (user, products): (UserId, &Products)) -> Self {
        let mut items: Vec<u32> = dataset.touched_items(user).collect();
        items.sort_unstable();
        items.dedup();
        let mut scores = vec![0.0; items.len()];
        let is_scored = products.score(&items, &mut scores).is_ok();
        let score_of = |item: &u32| scores[items.partition_point(|rated| rated < item)];
        let held_out = [dataset.test(user), dataset.validation(user)].map(|held_out| {
            let mut scores: Vec<f32> = held_out.items.iter().map(score_of).collect();
            scores.sort_unstable_by(|a, b| b.total_cmp(a));
            scores
        });
        let reaching = ranks(&held_out.concat(), &scores).filter(|_| is_scored);
        Self {
            reaching,
            held_out,
            items: items.len(),
        }
    }

    /// Returns the ranks, given how many of all `items` are no NaN, and then how many score at least
    /// as high as each held-out item.
    fn ranks(self, items: usize, mut counts: impl Iterator<Item = u32>) -> Option<Ranks> {
        if counts.next() != Some(items as u32) {
            return None;
        }
        let mut ranks = counts.zip(self.reaching?).map(|(all, rated)| all - rated);
        let ranks = self
            .held_out
            .map(|held_out| ranks.by_ref().take(held_out.len()).collect());
        Some((ranks, (items - self.items) as u32))
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
}

impl Group {
    fn new(users: &[(UserId, &Products)], rated: &[Rated]) -> Self {
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
        let vectors = vectors.map(|(_, products)| (&*products.vector, products.bias));
        Self {
            lanes: UserLanes::new(vectors),
            counts: vec![[0; LANES]; bounds.len()],
            bounds,
        }
    }
}

/// Ranks the held-out items of users who share their item table.
fn ranks_of_group(
    dataset: &Dataset,
    users: &[(UserId, &Products)],
    items_at_once: usize,
) -> Vec<Option<Ranks>> {
    let rated: Vec<Rated> = users
        .iter()
        .map(|user| Rated::new(dataset, *user))
        .collect();
    let groups = users.chunks(LANES).zip(rated.chunks(LANES));
    let mut groups: Vec<Group> = groups
        .map(|(users, rated)| Group::new(users, rated))
        .collect();
    let Products {
        table, item_bias, ..
    } = users[0].1;
    let (items, dimension) = (dataset.items(), table.shape().dimension);
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
            count_reaching(scores, &group.bounds, &mut group.counts);
        }
    }
    let ranks_of = |(number, rated): (usize, Rated)| {
        let counts = &groups[number / LANES].counts;
        rated.ranks(items, counts.iter().map(|counts| counts[number % LANES]))
    };
    rated.into_iter().enumerate().map(ranks_of).collect()
}
