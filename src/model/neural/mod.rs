//! Small neural networks: dense layers, their gradients, losses and optimisers.
//!
//! [`SampleMatrix`] holds the activations of a batch, sixteen samples to a group; [`dense`] has the kernels of one layer;
//! [`Perceptron`] strings layers together and keeps its parameters in one flat slice; [`loss`] turns outputs and labels
//! into gradients; [`optimizer`] steps flat slices of parameters. Everything is single precision in a fixed order of
//! summation, without fused multiply-add, so that the bits are the same under every instruction set (contract 1).

pub mod dense;
pub mod loss;
pub mod optimizer;
mod perceptron;
mod row_batch;
mod sample_matrix;
#[cfg(test)]
mod tests;

pub use perceptron::{Layer, Perceptron, PerceptronBuffers};
pub use row_batch::RowBatch;
pub use sample_matrix::SampleMatrix;
