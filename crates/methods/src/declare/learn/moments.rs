//! Keeps Adam's moments of a private user vector, of rows and of a shared network from one
//! participation to the next, in private blocks, for a device whose optimiser never starts anew.

use crate::declare::{Block, Own, item_table, vector};
use fedrecsim_model::neural::optimizer::{AdamMoments, AdamSettings};

/// The blocks, which have the first moments before the second ones, and the number of steps.
const OF_USER: &str = "moments of the vector";
const OF_ROWS: &str = "moments of rows";
const STEPS: &str = "steps";

const OF_NETWORK: &str = "moments of the network";

/// Declares the blocks for a vector of `k` values and a table with as many for each item.
pub(crate) fn blocks(items: usize, k: u32) -> [Block; 3] {
    let own = [
        vector(OF_USER, 2 * k),
        item_table(OF_ROWS, items, 2 * k),
        vector(STEPS, 1),
    ];
    own.map(|block| block.private().alike())
}

/// Declares the block for a network of so many parameters, beside [`blocks`].
pub(crate) fn of_network(parameters: usize) -> Block {
    vector(OF_NETWORK, 2 * parameters as u32).private().alike()
}

/// Returns the moments that a private block holds.
fn read<S>(own: &Own<S>, name: &str) -> AdamMoments {
    let values = own.get(name);
    let (first, second) = values.split_at(values.len() / 2);
    let [first, second] = [first, second].map(<[f32]>::to_vec);
    AdamMoments { first, second }
}

/// Returns the moments of the rows of these items (ascending).
fn read_rows<S>(own: &Own<S>, items: &[u32]) -> AdamMoments {
    let mut moments = AdamMoments::default();
    let (rows, start) = own.rows(OF_ROWS);
    rows.read_rows(items, start, &mut Vec::new(), |_, row, _| {
        let (first, second) = row.split_at(row.len() / 2);
        moments.first.extend_from_slice(first);
        moments.second.extend_from_slice(second);
    });
    moments
}

/// Keeps first and second moments of the rows of these items.
fn keep_rows<S>(own: &mut Own<S>, items: &[u32], [first, second]: [&[f32]; 2]) {
    let k = first.len() / items.len().max(1);
    let rows = own.rows_mut(OF_ROWS).0;
    rows.write_rows(items, 1.0, &mut Vec::new(), |at, row| {
        let place = at * k..(at + 1) * k;
        row[..k].copy_from_slice(&first[place.clone()]);
        row[k..].copy_from_slice(&second[place]);
    });
}

/// Returns the number of steps that were made, and the moments of the vector, of the rows of these
/// items (ascending) and of the network.
pub(super) fn read_all<S>(own: &Own<S>, items: &[u32]) -> (u64, [AdamMoments; 3]) {
    let steps = own.get(STEPS)[0] as u64;
    let rows = read_rows(own, items);
    (steps, [read(own, OF_USER), rows, read(own, OF_NETWORK)])
}

/// Keeps what [`read_all`] returns for the same items.
pub(super) fn keep_all<S>(
    own: &mut Own<S>,
    items: &[u32],
    steps: u64,
    [user, rows, network]: [&AdamMoments; 3],
) {
    own.get_mut(STEPS)[0] = steps as f32;
    for (name, moments) in [(OF_USER, user), (OF_NETWORK, network)] {
        let values = [&moments.first[..], &moments.second].concat();
        own.get_mut(name).copy_from_slice(&values);
    }
    keep_rows(own, items, [&rows.first, &rows.second]);
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
        let (mut moments, rows) = (read(own, OF_USER), read_rows(own, items));
        moments.first.extend(rows.first);
        moments.second.extend(rows.second);
        Self {
            settings,
            moments,
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
        let (k, AdamMoments { first, second }) = (of_user.len() / 2, &self.moments);
        of_user[..k].copy_from_slice(&first[..k]);
        of_user[k..].copy_from_slice(&second[..k]);
        keep_rows(own, items, [&first[k..], &second[k..]]);
        own.get_mut(STEPS)[0] = self.steps as f32;
    }
}
