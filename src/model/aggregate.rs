//! The server's average of client tables, in parallel and in a fixed order.

#![allow(unsafe_code)] // The dispatcher that `multiversion` generates calls functions compiled for detected features.

use std::ops::Range;

use multiversion::multiversion;
use rayon::prelude::*;

use super::kernel::prefetch;
use super::table::{RowSet, Table, TableUpdate, VALUE_BYTES};
use crate::stages::{Stage, enter};

/// Thresholds on |C| whose exceedance is counted (the papers' Table 3).
pub const MAGNITUDE_THRESHOLDS: [f32; 7] = [0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1];

/// How many values have a magnitude above each of [`MAGNITUDE_THRESHOLDS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MagnitudeCounts {
    /// Values looked at.
    pub values: u64,
    /// Values above each threshold.
    pub above: [u64; 7],
}

impl MagnitudeCounts {
    /// Counts `values`, each times `scale`.
    pub fn of(values: &[f32], scale: f32) -> Self {
        let above = MAGNITUDE_THRESHOLDS
            .map(|threshold| values.iter().map(|value| u64::from((value * scale).abs() > threshold)).sum::<u64>());
        Self { values: values.len() as u64, above }
    }

    /// Adds `times` times the counts of `other`.
    fn add_times(&mut self, other: &Self, times: u64) {
        self.values += times * other.values;
        for (count, other) in self.above.iter_mut().zip(other.above) {
            *count += times * other;
        }
    }

    /// Shares in 0..=1; zeros where nothing was counted.
    pub fn shares(&self) -> [f64; 7] {
        self.above.map(|count| if self.values == 0 { 0.0 } else { count as f64 / self.values as f64 })
    }
}

/// The outcome of an aggregation.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// The averaged table.
    pub table: Table,
    /// Magnitudes over all averaged uploads, every value of every whole table.
    pub uploads: MagnitudeCounts,
}

/// Rows that one task averages: enough that a visit to a frame is worth its cache misses, few enough that
/// popular items, whose rows are in more frames, spread over the threads.
const ROWS_PER_TASK: usize = 128;

/// The plain mean of `updates`, whose rows not listed are scaled rows of `base`.
///
/// Sums run in double precision in the order of `updates`, row by row, so the result does not depend on the
/// number of threads. An empty `updates` gives `base` back. Every update must have the shape of `base`.
pub fn mean(base: &Table, updates: &[TableUpdate]) -> Aggregate {
    let shape = base.shape();
    let mut table = base.clone();
    if updates.is_empty() || shape.values() == 0 {
        return Aggregate { table, uploads: MagnitudeCounts::default() };
    }
    let dimension = shape.dimension;
    let scales = DistinctScales::of(updates);
    let tasks = shape.rows.div_ceil(ROWS_PER_TASK);
    let cuts: Vec<Vec<usize>> = updates.par_iter().map(|update| cuts_of(update, tasks)).collect();
    let counts: Vec<MagnitudeCounts> = table
        .as_mut_slice()
        .par_chunks_mut(ROWS_PER_TASK * dimension)
        .enumerate()
        // Popular items are in more frames, so tasks differ in length and are handed out one by one.
        .with_max_len(1)
        .map(|(task, rows)| {
            let _stage = enter(Stage::Aggregate);
            let first = task * ROWS_PER_TASK;
            Task { base, updates, scales: &scales, cuts: &cuts, number: task, first }.run(rows)
        })
        .collect();
    let mut uploads = MagnitudeCounts::default();
    for count in &counts {
        uploads.add_times(count, 1);
    }
    Aggregate { table, uploads }
}

/// Where the listed rows of each task begin among those of `update`, and where those of the last one end.
///
/// Found in one walk: a search by halves in every task would wait for memory at each of its steps.
fn cuts_of(update: &TableUpdate, tasks: usize) -> Vec<usize> {
    let _stage = enter(Stage::Aggregate);
    let mut cuts = Vec::with_capacity(tasks + 1);
    match &update.rows {
        RowSet::All => cuts.extend((0..tasks).map(|task| task * ROWS_PER_TASK)),
        RowSet::Listed(rows) => {
            for (position, &row) in rows.iter().enumerate() {
                while cuts.len() * ROWS_PER_TASK <= row as usize {
                    cuts.push(position);
                }
            }
        }
    }
    cuts.resize(tasks + 1, update.rows.len(update.shape));
    cuts
}

/// The factors of rows not listed, each once: most clients share one.
struct DistinctScales {
    values: Vec<f32>,
    /// How many clients have each.
    clients: Vec<u64>,
    /// For each update, the position of its factor in `values`.
    of_update: Vec<usize>,
}

