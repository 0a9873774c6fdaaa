//! What never changes during a run and everybody may read: scenario, ratings, candidates, method, population, codecs.
//!
//! Actors and workers share one [`World`]; what does change (tables, private parameters, the clock, the books) is in
//! the actors.

use std::sync::Arc;

use crate::codec::{self, Codec};
use crate::dataset::Dataset;
use crate::dataset::candidates::Candidates;
use crate::dataset::negatives;
use crate::error::{Error, Result};
use crate::ids::UserId;
use crate::method::{Entry, Method, Problem, registry};
use crate::model::table::VALUE_BYTES;
use crate::population::{Population, Traces};
use crate::rng::Streams;
use crate::scenario::participants::{Users, too_few_users};
use crate::scenario::{ClientSelection, Policy, Scenario};
use crate::units::Bytes;

/// The immutable side of a run.
#[derive(Debug)]
pub struct World {
    /// The checked scenario.
    pub scenario: Scenario,
    /// The split ratings.
    pub dataset: Arc<Dataset>,
    /// What held-out items are ranked against.
    pub candidates: Candidates,
    /// How the server runs its steps: what the scenario's mode stands for, or a program's own.
    pub policy: Policy,
    /// The method.
    pub method: Box<dyn Method>,
    /// Whether there is anything to train; where there is not, nobody takes part in any round.
    pub trains: bool,
    /// The users as machines.
    pub population: Population,
    /// Users whose device has no room for the table, ascending: they take no part.
    pub excluded: Vec<UserId>,
    /// The run's randomness.
    pub streams: Streams,
    /// Clients to server.
    pub uplink: &'static dyn Codec,
    /// Server to clients.
    pub downlink: &'static dyn Codec,
}

impl World {
    /// Puts the world of `scenario` together over `dataset`, with one of the methods of this crate and without traces.
    ///
    /// # Errors
    /// As [`Self::with_traces`].
    pub fn new(scenario: Scenario, dataset: Arc<Dataset>) -> Result<Self> {
        Self::with_methods(scenario, dataset, registry::METHODS)
    }

    /// The same with the one of `methods` that the scenario names.
    ///
    /// # Errors
    /// As [`Self::with_traces`].
    pub fn with_methods(scenario: Scenario, dataset: Arc<Dataset>, methods: &[Entry]) -> Result<Self> {
        Self::with_traces(scenario, dataset, &Traces::default(), methods)
    }

    /// The same with the traces that the scenario names.
    ///
    /// # Errors
    /// What the scenario asks of the data and the data do not have: enough users, candidates, evaluated users, negatives,
    /// the users whom a rule of faults names; a table beyond [`MAX_ENTRIES`](crate::scenario::sizes::MAX_ENTRIES); a
    /// trace that was not read; and a method that is not among `methods`.
    pub fn with_traces(scenario: Scenario, dataset: Arc<Dataset>, traces: &Traces, methods: &[Entry]) -> Result<Self> {
        let streams = Streams::new(scenario.seed);
        let candidates = Candidates::draw(&dataset, &scenario.evaluation, streams)?;
        let problem = Problem { dataset: Arc::clone(&dataset), streams };
        let method = registry::build(methods, &scenario.method, &problem)?;
        let trains = registry::find(methods, &scenario.method)?.trains;
        if trains {
            negatives::check(&dataset, &scenario.dataset.negatives)?;
        }
        let population = Population::new(&scenario, dataset.users(), traces, streams)?;
        let shape = method.shape();
        let table = Bytes::new((shape.rows * shape.dimension * VALUE_BYTES) as u64);
        let excluded = population.too_small_for(table, dataset.users());
        if trains && excluded.len() == dataset.users() {
            return Err(Error::Usage(format!(
                "no device has the memory for the table of {table} that it would download; see [devices]"
            )));
        }
        let policy = Policy::of(&scenario.training.mode);
        check_users(&scenario, &policy, dataset.users(), excluded.len())?;
        let (uplink, downlink) = (codec::of(scenario.codec.uplink), codec::of(scenario.codec.downlink));
        Ok(Self {
            scenario,
            dataset,
            candidates,
            policy,
            method,
            trains,
            population,
            excluded,
            streams,
            uplink,
            downlink,
        })
    }

    /// The same world under a policy of a program's own, in place of the scenario's mode.
    ///
    /// # Errors
    /// [`Error::Usage`] for a policy that [`Policy::check`] refuses, or that asks for more users than there are.
    pub fn with_policy(self, policy: Policy) -> Result<Self> {
        policy.check().map_err(|reason| Error::Usage(format!("the policy `{}`: {reason}", policy.name)))?;
        check_users(&self.scenario, &policy, self.dataset.users(), self.excluded.len())?;
        Ok(Self { policy, ..self })
    }

    /// Whether a participation may be cut off in the middle, or last beyond its round, for another reason than its
    /// own dropout.
    pub fn may_be_cut_short(&self) -> bool {
        !self.policy.waits_for_everybody()
            || !self.population.availability().is_always()
            || !self.population.faults().is_empty()
    }

    /// Whether every user can take part at any time.
    pub fn everybody_can_take_part(&self) -> bool {
        self.excluded.is_empty() && self.population.availability().is_always()
    }

    /// Whether the device of `user` has the memory to take part.
    pub fn has_memory(&self, user: UserId) -> bool {
        self.excluded.binary_search(&user).is_err()
    }

    /// Whether clients tell the server how well its model suits their data.
    pub fn reports_utility(&self) -> bool {
        matches!(self.scenario.training.client_selection, ClientSelection::Oort(_))
    }

    /// Whether frames may be damaged on their way, so that each is read when it arrives and not when it is needed.
    pub fn checks_frames_on_arrival(&self) -> bool {
        !self.population.faults().is_empty()
    }
}

/// Whether there are enough users for the way in which rounds are run; `excluded` of them take no part.
fn check_users(scenario: &Scenario, policy: &Policy, users: usize, excluded: usize) -> Result<()> {
    let words = format!("there are {users} users");
    // Data sets with 2^32 users or more are refused on reading.
    let users = Users { all: users as u32, able: (users - excluded) as u32, words: &words };
    match too_few_users(&scenario.training, policy, Some(users)).first() {
        Some(short) => Err(Error::Usage(format!("{}: {}", short.path.join("."), short.message))),
        None => Ok(()),
    }
}
