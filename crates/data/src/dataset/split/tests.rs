#![allow(clippy::unwrap_used)]
use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::dataset::ratings::names;
use crate::dataset::{Against, CandidateScratch, Candidates};
use fedrecsim_core::{Timestamp, UserId};
use fedrecsim_scenario::{
    ByColumnSpec, Cut, EvaluationSpec, GlobalTimeSpec, Ranking, SampledSpec, Targets,
};

/// Splits one user's rows, given as (item, time); the rating is the row's position.
fn one_user(rows: &[(u32, i64)], validation_item: bool) -> Result<Dataset> {
    let interactions = rows
        .iter()
        .enumerate()
        .map(|(position, &(item, time))| Interaction::new(item, position as f32, time))
        .collect();
    let ratings = Ratings {
        users: vec![0; rows.len()],
        interactions,
        user_names: vec!["ann".into()],
        item_names: names(100),
        ..Ratings::default()
    };
    split(
        ratings,
        &SplitSpec::leave_one_out(validation_item),
        Streams::new(1),
    )
}

const USER: UserId = UserId(0);

/// Returns the test and the validation items of the user.
fn held_out(dataset: &Dataset) -> (&[u32], &[u32]) {
    (dataset.test(USER).items, dataset.validation(USER).items)
}

#[test]
fn the_latest_is_tested_and_the_one_before_validates() {
    let dataset = one_user(&[(7, 30), (3, 10), (5, 40), (1, 20)], true).unwrap();
    assert_eq!(held_out(&dataset), (&[5][..], &[7][..]));
    assert_eq!(dataset.train_items(USER), [1, 3]);
    assert_eq!(
        dataset.own_data(USER).ratings.iter().collect::<Vec<_>>(),
        [3.0, 1.0]
    );
    let dataset = one_user(&[(7, 30), (3, 10), (5, 40), (1, 20)], false).unwrap();
    assert_eq!(
        (dataset.validation(USER).items, dataset.train_items(USER)),
        (&[][..], &[1, 3, 7][..])
    );
}

#[test]
fn ties_go_to_the_first_row_in_the_file() {
    // This is the authors' rank(method="first", ascending=False). The other way round would
    // change half of ML-100K's users.
    let dataset = one_user(&[(9, 5), (4, 8), (2, 8), (6, 8)], true).unwrap();
    assert_eq!(held_out(&dataset), (&[4][..], &[2][..]));
    assert_eq!(dataset.train_items(USER), [6, 9]);
}

#[test]
fn a_repeated_held_out_item_is_no_training_positive() {
    let dataset = one_user(
        &[
            (4, 1),
            (2, 2),
            (6, 3),
            (2, 4),
            (4, 5),
            (4, 6),
            (8, 0),
            (8, 0),
        ],
        true,
    )
    .unwrap();
    // 4 is the latest; the next row is 4 again, so 2 validates; their earlier rows are dropped.
    assert_eq!(held_out(&dataset), (&[4][..], &[2][..]));
    assert_eq!(dataset.train_items(USER), [6, 8, 8]);
}

#[test]
fn a_user_with_too_few_ratings_is_named_with_the_remedy() {
    let message = one_user(&[(4, 1), (2, 2)], true).unwrap_err().to_string();
    assert_eq!(
        message,
        "user 0 (\"ann\" in the ratings file) has rated 2 different items, but leave-one-out needs at least 3 (a test item, a validation \
         item and one to train on); users with too few: 1. No user has enough; without validation items \
         (dataset.split.leave-one-out.validation_item = false) 2 would do"
    );
    assert!(one_user(&[(4, 1), (2, 2)], false).is_ok());
    let message = one_user(&[(4, 1), (4, 2), (4, 3)], false)
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("1 different item,") && message.ends_with("cannot be split so"),
        "{message}"
    );
}

