//! Data sets of which a process holds the ratings of its own users, and what all processes know of
//! everybody's.

use std::ops::Range;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::delimited::OwnRatings;
use super::held_out::HeldOut;
use super::scale::{self, RatingScale};
use super::user_rows::UserRows;
use super::{Dataset, delimited, generator, registry, split};
use fedrecsim_core::error::Result;
use fedrecsim_core::ids::UserId;
use fedrecsim_core::rng::Streams;
use fedrecsim_scenario::scenario::{DatasetSpec, SourceSpec, SplitSpec};

/// The fewest ratings of a user of a generated population.
const FEWEST_GENERATED: u32 = 3;

/// What is known of all users' ratings where a process holds those of some: sums of integers, which
/// are the same in whatever order they are added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// The number of users.
    pub users: u32,
    /// The number of training ratings.
    ratings: u64,
    /// The number of training positives of every item.
    popularity: Vec<u32>,
    /// The lowest and the highest rating; `None` if there are none.
    range: Option<(f32, f32)>,
    /// The sum of the training ratings. That of whole stars has no fraction, and is added without
    /// rounding.
    rating_sum: f64,
    /// The sum of the digests of the users' ratings, lane by lane.
    digest: [u64; 4],
}

impl Totals {
    /// Returns what is known of the users whose ratings `dataset` holds, if those of all others are
    /// added to it.
    pub fn of(dataset: &Dataset) -> Self {
        let training = dataset.train.all_ratings();
        Self {
            users: dataset.users() as u32,
            ratings: training.len() as u64,
            popularity: dataset.counted_positives(),
            range: scale::range_of(&dataset.train, &dataset.held_out),
            rating_sum: training.iter().map(f64::from).sum(),
            digest: dataset.summed_digests(),
        }
    }

    /// Adds what is known of other users.
    pub fn add(&mut self, other: &Self) {
        self.ratings += other.ratings;
        self.popularity
            .iter_mut()
            .zip(&other.popularity)
            .for_each(|(sum, count)| *sum += count);
        self.range = match (self.range, other.range) {
            (Some((low, high)), Some((other_low, other_high))) => {
                Some((low.min(other_low), high.max(other_high)))
            }
            (one, other) => one.or(other),
        };
        self.rating_sum += other.rating_sum;
        self.digest
            .iter_mut()
            .zip(other.digest)
            .for_each(|(sum, lane)| *sum = sum.wrapping_add(lane));
    }

    pub(super) fn ratings(&self) -> usize {
        self.ratings as usize
    }

    pub(super) fn popularity(&self) -> &[u32] {
        &self.popularity
    }

    pub(super) fn mean(&self) -> f64 {
        self.rating_sum / self.ratings as f64
    }

    pub(super) fn scale(&self) -> Option<RatingScale> {
        let (minimum, maximum) = self.range.filter(|(low, high)| low < high)?;
        Some(RatingScale {
            minimum,
            maximum,
            training_mean: self.mean(),
        })
    }

    pub(super) fn digest(&self) -> [u64; 4] {
        self.digest
    }
}

/// Returns the number of users of the data set that `spec` names, if each process can draw its own
/// users and nobody else's: a generated population from which nobody is left out, split user by
/// user.
pub fn users_drawn_by_owner(spec: &DatasetSpec) -> Option<u32> {
    match (&spec.source, &spec.split) {
        (
            SourceSpec::Generated {
                generator: population,
            },
            SplitSpec::LeaveOneOut { .. },
        ) if spec.minimum_interactions <= FEWEST_GENERATED => Some(population.users),
        _ => None,
    }
}

