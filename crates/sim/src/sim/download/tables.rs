//! Turns the tables of a model into updates to be encoded, and compares them bit for bit.

use fedrecsim_core::error::Result;
use fedrecsim_model::codec::{BlockCodecs, CodecMemory, EncodeContext, Frame, Randomness};
use fedrecsim_model::model::blocks::{BlockValues, Model, ModelUpdate};
use fedrecsim_model::model::layout::{BlockKind, Layout};
use fedrecsim_model::model::table::{RowSet, Table, TableUpdate, extend_bytes};

/// Encodes a model. Receivers may have nothing yet, so rows that are left out are zero.
pub(super) fn encode(
    model: &Model,
    layout: &Layout,
    codecs: &BlockCodecs,
    randomness: Randomness,
) -> Result<Frame> {
    let mut blocks = Vec::with_capacity(model.blocks().len());
    for (block, values) in layout.blocks().iter().zip(model.blocks()) {
        blocks.push(match (block.kind, values) {
            (BlockKind::ItemTable, BlockValues::Table(table))
                if codecs.of_block(block).leaves_rows_out() =>
            {
                nonzero_rows(table).unwrap_or_else(|| TableUpdate::of_table(table))
            }
            (_, BlockValues::Table(table)) => TableUpdate::of_table(table),
            (_, BlockValues::Raw(bytes)) => {
                TableUpdate::raw(block.shape, block.value_type, bytes.clone())
            }
        });
    }
    let mut context = EncodeContext {
        base: &Model::none(),
        memory: &mut CodecMemory::default(),
        randomness,
    };
    codecs
        .encode(&ModelUpdate::of_blocks(blocks), layout, &mut context)
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
