//! Implements FedPEFT with hashed rows (Yuan et al., AAAI 2026; code young1010/FedPEFT 64dfbad).
//!
//! The user vector u is private. All items share a table T of few rows: that of an item is the mean of
//! two rows, which hashes name. A device learns u and T by pairwise ranking and sends T.

use super::declare::learn::{draw_samples, pairs_of};
use super::declare::score::pairwise;
use super::prelude::*;
use fedrecsim_model::neural::dense::{add_scaled, dot};
use fedrecsim_model::neural::optimizer::{AdamMoments, AdamSettings};

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::of::<FedPeft>();

/// The range of the hashes before they are put into the rows of the table.
const BUCKETS: u32 = 4096;

parameters! {
    /// Parameters of FedPEFT; the defaults are the published ones of matrix factorisation.
    pub(crate) struct FedPeftParameters {
        /// Latent dimension k.
        latent_dimension: u32 = 32, >= 1, <= MAX_DIMENSION;
        /// Rows of the table T.
        rows: u32 = 512, >= 1, <= 4096;
        /// Passes over the local samples per round.
        local_epochs: u32 = 2, >= 1, <= 10_000;
        /// Pairs per batch. The published passes have one batch.
        batch_size: u32 = 100_000, >= 1;
        /// Adam's learning rate.
        learning_rate: f64 = 0.01, > 0.0;
        /// Weight of the squared lengths of u and of both rows of a pair.
        regularization: f64 = 1e-8, >= 0;
        /// Standard deviation of the normal draws that u and T start with.
        initial_deviation: f64 = 0.1, > 0.0;
        /// Whether all uploads weigh the same, which noise on the sum and every epsilon need.
        /// Otherwise an upload says its number of samples, and weighs as much.
        equal_weights: bool = false;
    }
}

/// FedPEFT with the numbers a and b of its two hashes.
pub(crate) struct FedPeft {
    parameters: FedPeftParameters,
    hashes: [[u32; 2]; 2],
}

/// Returns the row that a hash gives an item, of so many rows.
fn row_of([a, b]: [u32; 2], item: u32, rows: u32) -> usize {
    // Only the remainder counts, which a wrapped product has too.
    let hash = a.wrapping_mul(item).wrapping_add(b) % BUCKETS;
    (hash % rows) as usize
}

impl FedPeft {
    /// Returns where the two rows of an item are in the values of the table.
    fn places(&self, item: u32) -> [usize; 2] {
        let p = &self.parameters;
        let place = |hash| row_of(hash, item, p.rows) * p.latent_dimension as usize;
        self.hashes.map(place)
    }

    /// Returns the row of an item.
    fn row(&self, table: &[f32], item: u32) -> Vec<f32> {
        let k = self.parameters.latent_dimension as usize;
        let [one, other] = self.places(item).map(|place| &table[place..place + k]);
        let pairs = one.iter().zip(other);
        pairs.map(|(one, other)| (one + other) / 2.0).collect()
    }

    /// Replaces `gradient` by that of the mean loss of pairs of a positive and a negative, and returns
    /// the loss. The values are u and, behind it, T.
    fn slopes(&self, values: &[f32], pairs: &[(u32, u32)], gradient: &mut [f32]) -> f64 {
        gradient.fill(0.0);
        let k = self.parameters.latent_dimension as usize;
        let ((user, table), (by_user, by_table)) = (values.split_at(k), gradient.split_at_mut(k));
        let share = 1.0 / pairs.len().max(1) as f32;
        let weight = self.parameters.regularization as f32;
        let mut loss = 0.0;
        for (positive, negative) in pairs {
            let [better, worse] = [positive, negative].map(|item| self.row(table, *item));
            let (of_pair, slope) = pairwise(dot(user, &better) - dot(user, &worse));
            let squares = [user, &better, &worse].map(|row| dot(row, row));
            loss += of_pair + f64::from(weight * squares.iter().sum::<f32>() / 2.0);
            add_scaled(share * weight, user, by_user);
            for (item, row, slope) in [(positive, better, slope), (negative, worse, -slope)] {
                add_scaled(share * slope, &row, by_user);
                for place in self.places(*item) {
                    let by_row = &mut by_table[place..place + k];
                    add_scaled(share * slope / 2.0, user, by_row);
                    add_scaled(share * weight / 2.0, &row, by_row);
                }
            }
        }
        loss * f64::from(share)
    }
}

impl Declare for FedPeft {
    type Parameters = FedPeftParameters;
    type Memory = ();

