//! Averages client tables, in parallel and in a fixed order.

use std::ops::{AddAssign, Range};
use std::sync::Arc;

use rayon::prelude::*;

use super::magnitude::{MagnitudeCounts, SupportCount};
use super::table::{RowSet, SharedTable, Table, TableShape, TableUpdate, VALUE_BYTES};
use fedrecsim_core::memory;
use fedrecsim_core::stages::{Stage, enter};

mod added_rows;
mod support;

use added_rows::AddedRows;
use support::{Support, Tally};

/// The outcome of an aggregation.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// The averaged table.
    pub table: Table,
    /// The magnitudes of every value of every whole table that was averaged.
    pub uploads: MagnitudeCounts,
    /// How many values are not 0 in at least one of these tables.
    pub union: SupportCount,
}

/// The number of rows in one part of the average. More would put the popular items, whose rows are
/// in more frames, on one thread; fewer would not be worth the cache misses of a visit to a frame.
const ROWS_PER_PART: usize = 128;

/// Holds a client's update of one block, the table that it started from, and its weight.
#[derive(Clone, Copy, Debug)]
pub struct BlockContribution<'a> {
    /// The table x; rows not listed are scaled rows of `base`.
    pub update: &'a TableUpdate,
    /// The table b that the client received; `None` where the block is a statistic, whose other
    /// rows are zero.
    pub base: Option<&'a SharedTable>,
    /// The table that the server meant to send, if the downlink is lossy. The sum then takes x - b
    /// + this, so that the losses of a download do not damage the server's model.
    pub intended: Option<&'a SharedTable>,
    /// The number of the download b: clients with the same download have the same number.
    pub base_number: u64,
    /// The weight of x.
    pub weight: f64,
    /// The weight of b, which is subtracted: 0 for a mean of tables, `weight` for a mean of
    /// differences x - b.
    pub base_weight: f64,
}

/// Adds up tables with weights: weight x - base_weight b, summed over the contributions.
///
/// Sums run in double precision: first the listed rows in the order of the contributions, then the
/// other rows of each origin in the order of first appearance. So the result depends neither on the
/// number of threads nor on how contributions are split over calls of [`Averaging::add`]. Memory: 8
/// bytes a value, and 4 bytes a row and origin.
#[derive(Debug)]
pub struct Averaging {
    shape: TableShape,
    parts: Vec<Part>,
    /// Every distinct origin once, since most clients of a round share one.
    origins: Vec<Origin>,
}

/// Holds what contributions share besides their listed rows.
#[derive(Debug)]
struct Origin {
    base: Option<SharedTable>,
    intended: Option<SharedTable>,
    base_number: u64,
    /// The factor of rows not listed.
    scale: f32,
    weight: f64,
    base_weight: f64,
    /// The number of contributions that have this origin.
    clients: u64,
}

impl Origin {
    fn of(contribution: &BlockContribution<'_>) -> Self {
        Self {
            base: contribution.base.map(Arc::clone),
            intended: contribution.intended.map(Arc::clone),
            base_number: contribution.base_number,
            scale: contribution.update.others_scale,
            weight: contribution.weight,
            base_weight: contribution.base_weight,
            clients: 1,
        }
    }

    /// Returns whether `other` is the same. Origins are told apart by number, since a checkpoint may
    /// change which tables share memory or content.
    fn is(&self, other: &Self) -> bool {
        self.base_number == other.base_number
            && self.scale.to_bits() == other.scale.to_bits()
            && (self.weight, self.base_weight) == (other.weight, other.base_weight)
    }
}

/// Holds the sums of some consecutive rows of the average.
#[derive(Debug)]
struct Part {
    first: usize,
    /// The sums of the rows listed.
    sums: Vec<f64>,
    /// `listed[origin][row]` is the number of contributions that listed the row.
    listed: Vec<Vec<u32>>,
    /// The counts of values.
    tally: Tally,
}