impl DistinctScales {
    fn of(updates: &[TableUpdate]) -> Self {
        let (mut values, mut clients): (Vec<f32>, Vec<u64>) = Default::default();
        let of_update = updates
            .iter()
            .map(|update| {
                let bits = update.others_scale.to_bits();
                let place = values.iter().position(|value| value.to_bits() == bits).unwrap_or_else(|| {
                    values.push(update.others_scale);
                    clients.push(0);
                    values.len() - 1
                });
                clients[place] += 1;
                place
            })
            .collect();
        Self { values, clients, of_update }
    }
}

/// The rows of the average from `first` on, [`ROWS_PER_TASK`] of them or what is left.
struct Task<'a> {
    base: &'a Table,
    updates: &'a [TableUpdate],
    scales: &'a DistinctScales,
    cuts: &'a [Vec<usize>],
    number: usize,
    first: usize,
}

impl Task<'_> {
    fn run(&self, rows: &mut [f32]) -> MagnitudeCounts {
        let dimension = self.base.shape().dimension;
        let mut sums = vec![0f64; rows.len()];
        // unlisted[scale][row]: how many clients left the row out, by their factor.
        let mut unlisted: Vec<Vec<u64>> =
            self.scales.clients.iter().map(|&clients| vec![clients; rows.len() / dimension]).collect();
        let mut counts = MagnitudeCounts::default();
        for (number, (update, &scale)) in self.updates.iter().zip(&self.scales.of_update).enumerate() {
            if let Some(next) = self.updates.get(number + 1) {
                prefetch(self.listed_bytes(next, number + 1).1);
            }
            self.add_listed(update, number, &mut sums, &mut unlisted[scale], &mut counts);
        }
        for (scale, unlisted) in self.scales.values.iter().zip(&unlisted) {
            for (offset, &clients) in unlisted.iter().enumerate().filter(|(_, clients)| **clients > 0) {
                let base_row = self.base.row(self.first + offset);
                let row_sums = &mut sums[offset * dimension..(offset + 1) * dimension];
                for (sum, value) in row_sums.iter_mut().zip(base_row) {
                    *sum += clients as f64 * f64::from(scale * value);
                }
                counts.add_times(&MagnitudeCounts::of(base_row, *scale), clients);
            }
        }
        let clients = self.updates.len() as f64;
        for (value, sum) in rows.iter_mut().zip(&sums) {
            *value = (sum / clients) as f32;
        }
        counts
    }

    /// Positions and bytes of the rows of this task in `update`, the one of this `number`.
    fn listed_bytes<'u>(&self, update: &'u TableUpdate, number: usize) -> (Range<usize>, &'u [u8]) {
        let row_bytes = self.base.shape().dimension * VALUE_BYTES;
        let cuts = &self.cuts[number];
        let positions = cuts[self.number]..cuts[self.number + 1];
        let bytes = &update.values[positions.start * row_bytes..positions.end * row_bytes];
        (positions, bytes)
    }

    fn add_listed(
        &self,
        update: &TableUpdate,
        number: usize,
        sums: &mut [f64],
        unlisted: &mut [u64],
        counts: &mut MagnitudeCounts,
    ) {
        let dimension = self.base.shape().dimension;
        let (positions, bytes) = self.listed_bytes(update, number);
        match &update.rows {
            RowSet::All => {
                unlisted.iter_mut().for_each(|clients| *clients -= 1);
                add_rows(bytes, None, dimension, sums, counts);
            }
            RowSet::Listed(listed) => {
                let listed = &listed[positions];
                listed.iter().for_each(|row| unlisted[*row as usize - self.first] -= 1);
                add_rows(bytes, Some((listed, self.first)), dimension, sums, counts);
            }
        }
    }
}

/// Adds rows of little-endian values to `sums`, row after row, and counts their magnitudes; with `listed`, the
/// rows (less the first) that they belong to.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw", "x86_64+avx2", "aarch64+neon"))]
fn add_rows(
    bytes: &[u8],
    listed: Option<(&[u32], usize)>,
    dimension: usize,
    sums: &mut [f64],
    counts: &mut MagnitudeCounts,
) {
    for (position, bytes) in bytes.chunks_exact(dimension * 4).enumerate() {
        let row = match listed {
            Some((rows, first)) => rows[position] as usize - first,
            None => position,
        };
        let (values, _) = bytes.as_chunks::<4>();
        for (sum, value) in sums[row * dimension..(row + 1) * dimension].iter_mut().zip(values) {
            *sum += f64::from(f32::from_le_bytes(*value));
        }
    }
    let (values, _) = bytes.as_chunks::<4>();
    counts.values += values.len() as u64;
    // Pieces that stay in L1 from the sum above it, and far below 2^32 values.
    for values in values.chunks(4096) {
        for (count, above) in counts.above.iter_mut().zip(count_above(values)) {
            *count += u64::from(above);
        }
    }
}

