//! What `run` and `resume` are about to run, which is the same in every process of a run.

use std::path::{Path, PathBuf};

use super::Session;
use super::args::InputArgs;
use super::inputs::{Inputs, beside_scenario, data_directories};
use super::ranks::{Side, contents, load, named};
use crate::method::Entry;
use crate::{Error, Result};
use fedrecsim_core::UserId;
use fedrecsim_data::dataset::with_reason;
use fedrecsim_ranks::{self as ranks, Crew, Identity};
use fedrecsim_report::study::file::or_study;
use fedrecsim_scenario::{self as scenario, Loaded, Override, Scenario, Strictness};
use fedrecsim_sim::checkpoint::Build;

/// A run that is about to begin or to go on.
pub(crate) struct Task {
    /// The scenario as the report shows it.
    pub scenario: Scenario,
    /// The same with its files where this process finds them.
    pub placed: Scenario,
    /// The warnings.
    pub warnings: Vec<String>,
    /// The folders with data sets.
    pub directories: Vec<PathBuf>,
    /// The file of the scenario; none if a checkpoint has it.
    pub file: Option<PathBuf>,
    /// The rounds of the checkpoint that the run goes on from, if it does.
    pub checkpoint: Option<u32>,
}

impl Task {
    /// Returns the task of a command that runs a scenario.
    ///
    /// # Errors
    /// Those of the scenario.
    pub(crate) fn of(input: &InputArgs, strictness: Strictness, session: &Session) -> Result<Self> {
        let Loaded { scenario, warnings } = scenario::load_with_warnings(
            &input.scenario,
            &Override::of_line(&input.overrides()),
            &session.vocabulary(),
            strictness,
        )
        .map_err(|error| or_study(error, &input.scenario))?;
        Ok(Self {
            placed: scenario.clone(),
            scenario,
            warnings,
            directories: data_directories(input.data_dir.as_deref()),
            file: Some(input.scenario.clone()),
            checkpoint: None,
        })
    }

    /// Returns what all processes must have in common before they read their data.
    ///
    /// # Errors
    /// Those of [`ranks::check`], of a program that cannot read its own file, and of a scenario that
    /// cannot be written.
    pub(crate) fn identity(&self) -> Result<Identity> {
        ranks::check(&self.scenario)?;
        let build = Build::running(&crate::PROGRAM, "")?.describe();
        let checkpoint = self.checkpoint.map_or("none".to_owned(), |rounds| {
            format!("that after round {rounds}")
        });
        Ok(named([
            ("build of the program", build.replace(", ", "\n")),
            ("scenario", self.scenario.name.clone()),
            ("resolved scenario", self.scenario.to_toml()?),
            ("checkpoint", checkpoint),
        ]))
    }

    /// Reads the data of this process. If it has others beside it, these have to agree on what they
    /// are about to run, and then on what they have read.
    ///
    /// # Errors
    /// Those of reading, and an error if another process cannot begin or is about to run something
    /// else.
    pub(crate) fn inputs(&self, crew: Option<&mut Crew>, methods: &[Entry]) -> Result<Inputs> {
        let inputs = self.read(crew, methods);
        let file = self.file.as_deref().unwrap_or(Path::new(""));
        inputs.map_err(|error| beside_scenario(error, file))
    }

    fn read(&self, crew: Option<&mut Crew>, methods: &[Entry]) -> Result<Inputs> {
        let Some(crew) = crew else {
            return Inputs::load(&self.placed, &self.directories, methods);
        };
        crew.agree(&self.identity()?, false)?;
        let place = (&self.placed, &self.directories[..], methods);
        let inputs = load(place, Side::Zero(crew))?;
        let inputs = inputs
            .ok_or_else(|| Error::Usage("the data of process 0 are incomplete".to_owned()))?;
        crew.agree(&contents(&inputs), true)?;
        Ok(inputs)
    }

    /// Returns the users of these names. What is no name is a list of names.
    ///
    /// # Errors
    /// [`Error::UnknownUser`] for a user who is not there.
    pub(crate) fn users_named(&self, names: &[String], inputs: &Inputs) -> Result<Vec<UserId>> {
        let user = |name: &str| inputs.world.dataset.user_named(name);
        let users_of = |name: &String| match user(name) {
            Err(_) if name.contains(',') => name.split(',').map(|name| user(name.trim())).collect(),
            found => found.map(|user| vec![user]),
        };
        let users: Result<Vec<Vec<UserId>>> = names.iter().map(users_of).collect();
        users
            .map(|users| users.concat())
            .map_err(|unknown| with_reason(unknown, &self.placed, &self.directories))
    }
}