/// If this fails, a user is said to have rated nothing, whose rows are no positives.
#[test]
fn a_user_whose_rows_are_no_positives_is_told_from_one_without_rows() {
    let mut ratings = four_users(5);
    for (user, row) in ratings.users.iter().zip(&mut ratings.interactions) {
        row.is_positive = *user != 1;
    }
    let one = split(ratings.clone(), &SplitSpec::LEAVE_ONE_OUT, Streams::new(1)).unwrap_err();
    let one = one.to_string();
    assert!(
        one.starts_with("user 1 (\"u1\" in the ratings file) has no positive among 5 rows (dataset.columns.label")
            && one.contains("dataset.positive_from), but leave-one-out needs at least 3")
            && one.ends_with("users with too few: 1"),
        "{one}"
    );
    for row in &mut ratings.interactions {
        row.is_positive = false;
    }
    let all = split(ratings, &SplitSpec::LEAVE_ONE_OUT, Streams::new(1)).unwrap_err();
    let all = all.to_string();
    assert!(
        all.contains("No row of anybody counts as a positive: look at dataset.columns.label"),
        "{all}"
    );
}

/// If this fails, the remedy of a message leaves nobody, as where somebody has rated one item 400 times.
#[test]
fn the_remedy_for_users_with_too_few_ratings_leaves_the_others() {
    let mut ratings = four_users(5);
    let repeats = (0..400).map(|time| Interaction::new(3, 1.0, time));
    ratings.interactions.extend(repeats);
    ratings.users.resize(ratings.interactions.len(), 4);
    ratings.user_names.push("fan".into());
    let fault = split(ratings.clone(), &SplitSpec::LEAVE_ONE_OUT, Streams::new(1)).unwrap_err();
    let told = fault.to_string();
    assert!(
        told.starts_with("user 4 (\"fan\" in the ratings file)")
            && told.ends_with("users with too few: 1"),
        "{told}"
    );
    let left = ratings.keep_users_with_positives(3).unwrap();
    let dataset = split(left, &SplitSpec::LEAVE_ONE_OUT, Streams::new(1)).unwrap();
    assert_eq!(dataset.users(), 4);
}

/// Returns the rows of four users, who take turns; there are `rows_each` of each.
fn four_users(rows_each: u32) -> Ratings {
    let users: Vec<u32> = (0..4 * rows_each).map(|row| row % 4).collect();
    let row = |row: u32| Interaction::new(row / 4, (row % 5 + 1) as f32, i64::from(row));
    let interactions = (0..4 * rows_each).map(row).collect();
    Ratings {
        users,
        interactions,
        user_names: (0..4).map(|user| format!("u{user}").into()).collect(),
        item_names: names(100),
        ..Ratings::default()
    }
}

fn k_fold(folds: u32, fold: u32) -> SplitSpec {
    SplitSpec::KFold {
        folds,
        fold,
        division: None,
    }
}

/// If this fails, a fold trains on what it tests, or loses a rating.
#[test]
fn a_fold_and_the_other_folds_are_all_ratings() {
    let ratings = four_users(30);
    for fold in 0..5 {
        let dataset = split(ratings.clone(), &k_fold(5, fold), Streams::new(2)).unwrap();
        assert!(!dataset.holds_items_out() && dataset.test(USER).items.is_empty());
        let mut tested = 0;
        for user in (0..4).map(UserId) {
            let test = dataset.test_ratings(user).unwrap();
            let mut rows: Vec<(u32, u32)> = test
                .items
                .iter()
                .copied()
                .zip(test.ratings.iter().map(f32::to_bits))
                .collect();
            tested += rows.len();
            let own = dataset.own_data(user);
            rows.extend(
                own.items
                    .iter()
                    .copied()
                    .zip(own.ratings.iter().map(f32::to_bits)),
            );
            rows.sort_unstable();
            let all = ratings
                .users
                .iter()
                .zip(&ratings.interactions)
                .filter(|(of, _)| **of == user.0);
            let expected: Vec<(u32, u32)> = all
                .map(|(_, row)| (row.item, row.rating.to_bits()))
                .collect();
            assert_eq!(rows, expected, "{user}");
            assert!(own.items.is_sorted() && test.items.is_sorted());
        }
        assert_eq!(tested, 24);
        let scale = dataset.rating_scale().unwrap();
        assert_eq!((scale.minimum, scale.maximum), (1.0, 5.0));
    }
}

