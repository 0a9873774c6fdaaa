//! A private item table that holds only the rows its owner has touched.
//!
//! A client trains a few hundred of the catalogue's rows in a round. Every other row only decays, by the same
//! factor, so it needs neither work nor memory: the factor is remembered per participation and applied when
//! the row is next read. Rows never touched are the shared initial draw times everything that has decayed since.

use super::row_index::RowIndex;
use super::table::Table;

/// Rows per allocation: large enough to amortise it, small enough that the last one wastes little.
const ROWS_PER_CHUNK: usize = 32;

/// Touched rows of an m x k table, in order of first touch.
#[derive(Clone, Debug)]
pub struct RowTable {
    dimension: usize,
    index: RowIndex,
    /// Values of slot s: chunk s / ROWS_PER_CHUNK.
    chunks: Vec<Box<[f32]>>,
    /// Participation at which each slot was last written.
    written: Vec<u32>,
    /// `catch_up[p]`: product of the decays after participation p; one entry more than participations.
    catch_up: Vec<f32>,
}

impl RowTable {
    /// A table of `dimension` columns that nobody has touched.
    pub fn new(dimension: usize) -> Self {
        let index = RowIndex::default();
        Self { dimension, index, chunks: Vec::new(), written: Vec::new(), catch_up: vec![1.0] }
    }

    /// Number of rows held.
    pub fn touched(&self) -> usize {
        self.index.len()
    }

    /// Bytes of values, index and history.
    pub fn resident_bytes(&self) -> usize {
        self.chunks.len() * ROWS_PER_CHUNK * self.dimension * 4
            + self.index.resident_bytes()
            + (self.written.capacity() + self.catch_up.capacity()) * 4
    }

    /// Row `row`: its values as stored, and the factor that brings them up to date. A row never touched comes
    /// from `initial`.
    #[inline]
    pub fn row<'a>(&'a self, row: u32, initial: &'a Table) -> (&'a [f32], f32) {
        match self.index.slot(row) {
            Some(slot) => (self.slot_values(slot as usize), self.catch_up[self.written[slot as usize] as usize]),
            None => (initial.row(row as usize), self.catch_up[0]),
        }
    }

    /// Ends a participation: every row decays by `others_scale`, except `rows` (ascending, distinct), which get
    /// the values that `write` puts into the slice it is given with the row's position.
    pub fn write_rows(&mut self, rows: &[u32], others_scale: f32, mut write: impl FnMut(usize, &mut [f32])) {
        for factor in &mut self.catch_up {
            *factor *= others_scale;
        }
        let participation = self.catch_up.len() as u32;
        self.catch_up.push(1.0);
        self.index.insert_missing(rows);
        let held = self.index.len();
        while self.chunks.len() * ROWS_PER_CHUNK < held {
            self.chunks.push(vec![0.0; ROWS_PER_CHUNK * self.dimension].into_boxed_slice());
        }
        if self.written.capacity() < held {
            // By an eighth rather than to the double: a population's tables are most of a run's memory.
            self.written.reserve_exact((held - self.written.len()).max(held / 8));
        }
        self.written.resize(held, 0);
        for (position, &row) in rows.iter().enumerate() {
            let Some(slot) = self.index.slot(row) else { continue };
            let slot = slot as usize;
            self.written[slot] = participation;
            let start = slot % ROWS_PER_CHUNK * self.dimension;
            write(position, &mut self.chunks[slot / ROWS_PER_CHUNK][start..start + self.dimension]);
        }
    }

    /// Feeds the touched rows to `sink` as they read now: item, then values, in ascending order of items.
    pub fn visit_bytes(&self, sink: &mut dyn FnMut(&[u8])) {
        let mut bytes = Vec::new();
        for (item, slot) in self.index.iter() {
            let scale = self.catch_up[self.written[slot as usize] as usize];
            bytes.clear();
            bytes.extend(item.to_le_bytes());
            bytes.extend(self.slot_values(slot as usize).iter().flat_map(|value| (value * scale).to_le_bytes()));
            sink(&bytes);
        }
        sink(&self.catch_up[0].to_le_bytes());
    }

    #[inline]
    fn slot_values(&self, slot: usize) -> &[f32] {
        let start = slot % ROWS_PER_CHUNK * self.dimension;
        &self.chunks[slot / ROWS_PER_CHUNK][start..start + self.dimension]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::table::TableShape;

    const ITEMS: usize = 40;
    const DIMENSION: usize = 3;

    fn initial() -> Table {
        let mut value = 0.0;
        Table::from_fn(TableShape { rows: ITEMS, dimension: DIMENSION }, || {
            value += 1.0;
            value
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// If this fails, a client trains or scores with rows that a dense table would not have.
        #[test]
        fn behaves_like_a_dense_table(
            participations in prop::collection::vec(
                (prop::collection::btree_set(0u32..ITEMS as u32, 0..ITEMS), 0.0f32..1.0), 0..12)
        ) {
            let initial = initial();
            let mut dense: Vec<Vec<f32>> = (0..ITEMS).map(|row| initial.row(row).to_vec()).collect();
            let mut table = RowTable::new(DIMENSION);
            let mut touched = std::collections::BTreeSet::new();
            for (number, (rows, scale)) in participations.iter().enumerate() {
                let rows: Vec<u32> = rows.iter().copied().collect();
                dense.iter_mut().flatten().for_each(|value| *value *= scale);
                table.write_rows(&rows, *scale, |position, values| {
                    values.fill((number * 1000) as f32 + rows[position] as f32);
                });
                for &row in &rows {
                    dense[row as usize].fill((number * 1000) as f32 + row as f32);
                }
                touched.extend(rows);
            }
            prop_assert_eq!(table.touched(), touched.len());
            for row in 0..ITEMS as u32 {
                let (values, scale) = table.row(row, &initial);
                prop_assert_eq!(values.len(), DIMENSION);
                for (value, expected) in values.iter().zip(&dense[row as usize]) {
                    prop_assert!((value * scale - expected).abs() <= 1e-5 * expected.abs(), "row {}", row);
                }
            }
        }
    }

    #[test]
    fn a_decay_to_zero_leaves_zeros_and_no_division() {
        // learning rate x weight decay = 1 scales other rows by exactly 0.
        let initial = initial();
        let mut table = RowTable::new(DIMENSION);
        table.write_rows(&[1], 0.0, |_, values| values.fill(5.0));
        table.write_rows(&[2], 0.5, |_, values| values.fill(6.0));
        let read = [0, 1, 2].map(|row| {
            let (values, scale) = table.row(row, &initial);
            values[0] * scale
        });
        assert_eq!(read, [0.0, 2.5, 6.0]);
    }
}
