//! Access to what a simulation has learned: the server's model, and the item tables that users keep
//! for themselves.

use super::Simulation;
use super::actors::Command;
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::ids::UserId;
use fedrecsim_data::dataset::KeptItems;
use fedrecsim_methods::method::PersonalTable;
use fedrecsim_model::model::blocks::Model;

impl Simulation {
    /// Returns the server's model.
    ///
    /// # Errors
    /// Defects of the simulator.
    pub fn model(&self) -> Result<Model> {
        self.ask(|reply| Command::Model { reply })?
    }

    /// Returns the item table that `user` keeps for itself, for whoever studies the method; `None`
    /// if its users keep none.
    ///
    /// # Errors
    /// [`Error::Usage`] for a user who is not there, or is in training, and defects of the
    /// simulator.
    pub fn personal_table(&self, user: UserId) -> Result<Option<PersonalTable>> {
        self.check_is_there(user)?;
        self.ask(|reply| Command::PersonalTable { user, reply })?
            .map_err(|error| self.with_way_on(error))
    }

    /// Returns the items that `user` trains on, and those that are held out, wherever its ratings
    /// are.
    ///
    /// # Errors
    /// [`Error::Usage`] for a user who is not there, and defects of the simulator.
    pub fn items_of(&self, user: UserId) -> Result<KeptItems> {
        self.check_is_there(user)?;
        self.ask(|reply| Command::Items { user, reply })?
            .map_err(|error| self.with_way_on(error))
    }

    fn check_is_there(&self, user: UserId) -> Result<()> {
        let users = self.world.dataset.users();
        if user.index() < users {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "there is no {user}: the users are 0 to {}",
            users - 1
        )))
    }

    /// Replaces the server's model by `model`. The result digest is marked with it, so that it
    /// differs from that of every run without such a change.
    ///
    /// # Errors
    /// [`Error::Usage`] in the middle of a round or after a stop, and for a model of other blocks
    /// or with a value that is not finite.
    pub fn set_model(&mut self, model: Model) -> Result<()> {
        self.check_is_between_rounds("given another model")?;
        if model.layout() != self.world.method.initial().layout() {
            return Err(Error::Usage(
                "the model has other blocks than the method's".to_owned(),
            ));
        }
        let values = model.tables().flat_map(|(_, table)| table.as_slice());
        if let Some(value) = values.into_iter().find(|value| !value.is_finite()) {
            return Err(Error::Usage(format!(
                "the model has a value that is not finite: {value}"
            )));
        }
        self.ask(|reply| Command::SetModel { model, reply })?
    }
}
