//! Updates whose rows hold changes.

use bytes::BytesMut;

use super::{Base, RowSet, TableUpdate, VALUE_BYTES};
use crate::error::Result;

impl TableUpdate {
    /// Returns the update of which this one holds the changes: to each row that is listed, what it would be if it were
    /// not listed is added (one addition in single precision).
    ///
    /// # Errors
    /// [`Error::Update`](crate::error::Error::Update) as for [`Self::check_base`].
    pub fn added_to(mut self, base: Base<'_>) -> Result<Self> {
        self.check_base(base)?;
        let Base::Table(table) = base else { return Ok(self) };
        let mut bytes = match std::mem::take(&mut self.values).try_into_mut() {
            Ok(own) => own,
            Err(shared) => BytesMut::from(&shared[..]),
        };
        let (changes, _) = bytes.as_chunks_mut::<VALUE_BYTES>();
        match &self.rows {
            RowSet::All => add(changes, table.as_slice(), self.others_scale),
            RowSet::Listed(rows) => {
                for (changes, row) in changes.chunks_exact_mut(self.shape.dimension.max(1)).zip(rows) {
                    add(changes, table.row(*row as usize), self.others_scale);
                }
            }
        }
        self.values = bytes.freeze();
        Ok(self)
    }
}

/// Adds `scale` times the values of `base` to little-endian changes.
#[inline]
fn add(changes: &mut [[u8; VALUE_BYTES]], base: &[f32], scale: f32) {
    for (change, base) in changes.iter_mut().zip(base) {
        *change = (base * scale + f32::from_le_bytes(*change)).to_le_bytes();
    }
}
