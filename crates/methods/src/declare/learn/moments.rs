//! Keeps Adam's moments of a private user vector and of rows from one participation to the next, in
//! private blocks, for a device whose optimiser never starts anew.

use crate::declare::{Block, Own, item_table, vector};
use fedrecsim_model::neural::optimizer::{AdamMoments, AdamSettings};

/// The blocks, which have the first moments before the second ones, and the number of steps.
const OF_USER: &str = "moments of the vector";
const OF_ROWS: &str = "moments of rows";
const STEPS: &str = "steps";

/// Declares the blocks for a vector of `k` values and a table with as many for each item.
pub(crate) fn blocks(items: usize, k: u32) -> [Block; 3] {
    let own = [
        vector(OF_USER, 2 * k),
        item_table(OF_ROWS, items, 2 * k),
        vector(STEPS, 1),
    ];
    own.map(|block| block.private().alike())
}

/// Holds the moments of the vector and, behind it, of some rows while they are trained.
pub(crate) struct KeptMoments {
    settings: AdamSettings,
    moments: AdamMoments,
    steps: u64,
}

impl KeptMoments {
    /// Reads what a device has kept for the rows of these items (ascending).
    pub(crate) fn of<S>(own: &Own<S>, items: &[u32], settings: AdamSettings) -> Self {
        let of_user = own.get(OF_USER);
        let (first, second) = of_user.split_at(of_user.len() / 2);
        let [mut first, mut second] = [first, second].map(<[f32]>::to_vec);
        let (rows, start) = own.rows(OF_ROWS);
        rows.read_rows(items, start, &mut Vec::new(), |_, row, _| {
            let (of_row, square) = row.split_at(row.len() / 2);
            first.extend_from_slice(of_row);
            second.extend_from_slice(square);
        });
        Self {
            settings,
            moments: AdamMoments { first, second },
            steps: own.get(STEPS)[0] as u64,
        }
    }

    /// Moves the vector and the rows behind it by one step against the gradient.
    pub(crate) fn step(&mut self, parameters: &mut [f32], gradient: &[f32]) {
        self.steps += 1;
        self.moments
            .step(&self.settings, self.steps, parameters, gradient);
    }

    /// Keeps the moments for the rows of the same items.
    pub(crate) fn keep<S>(&self, own: &mut Own<S>, items: &[u32]) {
        let of_user = own.get_mut(OF_USER);
        let k = of_user.len() / 2;
        let AdamMoments { first, second } = &self.moments;
        let both = |at: usize| [first, second].map(|of| &of[at * k..(at + 1) * k]).concat();
        of_user.copy_from_slice(&both(0));
        let rows = own.rows_mut(OF_ROWS).0;
        rows.write_rows(items, 1.0, &mut Vec::new(), |at, row| {
            row.copy_from_slice(&both(at + 1));
        });
        own.get_mut(STEPS)[0] = self.steps as f32;
    }
}
