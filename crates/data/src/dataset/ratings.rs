//! Holds ratings as they are read from a file, before they are split.

use fedrecsim_core::{Error, Result, Timestamp};

/// What a rating is for, where a column says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Models are trained on the rating.
    #[default]
    Train,
    /// The rating is held out to choose by.
    Validation,
    /// The rating is held out for the result.
    Test,
}

impl Part {
    /// The words that a column may have, in small letters.
    const WORDS: [(&str, Self); 9] = [
        ("train", Self::Train),
        ("training", Self::Train),
        ("validation", Self::Validation),
        ("validate", Self::Validation),
        ("valid", Self::Validation),
        ("val", Self::Validation),
        ("dev", Self::Validation),
        ("test", Self::Test),
        ("testing", Self::Test),
    ];

    /// Returns the part that a field names.
    pub(super) fn named(field: &[u8]) -> Option<Self> {
        let mut words = Self::WORDS.iter();
        let found = words.find(|(word, _)| field.eq_ignore_ascii_case(word.as_bytes()));
        found.map(|(_, part)| *part)
    }
}

/// One rating of one user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interaction {
    /// The item, numbered from zero.
    pub item: u32,
    /// The rating of the item; 1 if the source has none.
    pub rating: f32,
    /// The key that orders the ratings of one user in time. It is only compared.
    pub time: i64,
    /// The instant of the rating, where a clock is known.
    pub instant: Timestamp,
    /// How much the rating counts, for methods that weigh ratings; 1 if the source does not say.
    pub weight: f32,
    /// Whether the user liked the item; a file with labels also has items that were shown and not
    /// wanted.
    pub is_positive: bool,
    /// What it is for, if a column says so.
    pub part: Part,
}

impl Interaction {
    /// Returns a positive of weight 1.
    pub const fn new(item: u32, rating: f32, time: i64) -> Self {
        Self {
            item,
            rating,
            time,
            instant: Timestamp::UNKNOWN,
            weight: 1.0,
            is_positive: true,
            part: Part::Train,
        }
    }
}

/// All ratings of a file, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ratings {
    /// The user of every rating, numbered from zero in the order of first appearance.
    pub users: Vec<u32>,
    /// The ratings, one for each of [`Self::users`].
    pub interactions: Vec<Interaction>,
    /// The name of every user in the file.
    pub user_names: Vec<Box<str>>,
    /// The name of every item in the file.
    pub item_names: Vec<Box<str>>,
    /// What was told from the file, and not said by its layout.
    pub told: Vec<String>,
    /// What its reader should look at.
    pub warnings: Vec<String>,
}

impl Ratings {
    /// Returns the number of different items.
    pub fn items(&self) -> u32 {
        self.item_names.len() as u32
    }

    /// Leaves out every user with fewer than `minimum` rows (repeated pairs counted), and numbers
    /// the remaining users and items anew in the order of first appearance.
    ///
    /// # Errors
    /// [`Error::Dataset`] if nobody is left.
    pub(super) fn keep_active_users(self, minimum: u32) -> Result<Self> {
        let mut rows_of_user = vec![0usize; self.user_names.len()];
        for &user in &self.users {
            rows_of_user[user as usize] += 1;
        }
        let most = rows_of_user.iter().copied().max().unwrap_or(0);
        if most < minimum.max(1) as usize {
            return Err(nobody_left(minimum, most));
        }
        if rows_of_user.iter().all(|&rows| rows >= minimum as usize) {
            return Ok(self);
        }
        Ok(self.only(|user, _| rows_of_user[user as usize] >= minimum as usize))
    }

    /// Leaves out users and items with fewer than `least` rows, again and again until every one that
    /// is left has as many.
    ///
    /// # Errors
    /// [`Error::Dataset`] if nothing is left.
    pub(super) fn core(mut self, least: u32) -> Result<Self> {
        loop {
            let mut of_users = vec![0u32; self.user_names.len()];
            let mut of_items = vec![0u32; self.items() as usize];
            for (user, row) in self.users.iter().zip(&self.interactions) {
                of_users[*user as usize] += 1;
                of_items[row.item as usize] += 1;
            }
            if of_users.is_empty() {
                return Err(Error::Dataset(format!(
                    "nothing is left: dataset.k_core is {least}, and no part is as dense of the ratings that the filters before it leave"
                )));
            }
            if of_users.iter().chain(&of_items).all(|rows| *rows >= least) {
                return Ok(self);
            }
            let has_enough = |user: u32, item: u32| {
                of_users[user as usize] >= least && of_items[item as usize] >= least
            };
            self = self.only(has_enough);
        }
    }

