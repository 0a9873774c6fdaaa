//! FedGram: federated implicit least squares with the exact gradient of all negatives.
//!
//! A device solves for its private vector x, and uploads the gradients of its positives' rows and the matrix x x^T. The
//! sum of the latter stands for every pair of a user and an item that is no positive, so the server makes a Newton-like
//! step of the whole table without any sampled negatives. This is FCF's objective with a second-order step in place of
//! its first-order one, and without its dense uploads.
//!
//! Source: an own method of this project; the closest prior work is FCF (arXiv 1901.09888).

pub mod numerics;
#[cfg(test)]
mod tests;
