//! Fits the columns of a header to rows that have one field more or less than it.

use csv::ByteRecord;

use super::columns::Columns;
use super::{listed, number, trimmed};

impl Columns {
    /// Fits the columns to the first row behind the header, and returns what that is taken for, if it
    /// does not have as many fields. `header` has the names, if all columns are found by them.
    ///
    /// # Errors
    /// What to do about a row with one field more, if that cannot be told.
    pub(super) fn fit(
        &mut self,
        header: Option<&ByteRecord>,
        row: &ByteRecord,
    ) -> Result<Option<&'static str>, String> {
        let last = row.len().saturating_sub(1);
        if row.len() == self.count + 1 && self.with_one_time(row).is_none() {
            if trimmed(row, last).is_empty() {
                self.count += 1;
                return Ok(Some("each row ends with a separator"));
            }
            if header.is_some() && row_name(row).is_some() {
                self.shift();
                return Ok(Some(
                    "the first field of each row is its number, as R writes it",
                ));
            }
            return Err(format!(
                "the header has a name less than the row behind it, which is {}: give each column a name; if the \
                 first field is the name of the row, write none, as with `write.csv(frame, row.names = FALSE)` of R",
                listed(row)
            ));
        }
        let is_unnamed = |header: &ByteRecord| trimmed(header, self.count - 1).is_empty();
        if row.len() + 1 == self.count && header.is_some_and(is_unnamed) {
            self.count -= 1;
            return Ok(Some("the header ends with a separator"));
        }
        Ok(None)
    }

    /// Returns why a row has no number of its own, which increases from row to row; `last` is that of the
    /// row before.
    pub(super) fn wrong_number(&self, row: &ByteRecord, last: &mut Option<i64>) -> Option<String> {
        if !self.has_row_names {
            return None;
        }
        let name = row_name(row);
        let is_next = name.is_some() && name > *last;
        *last = name;
        (!is_next).then(|| {
            "the rows have a field more than the header, and the first ones are no numbers of rows: give each column \
             a name in the header"
                .to_owned()
        })
    }
}

/// Returns the number of a row in its first field.
fn row_name(row: &ByteRecord) -> Option<i64> {
    number(row, 0)
}
