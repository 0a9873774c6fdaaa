//! Makes the passes of a participation, and finds what is sent of their gradients.

use super::Variant;
use fedrecsim_model::neural::optimizer::{AdamParameters, AdamSettings};

/// The passes of a participation, each a step of an Adam that starts anew.
pub(super) struct Passes {
    pub number: u32,
    pub adam: AdamSettings,
    pub variant: Variant,
}

/// What a participation has come to.
pub(super) struct Done {
    /// The parameters after it.
    pub values: Vec<f32>,
    /// What is sent as the gradient of each.
    pub sent: Vec<f32>,
    /// The mean loss.
    pub loss: f64,
}

impl Passes {
    /// Makes the passes from `start`. `add_gradient` adds the gradient of a pass at some values, and
    /// returns its loss.
    pub(super) fn make(
        &self,
        start: Vec<f32>,
        mut add_gradient: impl FnMut(&[f32], &mut [f32]) -> f64,
    ) -> Done {
        let mut sent = vec![0.0; start.len()];
        let mut moving = AdamParameters::new(start);
        if self.variant == Variant::Paper {
            sent.clone_from(&moving.values);
        }
        let mut loss = 0.0;
        for _ in 0..self.number {
            // The code never sets its gradients to zero, so that each pass has those before it too.
            if self.variant == Variant::Paper {
                moving.gradient.fill(0.0);
            }
            loss += add_gradient(&moving.values, &mut moving.gradient);
            if self.variant == Variant::PublishedCode {
                let sums = sent.iter_mut().zip(&moving.gradient);
                sums.for_each(|(sum, gradient)| *sum += gradient);
            }
            moving.step(&self.adam);
        }
        if self.variant == Variant::Paper {
            let rate = self.adam.learning_rate as f32;
            let moved = sent.iter_mut().zip(&moving.values);
            moved.for_each(|(sent, value)| *sent = (*sent - value) / rate);
        }
        Done {
            values: moving.values,
            sent,
            loss: loss / f64::from(self.number),
        }
    }
}
