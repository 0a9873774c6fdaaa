//! The server's average of client tables, in parallel and in a fixed order.

use rayon::prelude::*;

use super::table::{RowSet, Table, TableUpdate};

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
        let mut above = [0u32; 7];
        for value in values {
            let magnitude = (value * scale).abs();
            for (count, threshold) in above.iter_mut().zip(MAGNITUDE_THRESHOLDS) {
                *count += u32::from(magnitude > threshold);
            }
        }
        Self { values: values.len() as u64, above: above.map(u64::from) }
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

/// Rows that one task averages; a multiple of nothing, only small enough to balance threads.
const ROWS_PER_TASK: usize = 64;

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
    let counts: Vec<MagnitudeCounts> = table
        .as_mut_slice()
        .par_chunks_mut(ROWS_PER_TASK * dimension)
        .enumerate()
        .map(|(task, rows)| {
            let first = task * ROWS_PER_TASK;
            let last = first + rows.len() / dimension;
            Task { base, updates, scales: &scales, first, last }.run(rows)
        })
        .collect();
    let mut uploads = MagnitudeCounts::default();
    for count in &counts {
        uploads.add_times(count, 1);
    }
    Aggregate { table, uploads }
}

/// The factors of rows not listed, each once: most clients share one.
struct DistinctScales {
    values: Vec<f32>,
    /// For each update, the position of its factor in `values`.
    of_update: Vec<usize>,
}

impl DistinctScales {
    fn of(updates: &[TableUpdate]) -> Self {
        let mut values: Vec<f32> = Vec::new();
        let of_update = updates
            .iter()
            .map(|update| {
                let bits = update.others_scale.to_bits();
                values.iter().position(|value| value.to_bits() == bits).unwrap_or_else(|| {
                    values.push(update.others_scale);
                    values.len() - 1
                })
            })
            .collect();
        Self { values, of_update }
    }
}

/// The rows `first..last` of the average.
struct Task<'a> {
    base: &'a Table,
    updates: &'a [TableUpdate],
    scales: &'a DistinctScales,
    first: usize,
    last: usize,
}

impl Task<'_> {
    fn run(&self, rows: &mut [f32]) -> MagnitudeCounts {
        let dimension = self.base.shape().dimension;
        let count = self.last - self.first;
        let mut sums = vec![0f64; rows.len()];
        // unlisted[scale][row]: how many clients left the row out, by their factor.
        let mut unlisted = vec![vec![0u64; count]; self.scales.values.len()];
        let mut magnitudes = Magnitudes::default();
        for (update, &scale) in self.updates.iter().zip(&self.scales.of_update) {
            let unlisted = &mut unlisted[scale];
            unlisted.iter_mut().for_each(|clients| *clients += 1);
            self.add_listed(update, &mut sums, unlisted, &mut magnitudes);
        }
        let mut counts = magnitudes.finish();
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

    fn add_listed(&self, update: &TableUpdate, sums: &mut [f64], unlisted: &mut [u64], magnitudes: &mut Magnitudes) {
        let dimension = self.base.shape().dimension;
        let row_bytes = dimension * 4;
        let mut add = |row: usize, bytes: &[u8]| {
            let offset = row - self.first;
            unlisted[offset] -= 1;
            magnitudes.add(bytes, &mut sums[offset * dimension..(offset + 1) * dimension]);
        };
        match &update.rows {
            RowSet::All => {
                let bytes = &update.values[self.first * row_bytes..self.last * row_bytes];
                for (row, bytes) in (self.first..).zip(bytes.chunks_exact(row_bytes)) {
                    add(row, bytes);
                }
            }
            RowSet::Listed(listed) => {
                let from = listed.partition_point(|row| (*row as usize) < self.first);
                let bytes = update.values[from * row_bytes..].chunks_exact(row_bytes);
                for (row, bytes) in listed[from..].iter().zip(bytes) {
                    if *row as usize >= self.last {
                        break;
                    }
                    add(*row as usize, bytes);
                }
            }
        }
    }
}

/// Counters kept sixteen abreast, so that counting keeps up with the loads of the averaging loop.
#[derive(Default)]
struct Magnitudes {
    values: u64,
    above: [[u32; 16]; 7],
    total: [u64; 7],
    /// Rounds since `above` was last emptied; a counter grows by at most one per round.
    rounds: u32,
}

impl Magnitudes {
    /// Adds a row of little-endian values to `sums`, and counts their magnitudes.
    fn add(&mut self, bytes: &[u8], sums: &mut [f64]) {
        let (groups, rest) = bytes.as_chunks::<64>();
        let (sum_groups, sum_rest) = sums.as_chunks_mut::<16>();
        for (group, sums) in groups.iter().zip(sum_groups) {
            let (values, _) = group.as_chunks::<4>();
            let values: [f32; 16] = std::array::from_fn(|i| f32::from_le_bytes(values[i]));
            self.add_sixteen(&values, 16);
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += f64::from(value);
            }
        }
        if !rest.is_empty() {
            let mut values = [0f32; 16];
            for (value, bytes) in values.iter_mut().zip(rest.as_chunks::<4>().0) {
                *value = f32::from_le_bytes(*bytes);
            }
            self.add_sixteen(&values, sum_rest.len());
            for (sum, value) in sum_rest.iter_mut().zip(values) {
                *sum += f64::from(value);
            }
        }
    }

    /// Counts sixteen values of which the last ones may be padding zeros, which are above no threshold.
    #[inline(always)]
    fn add_sixteen(&mut self, values: &[f32; 16], real: usize) {
        self.values += real as u64;
        for (above, threshold) in self.above.iter_mut().zip(MAGNITUDE_THRESHOLDS) {
            for (count, value) in above.iter_mut().zip(values) {
                *count += u32::from(value.abs() > threshold);
            }
        }
        self.rounds += 1;
        if self.rounds == u32::MAX {
            self.empty();
        }
    }

    fn empty(&mut self) {
        for (total, above) in self.total.iter_mut().zip(&mut self.above) {
            *total += above.iter().map(|count| u64::from(*count)).sum::<u64>();
            *above = [0; 16];
        }
        self.rounds = 0;
    }

    fn finish(mut self) -> MagnitudeCounts {
        self.empty();
        MagnitudeCounts { values: self.values, above: self.total }
    }
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
