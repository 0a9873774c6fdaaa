//! What is asked of uploads: what a server could read out of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use fedrecsim_core::ids::Round;

/// Has a probe guess, from decoded uploads alone, which items their senders have rated, and reports
/// how well it guesses. Nothing here changes a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Audit")]
pub struct AuditSpec {
    /// The uploads of every so many rounds are looked at.
    #[schemars(range(min = 1))]
    pub every_rounds: u32,
    /// The uploads of so many users are looked at, those of the lowest numbers. For each of them,
    /// the probe remembers three numbers for every item.
    #[schemars(range(min = 1))]
    pub users: u32,
}

impl Default for AuditSpec {
    fn default() -> Self {
        Self {
            every_rounds: 1,
            users: 1000,
        }
    }
}

impl AuditSpec {
    /// Returns whether the uploads of `round` are looked at.
    pub fn is_due(&self, round: Round) -> bool {
        (round.0 + 1).is_multiple_of(self.every_rounds)
    }
}