/// If this fails, a study over seeds tests some ratings of a division twice and others never.
#[test]
fn consecutive_seeds_hold_out_one_part_of_a_division_after_the_other() {
    let of_division = SplitSpec::KFold {
        folds: 5,
        fold: 2,
        division: Some(3),
    };
    let data = |spec: &SplitSpec, seed| split(four_users(30), spec, Streams::new(seed)).unwrap();
    let items = |spec: &SplitSpec, seed| data(spec, seed).train_items(USER).to_vec();
    for seed in 11..16 {
        assert_eq!(
            items(&of_division, seed),
            items(&k_fold(5, (2 + seed as u32) % 5), 3),
            "seed {seed}"
        );
    }
}

#[test]
fn a_user_without_a_training_rating_in_a_fold_is_named() {
    // With one rating each and two folds, half of the users have no rating to train on.
    let message = split(four_users(1), &k_fold(2, 1), Streams::new(2)).unwrap_err();
    assert!(
        message
            .to_string()
            .contains("has no rating to train on: all of them are in the test part (fold 1 of 2)"),
        "{message}"
    );
}

/// If this fails, an item that a user did not want is tested as if it had been wanted.
/// Returns ratings of two users as (user, item, part), each rating its place in the file.
fn parted(rows: &[(u32, u32, Part)]) -> Ratings {
    let row = |(place, &(_, item, part)): (usize, &(u32, u32, Part))| Interaction {
        part,
        ..Interaction::new(item, place as f32, place as i64)
    };
    Ratings {
        users: rows.iter().map(|row| row.0).collect(),
        interactions: rows.iter().enumerate().map(row).collect(),
        user_names: vec!["ann".into(), "bob".into()],
        item_names: names(100),
        ..Ratings::default()
    }
}

fn by_column(holds_out: HoldsOut, ratings: Ratings) -> Result<Dataset> {
    let spec = SplitSpec::ByColumn(ByColumnSpec { holds_out });
    split(ratings, &spec, Streams::new(1))
}

const PARTED: [(u32, u32, Part); 8] = [
    (0, 5, Part::Test),
    (0, 1, Part::Train),
    (1, 2, Part::Train),
    (0, 3, Part::Validation),
    (0, 4, Part::Test),
    // Held out in vain: both are in an earlier part.
    (0, 1, Part::Validation),
    (0, 3, Part::Test),
    (1, 1, Part::Train),
];

/// If this fails, a run is not on the split that its file prescribes: it trains on what is held out, tests what
/// it has trained on, or counts a user without a test item as a failure.
#[test]
fn a_column_of_parts_is_the_split() {
    let dataset = by_column(HoldsOut::Items, parted(&PARTED)).unwrap();
    assert_eq!(held_out(&dataset), (&[4, 5][..], &[3][..]));
    assert_eq!(dataset.train_items(USER), [1]);
    assert_eq!(dataset.train_items(UserId(1)), [1, 2]);
    assert_eq!(dataset.test(UserId(1)).items, [0; 0]);
    assert_eq!(dataset.tested_users(), [0]);
    assert_eq!(dataset.split_facts().repeated_held_out_rows, 2);
    let without = parted(&[PARTED[0], PARTED[1], PARTED[2]]);
    let without = by_column(HoldsOut::Items, without).unwrap();
    assert!(!without.has_validation_items());
}

/// If this fails, an item that a user has disliked in the test part is trained on, or is a candidate.
#[test]
fn what_a_part_holds_out_unwanted_is_left_out() {
    let mut ratings = parted(&PARTED);
    ratings.interactions[4].is_positive = false;
    let dataset = by_column(HoldsOut::Items, ratings).unwrap();
    assert_eq!(held_out(&dataset), (&[5][..], &[3][..]));
    assert!(dataset.held_out.items(USER).any(|item| item == 4));
    assert_eq!(dataset.train_items(USER), [1]);
}

