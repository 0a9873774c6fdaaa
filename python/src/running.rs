//! A simulation that leaves checkpoints in a folder, or none.

use std::path::PathBuf;

use fedrecsim::cli::{Asked, Inputs, Keeping};
use fedrecsim_core::Error;
use fedrecsim_sim::outcome::RoundRecord;
use fedrecsim_sim::{self as sim, RoundObserver, Until};

/// What a folder is asked for: its path, the rounds between checkpoints, whether the last ones stay, and
/// whether the run goes on from what is there.
pub type Folder = (PathBuf, Option<u32>, bool, bool);

/// A simulation, and the folder that it leaves checkpoints in.
pub struct Running {
    pub simulation: sim::Simulation,
    pub inputs: Inputs,
    pub keeping: Option<Keeping>,
}

impl Running {
    /// Goes on to the end of a round, and leaves a checkpoint that is due then.
    pub fn step(&mut self, observer: &mut dyn RoundObserver) -> Result<Option<RoundRecord>, Error> {
        match &mut self.keeping {
            Some(keeping) => self.simulation.step_keeping(observer, keeping.store()),
            None => self.simulation.step_watched(observer),
        }
    }

    /// Goes on until `until`; `observer` gets every round that ends on the way.
    pub fn step_until(
        &mut self,
        until: Until,
        observer: &mut dyn RoundObserver,
    ) -> Result<(), Error> {
        match until {
            Until::Time(_) => self.simulation.step_until(until, observer),
            Until::Round(round) => {
                while self.simulation.rounds() < round && self.step(observer)?.is_some() {}
                Ok(())
            }
        }
    }
}

/// Claims a folder for a run.
pub fn claim(
    (folder, every, keep, resume): Folder,
    inputs: &Inputs,
    place: (&[String], &[PathBuf]),
) -> Result<Keeping, Error> {
    let asked = Asked {
        folder,
        every,
        keep,
        resume,
    };
    Keeping::claim(&asked, inputs, place)
}

/// Returns the state of a simulation between two rounds.
pub fn saved(simulation: &mut sim::Simulation) -> Result<Vec<u8>, Error> {
    let mut saved = Vec::new();
    simulation.save(&mut saved).map(|()| saved)
}
