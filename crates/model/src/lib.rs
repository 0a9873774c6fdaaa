//! Models, the tables that they consist of, the arithmetic of training, scoring and averaging, and
//! the codecs that make frames of updates.
//!
//! [`layout`] describes what travels, as a list of named blocks, and [`blocks`] holds the values.
//! [`table`] holds one block, such as FedRAP's C, and its updates. [`row_table`] holds the touched
//! rows of a private table, such as FedRAP's D, and [`private`] keeps private parameters from being
//! sent. [`codec`] makes frames of updates. [`kernel`] turns a participation's samples into the
//! rows to train, trains and scores them, and [`aggregate`] averages updates. [`algebra`]
//! factorises and decomposes small matrices, and [`least_squares`] uses it to fit user vectors.
//! [`neural`] has small networks and their optimisers. [`archive`] stores the state of a run, so
//! that it can go on later.

pub mod aggregate;
pub mod algebra;
pub mod archive;
mod bits;
pub mod blocks;
pub mod clusters;
pub mod codec;
mod instruction_sets;
pub mod kernel;
pub mod layout;
pub mod least_squares;
pub mod magnitude;
pub mod neural;
pub mod noise;
pub mod noisy_sum;
pub mod private;
mod row_index;
pub mod row_table;
pub mod sent_rows;
pub mod state;
pub mod table;
#[cfg(test)]
mod tests;

pub use {
    archive::{Archive, ArchiveReader},
    blocks::{Model, ModelUpdate},
    instruction_sets::end_of_block,
    layout::{BlockKind, BlockLayout, Layout, ValueType},
    private::Private,
    state::StateVisitor,
    table::{RowSet, SharedTable, Table, TableShape, TableUpdate},
};
