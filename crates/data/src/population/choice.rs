//! Chooses the users whom a fault rule concerns.

use std::fmt::Debug;

use fedrecsim_core::ids::UserId;
use fedrecsim_scenario::scenario::FaultSpec;

/// Knows whom fault rules concern. Whoever applies the rules needs to know nothing else of users.
pub(super) trait Choice: Debug + Send + Sync {
    /// Returns whether the rule of this number in the scenario concerns `user`.
    fn concerned_by(&self, number: u32, rule: &FaultSpec, user: UserId) -> bool;
}
