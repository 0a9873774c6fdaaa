//! Tables, kernels, optimisers and ranking metrics: what is computed, not who computes it.

pub mod private;
pub mod table;