impl Averaging {
    /// Makes sums of no contribution.
    pub fn new(shape: TableShape) -> Self {
        let rows_of = |first: usize| (shape.rows - first).min(ROWS_PER_PART);
        let part = |first| Part {
            first,
            sums: memory::zeros_or_unwind(
                rows_of(first) * shape.dimension,
                format_args!("the sum of {shape} tables"),
            ),
            listed: Vec::new(),
            tally: Tally {
                counts: MagnitudeCounts::default(),
                support: Support::new(rows_of(first), shape.dimension),
            },
        };
        let rows = if shape.dimension == 0 { 0 } else { shape.rows };
        Self {
            shape,
            parts: (0..rows).step_by(ROWS_PER_PART).map(part).collect(),
            origins: Vec::new(),
        }
    }

    /// Takes `contributions` in, each of this shape.
    pub fn add(&mut self, contributions: &[BlockContribution<'_>]) {
        let origins: Vec<usize> = contributions
            .iter()
            .map(|contribution| self.place_of(Origin::of(contribution)))
            .collect();
        let parts = self.parts.len();
        let updates = contributions.iter().map(|one| one.update).collect();
        let cuts = map(updates, |update| cuts_of(update, parts));
        let batch = Batch {
            contributions,
            origins: &origins,
            cuts: &cuts,
        };
        self.make_room();
        let dimension = self.shape.dimension;
        let parts = self.parts.iter_mut().enumerate().collect();
        map(parts, |(number, part): (usize, &mut Part)| {
            let _stage = enter(Stage::Aggregate);
            part.add(number, &batch, dimension);
        });
    }

    /// Returns the position of `origin` among the distinct ones, after its clients are counted.
    fn place_of(&mut self, origin: Origin) -> usize {
        match self.origins.iter().position(|known| known.is(&origin)) {
            Some(place) => {
                self.origins[place].clients += origin.clients;
                place
            }
            None => {
                self.origins.push(origin);
                self.origins.len() - 1
            }
        }
    }

    /// Lets every part count the rows of all origins.
    fn make_room(&mut self) {
        for part in &mut self.parts {
            let rows = part.sums.len() / self.shape.dimension;
            part.listed
                .resize_with(self.origins.len(), || vec![0; rows]);
        }
    }

    /// Adds what another sum of the same shape has taken in. The result is that of one sum up to
    /// the rounding of double precision.
    pub fn merge(&mut self, other: Self) {
        let places: Vec<usize> = other
            .origins
            .into_iter()
            .map(|origin| self.place_of(origin))
            .collect();
        self.make_room();
        for (part, other) in self.parts.iter_mut().zip(other.parts) {
            add_each(&mut part.sums, &other.sums);
            for (listed, place) in other.listed.iter().zip(&places) {
                add_each(&mut part.listed[*place], listed);
            }
            part.tally.counts.add_times(&other.tally.counts, 1);
            part.tally.support.merge(&other.tally.support);
        }
    }

    /// Returns (`kept` x `shared` + the sum) / `divisor`; without contributions, `shared`.
    pub fn finish(self, shared: &Table, kept: f64, divisor: f64) -> Aggregate {
        let mut aggregate = Aggregate {
            table: shared.clone(),
            uploads: MagnitudeCounts::default(),
            union: SupportCount::default(),
        };
        if self.origins.is_empty() || self.parts.is_empty() {
            return aggregate;
        }
        let part_values = ROWS_PER_PART * self.shape.dimension;
        let rows = aggregate.table.as_mut_slice().chunks_mut(part_values);
        let parts: Vec<(Part, &mut [f32])> = self.parts.into_iter().zip(rows).collect();
        let counts = map(parts, |(mut part, rows)| {
            let _stage = enter(Stage::Aggregate);
            part.add_unlisted(&self.origins, self.shape.dimension);
            for (value, sum) in rows.iter_mut().zip(&part.sums) {
                // Adding zero times something would turn -0.0 into +0.0.
                let whole = if kept == 0.0 {
                    *sum
                } else {
                    kept * f64::from(*value) + sum
                };
                *value = (whole / divisor) as f32;
            }
            (part.tally.counts, part.tally.support.count())
        });
        for (counts, of_part) in &counts {
            aggregate.uploads.add_times(counts, 1);
            aggregate.union += *of_part;
        }
        aggregate
    }
}

/// Returns what `work` makes of `parts`, in their order. Worker threads share the work, one part at
/// a time, since parts of popular items take longer. Elsewhere one thread does all of it, as nobody
/// has said how many there may be; the result is the same.
fn map<P: Send, R: Send>(parts: Vec<P>, work: impl Fn(P) -> R + Sync + Send) -> Vec<R> {
    match rayon::current_thread_index() {
        Some(_) => parts.into_par_iter().with_max_len(1).map(work).collect(),
        None => parts.into_iter().map(work).collect(),
    }
}

fn add_each<T: Copy + AddAssign>(sums: &mut [T], more: &[T]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum += *more;
    }
}

