//! Tables, kernels, averages and ranking metrics: what is computed, not who computes it.
//!
//! [`table`] is the shared table (FedRAP's C) and what is said about it on the wire; [`row_table`] a private one (D), of
//! which only touched rows exist; [`private`] the wrapper that keeps it off the wire. [`batch`] turns a round's samples
//! into the rows to train, [`kernel`] trains and scores them, [`aggregate`] averages what comes back, and [`ranking`] says
//! how good it is. [`algebra`] factorises and decomposes small matrices, and [`least_squares`] fits user vectors with it.
//! [`archive`] is what a run keeps of all of them to go on from.

pub mod aggregate;
pub mod algebra;
pub mod archive;
pub mod batch;
mod instruction_sets;
pub mod kernel;
pub mod least_squares;
pub mod magnitude;
pub mod private;
pub mod ranking;
mod row_index;
pub mod row_table;
pub mod table;
#[cfg(test)]
mod tests;
