//! Data sets of a process that holds the ratings of its own users and the totals over all users.

use std::ops::Range;
use std::path::PathBuf;

use super::totals::Totals;
use super::{Dataset, delimited, registry, split};
use fedrecsim_core::{Result, Streams};
use fedrecsim_scenario::{DatasetSpec, OnUnusableUser, SplitSpec};

/// The fewest ratings of a user of a generated population.
const FEWEST_GENERATED: u32 = 3;

/// Returns the number of users of the data set that `spec` names, if each process can draw its own
/// users alone: a generated population without a filter of users, split user by user.
pub fn users_drawn_by_owner(spec: &DatasetSpec) -> Option<u32> {
    let is_split_by_user = matches!(
        spec.split,
        SplitSpec::LeaveOneOut { .. } | SplitSpec::Holdout(_)
    );
    let leaves_nobody_out = spec.minimum_interactions <= FEWEST_GENERATED;
    spec.generated_users()
        .filter(|_| is_split_by_user && leaves_nobody_out)
}

/// Draws the ratings of the users `own` of a data set that [`users_drawn_by_owner`] allows this
/// for. The totals over all users are yet to be added ([`Dataset::knowing`]).
///
/// # Errors
/// Those of [`split::Splitter::finish`].
pub fn draw(spec: &DatasetSpec, own: Range<u32>, streams: Streams) -> Result<Dataset> {
    match &spec.generator {
        Some(generator) => super::load::generated(generator, own, spec, streams),
        None => super::load(spec, &[], streams).map(|dataset| dataset.of_users(own)),
    }
}

/// Reads the ratings of some users of a file: `own_of` picks them, given the number of users. The
/// totals over all users are yet to be added. Also returns a digest of the whole file, so that
/// processes can check that they have all read the same one. Returns `None` for a data set that has
/// to be read as a whole: one with filters that go by more than the number of ratings, a split by a clock,
/// or ratings with fractions whose sum depends on the order.
///
/// # Errors
/// As [`load`](super::load).
pub fn read_own(
    spec: &DatasetSpec,
    data_directories: &[PathBuf],
    own_of: impl FnOnce(usize) -> Range<u32>,
    streams: Streams,
) -> Result<Option<(Dataset, [u8; blake3::OUT_LEN])>> {
    let goes_by_all = spec.subset.is_some()
        || spec.k_core.is_some()
        || spec.minimum_positives.is_some()
        || spec.positive_from.is_some()
        || spec.repeated_pairs.is_some()
        || spec.on_unusable_user != OnUnusableUser::Refuse;
    // A split by a column counts the held-out items of all users, whoever trains here.
    let has_parts = matches!(spec.split, SplitSpec::ByColumn(_));
    if goes_by_all || has_parts || spec.generator.is_some() || split::goes_by_clock(&spec.split) {
        return Ok(None);
    }
    let file = registry::locate(spec, data_directories)?;
    let own = delimited::read_own(&file.path, &file.layout, spec.minimum_interactions, own_of)?;
    let Some(mut own) = own else { return Ok(None) };
    if file.ordered_by_item {
        own.ratings.order_by_item_number();
    }
    let remarks = [&mut own.ratings.told, &mut own.ratings.warnings].map(std::mem::take);
    let dataset = split::split_part(own.ratings, own.own, own.rows, &spec.split, streams)?;
    Ok(Some((dataset.with(remarks), own.digest)))
}

impl Dataset {
    /// Returns what is known here of all users.
    pub fn totals(&self) -> Totals {
        Totals {
            digest: Some(self.digest()),
            ..self.totals.clone()
        }
    }

    /// Returns the data set with other knowledge of all users.
    #[must_use]
    pub fn knowing(self, totals: Totals) -> Self {
        Self { totals, ..self }
    }

    /// Returns the users whose ratings are here, by their numbers.
    pub(crate) fn own_users(&self) -> Range<u32> {
        self.first..self.first + self.train.users() as u32
    }

