//! Finds the code of a user, bit by bit.

use crate::prelude::*;

/// Starts with the signs of normal draws.
pub(super) fn signs() -> Start {
    each(|stream| (stream.standard_normal() as f32).signum())
}

/// What one device knows of its ratings.
pub(super) struct Rated {
    /// The items that count, and the product of codes that each asks for.
    pub items: Vec<u32>,
    pub targets: Vec<f64>,
}

impl Rated {
    /// Takes the signs of the bits of `code`, one after the other, until a sweep changes none, in this
    /// number of sweeps at most. Each bit is held where it is by `hold`. Returns what each target is
    /// above the product of the codes, and the number of sweeps.
    pub(super) fn sweep(
        &self,
        code: &mut [f32],
        table: &Table,
        (hold, most): (f64, u32),
    ) -> (Vec<f64>, usize) {
        let row = |item: &u32| table.row(*item as usize);
        let product = |item: &u32| {
            let bits = row(item).iter().zip(&*code);
            bits.map(|(d, b)| f64::from(d * b)).sum::<f64>()
        };
        let errors = self.items.iter().zip(&self.targets);
        let errors = errors.map(|(item, target)| target - product(item));
        let mut errors: Vec<f64> = errors.collect();
        for sweep in 1..=most as usize {
            let mut has_changed = false;
            for (k, bit) in code.iter_mut().enumerate() {
                let pulls = errors.iter().zip(&self.items);
                let pulls = pulls.map(|(error, item)| error * f64::from(row(item)[k]));
                let held = f64::from(*bit);
                if (pulls.sum::<f64>() + hold * held) * held >= 0.0 {
                    continue;
                }
                *bit = -*bit;
                has_changed = true;
                for (error, item) in errors.iter_mut().zip(&self.items) {
                    *error -= 2.0 * f64::from(*bit * row(item)[k]);
                }
            }
            if !has_changed {
                return (errors, sweep);
            }
        }
        (errors, most as usize)
    }
}