/// If this fails, ratings of the test part are trained on, or other ones are predicted.
#[test]
fn a_column_of_parts_holds_ratings_out() {
    let rows = PARTED.map(|(user, item, part)| match part {
        Part::Validation => (user, item, Part::Train),
        _ => (user, item, part),
    });
    let dataset = by_column(HoldsOut::Ratings, parted(&rows)).unwrap();
    assert!(!dataset.holds_items_out());
    let trained: usize = [USER, UserId(1)]
        .map(|user| dataset.train_items(user).len())
        .iter()
        .sum();
    assert_eq!(trained, 5);
    let mut held: Vec<u32> = dataset.held_out.items(USER).collect();
    held.sort_unstable();
    assert_eq!(held, [3, 4, 5]);
}

/// If this fails, a split that the file cannot mean is run without a word, or its message does not say what to
/// mend.
#[test]
fn parts_that_cannot_be_used_are_told() {
    use Part::{Test, Train, Validation};
    let fault = |holds_out, rows: &[(u32, u32, Part)]| {
        let error = by_column(holds_out, parted(rows)).unwrap_err();
        assert!(matches!(error, Error::Dataset(_)), "{error:?}");
        error.to_string()
    };
    let items = |rows: &[_]| fault(HoldsOut::Items, rows);
    let counts = "`train` of 2 rows, `validation` of 0 and `test` of 0";
    let none = items(&[(0, 1, Train), (1, 2, Train)]);
    assert!(
        none.contains("no row is in the test part") && none.contains(counts),
        "{none}"
    );
    let none = items(&[(0, 1, Test), (1, 2, Validation)]);
    assert!(none.contains("no row is in the training part"), "{none}");
    let in_vain = items(&[(0, 1, Train), (0, 1, Test), (1, 1, Train)]);
    assert!(
        in_vain.contains("no row of the test part is held out"),
        "{in_vain}"
    );
    let untrained = items(&[(0, 1, Train), (0, 2, Test), (1, 1, Test)]);
    assert!(
        untrained.contains("bob") && untrained.contains("no positive in the training part"),
        "{untrained}"
    );
    let validated = fault(
        HoldsOut::Ratings,
        &[
            (0, 1, Train),
            (0, 2, Test),
            (1, 1, Train),
            (1, 2, Validation),
        ],
    );
    assert!(validated.contains("have no validation part"), "{validated}");
}

#[test]
fn only_positives_are_held_out() {
    let row = |item, time, is_positive| Interaction {
        is_positive,
        ..Interaction::new(item, 1.0, time)
    };
    let mut splitter = Splitter::leave_one_out(10, true);
    splitter.push_user(
        String::new,
        &[
            row(1, 1, true),
            row(2, 2, true),
            row(3, 3, true),
            row(4, 4, false),
        ],
    );
    let dataset = splitter.finish().unwrap();
    assert_eq!(held_out(&dataset), (&[3][..], &[2][..]));
    assert_eq!(
        (dataset.train_items(USER), dataset.popularity()[4]),
        (&[1, 4][..], 0)
    );
}

/// If this fails, a user who repeats an item counts as several who know it.
#[test]
fn a_user_that_repeats_an_item_is_one_rater() {
    let rows = [
        (0, 0, 1),
        (0, 1, 2),
        (0, 0, 3),
        (0, 2, 4),
        (1, 0, 1),
        (1, 1, 2),
        (1, 2, 3),
    ];
    let dataset = split(
        timed(&rows),
        &SplitSpec::leave_one_out(false),
        Streams::new(1),
    )
    .unwrap();
    assert_eq!(dataset.popularity(), [3, 2, 0]);
    assert_eq!(dataset.raters(), [2, 2, 0]);
}

const DAY_NS: i64 = 86_400_000_000_000;

