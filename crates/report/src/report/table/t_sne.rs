//! Maps points of many dimensions to the plane so that near ones stay near: t-SNE (van der Maaten
//! and Hinton, Journal of Machine Learning Research 9, 2008).
//!
//! This is the exact algorithm, whose cost grows with the square of the number of points, and
//! nothing in it is drawn at random: it begins with the first two principal components and steps at
//! the rate n / 12, as Kobak and Berens (Nature Communications 10, 2019) advise. So the same table
//! always gives the same map, on every machine, which the libraries at hand do not promise.

use ndarray::{Array2, ArrayView2};

use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::math;
use fedrecsim_model::model::algebra::eigen::symmetric_eigen;

/// The most points of a map. Their affinities take 3 GB.
pub(crate) const POINTS_MAX: usize = 16_000;

/// The effective number of neighbours of a point.
const PERPLEXITY: f64 = 30.0;

/// The steps in which attraction is exaggerated, and by how much; and all steps.
const EARLY_STEPS: usize = 250;
const EXAGGERATION: f64 = 12.0;
const STEPS: usize = 750;

/// The share of the step before that a step repeats, while attraction is exaggerated and
/// afterwards.
const MOMENTUM: [f64; 2] = [0.5, 0.8];

/// The spread of the first map along its first axis.
const FIRST_SPREAD: f64 = 1e-4;

/// The halvings in which the width of a point's neighbourhood is found.
const HALVINGS: usize = 64;

/// Returns a place in the plane for each row of `points` (n x d), in their order, centred at the
/// origin.
///
/// # Errors
/// [`Error::Usage`] for fewer than four points, more than [`POINTS_MAX`], and values that are not
/// finite.
pub fn map(points: &ArrayView2<'_, f64>) -> Result<Vec<[f64; 2]>> {
    let count = points.nrows();
    if !(4..=POINTS_MAX).contains(&count) {
        return Err(Error::Usage(format!(
            "a map needs between 4 and {POINTS_MAX} rows, and there are {count}"
        )));
    }
    let mut places = principal_components(points)?;
    let affinities = affinities(points);
    let (mut velocity, mut gains) = (vec![[0.0; 2]; count], vec![[1.0; 2]; count]);
    let rate = (count as f64 / EXAGGERATION).max(50.0);
    let mut forces = Forces::new(count);
    for step in 0..STEPS {
        let is_early = step < EARLY_STEPS;
        let momentum = MOMENTUM[usize::from(!is_early)];
        let gradient = forces.gradient(
            &affinities,
            &places,
            if is_early { EXAGGERATION } else { 1.0 },
        );
        for point in 0..count {
            for axis in 0..2 {
                let (slope, before) = (gradient[point][axis], velocity[point][axis]);
                let gain: &mut f64 = &mut gains[point][axis];
                *gain = if (slope > 0.0) == (before > 0.0) {
                    (*gain * 0.8).max(0.01)
                } else {
                    *gain + 0.2
                };
                velocity[point][axis] = momentum * before - rate * *gain * slope;
                places[point][axis] += velocity[point][axis];
            }
        }
        centre(&mut places);
    }
    Ok(places)
}

/// Returns the first two principal components of the points, with a small spread.
fn principal_components(points: &ArrayView2<'_, f64>) -> Result<Vec<[f64; 2]>> {
    let (count, dimension) = points.dim();
    let mut means = vec![0.0; dimension];
    for row in points.rows() {
        means
            .iter_mut()
            .zip(row)
            .for_each(|(mean, value)| *mean += value / count as f64);
    }
    let mut covariance = Array2::<f64>::zeros((dimension, dimension));
    for row in points.rows() {
        for i in 0..dimension {
            for j in i..dimension {
                covariance[(i, j)] += (row[i] - means[i]) * (row[j] - means[j]) / count as f64;
            }
        }
    }
    let eigen = symmetric_eigen(&covariance.view())
        .map_err(|error| Error::Usage(format!("a map of the rows: {error}")))?;
    let along = |row: ndarray::ArrayView1<'_, f64>, axis: usize| {
        // A table of one column has one component.
        let Some(direction) = eigen.vectors.rows().into_iter().nth(axis) else {
            return 0.0;
        };
        row.iter()
            .zip(&means)
            .zip(direction)
            .map(|((value, mean), part)| (value - mean) * part)
            .sum()
    };
    let mut places: Vec<[f64; 2]> = points
        .rows()
        .into_iter()
        .map(|row| [along(row, 0), along(row, 1)])
        .collect();
    let spread =
        math::sqrt(places.iter().map(|place| place[0] * place[0]).sum::<f64>() / count as f64);
    let scale = if spread > 0.0 {
        FIRST_SPREAD / spread
    } else {
        0.0
    };
    for (number, place) in places.iter_mut().enumerate() {
        // Points that are equal would never part. Their order tells them apart by less than
        // anything that is seen.
        let apart = FIRST_SPREAD * 1e-3 * (number as f64 / count as f64 - 0.5);
        *place = [place[0] * scale + apart, place[1] * scale - apart];
    }
    Ok(places)
}

