//! Implements EASE, the ridge regression of every item on all others, which has a closed form.
//!
//! For the users' positives X (n x m, zeros and ones, or weights in place of ones), B minimises |X - X B|^2 + lambda |B|^2 among
//! the matrices with a diagonal of zeros. With P = (X^T X + lambda I)^(-1) it is B_ij = -P_ij /
//! P_jj. A device scores item j by the sum of B_ij over its positives i.
//!
//! Source: Steck, Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019.

use super::{ByMatrix, counts};
use crate::prelude::*;
use crate::recency::Recency;
use fedrecsim_model::algebra::{invert, mirror_upper};

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry::at_server::<Ease>();

parameters! {
    /// Parameters of EASE.
    pub(crate) struct Ease {
        /// Weight lambda of the regulariser, in numbers of users.
        regularization: f64 = 300.0, > 0.0;
        /// Lets recent positives count more, and in X if it counts in training. Left out: all count
        /// alike.
        recency: Option<Recency> = None;
    }
}

impl ByMatrix for Ease {
    const NAME: &str = "ease";
    const SUMMARY: &str = "centralised regression of every item on all others (EASE): users \
                           send their ratings once, one step";
    const SOURCE: &str = "Steck, Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019";
    const FORMULA: &[&str] = &[
        "s_ui = Σ_{j∈I_u} B_ji",
        "B minimises ‖X − X B‖² + λ ‖B‖² with a diagonal of zeros:  B_ji = −P_ji / P_ii,  P = (XᵀX + λ I)⁻¹",
        "trained by time, X has w_ui in place of ones",
    ];
    const MATRIX: &str = "B";

    fn recency(&self) -> Option<&Recency> {
        self.recency.as_ref()
    }

    fn weigh(&self, pass: &Pass<'_, Remembered<usize>>) -> Result<(Table, u64)> {
        let (mut matrix, additions) = counts(pass);
        let items = pass.problem.items;
        let mut diagonal = matrix.diag_mut();
        diagonal += self.regularization;
        // The weight may be so small or so large that the sum with the counts is singular or
        // infinite.
        invert(&mut matrix).map_err(|cause| pass.step.unsolvable("B", cause))?;
        mirror_upper(&mut matrix);
        let diagonal = matrix.diag().to_vec();
        let mut values = Vec::with_capacity(items * items);
        for (i, row) in matrix.rows().into_iter().enumerate() {
            let divided = row.iter().zip(&diagonal);
            values.extend(divided.map(|(value, divisor)| (-value / divisor) as f32));
            values[i * items + i] = 0.0;
        }
        let m = items as u64;
        // A third of the work each for the Cholesky factor, its inverse, and the product of that
        // with itself.
        let multiply_adds = additions + m * m * m / 2 + m * m;
        let table = Table::new(TableShape::new(items, items), values);
        Ok((table, multiply_adds))
    }
}
