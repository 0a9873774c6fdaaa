//! Tests whether training knows what is held out.
//!
//! Each test runs the scenario again with another thing in the place of what training could know:
//! the held-out items of other users, an item that only its owners' held-out part has, no server,
//! and a random item that is held out by the protocol of `pool = "unrated"` alone. All runs are judged after
//! their last round, by the headline metric.

use std::sync::Arc;

use super::observer::RoundObserver;
use super::outcome::{SplitAccuracy, UserRecord};
use super::run::run;
use super::simulation::RunControl;
use super::world::World;
use fedrecsim_core::{Error, Result, Streams};
use fedrecsim_data::dataset::Dataset;
use fedrecsim_scenario::{Aggregation, NegativePool, Scenario, Selection};

mod finding;

use finding::Judged;
pub use finding::{LeakFinding, LeakVerdict};

/// Runs a scenario on a data set, and tells whether training knows what is held out.
pub struct LeakTest<'a> {
    scenario: Scenario,
    dataset: Arc<Dataset>,
    /// Why devices that share nothing say nothing of the method, if so.
    without_controls: Option<&'a str>,
    world_of: &'a dyn Fn(Scenario, Arc<Dataset>) -> Result<World>,
    control: &'a RunControl,
}

impl<'a> LeakTest<'a> {
    /// Prepares the tests of a checked scenario on its data set. `world_of` puts the worlds of the runs
    /// together, and `without_controls` is what the method's entry says.
    ///
    /// # Errors
    /// [`Error::Usage`] for a split that holds ratings out, which are predicted and not found.
    pub fn new(
        (scenario, dataset): (&Scenario, &Arc<Dataset>),
        without_controls: Option<&'a str>,
        world_of: &'a dyn Fn(Scenario, Arc<Dataset>) -> Result<World>,
        control: &'a RunControl,
    ) -> Result<Self> {
        if !dataset.holds_items_out() {
            return Err(Error::Usage(
                "a leak shows in items that are found and could not be, and this split holds ratings out, which are \
                 predicted: take another one, such as dataset.split = \"leave-one-out\""
                    .to_owned(),
            ));
        }
        let mut scenario = scenario.clone();
        scenario.evaluation.selection = Selection::Last;
        scenario.evaluation.patience = None;
        // Those who have the planted item may be fewer than the scenario evaluates.
        scenario.evaluation.users = 0;
        // Runs are compared user by user.
        scenario.report.users_csv_limit = u32::MAX;
        Ok(Self {
            scenario,
            dataset: Arc::clone(dataset),
            without_controls,
            world_of,
            control,
        })
    }

    /// Carries the tests out, one after another.
    ///
    /// # Errors
    /// Those of the runs, and the reason why a run stopped before its last round.
    pub fn findings(&self, observer: &mut dyn RoundObserver) -> Result<Vec<LeakFinding>> {
        let streams = Streams::new(self.scenario.seed);
        let written = self.judged(&self.scenario, Arc::clone(&self.dataset), observer)?;
        let mut of = |scenario: &Scenario, dataset: Dataset| {
            self.judged(scenario, Arc::new(dataset), &mut *observer)
        };
        let exchanged = of(
            &self.scenario,
            self.dataset.with_exchanged_knowledge(streams),
        )?;
        let planted = of(&self.scenario, self.dataset.with_planted_item(streams))?;
        let alone = match self.without_controls {
            Some(reason) => Err(reason),
            None => Ok(of(&self.alone(), (*self.dataset).clone())?),
        };
        let spared = match written.draws_negatives {
            true => Some(of(
                &self.unrated(),
                self.dataset.with_spared_items(streams),
            )?),
            false => None,
        };
        let is_unrated = self.scenario.dataset.negatives.pool == NegativePool::Unrated;
        Ok(vec![
            finding::of_exchange(&written, &exchanged),
            finding::of_planted(&planted),
            finding::of_alone(&written, alone.as_ref()),
            finding::of_spared(spared.as_ref(), is_unrated),
        ])
    }

    /// Returns the scenario with devices that share nothing.
    fn alone(&self) -> Scenario {
        let mut scenario = self.scenario.clone();
        scenario.training.aggregation = Aggregation::None;
        scenario
    }

    /// Returns the scenario with a pool of negatives that leaves held-out items out.
    fn unrated(&self) -> Scenario {
        let mut scenario = self.scenario.clone();
        scenario.dataset.negatives.pool = NegativePool::Unrated;
        scenario
    }

    /// Returns the accuracy that a run ends with.
    fn judged(
        &self,
        scenario: &Scenario,
        dataset: Arc<Dataset>,
        observer: &mut dyn RoundObserver,
    ) -> Result<Judged> {
        let world = (self.world_of)(scenario.clone(), dataset)?;
        let users = world.candidates.evaluated_users().len();
        let unmeasured = || Error::Usage("the scenario measures no accuracy".to_owned());
        let headline = world
            .scenario
            .evaluation
            .headline()
            .ok_or_else(unmeasured)?;
        let name = headline.name();
        let mut metrics = world.scenario.evaluation.metrics().into_iter();
        let place = metrics.position(|metric| metric.name() == name);
        let outcome = run(world, self.control, observer)?;
        if let Some(error) = outcome.stopped_by {
            return Err(error);
        }
        let of = |split: &SplitAccuracy| split.test.get(&name).copied();
        let last = outcome
            .rounds
            .last()
            .and_then(|round| round.accuracy.as_ref());
        let of_user = |user: &UserRecord| *user.test.as_ref()?.values.get(place?)?;
        let by_user = outcome.users.iter().flatten().map(of_user).collect();
        let baseline = |name: &str| outcome.baselines.get(name).and_then(of);
        Ok(Judged {
            label: headline.label(),
            value: last.and_then(of).ok_or_else(unmeasured)?,
            popularity: baseline("popularity").ok_or_else(unmeasured)?,
            chance: baseline("random").ok_or_else(unmeasured)?,
            users,
            by_user,
            state: outcome.state_digest,
            draws_negatives: outcome.draws_negatives,
        })
    }
}
