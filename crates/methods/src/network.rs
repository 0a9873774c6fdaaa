//! Reads the blocks of a model as one flat slice, and writes them.

use fedrecsim_model::{BlockLayout, Layout, Model, Table};

/// Makes a model of this layout from flat values, which have those of one block after the other.
///
/// # Panics
/// If there are other values than the layout has, which is a defect of the method.
pub(super) fn model(layout: Layout, values: &[f32]) -> Model {
    let tables = tables(layout.blocks(), values);
    Model::of_tables(layout, tables)
}

/// Makes the tables of these blocks from flat values.
///
/// # Panics
/// If there are other values than these blocks have.
pub(super) fn tables(blocks: &[BlockLayout], values: &[f32]) -> Vec<Table> {
    let mut rest = values;
    let table = |block: &BlockLayout| {
        let (of_block, others) = rest.split_at(block.shape.values());
        rest = others;
        Table::new(block.shape, of_block.to_vec())
    };
    let tables = blocks.iter().map(table).collect();
    assert!(rest.is_empty(), "values of more blocks");
    tables
}

/// Replaces the values of the blocks from `first` on by those of a flat slice.
///
/// # Panics
/// If there are fewer values than these blocks have.
pub(super) fn set(model: &mut Model, first: usize, values: &[f32]) {
    let mut rest = values;
    for block in first..model.blocks().len() {
        let table = model.table_mut(block).as_mut_slice();
        let (of_block, others) = rest.split_at(table.len());
        table.copy_from_slice(of_block);
        rest = others;
    }
}

/// Returns the values of the blocks from `first` on, one block after the other.
pub(super) fn parameters(model: &Model, first: usize) -> Vec<f32> {
    let blocks = first..model.blocks().len();
    blocks
        .flat_map(|block| model.table(block).as_slice().iter().copied())
        .collect()
}
