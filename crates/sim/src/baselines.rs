//! The trivial baselines that are reported beside every result: popularity and chance, or mean
//! ratings.

use std::collections::BTreeMap;
use std::ops::Range;

use super::evaluation::{self, UserAccuracy};
use super::outcome::SplitAccuracy;
use super::world::World;
use fedrecsim_core::Result;
use fedrecsim_methods::{Method, Placement, Problem, baselines};
use fedrecsim_scenario::MethodSpec;

/// The names of the baselines, each with the accuracy of some users.
pub type UserAccuracies = Vec<(String, Vec<UserAccuracy>)>;

/// Returns the accuracy of each baseline for the evaluated users at these places of their list, on
/// the split and the candidates of `world`.
///
/// # Errors
/// As [`evaluation::of_untrained`].
pub(crate) fn accuracies(world: &World, places: Range<usize>) -> Result<UserAccuracies> {
    let problem = Problem::new(&world.dataset, world.streams, Placement::Untrained);
    let mut all = Vec::new();
    for entry in baselines::beside(world.dataset.holds_items_out()) {
        let spec = MethodSpec {
            name: entry.name.to_owned(),
            parameters: serde_json::json!({}),
        };
        let method: Box<dyn Method> = (entry.build)(&spec.parameters, &problem)?;
        all.push((
            spec.name,
            evaluation::of_untrained(world, places.clone(), |user| method.client(user))?,
        ));
    }
    Ok(all)
}

/// Returns the means over the evaluated users who are there from the start.
pub(crate) fn accuracy(
    accuracies: UserAccuracies,
    world: &World,
) -> BTreeMap<String, SplitAccuracy> {
    accuracies
        .into_iter()
        .map(|(name, all)| (name, evaluation::accuracy(&all, world, None)))
        .collect()
}