/// Holds a symmetric matrix without its diagonal, as the rows of its upper triangle.
struct Pairs(Vec<f64>);

/// Returns the probabilities p_ij of pairs, which sum to 1 over all ordered pairs.
fn affinities(points: &ArrayView2<'_, f64>) -> Pairs {
    let count = points.nrows();
    let mut joint = Array2::<f64>::zeros((count, count));
    let mut squares = vec![0.0; count];
    for (number, row) in points.rows().into_iter().enumerate() {
        for (square, other) in squares.iter_mut().zip(points.rows()) {
            *square = row
                .iter()
                .zip(other)
                .map(|(one, two)| (one - two) * (one - two))
                .sum();
        }
        let conditional = neighbours(&squares, number);
        joint
            .row_mut(number)
            .iter_mut()
            .zip(conditional)
            .for_each(|(place, value)| *place = value);
    }
    let sum =
        |i: usize, j: usize| ((joint[(i, j)] + joint[(j, i)]) / (2.0 * count as f64)).max(1e-12);
    Pairs(
        (0..count)
            .flat_map(|i| (i + 1..count).map(move |j| (i, j)))
            .map(|(i, j)| sum(i, j))
            .collect(),
    )
}

/// Returns the probabilities of the neighbours of point `own`, which is at these squared distances
/// from all points. The width of their distribution is such that their entropy is that of
/// [`PERPLEXITY`] equal neighbours.
fn neighbours(squares: &[f64], own: usize) -> Vec<f64> {
    let wanted = math::ln(PERPLEXITY.min((squares.len() - 1) as f64 / 3.0));
    let nearest = squares
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != own)
        .map(|(_, square)| *square);
    let nearest = nearest.fold(f64::INFINITY, f64::min);
    let (mut low, mut high, mut precision) = (0.0, f64::INFINITY, 1.0);
    let mut weights = vec![0.0; squares.len()];
    for _ in 0..HALVINGS {
        let (mut sum, mut weighted) = (0.0, 0.0);
        for (other, (weight, square)) in weights.iter_mut().zip(squares).enumerate() {
            let beyond = square - nearest;
            *weight = if other == own {
                0.0
            } else {
                math::exp(-precision * beyond)
            };
            sum += *weight;
            weighted += *weight * beyond;
        }
        let entropy = math::ln(sum) + precision * weighted / sum;
        weights.iter_mut().for_each(|weight| *weight /= sum);
        if (entropy - wanted).abs() < 1e-6 {
            break;
        }
        if entropy > wanted {
            low = precision;
            precision = if high.is_finite() {
                (low + high) / 2.0
            } else {
                precision * 2.0
            };
        } else {
            high = precision;
            precision = (low + high) / 2.0;
        }
    }
    weights
}

/// The memory for the forces between points.
struct Forces {
    gradient: Vec<[f64; 2]>,
    repulsion: Vec<[f64; 2]>,
}

impl Forces {
    fn new(count: usize) -> Self {
        Self {
            gradient: vec![[0.0; 2]; count],
            repulsion: vec![[0.0; 2]; count],
        }
    }

