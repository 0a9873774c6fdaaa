//! Draws training samples: every positive of a user with fresh negatives.
//!
//! Which items may be drawn decides every accuracy: see [`NegativePool`].

use crate::dataset::Dataset;
use crate::dataset::pool::Pool;
use fedrecsim_core::{Error, InvitationId, Purpose, Result, Stream, Streams, UserId};
use fedrecsim_scenario::{NegativePool, NegativesSpec};

/// The training samples of one user in one round, in the order of the authors' code: each positive
/// is followed by its negatives. Buffers are reused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// The items in the order of the samples.
    pub items: Vec<u32>,
    /// The label of each of [`Self::items`]: 1 for a positive, 0 for a negative.
    pub labels: Vec<f32>,
}

impl Samples {
    /// Removes all samples, and keeps the memory.
    pub fn clear(&mut self) {
        self.items.clear();
        self.labels.clear();
    }
}

/// Checks that the pool of every user who is here holds as many items as one positive needs, so
/// that no run stops because of it.
///
/// # Errors
/// [`Error::Dataset`], naming the first user with too few.
pub fn check(dataset: &Dataset, spec: &NegativesSpec) -> Result<()> {
    match unserved(dataset, spec).next() {
        Some((user, available)) => Err(too_few(dataset, user, spec, available)),
        None => Ok(()),
    }
}

/// Returns the users who are here whose pool holds too few items, and how many it holds.
pub(super) fn unserved<'d>(
    dataset: &'d Dataset,
    spec: &'d NegativesSpec,
) -> impl Iterator<Item = (UserId, usize)> + 'd {
    let available = |user: UserId| {
        let train = dataset.train_items(user);
        let distinct = train.chunk_by(|a, b| a == b).count();
        let held_out = match spec.pool {
            NegativePool::Unrated | NegativePool::Symmetric => {
                dataset.different_held_out_items(user)
            }
            NegativePool::NotInTrain => 0,
        };
        dataset.items() - distinct - held_out - absent_beside(dataset, user, spec.pool)
    };
    let users = dataset.own_users().map(UserId);
    let all = users.map(move |user| (user, available(user)));
    all.filter(|(_, available)| *available < spec.per_positive as usize)
}

/// Returns how many items come later that the pool would have otherwise. Nobody trains on them.
fn absent_beside(dataset: &Dataset, user: UserId, pool: NegativePool) -> usize {
    let mut absent = dataset.absent.clone();
    if !absent.is_empty() && pool != NegativePool::NotInTrain {
        let held_out: Vec<u32> = dataset.known_held_out_items(user).collect();
        absent.retain(|item| !held_out.contains(item));
    }
    absent.len()
}

fn too_few(dataset: &Dataset, user: UserId, spec: &NegativesSpec, available: usize) -> Error {
    let wanted = spec.per_positive;
    let least = unserved(dataset, spec).map(|(_, available)| available);
    // As many serve everybody.
    let remedy = match least.min() {
        Some(least @ 1..) => format!("; lower dataset.negatives.per_positive to {least}"),
        _ => String::new(),
    };
    Error::Dataset(format!(
        "{}: {wanted} negatives per positive are wanted, but only {available} items are left to draw them from{remedy}",
        dataset.who(user),
    ))
}

/// Draws negatives. Its scratch memory takes one bit per item and is reusable for any user of the
/// data set.
#[derive(Clone, Debug)]
pub struct NegativeSampler {
    spec: NegativesSpec,
    pool: Pool,
}

impl NegativeSampler {
    /// Makes a sampler for a catalogue of `items` items.
    pub fn new(items: usize, spec: &NegativesSpec) -> Self {
        Self {
            spec: spec.clone(),
            pool: Pool::new(items),
        }
    }

    /// Returns whether this is the sampler for such a catalogue and specification.
    pub fn fits(&self, items: usize, spec: &NegativesSpec) -> bool {
        self.pool.items() == items && self.spec == *spec
    }

    /// Replaces `samples` by those of `user` in `round`: for each training item, ascending, the
    /// item itself and `per_positive` items drawn uniformly from the user's pool, without
    /// replacement within one positive. A training item that repeats is as many positives.
    ///
    /// # Errors
    /// [`Error::Dataset`] if the pool has fewer than `per_positive` items.
    pub fn draw(
        &mut self,
        dataset: &Dataset,
        streams: Streams,
        user: UserId,
        invitation_id: InvitationId,
        samples: &mut Samples,
    ) -> Result<()> {
        let own = dataset.own_data(user);
        let mut stream = streams.stream(
            Purpose::Negatives,
            u64::from(user.0),
            u64::from(invitation_id.0),
        );
        samples.clear();
        let room = own.items.len() * (self.spec.per_positive as usize + 1);
        samples.items.reserve(room);
        samples.labels.reserve(room);
        let held_out = dataset.known_held_out_items(user);
        let others = (held_out, &dataset.absent[..]);
        self.append((own.items, own.positives()), others, &mut stream, samples)
            .map_err(|available| too_few(dataset, user, &self.spec, available))
    }