/// How many of `values` have a magnitude above each of [`MAGNITUDE_THRESHOLDS`].
#[inline(always)]
fn count_above(values: &[[u8; 4]]) -> [u32; MAGNITUDE_THRESHOLDS.len()] {
    const ABOVE: [f32; 7] = MAGNITUDE_THRESHOLDS;
    // Seven variables and no array of them, so that the compiler takes sixteen values at a time, not seven thresholds.
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g] = [0u32; 7];
    for value in values {
        let magnitude = f32::from_le_bytes(*value).abs();
        a += u32::from(magnitude > ABOVE[0]);
        b += u32::from(magnitude > ABOVE[1]);
        c += u32::from(magnitude > ABOVE[2]);
        d += u32::from(magnitude > ABOVE[3]);
        e += u32::from(magnitude > ABOVE[4]);
        f += u32::from(magnitude > ABOVE[5]);
        g += u32::from(magnitude > ABOVE[6]);
    }
    [a, b, c, d, e, f, g]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use crate::model::table::TableShape;

    fn little_endian(values: &[f32]) -> bytes::Bytes {
        values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>().into()
    }

    /// A whole table, spelled out.
    fn spelled_out(base: &Table, update: &TableUpdate) -> Vec<f32> {
        let dimension = base.shape().dimension;
        let mut whole: Vec<f32> = base.as_slice().iter().map(|value| value * update.others_scale).collect();
        let rows: Vec<u32> = match &update.rows {
            RowSet::All => (0..base.shape().rows as u32).collect(),
            RowSet::Listed(rows) => rows.clone(),
        };
        for (position, row) in rows.iter().enumerate() {
            for column in 0..dimension {
                let at = (position * dimension + column) * 4;
                let bytes = [0, 1, 2, 3].map(|i| update.values[at + i]);
                whole[*row as usize * dimension + column] = f32::from_le_bytes(bytes);
            }
        }
        whole
    }

    fn any_update(rows: usize, dimension: usize) -> impl Strategy<Value = TableUpdate> {
        let shape = TableShape { rows, dimension };
        let value = prop_oneof![Just(0.0f32), -2.0f32..2.0, -1e-4f32..1e-4];
        let listed = prop::collection::btree_set(0..rows as u32, 0..=rows);
        let scale = prop_oneof![Just(1.0f32), Just(0.5), 0.0f32..1.0];
        (listed, any::<bool>(), scale).prop_flat_map(move |(listed, all, others_scale)| {
            let count = if all { rows } else { listed.len() };
            prop::collection::vec(value.clone(), count * dimension).prop_map(move |values| TableUpdate {
                shape,
                rows: if all { RowSet::All } else { RowSet::Listed(listed.iter().copied().collect()) },
                values: little_endian(&values),
                others_scale,
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// If this fails, the server averages something else than the tables that the clients sent.
        #[test]
        fn the_mean_is_that_of_the_whole_tables(
            updates in (1usize..150, 1usize..20).prop_flat_map(|(rows, dimension)|
                prop::collection::vec(any_update(rows, dimension), 1..6))
        ) {
            let shape = updates[0].shape;
            let mut next = 0.0f32;
            let base = Table::from_fn(shape, || { next = (next + 0.37) % 1.5; next - 0.7 });
            let aggregate = mean(&base, &updates);
            let tables: Vec<Vec<f32>> = updates.iter().map(|update| spelled_out(&base, update)).collect();
            for (at, value) in aggregate.table.as_slice().iter().enumerate() {
                let expected = tables.iter().map(|table| f64::from(table[at])).sum::<f64>() / tables.len() as f64;
                prop_assert!((f64::from(*value) - expected).abs() < 1e-6, "value {} is {} not {}", at, value, expected);
            }
            let mut counts = MagnitudeCounts::default();
            tables.iter().for_each(|table| counts.add_times(&MagnitudeCounts::of(table, 1.0), 1));
            prop_assert_eq!(aggregate.uploads, counts);
        }
    }

    #[test]
    fn the_mean_does_not_depend_on_the_number_of_threads() {
        let shape = TableShape { rows: 1000, dimension: 5 };
        let mut next = 0.1f32;
        let mut pseudo = || {
            next = (next * 37.7 + 0.13) % 1.0;
            next - 0.5
        };
        let base = Table::from_fn(shape, &mut pseudo);
        let updates: Vec<TableUpdate> = (0..9)
            .map(|client| {
                let rows: Vec<u32> = (0..1000).filter(|row| (row + client) % 3 == 0).collect();
                let values: Vec<f32> = (0..rows.len() * 5).map(|_| pseudo()).collect();
                TableUpdate { shape, rows: RowSet::Listed(rows), values: little_endian(&values), others_scale: 0.9 }
            })
            .collect();
        let with_threads = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| mean(&base, &updates))
        };
        assert_eq!(with_threads(1), with_threads(3));
    }

    #[test]
    fn without_updates_the_model_stays() {
        let base = Table::zeros(TableShape { rows: 3, dimension: 2 });
        assert_eq!(mean(&base, &[]).table, base);
    }
}
