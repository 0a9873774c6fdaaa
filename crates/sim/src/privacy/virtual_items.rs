//! Adds rows of items that the user has not rated to uploads that list rows.
//!
//! The rows say what training says of any item that it has not touched: no change, or a zero in a
//! statistic. So what is learned stays as it is. A server that looks at which rows arrive sees
//! rated and virtual items alike, in one upload and in all of a user, since a user has the same
//! virtual items in all of them. A server that looks at values sees which rows are unchanged; only
//! noise hides that.

use super::{Mechanism, Protection};
use fedrecsim_core::{PortableDraws, Result, Stream};
use fedrecsim_model::table::VALUE_BYTES;
use fedrecsim_model::{BlockKind, ModelUpdate, RowSet, Table, TableUpdate, ValueType};
use fedrecsim_scenario::VirtualItemsSpec;

/// Adds this many rows of unrated items for each rated item.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct VirtualItems {
    per_rated_item: f64,
}

impl VirtualItems {
    /// Makes the mechanism.
    pub(crate) fn new(spec: VirtualItemsSpec) -> Self {
        Self {
            per_rated_item: spec.per_rated_item,
        }
    }

    /// Returns the virtual items of a user with these rated items (ascending) of a catalogue,
    /// ascending. They are drawn without replacement among the other items; all are taken if there
    /// are too few.
    fn drawn(&self, rated: &[u32], items: usize, stream: &mut Stream) -> Vec<u32> {
        let mut distinct = rated.to_vec();
        distinct.dedup();
        let mut unrated: Vec<u32> = (0..items as u32)
            .filter(|item| distinct.binary_search(item).is_err())
            .collect();
        let count = (self.per_rated_item * distinct.len() as f64 + 0.5) as usize;
        stream.keep_drawn(&mut unrated, count);
        unrated.sort_unstable();
        unrated
    }
}

impl Mechanism for VirtualItems {
    fn protect(&self, update: &mut ModelUpdate, protection: &Protection<'_>) -> Result<()> {
        for (block, described) in update.blocks.iter_mut().zip(protection.layout.blocks()) {
            let lists_items =
                described.kind == BlockKind::ItemTable && block.value_type == ValueType::F32;
            if let (RowSet::Listed(listed), true) = (&block.rows, lists_items) {
                // The stream is the same for every block and every upload of the user.
                let mut stream = protection
                    .randomness
                    .stream_of_user("privacy/virtual-items");
                let drawn = self.drawn(protection.rated, block.shape.rows, &mut stream);
                let new: Vec<u32> = drawn
                    .into_iter()
                    .filter(|item| listed.binary_search(item).is_err())
                    .collect();
                *block = with_untouched(block, &new, protection.base.base_of(described));
            }
        }
        Ok(())
    }
}

/// Returns the update with `new` rows (ascending, none of them listed), as they are if training has
/// not touched them.
fn with_untouched(block: &TableUpdate, new: &[u32], base: Option<&Table>) -> TableUpdate {
    let rows = block.rows.len(block.shape) + new.len();
    let (mut all, mut values) = (
        Vec::with_capacity(rows),
        Vec::with_capacity(rows * block.row_bytes()),
    );
    let add_new = |row: u32, all: &mut Vec<u32>, values: &mut Vec<u8>| {
        all.push(row);
        match base {
            Some(table) => {
                let untouched = table
                    .row(row as usize)
                    .iter()
                    .map(|value| value * block.others_scale);
                untouched.for_each(|value| values.extend_from_slice(&value.to_le_bytes()));
            }
            None => values.resize(values.len() + VALUE_BYTES * block.shape.dimension, 0),
        }
    };
    let mut new = new.iter().copied().peekable();
    for (row, bytes) in block.iter() {
        while let Some(before) = new.next_if(|item| (*item as usize) < row) {
            add_new(before, &mut all, &mut values);
        }
        all.push(row as u32);
        values.extend_from_slice(bytes);
    }
    new.for_each(|after| add_new(after, &mut all, &mut values));
    TableUpdate {
        rows: RowSet::Listed(all),
        values: values.into(),
        ..block.clone()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fedrecsim_core::Streams;
    use fedrecsim_model::codec::{FrameKind, Randomness};
    use fedrecsim_model::{BlockLayout, Layout, Model, Table, TableShape};

    const SHAPE: TableShape = TableShape {
        rows: 30,
        dimension: 2,
    };

    /// Returns what became of an update that lists the rated rows 4 and 9 and the row 20, in a
    /// table or a statistic.
    fn protected(
        per_rated_item: f64,
        scale: f32,
        layout: &Layout,
        (user, invitation_id): (u32, u32),
    ) -> TableUpdate {
        let model = Model::of_table("V", Table::from_fn(SHAPE, || 2.0));
        let mut update = ModelUpdate::of_table(
            TableUpdate::listed(SHAPE, vec![4, 9, 20], &[7.0; 6], scale).unwrap(),
        );
        let meant = update.apply(layout, &model).unwrap();
        let randomness = Randomness::new(
            Streams::new(1),
            FrameKind::Upload,
            Some(user),
            invitation_id,
        );
        let protection = Protection {
            layout,
            base: &model,
            rated: &[4, 4, 9],
            randomness,
        };
        let mechanism = VirtualItems::new(VirtualItemsSpec { per_rated_item });
        mechanism.protect(&mut update, &protection).unwrap();
        assert_eq!(
            update.apply(layout, &model).unwrap(),
            meant,
            "the update says something else"
        );
        update.blocks.remove(0)
    }

    fn rows(update: &TableUpdate) -> Vec<u32> {
        update.iter().map(|(row, _)| row as u32).collect()
    }

    /// If this fails, virtual items change what is learned, or there are too few of them.
    #[test]
    fn an_upload_lists_more_rows_and_says_the_same() {
        let table = Layout::of_table("V", SHAPE);
        let statistic = Layout::new(vec![BlockLayout::item_table("V", SHAPE).statistic()]);
        for (layout, scale) in [(&table, 1.0), (&table, 0.5), (&statistic, 1.0)] {
            let found = rows(&protected(3.0, scale, layout, (1, 0)));
            assert!(
                found.len() == 9 || found.len() == 8,
                "six rows beside three, one of which may be the same: {found:?}"
            );
            assert!(
                [4, 9, 20].iter().all(|row| found.contains(row)),
                "{found:?}"
            );
        }
        assert_eq!(
            rows(&protected(1000.0, 1.0, &table, (1, 0))).len(),
            30,
            "there are no more items"
        );
    }

    /// If this fails, the items that a user sends every time are the rated ones alone.
    #[test]
    fn a_user_has_the_same_virtual_items_every_time() {
        let layout = Layout::of_table("V", SHAPE);
        let of = |user, invitation_id| rows(&protected(3.0, 1.0, &layout, (user, invitation_id)));
        assert_eq!(of(1, 0), of(1, 7));
        assert_ne!(of(1, 0), of(2, 0));
    }
}
