//! What the report of a run holds.

crate::keys! {
    /// What the report holds. Nothing here changes a result.
    #[derive(Copy)]
    pub struct ReportSpec {
        /// The report has `users.csv`, a line for each user, up to this many users; 0 leaves it
        /// out. What it holds takes about 100 bytes of memory for each user during the run, and 16
        /// for each metric. Intervals over users in the tables of a study need it.
        users_csv_limit: u32 = 100_000;
    }
}

impl ReportSpec {
    /// Returns whether the report lists each one of `users` users.
    pub fn lists(&self, users: usize) -> bool {
        users <= self.users_csv_limit as usize && self.users_csv_limit > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a run of a million users keeps accounts that nobody has asked for.
    #[test]
    fn users_are_listed_up_to_the_limit() {
        let default = ReportSpec::default();
        assert_eq!(
            [1, 100_000, 100_001].map(|users| default.lists(users)),
            [true, true, false]
        );
        assert!(!ReportSpec { users_csv_limit: 0 }.lists(0));
    }
}
