//! Holds a private item table that stores only the rows that its owner has touched.
//!
//! A client trains a few hundred rows of the catalogue in a round. All other rows only decay, by
//! the same factor. So each row has a scale that decays instead of the values, and that is applied
//! when the row is next read. A row that was never touched is the shared initial draw times the
//! product of all decays.

use super::archive::{Archive, ArchiveReader, damaged};
use super::kernel::{RowSink, RowSource, prefetch};
use super::row_index::{ABSENT, RowIndex};
use super::table::Table;
use fedrecsim_core::error::Result;
use fedrecsim_core::memory;

/// The number of rows per allocation: enough to amortise it, and few enough to waste little of the
/// last one.
const ROWS_PER_CHUNK: usize = 32;

/// The purpose of memory for rows.
const PURPOSE: &str = "more rows of a device's private table";

/// How many rows prefetching runs ahead of reading: about as many as memory delivers at once.
const ROWS_AHEAD: usize = 16;

/// Holds the touched rows of an m x k table, in the order of their first touch.
#[derive(Clone, Debug)]
pub struct RowTable {
    dimension: usize,
    index: RowIndex,
    /// The values. Those of slot s are in chunk s / ROWS_PER_CHUNK.
    chunks: Vec<Box<[f32]>>,
    /// The scale of each slot, which is the product of the decays since it was last written.
    scales: Vec<f32>,
    /// The scale of the rows never touched, which is the product of all decays.
    untouched_scale: f32,
}

impl RowTable {
    /// Makes a table of `dimension` columns without touched rows.
    pub fn new(dimension: usize) -> Self {
        Self {
            dimension,
            index: RowIndex::default(),
            chunks: Vec::new(),
            scales: Vec::new(),
            untouched_scale: 1.0,
        }
    }

    /// Makes a table whose rows are all touched and have the values of `table`.
    pub fn holding(table: &Table) -> Self {
        let shape = table.shape();
        let rows: Vec<u32> = (0..shape.rows as u32).collect();
        let mut held = Self::new(shape.dimension);
        held.write_rows(&rows, 1.0, &mut Vec::new(), |row, values| {
            values.copy_from_slice(table.row(row))
        });
        held
    }

    /// Returns the whole table; rows never touched come from `initial`.
    pub fn whole(&self, initial: &Table) -> Table {
        let mut whole = Table::zeros(initial.shape());
        let rows: Vec<u32> = (0..initial.shape().rows as u32).collect();
        self.read_rows(&rows, initial, &mut Vec::new(), |row, stored, scale| {
            let values = whole.row_mut(row).iter_mut().zip(stored);
            values.for_each(|(value, stored)| *value = stored * scale);
        });
        whole
    }

    /// Returns the number of columns.
    pub(crate) fn dimension(&self) -> usize {
        self.dimension
    }

    /// Reads `rows`. Calls `take` for each with its position in `rows`, its values as stored, and
    /// the factor that brings them up to date. A row never touched comes from `initial`. `slots` is
    /// scratch memory.
    pub fn read_rows<'a>(
        &'a self,
        rows: &[u32],
        initial: &'a Table,
        slots: &mut Vec<u32>,
        mut take: impl FnMut(usize, &'a [f32], f32),
    ) {
        self.find(rows, slots);
        for (position, &row) in rows.iter().enumerate() {
            let (values, scale) = self
                .held(slots, position)
                .unwrap_or_else(|| (initial.row(row as usize), self.untouched_scale));
            take(position, values, scale);
        }
    }

    /// Replaces `slots` by those of `rows`, for [`Self::held`] and [`Self::write_found`].
    pub(crate) fn find(&self, rows: &[u32], slots: &mut Vec<u32>) {
        self.index.find(rows, slots);
    }

