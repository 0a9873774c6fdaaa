//! Compares items by the products of their rows, and moves a table towards such products.

use ndarray::Array2;

use crate::prelude::*;
use fedrecsim_model::algebra::{add_gram, mirror_upper, product};

/// The squared distance, as a share of the squared length of what is aimed at, that is rounding of
/// single precision. A step along a direction of unit length would make noise of it.
const ROUNDING: f64 = 1e-12;

/// Returns the products V V^T of all pairs of rows, and the multiply-adds that they take.
pub(super) fn similarity(table: &Table) -> (Table, u64) {
    let TableShape { rows, dimension } = table.shape();
    let mut products = Array2::zeros((rows, rows));
    add_gram(&mut products, &table.view().mapv(f64::from).t(), None);
    mirror_upper(&mut products);
    let multiply_adds = rows * rows * dimension / 2;
    (
        Table::from_array(&products.mapv(|value| value as f32)),
        multiply_adds as u64,
    )
}

/// Descends along |V V^T - S|, the root of the sum of squares, which is not squared, in this number
/// of steps of this rate, with weight decay. An S of zeros says nothing and moves nothing. Returns the
/// multiply-adds.
///
/// The gradient (E + E^T) V / |E| of E = V V^T - S and its length follow from S V and V^T V, so that
/// E is never made.
pub(super) fn align(table: &mut Table, to: &Table, steps: u32, [rate, decay]: [f64; 2]) -> u64 {
    let s = to.view().mapv(f64::from);
    let length: f64 = s.iter().map(|value| value * value).sum();
    if length == 0.0 {
        return 0;
    }
    let s = (&s + &s.t()) / 2.0;
    let mut v = table.view().mapv(f64::from);
    let mut made = 0;
    for _ in 0..steps {
        let images = product(&s.view(), &v.view());
        let gram = product(&v.t(), &v.view());
        let of_products: f64 = gram.iter().map(|value| value * value).sum();
        let squared = of_products - 2.0 * (&v * &images).sum() + length;
        made += 1;
        if squared <= ROUNDING * length {
            break;
        }
        let slope = (product(&v.view(), &gram.view()) - images) * (2.0 / math::sqrt(squared));
        v = v * (1.0 - rate * decay) - slope * rate;
    }
    *table = Table::from_array(&v.mapv(|value| value as f32));
    let (m, k) = v.dim();
    made * (m * k * (m + 2 * k)) as u64
}
