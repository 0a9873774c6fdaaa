//! Makes FedPerGNN's upload from a clipped gradient: with rows of items that the user has not rated,
//! and with noise.

use super::FedPerGnnParameters;
use crate::prelude::*;
use crate::user_vector::{deviation, draw_unrated};
use fedrecsim_model::noise::{Law, Noise};

/// Adds noise of the Laplace distribution to every value. A scale of 0 adds none.
pub(super) fn add_noise(values: &mut [f32], scale: f64, stream: Stream) {
    if scale > 0.0 {
        Noise::new(Law::Laplace { scale }, stream).add_to(values);
    }
}

/// Makes the update of the item table: the gradients of the `rated` rows (ascending), and normal
/// noise as wide as these gradients as the gradients of unrated rows, all with Laplace noise on
/// top.
pub(super) fn of_items(
    parameters: &FedPerGnnParameters,
    task: &LocalTask<'_>,
    shape: TableShape,
    (rated, gradients): (&[u32], &[f32]),
) -> Result<TableUpdate> {
    let mut stream = task.named_stream("fedpergnn/pseudo-items");
    let drawn = (shape.rows, parameters.pseudo_items as usize);
    let mut items = draw_unrated(rated, drawn, &mut stream);
    items.extend_from_slice(rated);
    items.sort_unstable();
    let (k, width) = (shape.dimension, deviation(gradients));
    let mut values = Vec::with_capacity(items.len() * k);
    for item in &items {
        match rated.binary_search(item) {
            Ok(at) => values.extend_from_slice(&gradients[at * k..(at + 1) * k]),
            Err(_) => values.extend((0..k).map(|_| (width * stream.standard_normal()) as f32)),
        }
    }
    let stream = task.named_stream("fedpergnn/noise-of-items");
    add_noise(&mut values, parameters.gradient_noise(), stream);
    task.check_values("gradient of the item embeddings, with noise", &values)?;
    TableUpdate::listed(shape, items, &values, 1.0)
}