/// Returns ratings of (user, item, day), with a clock.
fn timed(rows: &[(u32, u32, i64)]) -> Ratings {
    let interaction = |&(_, item, day): &(u32, u32, i64)| Interaction {
        instant: Timestamp(day * DAY_NS),
        ..Interaction::new(item, 1.0, day)
    };
    let users = 1 + rows.iter().map(|row| row.0).max().unwrap();
    Ratings {
        users: rows.iter().map(|row| row.0).collect(),
        interactions: rows.iter().map(interaction).collect(),
        user_names: names(users),
        item_names: names(1 + rows.iter().map(|row| row.1).max().unwrap()),
        ..Ratings::default()
    }
}

/// If this fails, the gap before a test item is that of an earlier row of it, or of a rating that is no
/// positive.
#[test]
fn the_gap_before_a_test_item_is_that_of_its_latest_row() {
    let spec = SplitSpec::LeaveOneOut {
        validation_item: false,
        session_gap_days: None,
    };
    let mut ratings = timed(&[(0, 2, 1), (0, 0, 2), (0, 1, 31), (0, 3, 60), (0, 2, 60)]);
    ratings.interactions[3].is_positive = false;
    let dataset = split(ratings, &spec, Streams::new(1)).unwrap();
    assert_eq!(held_out(&dataset).0, [2]);
    let facts = dataset.split_facts();
    assert_eq!(
        (facts.timed_test_items, facts.test_items_within_a_day),
        (1, 0)
    );
}

/// If this fails, what was rated in the same session as the test item says what it is.
#[test]
fn a_session_is_left_out_with_its_held_out_item() {
    let split_with = |gap, validation_item, rows: &[(u32, u32, i64)]| {
        let spec = SplitSpec::LeaveOneOut {
            validation_item,
            session_gap_days: Some(gap),
        };
        split(timed(rows), &spec, Streams::new(1))
    };
    let rows = [
        (0, 0, 1),
        (0, 1, 5),
        (0, 2, 6),
        (0, 3, 20),
        (0, 4, 20),
        (0, 5, 21),
    ];
    let dataset = split_with(1.0, true, &rows).unwrap();
    assert_eq!(held_out(&dataset), (&[5][..], &[2][..]));
    assert_eq!(dataset.train_items(USER), [0]);
    let kept_away: Vec<u32> = dataset.held_out_items(USER).collect();
    assert_eq!(kept_away, [5, 2, 1, 3, 4]);
    let facts = dataset.split_facts();
    assert_eq!(
        (facts.timed_test_items, facts.test_items_within_a_day),
        (1, 0)
    );
    // The gap takes all of the second user, who is left out, and then of both.
    let two = [&rows[..], &[(1, 0, 3), (1, 1, 3), (1, 2, 3)]].concat();
    let dataset = split_with(1.0, false, &two).unwrap();
    assert_eq!(
        (dataset.users(), dataset.split_facts().users_without_history),
        (1, 1)
    );
    let all = split_with(99.0, false, &two).unwrap_err().to_string();
    assert!(
        all.contains("takes the whole history of all 2 users"),
        "{all}"
    );
}

/// If this fails, a drawn item is trained on, or the draw depends on other users.
#[test]
fn a_share_of_every_user_is_drawn() {
    let rows: Vec<_> = (0..3)
        .flat_map(|user| (0..10).map(move |item| (user, item, 0)))
        .collect();
    let spec = HoldoutSpec {
        share: 0.25,
        validation_share: 0.1,
    };
    let split_of =
        |rows: &[_]| split(timed(rows), &SplitSpec::Holdout(spec), Streams::new(3)).unwrap();
    let (all, first) = (split_of(&rows), split_of(&rows[..10]));
    assert_eq!(all.test(USER), first.test(USER));
    for user in (0..3).map(UserId) {
        let parts = [
            all.test(user).items,
            all.validation(user).items,
            all.train_items(user),
        ];
        assert_eq!(parts.map(<[u32]>::len), [3, 1, 6]);
        let mut items = parts.concat();
        items.sort_unstable();
        assert_eq!(items, Vec::from_iter(0..10));
    }
    assert_ne!(all.test(UserId(0)), all.test(UserId(1)));
}

