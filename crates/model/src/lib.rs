//! Parameters and how they travel: blocks, kernels, sums, and the codecs that make frames of updates.

pub mod codec;
pub mod model;
