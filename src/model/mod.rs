//! Tables, kernels, optimisers and ranking metrics: what is computed, not who computes it.

pub mod aggregate;
pub mod batch;
pub mod kernel;
pub mod magnitude;
pub mod private;
pub mod ranking;
mod row_index;
pub mod row_table;
pub mod table;
