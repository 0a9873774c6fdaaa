//! Takes the part of a file's ratings that a scenario keeps, one filter after the other.

use super::ratings::{Interaction, Ratings};
use fedrecsim_core::{Error, Result, Streams};
use fedrecsim_scenario::{DatasetSpec, RepeatedPairs};

/// The numbers of ratings, users, items and positives.
type Counts = [u64; 4];

/// Returns the ratings that the filters of `spec` leave. Each filter is told to `told`: its key with
/// its value, the numbers of ratings, users, items and positives before it and after it, and what it
/// leaves. If
/// `ordered_by_item` is true, an item's first appearance stands for the time of its ratings.
///
/// # Errors
/// [`Error::Dataset`](fedrecsim_core::Error::Dataset) for a filter that leaves nothing.
pub fn filtered(
    (mut ratings, ordered_by_item): (Ratings, bool),
    spec: &DatasetSpec,
    streams: Streams,
    told: &mut dyn FnMut(&str, [Counts; 2], &Ratings),
) -> Result<Ratings> {
    if ordered_by_item {
        ratings.order_by_item_number();
    }
    let mut is_again = false;
    // Returns whether a filter has left out ratings.
    let mut filter = |key: String, is_again: bool, filter: &dyn Fn(Ratings) -> Result<Ratings>| {
        let before = ratings.counts();
        ratings = filter(std::mem::take(&mut ratings))?;
        let after = ratings.counts();
        if !is_again || before != after {
            told(&key, [before, after], &ratings);
        }
        Result::Ok(before[0] != after[0])
    };
    let repeated = spec.repeated_pairs.unwrap_or(RepeatedPairs::Keep);
    if repeated != RepeatedPairs::Keep {
        let name = format!("{repeated:?}").to_lowercase();
        filter(format!("repeated_pairs = {name:?}"), false, &|all| {
            all.without_repeats(repeated)
        })?;
    }
    if let Some(least) = spec.positive_from {
        filter(format!("positive_from = {least}"), false, &|all| {
            all.with_positives_from(least)
        })?;
    }
    if let Some(subset) = &spec.subset {
        filter("subset".to_owned(), false, &|all| {
            all.subset(subset, streams)
        })?;
    }
    loop {
        let minimum = spec.minimum_interactions;
        filter(
            format!("minimum_interactions = {minimum}"),
            is_again,
            &|all| all.keep_active_users(minimum),
        )?;
        if let Some(minimum) = spec.minimum_positives {
            filter(format!("minimum_positives = {minimum}"), is_again, &|all| {
                all.keep_users_with_positives(minimum)
            })?;
        }
        let Some(least) = spec.k_core else { break };
        // What the core leaves out may take a user below the other minima.
        is_again = filter(format!("k_core = {least}"), is_again, &|all| {
            all.core(least)
        })?;
        if !is_again {
            break;
        }
    }
    if ordered_by_item {
        ratings.order_by_item_number();
    }
    Ok(ratings)
}

impl Ratings {
    /// Returns the numbers of ratings, users, items and positives.
    fn counts(&self) -> Counts {
        let positives = self.interactions.iter().filter(|row| row.is_positive);
        [
            self.interactions.len() as u64,
            self.user_names.len() as u64,
            self.items().into(),
            positives.count() as u64,
        ]
    }