    /// Returns the values as stored of the row whose slot is at `position` of `slots`, and the
    /// factor that brings them up to date; `None` if it was never written. It prefetches rows that
    /// come later.
    #[inline(always)]
    pub(crate) fn held(&self, slots: &[u32], position: usize) -> Option<(&[f32], f32)> {
        if let Some(&later) = slots.get(position + ROWS_AHEAD) {
            self.prefetch_slot(later);
        }
        let slot = slots[position];
        (slot != ABSENT).then(|| (self.slot_values(slot as usize), self.scales[slot as usize]))
    }

    /// Ends a participation. All rows decay by `others_scale`, except `rows` (ascending, distinct),
    /// which get the values that `write` puts into the slice that it is given with the row's
    /// position. `slots` is scratch memory.
    pub fn write_rows(
        &mut self,
        rows: &[u32],
        others_scale: f32,
        slots: &mut Vec<u32>,
        write: impl FnMut(usize, &mut [f32]),
    ) {
        self.index.find(rows, slots);
        self.write_found(rows, others_scale, slots, write);
    }

    /// Does what [`Self::write_rows`] does for rows whose slots [`Self::find`] has found.
    pub(crate) fn write_found(
        &mut self,
        rows: &[u32],
        others_scale: f32,
        slots: &mut Vec<u32>,
        mut write: impl FnMut(usize, &mut [f32]),
    ) {
        self.make_writable(rows, others_scale, slots);
        for (position, slot) in slots.iter().enumerate() {
            write(position, self.write_slot(*slot));
        }
    }

    /// Looks `rows` (ascending, distinct) up, to be gathered as [`Self::read_rows`] reads them and
    /// perhaps written later. `slots` is scratch memory.
    pub fn found<'a>(
        &'a mut self,
        rows: &'a [u32],
        initial: &'a Table,
        slots: &'a mut Vec<u32>,
    ) -> FoundRows<'a> {
        self.index.find(rows, slots);
        FoundRows {
            table: self,
            rows,
            slots,
            initial,
        }
    }

    /// Decays every row by `others_scale`, and makes room for those of `rows` that were never
    /// written. `slots` are the slots that have been found for `rows`.
    fn make_writable(&mut self, rows: &[u32], others_scale: f32, slots: &mut Vec<u32>) {
        if others_scale != 1.0 {
            self.scales
                .iter_mut()
                .for_each(|scale| *scale *= others_scale);
            self.untouched_scale *= others_scale;
        }
        if slots.contains(&ABSENT) {
            self.index.insert_missing(rows);
            self.make_room();
            self.index.find(rows, slots);
        }
    }

    /// Returns the values of a slot to write to, and gives it a scale of 1.
    #[inline(always)]
    fn write_slot(&mut self, slot: u32) -> &mut [f32] {
        let slot = slot as usize;
        self.scales[slot] = 1.0;
        let start = slot % ROWS_PER_CHUNK * self.dimension;
        &mut self.chunks[slot / ROWS_PER_CHUNK][start..start + self.dimension]
    }

    /// Appends the table to `archive` as it is stored, so that the restored table has the same
    /// bits.
    pub(crate) fn save(&self, archive: &mut Archive) {
        self.index.save(archive);
        archive.put(&(self.untouched_scale, &self.scales));
        let mut values = Vec::new();
        let held = self.scales.len() * self.dimension;
        memory::reserve_or_unwind(&mut values, held, "a copy of a device's private table");
        values.extend(self.chunks.iter().flatten().take(held));
        archive.put_values(&values);
    }

    /// Reads what [`Self::save`] appended for a table of `dimension` columns.
    ///
    /// # Errors
    /// [`Error::Unrestorable`](fedrecsim_core::error::Error::Unrestorable) if the archive does not hold such a
    /// table.
    pub(crate) fn restore(archive: &mut ArchiveReader, dimension: usize) -> Result<Self> {
        let index = RowIndex::restore(archive)?;
        let (untouched_scale, scales): (f32, Vec<f32>) = archive.take()?;
        if scales.len() != index.len() {
            return Err(damaged("a table has other scales than rows"));
        }
        let values = archive.take_values(scales.len() * dimension)?;
        let mut table = Self {
            dimension,
            index,
            chunks: Vec::new(),
            scales,
            untouched_scale,
        };
        table.make_room();
        for (chunk, values) in table
            .chunks
            .iter_mut()
            .zip(values.chunks(ROWS_PER_CHUNK * dimension))
        {
            chunk[..values.len()].copy_from_slice(values);
        }
        Ok(table)
    }

    /// Allocates values and scales for all slots of the index.
    fn make_room(&mut self) {
        let held = self.index.len();
        while self.chunks.len() * ROWS_PER_CHUNK < held {
            let values = ROWS_PER_CHUNK * self.dimension;
            self.chunks
                .push(memory::zeros_or_unwind(values, PURPOSE).into_boxed_slice());
        }
        if self.scales.capacity() < held {
            // Scales grow by an eighth and do not double, since these tables are most of a run's
            // memory.
            let more = (held - self.scales.len()).max(held / 8);
            memory::reserve_or_unwind(&mut self.scales, more, PURPOSE);
        }
        self.scales.resize(held, 1.0);
    }

    /// Feeds the touched rows to `sink` with their decay applied, each as item and values, in
    /// ascending order of items.
    pub(crate) fn visit_bytes(&self, sink: &mut dyn FnMut(&[u8])) {
        let mut bytes = Vec::new();
        for (item, slot) in self.index.iter() {
            let scale = self.scales[slot as usize];
            bytes.clear();
            bytes.extend(item.to_le_bytes());
            bytes.extend(
                self.slot_values(slot as usize)
                    .iter()
                    .flat_map(|value| (value * scale).to_le_bytes()),
            );
            sink(&bytes);
        }
        sink(&self.untouched_scale.to_le_bytes());
    }

    /// Replaces every value of the touched rows, with its decay applied, by what `change` makes of
    /// it.
    pub(crate) fn change(&mut self, change: &mut dyn FnMut(f32) -> f32) {
        for slot in 0..self.scales.len() {
            let scale = self.scales[slot];
            let values = self.write_slot(slot as u32).iter_mut();
            values.for_each(|value| *value = change(*value * scale));
        }
    }

    /// Prefetches the values of a slot, unless it is [`ABSENT`].
    #[inline(always)]
    fn prefetch_slot(&self, slot: u32) {
        if slot != ABSENT {
            prefetch(self.slot_values(slot as usize));
        }
    }

    #[inline(always)]
    fn slot_values(&self, slot: usize) -> &[f32] {
        let start = slot % ROWS_PER_CHUNK * self.dimension;
        &self.chunks[slot / ROWS_PER_CHUNK][start..start + self.dimension]
    }
}

