//! The identity of a world: a simulation that is restored must have been saved in the same one.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::world::World;
use fedrecsim_core::{Error, Result};
use fedrecsim_data::dataset::given::is_given;
use fedrecsim_scenario::Policy;

/// The parts of a world that a saved simulation is checked against. A command compares the whole
/// scenario and the data as well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Identity {
    policy: Policy,
    method: String,
    seed: u64,
    /// The numbers of users, items and training ratings.
    sizes: [u64; 3],
    /// The name of ratings in memory, which is that of their rows.
    given: Option<PathBuf>,
    /// The digest of the parameters that it has started from.
    start: Option<[u8; blake3::OUT_LEN]>,
}

impl Identity {
    /// Returns the identity of `world`.
    pub(crate) fn of(world: &World) -> Self {
        let dataset = &world.dataset;
        Self {
            policy: world.policy.clone(),
            method: world.scenario.method.name.clone(),
            seed: world.scenario.seed,
            given: world
                .scenario
                .dataset
                .path
                .clone()
                .filter(|path| is_given(path)),
            start: world.start.as_ref().map(|start| *start.digest().as_bytes()),
            sizes: [
                dataset.users() as u64,
                dataset.items() as u64,
                dataset.training_ratings() as u64,
            ],
        }
    }

    /// Checks that `world` has this identity.
    ///
    /// # Errors
    /// [`Error::Unrestorable`], saying what differs.
    pub(crate) fn check(&self, world: &World) -> Result<()> {
        let ours = Self::of(world);
        let refuse = |what: &str| {
            Err(Error::Unrestorable(format!(
                "the saved simulation is of another world: {what}"
            )))
        };
        if (&self.method, self.seed) != (&ours.method, ours.seed) {
            return refuse(&format!(
                "it ran `{}` with the seed {}",
                self.method, self.seed
            ));
        }
        if self.sizes != ours.sizes {
            return refuse("its users, items or ratings are not as many");
        }
        if self.given != ours.given {
            return refuse("its ratings in memory had other rows");
        }
        if self.start != ours.start {
            return refuse("it started from other parameters (training.start)");
        }
        if self.policy != ours.policy {
            return refuse(&format!(
                "the server ran its steps under the policy `{}`, with other settings",
                self.policy.name
            ));
        }
        Ok(())
    }
}