    /// Returns the gradient of the divergence between `affinities`, times `exaggeration`, and those
    /// of the map.
    fn gradient(
        &mut self,
        affinities: &Pairs,
        places: &[[f64; 2]],
        exaggeration: f64,
    ) -> &[[f64; 2]] {
        self.gradient.fill([0.0; 2]);
        self.repulsion.fill([0.0; 2]);
        let (mut pairs, mut total) = (affinities.0.iter(), 0.0);
        for (i, one) in places.iter().enumerate() {
            let (mut attracted, mut repelled) = ([0.0; 2], [0.0; 2]);
            for ((j, two), affinity) in places.iter().enumerate().skip(i + 1).zip(pairs.by_ref()) {
                let apart = [one[0] - two[0], one[1] - two[1]];
                let kernel = 1.0 / (1.0 + apart[0] * apart[0] + apart[1] * apart[1]);
                total += 2.0 * kernel;
                for axis in 0..2 {
                    let (pull, push) = (
                        affinity * kernel * apart[axis],
                        kernel * kernel * apart[axis],
                    );
                    attracted[axis] += pull;
                    repelled[axis] += push;
                    self.gradient[j][axis] -= pull;
                    self.repulsion[j][axis] -= push;
                }
            }
            for axis in 0..2 {
                self.gradient[i][axis] += attracted[axis];
                self.repulsion[i][axis] += repelled[axis];
            }
        }
        for (gradient, repulsion) in self.gradient.iter_mut().zip(&self.repulsion) {
            for axis in 0..2 {
                gradient[axis] = 4.0 * (exaggeration * gradient[axis] - repulsion[axis] / total);
            }
        }
        &self.gradient
    }
}

/// Moves the places so that their mean is the origin.
fn centre(places: &mut [[f64; 2]]) {
    for axis in 0..2 {
        let mean = places.iter().map(|place| place[axis]).sum::<f64>() / places.len() as f64;
        places.iter_mut().for_each(|place| place[axis] -= mean);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fedrecsim_core::rng::{PortableDraws, Purpose, Streams};

    /// If this fails, a map shows one cloud where there are two, or two where there is one.
    #[test]
    fn points_of_two_clouds_have_their_neighbours_in_their_own_cloud() {
        let mut stream = Streams::new(3).stream(Purpose::Line, 0, 0);
        let points = Array2::from_shape_fn((60, 5), |(row, _)| {
            stream.standard_normal() + if row % 2 == 0 { 0.0 } else { 12.0 }
        });
        let places = map(&points.view()).unwrap();
        let square = |i: usize, j: usize| {
            (0..2)
                .map(|axis| (places[i][axis] - places[j][axis]).powi(2))
                .sum::<f64>()
        };
        for i in 0..60 {
            let nearest = (0..60)
                .filter(|j| *j != i)
                .min_by(|a, b| square(i, *a).total_cmp(&square(i, *b)))
                .unwrap();
            assert_eq!(nearest % 2, i % 2, "the neighbour of point {i}");
        }
        assert_eq!(
            map(&points.view()).unwrap(),
            places,
            "another map of the same points"
        );
    }

    /// If this fails, the map moves in a direction that does not bring its neighbourhoods nearer to
    /// those of the points.
    #[test]
    fn the_gradient_is_that_of_the_divergence() {
        let mut stream = Streams::new(4).stream(Purpose::Line, 0, 0);
        let points = Array2::from_shape_fn((9, 3), |_| stream.standard_normal());
        let affinities = affinities(&points.view());
        let flat: Vec<f64> = (0..18).map(|_| stream.standard_normal()).collect();
        let divergence = |flat: &[f64]| {
            let kernel = |i: usize, j: usize| {
                1.0 / (1.0
                    + (0..2)
                        .map(|axis| (flat[2 * i + axis] - flat[2 * j + axis]).powi(2))
                        .sum::<f64>())
            };
            let pairs: Vec<(usize, usize)> = (0..9)
                .flat_map(|i| (i + 1..9).map(move |j| (i, j)))
                .collect();
            let total: f64 = pairs.iter().map(|(i, j)| 2.0 * kernel(*i, *j)).sum();
            let term = |((i, j), p): (&(usize, usize), &f64)| {
                2.0 * p * math::ln(p / (kernel(*i, *j) / total))
            };
            pairs.iter().zip(&affinities.0).map(term).sum()
        };
        let places: Vec<[f64; 2]> = flat.as_chunks::<2>().0.to_vec();
        let found: Vec<f64> = Forces::new(9)
            .gradient(&affinities, &places, 1.0)
            .as_flattened()
            .to_vec();
        let expected = math::gradient::numeric_gradient(&flat, divergence);
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-6, "{found} and {expected}");
        }
    }

    /// If this fails, a table of equal rows has no map, and an empty one crashes the program.
    #[test]
    fn equal_rows_have_a_map_and_too_few_are_refused() {
        let places = map(&Array2::<f64>::ones((8, 2)).view()).unwrap();
        assert!(places.iter().flatten().all(|place| place.is_finite()));
        assert!(map(&Array2::<f64>::zeros((3, 2)).view()).is_err());
        assert!(map(&Array2::from_elem((8, 2), f64::NAN).view()).is_err());
    }
}
