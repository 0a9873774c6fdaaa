//! Adds products of matrices to matrices, block after block, for all that costs k^3.
//!
//! Blocks change what is in the caches and no bit: every element of the target is a running sum in
//! the order of the inner dimension, whatever the blocks, the threads and the instruction set.

// Loops over the elements of a tile become vector operations.
#![allow(clippy::needless_range_loop)]

use std::cell::RefCell;
use std::ops::Range;

use ndarray::{ArrayView2, ArrayViewMut2, Axis, s};
use rayon::prelude::*;

use super::arrays::{row_after_row, slices_of_rows};
use crate::per_instruction_set;

/// The number of rows and of columns of a tile of the target.
pub(crate) const TILE: usize = 8;

/// The number of rows of the target that a thread takes at a time. Their part of the left factor
/// stays in a second-level cache.
const STRIPE: usize = 128;

/// The number of products that are added to a tile while it is in registers.
const DEPTH: usize = 256;

/// The number of columns of the right factor that a thread packs at a time.
const GROUP: usize = 64;

/// The number of multiply-adds from which a product is worth the work of several threads.
const WORTH_DIVIDING: usize = 1 << 22;

/// Says which threads compute a product or an inverse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Threads {
    /// The caller's thread alone.
    One,
    /// All threads of the caller's pool, if there is enough to do. The caller's thread may do other
    /// work of the pool while it waits, so that it must not hold memory that such work needs.
    Pool,
}

/// Eight elements that belong to neighbouring rows or columns.
pub(crate) type Packed = [f64; TILE];

/// Says which elements of the target count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Part {
    /// All.
    Whole,
    /// Those whose column is not before their row. The others do not change.
    Upper,
}

/// Memory for packed blocks, which carries nothing from one product to the next.
#[derive(Default)]
struct Blocks {
    left: Vec<Packed>,
    right: Vec<Packed>,
}

thread_local! {
    static BLOCKS: RefCell<Blocks> = RefCell::default();
}

/// Two factors. Element (k, j) of the right one counts as zero, whatever it is, for k before
/// `first` of j.
pub(super) struct Factors<'a, F: Fn(usize) -> usize> {
    /// A (m x k).
    pub left: ArrayView2<'a, f64>,
    /// 1 or -1, by which A is multiplied.
    pub sign: f64,
    /// B (k x n).
    pub right: ArrayView2<'a, f64>,
    /// The first element of each column of B that is read.
    pub first: F,
}

/// Returns the first element of a column that is all read.
pub(super) fn whole_columns(_: usize) -> usize {
    0
}

impl<F: Fn(usize) -> usize + Sync> Factors<'_, F> {
    /// Adds the product to `target` (m x n), whose rows are stored element after element.
    ///
    /// # Panics
    /// If shapes do not fit, a defect of the caller.
    pub(super) fn add_to(&self, mut target: ArrayViewMut2<'_, f64>, part: Part, threads: Threads) {
        let ((rows, depth), columns) = (self.left.dim(), self.right.ncols());
        assert_eq!(self.right.nrows(), depth, "the rows of the right factor");
        assert_eq!(target.dim(), (rows, columns), "the shape of the product");
        let mut rows_of_target = slices_of_rows(&mut target);
        let is_shared = threads == Threads::Pool && rows * depth * columns >= WORTH_DIVIDING;
        // While this thread waits it may compute another product, which then makes memory of its own.
        let mut right = BLOCKS.with_borrow_mut(|blocks| std::mem::take(&mut blocks.right));
        right.resize(columns.div_ceil(TILE) * depth.min(DEPTH), [0.0; TILE]);
        for top in (0..depth).step_by(DEPTH) {
            let inner = top..depth.min(top + DEPTH);
            let packed = &mut right[..columns.div_ceil(TILE) * inner.len()];
            let pack = |(number, packed): (usize, &mut [Packed])| {
                self.pack_group(GROUP * number, &inner, packed);
            };
            let group = GROUP / TILE * inner.len();
            match is_shared {
                true => packed.par_chunks_mut(group).enumerate().for_each(pack),
                false => packed.chunks_mut(group).enumerate().for_each(pack),
            }
            let packed = &*packed;
            let add = |(number, stripe): (usize, &mut [&mut [f64]])| {
                BLOCKS.with_borrow_mut(|blocks| {
                    let factors = (&mut blocks.left, packed);
                    self.add_to_stripe(stripe, number * STRIPE, (&inner, part), factors);
                });
            };
            let rows = &mut rows_of_target;
            match is_shared {
                true => rows.par_chunks_mut(STRIPE).enumerate().for_each(add),
                false => rows.chunks_mut(STRIPE).enumerate().for_each(add),
            }
        }
        BLOCKS.with_borrow_mut(|blocks| blocks.right = right);
    }

    /// Packs the columns of the right factor from `from` on, as many as there is place for.
    fn pack_group(&self, from: usize, inner: &Range<usize>, packed: &mut [Packed]) {
        let end = self.right.ncols().min(from + GROUP);
        let block = self.right.slice(s![inner.clone(), from..end]);
        let first = |column: usize| (self.first)(from + column).saturating_sub(inner.start);
        pack_right(&block, first, packed);
    }

    /// Adds the product of some columns of the left factor with packed rows of the right one to the rows
    /// of the target from `above` on.
    fn add_to_stripe(
        &self,
        stripe: &mut [&mut [f64]],
        above: usize,
        (inner, part): (&Range<usize>, Part),
        (left, right): (&mut Vec<Packed>, &[Packed]),
    ) {
        let rows = above..above + stripe.len();
        pack_left(&self.left.slice(s![rows, inner.clone()]), self.sign, left);
        // Whole tiles to the left of the diagonal have nothing that counts.
        let (start, diagonal) = match part {
            Part::Whole => (0, None),
            Part::Upper => (above / TILE, Some(above)),
        };
        let columns = self.right.ncols();
        let panels = right.chunks_exact(inner.len()).enumerate();
        for (number, right) in panels.skip(start) {
            let column = TILE * number;
            let width = TILE.min(columns - column);
            let zeros = (column..column + width).map(&self.first).min();
            let zeros = zeros.unwrap_or(0).saturating_sub(inner.start);
            let panel = Panel {
                right,
                skipped: zeros.min(inner.len()),
                column,
                width,
            };
            add_panel(stripe, left, panel, diagonal);
        }
    }
}

