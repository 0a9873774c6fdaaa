//! Finds leading eigenvectors by a Nystroem step.

use ndarray::{Array2, ArrayView2, Axis, s};

use super::Result;
use super::eigen::{ROUNDING_SHARE, symmetric_eigen};
use super::product::{product, transposed_product};
use super::svd::left_singular_vectors;
use fedrecsim_core::math;

/// Holds leading eigenvectors with their eigenvalues.
#[derive(Clone, Debug, PartialEq)]
pub struct Spectrum {
    /// The eigenvectors (m x r, or fewer where there is noise), by descending eigenvalue.
    pub vectors: Array2<f64>,
    /// Their eigenvalues.
    pub values: Vec<f64>,
}

/// Makes a Nystroem step: returns the eigenvectors of S (V^T S)^(-1) S^T, where `images` is S = M V
/// (m x r), `start` is V and M is symmetric and has no negative eigenvalue. With T = V^T S = Q w
/// Q^T these are the left singular vectors of S Q w^(-1/2). Returns `None` if V^T S has no positive
/// eigenvalue, as where a codec has left nearly everything out.
///
/// Without noise V^T S has no negative eigenvalue but by rounding. With noise the most negative one
/// says how large noise is, and eigenvectors whose eigenvalue is no larger are left out, since
/// dividing by its root would make the noise in them large. There are fewer than r then.
///
/// Costs about 8 m r^2 multiply-adds and twenty sweeps of 4 r^3.
///
/// # Errors
/// [`NotFinite`](super::AlgebraError::NotFinite) for something that is not a finite number.
///
/// # Panics
/// If r is greater than m, a defect of the caller.
pub fn nystroem(
    images: &ArrayView2<'_, f64>,
    start: &ArrayView2<'_, f64>,
) -> Result<Option<Spectrum>> {
    let crossed = transposed_product(start, images);
    // Squares of the elements must neither vanish nor overflow. A NaN is kept, for the
    // decomposition to refuse.
    let scale = crossed.iter().fold(0.0, |largest: f64, value| {
        if value.abs() <= largest {
            largest
        } else {
            value.abs()
        }
    });
    if scale == 0.0 {
        return Ok(None);
    }
    let symmetric = (&crossed + &crossed.t()) * (0.5 / scale);
    let eigen = symmetric_eigen(&symmetric.view())?;
    let least = eigen.values.first().copied().unwrap_or(0.0) * ROUNDING_SHARE;
    if least < ROUNDING_SHARE * ROUNDING_SHARE {
        return Ok(None);
    }
    let noise = eigen.noise();
    let is_signal = |value: &&f64| noise == 0.0 || **value > noise;
    // The values descend, so that those which are kept come first.
    let kept = eigen.values.iter().take_while(is_signal).count();
    if kept == 0 {
        return Ok(None);
    }
    // Columns of Q, each divided by the root of its eigenvalue.
    let columns = eigen.vectors.t();
    let mut scaled = columns
        .slice(s![.., ..kept])
        .as_standard_layout()
        .into_owned();
    for (mut column, value) in scaled.axis_iter_mut(Axis(1)).zip(&eigen.values) {
        column /= scale * math::sqrt(value.max(least));
    }
    let (vectors, lengths) = left_singular_vectors(&product(images, &scaled.view()).view())?;
    let values = lengths.iter().map(|length| scale * length * length);
    Ok(Some(Spectrum {
        vectors,
        values: values.collect(),
    }))
}
