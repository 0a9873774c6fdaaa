//! The trivial baselines that are reported beside every result: popularity and chance, or mean ratings.

use std::collections::BTreeMap;

use super::super::evaluation;
use super::super::outcome::SplitFigures;
use super::super::world::World;
use crate::error::Result;
use crate::method::{Method, Placement, Problem, baselines};
use crate::scenario::MethodSpec;

/// Returns the accuracy of each baseline on the split and the candidates of `world`.
///
/// # Errors
/// As [`evaluation::of_untrained`].
pub(super) fn score(world: &World) -> Result<BTreeMap<String, SplitFigures>> {
    let problem = Problem::new(&world.dataset, world.streams, Placement::Untrained);
    let mut scores = BTreeMap::new();
    for entry in baselines::beside(world.dataset.holds_items_out()) {
        let spec = MethodSpec { name: entry.name.to_owned(), parameters: serde_json::json!({}) };
        let method: Box<dyn Method> = (entry.build)(&spec.parameters, &problem)?;
        let figures = evaluation::of_untrained(world, |user| method.client(user))?;
        scores.insert(spec.name, figures);
    }
    Ok(scores)
}
