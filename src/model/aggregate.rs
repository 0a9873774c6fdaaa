//! The server's average of client tables, in parallel and in a fixed order.

use std::ops::Range;

use rayon::prelude::*;

use super::instruction_sets::per_instruction_set;
use super::kernel::prefetch;
use super::magnitude::{MagnitudeCounts, count_above};
use super::table::{RowSet, Table, TableUpdate, VALUE_BYTES};
use crate::stages::{Stage, enter};

/// The outcome of an aggregation.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// The averaged table.
    pub table: Table,
    /// Magnitudes over all averaged uploads, every value of every whole table.
    pub uploads: MagnitudeCounts,
}

/// Rows of one part of the average: enough that a visit to a frame is worth its cache misses, few enough that
/// popular items, whose rows are in more frames, spread over the threads.
const ROWS_PER_PART: usize = 128;

/// The plain mean of `updates`: [`Averaging`] of all of them at once.
pub fn mean(base: &Table, updates: &[TableUpdate]) -> Aggregate {
    let mut averaging = Averaging::new(base);
    averaging.add(updates);
    averaging.finish()
}

/// A plain mean in the making, of updates whose rows not listed are scaled rows of one base.
///
/// Sums run in double precision: listed rows in the order of the updates, then the rows left out, one product per
/// factor in the order of their first appearance. So the result depends neither on the number of threads nor on how
/// the updates are dealt out to [`Averaging::add`]. Memory: 8 bytes a value, and 4 bytes a row and factor.
#[derive(Debug)]
pub struct Averaging<'a> {
    base: &'a Table,
    parts: Vec<Part>,
    /// The factors of rows not listed, each once, with how many updates have it: most clients share one.
    scales: Vec<(f32, u64)>,
}

/// Some consecutive rows of the average.
#[derive(Debug)]
struct Part {
    first: usize,
    /// Sums of the rows listed.
    sums: Vec<f64>,
    /// `listed[scale][row]`: how many updates listed the row, by their factor of other rows. Most runs have one
    /// factor, or one per number of local steps.
    listed: Vec<Vec<u32>>,
    /// Magnitudes of the rows listed.
    counts: MagnitudeCounts,
}

impl<'a> Averaging<'a> {
    /// The mean of nothing yet.
    pub fn new(base: &'a Table) -> Self {
        let shape = base.shape();
        let rows_of = |first: usize| (shape.rows - first).min(ROWS_PER_PART);
        let part = |first| Part {
            first,
            sums: vec![0.0; rows_of(first) * shape.dimension],
            listed: Vec::new(),
            counts: MagnitudeCounts::default(),
        };
        let rows = if shape.dimension == 0 { 0 } else { shape.rows };
        Self { base, parts: (0..rows).step_by(ROWS_PER_PART).map(part).collect(), scales: Vec::new() }
    }

    /// Takes `updates` in, each of the shape of the base.
    pub fn add(&mut self, updates: &[TableUpdate]) {
        let scale_of_update: Vec<usize> = updates.iter().map(|update| self.count_scale(update.others_scale)).collect();
        let parts = self.parts.len();
        let cuts: Vec<Vec<usize>> = updates.par_iter().map(|update| cuts_of(update, parts)).collect();
        let batch = Batch { updates, scale_of_update: &scale_of_update, cuts: &cuts };
        let (dimension, scales) = (self.base.shape().dimension, self.scales.len());
        // Popular items are in more frames, so parts differ in length and are handed out one by one.
        self.parts.par_iter_mut().enumerate().with_max_len(1).for_each(|(number, part)| {
            let _stage = enter(Stage::Aggregate);
            part.listed.resize_with(scales, || vec![0; part.sums.len() / dimension]);
            part.add(number, &batch, dimension);
        });
    }

    /// The position of a factor among the distinct ones, after it has been counted.
    fn count_scale(&mut self, scale: f32) -> usize {
        let place = self.scales.iter().position(|(known, _)| known.to_bits() == scale.to_bits());
        let place = place.unwrap_or_else(|| {
            self.scales.push((scale, 0));
            self.scales.len() - 1
        });
        self.scales[place].1 += 1;
        place
    }

    /// The mean; of no updates, the base.
    pub fn finish(self) -> Aggregate {
        let mut table = self.base.clone();
        let clients: u64 = self.scales.iter().map(|(_, clients)| clients).sum();
        let mut uploads = MagnitudeCounts::default();
        let dimension = self.base.shape().dimension;
        if clients == 0 || self.parts.is_empty() {
            return Aggregate { table, uploads };
        }
        let rows = table.as_mut_slice().par_chunks_mut(ROWS_PER_PART * dimension);
        let finish = |(mut part, rows): (Part, &mut [f32])| {
            let _stage = enter(Stage::Aggregate);
            part.add_unlisted(self.base, &self.scales);
            for (value, sum) in rows.iter_mut().zip(&part.sums) {
                *value = (sum / clients as f64) as f32;
            }
            part.counts
        };
        let counts: Vec<MagnitudeCounts> = self.parts.into_par_iter().zip(rows).map(finish).collect();
        counts.iter().for_each(|counts| uploads.add_times(counts, 1));
        Aggregate { table, uploads }
    }
}

