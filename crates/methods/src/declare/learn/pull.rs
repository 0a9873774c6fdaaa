//! Pulls every row of a shared item table towards that of another table, in every batch.

use super::table_of;
use crate::declare::Block;
use fedrecsim_core::math;
use fedrecsim_model::{Model, Table, TableUpdate};

/// The pull on the rows of a participation, and on all others.
pub(super) struct Pull<'a> {
    target: &'a Table,
    /// The targets of the rows that are trained, one after the other.
    targets: Vec<f32>,
    /// What a value's distance from its target is multiplied by in its gradient.
    slope: f64,
    rate: f64,
}

impl<'a> Pull<'a> {
    /// Returns the pull that `block` declares, for a participation that trains these rows. Where
    /// nobody has sent the target, the block as it was received is that.
    pub(super) fn of(block: &Block, model: &'a Model, rows: &[u32]) -> Option<Self> {
        let (name, weight) = block.pull?;
        let received = table_of(model, block.name());
        let target = model.named(name).unwrap_or(received);
        Some(Self {
            targets: target.gathered(rows),
            target,
            slope: 2.0 * weight / received.shape().values() as f64,
            rate: block.rate,
        })
    }

    /// Adds the pull to the gradient of the rows that are trained.
    pub(super) fn add_to(&self, gradient: &mut [f32], rows: &[f32]) {
        let slope = self.slope as f32;
        for ((gradient, value), target) in gradient.iter_mut().zip(rows).zip(&self.targets) {
            *gradient += slope * (value - target);
        }
    }

    /// Returns the whole table after so many steps, with these trained `rows` in `listed` places.
    /// In each step, any other row goes the same share of its way to the target.
    pub(super) fn whole(
        &self,
        (received, listed): (&Table, &[u32]),
        rows: &[f32],
        steps: u64,
    ) -> TableUpdate {
        let left = math::pow(1.0 - self.rate * self.slope, steps as f64);
        let mut table = Table::clone(received);
        let targets = self.target.as_slice();
        for (value, target) in table.as_mut_slice().iter_mut().zip(targets) {
            let target = f64::from(*target);
            *value = (target + left * (f64::from(*value) - target)) as f32;
        }
        let dimension = received.shape().dimension;
        for (item, row) in listed.iter().zip(rows.chunks_exact(dimension)) {
            table.row_mut(*item as usize).copy_from_slice(row);
        }
        TableUpdate::whole(table)
    }
}
