//! The features of all items that a device computes from a package and its user's history.

use super::history::History;
use super::learned::{FEATURES, LEAST, dot};
use super::package::{Package, fourth_root};
use super::products::{self, times};
use crate::prelude::*;

/// The number of later items at which an own item's weight has fallen to 1/e.
const TAU: f64 = 3.0;

/// The weight that remains of the oldest own items in what follows.
const FLOOR: f64 = 0.1;

/// What is added to how often an own item has occurred with others, so that few such occurrences
/// say little.
const SHRINKAGE: f64 = 5.0;

/// The ridge of the regression of items on items, as a multiple of the least eigenvalue.
const RIDGE: f64 = 6.0;

/// The score of an item that nobody has taken, or that the user has.
const NEVER: f32 = -1e9;

/// What a device knows of all items.
pub(super) struct Features {
    /// Whether the item may be recommended: somebody has taken it, and the user has not.
    pub(super) may_be_taken: Vec<bool>,
    /// P: how likely the item occurs with the user's own items. 0 where it may not be taken.
    pub(super) together: Vec<f64>,
    /// e1: the regression of items on items, e2: what follows the user's own items, and the item's
    /// age and drift, each with mean 0 and deviation 1 over the items that may be taken, and 0
    /// elsewhere.
    standard: [Vec<f64>; FEATURES - 2],
}

impl Features {
    pub(super) fn of(package: &Package<'_>, history: &History) -> Self {
        let mut may_be_taken: Vec<bool> = (0..package.items() as u32)
            .map(|item| package.is_live(item))
            .collect();
        for item in &history.items {
            may_be_taken[*item as usize] = false;
        }
        let together = together(package, history, &may_be_taken);
        let items = 0..package.items();
        let ages = items.clone().map(|item| package.age(item)).collect();
        let drifts = items.map(|item| package.drift(item)).collect();
        let standard = [
            regression(package, history),
            following(package, history),
            ages,
            drifts,
        ];
        Self {
            standard: standard.map(|values| standardised(values, &may_be_taken)),
            together,
            may_be_taken,
        }
    }

    /// Returns X_j of item j.
    pub(super) fn row(&self, package: &Package<'_>, item: usize) -> [f64; FEATURES] {
        let [all, returning] = package.shares(item);
        let [by_count, by_neighbours] = package.coefficients.mixture;
        let likely = by_count * all + by_neighbours * self.together[item];
        let [regression, following, age, drift] = &self.standard;
        [
            math::ln(likely + LEAST),
            math::ln(returning + LEAST),
            regression[item],
            following[item],
            age[item],
            drift[item],
        ]
    }

    /// Returns the scores of all items.
    pub(super) fn scores(&self, package: &Package<'_>) -> Vec<f32> {
        let weights = package.coefficients.weights;
        let score = |(item, may): (usize, &bool)| match may {
            true => dot(&weights, &self.row(package, item)) as f32,
            false => NEVER,
        };
        self.may_be_taken.iter().enumerate().map(score).collect()
    }
}

/// Returns exp(-rho_i / tau) of every own item, rho_i being the number of later ones.
fn recency(history: &History) -> Vec<f64> {
    let later = history.later();
    later.iter().map(|later| math::exp(-later / TAU)).collect()
}

/// Returns the scalar product of every item's vector with `weights`, times the item's factor.
fn products(package: &Package<'_>, weights: &[f64], factors: &[f64]) -> Vec<f64> {
    let mut products = vec![0.0; package.items()];
    products::products(
        package.values(),
        &times(weights, &package.scales()),
        &mut products,
    );
    times(&products, factors)
}

/// Returns the weighted sum of the vectors of own items.
fn sum_of_vectors(package: &Package<'_>, weighted: impl Iterator<Item = (u32, f64)>) -> Vec<f64> {
    let mut sum = vec![0.0; package.rank()];
    for (item, weight) in weighted {
        for (sum, value) in sum.iter_mut().zip(package.vector(item as usize)) {
            *sum += weight * value;
        }
    }
    sum
}

