//! The model of FedTide: what the server makes of a period's sums, and a device reads.

use ndarray::{Array2, Axis};
use serde::{Deserialize, Serialize};

use super::columns::StepColumns;
use super::learned::{COUNTS, Coefficients, FEATURES, HALF_LIVES, Learned, is_taken};
use super::neighbours::{DIGIT, LEVELS, NEIGHBOURS, in_their_places, neighbours};
use super::statistics::{COUNTS_BLOCK, PAIRS_BLOCK, STEPS_BLOCK, above_noise};
use crate::prelude::*;
use fedrecsim_model::Layout;
use fedrecsim_model::algebra::{self, Spectrum, nystroem};

/// The least count of an item in what occurs together.
const LEAST_COUNT: f64 = 0.1;

/// The positions of the blocks of the model.
const VECTORS: usize = 0;
const NEIGHBOURS_BLOCK: usize = 1;
const ITEMS: usize = 2;
const COLUMNS: usize = 3;
const LEARNED: usize = 4;

/// The columns of the block of items: the count n, which is 0 for an item that nobody has taken, the
/// age, the drift, how much the first of its neighbours follows the item, and the two learned
/// mixtures of counts.
const COUNT: usize = 0;
const AGE: usize = 1;
const DRIFT: usize = 2;
const FOLLOWED: usize = 3;
const ALL: usize = 4;
const RETURNING: usize = 5;

/// The columns of counts whose ratio is the drift of an item: of returning users, with half-lives of
/// 3 and 400 days.
const DRIFT_COUNTS: [usize; 2] = [HALF_LIVES.len() + 1, HALF_LIVES.len() + 5];

/// What is added to both counts of a drift, so that few ratings say little.
const DRIFT_SHRINKAGE: f64 = 0.1;

/// The rows of the block of columns: the scale of the column of vectors, and the root of its
/// eigenvalue.
const SCALE: usize = 0;
const ROOT: usize = 1;

/// Returns the layout of the model, for this many items and columns.
pub(super) fn layout(items: usize, rank: usize) -> Layout {
    let table = |name, columns| BlockLayout::item_table(name, TableShape::new(items, columns));
    let weights = |name, rows, columns| BlockLayout::weights(name, TableShape::new(rows, columns));
    Layout::new(vec![
        table("vectors", rank),
        table("neighbours", 3 * NEIGHBOURS),
        table("items", 6),
        weights("columns", 2, rank),
        weights("learned", 1, 2 + FEATURES),
    ])
}

/// Returns the model before anything is known: random vectors, from which the eigenvectors are
/// found.
pub(super) fn initial(items: usize, rank: usize, streams: Streams) -> Model {
    let layout = layout(items, rank);
    let tables: Vec<Table> = layout
        .blocks()
        .iter()
        .map(|block| Table::zeros(block.shape))
        .collect();
    let mut model = Model::of_tables(layout, tables);
    let mut stream = streams.named("fedtide/vectors", 0, 0);
    let length = math::sqrt(items as f64);
    for value in model.table_mut(VECTORS).as_mut_slice() {
        *value = (stream.standard_normal() / length) as f32;
    }
    model.table_mut(COLUMNS).row_mut(SCALE).fill(1.0);
    Coefficients::default().write(model.table_mut(LEARNED).row_mut(0));
    model
}

/// A model, as a device reads it.
pub(super) struct Package<'a> {
    vectors: &'a Table,
    neighbours: &'a Table,
    items: &'a Table,
    columns: &'a Table,
    pub(super) coefficients: Coefficients,
}

impl<'a> Package<'a> {
    pub(super) fn of(model: &'a Model) -> Self {
        Self {
            vectors: model.table(VECTORS),
            neighbours: model.table(NEIGHBOURS_BLOCK),
            items: model.table(ITEMS),
            columns: model.table(COLUMNS),
            coefficients: Coefficients::read(model.table(LEARNED).row(0)),
        }
    }

    pub(super) fn items(&self) -> usize {
        self.vectors.shape().rows
    }

    pub(super) fn rank(&self) -> usize {
        self.vectors.shape().dimension
    }

    /// Returns whether anybody has taken the item.
    pub(super) fn is_live(&self, item: u32) -> bool {
        self.items.row(item as usize)[COUNT] > 0.0
    }

    /// Returns n_i, at least [`LEAST_COUNT`].
    pub(super) fn count(&self, item: usize) -> f64 {
        f64::from(self.items.row(item)[COUNT]).max(LEAST_COUNT)
    }

    pub(super) fn age(&self, item: usize) -> f64 {
        f64::from(self.items.row(item)[AGE])
    }

    /// Returns how much more the item is taken lately than before, as a logarithm.
    pub(super) fn drift(&self, item: usize) -> f64 {
        f64::from(self.items.row(item)[DRIFT])
    }

    /// Returns the mixtures of counts of all users and of returning ones, which are not negative.
    pub(super) fn shares(&self, item: usize) -> [f64; 2] {
        [ALL, RETURNING].map(|at| f64::from(self.items.row(item)[at]).max(0.0))
    }