/// Draws the ratings of the users `own` of a data set for which [`users_drawn_by_owner`] says that
/// this can be done. What is known of all users is yet to be added ([`Dataset::knowing`]).
///
/// # Errors
/// Those of [`split::Splitter::finish`].
pub fn draw(spec: &DatasetSpec, own: Range<u32>, streams: Streams) -> Result<Dataset> {
    let SourceSpec::Generated {
        generator: population,
    } = &spec.source
    else {
        return super::load(spec, &[], streams).map(|dataset| dataset.of_users(own));
    };
    let mut splitter = split::Splitter::new(population.items, &spec.split, 0, streams)?;
    generator::generate_some(population, own.clone(), streams, |user, interactions| {
        splitter.push_user(
            || format!("{user} of the generated population"),
            interactions,
        );
    });
    let dataset = splitter.finish()?;
    let (first, users) = (own.start, population.users);
    let totals = Totals {
        users,
        ..Totals::of(&Dataset {
            first,
            ..dataset.clone()
        })
    };
    Ok(Dataset {
        first,
        totals: Some(Box::new(totals)),
        ..dataset
    })
}

/// Reads the ratings of those users of a file whom `own_of` names out of so many, and keeps no
/// others. What is known of all users is yet to be added. The digest of the file comes with it,
/// since whoever reads a part of it cannot tell by that whether all read the same. Returns `None`
/// for a data set that has to be read as a whole: a subset, which goes by the ratings of all, or
/// ratings with fractions whose sum depends on the order.
///
/// # Errors
/// As [`load`](super::load).
pub fn read_own(
    spec: &DatasetSpec,
    data_directories: &[PathBuf],
    own_of: impl FnOnce(usize) -> Range<u32>,
    streams: Streams,
) -> Result<Option<(Dataset, [u8; blake3::OUT_LEN])>> {
    if spec.subset.is_some() || matches!(spec.source, SourceSpec::Generated { .. }) {
        return Ok(None);
    }
    let file = registry::locate(&spec.source, spec.path.as_deref(), data_directories)?;
    let own = delimited::read_own(&file.path, &file.layout, spec.minimum_interactions, own_of)?;
    let Some(mut own) = own else { return Ok(None) };
    if file.ordered_by_item {
        own.ratings.order_by_item_number();
    }
    let digest = own.digest;
    let dataset = split_own(own, &spec.split, streams)?;
    let totals = Totals {
        users: dataset.user_names.len() as u32,
        ..Totals::of(&dataset)
    };
    Ok(Some((
        Dataset {
            totals: Some(Box::new(totals)),
            ..dataset
        },
        digest,
    )))
}

/// Splits the ratings of some users of a file as [`split::split`] splits those of all.
fn split_own(own: OwnRatings, spec: &SplitSpec, streams: Streams) -> Result<Dataset> {
    let OwnRatings {
        mut ratings,
        own,
        rows: (rows, before),
        ..
    } = own;
    let mut splitter = split::Splitter::new(ratings.items, spec, rows, streams)?;
    splitter.pass_over(before);
    ratings.users.iter_mut().for_each(|user| *user -= own.start);
    let (starts, grouped) = ratings.by_user(own.len());
    drop((
        std::mem::take(&mut ratings.users),
        std::mem::take(&mut ratings.interactions),
    ));
    for (bounds, name) in starts
        .windows(2)
        .zip(&ratings.user_names[own.start as usize..])
    {
        splitter.push_user(|| format!("user {name:?}"), &grouped[bounds[0]..bounds[1]]);
    }
    splitter.finish().map(|dataset| Dataset {
        user_names: ratings.user_names,
        first: own.start,
        ..dataset
    })
}

impl Dataset {
    /// Returns what is known here of all users; `None` if all of their ratings are here.
    pub fn totals(&self) -> Option<&Totals> {
        self.totals.as_deref()
    }

    /// Returns the data set with other knowledge of all users.
    #[must_use]
    pub fn knowing(self, totals: Totals) -> Self {
        Self {
            totals: Some(Box::new(totals)),
            ..self
        }
    }

    /// Returns the users whose ratings are here, by their numbers.
    pub(crate) fn own_users(&self) -> Range<u32> {
        self.first..self.first + self.train.users() as u32
    }

    /// Returns whether the ratings of all users are here.
    pub fn is_whole(&self) -> bool {
        self.totals.is_none()
    }

