//! Splits ratings at one instant for all users.
//!
//! Training sees what was rated before the instant and nothing else: users and items are numbered by
//! their first rating there, and an item that nobody had rated is not in the catalogue. So no
//! count, weight, normaliser or negative can know of the future.
//!
//! With a validation part, training ends where that part begins, and the test part is measured with
//! the same training.

use std::collections::BTreeSet;

use super::Dataset;
use super::held_out::{HeldOut, HeldOutLists, ItemLists};
use super::ratings::{Interaction, Numbering, Ratings};
use super::split_facts::SplitFacts;
use super::totals::Totals;
use super::user_rows::UserRows;
use fedrecsim_core::{Error, PortableDraws, Result, Streams, Timestamp};
use fedrecsim_scenario::{Cut, GlobalTimeSpec, Targets};

/// The instants at which ratings are divided.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Instants {
    /// What is before it is trained on.
    training_ends: Timestamp,
    /// The test part begins here.
    cut: Timestamp,
    /// The test part ends before here; `None` at the end of the ratings.
    window_ends: Option<Timestamp>,
}

/// Splits all ratings of a file.
///
/// # Errors
/// [`Error::Dataset`] for ratings without timestamps, a cut outside of them, and a window in which
/// nobody can be tested.
pub(super) fn split(ratings: Ratings, spec: &GlobalTimeSpec, streams: Streams) -> Result<Dataset> {
    ratings.check_clock("`dataset.split.global-time`")?;
    let ratings = ratings.in_order_of_time();
    let instants = Instants::of(&ratings, spec)?;
    let numbers = Numbers::of(&ratings, spec, instants);
    let mut of_users: Vec<Vec<Interaction>> = vec![Vec::new(); numbers.users.count() as usize];
    for (user, row) in ratings.users.iter().zip(&ratings.interactions) {
        if let Some(number) = numbers.users.known(*user) {
            // Items outside of the catalogue get numbers behind it.
            let outside = numbers.items.count() + row.item;
            let item = numbers.items.known(row.item).unwrap_or(outside);
            of_users[number as usize].push(Interaction { item, ..*row });
        }
    }
    let mut parts = Parts::new(spec, instants, numbers.items.count());
    for (user, rows) in (0..).zip(&mut of_users) {
        rows.sort_by_key(|row| row.instant);
        parts.facts.add_rows(rows);
        let trained = rows.partition_point(|row| row.instant < instants.training_ends);
        // Rows at the same instant are in a random order, since that of a file may say something.
        // What is trained on keeps its own.
        let later = &mut rows[trained..];
        let mut stream = streams.named("dataset/same-instant", user, 0);
        stream.shuffle_portably(later);
        later.sort_by_key(|row| row.instant);
        parts.push_user(rows);
    }
    parts.facts.users_without_history = numbers.without_history;
    if parts.facts.test_items == 0 {
        let (cut, history) = (instants.cut, numbers.with_history);
        return Err(Error::Dataset(format!(
            "nobody can be tested: of the {history} users who had rated something before {cut}, none rated \
             another item in the window behind it (dataset.split.global-time)"
        )));
    }
    let users = of_users.len() as u32;
    let names = [
        numbers.users.names(ratings.user_names),
        numbers.items.names(ratings.item_names),
    ];
    Ok(parts.finish(numbers.with_history, names, users))
}

impl Ratings {
    /// Checks that every rating has a timestamp, which `what` goes by.
    ///
    /// # Errors
    /// [`Error::Dataset`] with the number of those that have none.
    pub(super) fn check_clock(&self, what: &str) -> Result<()> {
        let (all, without) = (self.interactions.len(), self.without_instant());
        let remedy = match without {
            0 => return Ok(()),
            _ if self.has_timed_user() => {
                "keep the users whose ratings all have one: dataset.subset.with_timestamps = true"
            }
            _ => {
                "name the column that has them (dataset.columns.timestamp), or split by order alone \
                 (dataset.split = \"leave-one-out\")"
            }
        };
        Err(Error::Dataset(format!(
            "{what} goes by a clock, but {without} of {all} ratings have no timestamp: {remedy}"
        )))
    }
}

impl Instants {
    fn of(ratings: &Ratings, spec: &GlobalTimeSpec) -> Result<Self> {
        let mut all: Vec<Timestamp> = ratings.interactions.iter().map(|row| row.instant).collect();
        all.sort_unstable();
        let last = all.len() - 1;
        // The place of a share among the ratings, as a quantile has it.
        let at = |share: f64| all[((share * last as f64).ceil() as usize).min(last)];
        let (cut, share) = match spec.cut {
            Cut::Share(share) => (at(share), share),
            Cut::Instant(cut) => {
                let before = all.partition_point(|instant| *instant < cut);
                (cut, before as f64 / last.max(1) as f64)
            }
        };
        let training_ends = match spec.validation_share > 0.0 {
            true => at((share - spec.validation_share).max(0.0)),
            false => cut,
        };
        // Behind the last rating nothing is cut off.
        let ends = spec.window_share.map(|window| share + window);
        let window_ends = ends.filter(|end| *end < 1.0 - 1e-9).map(at);
        let (first, latest) = (all[0], all[last]);
        let fault = if training_ends <= first {
            "no rating is left to train on"
        } else if cut > latest {
            "no rating is left to be tested"
        } else if training_ends == cut && spec.validation_share > 0.0 {
            "no rating is left for validation: those before the cut have its instant or none"
        } else {
            return Ok(Self {
                training_ends,
                cut,
                window_ends,
            });
        };
        Err(Error::Dataset(format!(
            "{fault}: dataset.split.global-time.cut is at {cut}, training ends at {training_ends}, and the \
             ratings reach from {first} to {latest}"
        )))
    }
}

