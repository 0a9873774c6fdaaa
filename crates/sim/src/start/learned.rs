//! What a saved simulation says of its parameters, so that another run can tell whether they fit.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use fedrecsim_core::UserId;
use fedrecsim_data::dataset::Dataset;
use fedrecsim_model::{BlockLayout, Layout};
use fedrecsim_scenario::{Aggregation, Scenario, differences};

/// The method, the shapes and the names that parameters belong to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Learned {
    method: String,
    /// The parameters of the method, as JSON: the format of a checkpoint has no word for any value.
    parameters: String,
    aggregation: Aggregation,
    /// The seed of what nobody has trained.
    pub seed: u64,
    blocks: Vec<Block>,
    /// Whether the server has a row of each user, or what a user downloads goes by its number.
    keeps_users_by_number: bool,
    users: Names,
    items: Names,
}

/// A block of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Block {
    name: String,
    rows: u64,
    columns: u64,
}

/// The names of users or items, in the order of their numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Names {
    count: u64,
    /// Nothing where everybody is called by its number.
    names: Vec<Box<str>>,
}

impl Names {
    fn of(count: usize, names: &[Box<str>]) -> Self {
        Self {
            count: count as u64,
            names: names.to_vec(),
        }
    }

    fn all(&self) -> impl Iterator<Item = Cow<'_, str>> {
        (0..self.count).map(|number| match self.names.get(number as usize) {
            Some(name) => Cow::Borrowed(&**name),
            None => Cow::Owned(number.to_string()),
        })
    }

    /// Says in which way these differ from `ours`, with a name of each; `None` if they are alike, in the
    /// same order.
    fn differ(&self, ours: &Self, kind: &str) -> Option<String> {
        if self == ours || self.all().eq(ours.all()) {
            return None;
        }
        let [there, here] = [self, ours].map(|names| names.all().collect::<BTreeSet<_>>());
        let only = |one: &BTreeSet<_>, other: &BTreeSet<_>, place: &str| {
            let mut only = one.difference(other);
            only.next().map(|name| format!("{name:?} is only {place}"))
        };
        let apart = [only(&there, &here, "there"), only(&here, &there, "here")];
        let apart: Vec<String> = apart.into_iter().flatten().collect();
        if !apart.is_empty() {
            return Some(format!(
                "it has {} {kind}s and this run {}: {}",
                self.count,
                ours.count,
                apart.join(", and ")
            ));
        }
        let mut pairs = (0..).zip(self.all().zip(ours.all()));
        let (number, (theirs, own)) = pairs.find(|(_, (theirs, own))| theirs != own)?;
        Some(format!(
            "its {kind}s are in another order: number {number} is {theirs:?} there and {own:?} here; they are numbered \
             in the order in which the ratings name them, so give both runs the rows in one order"
        ))
    }
}

/// Returns the first two of `names` that are alike, if any are: they cannot be told apart.
fn twins<'a>(names: impl Iterator<Item = &'a Cow<'a, str>>) -> Option<&'a str> {
    let mut seen = BTreeSet::new();
    let mut names = names.map(|name| &**name);
    names.find(|name| !seen.insert(*name))
}

impl Learned {
    /// Describes the parameters of a scenario's method over `dataset`, whose model has this layout and
    /// whose untrained values this seed. The server may know users by their numbers.
    pub(crate) fn of(
        scenario: &Scenario,
        dataset: &Dataset,
        (layout, keeps_users_by_number): (&Layout, bool),
        seed: u64,
    ) -> Self {
        let block = |block: &BlockLayout| Block {
            name: block.name.to_string(),
            rows: block.shape.rows as u64,
            columns: block.shape.dimension as u64,
        };
        Self {
            method: scenario.method.name.clone(),
            parameters: scenario.method.parameters.to_string(),
            aggregation: scenario.training.aggregation,
            seed,
            blocks: layout.blocks().iter().map(block).collect(),
            keeps_users_by_number,
            users: Names::of(dataset.users(), dataset.user_names()),
            items: Names::of(dataset.items(), dataset.item_names()),
        }
    }

