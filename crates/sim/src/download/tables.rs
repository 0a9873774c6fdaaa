//! Turns the tables of a model into updates to be encoded, and compares them bit for bit.

use fedrecsim_core::Result;
use fedrecsim_model::blocks::BlockValues;
use fedrecsim_model::codec::{BlockCodecs, CodecMemory, EncodeContext, Frame, Randomness};
use fedrecsim_model::table::extend_bytes;
use fedrecsim_model::{
    BlockKind, BlockLayout, Layout, Model, ModelUpdate, RowSet, SharedTable, Table, TableUpdate,
};

/// Encodes a model. Receivers may have nothing yet, so rows that are left out are zero.
pub(super) fn encode(
    model: &Model,
    layout: &Layout,
    codecs: &BlockCodecs,
    randomness: Randomness,
) -> Result<Frame> {
    let update = |block: &BlockLayout, table: &SharedTable| {
        let leaves_out =
            block.kind == BlockKind::ItemTable && codecs.of_block(block).leaves_rows_out();
        let nonzero = leaves_out.then(|| nonzero_rows(table)).flatten();
        nonzero.unwrap_or_else(|| TableUpdate::whole(table.clone()))
    };
    encode_with(update, model, (layout, codecs), &Model::none(), randomness)
}

/// Encodes a model whose tables travel as `update` says. Receivers have `base`.
pub(super) fn encode_with(
    update: impl Fn(&BlockLayout, &SharedTable) -> TableUpdate,
    model: &Model,
    (layout, codecs): (&Layout, &BlockCodecs),
    base: &Model,
    randomness: Randomness,
) -> Result<Frame> {
    let blocks = layout.blocks().iter().zip(model.blocks());
    let blocks = blocks.map(|(block, values)| match values {
        BlockValues::Table(table) => update(block, table),
        BlockValues::Raw(bytes) => TableUpdate::raw(block.shape, block.value_type, bytes.clone()),
    });
    let update = ModelUpdate::of_blocks(blocks.collect());
    let mut context = EncodeContext {
        base,
        memory: &mut CodecMemory::default(),
        randomness,
    };
    codecs
        .encode(&update, layout, &mut context)
        .map_err(|error| error.within("a download"))
}

/// Returns the rows of `table` that are not all +0.0, which are those that a rows codec must send;
/// `None` if that is every row.
fn nonzero_rows(table: &Table) -> Option<TableUpdate> {
    let shape = table.shape();
    let is_nonzero = |row: &u32| {
        table
            .row(*row as usize)
            .iter()
            .any(|value| value.to_bits() != 0)
    };
    let rows: Vec<u32> = (0..shape.rows as u32).filter(is_nonzero).collect();
    if rows.len() == shape.rows {
        return None;
    }
    // Rows that are left out are decoded as zero times the base, which is zero.
    Some(listed(table, rows))
}

/// Returns these rows of a table as an update.
fn listed(table: &Table, rows: Vec<u32>) -> TableUpdate {
    let shape = table.shape();
    let mut values = Vec::with_capacity(rows.len() * shape.dimension * 4);
    rows.iter()
        .for_each(|row| extend_bytes(&mut values, table.row(*row as usize)));
    TableUpdate::of_rows(shape, RowSet::Listed(rows), values.into())
}

/// Returns the rows of `table` that differ from those of `before`, which has the same shape.
pub(super) fn changed_rows(table: &Table, before: &Table) -> TableUpdate {
    let differs = |row: &u32| {
        let pairs = table
            .row(*row as usize)
            .iter()
            .zip(before.row(*row as usize));
        pairs.fold(0, |differing, (one, other)| {
            differing | (one.to_bits() ^ other.to_bits())
        }) != 0
    };
    let rows = (0..table.shape().rows as u32).filter(differs).collect();
    listed(table, rows)
}

/// Returns whether two models of one layout are equal bit for bit.
pub(super) fn has_the_bits_of_model(one: &Model, other: &Model) -> bool {
    one.blocks()
        .iter()
        .zip(other.blocks())
        .all(|(one, other)| has_the_bits_of(one, other))
}

/// Returns whether two blocks are equal bit for bit.
fn has_the_bits_of(one: &BlockValues, other: &BlockValues) -> bool {
    match (one, other) {
        (BlockValues::Table(one), BlockValues::Table(other)) => {
            let pairs = one.as_slice().iter().zip(other.as_slice());
            // There is no early exit, so that the loop vectorises.
            pairs.fold(0, |differing, (one, other)| {
                differing | (one.to_bits() ^ other.to_bits())
            }) == 0
        }
        (BlockValues::Raw(one), BlockValues::Raw(other)) => one == other,
        _ => false,
    }
}
