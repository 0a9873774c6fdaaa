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
            if let Some(hint) = self.decimal_comma(row) {
                return Err(format!(
                    "the header has a name less than the row behind it, which is {}{hint}",
                    listed(row)
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

    /// Returns what to do about a row with one field more, if two of its fields seem to be a number with a comma
    /// before the decimals.
    pub(super) fn decimal_comma(&self, row: &ByteRecord) -> Option<String> {
        if self.separator != "," || row.len() != self.count + 1 || row.get(0) == Some(b"") {
            return None;
        }
        let is_digits = |place: usize, most: usize| {
            let field = trimmed(row, place);
            (1..=most).contains(&field.len()) && field.iter().all(u8::is_ascii_digit)
        };
        let mut values = self.rating.into_iter().chain(self.weight);
        let at = values.find(|&place| is_digits(place, 3) && is_digits(place + 1, 2))?;
        let behind = self.count - 1 - at;
        Some(format!(
            "; if a decimal comma separates {}, write a point in its place, as with `sed -E \
             's/^(([^,]*,){{{at}}}[0-9]+),([0-9]+(,[^,]*){{{behind}}})$/\\1.\\3/' FILE > mended.csv`",
            listed(&row.iter().skip(at).take(2).collect())
        ))
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
