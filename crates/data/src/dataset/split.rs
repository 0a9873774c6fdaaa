//! Splits ratings into a part to train on and a part to measure accuracy on.
//!
//! **Leave-one-out**: a user's latest positive is the test item, the one before it (if asked for)
//! the validation item, the rest is for training. Ties in time go to the row that stands first in
//! the file, as with `rank(method="first", ascending=False)` in the authors' code. Among equal
//! latest timestamps the first row is the test item, the second the validation item. (In ML-100K
//! 415 of 943 users have such a tie.)
//!
//! A (user, item) pair may repeat, as in a listening history. Two rules then keep a held-out item
//! out of training, where the authors' code would let it in. The validation item is the latest
//! rating of an item *other than* the test item, and further rows with a held-out item are left out
//! of training.
//!
//! **Holdout**: a share of every user's positives is drawn and held out, by the same two rules.
//!
//! **Global time**: one instant divides the ratings of all users. See
//! [`global_time`](super::global_time).
//!
//! **By column**: the file says of every row to which part it belongs. See [`parts`].
//!
//! **K-fold**: all rows of all users are divided at random into equal parts; one part is the test part, the others are for training. See [`folds`](super::folds).

mod parts;
mod too_few;

use std::ops::Range;

use super::Dataset;
use super::folds::FoldDraw;
use super::held_out::{HeldOut, HeldOutLists, ItemLists};
use super::ratings::{Interaction, Part, Ratings};
use super::split_facts::SplitFacts;
use super::totals::Totals;
use super::user_rows::UserRows;
use fedrecsim_core::{Error, PortableDraws, Result, Streams, UserId, Who};
use fedrecsim_scenario::{HoldoutSpec, HoldsOut, SplitSpec};
use too_few::TooFew;

/// Splits all ratings of a file as `spec` says. Random draws come from `streams`.
///
/// # Errors
/// The same as those of [`Splitter::new`] and [`Splitter::finish`], and [`Error::Dataset`] for a
/// split by time of ratings without timestamps, or one that leaves nobody.
pub fn split(ratings: Ratings, spec: &SplitSpec, streams: Streams) -> Result<Dataset> {
    if let SplitSpec::GlobalTime(spec) = spec {
        return super::global_time::split(ratings, spec, streams);
    }
    let users = ratings.user_names.len() as u32;
    let rows = ratings.interactions.len() as u64;
    split_part(ratings, 0..users, (rows, 0), spec, streams)
}

/// Splits the ratings of the users `own` of a file. `rows` counts the ratings of all its users, and
/// those of the users before these.
pub(super) fn split_part(
    ratings: Ratings,
    own: Range<u32>,
    rows: (u64, u64),
    spec: &SplitSpec,
    streams: Streams,
) -> Result<Dataset> {
    let first = own.start;
    let (splitter, names) = pushed(ratings, own, rows, spec, streams)?;
    splitter.finish_part(first, names[0].len() as u32, names)
}

/// Splits the ratings of a file, or returns the users that cannot be split.
pub(super) fn split_or_too_few(
    ratings: Ratings,
    spec: &SplitSpec,
    streams: Streams,
) -> Result<Result<Dataset, Vec<u32>>> {
    if let SplitSpec::GlobalTime(_) = spec {
        return split(ratings, spec, streams).map(Ok);
    }
    let users = ratings.user_names.len() as u32;
    let rows = ratings.interactions.len() as u64;
    let (splitter, names) = pushed(ratings, 0..users, (rows, 0), spec, streams)?;
    match splitter.too_few {
        Some(too_few) => Ok(Err(too_few.users)),
        None => splitter
            .finish_part(0, names[0].len() as u32, names)
            .map(Ok),
    }
}