    /// Returns the data set with the ratings of these users alone, and the totals over all users.
    #[must_use]
    pub fn of_users(self, own: Range<u32>) -> Self {
        let users = own.start as usize..own.end as usize;
        Self {
            totals: self.totals(),
            train: self.train.of_users(users.clone()),
            held_out: self.held_out.of_users(users.clone()),
            known: self.known.map(|known| known.of_users(users)),
            first: own.start,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::dataset::load;
    use fedrecsim_core::UserId;
    use fedrecsim_scenario::{ColumnRef, DatasetName, DelimitedSpec, GeneratorSpec, OnIncomplete};

    /// If this fails, what a process draws for its own users is not what one that draws everybody
    /// has of them, or several processes know something else of all users than one does.
    #[test]
    fn users_who_are_drawn_by_their_owners_are_those_of_the_whole_population() {
        let streams = Streams::new(7);
        for split in [SplitSpec::LEAVE_ONE_OUT, SplitSpec::leave_one_out(false)] {
            let population = GeneratorSpec {
                users: 53,
                items: 200,
                ratings_per_user: 9.0,
                ..GeneratorSpec::default()
            };
            let spec = DatasetSpec {
                generator: Some(population),
                split,
                ..DatasetSpec::named(DatasetName::Generated)
            };
            let whole = load(&spec, &[], streams).unwrap();
            assert_eq!(users_drawn_by_owner(&spec), Some(53));
            let bounds = [0, 17, 17, 40, 53];
            let mut parts: Vec<Dataset> = bounds
                .windows(2)
                .map(|own| draw(&spec, own[0]..own[1], streams).unwrap())
                .collect();
            let mut totals = parts[0].totals();
            parts[1..]
                .iter()
                .for_each(|part| totals.add(&part.totals()));
            parts = parts
                .into_iter()
                .map(|part| part.knowing(totals.clone()))
                .collect();
            for (own, part) in bounds.windows(2).zip(&parts) {
                assert_eq!(part, &whole.clone().of_users(own[0]..own[1]));
                assert_eq!(part.users(), 53);
                assert_eq!(part.training_ratings(), whole.training_ratings());
                assert_eq!(part.popularity(), whole.popularity());
                assert_eq!(part.raters(), whole.raters());
                assert_eq!(part.rating_scale(), whole.rating_scale());
                assert_eq!(part.mean_training_rating(), whole.mean_training_rating());
                assert_eq!(part.digest(), whole.digest());
                for user in (own[0]..own[1]).map(UserId) {
                    assert_eq!(part.train_items(user), whole.train_items(user));
                    assert_eq!(part.test(user), whole.test(user));
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
                generator: Some(population),
                split: SplitSpec::LEAVE_ONE_OUT,
                ..DatasetSpec::named(DatasetName::Generated)
            };
            load(&spec, &[], Streams::new(seed)).unwrap().digest()
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
            separator: Some(",".to_owned()),
            header: Some(true),
            user: named("user"),
            item: named("item"),
            rating: Some(named("rating")),
            rating_range: None,
            label: None,
            weight: None,
            timestamp: Some(named("time")),
            timestamp_format: None,
            order: None,
            part: None,
            on_incomplete: OnIncomplete::Refuse,
        };
        let k_fold = SplitSpec::KFold {
            folds: 5,
            fold: 1,
            division: None,
        };
        for split in [SplitSpec::LEAVE_ONE_OUT, k_fold] {
            let spec = DatasetSpec {
                columns: Some(layout.clone()),
                path: Some(path.clone()),
                minimum_interactions: 3,
                split,
                ..DatasetSpec::named(DatasetName::Delimited)
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
            let mut totals = parts[0].0.totals();
            parts[1..]
                .iter()
                .for_each(|(part, _)| totals.add(&part.totals()));
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
                    (part.digest(), part.popularity()),
                    (whole.digest(), whole.popularity())
                );
                assert!(part == whole_part.knowing(totals.clone()), "{own:?}");
                assert_eq!(digest, read(&[0, 1]).1);
            }
        }
    }
}