/// Has rows whose slots have been found, to be gathered, and to be written after
/// [`FoundRows::make_writable`].
#[derive(Debug)]
pub struct FoundRows<'a> {
    table: &'a mut RowTable,
    rows: &'a [u32],
    slots: &'a mut Vec<u32>,
    initial: &'a Table,
}

impl FoundRows<'_> {
    /// Ends a participation as [`RowTable::write_rows`] does, for a caller that writes the rows.
    pub fn make_writable(&mut self, others_scale: f32) {
        self.table
            .make_writable(self.rows, others_scale, self.slots);
    }
}

impl RowSource for FoundRows<'_> {
    #[inline(always)]
    fn rows(&self) -> usize {
        self.rows.len()
    }

    #[inline(always)]
    fn row(&self, position: usize) -> (&[f32], f32) {
        match self.slots[position] {
            ABSENT => (
                self.initial.row(self.rows[position] as usize),
                self.table.untouched_scale,
            ),
            slot => (
                self.table.slot_values(slot as usize),
                self.table.scales[slot as usize],
            ),
        }
    }

    #[inline(always)]
    fn prefetch(&self, position: usize) {
        self.table.prefetch_slot(self.slots[position]);
    }
}

impl RowSink for FoundRows<'_> {
    #[inline(always)]
    fn row_mut(&mut self, position: usize) -> &mut [f32] {
        self.table.write_slot(self.slots[position])
    }
}

#[cfg(test)]
mod tests;