/// Returns a splitter that was given the users `own` of a file, and the names of those it kept.
fn pushed(
    mut ratings: Ratings,
    own: Range<u32>,
    (rows, before): (u64, u64),
    spec: &SplitSpec,
    streams: Streams,
) -> Result<(Splitter, [Vec<Box<str>>; 2])> {
    if goes_by_clock(spec) {
        ratings.check_clock("`dataset.split.leave-one-out.session_gap_days`")?;
    }
    if let SplitSpec::ByColumn(spec) = spec {
        parts::check(&ratings, spec)?;
    }
    let mut splitter = Splitter::new(ratings.items(), own.start, (spec, rows), streams)?;
    if let HeldOut::Items(lists) = &mut splitter.held_out
        && ratings.has_part(Part::Validation)
    {
        lists.validation.get_or_insert_with(ItemLists::new);
    }
    splitter.is_of_file = true;
    if let Way::KFold(draw) = &mut splitter.way {
        (0..before).for_each(|_| {
            draw.next_is_test();
        });
    }
    ratings.users.iter_mut().for_each(|user| *user -= own.start);
    let (starts, grouped) = ratings.by_user(own.len());
    drop((ratings.users, ratings.interactions));
    let mut names = ratings.user_names;
    let mut kept = vec![true; names.len()];
    for (bounds, user) in starts.windows(2).zip(own) {
        let label = || in_words(user, &names[user as usize]);
        let rows = &grouped[bounds[0]..bounds[1]];
        splitter.facts.add_rows(rows);
        kept[user as usize] = splitter.push_user(label, rows);
    }
    let mut kept = kept.into_iter();
    names.retain(|_| kept.next().unwrap_or(true));
    Ok((splitter, [names, ratings.item_names]))
}

/// Returns a user as all messages name it.
fn in_words(user: u32, name: &str) -> String {
    let (id, name) = (UserId(user), Some(name.into()));
    Who { id, name }.to_string()
}

/// Returns whether ratings are split by more than their order in time.
pub(super) fn goes_by_clock(spec: &SplitSpec) -> bool {
    match spec {
        SplitSpec::GlobalTime(_) => true,
        SplitSpec::LeaveOneOut {
            session_gap_days, ..
        } => session_gap_days.is_some(),
        SplitSpec::Holdout(_) | SplitSpec::ByColumn(_) | SplitSpec::KFold { .. } => false,
    }
}

/// Builds a split data set user by user, so that a generated population is never held unsplit.
pub struct Splitter {
    items: u32,
    train: UserRows,
    /// What was held out so far, in the way of the split.
    held_out: HeldOut,
    way: Way,
    /// The number of the next user.
    user: u32,
    /// Training rows of the current user.
    own: Vec<Interaction>,
    facts: SplitFacts,
    too_few: Option<TooFew>,
    /// Whether the ratings are those of a file, which has more filters.
    is_of_file: bool,
    /// The most rows of a user who was split.
    most_rows: usize,
}

/// How the ratings of a user are divided.
enum Way {
    LeaveOneOut { session_gap_days: Option<f64> },
    Holdout(HoldoutSpec, Streams),
    ByColumn,
    KFold(Box<FoldDraw>),
}

/// What is held out of one user's ratings.
#[derive(Default)]
struct Parts {
    test: Vec<u32>,
    validation: Vec<u32>,
    left_out: Vec<u32>,
}

impl Splitter {
    /// Begins the split of the users from the number `first` on in a catalogue of `items` items.
    /// K-fold has to know how many rows there are in all.
    ///
    /// # Errors
    /// [`Error::Dataset`] for more folds than rows, and [`Error::Usage`] for a split by one instant,
    /// which is not made user by user.
    pub(super) fn new(
        items: u32,
        first: u32,
        (spec, rows): (&SplitSpec, u64),
        streams: Streams,
    ) -> Result<Self> {
        let (way, validates) = match *spec {
            SplitSpec::LeaveOneOut {
                validation_item,
                session_gap_days,
            } => (Way::LeaveOneOut { session_gap_days }, validation_item),
            SplitSpec::Holdout(spec) => (Way::Holdout(spec, streams), spec.validation_share > 0.0),
            SplitSpec::ByColumn(_) => (Way::ByColumn, false),
            SplitSpec::KFold {
                folds, division, ..
            } => {
                let part = spec.part(streams.seed()).unwrap_or_default();
                let streams = division.map_or(streams, |number| Streams::new(number.into()));
                let draw = FoldDraw::new(folds, part, rows, streams)?;
                (Way::KFold(Box::new(draw)), false)
            }
            SplitSpec::GlobalTime(_) => {
                let message = "`dataset.split.global-time` needs the ratings of a file";
                return Err(Error::Usage(message.to_owned()));
            }
        };
        let by_column = match spec {
            SplitSpec::ByColumn(spec) => Some(spec.holds_out),
            _ => None,
        };
        let held_out = match way {
            Way::KFold(_) => HeldOut::Ratings(Box::new(UserRows::new())),
            _ if by_column == Some(HoldsOut::Ratings) => {
                HeldOut::Ratings(Box::new(UserRows::new()))
            }
            _ => HeldOut::Items(Box::new(HeldOutLists {
                test: ItemLists::new(),
                validation: validates.then(ItemLists::new),
                left_out: (goes_by_clock(spec) || by_column.is_some()).then(ItemLists::new),
            })),
        };
        Ok(Self {
            held_out,
            way,
            user: first,
            ..Self::leave_one_out(items, false)
        })
    }