fn global(cut: Cut) -> GlobalTimeSpec {
    GlobalTimeSpec {
        cut,
        validation_share: 0.0,
        window_share: None,
        targets: Targets::All,
        session_gap_days: 1.0,
        new_users: false,
        new_items: false,
    }
}

fn on_day(day: i64) -> Cut {
    Cut::Instant(Timestamp(day * DAY_NS))
}

const TIMED: [(u32, u32, i64); 12] = [
    // Item 3 is first rated after day 10, by everybody; user 2 has no history.
    (0, 3, 12),
    (0, 0, 1),
    (1, 1, 2),
    (1, 2, 9),
    (0, 1, 10),
    (0, 2, 11),
    (1, 0, 30),
    (1, 3, 31),
    (1, 1, 32),
    (2, 0, 40),
    (2, 3, 40),
    (0, 2, 50),
];

/// If this fails, training knows something of the future, or targets are not what users took for
/// the first time after the cut.
#[test]
fn one_instant_divides_the_ratings_of_all_users() {
    let split_by = |spec| split(timed(&TIMED), &SplitSpec::GlobalTime(spec), Streams::new(1));
    let dataset = split_by(global(on_day(10))).unwrap();
    // Numbers go by what comes before the cut: items 0, 1, 2, and no item 3.
    assert_eq!((dataset.users(), dataset.items()), (2, 3));
    assert_eq!(dataset.popularity(), [1, 1, 1]);
    assert_eq!(dataset.train_items(UserId(0)), [0]);
    assert_eq!(dataset.train_items(UserId(1)), [1, 2]);
    let of = |user| {
        (
            dataset.test(UserId(user)).items,
            dataset.test(UserId(user)).unrated,
        )
    };
    assert_eq!((of(0), of(1)), ((&[1, 2][..], 1), (&[0][..], 1)));
    let facts = *dataset.split_facts();
    assert_eq!((facts.test_items, facts.unrated_test_items), (5, 2));
    assert_eq!(
        (facts.timed_test_items, facts.test_items_within_a_day),
        (5, 0)
    );
    assert_eq!(facts.users_without_history, 1);
    let first = split_by(GlobalTimeSpec {
        targets: Targets::First,
        ..global(on_day(11))
    });
    let first = first.unwrap();
    assert_eq!(first.test(UserId(0)).items, [2]);
    assert_eq!(first.split_facts().test_items_within_a_day, 1);
    let session = split_by(GlobalTimeSpec {
        targets: Targets::FirstSession,
        ..global(on_day(10))
    });
    assert_eq!(session.unwrap().test(UserId(0)).items, [1, 2]);
}

/// If this fails, those whom the split is asked to test as well are not, or they train.
#[test]
fn new_users_and_new_items_are_tested_where_asked() {
    let spec = GlobalTimeSpec {
        new_users: true,
        new_items: true,
        ..global(on_day(10))
    };
    let dataset = split(timed(&TIMED), &SplitSpec::GlobalTime(spec), Streams::new(1)).unwrap();
    assert_eq!((dataset.users(), dataset.items()), (3, 4));
    assert_eq!(dataset.test(UserId(2)).items, [0, 3]);
    assert_eq!(dataset.users_with_history(), 2);
    assert_eq!(dataset.split_facts().unrated_test_items, 0);
}

/// If this fails, a validation part lies elsewhere than just before the cut, or what a user rated
/// there counts as new afterwards.
#[test]
fn validation_lies_between_training_and_the_cut() {
    let spec = GlobalTimeSpec {
        validation_share: 0.25,
        window_share: Some(0.3),
        ..global(Cut::Share(0.5))
    };
    let dataset = split(timed(&TIMED), &SplitSpec::GlobalTime(spec), Streams::new(1)).unwrap();
    // By time the items are 0 1 2 | 1 2 3 | 0 3 1 0 | 3 2, at days 1, 2, 9, 10, 11, ...
    assert_eq!(dataset.training_ends(), Some(Timestamp(10 * DAY_NS)));
    let of = |user| {
        let user = UserId(user);
        let (validation, test) = (dataset.validation(user), dataset.test(user));
        (
            validation.items,
            validation.unrated,
            test.items,
            test.unrated,
        )
    };
    assert_eq!(of(0), (&[1, 2][..], 1, &[][..], 0));
    assert_eq!(of(1), (&[][..], 0, &[0][..], 1));
}

