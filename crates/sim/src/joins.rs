//! The users or items that come in the course of the run (`[joins]`).
//!
//! Until users come they are under an outage, so that nobody invites them, and no total has their
//! ratings. Until items come nobody has rated them in training. What is found for either is in
//! `newcomers`.

use std::sync::Arc;

use fedrecsim_core::{Error, PortableDraws, Result, SimDuration, SimTime, Streams, UserId};
use fedrecsim_data::dataset::{Candidates, Dataset};
use fedrecsim_methods::Placement;
use fedrecsim_scenario::{FaultEffect, FaultSpec, FaultUsers, Joining, JoinsSpec};

/// The newcomers of a run.
#[derive(Debug)]
pub(crate) struct Joins {
    /// The users who are in no mean over all, ascending: those who come, or those who have an item held
    /// out that comes.
    apart: Vec<UserId>,
    /// The items that come, ascending; none where users do.
    items: Vec<u32>,
    /// The instant at which they come.
    at: SimTime,
    /// A data set for each number of ratings: every newcomer has so many, its earliest. Without a number it
    /// has all, which only items do. Users are scored with each before they come, and items go through one
    /// after another.
    pub known: Vec<(Option<u32>, Dataset)>,
    /// The candidates after items have come; absent where users do.
    pub candidates: Option<Candidates>,
    /// The number of training ratings of every item, with those of newcomers.
    pub ratings_of: Vec<u32>,
    pub spec: JoinsSpec,
}

impl Joins {
    /// Finds the newcomers in `dataset`, and leaves their ratings out of it: those of users out of its
    /// totals alone. [`Self::know`] finds the rest.
    ///
    /// # Errors
    /// [`Error::Usage`] for a name that is none, for a method with a third party, and where nobody or
    /// nothing is left of those that are there to begin with.
    pub(crate) fn new(
        spec: &JoinsSpec,
        placement: Placement,
        dataset: &mut Arc<Dataset>,
        streams: Streams,
    ) -> Result<Self> {
        if placement == Placement::Assisted {
            return Err(Error::Usage(
                "joins: a device of this method asks a third party before it trains, which would have to be told \
                 of newcomers; take a method without one"
                    .to_owned(),
            ));
        }
        let mut joins = Self {
            apart: Vec::new(),
            items: Vec::new(),
            at: SimTime::ZERO + SimDuration::from_secs_f64(spec.at_s),
            known: Vec::new(),
            candidates: None,
            ratings_of: dataset.popularity(),
            spec: spec.clone(),
        };
        if let Some(users) = &spec.users {
            joins.apart = new_users(users, dataset, streams)?;
            Arc::make_mut(dataset).leave_out_of_totals(&joins.apart);
        }
        if let Some(items) = &spec.items {
            joins.items = new_items(items, dataset, streams)?;
            let without = Arc::new(dataset.without_items(&joins.items));
            check_devices(dataset, &without)?;
            *dataset = without;
        }
        Ok(joins)
    }

    /// Finds what is known of newcomers of `whole` beside `dataset`, which [`Self::new`] has left, and who
    /// of the evaluated users is in no mean over all.
    ///
    /// # Errors
    /// [`Error::Usage`] if no evaluated user is judged by newcomers, or all are.
    pub(crate) fn know(
        &mut self,
        whole: &Dataset,
        dataset: &Dataset,
        candidates: &Candidates,
    ) -> Result<()> {
        let evaluated = candidates.evaluated_users();
        let mut counts = self.spec.ratings.clone();
        if self.items.is_empty() {
            let known = |count| {
                (
                    Some(count),
                    dataset.with_earliest_ratings(&self.apart, count),
                )
            };
            self.known = counts.into_iter().map(known).collect();
        } else {
            counts.sort_unstable();
            counts.dedup();
            let counts = counts.into_iter().map(Some).chain([None]);
            let known = |count| (count, dataset.with_items(whole, count));
            self.known = counts.map(known).collect();
            let has_one = |user: &UserId| {
                let held_out = [dataset.test(*user), dataset.validation(*user)];
                let mut items = held_out.iter().flat_map(|held_out| held_out.items);
                items.any(|item| self.comes(*item))
            };
            self.apart = evaluated.iter().copied().filter(has_one).collect();
        }
        let own = evaluated.iter().filter(|user| self.judges(**user, dataset));
        let (own, others) = (
            own.count(),
            evaluated.len() - self.evaluated_apart(evaluated),
        );
        if own == 0 || others == 0 {
            let (key, who) = match self.items.is_empty() {
                true => ("users", "comes later"),
                false => ("items", "is judged by an item that comes later"),
            };
            let which = match own {
                0 => "none",
                _ => "each",
            };
            return Err(Error::Usage(format!(
                "joins.{key}: {which} of the {} evaluated users {who}, so that there is nothing to compare; raise \
                 evaluation.users, or take others",
                evaluated.len()
            )));
        }
        Ok(())
    }

    fn evaluated_apart(&self, evaluated: &[UserId]) -> usize {
        let apart = evaluated.iter().filter(|user| self.is_apart(**user));
        apart.count()
    }

    /// Returns whether `user` is in no mean over all: it comes in the course of the run, or an item that
    /// it has held out does.
    pub(crate) fn is_apart(&self, user: UserId) -> bool {
        self.apart.binary_search(&user).is_ok()
    }

