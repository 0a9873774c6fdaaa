//! Collects what `--save-users` writes of single users.

use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::ids::UserId;
use crate::report::model_file::UserArrays;
use crate::sim::Simulation;

/// Returns what the model's file is to say of `users`, at the end of `simulation`. After a run that was stopped within a
/// round it is nothing, as some of the users are in training then.
///
/// # Errors
/// [`Error::Usage`] for a user who is not there, and for a method whose users keep no table.
pub fn saved_users(users: &[UserId], simulation: &Simulation) -> Result<Vec<UserArrays>> {
    if simulation.stopped_by().is_some() {
        return Ok(Vec::new());
    }
    let arrays = |user: &UserId| {
        let table = simulation.personal_table(*user)?.ok_or_else(|| {
            Error::Usage("--save-users: the users of this method keep no item table of their own".to_owned())
        })?;
        Ok(UserArrays { user: *user, table, items: items_of(*user, &simulation.world().dataset) })
    };
    users.iter().map(arrays).collect()
}

/// Returns for each item whether `user` trains on it, or has it held out.
fn items_of(user: UserId, dataset: &Dataset) -> Vec<u8> {
    let mut items = vec![0; dataset.items()];
    let training = dataset.own_data(user);
    training.items().iter().for_each(|item| items[*item as usize] = 1);
    let held_out = [(dataset.validation_item(user), 2), (dataset.test_item(user), 3)];
    held_out.into_iter().for_each(|(item, number)| {
        if let Some(item) = item {
            items[item.index()] = number;
        }
    });
    items
}
