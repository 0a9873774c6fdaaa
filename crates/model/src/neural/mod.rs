//! Implements small neural networks: dense layers, their gradients, losses and optimisers.
//!
//! [`SampleMatrix`] holds the activations of a batch, in groups of sixteen samples. [`dense`] has
//! the kernels of one layer. [`Perceptron`] combines layers and keeps its parameters in one flat
//! slice. [`loss`] turns outputs and labels into gradients, [`contrast`] draws labelled rows together, and [`optimizer`] steps flat slices of
//! parameters. All computation is in single precision in a fixed order of summation, without fused
//! multiply-add, so that the bits are the same under every instruction set (contract 1).

// Loops over lanes become one vector operation per line.
#![allow(clippy::needless_range_loop)]

pub mod contrast;
pub mod dense;
pub mod loss;
pub mod optimizer;
mod perceptron;
mod sample_matrix;
#[cfg(test)]
mod tests;

pub use perceptron::{Layer, Perceptron, PerceptronBuffers};
pub use sample_matrix::SampleMatrix;