/// Updates that are taken in together.
struct Batch<'a> {
    contributions: &'a [BlockContribution<'a>],
    origins: &'a [usize],
    /// `cuts[contribution][part]`: see [`cuts_of`].
    cuts: &'a [Vec<usize>],
}

impl Batch<'_> {
    /// Returns the positions and bytes of the listed rows of a contribution that belong to `part`.
    fn listed(&self, number: usize, part: usize, dimension: usize) -> (Range<usize>, &[u8]) {
        let positions = self.cuts[number][part]..self.cuts[number][part + 1];
        let row_bytes = dimension * VALUE_BYTES;
        (
            positions.clone(),
            &self.contributions[number].update.values
                [positions.start * row_bytes..positions.end * row_bytes],
        )
    }
}

/// Returns where the listed rows of each part begin among those of `update`, and where those of the
/// last one end.
///
/// One pass finds them all: a binary search for every part would wait for memory at each step.
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
        for (at, (contribution, &origin)) in
            batch.contributions.iter().zip(batch.origins).enumerate()
        {
            let has_later = at + 1 < batch.contributions.len();
            let later = has_later.then(|| batch.listed(at + 1, number, dimension).1);
            let (positions, bytes) = batch.listed(at, number, dimension);
            let listed = match &contribution.update.rows {
                RowSet::All => {
                    self.listed[origin]
                        .iter_mut()
                        .for_each(|clients| *clients += 1);
                    None
                }
                RowSet::Listed(rows) => {
                    let rows = &rows[positions];
                    rows.iter()
                        .for_each(|row| self.listed[origin][*row as usize - self.first] += 1);
                    Some((rows, self.first))
                }
            };
            let rows = AddedRows {
                bytes,
                listed,
                weight: contribution.weight,
                dimension,
                later: later.unwrap_or_default(),
            };
            added_rows::add(&rows, &mut self.sums, &mut self.tally);
        }
    }

    /// Adds the rows that updates left out, which are scaled rows of their bases, and subtracts the
    /// bases by their weights.
    fn add_unlisted(&mut self, origins: &[Origin], dimension: usize) {
        for (origin, listed) in origins.iter().zip(&self.listed) {
            for (offset, listed) in listed.iter().enumerate() {
                let unlisted = origin.clients - u64::from(*listed);
                let Some(base) = &origin.base else {
                    self.tally.counts.values += unlisted * dimension as u64;
                    continue;
                };
                let base_row = base.row(self.first + offset);
                let intended_row = origin
                    .intended
                    .as_ref()
                    .map(|intended| intended.row(self.first + offset));
                let sums = &mut self.sums[offset * dimension..(offset + 1) * dimension];
                if unlisted > 0 {
                    let weight = unlisted as f64 * origin.weight;
                    for (sum, value) in sums.iter_mut().zip(base_row) {
                        *sum += weight * f64::from(origin.scale * value);
                    }
                    self.tally
                        .counts
                        .add_times(&MagnitudeCounts::of(base_row, origin.scale), unlisted);
                    self.tally
                        .support
                        .mark_scaled(offset, base_row, origin.scale);
                }
                if let Some(intended_row) = intended_row {
                    let weight = origin.clients as f64 * origin.weight;
                    for ((sum, intended), received) in
                        sums.iter_mut().zip(intended_row).zip(base_row)
                    {
                        *sum += weight * (f64::from(*intended) - f64::from(*received));
                    }
                }
                if origin.base_weight != 0.0 {
                    let weight = origin.clients as f64 * origin.base_weight;
                    for (sum, value) in sums.iter_mut().zip(intended_row.unwrap_or(base_row)) {
                        *sum -= weight * f64::from(*value);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
