//! Narrows the rows of a table and widens them again, by affine maps.

use ndarray::{Array2, s};

use crate::prelude::*;
use fedrecsim_model::algebra::{add_gram, mirror_upper, product};
use fedrecsim_model::neural::optimizer::{AdamParameters, AdamSettings};

/// An encoder of rows of k values (h x (k + 1)) and their decoder (k x (h + 1)). The last column of
/// each is its bias.
#[derive(Clone, Debug)]
pub(super) struct Autoencoder {
    pub encoder: Array2<f64>,
    pub decoder: Array2<f64>,
}

/// Returns a table in double precision.
pub(super) fn doubles(table: &Table) -> Array2<f64> {
    let TableShape { rows, dimension } = table.shape();
    let values = table.as_slice();
    Array2::from_shape_fn((rows, dimension), |(row, column)| {
        f64::from(values[row * dimension + column])
    })
}

/// Returns a matrix in single precision.
pub(super) fn singles(matrix: &Array2<f64>) -> Table {
    Table::from_array(&matrix.mapv(|value| value as f32))
}

/// Returns the map of each row, with so many times the bias.
fn mapped(map: &Array2<f64>, rows: &Array2<f64>, bias: f64) -> Array2<f64> {
    let inputs = map.ncols() - 1;
    let linear = map.slice(s![.., ..inputs]);
    product(&rows.view(), &linear.t()) + &(&map.column(inputs) * bias)
}

/// Returns the mean over all k values of the products of what each row and a 1 behind it holds
/// ((k + 1) x (k + 1)). The error of a linear map, and its slopes, follow from it.
pub(super) fn products_of(rows: &Array2<f64>) -> Array2<f64> {
    let (count, k) = rows.dim();
    let mut with_one = Array2::ones((count, k + 1));
    with_one.slice_mut(s![.., ..k]).assign(rows);
    let mut products = Array2::zeros((k + 1, k + 1));
    add_gram(&mut products, &with_one.view(), None);
    mirror_upper(&mut products);
    products / (count * k).max(1) as f64
}

impl Autoencoder {
    /// Reads the tables of [`Self::tables`].
    pub(super) fn of([encoder, decoder]: [&Table; 2]) -> Self {
        Self {
            encoder: doubles(encoder),
            decoder: doubles(decoder),
        }
    }

    /// Returns the encoder and the decoder in single precision, which they are in when they learn.
    pub(super) fn tables(&self) -> [Table; 2] {
        [&self.encoder, &self.decoder].map(singles)
    }

    /// Returns the encoded rows.
    pub(super) fn encoded(&self, rows: &Array2<f64>) -> Array2<f64> {
        mapped(&self.encoder, rows, 1.0)
    }

    /// Returns the decoded sum of tables whose weights add up to `weight`, of which `rows` are the
    /// sum. That of one table has the weight 1.
    pub(super) fn decoded(&self, rows: &Array2<f64>, weight: f64) -> Array2<f64> {
        mapped(&self.decoder, rows, weight)
    }

    /// Returns the mean squared error of rows of these products ([`products_of`]), with its slopes
    /// for the encoder and the decoder.
    pub(super) fn slopes(&self, products: &Array2<f64>) -> (f64, [Array2<f64>; 2]) {
        let (h, k) = (self.encoder.nrows(), self.decoder.nrows());
        let mut code = Array2::zeros((h + 1, k + 1));
        code.slice_mut(s![..h, ..]).assign(&self.encoder);
        code[(h, k)] = 1.0;
        let mut residual = product(&self.decoder.view(), &code.view());
        for column in 0..k {
            residual[(column, column)] -= 1.0;
        }
        let by_map = product(&residual.view(), &products.view()) * 2.0;
        let error = (residual * &by_map).sum() / 2.0;
        let of_code = self.decoder.slice(s![.., ..h]);
        let by_encoder = product(&of_code.t(), &by_map.view());
        let by_decoder = product(&by_map.view(), &code.t());
        (error, [by_encoder, by_decoder])
    }

    /// Makes steps down the mean squared error of all rows by an Adam that starts anew.
    pub(super) fn learn(&mut self, rows: &Array2<f64>, steps: u32, rate: f64) {
        let products = products_of(rows);
        let flat = |of: &[Array2<f64>; 2]| -> Vec<f32> {
            let values = of.iter().flatten();
            values.map(|value| *value as f32).collect()
        };
        let start = [self.encoder.clone(), self.decoder.clone()];
        let mut moving = AdamParameters::new(flat(&start));
        for _ in 0..steps {
            moving.gradient = flat(&self.slopes(&products).1);
            moving.step(&AdamSettings::with_rate(rate));
            let moved = self.encoder.iter_mut().chain(&mut self.decoder);
            let moved = moved.zip(&moving.values);
            moved.for_each(|(value, moved)| *value = f64::from(*moved));
        }
    }

    /// Returns the multiply-adds of so many steps for so many rows, of encoding these, and of decoding
    /// a sum.
    pub(super) fn multiply_adds(&self, rows: usize, steps: u32) -> u64 {
        let (h, k) = (self.encoder.nrows(), self.decoder.nrows());
        let step = (k + 1) * (2 * k * (h + 1) + k * (k + 1) + h * k);
        (rows * ((k + 1).pow(2) / 2 + 2 * h * k) + steps as usize * step) as u64
    }
}