/// If this fails, what a user takes after the cut is drawn as a candidate of its test items, or never as one of
/// its validation items.
#[test]
fn validation_items_have_later_test_items_among_their_candidates() {
    let others = (0..8).map(|item| (0, item, i64::from(item)));
    let own = [(1, 0, 9), (1, 1, 10), (1, 2, 21), (1, 3, 22)];
    let rows: Vec<_> = others.chain(own).collect();
    let spec = SplitSpec::GlobalTime(GlobalTimeSpec {
        validation_share: 0.1,
        ..global(on_day(20))
    });
    let dataset = split(timed(&rows), &spec, Streams::new(1)).unwrap();
    let (test, validation) = (dataset.test(UserId(1)), dataset.validation(UserId(1)));
    assert_eq!((test.items, validation.items), (&[2, 3][..], &[1][..]));
    let sampled = SampledSpec {
        candidates: 4,
        shared_candidates: true,
    };
    let spec = EvaluationSpec {
        ranking: Ranking::Sampled(sampled),
        ..EvaluationSpec::default()
    };
    let mut drawn = BTreeSet::new();
    for seed in 0..20 {
        let candidates = Candidates::draw(&dataset, &spec, Streams::new(seed)).unwrap();
        let mut scratch = CandidateScratch::default();
        let mut list = |against| candidates.list(against, &dataset, 0, &mut scratch).to_vec();
        assert_eq!(list(Against::TestCandidates), [4, 5, 6, 7]);
        let of_validation = list(Against::ValidationCandidates);
        assert_eq!(of_validation.len(), 4);
        drawn.extend(of_validation);
    }
    assert_eq!(Vec::from_iter(drawn), [2, 3, 4, 5, 6, 7]);
}

/// If this fails, a user has other numbers at other cuts, and intervals over the tests of several
/// cuts take one person for several.
#[test]
fn a_user_has_the_same_number_at_every_cut() {
    // User 0 stands first in the file, and comes last.
    let rows = [
        (0, 0, 4),
        (1, 1, 1),
        (2, 2, 2),
        (1, 0, 5),
        (2, 0, 5),
        (0, 1, 8),
        (1, 2, 9),
        (2, 1, 9),
    ];
    let names = |cut: i64| {
        let spec = SplitSpec::GlobalTime(global(on_day(cut)));
        let dataset = split(timed(&rows), &spec, Streams::new(1)).unwrap();
        dataset.user_names.concat()
    };
    assert_eq!(names(4), "name-1name-2");
    assert_eq!(names(8), "name-1name-2name-0");
}

/// If this fails, a planted rating after the cut changes what a method can see.
#[test]
fn nothing_after_the_cut_reaches_training() {
    let visible = |rows: &[(u32, u32, i64)]| {
        let spec = SplitSpec::GlobalTime(global(on_day(10)));
        let dataset = split(timed(rows), &spec, Streams::new(1)).unwrap();
        let own: Vec<_> = (0..dataset.users() as u32)
            .map(|user| {
                let own = dataset.own_data(UserId(user));
                let ranks: Vec<u32> = own.recency_ranks.iter().collect();
                (own.items.to_vec(), ranks, own.instants.to_vec())
            })
            .collect();
        (
            dataset.items(),
            dataset.popularity(),
            dataset.mean_training_rating(),
            own,
        )
    };
    let mut planted = TIMED.to_vec();
    planted.insert(0, (0, 4, 10));
    planted.insert(0, (1, 5, 60));
    planted.push((2, 1, 11));
    assert_eq!(visible(&TIMED), visible(&planted));
}