/// Updates that are taken in together.
struct Batch<'a> {
    updates: &'a [TableUpdate],
    scale_of_update: &'a [usize],
    /// `cuts[update][part]`: see [`cuts_of`].
    cuts: &'a [Vec<usize>],
}

impl Batch<'_> {
    /// Positions and bytes of the listed rows of `update` that belong to `part`.
    fn listed(&self, update: usize, part: usize, dimension: usize) -> (Range<usize>, &[u8]) {
        let positions = self.cuts[update][part]..self.cuts[update][part + 1];
        let row_bytes = dimension * VALUE_BYTES;
        (positions.clone(), &self.updates[update].values[positions.start * row_bytes..positions.end * row_bytes])
    }
}

/// Where the listed rows of each part begin among those of `update`, and where those of the last one end.
///
/// Found in one walk: a search by halves for every part would wait for memory at each of its steps.
fn cuts_of(update: &TableUpdate, parts: usize) -> Vec<usize> {
    let _stage = enter(Stage::Aggregate);
    let mut cuts = Vec::with_capacity(parts + 1);
    match &update.rows {
        RowSet::All => cuts.extend((0..parts).map(|part| part * ROWS_PER_PART)),
        RowSet::Listed(rows) => {
            for (position, &row) in rows.iter().enumerate() {
                while cuts.len() * ROWS_PER_PART <= row as usize {
                    cuts.push(position);
                }
            }
        }
    }
    cuts.resize(parts + 1, update.rows.len(update.shape));
    cuts
}

impl Part {
    fn add(&mut self, number: usize, batch: &Batch<'_>, dimension: usize) {
        for (at, (update, &scale)) in batch.updates.iter().zip(batch.scale_of_update).enumerate() {
            if at + 1 < batch.updates.len() {
                prefetch(batch.listed(at + 1, number, dimension).1);
            }
            let (positions, bytes) = batch.listed(at, number, dimension);
            let listed = match &update.rows {
                RowSet::All => {
                    self.listed[scale].iter_mut().for_each(|clients| *clients += 1);
                    None
                }
                RowSet::Listed(rows) => {
                    let rows = &rows[positions];
                    rows.iter().for_each(|row| self.listed[scale][*row as usize - self.first] += 1);
                    Some((rows, self.first))
                }
            };
            add_rows(bytes, listed, dimension, &mut self.sums, &mut self.counts);
        }
    }

    /// Adds the rows that updates left out: rows of the base, as often and by the factors that they were left out.
    fn add_unlisted(&mut self, base: &Table, scales: &[(f32, u64)]) {
        let dimension = base.shape().dimension;
        for (&(scale, clients), listed) in scales.iter().zip(&self.listed) {
            for (offset, listed) in listed.iter().enumerate().filter(|(_, listed)| u64::from(**listed) < clients) {
                let unlisted = clients - u64::from(*listed);
                let base_row = base.row(self.first + offset);
                let sums = &mut self.sums[offset * dimension..(offset + 1) * dimension];
                for (sum, value) in sums.iter_mut().zip(base_row) {
                    *sum += unlisted as f64 * f64::from(scale * value);
                }
                self.counts.add_times(&MagnitudeCounts::of(base_row, scale), unlisted);
            }
        }
    }
}

per_instruction_set! {
    /// Adds rows of little-endian values to `sums`, row after row, and counts their magnitudes; with `listed`, the
    /// rows (less the first) that they belong to.
    fn add_rows(
        bytes: &[u8],
        listed: Option<(&[u32], usize)>,
        dimension: usize,
        sums: &mut [f64],
        counts: &mut MagnitudeCounts,
    ) {
        add_rows_inline(bytes, listed, dimension, sums, counts)
    }
}

#[inline(always)]
fn add_rows_inline(
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
    // Pieces so short that most have no tiny value, and far below 2^32 values.
    for values in values.chunks(256) {
        for (count, above) in counts.above.iter_mut().zip(count_above(values)) {
            *count += u64::from(above);
        }
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
    fn the_mean_depends_neither_on_threads_nor_on_how_updates_are_dealt_out() {
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
        let mut in_two = Averaging::new(&base);
        in_two.add(&updates[..4]);
        in_two.add(&updates[4..]);
        assert_eq!(in_two.finish(), with_threads(1), "it depends on how updates are dealt out");
    }

    #[test]
    fn without_updates_the_model_stays() {
        let base = Table::zeros(TableShape { rows: 3, dimension: 2 });
        assert_eq!(mean(&base, &[]).table, base);
    }
}