    /// Leaves one row of each pair of user and item. Of a sum, the latest label counts. Among equal times the row that stands first in the
    /// file is the latest, as for the split.
    ///
    /// # Errors
    /// [`Error::Dataset`] for a sum that single precision does not hold.
    fn without_repeats(mut self, way: RepeatedPairs) -> Result<Self> {
        let mut order: Vec<usize> = (0..self.users.len()).collect();
        let latest_first = |row: &usize| {
            let Interaction { item, time, .. } = self.interactions[*row];
            (self.users[*row], item, std::cmp::Reverse(time))
        };
        order.sort_by_key(latest_first);
        let mut is_kept = vec![false; order.len()];
        let pair = |row: usize, all: &Self| (all.users[row], all.interactions[row].item);
        let groups = order.chunk_by(|one, other| pair(*one, &self) == pair(*other, &self));
        let groups: Vec<&[usize]> = groups.collect();
        for rows in groups {
            let kept = match way {
                RepeatedPairs::First => rows[rows.len() - 1],
                _ => rows[0],
            };
            is_kept[kept] = true;
            if way == RepeatedPairs::Sum {
                let of = |value: fn(&Interaction) -> f32| -> f32 {
                    rows.iter().map(|row| value(&self.interactions[*row])).sum()
                };
                let (rating, weight) = (of(|row| row.rating), of(|row| row.weight));
                if !(rating.is_finite() && weight.is_finite()) {
                    let (user, item) = pair(kept, &self);
                    let what = if rating.is_finite() {
                        "weights"
                    } else {
                        "ratings"
                    };
                    return Err(Error::Dataset(format!(
                        "the {what} of item {:?} by user {:?} add up to more than 3.4e38 (dataset.repeated_pairs = \
                         \"sum\"): write them in a larger unit",
                        self.item_names[item as usize], self.user_names[user as usize]
                    )));
                }
                self.interactions[kept] = Interaction {
                    rating,
                    weight,
                    ..self.interactions[kept]
                };
            }
        }
        Ok(self.rows_only(|row, _, _| is_kept[row]))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::dataset::ratings::names;
    use fedrecsim_scenario::{DatasetName, SubsetSpec};

    /// Returns ratings of three users, the rows as user, item, rating and time.
    fn ratings() -> Ratings {
        let rows = [
            (0, 0, 5.0, 3),
            (0, 1, 1.0, 1),
            (0, 0, 2.0, 5),
            (1, 0, 4.0, 2),
            (0, 0, 3.0, 5),
            (1, 2, 1.0, 9),
            (2, 1, 5.0, 7),
            (2, 1, 5.0, 7),
        ];
        let rows =
            rows.map(|(user, item, rating, time)| (user, Interaction::new(item, rating, time)));
        let (users, interactions) = rows.into_iter().unzip();
        Ratings {
            users,
            interactions,
            user_names: ["a", "b", "c"].map(Into::into).into(),
            item_names: crate::dataset::ratings::names(3),
            ..Ratings::default()
        }
    }

    /// User, item, rating and time.
    type Row = (u32, u32, f32, i64);

    /// Returns what is left, and what was told of it.
    fn left(change: impl Fn(&mut DatasetSpec)) -> (Vec<Row>, Vec<String>) {
        let mut spec = DatasetSpec::named(DatasetName::Delimited);
        change(&mut spec);
        let mut told = Vec::new();
        let mut note = |key: &str, [before, after]: [Counts; 2], _: &Ratings| {
            told.push(format!("{key}: {before:?} {after:?}"));
        };
        let left = filtered((ratings(), false), &spec, Streams::new(1), &mut note).unwrap();
        let rows = left.users.iter().zip(&left.interactions);
        let rows = rows
            .map(|(user, row)| (*user, row.item, row.rating, row.time))
            .collect();
        (rows, told)
    }

    /// If this fails, a pair is trained on more often than the scenario says, or with another rating.
    #[test]
    fn one_row_of_a_repeated_pair_stays() {
        let of = |way| left(|spec| spec.repeated_pairs = Some(way)).0;
        let others = [(1, 1, 4.0, 2), (1, 2, 1.0, 9)];
        // Among equal times the row that stands first is the latest.
        let last = [
            (0, 0, 1.0, 1),
            (0, 1, 2.0, 5),
            others[0],
            others[1],
            (2, 0, 5.0, 7),
        ];
        assert_eq!(of(RepeatedPairs::Last), last);
        let first = of(RepeatedPairs::First);
        assert_eq!(first.len(), 5);
        assert!(first.contains(&(0, 0, 5.0, 3)), "{first:?}");
        let sum = of(RepeatedPairs::Sum);
        assert!(
            sum.contains(&(0, 1, 10.0, 5)) && sum.contains(&(2, 0, 10.0, 7)),
            "{sum:?}"
        );
        assert_eq!(of(RepeatedPairs::Keep), left(|_| {}).0);
    }

    /// If this fails, what a user has come to dislike is a positive.
    #[test]
    fn the_latest_label_of_a_sum_counts() {
        let row = |rating, time, is_positive| Interaction {
            is_positive,
            ..Interaction::new(0, rating, time)
        };
        let of = |rows: [Interaction; 2]| {
            let all = Ratings {
                users: vec![0, 0],
                interactions: rows.into(),
                user_names: names(1),
                item_names: names(1),
                ..Ratings::default()
            };
            let left = all
                .without_repeats(RepeatedPairs::Sum)
                .unwrap()
                .interactions;
            (left.len(), left[0].rating, left[0].is_positive)
        };
        assert_eq!(of([row(2.0, 1, true), row(3.0, 2, false)]), (1, 5.0, false));
        assert_eq!(of([row(2.0, 1, false), row(3.0, 2, true)]), (1, 5.0, true));
        let all = Ratings {
            users: vec![0, 0],
            interactions: vec![row(3e38, 1, true), row(3e38, 2, true)],
            user_names: names(1),
            item_names: names(1),
            ..Ratings::default()
        };
        let refused = all.without_repeats(RepeatedPairs::Sum).unwrap_err();
        assert!(
            refused.to_string().contains("add up to more than"),
            "{refused}"
        );
    }

    /// If this fails, somebody is told that a filter takes more or less away than it does.
    #[test]
    fn each_filter_is_told_with_what_it_leaves() {
        let (rows, told) = left(|spec| {
            spec.positive_from = Some(3.0);
            spec.repeated_pairs = Some(RepeatedPairs::Last);
            spec.minimum_positives = Some(1);
            spec.subset = Some(SubsetSpec {
                newest_per_user: Some(1),
                ..SubsetSpec::default()
            });
        });
        assert_eq!(rows, [(0, 0, 5.0, 7)]);
        assert_eq!(
            told,
            [
                "repeated_pairs = \"last\": [8, 3, 3, 8] [5, 3, 3, 5]",
                "positive_from = 3: [5, 3, 3, 5] [5, 3, 3, 2]",
                "subset: [5, 3, 3, 2] [3, 3, 3, 1]",
                "minimum_interactions = 0: [3, 3, 3, 1] [3, 3, 3, 1]",
                "minimum_positives = 1: [3, 3, 3, 1] [1, 1, 1, 1]"
            ]
        );
    }

    /// If this fails, ratings that equal the threshold are no positives where it is no binary fraction.
    #[test]
    fn a_rating_at_the_threshold_is_a_positive() {
        for threshold in [0.7, 0.9, 3.3, 4.0] {
            let at = |rating: f64| Ratings {
                users: vec![0],
                interactions: vec![Interaction::new(0, rating as f32, 0)],
                user_names: names(1),
                item_names: names(1),
                ..Ratings::default()
            };
            assert!(at(threshold).with_positives_from(threshold).is_ok());
            assert!(at(threshold - 0.1).with_positives_from(threshold).is_err());
        }
    }

    /// If this fails, a user is trained on with fewer positives than the scenario asks for.
    #[test]
    fn what_the_core_leaves_out_is_counted_by_the_other_minima() {
        // Item 2 has one rating, so that user 1 is left with one positive of two, and then user 0 alone
        // rates item 0.
        let rows = [(0, 0), (0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (0, 3)];
        let all = || Ratings {
            users: rows.iter().map(|row| row.0).collect(),
            interactions: rows.map(|row| Interaction::new(row.1, 5.0, 0)).into(),
            user_names: names(3),
            item_names: names(4),
            ..Ratings::default()
        };
        let spec = DatasetSpec {
            minimum_positives: Some(2),
            k_core: Some(1),
            ..DatasetSpec::named(DatasetName::Delimited)
        };
        let left = |spec: &DatasetSpec| {
            filtered((all(), false), spec, Streams::new(1), &mut |_, _, _| {}).unwrap()
        };
        assert_eq!(left(&spec).user_names.len(), 3);
        let core = DatasetSpec {
            k_core: Some(2),
            ..spec
        };
        let kept = left(&core);
        assert_eq!(kept.user_names, ["name-0".into(), "name-2".into()]);
        assert_eq!(kept.item_names, ["name-1".into(), "name-3".into()]);
    }

    /// If this fails, the newest ratings of a file without times are those of another order than the
    /// one that its split goes by.
    #[test]
    fn items_that_stand_for_times_do_so_for_the_filters_too() {
        let rows = [(0, 0), (0, 1), (1, 2), (0, 2), (0, 0)];
        let all = Ratings {
            users: rows.iter().map(|row| row.0).collect(),
            interactions: rows.map(|row| Interaction::new(row.1, 5.0, 9)).into(),
            user_names: names(2),
            item_names: names(3),
            ..Ratings::default()
        };
        let spec = DatasetSpec {
            subset: Some(SubsetSpec {
                newest_per_user: Some(2),
                ..SubsetSpec::default()
            }),
            ..DatasetSpec::named(DatasetName::Delimited)
        };
        let kept = filtered((all, true), &spec, Streams::new(1), &mut |_, _, _| {}).unwrap();
        assert_eq!(kept.item_names, ["name-1".into(), "name-2".into()]);
    }

    #[test]
    fn a_filter_that_leaves_nothing_says_how_far_off_it_was() {
        for (spec, message) in [
            (
                DatasetSpec {
                    positive_from: Some(6.0),
                    ..DatasetSpec::named(DatasetName::Delimited)
                },
                "dataset.positive_from is 6, and the highest rating is 5",
            ),
            (
                DatasetSpec {
                    minimum_positives: Some(3),
                    ..DatasetSpec::named(DatasetName::Delimited)
                },
                "dataset.minimum_positives is 3, but no user has more than 2 different positive items",
            ),
        ] {
            let left = filtered(
                (ratings(), false),
                &spec,
                Streams::new(1),
                &mut |_, _, _| {},
            );
            let told = left.unwrap_err().to_string();
            assert!(told.ends_with(message), "{told}");
        }
    }
}