/// Returns P. With A_i = n_i^(1/4) (s o U_i), C is about A A^T, and P_j = sum_i w'_i A_i . A_j over
/// own items i.
fn together(package: &Package<'_>, history: &History, may_be_taken: &[bool]) -> Vec<f64> {
    let squares: Vec<f64> = package.roots().iter().map(|root| root * root).collect();
    // A_i . y is n_i^(1/4) U_i . (s o y), so that s is squared in a product of two rows.
    let roots: Vec<f64> = (0..package.items())
        .map(|item| fourth_root(package.count(item)))
        .collect();
    let mut all = vec![0.0; package.rank()];
    products::add_rows(package.values(), &roots, &mut all);
    let of_all = times(&times(&all, &package.scales()), &squares);
    let recency = recency(history);
    let total: f64 = recency.iter().sum();
    let weight = |(item, recency): (&u32, &f64)| {
        let at = *item as usize;
        let length: f64 = package
            .vector(at)
            .zip(&squares)
            .map(|(value, square)| value * value * square)
            .sum();
        let with_all: f64 = package
            .vector(at)
            .zip(&of_all)
            .map(|(value, of_all)| value * of_all)
            .sum();
        let root = roots[at];
        let others = root * with_all - root * root * length;
        let weight = root * recency / total / (others.max(0.0) + SHRINKAGE);
        (*item, weight)
    };
    let sum = sum_of_vectors(package, history.items.iter().zip(&recency).map(weight));
    let mut together = products(package, &times(&sum, &squares), &roots);
    for (value, may) in together.iter_mut().zip(may_be_taken) {
        *value = if *may { value.max(0.0) } else { 0.0 };
    }
    together
}

/// Returns e1 before it is standardised: the low-rank regression of items on items. With Z_i = U_i
/// (s^2 / (s^2 + lambda))^(1/2), e1_j = Z_j . mean_i n_i^(-1/4) Z_i / (1 - |Z_j|^2).
fn regression(package: &Package<'_>, history: &History) -> Vec<f64> {
    let roots = package.roots();
    let least = roots.last().copied().unwrap_or_default();
    let ridge = RIDGE * least * least;
    let filter = |root: &f64| match *root {
        // Nothing is known to occur together.
        0.0 => 0.0,
        root => root * root / (root * root + ridge),
    };
    let filter: Vec<f64> = roots.iter().map(filter).collect();
    let root = |item: usize| fourth_root(package.count(item));
    let own = history.items.iter();
    let own = own.map(|item| {
        (
            *item,
            1.0 / (root(*item as usize) * history.items.len() as f64),
        )
    });
    let mean = sum_of_vectors(package, own);
    let scales = package.scales();
    let mut factors = vec![0.0; package.items()];
    products::lengths(
        package.values(),
        &times(&filter, &times(&scales, &scales)),
        &mut factors,
    );
    factors
        .iter_mut()
        .for_each(|length| *length = 1.0 / (1.0 - length.min(0.99)));
    products(package, &times(&mean, &filter), &factors)
}

/// Returns e2 before it is standardised: sum_i (floor + exp(-rho_i / tau)) D'_ij over own items i.
fn following(package: &Package<'_>, history: &History) -> Vec<f64> {
    let mut sums = vec![0.0; package.items()];
    for (item, recency) in history.items.iter().zip(recency(history)) {
        for (next, steps) in package.neighbours(*item as usize) {
            sums[next] += (FLOOR + recency) * steps;
        }
    }
    sums
}

/// Returns the values with mean 0 and deviation 1 over the items that `counts` names, and 0
/// elsewhere.
fn standardised(mut values: Vec<f64>, counts: &[bool]) -> Vec<f64> {
    let of = |values: &[f64], each: &dyn Fn(f64) -> f64| {
        let counted = values.iter().zip(counts).filter(|(_, counts)| **counts);
        let (sum, number) = counted.fold((0.0, 0.0), |(sum, number), (value, _)| {
            (sum + each(*value), number + 1.0)
        });
        sum / f64::max(number, 1.0)
    };
    let mean = of(&values, &|value| value);
    let deviation = math::sqrt(of(&values, &|value| (value - mean) * (value - mean)));
    for (value, counts) in values.iter_mut().zip(counts) {
        *value = match counts {
            true => (*value - mean) / deviation.max(1e-12),
            false => 0.0,
        };
    }
    values
}