    /// Returns whether the evaluated `user` of `dataset` is judged as a newcomer, or by its test item, which is
    /// one.
    pub(crate) fn judges(&self, user: UserId, dataset: &Dataset) -> bool {
        match self.items.is_empty() {
            true => self.is_apart(user),
            false => dataset
                .test(user)
                .items
                .iter()
                .any(|item| self.comes(*item)),
        }
    }

    fn comes(&self, item: u32) -> bool {
        self.items.binary_search(&item).is_ok()
    }

    /// Returns the number of users who come.
    pub(crate) fn users(&self) -> u64 {
        match self.items.is_empty() {
            true => self.apart.len() as u64,
            false => 0,
        }
    }

    /// Returns the number of items that come.
    pub(crate) fn items(&self) -> u64 {
        self.items.len() as u64
    }

    /// Returns the time since they came; `None` until they are there.
    pub(crate) fn since(&self, now: SimTime) -> Option<SimDuration> {
        (now >= self.at).then(|| now.since(self.at))
    }

    /// Returns whether users come, who are not there yet.
    pub(crate) fn awaits_users(&self, now: SimTime) -> bool {
        self.items.is_empty() && self.since(now).is_none()
    }

    /// Returns what devices know at `now`, with the number of ratings that items have; `None` where
    /// that is what they know from the start.
    pub(crate) fn known_at(&self, now: SimTime) -> Option<&(Option<u32>, Dataset)> {
        let stage = SimDuration::from_secs_f64(self.spec.stage_s?).as_nanos();
        let past = self.since(now)?.as_nanos() / stage.max(1);
        let last = self.known.len().checked_sub(1)?;
        self.known.get((past as usize).min(last))
    }

    /// Returns the rule that keeps users away until they come, if any do.
    pub(crate) fn outage(&self) -> Option<FaultSpec> {
        let numbers = self.apart.iter().map(|user| user.0);
        self.items.is_empty().then(|| FaultSpec {
            effect: FaultEffect::Outage,
            until_s: Some(self.spec.at_s),
            users: Some(FaultUsers::Numbers(numbers.collect())),
            ..FaultSpec::default()
        })
    }
}

/// Returns the users who come, ascending.
fn new_users(users: &Joining, dataset: &Dataset, streams: Streams) -> Result<Vec<UserId>> {
    let all = 0..dataset.users_with_history() as u32;
    let users = match users {
        Joining::Names(names) => {
            let named = dataset.users_named(names);
            ascending(named.map_err(|error| error.within("joins.users.names"))?)
        }
        Joining::Share(share) => {
            let drawn = drawn(*share, all.clone().collect(), (streams, "joins/users"));
            drawn.into_iter().map(UserId).collect()
        }
    };
    if users.len() >= all.len() {
        return Err(Error::Usage(
            "joins.users: everybody comes later, so that nobody is there to begin with".to_owned(),
        ));
    }
    Ok(users)
}

/// Returns the items that come, ascending.
fn new_items(items: &Joining, dataset: &Dataset, streams: Streams) -> Result<Vec<u32>> {
    let popularity = dataset.popularity();
    let is_rated = |item: &u32| popularity[*item as usize] > 0;
    let all: Vec<u32> = (0..popularity.len() as u32).filter(is_rated).collect();
    let count = all.len();
    let items = match items {
        Joining::Names(names) => {
            let named = dataset.items_named(names);
            let in_key = |error| Error::Usage(format!("joins.items.names: {error}"));
            let items = ascending(named.map_err(in_key)?);
            if let Some(item) = items.iter().find(|item| !is_rated(item)) {
                return Err(Error::Usage(format!(
                    "joins.items.names: nobody has rated {:?} in training, so that nothing would be learned of it",
                    dataset.item_name(*item)
                )));
            }
            items
        }
        Joining::Share(share) => drawn(*share, all, (streams, "joins/items")),
    };
    if items.len() >= count {
        return Err(Error::Usage(
            "joins.items: every item comes later, so that there is nothing to train on to begin with"
                .to_owned(),
        ));
    }
    Ok(items)
}

/// Returns `share` of `all` (ascending), ascending; at least one.
fn drawn(share: f64, all: Vec<u32>, (streams, name): (Streams, &str)) -> Vec<u32> {
    let wanted = (share * all.len() as f64).round().max(1.0) as usize;
    // Each draws a key of its own, so that one more displaces at most one other.
    let key = |one: u32| {
        let mut stream = streams.named(name, u64::from(one), 0);
        (stream.open_unit().to_bits(), one)
    };
    let mut keys: Vec<_> = all.into_iter().map(key).collect();
    keys.sort_unstable();
    let drawn = keys.into_iter().take(wanted);
    ascending(drawn.map(|(_, one)| one).collect())
}

fn ascending<T: Ord>(mut all: Vec<T>) -> Vec<T> {
    all.sort_unstable();
    all.dedup();
    all
}

/// Refuses items without which a device has nothing to train on.
fn check_devices(whole: &Dataset, without: &Dataset) -> Result<()> {
    let users = (0..whole.users_with_history()).map(UserId::from);
    let is_left_nothing = |user: &UserId| {
        without.train_items(*user).is_empty() && !whole.train_items(*user).is_empty()
    };
    match users.into_iter().find(is_left_nothing) {
        None => Ok(()),
        Some(user) => Err(Error::Usage(format!(
            "joins.items: {} has rated nothing else in training, and a device has to train until they come; take fewer \
             items or others",
            whole.who(user)
        ))),
    }
}