    /// Appends to `samples` each of `positives`, followed by its negatives. Items of `rated` and of
    /// `absent` are no negatives, nor are those of `held_out` if the pool leaves them out.
    ///
    /// # Errors
    /// The size of the pool, if it has fewer than `per_positive` items.
    pub fn append(
        &mut self,
        (rated, positives): (&[u32], impl Iterator<Item = u32>),
        (held_out, absent): (impl Iterator<Item = u32>, &[u32]),
        stream: &mut Stream,
        samples: &mut Samples,
    ) -> Result<(), usize> {
        let per_positive = self.spec.per_positive;
        let rated = rated.iter().chain(absent).copied();
        match self.spec.pool {
            NegativePool::Unrated | NegativePool::Symmetric => {
                self.pool.restrict(rated.chain(held_out), per_positive);
            }
            NegativePool::NotInTrain => self.pool.restrict(rated, per_positive),
        }
        if self.pool.available() < per_positive {
            return Err(self.pool.available() as usize);
        }
        let (group, first) = (per_positive as usize + 1, samples.items.len());
        for item in positives {
            samples.items.push(item);
            self.pool
                .append_sample(stream, per_positive, &mut samples.items);
        }
        samples.labels.resize(samples.items.len(), 0.0);
        samples.labels[first..]
            .iter_mut()
            .step_by(group)
            .for_each(|label| *label = 1.0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::dataset::ratings::{Interaction, Ratings, names};
    use crate::dataset::split;
    use fedrecsim_scenario::SplitSpec;

    /// Returns a data set of users with these items, in the order of time.
    fn dataset(items: u32, users: &[&[u32]], validation_item: bool) -> Dataset {
        let rows = users
            .iter()
            .enumerate()
            .flat_map(|(user, items)| items.iter().map(move |&item| (user as u32, item)));
        let (users_of_rows, items_of_rows): (Vec<u32>, Vec<u32>) = rows.unzip();
        let interactions = items_of_rows
            .iter()
            .enumerate()
            .map(|(row, &item)| Interaction::new(item, 1.0, row as i64))
            .collect();
        let ratings = Ratings {
            users: users_of_rows,
            interactions,
            user_names: names(users.len() as u32),
            item_names: names(items),
            ..Ratings::default()
        };
        split::split(
            ratings,
            &SplitSpec::leave_one_out(validation_item),
            Streams::new(1),
        )
        .unwrap()
    }

    fn draw(
        dataset: &Dataset,
        pool: NegativePool,
        per_positive: u32,
        user: u32,
        round: u32,
    ) -> Result<Samples> {
        let mut sampler =
            NegativeSampler::new(dataset.items(), &NegativesSpec { pool, per_positive });
        let mut samples = Samples::default();
        sampler.draw(
            dataset,
            Streams::new(5),
            UserId(user),
            InvitationId(round),
            &mut samples,
        )?;
        Ok(samples)
    }

    #[test]
    fn the_pools_differ_exactly_by_the_held_out_items() {
        let dataset = dataset(12, &[&[1, 4, 7, 9, 2]], true);
        // The sample is as large as the pool, so the negatives are the pool.
        let all = |pool, size| {
            draw(&dataset, pool, size, 0, 0).unwrap().items[1..=size as usize].to_vec()
        };
        let unrated: BTreeSet<u32> = all(NegativePool::Unrated, 7).into_iter().collect();
        let not_in_train: BTreeSet<u32> = all(NegativePool::NotInTrain, 9).into_iter().collect();
        assert_eq!(unrated, BTreeSet::from([0, 3, 5, 6, 8, 10, 11]));
        assert_eq!(
            not_in_train
                .difference(&unrated)
                .copied()
                .collect::<Vec<_>>(),
            [2, 9]
        );
        assert!(not_in_train.is_superset(&unrated));
    }

    #[test]
    fn a_pool_that_is_too_small_is_an_error_with_both_numbers() {
        let dataset = dataset(6, &[&[0, 1, 2], &[0, 1, 2, 3, 4]], true);
        let message = draw(&dataset, NegativePool::Unrated, 4, 1, 0)
            .unwrap_err()
            .to_string();
        assert_eq!(
            message,
            "user 1 (\"name-1\" in the ratings file): 4 negatives per positive are wanted, but only 1 items are left to \
             draw them from; lower dataset.negatives.per_positive to 1"
        );
        // The same sampler goes on to serve other users.
        assert!(draw(&dataset, NegativePool::NotInTrain, 3, 1, 0).is_ok());
    }

    #[test]
    fn the_check_before_a_run_asks_for_as_many_items_as_a_draw_does() {
        // If the check were stricter, a good scenario would be refused; if it were laxer, the run
        // would end in its first round. The user's training items are 1 and 3, each twice; 2 and,
        // with validation, 4 are held out.
        for validation_item in [false, true] {
            let dataset = dataset(12, &[&[3, 3, 1, 4, 2]], validation_item);
            for pool in [NegativePool::NotInTrain, NegativePool::Unrated] {
                let enough = match (pool, validation_item) {
                    (NegativePool::NotInTrain, true) => 10,
                    (NegativePool::NotInTrain, false) => 9,
                    (_, _) => 8,
                };
                let checked = |per_positive| check(&dataset, &NegativesSpec { pool, per_positive });
                assert!(checked(enough).is_ok(), "{pool:?}, {validation_item}");
                assert!(draw(&dataset, pool, enough, 0, 0).is_ok());
                let found = checked(enough + 1).unwrap_err().to_string();
                assert_eq!(
                    found,
                    draw(&dataset, pool, enough + 1, 0, 0)
                        .unwrap_err()
                        .to_string()
                );
            }
        }
    }

    #[test]
    fn a_sampler_fits_its_own_catalogue_and_specification_alone() {
        let spec = NegativesSpec {
            pool: NegativePool::Unrated,
            per_positive: 4,
        };
        let sampler = NegativeSampler::new(70, &spec);
        assert!(sampler.fits(70, &spec));
        assert!(!sampler.fits(71, &spec));
        assert!(!sampler.fits(
            70,
            &NegativesSpec {
                per_positive: 5,
                ..spec.clone()
            }
        ));
        assert!(!sampler.fits(
            71,
            &NegativesSpec {
                pool: NegativePool::NotInTrain,
                ..spec
            }
        ));
    }

    #[test]
    fn a_repeated_pair_is_as_many_positives() {
        let dataset = dataset(9, &[&[3, 3, 1, 2]], false);
        let samples = draw(&dataset, NegativePool::Unrated, 2, 0, 0).unwrap();
        let positives: Vec<u32> = samples.items.iter().step_by(3).copied().collect();
        assert_eq!(positives, [1, 3, 3]);
    }

    #[test]
    fn draws_are_a_function_of_seed_user_and_round_alone() {
        // The samples must not depend on who else is in the data, on what the sampler did before,
        // or on the order of users.
        let own: &[u32] = &[1, 2, 3, 4];
        let (few, more) = (dataset(50, &[own; 2], true), dataset(50, &[own; 3], true));
        let alone = draw(&few, NegativePool::NotInTrain, 4, 1, 7).unwrap();
        let mut sampler = NegativeSampler::new(
            50,
            &NegativesSpec {
                pool: NegativePool::NotInTrain,
                per_positive: 4,
            },
        );
        let mut samples = Samples::default();
        for user in [2, 0, 1] {
            sampler
                .draw(
                    &more,
                    Streams::new(5),
                    UserId(user),
                    InvitationId(7),
                    &mut samples,
                )
                .unwrap();
        }
        assert_eq!(samples, alone);
        assert_ne!(
            draw(&few, NegativePool::NotInTrain, 4, 1, 8).unwrap(),
            alone
        );
        assert_ne!(
            draw(&few, NegativePool::NotInTrain, 4, 0, 7).unwrap(),
            alone
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_positive_is_followed_by_its_distinct_negatives(
            own in prop::sample::subsequence((0u32..40).collect::<Vec<_>>(), 3..20).prop_shuffle(),
            per_positive in 1u32..20,
            not_in_train: bool,
            validation_item: bool,
        ) {
            let dataset = dataset(40, &[&own], validation_item);
            let pool = if not_in_train { NegativePool::NotInTrain } else { NegativePool::Unrated };
            let samples = draw(&dataset, pool, per_positive, 0, 0).unwrap();
            let group = per_positive as usize + 1;
            prop_assert_eq!(samples.items.len(), dataset.training_ratings() * group);
            prop_assert_eq!(samples.labels.len(), samples.items.len());
            let excluded: Vec<u32> = match pool {
                NegativePool::NotInTrain => dataset.train_items(UserId(0)).to_vec(),
                _ => own.clone(),
            };
            let groups = samples.items.chunks(group).zip(samples.labels.chunks(group));
            for ((items, labels), &positive) in groups.zip(dataset.train_items(UserId(0))) {
                prop_assert_eq!(items[0], positive);
                prop_assert_eq!(labels[0], 1.0);
                prop_assert!(labels[1..].iter().all(|&label| label == 0.0));
                let distinct: BTreeSet<u32> = items[1..].iter().copied().collect();
                prop_assert_eq!(distinct.len(), per_positive as usize);
                prop_assert!(distinct.iter().all(|item| !excluded.contains(item) && *item < 40));
            }
        }
    }
}