    /// Leaves out every user with fewer than `minimum` different positive items, and numbers the
    /// remaining users and items anew.
    ///
    /// # Errors
    /// [`Error::Dataset`] if nobody is left.
    pub(super) fn keep_users_with_positives(self, minimum: u32) -> Result<Self> {
        let counts = self.different_positives();
        let most = counts.iter().copied().max().unwrap_or(0);
        if most < minimum {
            return Err(Error::Dataset(format!(
                "no user is left: dataset.minimum_positives is {minimum}, but no user has more than {most} \
                 different positive items"
            )));
        }
        if counts.iter().all(|count| *count >= minimum) {
            return Ok(self);
        }
        Ok(self.only(|user, _| counts[user as usize] >= minimum))
    }

    /// Returns the number of different positive items of every user.
    pub(super) fn different_positives(&self) -> Vec<u32> {
        let (starts, rows) = self.by_user(self.user_names.len());
        let of_user = |bounds: &[usize]| {
            let rows = rows[bounds[0]..bounds[1]].iter();
            let mut items: Vec<u32> = rows
                .filter(|row| row.is_positive)
                .map(|row| row.item)
                .collect();
            items.sort_unstable();
            items.dedup();
            items.len() as u32
        };
        starts.windows(2).map(of_user).collect()
    }

    /// Makes a positive only of a row whose rating is `least` or more.
    ///
    /// # Errors
    /// [`Error::Dataset`] if no row is one.
    pub(super) fn with_positives_from(mut self, least: f64) -> Result<Self> {
        for row in &mut self.interactions {
            // A rating is held in single precision, and so is what it is compared with.
            row.is_positive &= row.rating >= least as f32;
        }
        if self.interactions.iter().any(|row| row.is_positive) {
            return Ok(self);
        }
        let most = self.interactions.iter().map(|row| row.rating);
        let most = most.fold(f32::NEG_INFINITY, f32::max);
        Err(Error::Dataset(format!(
            "no positive is left: dataset.positive_from is {least}, and the highest rating is {most}"
        )))
    }

    /// Returns how many ratings have no timestamp.
    pub(super) fn without_instant(&self) -> usize {
        let rows = self.interactions.iter();
        rows.filter(|row| row.instant.known().is_none()).count()
    }

    /// Returns whether the ratings of some user all have a timestamp.
    pub(super) fn has_timed_user(&self) -> bool {
        let mut has_all = vec![true; self.user_names.len()];
        for (user, row) in self.users.iter().zip(&self.interactions) {
            has_all[*user as usize] &= row.instant.known().is_some();
        }
        has_all.contains(&true)
    }

    /// Returns the ratings by time. Those of the same instant keep their order.
    pub(super) fn in_order_of_time(mut self) -> Self {
        let mut order: Vec<u32> = (0..self.users.len() as u32).collect();
        order.sort_by_key(|row| self.interactions[*row as usize].instant);
        self.users = order.iter().map(|row| self.users[*row as usize]).collect();
        self.interactions = order
            .iter()
            .map(|row| self.interactions[*row as usize])
            .collect();
        self
    }

    /// Leaves only the rows whose user and item `is_kept` accepts, and numbers the remaining users
    /// and items anew in the order of first appearance.
    pub(super) fn only(self, is_kept: impl Fn(u32, u32) -> bool) -> Self {
        self.rows_only(|_, user, item| is_kept(user, item))
    }

    /// Leaves only the rows that `is_kept` accepts by their number, their user and their item, and
    /// numbers the remaining users and items anew in the order of first appearance.
    pub(super) fn rows_only(mut self, is_kept: impl Fn(usize, u32, u32) -> bool) -> Self {
        let mut users = Numbering::of(self.user_names.len());
        let mut items = Numbering::of(self.items() as usize);
        let mut kept = Self {
            told: std::mem::take(&mut self.told),
            warnings: std::mem::take(&mut self.warnings),
            ..Self::default()
        };
        for (row, (&user, interaction)) in self.users.iter().zip(&self.interactions).enumerate() {
            if !is_kept(row, user, interaction.item) {
                continue;
            }
            kept.users.push(users.number(user));
            kept.interactions.push(Interaction {
                item: items.number(interaction.item),
                ..*interaction
            });
        }
        kept.user_names = users.names(self.user_names);
        kept.item_names = items.names(self.item_names);
        kept
    }

    /// Returns where the interactions of each of this many users begin (one more number than there
    /// are users), and the interactions grouped by user, in file order within each.
    pub(super) fn by_user(&self, users: usize) -> (Vec<usize>, Vec<Interaction>) {
        let mut starts = vec![0; users + 1];
        for &user in &self.users {
            starts[user as usize + 1] += 1;
        }
        for user in 1..starts.len() {
            starts[user] += starts[user - 1];
        }
        let mut next = starts.clone();
        let mut grouped = vec![Interaction::new(0, 0.0, 0); self.interactions.len()];
        for (&user, &interaction) in self.users.iter().zip(&self.interactions) {
            let place = &mut next[user as usize];
            grouped[*place] = interaction;
            *place += 1;
        }
        (starts, grouped)
    }