    /// Begins leave-one-out for a catalogue of `items` items.
    pub fn leave_one_out(items: u32, validation_item: bool) -> Self {
        Self {
            items,
            train: UserRows::new(),
            held_out: HeldOut::Items(Box::new(HeldOutLists {
                test: ItemLists::new(),
                validation: validation_item.then(ItemLists::new),
                left_out: None,
            })),
            way: Way::LeaveOneOut {
                session_gap_days: None,
            },
            user: 0,
            own: Vec::new(),
            facts: SplitFacts::default(),
            too_few: None,
            is_of_file: false,
            most_rows: 0,
        }
    }

    /// Returns whether no user was pushed yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.train.users() == 0 && self.too_few.is_none()
    }

    /// Splits the next user's ratings, given in the order of the file; `label` names the user in an
    /// error. Returns false for a user who is left out, since a session took all of the history.
    pub fn push_user(&mut self, label: impl FnOnce() -> String, rows: &[Interaction]) -> bool {
        self.own.clear();
        let user = self.user;
        self.user += 1;
        let parts = match &mut self.way {
            Way::KFold(draw) => {
                let mut test = Vec::new();
                for row in rows {
                    let part = if draw.next_is_test() {
                        &mut test
                    } else {
                        &mut self.own
                    };
                    part.push(*row);
                }
                if let HeldOut::Ratings(all) = &mut self.held_out {
                    all.push_user(&mut test);
                }
                (!self.own.is_empty()).then(Parts::default)
            }
            Way::LeaveOneOut { session_gap_days } => {
                let validates = self.held_out.has_validation_items();
                leave_one_out(rows, validates, *session_gap_days, &mut self.own)
            }
            Way::Holdout(spec, streams) => holdout(rows, spec, (*streams, user), &mut self.own),
            Way::ByColumn => {
                let facts = &mut self.facts;
                match &mut self.held_out {
                    HeldOut::Ratings(all) => parts::ratings(rows, &mut self.own, all),
                    HeldOut::Items(_) => parts::items(rows, &mut self.own, facts),
                }
            }
        };
        let Some(parts) = parts else {
            self.note_too_few(label, user, rows);
            return true;
        };
        self.most_rows = self.most_rows.max(rows.len());
        if !parts.left_out.is_empty() && !self.own.iter().any(|row| row.is_positive) {
            self.facts.users_without_history += 1;
            return false;
        }
        self.facts.add_targets(rows, &parts.test, &self.own);
        self.train.push_user(&mut self.own);
        if let HeldOut::Items(lists) = &mut self.held_out {
            lists.test.push_user(parts.test, 0);
            if let Some(validation) = &mut lists.validation {
                validation.push_user(parts.validation, 0);
            }
            if let Some(left_out) = &mut lists.left_out {
                left_out.push_user(parts.left_out, 0);
            }
        }
        true
    }

    /// Returns the split data set.
    ///
    /// # Errors
    /// [`Error::Dataset`] for users with too few ratings, naming the first of them and the
    /// `dataset.minimum_interactions` that would leave them out, and for a session gap that leaves
    /// nobody.
    pub fn finish(self) -> Result<Dataset> {
        let users = self.train.users() as u32;
        self.finish_part(0, users, Default::default())
    }

    /// Returns the split data set of users from the number `first` on, of `users` users, with the
    /// names of users and items.
    pub(super) fn finish_part(
        self,
        first: u32,
        users: u32,
        [user_names, item_names]: [Vec<Box<str>>; 2],
    ) -> Result<Dataset> {
        if let Some(too_few) = &self.too_few {
            return Err(Error::Dataset(self.too_few_message(too_few)));
        }
        if users == 0 && self.facts.users_without_history > 0 {
            return Err(Error::Dataset(format!(
                "no user is left: `dataset.split.leave-one-out.session_gap_days` takes the whole history of \
                 all {} users; give a shorter gap",
                self.facts.users_without_history
            )));
        }
        let holds_items_out = matches!(self.held_out, HeldOut::Items(_));
        if matches!(self.way, Way::ByColumn) && holds_items_out && self.facts.test_items == 0 {
            return Err(Error::Dataset(parts::NOTHING_TO_TEST.to_owned()));
        }
        let (items, train, held_out) = (self.items, self.train, self.held_out);
        let totals = Totals::of(items, (&train, &held_out), users, self.facts);
        let [tested, validated] = match self.way {
            Way::ByColumn => held_out.users_with_some(users),
            _ => [None, None],
        };
        Ok(Dataset {
            items,
            train,
            held_out,
            known: None,
            user_names,
            item_names,
            first,
            totals,
            training_ends: None,
            tested,
            absent: Vec::new(),
            validated,
            told: Vec::new(),
            warnings: Vec::new(),
        })
    }
}

