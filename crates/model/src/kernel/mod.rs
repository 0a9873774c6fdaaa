//! Contains the training kernels, which take full steps over compact arrays of item rows.
//!
//! A client gathers the distinct rows of a round into one array, aligned to cache lines and padded
//! to sixteen lanes, and trains all epochs there. Every kernel is compiled for several instruction
//! sets and chosen at run time; the sixteen partial sums, their order and the absence of fused
//! multiply-add are the same in all of them, so the bits are too (contract 1).

// Loops over lanes become one vector operation per line.
#![allow(clippy::needless_range_loop)]

pub mod additive;
pub mod catalogue;
pub(crate) mod lane_math;
mod lanes;
pub mod logistic;
mod passes;
mod prefetch;
mod samples;
pub mod score;
#[cfg(test)]
mod tests;
mod wire;

pub use lane_math::{LANES, Lanes, exp_neg_abs, felt_slope, sigmoid};
pub use lanes::{Block, MAX_DIMENSION, PackedRows, packed_vector, unpack_into};
pub use passes::{Column, LargestMagnitude, RowSink, RowSource, TableRows};
pub use prefetch::prefetch;
pub use samples::{BatchRows, RoundRows, RowWeights, Targets};
pub(crate) use wire::{little_endian_bytes, shared_bytes};

/// Calls `$function::<V, ...>($arguments)` for the instance that fits a run-time number of lane
/// vectors.
///
/// Instances exist for the numbers that [`padded_vectors`] gives.
macro_rules! for_vectors {
    ($vectors:expr, $function:ident [$($extra:tt)*] ($($argument:expr),* $(,)?)) => {
        match $vectors {
            1 => $function::<1, $($extra)*>($($argument),*),
            2 => $function::<2, $($extra)*>($($argument),*),
            3 => $function::<3, $($extra)*>($($argument),*),
            4 => $function::<4, $($extra)*>($($argument),*),
            8 => $function::<8, $($extra)*>($($argument),*),
            _ => $function::<16, $($extra)*>($($argument),*),
        }
    };
}
use for_vectors;
