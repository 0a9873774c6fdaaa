//! What is asked of uploads: what a server could read out of them.

use fedrecsim_core::Round;

crate::keys! {
    /// Has a probe guess, from decoded uploads alone, which items their senders have rated, and
    /// reports how well it guesses. Nothing here changes a result.
    #[derive(Copy)]
    pub struct AuditSpec {
        /// The audit looks at the uploads of one round in this many.
        every_rounds: u32 = 1, >= 1;
        /// The audit looks at the uploads of this many users, those with the lowest numbers. For
        /// each of them, the probe remembers three numbers for every item.
        users: u32 = 1000, >= 1;
    }
}

impl AuditSpec {
    /// Returns whether the uploads of `round` are looked at.
    pub fn is_due(&self, round: Round) -> bool {
        (round.0 + 1).is_multiple_of(self.every_rounds)
    }
}
