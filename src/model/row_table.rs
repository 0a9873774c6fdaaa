//! A private item table that holds only the rows its owner has touched.
//!
//! A client trains a few hundred of the catalogue's rows in a round. Every other row only decays, by the same
//! factor, so it needs neither work nor memory: the factor is remembered per participation and applied when
//! the row is next read. Rows never touched are the shared initial draw times everything that has decayed since.

use super::table::Table;

/// Rows per allocation: large enough to amortise it, small enough that the last one wastes little.
const ROWS_PER_CHUNK: usize = 32;

/// Touched rows of an m x k table, in order of first touch, with an index sorted by item.
#[derive(Clone, Debug)]
pub struct RowTable {
    dimension: usize,
    /// Touched items, ascending.
    items: Vec<u32>,
    /// Slot of each of them.
    slots: Vec<u32>,
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
        Self {
            dimension,
            items: Vec::new(),
            slots: Vec::new(),
            chunks: Vec::new(),
            written: Vec::new(),
            catch_up: vec![1.0],
        }
    }

    /// Number of rows held.
    pub fn touched(&self) -> usize {
        self.items.len()
    }

    /// Bytes of values, index and history.
    pub fn resident_bytes(&self) -> usize {
        self.chunks.len() * ROWS_PER_CHUNK * self.dimension * 4 + self.items.len() * 12 + self.catch_up.len() * 4
    }

    /// Visits `rows` (ascending, distinct) in order: position in `rows`, values as stored, and the factor that
    /// brings them up to date. Rows never touched come from `initial`.
    #[inline]
    pub fn for_each_row(&self, rows: &[u32], initial: &Table, mut visit: impl FnMut(usize, &[f32], f32)) {
        let mut place = 0;
        for (position, &row) in rows.iter().enumerate() {
            place = self.advance(place, row);
            if self.items.get(place) == Some(&row) {
                let slot = self.slots[place] as usize;
                visit(position, self.slot_values(slot), self.catch_up[self.written[slot] as usize]);
            } else {
                visit(position, initial.row(row as usize), self.catch_up[0]);
            }
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
        self.insert_missing(rows);
        let mut place = 0;
        for (position, &row) in rows.iter().enumerate() {
            place = self.advance(place, row);
            let slot = self.slots[place] as usize;
            self.written[slot] = participation;
            let start = slot % ROWS_PER_CHUNK * self.dimension;
            write(position, &mut self.chunks[slot / ROWS_PER_CHUNK][start..start + self.dimension]);
        }
    }

    /// Feeds the touched rows to `sink` as they read now: item, then values, in ascending order of items.
    pub fn visit_bytes(&self, sink: &mut dyn FnMut(&[u8])) {
        let mut bytes = Vec::with_capacity(4 + self.dimension * 4);
        for (item, slot) in self.items.iter().zip(&self.slots) {
            let scale = self.catch_up[self.written[*slot as usize] as usize];
            bytes.clear();
            bytes.extend(item.to_le_bytes());
            bytes.extend(self.slot_values(*slot as usize).iter().flat_map(|value| (value * scale).to_le_bytes()));
            sink(&bytes);
        }
        sink(&self.catch_up[0].to_le_bytes());
    }

    /// First place at or after `place` whose item is not below `row`.
    #[inline]
    fn advance(&self, place: usize, row: u32) -> usize {
        // Galloping: rows are a dense sample early on and the index much longer than the rows later.
        let rest = &self.items[place..];
        let mut reach = 1;
        while reach < rest.len() && rest[reach] < row {
            reach *= 2;
        }
        place + rest[..rest.len().min(reach + 1)].partition_point(|item| *item < row)
    }

    /// Gives a slot to every row that has none, and merges them into the sorted index.
    fn insert_missing(&mut self, rows: &[u32]) {
        let mut place = 0;
        let missing: Vec<u32> = rows
            .iter()
            .copied()
            .filter(|&row| {
                place = self.advance(place, row);
                self.items.get(place) != Some(&row)
            })
            .collect();
        if missing.is_empty() {
            return;
        }
        let first_slot = self.items.len();
        let slots = first_slot + missing.len();
        while self.chunks.len() * ROWS_PER_CHUNK < slots {
            self.chunks.push(vec![0.0; ROWS_PER_CHUNK * self.dimension].into_boxed_slice());
        }
        reserve_tightly(&mut self.written, missing.len());
        self.written.resize(slots, 0);
        // Merge from the back, in place.
        reserve_tightly(&mut self.items, missing.len());
        reserve_tightly(&mut self.slots, missing.len());
        self.items.resize(slots, 0);
        self.slots.resize(slots, 0);
        let (mut old, mut new) = (first_slot, missing.len());
        for target in (0..slots).rev() {
            if new > 0 && (old == 0 || missing[new - 1] > self.items[old - 1]) {
                new -= 1;
                self.items[target] = missing[new];
                self.slots[target] = (first_slot + new) as u32;
            } else {
                old -= 1;
                self.items[target] = self.items[old];
                self.slots[target] = self.slots[old];
            }
        }
    }

    #[inline]
    fn slot_values(&self, slot: usize) -> &[f32] {
        let start = slot % ROWS_PER_CHUNK * self.dimension;
        &self.chunks[slot / ROWS_PER_CHUNK][start..start + self.dimension]
    }
}

/// Grows by an eighth rather than by half of doubling: a population's tables are most of a run's memory.
fn reserve_tightly<T>(values: &mut Vec<T>, additional: usize) {
    if values.capacity() - values.len() < additional {
        values.reserve_exact(additional.max(values.len() / 8));
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
            let all: Vec<u32> = (0..ITEMS as u32).collect();
            let mut seen = 0;
            table.for_each_row(&all, &initial, |position, values, scale| {
                for (value, expected) in values.iter().zip(&dense[position]) {
                    assert!((value * scale - expected).abs() <= 1e-5 * expected.abs(), "row {position}");
                }
                seen += 1;
            });
            prop_assert_eq!(seen, ITEMS);
        }
    }

    #[test]
    fn a_decay_to_zero_leaves_zeros_and_no_division() {
        // learning rate x weight decay = 1 scales other rows by exactly 0.
        let initial = initial();
        let mut table = RowTable::new(DIMENSION);
        table.write_rows(&[1], 0.0, |_, values| values.fill(5.0));
        table.write_rows(&[2], 0.5, |_, values| values.fill(6.0));
        let mut read = Vec::new();
        table.for_each_row(&[0, 1, 2], &initial, |_, values, scale| read.push(values[0] * scale));
        assert_eq!(read, [0.0, 2.5, 6.0]);
    }
}
