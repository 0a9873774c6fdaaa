//! Updates whose rows hold changes.

use super::{Base, TableUpdate, floats};
use crate::error::Result;

impl TableUpdate {
    /// Returns the update of which this one holds the changes: to each row that is listed, what it would be if it were
    /// not listed is added (one addition in single precision).
    ///
    /// # Errors
    /// [`Error::Update`](crate::error::Error::Update) as for [`Self::check_base`].
    pub fn added_to(self, base: Base<'_>) -> Result<Self> {
        self.check_base(base)?;
        let Base::Table(table) = base else { return Ok(self) };
        let mut values = Vec::with_capacity(self.values.len());
        for (row, changes) in self.iter() {
            let sums = floats(changes).zip(table.row(row)).map(|(change, base)| base * self.others_scale + change);
            sums.for_each(|value| values.extend(value.to_le_bytes()));
        }
        Ok(Self { values: values.into(), ..self })
    }
}
