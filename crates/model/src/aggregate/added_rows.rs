//! Contains the kernel of an aggregation: it adds rows to sums and counts magnitudes.

use super::VALUE_BYTES;
use super::support::Tally;
use crate::instruction_sets::end_of_block;
use crate::kernel::lane_math::LANES;
use crate::kernel::prefetch;
use crate::magnitude::count_above;
use crate::per_instruction_set;

/// The number of bytes that are counted together: few enough to stay in the cache until they are
/// added.
const PIECE_BYTES: usize = 1024;

/// Holds rows that are to be added.
pub(super) struct AddedRows<'a> {
    /// The little-endian values of the rows, row after row.
    pub bytes: &'a [u8],
    /// The numbers of the rows, and the number of the part's first row. `None` for all rows in
    /// their order.
    pub listed: Option<(&'a [u32], usize)>,
    /// The factor that they take.
    pub weight: f64,
    /// The number of values in a row, at least one.
    pub dimension: usize,
    /// The bytes that will be added next, which are prefetched meanwhile.
    pub later: &'a [u8],
}

per_instruction_set! {
    /// Adds the rows, by their weight, to `sums`, row after row, counts their magnitudes, and marks
    /// what is not 0.
    pub(super) fn add(rows: &AddedRows<'_>, sums: &mut [f64], tally: &mut Tally) {
        let AddedRows { bytes, mut listed, weight, dimension, mut later } = *rows;
        let width = dimension * VALUE_BYTES;
        let rows_at_once = (PIECE_BYTES / width).max(1);
        let mut row = 0;
        for piece in bytes.chunks(rows_at_once * width) {
            let (values, _) = piece.as_chunks();
            let above = count_above(values);
            let has_no_zero = above[0] as usize == values.len();
            let (soon, rest) = later.split_at(later.len().min(piece.len()));
            prefetch(soon);
            later = rest;
            for bytes in piece.chunks_exact(width) {
                if let Some((rows, first)) = &mut listed && let Some((number, rest)) = rows.split_first() {
                    row = *number as usize - *first;
                    *rows = rest;
                }
                add_row(bytes.as_chunks().0, weight, &mut sums[row * dimension..(row + 1) * dimension]);
                if has_no_zero {
                    tally.support.mark_all(row);
                } else {
                    tally.support.mark(row, bytes.as_chunks().0);
                }
                row += 1;
            }
            tally.counts.values += values.len() as u64;
            for (count, above) in tally.counts.above.iter_mut().zip(above) {
                *count += u64::from(above);
            }
        }
        prefetch(later);
    }
}

#[allow(clippy::needless_range_loop)] // The form that becomes one vector operation per line.
#[inline(always)]
fn add_row(values: &[[u8; VALUE_BYTES]], weight: f64, sums: &mut [f64]) {
    let ((values, values_rest), (sums, sums_rest)) =
        (values.as_chunks::<LANES>(), sums.as_chunks_mut::<LANES>());
    for (values, sums) in values.iter().zip(sums) {
        // Reads all lanes before it writes any, so that the compiler need not prove that source and
        // target are apart.
        let mut next = [0.0; LANES];
        for i in 0..LANES {
            next[i] = sums[i] + weight * f64::from(f32::from_le_bytes(values[i]));
        }
        *sums = next;
        end_of_block();
    }
    for (sum, value) in sums_rest.iter_mut().zip(values_rest) {
        *sum += weight * f64::from(f32::from_le_bytes(*value));
    }
}