    /// Returns the number of each user in the run that `ours` describes, in the order of their numbers here; `None` for one
    /// who is not there.
    ///
    /// # Errors
    /// A sentence on why these parameters cannot be those of that run, with what stands in both.
    pub(crate) fn users_in(&self, ours: &Self) -> Result<Vec<Option<UserId>>, String> {
        if self.method != ours.method {
            return Err(format!(
                "it has the parameters of `{}`, and this run has the method `{}`",
                self.method, ours.method
            ));
        }
        if self.aggregation != ours.aggregation {
            let [there, here] = [self.aggregation, ours.aggregation]
                .map(|aggregation| serde_json::to_value(aggregation).unwrap_or_default());
            return Err(format!(
                "`training.aggregation` is {there} there and {here} here"
            ));
        }
        if let Some(reason) = self.items.differ(&ours.items, "item") {
            return Err(reason);
        }
        if ours.keeps_users_by_number
            && let Some(reason) = self.users.differ(&ours.users, "user")
        {
            return Err(format!(
                "the server of `{}` knows users by their numbers, and {reason}",
                self.method
            ));
        }
        if let Some(reason) = self.shapes_differ(ours) {
            return Err(reason + &self.other_keys(ours));
        }
        let (theirs, own): (Vec<_>, Vec<_>) =
            (self.users.all().collect(), ours.users.all().collect());
        if let Some(name) = twins(theirs.iter()).or_else(|| twins(own.iter())) {
            return Err(format!(
                "two users are called {name:?}, for their names are not UTF-8: save the ratings file as UTF-8"
            ));
        }
        let numbers: BTreeMap<_, u32> = own.iter().zip(0..).collect();
        let number = |name| numbers.get(name).map(|number| UserId(*number));
        Ok(theirs.iter().map(number).collect())
    }

    /// Says that no user with parameters of its own is in the run that `ours` describes, with a
    /// user of each.
    pub(crate) fn nobody_is_in(&self, ours: &Self) -> String {
        let first = |names: &Names| names.all().next().unwrap_or_default().into_owned();
        format!(
            "nobody who has parameters of its own there is a user of this run: the first of its {} users is {:?}, and the \
             first of the {} here is {:?}",
            self.users.count,
            first(&self.users),
            ours.users.count,
            first(&ours.users)
        )
    }

    fn shapes_differ(&self, ours: &Self) -> Option<String> {
        let shape = |block: &Block| format!("{} x {}", block.rows, block.columns);
        let of = |blocks: &[Block], name: &str| {
            let mut blocks = blocks.iter();
            let found = blocks.find(|block| block.name == name);
            found.map_or_else(|| "absent".to_owned(), shape)
        };
        let names = self
            .blocks
            .iter()
            .chain(&ours.blocks)
            .map(|block| &block.name);
        let shapes = |name: &String| [of(&self.blocks, name), of(&ours.blocks, name)];
        let (name, [there, here]) = names
            .map(|name| (name, shapes(name)))
            .find(|(_, [there, here])| there != here)?;
        Some(format!("the block {name} is {there} there and {here} here"))
    }

    /// Returns the number of users.
    pub(crate) fn users(&self) -> usize {
        self.users.count as usize
    }

    /// Returns the method's keys that have another value here, as the rest of a sentence; nothing if
    /// there are none.
    pub(crate) fn other_keys(&self, ours: &Self) -> String {
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        let keys = differences(&read(&self.parameters), &read(&ours.parameters));
        let shown =
            |value: &Option<Value>| value.as_ref().map_or("absent".to_owned(), Value::to_string);
        let keys: Vec<String> = keys
            .iter()
            .map(|difference| {
                let [there, here] = difference.values.each_ref().map(shown);
                let key = &difference.key;
                format!(
                    "method.{}.{key} is {there} there and {here} here",
                    self.method
                )
            })
            .collect();
        match keys.is_empty() {
            true => String::new(),
            false => format!("; {}", keys.join(", ")),
        }
    }
}