    /// Returns the values of all vectors, row after row, which are U divided by [`Self::scales`].
    pub(super) fn values(&self) -> &'a [f32] {
        self.vectors.as_slice()
    }

    pub(super) fn scales(&self) -> Vec<f64> {
        let scales = self.columns.row(SCALE).iter();
        scales.map(|scale| f64::from(*scale)).collect()
    }

    /// Returns U_i.
    pub(super) fn vector(&self, item: usize) -> impl Iterator<Item = f64> + use<'a> {
        scaled(self.vectors.row(item), self.columns.row(SCALE))
    }

    /// Returns the items that follow this one most, with D' of each.
    pub(super) fn neighbours(&self, item: usize) -> impl Iterator<Item = (usize, f64)> + use<'a> {
        let last = self.items() - 1;
        let scale = f64::from(self.items.row(item)[FOLLOWED]) / LEVELS;
        let triples = self.neighbours.row(item).chunks_exact(3);
        triples.map(move |triple| {
            // A lossy codec may have changed the digits.
            let at = triple[0].max(0.0) * DIGIT as f32 + triple[1].max(0.0);
            (
                (at.round() as usize).min(last),
                scale * f64::from(triple[2]),
            )
        })
    }

    /// Returns the roots s of the eigenvalues, in descending order.
    pub(super) fn roots(&self) -> Vec<f64> {
        let roots = self.columns.row(ROOT).iter();
        roots.map(|root| f64::from(*root)).collect()
    }

    /// Returns the row B_i of the basis: n_i^(-1/4) U_i. Before anybody has counted, all n are 1.
    pub(super) fn basis(&self, item: u32) -> Vec<f64> {
        let factor = match self.is_live(item) {
            true => 1.0 / fourth_root(self.count(item as usize)),
            false => 1.0,
        };
        self.vector(item as usize)
            .map(|value| factor * value)
            .collect()
    }
}

fn scaled<'a>(row: &'a [f32], scales: &'a [f32]) -> impl Iterator<Item = f64> + use<'a> {
    let values = row.iter().zip(scales);
    values.map(|(value, scale)| f64::from(*value) * f64::from(*scale))
}

pub(super) fn fourth_root(value: f64) -> f64 {
    math::sqrt(math::sqrt(value))
}

/// What the server has made of the sums of a period, besides what is learned.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Statistics {
    /// The values of the blocks, those of items without the learned ones.
    vectors: Vec<f32>,
    neighbours: Vec<f32>,
    items: Vec<[f32; RETURNING - 1]>,
    columns: Vec<f32>,
    /// The share of each item in each column of counts, item by item.
    shares: Vec<Vec<f64>>,
}

impl Statistics {
    /// Makes the statistics from the sums of uploads (block by block), for devices that have received
    /// `model`. Returns `None` if there is nothing in the sums.
    ///
    /// # Errors
    /// As [`nystroem`].
    pub(super) fn of(
        sums: &[Vec<f64>],
        (model, columns): (&Model, &StepColumns),
    ) -> algebra::Result<Option<Self>> {
        let package = Package::of(model);
        let (items, rank) = (package.items(), package.rank());
        let counts = above_noise(&sums[COUNTS_BLOCK], COUNTS);
        let counts: Vec<&[f64]> = counts.chunks(COUNTS).collect();
        let roots = counts
            .iter()
            .map(|row| fourth_root(row[COUNTS - 1].max(LEAST_COUNT)));
        let roots = Array2::from_shape_vec((items, 1), roots.collect());
        // There is a root for each item.
        let roots = roots.unwrap_or_else(|fault| unreachable!("{fault}"));
        let matrix = |values: Vec<f64>, columns: usize| {
            Array2::from_shape_vec((items, columns), values)
                .unwrap_or_else(|fault| unreachable!("{fault}"))
        };
        let basis = (0..items as u32)
            .flat_map(|item| package.basis(item))
            .collect();
        let start = matrix(basis, rank) * &roots;
        let images = matrix(sums[PAIRS_BLOCK].clone(), rank) / &roots;
        let spectrum = nystroem(&images.view(), &start.view())?;
        if spectrum.is_none() && counts.iter().all(|row| !is_taken(row)) {
            return Ok(None);
        }
        let (vectors, of_columns) = match spectrum {
            Some(spectrum) => vectors_of(&spectrum, &start),
            // Noise may hide what occurs together where it does not hide counts. The basis stays, for the next
            // statistics, and nothing is multiplied by it.
            None => {
                let scales = package.columns.row(SCALE).iter().copied();
                let of_columns = scales.chain(std::iter::repeat_n(0.0, rank));
                (package.values().to_vec(), of_columns.collect())
            }
        };
        let mut of_items = Vec::with_capacity(items);
        let mut all_neighbours = Vec::with_capacity(items * 3 * NEIGHBOURS);
        let steps = sums[STEPS_BLOCK].chunks(columns.count() + 1);
        for (item, row) in steps.enumerate() {
            let next = neighbours((item, row), columns, &counts);
            let most = next.first().map_or(0.0, |(_, steps)| *steps);
            let before = package.neighbours(item).map(|(other, _)| other);
            all_neighbours.extend(in_their_places(&next, before.collect()));
            let [count, age, drift] = item_of(counts[item]);
            of_items.push([count, age, drift, most as f32]);
        }
        Ok(Some(Self {
            vectors,
            neighbours: all_neighbours,
            columns: of_columns,
            items: of_items,
            shares: shares(&counts),
        }))
    }

