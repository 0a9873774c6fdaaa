//! Checks methods that stand outside this crate: the contract that every method keeps, and
//! gradients.
//!
//! The methods of this crate pass the same checks, by the same code. A method of one's own needs
//! one test:
//!
//! ```
//! use fedrecsim_methods::fedmf;
//! use fedrecsim_sim::testing::{Breach, Contract, Clause};
//!
//! /// If this fails, the method breaks a promise that the simulator relies on.
//! fn the_method_keeps_the_contract() -> Result<(), Breach> {
//!     // With all clauses, which take a few seconds: `fedrecsim_sim::testing::contract(&fedmf::ENTRY)`.
//!     Contract::of(&fedmf::ENTRY).check_clause(Clause::SavedState)
//! }
//! # the_method_keeps_the_contract().unwrap();
//! ```
//!
//! [`contract`] returns a [`Breach`] instead of panicking, so that a program may go through several
//! methods and a test may ask which clause was broken. It names the clause, what the clause
//! promises and what was seen, and its `Debug` output is that sentence, too, as that is what the
//! test harness prints for a test that returns an error.
//!
//! [`gradient_check`] compares a gradient that was derived by hand with central differences of the
//! loss:
//!
//! ```
//! use fedrecsim_sim::testing::gradient_check;
//!
//! // Half the squared error of a rating 4 that is predicted by the product of user and item.
//! let loss = |at: &[f64]| 0.5 * (at[0] * at[1] - 4.0).powi(2);
//! let (user, item) = (1.5, 0.5);
//! let error = user * item - 4.0;
//! gradient_check(1e-3, &[user, item], &[error * item, error * user], loss).unwrap();
//!
//! let wrong = gradient_check(1e-3, &[user, item], &[error * item, -error * user], loss).unwrap_err().to_string();
//! assert!(wrong.contains("coordinate 1 is 4.875e0, and central differences give -4.87"), "{wrong}");
//! ```
//!
//! The rest are parts that the checks consist of, for tests that look at something else:
//! [checkpoints](CheckpointsInMemory) in memory, and what holds for the [bytes](check_balance) and
//! the [figures](check_figures) of every outcome.

mod bench;
mod breach;
mod clauses;
mod few_users;
mod outcome;
mod resuming;
#[cfg(test)]
mod tests;

use serde_json::Value as Json;

pub use self::{
    breach::{Breach, Clause},
    few_users::parameters_for_few_users,
    outcome::{check_balance, check_figures},
    resuming::{CheckpointsInMemory, check_resumed_runs},
};
pub use fedrecsim_core::math::gradient::{
    Coordinate, WrongGradient, gradient_check, numeric_gradient,
};

use breach::Seen;
use clauses::{parameters, privacy, runs, scores, state, training};

use crate::World;
use fedrecsim_core::{Error, Streams};
use fedrecsim_data::dataset;
use fedrecsim_methods::Entry;
use fedrecsim_methods::registry::vocabulary_of;
use fedrecsim_scenario::{self as scenario, Scenario};

/// Checks that the method of `entry`, with its default parameters, keeps every [`Clause`] of the
/// contract.
///
/// # Errors
/// The first clause that it breaks.
pub fn contract(entry: &Entry) -> Result<(), Breach> {
    Contract::of(entry).check()
}

/// The check of one method.
///
/// Worlds are small: 40 users, 150 items and three rounds, without variance of devices or links. A
/// method whose default rates are made for thousands of users may need [other
/// parameters](Self::with_parameters) there.
#[derive(Clone, Copy)]
pub struct Contract<'m> {
    entry: &'m Entry,
    parameters: Option<&'m str>,
}

impl<'m> Contract<'m> {
    /// Checks the method of `entry` with its default parameters.
    pub const fn of(entry: &'m Entry) -> Self {
        Self {
            entry,
            parameters: None,
        }
    }

    /// Checks the method with these parameters, which are an inline table of TOML such as
    /// `{ learning_rate = 0.1 }`.
    #[must_use]
    pub const fn with_parameters(self, parameters: &'m str) -> Self {
        Self {
            parameters: Some(parameters),
            ..self
        }
    }

    /// Checks every clause, those that are checked fastest first.
    ///
    /// # Errors
    /// The first clause that the method breaks.
    pub fn check(&self) -> Result<(), Breach> {
        CLAUSES
            .iter()
            .try_for_each(|(clause, ..)| self.check_clause(*clause))
    }