    /// Returns the data set with the ratings of these users alone, and what is known of all.
    #[must_use]
    pub fn of_users(self, own: Range<u32>) -> Self {
        let totals = Totals::of(&self);
        // Of ratings that are no whole stars, the mean is the one that was added in the order of
        // users.
        let totals = Totals {
            rating_sum: self.mean_training_rating() * totals.ratings as f64,
            ..totals
        };
        let Self {
            items,
            train,
            held_out,
            user_names,
            ..
        } = self;
        let users = own.start as usize..own.end as usize;
        let (train, held_out) = (train.of_users(users.clone()), held_out.of_users(users));
        Self {
            items,
            train,
            held_out,
            user_names,
            first: own.start,
            totals: Some(Box::new(totals)),
        }
    }

    /// Returns the sum of the digests of the users who are here.
    pub(super) fn summed_digests(&self) -> [u64; 4] {
        let mut sum = [0u64; 4];
        for user in self.own_users().map(UserId) {
            let mut digest = blake3::Hasher::new();
            digest.update(&user.0.to_le_bytes());
            let mut feed = |bytes: &[u8]| {
                digest.update(bytes);
            };
            let place = self.place(user);
            self.train.visit_user(place, &mut feed);
            feed(b"held out");
            match &self.held_out {
                HeldOut::Items { .. } => self
                    .held_out
                    .items(place)
                    .for_each(|item| feed(&item.to_le_bytes())),
                HeldOut::Ratings(rows) => UserRows::visit_user(rows, place, &mut feed),
            }
            let digest = *digest.finalize().as_bytes();
            for (sum, lane) in sum.iter_mut().zip(digest.as_chunks::<8>().0) {
                *sum = sum.wrapping_add(u64::from_le_bytes(*lane));
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::dataset::load;
    use fedrecsim_scenario::scenario::{ColumnRef, DelimitedSpec, GeneratorSpec, NegativesSpec};

    /// If this fails, what a process draws for its own users is not what one that draws everybody
    /// has of them, or several processes know something else of all users than one does.
    #[test]
    fn users_who_are_drawn_by_their_owners_are_those_of_the_whole_population() {
        let streams = Streams::new(7);
        for split in [
            SplitSpec::LeaveOneOut {
                validation_item: true,
            },
            SplitSpec::LeaveOneOut {
                validation_item: false,
            },
        ] {
            let population = GeneratorSpec {
                users: 53,
                items: 200,
                ratings_per_user: 9.0,
                ..GeneratorSpec::default()
            };
            let spec = DatasetSpec {
                source: SourceSpec::Generated {
                    generator: population,
                },
                path: None,
                subset: None,
                minimum_interactions: 0,
                split,
                negatives: NegativesSpec::default(),
            };
            let whole = load(&spec, &[], streams).unwrap();
            assert_eq!(users_drawn_by_owner(&spec), Some(53));
            let bounds = [0, 17, 17, 40, 53];
            let mut parts: Vec<Dataset> = bounds
                .windows(2)
                .map(|own| draw(&spec, own[0]..own[1], streams).unwrap())
                .collect();
            let mut totals = parts[0].totals().unwrap().clone();
            parts[1..]
                .iter()
                .for_each(|part| totals.add(part.totals().unwrap()));
            parts = parts
                .into_iter()
                .map(|part| part.knowing(totals.clone()))
                .collect();
            for (own, part) in bounds.windows(2).zip(&parts) {
                assert_eq!(part, &whole.clone().of_users(own[0]..own[1]));
                assert_eq!(part.users(), 53);
                assert_eq!(part.training_ratings(), whole.training_ratings());
                assert_eq!(part.popularity(), whole.popularity());
                assert_eq!(part.rating_scale(), whole.rating_scale());
                assert_eq!(part.mean_training_rating(), whole.mean_training_rating());
                assert_eq!(part.summed(), whole.summed());
                for user in (own[0]..own[1]).map(UserId) {
                    assert_eq!(part.train_items(user), whole.train_items(user));
                    assert_eq!(part.test_item(user), whole.test_item(user));
                }
            }
        }
    }

    /// If this fails, ratings that have changed are taken for those that a run began with.
    #[test]
    fn the_digest_of_all_users_tells_data_sets_apart() {
        let data = |seed, users| {
            let population = GeneratorSpec {
                users,
                items: 200,
                ratings_per_user: 9.0,
                ..GeneratorSpec::default()
            };
            let spec = DatasetSpec {
                source: SourceSpec::Generated {
                    generator: population,
                },
                path: None,
                subset: None,
                minimum_interactions: 0,
                split: SplitSpec::LeaveOneOut {
                    validation_item: true,
                },
                negatives: NegativesSpec::default(),
            };
            load(&spec, &[], Streams::new(seed)).unwrap().summed()
        };
        assert_eq!(data(1, 30), data(1, 30));
        assert!(data(1, 30) != data(2, 30) && data(1, 30) != data(1, 31));
    }

    /// If this fails, what a rank keeps of a file is not what one process has of its users.
    #[test]
    fn the_own_users_of_a_file_are_those_of_the_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ratings.csv");
        let mut text = "user,item,rating,time\n".to_owned();
        for row in 0..900u32 {
            let (user, item) = (row * 7919 % 41, row * row % 97);
            let time = if row == 500 {
                "0.5".to_owned()
            } else {
                (row * 31 % 200).to_string()
            };
            text += &format!(
                "u{user},i{item},{},{time}\n",
                f64::from(row % 9) / 2.0 + 0.5
            );
            // Some users with few ratings, who are left out.
            if row % 200 == 0 {
                text += &format!("rare{row},only{row},3,1\n");
            }
        }
        std::fs::write(&path, &text).unwrap();
        let named = |name: &str| ColumnRef::Name(name.to_owned());
        let layout = DelimitedSpec {
            separator: ",".to_owned(),
            header: true,
            user: named("user"),
            item: named("item"),
            rating: Some(named("rating")),
            rating_range: None,
            label: None,
            weight: None,
            timestamp: Some(named("time")),
        };
        let k_fold = SplitSpec::KFold {
            folds: 5,
            fold: 1,
            division: None,
        };
        for split in [
            SplitSpec::LeaveOneOut {
                validation_item: true,
            },
            k_fold,
        ] {
            let spec = DatasetSpec {
                source: SourceSpec::Delimited {
                    columns: layout.clone(),
                },
                path: Some(path.clone()),
                subset: None,
                minimum_interactions: 3,
                split,
                negatives: NegativesSpec::default(),
            };
            let whole = load(&spec, &[], Streams::new(7)).unwrap();
            assert_eq!(whole.users(), 41);
            let bounds = [0, 17, 17, 40, 41];
            let read = |own: &[u32]| {
                read_own(&spec, &[], |_| own[0]..own[1], Streams::new(7))
                    .unwrap()
                    .unwrap()
            };
            let parts: Vec<_> = bounds.windows(2).map(read).collect();
            let mut totals = parts[0].0.totals().unwrap().clone();
            parts[1..]
                .iter()
                .for_each(|(part, _)| totals.add(part.totals().unwrap()));
            for (own, (part, digest)) in bounds.windows(2).zip(parts) {
                let (part, whole_part) = (
                    part.knowing(totals.clone()),
                    whole.clone().of_users(own[0]..own[1]),
                );
                assert_eq!(part.rating_scale(), whole.rating_scale());
                assert_eq!(
                    part.mean_training_rating(),
                    whole_part.mean_training_rating()
                );
                assert_eq!(
                    (part.summed(), part.popularity()),
                    (whole.summed(), whole.popularity())
                );
                assert!(part == whole_part.knowing(totals.clone()), "{own:?}");
                assert_eq!(digest, read(&[0, 1]).1);
            }
        }
    }
}
