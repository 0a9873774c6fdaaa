#![allow(clippy::unwrap_used)]
use std::collections::BTreeMap;

use super::*;

/// Has what dp-accounting 0.6.0 computes; `tests/fixtures/privacy/reference.py` makes both files.
const EPSILONS: &str = include_str!("../../../../../tests/fixtures/privacy/epsilons.csv");

/// Has divergences with many digits.
const DIVERGENCES: &str = include_str!("../../../../../tests/fixtures/privacy/divergences.csv");

/// Returns the curve that a line of either file is about.
fn curve_of(cells: &[&str]) -> Curve {
    let (share, noise) = (cells[1].parse().unwrap(), cells[2].parse().unwrap());
    match cells[0] {
        "poisson" => Curve::of_poisson_sample(share, noise),
        "fixed-cohort" => Curve::of_fixed_cohort(share, noise),
        _ => Curve::gaussian(noise),
    }
}

/// Calls `check` with each line of a file and the curve that it is about.
fn for_each_line(file: &str, mut check: impl FnMut(&[&str], &Curve) -> f64) {
    let mut curves: BTreeMap<String, Curve> = BTreeMap::new();
    let mut wrong = Vec::new();
    for line in file.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let curve = curves
            .entry(cells[..3].join(","))
            .or_insert_with(|| curve_of(&cells));
        let (found, expected): (f64, f64) = (
            check(&cells, curve),
            cells[cells.len() - 1].parse().unwrap(),
        );
        if (found - expected).abs() > 1e-7 * expected.max(1e-6) {
            wrong.push(format!("{line}: {found}"));
        }
    }
    assert!(
        curves.len() >= 24,
        "the reference is not where it is looked for"
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// If this fails, an epsilon that reports state is not the one that the field's reference computes.
#[test]
fn epsilons_are_those_of_dp_accounting() {
    for_each_line(EPSILONS, |cells, curve| {
        let is_theirs = |(order, _): &&(f64, f64)| order.fract() == 0.0 && *order <= 20.0;
        let theirs = Curve {
            points: curve.points.iter().filter(is_theirs).copied().collect(),
        };
        theirs.epsilon(cells[3].parse().unwrap(), cells[4].parse().unwrap())
    });
}

/// If this fails, a divergence has lost its digits between integer orders or at large ones.
#[test]
fn divergences_are_those_with_many_digits() {
    for_each_line(DIVERGENCES, |cells, curve| {
        let order: f64 = cells[3].parse().unwrap();
        let point = curve
            .points
            .iter()
            .find(|(other, _)| (other - order).abs() < 1e-12);
        point
            .unwrap_or_else(|| panic!("order {order} is left out"))
            .1
    });
}

/// If this fails, the moments are not those of Abadi et al. (CCS 2016), whose section 3.2 states
/// epsilon 1.26 for q = 0.01, sigma = 4, 10,000 steps and delta = 1e-5, by the conversion of their
/// theorem 2 and orders up to 33.
#[test]
fn the_published_example_of_the_moments_accountant_comes_out() {
    let curve = Curve::of_poisson_sample(0.01, 4.0);
    let integers = curve
        .points
        .iter()
        .filter(|(order, _)| order.fract() == 0.0 && *order <= 33.0);
    let theirs =
        integers.map(|(order, divergence)| 1e4 * divergence - math::ln(1e-5) / (order - 1.0));
    let theirs = theirs.fold(f64::INFINITY, f64::min);
    assert!((theirs - 1.26).abs() < 0.005, "{theirs}");
    let tight = curve.epsilon(10_000, 1e-5);
    assert!(tight < theirs && tight > 0.75 * theirs, "{tight}");
}

/// If this fails, the exact divergence of the Gaussian mechanism, a / (2 z^2) (Mironov 2017,
/// corollary 3), is not what the sampled bounds come to where everybody is in the sample.
#[test]
fn a_sample_of_everybody_is_no_sample() {
    for multiplier in [0.5, 1.0, 7.0] {
        let exact = Curve::gaussian(multiplier);
        assert!(
            exact
                .points
                .iter()
                .all(|(order, value)| *value == order / (2.0 * multiplier * multiplier))
        );
        assert_eq!(Curve::of_poisson_sample(1.0, multiplier), exact);
        assert_eq!(Curve::of_fixed_cohort(1.0, multiplier), exact);
        // A share just below 1 is all but everybody.
        let nearly = Curve::of_poisson_sample(1.0 - 1e-9, multiplier);
        for ((order, found), (_, expected)) in nearly.points.iter().zip(&exact.points) {
            assert!(
                (found - expected).abs() < 1e-5 * expected,
                "order {order}: {found} {expected}"
            );
        }
    }
}

/// If this fails, the integral between integer orders and the sum at integer orders are of two
/// different things.
#[test]
fn orders_next_to_an_integer_have_about_its_moment() {
    for (share, multiplier) in [(1e-5, 1.0), (0.01, 0.6), (0.3, 2.0), (0.9, 0.4)] {
        for order in [2u32, 3, 7, 10] {
            let sum = moments::of_poisson_at_integer(share, multiplier, order);
            let integral =
                moments::of_poisson_between_integers(share, multiplier, f64::from(order));
            assert!(
                (sum - integral).abs() < 1e-9 * sum,
                "{share} {multiplier} {order}: {sum} {integral}"
            );
        }
    }
}

/// If this fails, more noise, fewer steps, a smaller share or a larger delta cost privacy.
#[test]
fn epsilon_falls_with_noise_and_grows_with_steps_and_shares() {
    let epsilon = |share, noise, steps, delta| {
        let (poisson, cohort) = (
            Curve::of_poisson_sample(share, noise),
            Curve::of_fixed_cohort(share, noise),
        );
        [poisson, cohort].map(|curve| curve.epsilon(steps, delta))
    };
    let base = epsilon(0.1, 1.0, 50, 1e-5);
    let cheaper = [
        epsilon(0.1, 1.5, 50, 1e-5),
        epsilon(0.05, 1.0, 50, 1e-5),
        epsilon(0.1, 1.0, 49, 1e-5),
        epsilon(0.1, 1.0, 50, 1e-4),
    ];
    for cheaper in cheaper {
        assert!(
            cheaper
                .iter()
                .zip(&base)
                .all(|(cheaper, base)| cheaper < base),
            "{cheaper:?} {base:?}"
        );
    }
    assert_eq!(epsilon(0.1, 1.0, 0, 1e-5), [0.0, 0.0]);
}

/// If this fails, tiny or huge noise makes an epsilon that is no number.
#[test]
fn extreme_noise_has_an_epsilon() {
    for multiplier in [1e-3, 1e3, 1e8] {
        for curve in [
            Curve::gaussian(multiplier),
            Curve::of_poisson_sample(0.01, multiplier),
        ] {
            let epsilon = curve.epsilon(1_000_000, 1e-9);
            assert!(
                epsilon.is_finite() && epsilon >= 0.0,
                "{multiplier}: {epsilon}"
            );
        }
    }
}
