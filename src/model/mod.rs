//! Tables, kernels and averages: what is computed, not who computes it.
//!
//! [`layout`] describes what travels, as a list of named blocks, and [`blocks`] holds the values; [`table`] is one block
//! (FedRAP's C) and what is said about it on the wire; [`row_table`] is a private table (D), of which only touched rows
//! exist; [`private`] the wrapper that keeps it off the wire. [`batch`] turns a round's samples into the rows to train,
//! [`kernel`] trains and scores them, [`aggregate`] averages what comes back. [`algebra`] factorises and decomposes small
//! matrices, and [`least_squares`] fits user vectors with it; [`neural`] has small networks and their optimisers.
//! [`archive`] is what a run keeps of all of them to go on from.

pub mod aggregate;
pub mod algebra;
pub mod archive;
pub mod batch;
pub mod blocks;
mod instruction_sets;
pub mod kernel;
pub mod layout;
pub mod least_squares;
pub mod magnitude;
pub mod neural;
pub mod private;
mod row_index;
pub mod row_table;
pub mod sent_rows;
pub mod state;
pub mod table;
#[cfg(test)]
pub(crate) mod tests;
pub mod value_type;