    const NAME: &str = "fedpeft";
    const SUMMARY: &str = "an item's row is the mean of two rows of a small shared table, which hashes \
                           name";
    const SOURCE: &str = "Yuan et al., Plug-and-Play Parameter-Efficient Tuning of Embeddings for \
                          Federated Recommendation, AAAI 2026, arXiv 2512.13734; code \
                          young1010/FedPEFT 64dfbad";
    const FORMULA: &[&str] = &[
        "s_j = u · Q_j,  Q_j = (T_h(j) + T_g(j)) / 2,  h(j) = ((a j + b) mod 4096) mod 512,  g with another a and b",
        "L = mean −ln σ(s_i − s_j) + ½ λ (‖u‖² + ‖Q_i‖² + ‖Q_j‖²) over pairs of a positive i and a negative j,  by Adam",
    ];
    const DIFFERS: &str = "Of the three forms of the code, that of hashes is here. There an item's row \
                           also has a part P made of the item's text, which is sent once; the text is \
                           not at hand, so P = 0 here. By the paper P is frozen, and in the code it is \
                           trained all the same. The code draws one negative for each positive, once, \
                           from all but the user's items, held-out ones included, and one state of \
                           Adam serves all devices; here negatives are drawn anew in each round, as \
                           `dataset.negatives` says, and Adam starts anew in each participation. The \
                           code's regulariser is of plain norms with the same weight. The starts are \
                           ours. The published runs have 604 users a round and 1,000 rounds. No figure \
                           of the paper is at hand.";

    fn new(parameters: FedPeftParameters, problem: &Problem) -> Self {
        let mut numbers: Vec<u32> = (1..=99).collect();
        let mut stream = problem.starts.named("fedpeft/hashes", 0, 0);
        stream.shuffle_portably(&mut numbers);
        Self {
            hashes: [[numbers[0], numbers[1]], [numbers[2], numbers[3]]],
            parameters,
        }
    }

    fn blocks(&self, _size: ProblemSize) -> Vec<Block> {
        let (p, start) = (&self.parameters, normal(self.parameters.initial_deviation));
        let table = weights("T", p.rows as usize, p.latent_dimension as usize);
        let user = vector("u", p.latent_dimension).private();
        vec![table.start(start.clone()), user.start(start)]
    }

    fn is_weighed(&self) -> bool {
        !self.parameters.equal_weights
    }

    fn train(&self, own: &mut Own, task: &LocalTask<'_>, scratch: &mut Scratch) -> Result<Trained> {
        let (p, table) = (&self.parameters, table_of(task.model, "T"));
        draw_samples(task, &mut scratch.samples)?;
        let samples = &scratch.samples.samples;
        let labels = samples.labels.iter().map(|label| *label > 0.0);
        let labelled: Vec<(u32, bool)> = samples.items.iter().copied().zip(labels).collect();
        let mut pairs = pairs_of(&labelled);
        let k = p.latent_dimension as usize;
        let mut values = [own.get("u"), table.as_slice()].concat();
        let (mut gradient, mut moments) =
            (vec![0.0; values.len()], AdamMoments::zeros(values.len()));
        let settings = AdamSettings::with_rate(p.learning_rate);
        let (mut order, mut step) = (task.stream(Purpose::Shuffle), 0);
        let passes = Training::of(p.local_epochs, p.batch_size);
        let loss = passes.run(&mut pairs, &mut order, |batch| {
            let loss = self.slopes(&values, batch, &mut gradient);
            step += 1;
            moments.step(&settings, step, &mut values, &gradient);
            (loss * batch.len() as f64) as f32
        });
        let (user, rows) = values.split_at(k);
        task.check_values("u", user)?;
        task.check_values("T", rows)?;
        own.get_mut("u").copy_from_slice(user);
        let sent = TableUpdate::whole(Table::new(table.shape(), rows.to_vec()));
        let update = ModelUpdate::of_table(sent).weighing(labelled.len() as f32);
        // Each pair reads four rows, and moves four.
        let visits = 4 * u64::from(p.local_epochs) * pairs.len() as u64;
        let work = Work {
            row_visits: visits,
            multiply_adds: 2 * visits * k as u64,
        };
        Ok(Trained::new(update, loss, work))
    }

