//! The columns in which devices count what follows an item.

use crate::prelude::*;

/// Gives every item a column and a sign. With as many columns as items, each has its own. With
/// fewer, items share one, and the signs let what the others add cancel on average (a count sketch:
/// Charikar, Chen and Farach-Colton, ICALP 2002).
#[derive(Clone, Debug)]
pub(super) struct StepColumns {
    of_items: Vec<(u32, f64)>,
    count: usize,
}

impl StepColumns {
    /// Gives each of `items` items one of at most `most` columns.
    pub(super) fn new(items: usize, most: usize, streams: Streams) -> Self {
        let mut stream = streams.named("fedtide/columns", 0, 0);
        let own = |item: u32| match items <= most {
            true => (item, 1.0),
            false => {
                let column = stream.below(most as u32);
                (column, if stream.below(2) == 0 { 1.0 } else { -1.0 })
            }
        };
        Self {
            of_items: (0..items as u32).map(own).collect(),
            count: items.min(most),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns the column of an item, and its sign there.
    pub(super) fn of(&self, item: u32) -> (usize, f64) {
        let (column, sign) = self.of_items[item as usize];
        (column as usize, sign)
    }

    /// Returns what `row` says of every item.
    pub(super) fn read<'a>(&'a self, row: &'a [f64]) -> impl Iterator<Item = f64> + use<'a> {
        let items = self.of_items.iter();
        items.map(|(column, sign)| sign * row[*column as usize])
    }
}