#[test]
fn a_cut_that_leaves_nobody_says_so() {
    let fault = |spec| {
        let found = split(timed(&TIMED), &SplitSpec::GlobalTime(spec), Streams::new(1));
        found.unwrap_err().to_string()
    };
    let early = fault(global(on_day(1)));
    assert!(early.contains("no rating is left to train on"), "{early}");
    let late = fault(global(on_day(51)));
    assert!(late.contains("no rating is left to be tested"), "{late}");
    assert!(
        late.contains("reach from 1970-01-02 00:00:00 to 1970-02-20"),
        "{late}"
    );
    let nobody = fault(global(on_day(41)));
    assert!(
        nobody.contains("nobody can be tested: of the 3 users"),
        "{nobody}"
    );
    // Both users have, before and behind this cut, every item that is before it.
    let all = split(
        timed(&TIMED),
        &SplitSpec::GlobalTime(global(on_day(10))),
        Streams::new(1),
    );
    for (ranking, reason) in [
        (
            Ranking::FullCatalogue,
            "has rated every item of those that were rated before the cut",
        ),
        (
            EvaluationSpec::default().ranking,
            "only 0 unrated items of those that were rated before the cut",
        ),
    ] {
        let spec = EvaluationSpec {
            ranking,
            ..EvaluationSpec::default()
        };
        let told = Candidates::draw(all.as_ref().unwrap(), &spec, Streams::new(1));
        let told = told.unwrap_err().to_string();
        assert!(
            told.contains(reason) && told.contains("; a later cut has more"),
            "{told}"
        );
    }
    let mut half = timed(&TIMED);
    half.interactions[3].instant = Timestamp::UNKNOWN;
    let spec = SplitSpec::GlobalTime(global(on_day(10)));
    let message = split(half, &spec, Streams::new(1)).unwrap_err().to_string();
    assert!(
        message.contains("1 of 12 ratings have no timestamp"),
        "{message}"
    );
    assert!(message.contains("with_timestamps = true"), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_split_partitions_the_ratings(
        rows in prop::collection::vec((0u32..6, 0u32..30, 0i64..9), 1..120),
        validation_item: bool,
    ) {
        // Repeated pairs are left out, and users who cannot be split.
        let mut seen = std::collections::BTreeSet::new();
        let rows: Vec<_> = rows.into_iter().filter(|row| seen.insert((row.0, row.1))).collect();
        let enough = |user: u32| rows.iter().filter(|row| row.0 == user).count() >= 3;
        let rows: Vec<_> = rows.iter().copied().filter(|row| enough(row.0)).collect();
        let users: Vec<u32> = rows.iter().map(|row| row.0).collect();
        prop_assume!(!users.is_empty());
        let interactions = rows.iter().map(|row| Interaction::new(row.1, 1.0, row.2)).collect();
        let user_names = (0..6).map(|user| user.to_string().into()).collect();
        let ratings = Ratings { users, interactions, user_names, item_names: names(30), ..Ratings::default() }.keep_active_users(3).unwrap();
        let dataset = split(ratings.clone(), &SplitSpec::leave_one_out(validation_item), Streams::new(1)).unwrap();
        prop_assert_eq!(dataset.has_validation_items(), validation_item);
        for user in (0..dataset.users()).map(UserId::from) {
            let own: Vec<&Interaction> = ratings.users.iter().zip(&ratings.interactions)
                .filter(|row| *row.0 == user.0).map(|row| row.1).collect();
            let mut before: Vec<u32> = own.iter().map(|row| row.item).collect();
            let mut after: Vec<u32> = dataset.touched_items(user).collect();
            before.sort_unstable();
            after.sort_unstable();
            prop_assert_eq!(before, after);
            prop_assert!(dataset.train_items(user).is_sorted());
            let time = |item: u32| own.iter().find(|row| row.item == item).unwrap().time;
            let (test, train) = (dataset.test(user).items[0], dataset.train_items(user));
            prop_assert!(train.iter().all(|&item| time(item) <= time(test)));
            for &validation in dataset.validation(user).items {
                prop_assert!(time(validation) <= time(test));
                prop_assert!(train.iter().all(|&item| time(item) <= time(validation)));
            }
        }
    }
}