/// Eight packed columns of the right factor.
#[derive(Clone, Copy)]
struct Panel<'a> {
    right: &'a [Packed],
    /// The number of elements from the first on that are zero in all of them.
    skipped: usize,
    /// The place of the first column, and the number of columns that there are.
    column: usize,
    width: usize,
}

/// Packs a block of the left factor: eight rows side by side, and below them the next eight.
fn pack_left(block: &ArrayView2<'_, f64>, sign: f64, packed: &mut Vec<Packed>) {
    let (rows, depth) = block.dim();
    packed.clear();
    packed.resize(rows.div_ceil(TILE) * depth, [0.0; TILE]);
    if depth == 0 {
        return;
    }
    let panels = packed.chunks_exact_mut(depth);
    for (panel, block) in panels.zip(block.axis_chunks_iter(Axis(0), TILE)) {
        if block.strides()[0] == 1 {
            for (to, column) in panel.iter_mut().zip(block.columns()) {
                to.iter_mut()
                    .zip(column)
                    .for_each(|(to, value)| *to = sign * value);
            }
        } else {
            for (r, row) in block.rows().into_iter().enumerate() {
                panel
                    .iter_mut()
                    .zip(row)
                    .for_each(|(to, value)| to[r] = sign * value);
            }
        }
    }
}

/// Packs a block of the right factor: eight columns side by side, and below them the next eight.
fn pack_right(block: &ArrayView2<'_, f64>, first: impl Fn(usize) -> usize, packed: &mut [Packed]) {
    let (depth, columns) = block.dim();
    if block.strides()[1] == 1 {
        for (k, row) in block.rows().into_iter().enumerate() {
            let row = row_after_row(row.to_slice());
            for (panel, row) in row.chunks(TILE).enumerate() {
                let to = &mut packed[panel * depth + k];
                match row.first_chunk() {
                    Some(row) => *to = *row,
                    None => to[..row.len()].copy_from_slice(row),
                }
            }
        }
    } else {
        for (j, column) in block.columns().into_iter().enumerate() {
            let panel = &mut packed[j / TILE * depth..][..depth];
            panel
                .iter_mut()
                .zip(column)
                .for_each(|(to, value)| to[j % TILE] = *value);
        }
    }
    for j in 0..columns {
        let zeros = first(j).min(depth);
        packed[j / TILE * depth..][..zeros]
            .iter_mut()
            .for_each(|to| to[j % TILE] = 0.0);
    }
}

per_instruction_set! {
    /// Adds the product of the packed `left` with a panel of the right factor to the rows of a
    /// stripe. With a `diagonal`, the number of rows above, elements to its left do not count.
    fn add_panel(
        stripe: &mut [&mut [f64]],
        left: &[Packed],
        panel: Panel<'_>,
        diagonal: Option<usize>,
    ) {
        let Panel { right, skipped, column, width } = panel;
        let (depth, right) = (right.len(), &right[skipped..]);
        // The first column that counts in a row.
        let start = |row: usize| diagonal.map_or(0, |above| (above + row).saturating_sub(column)).min(width);
        let tiles = stripe.chunks_mut(TILE).zip(left.chunks_exact(depth));
        for (number, (rows, left)) in tiles.enumerate() {
            let top = TILE * number;
            if start(top) == width {
                break;
            }
            let mut sums = [[0.0; TILE]; TILE];
            for (sums, row) in sums.iter_mut().zip(&*rows) {
                let row = &row[column..column + width];
                match row.first_chunk() {
                    Some(row) => *sums = *row,
                    None => sums[..width].copy_from_slice(row),
                }
            }
            add_products(&mut sums, &left[skipped..], right);
            for (r, (sums, row)) in sums.iter().zip(rows).enumerate() {
                let (start, row) = (start(top + r), &mut row[column..column + width]);
                match row.first_chunk_mut() {
                    Some(row) if start == 0 => *row = *sums,
                    _ => row[start..].copy_from_slice(&sums[start..width]),
                }
            }
        }
    }
}

/// Adds the products of a tile. The sums of half of its rows are in registers at a time: more would
/// not fit into those of most instruction sets.
#[inline(always)]
fn add_products(sums: &mut [Packed; TILE], left: &[Packed], right: &[Packed]) {
    const ROWS: usize = TILE / 2;
    for top in [0, ROWS] {
        let mut own = [[0.0; TILE]; ROWS];
        own.copy_from_slice(&sums[top..top + ROWS]);
        for (left, right) in left.iter().zip(right) {
            for r in 0..ROWS {
                for c in 0..TILE {
                    own[r][c] += left[top + r] * right[c];
                }
            }
        }
        sums[top..top + ROWS].copy_from_slice(&own);
    }
}
