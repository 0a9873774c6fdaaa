//! Collects what `--save-users` writes of single users.

use fedrecsim_core::error::Result;
use fedrecsim_core::ids::UserId;
use fedrecsim_data::dataset::KeptItems;
use fedrecsim_report::report::model_file::UserArrays;
use fedrecsim_sim::sim::Simulation;

/// Returns what the model's file is to say of `users`, at the end of `simulation`. After a run that
/// was stopped within a round it is nothing, as some of the users are in training then.
///
/// # Errors
/// [`Error::Usage`] for a user who is not there.
pub(crate) fn saved_users(users: &[UserId], simulation: &Simulation) -> Result<Vec<UserArrays>> {
    if simulation.stopped_by().is_some() {
        return Ok(Vec::new());
    }
    let arrays = |user: &UserId| {
        Ok(UserArrays {
            user: *user,
            table: simulation.personal_table(*user)?,
            items: marked(
                &simulation.items_of(*user)?,
                simulation.world().dataset.items(),
            ),
        })
    };
    users.iter().map(arrays).collect()
}

/// Returns for each item whether its user trains on it, or has it held out.
fn marked(kept: &KeptItems, all: usize) -> Vec<u8> {
    let mut items = vec![0; all];
    kept.training
        .iter()
        .for_each(|item| items[*item as usize] = 1);
    let held_out = [(kept.validation, 2), (kept.test, 3)];
    held_out.into_iter().for_each(|(item, number)| {
        if let Some(item) = item {
            items[item.index()] = number;
        }
    });
    items
}
