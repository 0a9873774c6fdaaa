//! Moves the rows of a participation of FedRAP: they are gathered while the first step goes through
//! them, and written back while the last one does.

use fedrecsim_core::stages::{Stage, enter};
use fedrecsim_model::kernel::additive::RowMover;
use fedrecsim_model::kernel::{
    Block, Column, LANES, LargestMagnitude, PackedRows, RowSource, TableRows,
};
use fedrecsim_model::row_table::FoundRows;

/// The numbers of the tables in the packed rows.
pub(super) const D: usize = 0;
pub(super) const C: usize = 1;

/// Knows where the rows of a participation come from and where they go.
pub(super) struct MovingRows<'a> {
    rows: usize,
    dimension: usize,
    columns: [Column; 2],
    /// The rows of D, if there is a D.
    found: Option<FoundRows<'a>>,
    /// The rows of the download, if C is shared.
    downloaded: Option<TableRows<'a>>,
    /// The trained rows of C as bytes.
    uploaded: Vec<u8>,
    largest: [LargestMagnitude; 2],
    is_leaving: bool,
}

impl<'a> MovingRows<'a> {
    /// Prepares to gather this many rows of D and C into `packed`, which gets room for them. A table
    /// that is left out is zero. The memory of `uploaded` is reused.
    pub(crate) fn new(
        (rows, dimension): (usize, usize),
        (found, downloaded): (Option<FoundRows<'a>>, Option<TableRows<'a>>),
        packed: &mut PackedRows,
        uploaded: Vec<u8>,
    ) -> Self {
        match found.is_some() && downloaded.is_some() {
            true => packed.reset_for_overwriting(rows, dimension, 2),
            false => packed.reset(rows, dimension, 2),
        }
        // Gathering prefetches some rows ahead, so that nothing has prefetched the first ones yet.
        if let Some(found) = &found {
            (0..rows.min(LANES)).for_each(|position| found.prefetch(position));
        }
        Self {
            rows,
            dimension,
            columns: [D, C].map(|table| packed.column(table)),
            found,
            downloaded,
            uploaded,
            largest: Default::default(),
            is_leaving: false,
        }
    }

    /// Makes the rows, which have moved in, move out from now on. All other rows of D decay by
    /// `others_scale`.
    pub(crate) fn turn_round(&mut self, others_scale: f32) {
        let _stage = enter(Stage::Scatter);
        self.is_leaving = true;
        if let Some(found) = &mut self.found {
            found.make_writable(others_scale);
        }
        self.uploaded.clear();
        self.uploaded.reserve(self.rows * self.dimension * 4);
    }

    /// Moves the rows out at once, unless they have moved out already. All other rows of D decay by
    /// `others_scale`.
    pub(crate) fn move_out_at_once(&mut self, packed: &PackedRows, others_scale: f32) {
        if !self.is_leaving {
            self.turn_round(others_scale);
            self.write_back(0..self.rows, packed.blocks());
        }
    }

    /// Returns the trained rows of C as bytes, and the largest magnitudes in D and C (NaN where
    /// there was one).
    pub(crate) fn finish(self) -> (Vec<u8>, [f32; 2]) {
        (self.uploaded, self.largest.map(|largest| largest.value()))
    }

    fn write_back(&mut self, positions: std::ops::Range<usize>, blocks: &[Block]) {
        let [d, c] = &mut self.largest;
        let rows = positions.len();
        if let Some(found) = &mut self.found {
            let _stage = enter(Stage::Scatter);
            self.columns[D].scatter(blocks, positions, found, d);
        }
        if self.downloaded.is_some() {
            let _stage = enter(Stage::Encode);
            self.columns[C].append_bytes(blocks, rows, self.dimension, &mut self.uploaded, c);
        }
    }
}

impl RowMover for MovingRows<'_> {
    fn move_in(&mut self, first: usize, blocks: &mut [Block]) {
        if self.is_leaving {
            return;
        }
        let _stage = enter(Stage::Gather);
        let positions = first..self.rows.min(first + LANES);
        if let Some(found) = &self.found {
            self.columns[D].gather(blocks, positions.clone(), found);
        }
        if let Some(downloaded) = &self.downloaded {
            self.columns[C].gather(blocks, positions, downloaded);
        }
    }

    fn move_out(&mut self, first: usize, blocks: &[Block]) {
        if self.is_leaving {
            self.write_back(first..self.rows.min(first + LANES), blocks);
        }
    }
}
