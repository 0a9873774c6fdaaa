//! Computes the logarithms of moments of the privacy loss of Gaussian noise on a sum over a sample
//! of users.
//!
//! A moment is ln of E[r^a], where r is the ratio of the densities of two outputs and a is the
//! order. All sums have positive terms and are made of logarithms. What is subtracted from a
//! moment, which is 1, is subtracted from every term instead, so that a moment that is hardly above
//! 1 keeps its digits.

use fedrecsim_core::math;

/// The width of a strip of the trapezoid rule, in standard deviations. The rule is exact to double
/// precision at half of this width for noise multipliers from 0.1 on, as the integrands are
/// analytic.
const STRIP: f64 = 1.0 / 32.0;

/// The distance in standard deviations beyond which a normal density is below the rounding of
/// double precision.
const FAR: f64 = 13.0;

/// Returns ln(exp(x) + exp(y)).
fn ln_add(x: f64, y: f64) -> f64 {
    let (low, high) = if x < y { (x, y) } else { (y, x) };
    if low == f64::NEG_INFINITY {
        high
    } else {
        high + math::ln_1p(math::exp(low - high))
    }
}

/// Returns the logarithm of the sum of numbers with these logarithms, added in their order.
fn ln_sum(logarithms: &[f64]) -> f64 {
    let largest = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    largest
        + math::ln(
            logarithms
                .iter()
                .map(|value| math::exp(value - largest))
                .sum::<f64>(),
        )
}

/// Returns ln(exp(x) - 1) for a positive x.
fn ln_exp_m1(x: f64) -> f64 {
    x + math::ln(-math::exp_m1(-x))
}

/// Returns ln(n choose k) for every k from 0 to n.
fn ln_binomials(n: u32) -> Vec<f64> {
    let mut logarithm = 0.0;
    let mut all = vec![0.0];
    for k in 0..n {
        logarithm += math::ln(f64::from(n - k) / f64::from(k + 1));
        all.push(logarithm);
    }
    all
}

/// Returns the logarithm of the expectation, over a standard normal draw, of a function that is
/// positive or zero and given by its logarithm. It is integrated from `low` to `high` by the
/// trapezoid rule.
fn ln_expectation(low: f64, high: f64, ln_function: impl Fn(f64) -> f64) -> f64 {
    let strips = ((high - low) / STRIP).ceil() as u32;
    let at = |strip: u32| low + STRIP * f64::from(strip);
    let terms: Vec<f64> = (0..=strips)
        .map(|strip| ln_function(at(strip)) - at(strip) * at(strip) / 2.0)
        .collect();
    // The density is exp(-u^2 / 2) / sqrt(2 pi).
    ln_sum(&terms) + math::ln(STRIP) - math::ln(std::f64::consts::TAU) / 2.0
}

/// Returns ln E[r^a] for Poisson sampling and an integer order a of at least 2 (Mironov et al.
/// 2019, section 3.3). This is the logarithm of the sum over k of (a choose k) (1 - q)^(a - k) q^k
/// exp(k (k - 1) / (2 z^2)). The factors before the exponentials add up to 1.
pub(super) fn of_poisson_at_integer(share: f64, multiplier: f64, order: u32) -> f64 {
    let (drawn, left) = (math::ln(share), math::ln_1p(-share));
    let term = |(k, binomial): (u32, f64)| {
        let exponent = f64::from(k) * f64::from(k - 1) / (2.0 * multiplier * multiplier);
        binomial + f64::from(order - k) * left + f64::from(k) * drawn + ln_exp_m1(exponent)
    };
    let binomials = (0..).zip(ln_binomials(order)).skip(2);
    ln_add(0.0, ln_sum(&binomials.map(term).collect::<Vec<_>>()))
}

/// Returns ln E[r^a] for Poisson sampling and any order a above 1, by integration (Mironov et al.
/// 2019, section 3.3). Here r is 1 - q + q exp(t), t = u / z - 1 / (2 z^2), and u is standard
/// normal.
pub(super) fn of_poisson_between_integers(share: f64, multiplier: f64, order: f64) -> f64 {
    let less_one = ln_expectation(-FAR, order / multiplier + FAR, |u| {
        let t = u / multiplier - 1.0 / (2.0 * multiplier * multiplier);
        // Above 30, exp(t) is written out, which could overflow.
        let ln_ratio = match t > 30.0 {
            true => t + math::ln(share + (1.0 - share) * math::exp(-t)),
            false => math::ln_1p(share * math::exp_m1(t)),
        };
        ln_convex_rest(ln_ratio, order)
    });
    ln_add(0.0, less_one)
}