    /// Checks one clause.
    ///
    /// # Errors
    /// The breach, if the method breaks it.
    pub fn check_clause(&self, clause: Clause) -> Result<(), Breach> {
        let of = |clause| CLAUSES.iter().filter(move |(listed, ..)| *listed == clause);
        let Some(Seen(seen)) = of(clause).find_map(|(.., check)| check(self).err()) else {
            return Ok(());
        };
        // Most checks train, and a client that cannot train breaks that clause and no other.
        let (clause, seen) = match training::comes_to_its_end(self) {
            Err(Seen(failed)) => (Clause::Uploads, failed),
            Ok(()) => (clause, seen),
        };
        let promise = of(clause).map(|(_, promise, _)| *promise).next();
        Err(Breach {
            method: self.entry.name.to_owned(),
            clause,
            promise: promise.unwrap_or_default(),
            seen,
        })
    }

    /// Returns the small scenario with the method and these keys replaced.
    fn scenario(&self, overrides: &[&str]) -> Result<Scenario, Seen> {
        let name = self.entry.name;
        let method = match self.parameters {
            Some(parameters) => format!("method={{ {name} = {parameters} }}"),
            None => format!("method=\"{name}\""),
        };
        let overrides: Vec<String> = [method]
            .into_iter()
            .chain(overrides.iter().map(ToString::to_string))
            .collect();
        Ok(scenario::parse(
            SMALL,
            "contract.toml",
            &overrides,
            &vocabulary_of(&[*self.entry]),
        )?)
    }

    /// Returns the world of the small scenario with these keys replaced.
    pub(crate) fn world(&self, overrides: &[&str]) -> Result<World, Seen> {
        Ok(self.world_of(self.scenario(overrides)?)?)
    }

    /// Returns the world of a scenario with generated ratings.
    fn world_of(&self, scenario: Scenario) -> Result<World, Error> {
        let dataset = dataset::load(&scenario.dataset, &[], Streams::new(scenario.seed))?;
        World::with_methods(scenario, dataset.into(), &[*self.entry])
    }

    /// Returns the schema of the method's parameters.
    fn schema(&self) -> Json {
        (self.entry.schema)().to_value()
    }
}

/// A check of a clause.
type Check = fn(&Contract<'_>) -> Result<(), Seen>;

/// Every clause with what it promises and the check of it, those that are checked fastest first.
const CLAUSES: [(Clause, &str, Check); 13] = [
    (
        Clause::Parameters,
        "parameters that the schema does not allow are refused, by name",
        parameters::are_checked,
    ),
    (
        Clause::Sizes,
        "the method announces the size of every block that it makes",
        parameters::announce_every_block,
    ),
    (
        Clause::FreshClients,
        "clients that have just been made for one user score alike, in finite numbers",
        scores::of_a_user_that_never_took_part,
    ),
    (
        Clause::Uploads,
        "training comes to its end, with an update of the announced layout that changes something",
        training::has_the_layout_of_uploads,
    ),
    (
        Clause::ScoresAlone,
        "the score of an item does not depend on the other items that are asked for",
        scores::are_alike_in_any_company,
    ),
    (
        Clause::Buffers,
        "training does not depend on what the buffers were used for before",
        training::is_alike_with_used_buffers,
    ),
    (
        Clause::Snapshots,
        "a snapshot is the client as it was, and trains on like it",
        state::is_copied_by_a_snapshot,
    ),
    (
        Clause::SavedState,
        "a client that is saved and restored is the same, scores alike and trains on alike",
        state::is_saved_and_restored,
    ),
    (
        Clause::PrivateState,
        "no value of the private state stands in a frame",
        privacy::no_private_value_is_sent,
    ),
    (
        Clause::Repeats,
        "the same scenario and seed give the same digest, again and with more threads",
        runs::repeat_their_digest,
    ),
    (
        Clause::EveryWorld,
        "runs come to their end with every network, codec, cohort and evaluation",
        runs::work_in_every_world,
    ),
    (
        Clause::LossyCodecs,
        "runs come to their end with codecs that lose something in both directions",
        runs::work_with_lossy_codecs,
    ),
    (
        Clause::Resumes,
        "a run that goes on from a checkpoint ends as one that was never stopped",
        runs::go_on_from_checkpoints,
    ),
];

/// The scenario of every check: it trains in milliseconds, without variance of devices or links and
/// without dropout.
const SMALL: &str = r#"
seed = 3

[dataset]
name = "generated"

[dataset.generator]
users = 40
items = 150
ratings_per_user = 12

[training]
rounds = 3

[codec]
uplink = "dense-f32"

[evaluation]
ranking.sampled.candidates = 20
"#;
