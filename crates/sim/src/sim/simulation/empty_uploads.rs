//! Tells whether a run's uploads said nothing.

use crate::sim::outcome::{Flow, RoundRecord};
use crate::sim::world::World;
use fedrecsim_methods::method::Phase;

/// Returns whether updates were used that have blocks, and nothing travelled up but headers,
/// positions and scalars.
pub(super) fn were_all(rounds: &[RoundRecord], up: &Flow, world: &World) -> bool {
    let layouts = || (0..world.phases() as u8).map(|phase| world.upload_layout(Phase(phase)));
    let most = layouts()
        .map(|layout| layout.scalar_bytes())
        .max()
        .unwrap_or(0) as u64;
    layouts().any(|layout| layout.values() > 0)
        && rounds.iter().any(|round| round.aggregated > 0)
        && up.values <= up.frames * most
}