    /// Replaces the time of every rating by its item's number, which is the item's place in the
    /// order of first appearance.
    ///
    /// This is what FedRAP's code does with LastFM-2K, which has no time: a user's held-out items
    /// are those that appear last in the whole file, so most of them have no other listener
    /// (algorithms, section 11).
    pub(crate) fn order_by_item_number(&mut self) {
        for interaction in &mut self.interactions {
            interaction.time = i64::from(interaction.item);
        }
    }
}

/// Returns the error for a filter that leaves nobody.
pub(super) fn nobody_left(minimum: u32, most: usize) -> Error {
    Error::Dataset(format!(
        "no user is left: dataset.minimum_interactions is {minimum}, but the most active user has {most} ratings that the filters before it leave"
    ))
}

/// Gives new numbers for old ones, in the order of the requests.
pub(super) struct Numbering {
    numbers: Vec<u32>,
    next: u32,
}

impl Numbering {
    /// The number of what has none.
    pub(crate) const NONE: u32 = u32::MAX;

    /// Starts without any new number for this many old ones.
    pub(crate) fn of(count: usize) -> Self {
        Self {
            numbers: vec![Self::NONE; count],
            next: 0,
        }
    }

    /// Returns how many have a new number.
    pub(crate) fn count(&self) -> u32 {
        self.next
    }

    /// Returns the new number of `old`, if it has one.
    pub(crate) fn known(&self, old: u32) -> Option<u32> {
        let number = self.numbers[old as usize];
        (number != Self::NONE).then_some(number)
    }

    /// Returns the names of what has a new number, by that number; `names` has them by the old one.
    pub(crate) fn names(&self, names: Vec<Box<str>>) -> Vec<Box<str>> {
        let mut named = vec![Box::default(); self.next as usize];
        for (number, name) in self.numbers.iter().zip(names) {
            if *number != Self::NONE {
                named[*number as usize] = name;
            }
        }
        named
    }

    /// Returns the new number of `old`, which gets one if it has none.
    pub(crate) fn number(&mut self, old: u32) -> u32 {
        let number = &mut self.numbers[old as usize];
        if *number == Self::NONE {
            *number = self.next;
            self.next += 1;
        }
        *number
    }
}

/// Returns names for this many users or items.
#[cfg(test)]
pub(super) fn names(count: u32) -> Vec<Box<str>> {
    let name = |number| format!("name-{number}").into();
    (0..count).map(name).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn ratings(rows: &[(u32, u32)]) -> Ratings {
        let users = rows.iter().map(|row| row.0).collect::<Vec<_>>();
        let interactions = rows
            .iter()
            .map(|row| Interaction::new(row.1, 1.0, 0))
            .collect();
        let user_count = users.iter().max().unwrap() + 1;
        let items = rows.iter().map(|row| row.1).max().unwrap() + 1;
        Ratings {
            users,
            interactions,
            user_names: names(user_count),
            item_names: names(items),
            ..Ratings::default()
        }
    }

    #[test]
    fn the_filter_numbers_anew_by_first_appearance_in_what_is_left() {
        // The numbers of the unfiltered file would leave gaps, as items that no remaining user has
        // rated.
        let kept = ratings(&[(0, 0), (1, 1), (2, 2), (1, 3), (2, 1)])
            .keep_active_users(2)
            .unwrap();
        assert_eq!(kept.users, [0, 1, 0, 1]);
        assert_eq!(
            kept.interactions.iter().map(|i| i.item).collect::<Vec<_>>(),
            [0, 1, 2, 0]
        );
        assert_eq!(kept.items(), 3);
        assert_eq!(kept.user_names, ["name-1".into(), "name-2".into()]);
        let items = ["name-1".into(), "name-2".into(), "name-3".into()];
        assert_eq!(kept.item_names, items);
    }

    #[test]
    fn a_filter_that_leaves_nobody_says_how_far_off_it_was() {
        let error = ratings(&[(0, 0), (1, 1), (1, 3)])
            .keep_active_users(50)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "no user is left: dataset.minimum_interactions is 50, but the most active user has 2 ratings that the filters before it leave"
        );
    }

    /// If this fails, a 5-core is not the one of the papers: leaving out item 9 takes user 2 below
    /// two ratings, and leaving out that user takes item 5 below two.
    #[test]
    fn a_core_is_left_when_nothing_more_falls() {
        let rows = [(0, 1), (0, 2), (1, 1), (1, 2), (2, 9), (2, 5), (1, 5)];
        let core = ratings(&rows).core(2).unwrap();
        assert_eq!(core.user_names, ["name-0".into(), "name-1".into()]);
        assert_eq!((core.items(), core.interactions.len()), (2, 4));
        let nothing = ratings(&rows).core(3).unwrap_err().to_string();
        assert!(nothing.contains("dataset.k_core is 3"), "{nothing}");
    }

    #[test]
    fn the_filter_counts_rows_not_different_items() {
        let kept = ratings(&[(0, 0), (0, 0), (1, 1)])
            .keep_active_users(2)
            .unwrap();
        assert_eq!(kept.users, [0, 0]);
    }
}