/// Holds the latest positives of a user out, and leaves the rows to train on in `train`. `None` for
/// a user who has too few.
fn leave_one_out(
    rows: &[Interaction],
    validates: bool,
    session_gap_days: Option<f64>,
    train: &mut Vec<Interaction>,
) -> Option<Parts> {
    train.extend_from_slice(rows);
    let mut parts = Parts::default();
    let Parts {
        test,
        validation,
        left_out,
    } = &mut parts;
    for (held_out, is_wanted) in [(test, true), (validation, validates)] {
        let Some(latest) = latest_positive(train).filter(|_| is_wanted) else {
            break;
        };
        held_out.push(latest.item);
        train.retain(|row| row.item != latest.item);
        if let Some(gap) = session_gap_days {
            let is_near = |row: &Interaction| latest.instant.days_since(row.instant) <= gap;
            let near = train.iter().filter(|row| is_near(row));
            left_out.extend(near.map(|row| row.item));
            train.retain(|row| !is_near(row));
        }
    }
    let has_history = train.iter().any(|row| row.is_positive);
    (has_history || !parts.left_out.is_empty()).then_some(parts)
}

/// Returns the latest positive, the first in the file among equals.
fn latest_positive(rows: &[Interaction]) -> Option<Interaction> {
    let mut latest: Option<&Interaction> = None;
    for row in rows.iter().filter(|row| row.is_positive) {
        if latest.is_none_or(|best| row.time > best.time) {
            latest = Some(row);
        }
    }
    latest.copied()
}

/// Draws the positives of a user that are held out, and leaves the rows to train on in `train`.
/// `None` for a user who has too few.
fn holdout(
    rows: &[Interaction],
    spec: &HoldoutSpec,
    (streams, user): (Streams, u32),
    train: &mut Vec<Interaction>,
) -> Option<Parts> {
    let mut items = different_positives(rows);
    let validates = spec.validation_share > 0.0;
    let most = items.len().checked_sub(1 + usize::from(validates))?;
    let part =
        |share: f64, most: usize| ((share * items.len() as f64).round() as usize).clamp(1, most);
    if most == 0 {
        return None;
    }
    let test = part(spec.share, most);
    let validation = match validates {
        true => part(spec.validation_share, items.len() - 1 - test),
        false => 0,
    };
    let mut stream = streams.named("dataset/holdout", u64::from(user), 0);
    stream.shuffle_portably(&mut items);
    let (held_out, rest) = items.split_at(test + validation);
    train.extend(
        rows.iter()
            .filter(|row| !row.is_positive || rest.contains(&row.item)),
    );
    train.retain(|row| !held_out.contains(&row.item));
    Some(Parts {
        test: held_out[..test].to_vec(),
        validation: held_out[test..].to_vec(),
        left_out: Vec::new(),
    })
}

/// Returns the items that a user likes, ascending.
fn different_positives(rows: &[Interaction]) -> Vec<u32> {
    let positives = rows.iter().filter(|row| row.is_positive);
    let mut items: Vec<u32> = positives.map(|row| row.item).collect();
    items.sort_unstable();
    items.dedup();
    items
}

#[cfg(test)]
mod tests;