/// Returns ln(r^a - 1 - a (r - 1)) for a ratio r, which is given by its logarithm. As E[r] is 1,
/// its expectation is E[r^a] - 1.
fn ln_convex_rest(ln_ratio: f64, order: f64) -> f64 {
    if ln_ratio > 1.0 {
        // r^a is taken out of the brackets, so that nothing overflows.
        let one = math::exp(-order * ln_ratio);
        let linear = order * (math::exp(ln_ratio * (1.0 - order)) - one);
        return order * ln_ratio + math::ln_1p(-(one + linear));
    }
    let moved = math::exp_m1(ln_ratio);
    if moved.abs() * order > 1e-2 {
        return math::ln((math::exp_m1(order * ln_ratio) - order * moved).max(0.0));
    }
    // Nearly all digits would be lost in the difference. Its binomial series begins with the
    // square.
    let mut term = order * moved;
    let mut sum = 0.0;
    for k in 2..9 {
        term *= (order - f64::from(k - 1)) / f64::from(k) * moved;
        sum += term;
    }
    math::ln(sum.max(0.0))
}

/// Holds bounds of ln E[r^a] for a cohort of fixed size, at integer orders.
pub(super) struct CohortBounds {
    /// The bounds of the orders 1 to 64, and those of 128 and 256.
    bounds: Vec<(u32, f64)>,
}

impl CohortBounds {
    /// Computes the bounds for this share of the users and this noise multiplier.
    pub(crate) fn new(share: f64, multiplier: f64) -> Self {
        const LARGEST: u32 = 256;
        // Theorem 27 needs the absolute moments of r - 1 for Gaussian noise, which have even
        // orders.
        let differences: Vec<f64> = (0..=LARGEST / 2)
            .map(|half| ln_absolute_moment(2 * half, 1.0 / multiplier))
            .collect();
        let orders = (2..=64).chain([128, LARGEST]);
        let bound = |order| (order, cohort_bound(share, multiplier, order, &differences));
        Self {
            bounds: [(1, 0.0)].into_iter().chain(orders.map(bound)).collect(),
        }
    }

    /// Returns the bound at an order; `None` if there is none. Between integers it is the straight
    /// line, as the moments' logarithms are convex.
    pub(crate) fn moment(&self, order: f64) -> Option<f64> {
        let of = |wanted: f64| {
            self.bounds
                .iter()
                .find(|(order, _)| f64::from(*order) == wanted)
                .map(|(_, of)| *of)
        };
        let part = order.fract();
        if part == 0.0 {
            return of(order);
        }
        Some((1.0 - part) * of(order.floor())? + part * of(order.ceil())?)
    }
}

/// Returns ln E[|r - 1|^l] for an even l, where r = exp(s u - s^2 / 2) and u is standard normal.
fn ln_absolute_moment(even: u32, scale: f64) -> f64 {
    let degree = f64::from(even);
    // The integrand is largest near degree times s, and, as it grows like a power, around the root
    // of the degree.
    let reach = math::sqrt(degree) + FAR;
    ln_expectation(-reach, degree * scale + reach, |u| {
        if even == 0 {
            return 0.0;
        }
        let exponent = scale * u - scale * scale / 2.0;
        let ln_distance = if exponent > 1.0 {
            ln_exp_m1(exponent)
        } else {
            math::ln(math::exp_m1(exponent).abs())
        };
        degree * ln_distance
    })
}

/// Returns the bound of theorem 27 at an integer order of at least 2. `differences` has ln E[|r -
/// 1|^l] at l / 2.
fn cohort_bound(share: f64, multiplier: f64, order: u32, differences: &[f64]) -> f64 {
    let binomials = ln_binomials(order);
    let (ln_two, ln_four) = (math::ln(2.0), math::ln(4.0));
    let term = |j: u32| {
        let divergence = f64::from(j) * f64::from(j - 1) / (2.0 * multiplier * multiplier);
        let plain = ln_two + divergence;
        let tight = match j {
            2 => ln_four + ln_exp_m1(divergence),
            _ => {
                ln_four
                    + (differences[(j / 2) as usize] + differences[j.div_ceil(2) as usize]) / 2.0
            }
        };
        f64::from(j) * math::ln(share) + binomials[j as usize] + plain.min(tight)
    };
    ln_add(0.0, ln_sum(&(2..=order).map(term).collect::<Vec<_>>()))
}