/// New numbers of users and items, in the order of time. Who was there before an earlier cut has the
/// same number after it, so that users can be followed from cut to cut.
struct Numbers {
    users: Numbering,
    items: Numbering,
    /// How many users have something to train on; they come first.
    with_history: u32,
    /// How many users have ratings to be tested, and nothing to train on.
    without_history: u64,
}

impl Numbers {
    fn of(ratings: &Ratings, spec: &GlobalTimeSpec, instants: Instants) -> Self {
        let mut users = Numbering::of(ratings.user_names.len());
        let mut items = Numbering::of(ratings.items() as usize);
        let rows = || ratings.users.iter().zip(&ratings.interactions);
        let before = || rows().filter(|(_, row)| row.instant < instants.training_ends);
        for (user, row) in before() {
            // What a user did not want is known of as well.
            items.number(row.item);
            if row.is_positive {
                users.number(*user);
            }
        }
        let with_history = users.count();
        let is_tested = |row: &Interaction| {
            row.is_positive
                && row.instant >= instants.cut
                && instants.window_ends.is_none_or(|end| row.instant < end)
        };
        let mut new = Numbering::of(ratings.user_names.len());
        for (user, row) in rows().filter(|(_, row)| is_tested(row)) {
            if users.known(*user).is_none() {
                new.number(*user);
            }
            if spec.new_items {
                items.number(row.item);
            }
        }
        if spec.new_users {
            for user in ratings
                .users
                .iter()
                .filter(|user| new.known(**user).is_some())
            {
                users.number(*user);
            }
        }
        Self {
            users,
            items,
            with_history,
            without_history: new.count().into(),
        }
    }
}

/// The parts of the users that have been split.
struct Parts {
    spec: GlobalTimeSpec,
    instants: Instants,
    /// The number of items in the catalogue.
    items: u32,
    train: UserRows,
    test: ItemLists,
    validation: Option<ItemLists>,
    left_out: ItemLists,
    facts: SplitFacts,
}

impl Parts {
    fn new(spec: &GlobalTimeSpec, instants: Instants, items: u32) -> Self {
        Self {
            spec: *spec,
            instants,
            items,
            train: UserRows::by_instants(),
            test: ItemLists::new(),
            validation: (spec.validation_share > 0.0).then(ItemLists::new),
            left_out: ItemLists::new(),
            facts: SplitFacts::default(),
        }
    }

    /// Splits the ratings of the next user, which are in the order of time.
    fn push_user(&mut self, rows: &[Interaction]) {
        let Instants {
            training_ends,
            cut,
            window_ends,
        } = self.instants;
        let place = |instant| rows.partition_point(|row| row.instant < instant);
        let (trained, before) = (place(training_ends), place(cut));
        let end = window_ends.map_or(rows.len(), place);
        let mut train = rows[..trained].to_vec();
        let targets = |range: std::ops::Range<usize>| self.targets(&rows[..range.end], range.start);
        let validation = targets(trained..before);
        let test = targets(before..end);
        // Items between the end of training and the cut are known to be rated when a user is tested.
        let between = rows[trained..before].iter().map(|row| row.item);
        let left_out: BTreeSet<u32> = between
            .filter(|item| *item < self.items && !validation.contains(item))
            .collect();
        self.facts.add_targets(&rows[before..end], &test, &train);
        let [validation, test] = [validation, test].map(|mut items| {
            let all = items.len();
            items.retain(|item| *item < self.items);
            let unrated = (all - items.len()) as u32;
            (items, unrated)
        });
        self.facts.unrated_test_items += u64::from(test.1);
        self.test.push_user(test.0, test.1);
        if let Some(lists) = &mut self.validation {
            lists.push_user(validation.0, validation.1);
        }
        self.left_out.push_user(left_out, 0);
        self.train.push_user(&mut train);
    }

    /// Returns the items that are targets among the rows from `first` on: those that the user had
    /// not rated before.
    fn targets(&self, rows: &[Interaction], first: usize) -> Vec<u32> {
        let (before, window) = rows.split_at(first);
        let mut seen: BTreeSet<u32> = before.iter().map(|row| row.item).collect();
        let mut items: Vec<u32> = Vec::new();
        let mut previous: Option<Timestamp> = None;
        for row in window {
            let last = previous.replace(row.instant).unwrap_or(row.instant);
            let is_paused = row.instant.days_since(last) > self.spec.session_gap_days;
            let is_over = match self.spec.targets {
                Targets::First => !items.is_empty(),
                Targets::FirstSession => is_paused && !items.is_empty(),
                Targets::All => false,
            };
            if is_over {
                break;
            }
            if row.is_positive && seen.insert(row.item) {
                items.push(row.item);
            }
        }
        items
    }

    fn finish(
        self,
        with_history: u32,
        [user_names, item_names]: [Vec<Box<str>>; 2],
        users: u32,
    ) -> Dataset {
        let held_out = HeldOut::Items(Box::new(HeldOutLists {
            test: self.test,
            validation: self.validation,
            left_out: Some(self.left_out),
        }));
        let totals = Totals {
            with_history,
            ..Totals::of(self.items, (&self.train, &held_out), users, self.facts)
        };
        let [tested, validated] = held_out.users_with_some(users);
        Dataset {
            items: self.items,
            train: self.train,
            held_out,
            known: None,
            user_names,
            item_names,
            first: 0,
            totals,
            training_ends: Some(self.instants.training_ends),
            tested,
            absent: Vec::new(),
            validated,
            told: Vec::new(),
            warnings: Vec::new(),
        }
    }
}