    fn scorer<'a>(&'a self, own: &'a Own, context: ScoringContext<'a>) -> Scoring<'a> {
        let (p, table) = (&self.parameters, table_of(context.model, "T"));
        let k = p.latent_dimension as usize;
        // A catalogue mostly has more items than the table has rows.
        let products = table.as_slice().chunks_exact(k);
        let products: Vec<f32> = products.map(|row| dot(own.get("u"), row)).collect();
        Ok(Box::new(move |items: &[u32], scores: &mut [f32]| {
            for (item, score) in items.iter().zip(scores) {
                let [one, other] = self
                    .hashes
                    .map(|hash| products[row_of(hash, *item, p.rows)]);
                *score = (one + other) / 2.0;
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::declare::Declared;
    use crate::tests::{holding, problem_of, score};
    use fedrecsim_core::math::gradient::gradient_check;
    use fedrecsim_core::{InvitationId, Round};
    use fedrecsim_data::dataset::OwnData;
    use fedrecsim_data::dataset::negatives::Samples;
    use fedrecsim_model::blocks::BlockValues;

    fn small() -> FedPeftParameters {
        FedPeftParameters {
            latent_dimension: 3,
            rows: 7,
            initial_deviation: 1.0,
            regularization: 0.3,
            ..FedPeftParameters::default()
        }
    }

    /// If this fails, an item has other rows than those of the published hashes.
    #[test]
    fn hashes_are_those_of_the_example() {
        assert_eq!(row_of([3, 5], 2000, 512), 373);
        let of = |seed: u64| {
            let problem = Problem::of_size(ProblemSize { users: 1, items: 1 }, Streams::new(seed));
            FedPeft::new(FedPeftParameters::default(), &problem).hashes
        };
        for seed in 0..50 {
            let mut numbers = of(seed).as_flattened().to_vec();
            assert!(numbers.iter().all(|number| (1..100).contains(number)));
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), 4, "{:?}", of(seed));
        }
        assert_ne!(of(1), of(2));
    }

    /// If this fails, u or T do not follow the gradient of the pairs' loss, such as where both rows of
    /// an item, or those of a positive and a negative, are one.
    #[test]
    fn slopes_are_those_of_the_loss() {
        let method = FedPeft::new(small(), &problem_of(2, 40));
        let (k, pairs) = (3, [(0, 1), (5, 39), (12, 12), (7, 14), (0, 30)]);
        let values: Vec<f32> = (0..k + 7 * k)
            .map(|at| (at * 7 % 11) as f32 / 5.0 - 1.0)
            .collect();
        let mut gradient = vec![9.0; values.len()];
        let loss = method.slopes(&values, &pairs, &mut gradient);
        let wide = |values: &[f32]| -> Vec<f64> { values.iter().copied().map(f64::from).collect() };
        let of = |at: &[f64]| {
            let row = |item: u32| -> Vec<f64> {
                let [one, other] = method.hashes.map(|hash| k + k * row_of(hash, item, 7));
                (0..k)
                    .map(|d| (at[one + d] + at[other + d]) / 2.0)
                    .collect()
            };
            let product =
                |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
            let losses = pairs.map(|(i, j)| {
                let [u, i, j] = [at[..k].to_vec(), row(i), row(j)];
                let squares = product(&u, &u) + product(&i, &i) + product(&j, &j);
                libm::log1p(libm::exp(product(&u, &j) - product(&u, &i))) + 0.15 * squares
            });
            losses.iter().sum::<f64>() / 5.0
        };
        assert!((loss - of(&wide(&values))).abs() < 1e-5);
        gradient_check(1e-3, &wide(&values), &wide(&gradient), of)
            .unwrap_or_else(|wrong| panic!("{wrong}"));
    }

    /// If this fails, a device sends something else than the whole table that it has trained, weighs
    /// itself otherwise, or scores by other rows.
    #[test]
    fn a_device_sends_the_table_and_learns_its_positives() {
        let parameters = FedPeftParameters {
            regularization: 0.0,
            local_epochs: 60,
            learning_rate: 0.1,
            ..small()
        };
        let method: Declared<FedPeft> = Declared::new(parameters, &problem_of(2, 6));
        let (model, mut client) = (method.initial(), method.client(UserId(1)));
        let samples = Samples {
            items: vec![2, 0, 4, 1],
            labels: vec![1.0, 0.0, 1.0, 0.0],
        };
        let names = (UserId(1), Round(0), InvitationId(0));
        let task = LocalTask::new(names, &model, OwnData::new(&[2, 4]), Streams::new(3), 1e6);
        let trained = client.train(&task, &mut holding(samples)).unwrap();
        assert_eq!(trained.update.scalars.weight, Some(4.0));
        let table = trained.update.blocks[0].apply(None).unwrap();
        assert_eq!(table.shape(), TableShape::new(7, 3));
        assert_ne!(&table, &**model.table(0));
        let blocks = vec![BlockValues::Table(table.into())];
        let sent = Model::new(method.download_layout(Phase(0), Class(0)), blocks).unwrap();
        let (mut scratch, own) = (Scratch::default(), OwnData::new(&[]));
        let context = ScoringContext::new(UserId(1), &sent, own, Streams::new(1), &mut scratch);
        let scores = score(&*client, context, &[2, 0, 4, 1]);
        assert!(
            scores[0] > scores[1] + 1.0 && scores[2] > scores[3] + 1.0,
            "{scores:?}"
        );
    }

    /// If this fails, a frame has other values than the published 512 x 32.
    #[test]
    fn bytes_are_the_published_ones() {
        let method: Declared<FedPeft> =
            Declared::new(FedPeftParameters::default(), &problem_of(2, 3952));
        let shape = method.upload_layout(Phase(0), Class(0)).blocks()[0].shape;
        assert_eq!(4 * shape.values(), 65_536);
    }
}
