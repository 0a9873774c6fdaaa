//! Says what somebody should look at before relying on a run over a file.

use super::Dataset;
use fedrecsim_scenario::{ColumnRef, DatasetSpec};

impl Dataset {
    /// Returns what was told from the ratings file and not said by its layout, and a line for each thing
    /// about the ratings that is probably not meant, with the key that changes it.
    pub fn remarks(&self, spec: &DatasetSpec) -> [Vec<String>; 2] {
        let mut warnings = self.warnings.clone();
        let facts = &self.totals.split;
        let rows = facts.repeated_rows;
        if rows > 0 && spec.repeated_pairs.is_none() {
            warnings.push(format!(
                "rows that repeat the user and the item of another row: {rows}; each counts as a positive of its \
                 own; dataset.repeated_pairs = \"last\" takes one of each pair, \"keep\" all without this warning"
            ));
        }
        let rows = facts.repeated_held_out_rows;
        if rows > 0 {
            warnings.push(format!(
                "rows of the validation or test part whose item their user has in an earlier part as well: {rows}; \
                 they are not held out (dataset.columns.part)"
            ));
        }
        let rating: Option<&ColumnRef> = spec.columns.as_ref().and_then(|c| c.rating.as_ref());
        let (low, high) = self.totals.range.unwrap_or((1.0, 1.0));
        let low_rows = facts.positives_not_above_zero;
        if self.holds_items_out() && low_rows > 0 {
            warnings.push(format!(
                "ratings of 0 or less that count as positives: {low_rows}; dataset.positive_from says from which \
                 rating a row is a positive"
            ));
        } else if rating.is_some() && low == high {
            warnings.push(format!(
                "all ratings are {low}, so that no method can learn their values \
                 (dataset.columns.rating)"
            ));
        }
        if facts.unusable_users > 0 {
            warnings.push(format!(
                "users left out since the run cannot serve them: {} (dataset.on_unusable_user)",
                facts.unusable_users
            ));
        }
        [self.told.clone(), warnings]
    }
}
