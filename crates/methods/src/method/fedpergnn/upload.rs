//! Makes FedPerGNN's upload from a gradient: clipped, with rows of items that the user has not
//! rated, and with noise.

use super::FedPerGnnParameters;
use super::gradient::Gradient;
use crate::method::user_vector::draw_unrated;
use crate::method::{LocalTask, largest_magnitude};
use fedrecsim_core::error::Result;
use fedrecsim_core::rng::{PortableDraws, Stream};
use fedrecsim_model::model::neural::optimizer::{clipping_factor, scale, squared_norm};
use fedrecsim_model::model::noise::{Law, Noise};
use fedrecsim_model::model::table::{TableShape, TableUpdate};

/// Scales a gradient down, all of its parts by one factor, so that its norm is at most `limit`.
pub(super) fn clip(gradient: &mut Gradient, limit: f64) {
    let mut parts = [
        &mut gradient.user,
        &mut gradient.rows,
        &mut gradient.network,
    ];
    let squared: f64 = parts
        .iter()
        .map(|values| f64::from(squared_norm(values)))
        .sum();
    let factor = clipping_factor(squared, limit);
    if factor != 1.0 {
        parts.iter_mut().for_each(|values| scale(values, factor));
    }
}

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
    let mut items = Vec::new();
    draw_unrated(
        rated,
        (shape.rows, parameters.pseudo_items as usize),
        &mut stream,
        &mut items,
    );
    items.extend_from_slice(rated);
    items.sort_unstable();
    let mut rows = gradients.chunks_exact(shape.dimension);
    let mut is_rated = rated.iter().copied().peekable();
    let width = deviation(gradients);
    let mut values = Vec::with_capacity(items.len() * shape.dimension);
    for item in &items {
        match is_rated.next_if_eq(item).and_then(|_| rows.next()) {
            Some(row) => values.extend_from_slice(row),
            None => values
                .extend((0..shape.dimension).map(|_| (width * stream.standard_normal()) as f32)),
        }
    }
    add_noise(
        &mut values,
        parameters.gradient_noise(),
        task.named_stream("fedpergnn/noise-of-items"),
    );
    task.check_magnitude(
        "gradient of the item embeddings, with noise",
        largest_magnitude(&values),
    )?;
    TableUpdate::listed(shape, items, &values, 1.0)
}

/// Returns the standard deviation of `values`; 0 if there are none.
fn deviation(values: &[f32]) -> f64 {
    let count = values.len().max(1) as f64;
    let mean = values.iter().map(|value| f64::from(*value)).sum::<f64>() / count;
    let squares: f64 = values
        .iter()
        .map(|value| (f64::from(*value) - mean) * (f64::from(*value) - mean))
        .sum();
    fedrecsim_core::math::sqrt(squares / count)
}