    /// Leaves out what follows an item, which no device needs before something is fitted.
    pub(super) fn without_neighbours(mut self) -> Self {
        self.neighbours.fill(0.0);
        self
    }

    /// Replaces the model by these statistics and what is learned.
    pub(super) fn write(&self, model: &mut Model, learned: &Learned) {
        model
            .table_mut(VECTORS)
            .as_mut_slice()
            .copy_from_slice(&self.vectors);
        model
            .table_mut(NEIGHBOURS_BLOCK)
            .as_mut_slice()
            .copy_from_slice(&self.neighbours);
        model
            .table_mut(COLUMNS)
            .as_mut_slice()
            .copy_from_slice(&self.columns);
        let items = model.table_mut(ITEMS);
        for (at, of_item) in self.items.iter().enumerate() {
            items.row_mut(at)[..of_item.len()].copy_from_slice(of_item);
        }
        self.write_learned(model, learned);
    }

    /// Replaces what is learned in a model of these statistics.
    pub(super) fn write_learned(&self, model: &mut Model, learned: &Learned) {
        let items = model.table_mut(ITEMS);
        for (at, shares) in self.shares.iter().enumerate() {
            let (all, returning) = shares.split_at(HALF_LIVES.len());
            let [of_all, of_returning] = learned.of_counts(all, returning);
            items.row_mut(at)[ALL] = of_all as f32;
            items.row_mut(at)[RETURNING] = of_returning as f32;
        }
        learned
            .coefficients
            .write(model.table_mut(LEARNED).row_mut(0));
    }

    pub(super) fn shares(&self) -> &[Vec<f64>] {
        &self.shares
    }
}

/// Returns the values of the vectors that were found, and the block of columns.
fn vectors_of(spectrum: &Spectrum, start: &Array2<f64>) -> (Vec<f32>, Vec<f32>) {
    let mut vectors = Array2::zeros(start.raw_dim());
    let found = spectrum.values.len();
    vectors
        .slice_mut(ndarray::s![.., ..found])
        .assign(&spectrum.vectors);
    // A vector has two signs. That of the vector before it makes their difference small.
    for (mut vector, before) in vectors.columns_mut().into_iter().zip(start.columns()) {
        if vector.dot(&before) < 0.0 {
            vector.mapv_inplace(|value| -value);
        }
    }
    let (vectors, mut of_columns) = without_scale(vectors);
    let value = |at: usize| spectrum.values.get(at).copied().unwrap_or(0.0);
    let roots = (0..start.ncols()).map(|at| math::sqrt(value(at).max(1e-9)) as f32);
    of_columns.extend(roots);
    (vectors, of_columns)
}

/// Returns the count of an item, which is 0 if nobody has taken it, the logarithm of its mean age, as
/// far as the counts of two half-lives tell it, and its drift.
fn item_of(counts: &[f64]) -> [f32; 3] {
    let ever = counts[HALF_LIVES.len() - 1];
    if !is_taken(counts) {
        return [0.0; 3];
    }
    let count = counts[COUNTS - 1].max(LEAST_COUNT);
    let at = HALF_LIVES.len() - 2;
    let kept = (counts[at] / ever).clamp(1e-9, 1.0);
    let days = -HALF_LIVES[at] * math::ln(kept) / std::f64::consts::LN_2;
    let [late, before] = DRIFT_COUNTS.map(|at| math::ln(counts[at] + DRIFT_SHRINKAGE));
    [count, math::ln(1.0 + days), late - before].map(|value| value as f32)
}

/// Returns the share of each item in every column of counts.
fn shares(counts: &[&[f64]]) -> Vec<Vec<f64>> {
    let columns = COUNTS - 1;
    let mut totals = vec![0.0; columns];
    for row in counts {
        totals
            .iter_mut()
            .zip(*row)
            .for_each(|(total, count)| *total += count);
    }
    let share = |(count, total): (&f64, &f64)| count / total.max(1e-9);
    let of = |row: &&[f64]| row.iter().zip(&totals).map(share).collect();
    counts.iter().map(of).collect()
}

/// Divides every column by the mean magnitude of its values, so that one codec fits all columns.
/// Returns the values, and what they are divided by.
fn without_scale(mut matrix: Array2<f64>) -> (Vec<f32>, Vec<f32>) {
    let rows = matrix.nrows().max(1) as f64;
    let mut scales = Vec::with_capacity(matrix.ncols());
    for mut column in matrix.axis_iter_mut(Axis(1)) {
        let scale = column.iter().map(|value| value.abs()).sum::<f64>() / rows;
        if scale > 0.0 {
            column /= scale;
        }
        scales.push(scale as f32);
    }
    let values = matrix.rows().into_iter().flat_map(|row| row.to_vec());
    (values.map(|value| value as f32).collect(), scales)
}
