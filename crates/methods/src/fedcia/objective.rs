//! What a device of FedCIA minimises, with its gradient.

use crate::choices;
use fedrecsim_model::neural::dense::dot;

choices! {
    /// What is squared in the loss of FedCIA.
    pub(crate) enum Objective {
        /// The error of each product of single coordinates, as in the published code.
        PublishedCode,
        /// The error of their sum, which is the score.
        Paper,
    }
}

/// Replaces `gradient` by that of the mean loss of a batch, and returns the loss. `parameters` are the
/// user vector and, behind it, rows of the items; a pair names the rows of a positive and a negative.
pub(super) fn slopes(
    (objective, decay): (Objective, f32),
    (k, parameters): (usize, &[f32]),
    batch: &[(u32, u32)],
    gradient: &mut [f32],
) -> f32 {
    gradient.fill(0.0);
    let (user, rows) = parameters.split_at(k);
    let (by_user, by_rows) = gradient.split_at_mut(k);
    let share = 1.0 / batch.len().max(1) as f32;
    let of_square = match objective {
        Objective::PublishedCode => share / k as f32,
        Objective::Paper => share,
    };
    // The user vector stands once in a pair, and is met with both of its rows.
    let (of_user, of_row) = (decay * share / 2.0, decay * share);
    let mut loss = 0.0;
    let samples = batch.iter().flat_map(|pair| [(pair.0, 1.0), (pair.1, 0.0)]);
    for (row, label) in samples {
        let place = row as usize * k..(row as usize + 1) * k;
        let (row, by_row) = (&rows[place.clone()], &mut by_rows[place]);
        let whole = dot(user, row) - label;
        let squares: f32 = match objective {
            Objective::PublishedCode => {
                let errors = user.iter().zip(row).map(|(u, v)| u * v - label);
                errors.map(|error| error * error).sum()
            }
            Objective::Paper => whole * whole,
        };
        let lengths = of_user * dot(user, user) + of_row * dot(row, row);
        loss += (of_square * squares + lengths) / 2.0;
        for d in 0..k {
            let error = match objective {
                Objective::PublishedCode => user[d] * row[d] - label,
                Objective::Paper => whole,
            };
            by_user[d] += of_square * error * row[d] + of_user * user[d];
            by_row[d] += of_square * error * user[d] + of_row * row[d];
        }
    }
    loss
}
