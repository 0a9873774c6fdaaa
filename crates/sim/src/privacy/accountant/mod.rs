//! Adds up what Gaussian noise costs in privacy, as Renyi differential privacy (Mironov, CSF 2017).
//!
//! A mechanism has a [`Curve`], the Renyi divergence of its outputs on two adjacent data sets at
//! each of some orders. Curves of mechanisms that are run one after the other add up, and a curve
//! gives an epsilon for every delta. Everything is computed in a fixed order and with portable
//! functions, so that an epsilon has the same bits on every machine.

mod moments;

use fedrecsim_core::math;

/// With less noise than this, a sample protects hardly better than its whole, whose bound is taken
/// then.
const LEAST_MULTIPLIER: f64 = 0.05;

/// Holds the orders at which divergences are kept: 1.1 to 10.9 in tenths, 11 to 63, and four large
/// ones. The package dp-accounting has the same.
fn orders() -> impl Iterator<Item = f64> {
    let tenths = (1..100).map(|tenth| 1.0 + f64::from(tenth) / 10.0);
    tenths
        .chain((11..64).map(f64::from))
        .chain([128.0, 256.0, 512.0, 1024.0])
}

/// Holds the Renyi divergence of a mechanism at each order, an upper bound of it where no better is
/// known.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The orders with their divergences, by order, without those that have no bound.
    points: Vec<(f64, f64)>,
}

impl Curve {
    /// Returns the curve of Gaussian noise whose deviation is this many times the sensitivity of what
    /// it is added to.
    pub fn gaussian(multiplier: f64) -> Self {
        Self::of(|order| Some(order / (2.0 * multiplier * multiplier)))
    }

    /// Returns the curve of the same noise on a sum over users that are each drawn with probability
    /// `share` (Mironov, Talwar and Zhang, 2019, for data sets that differ by one user).
    pub fn of_poisson_sample(share: f64, multiplier: f64) -> Self {
        if share >= 1.0 || multiplier < LEAST_MULTIPLIER {
            return Self::gaussian(multiplier);
        }
        Self::of(|order| {
            let moment = match order.fract() == 0.0 {
                true => moments::of_poisson_at_integer(share, multiplier, order as u32),
                false => moments::of_poisson_between_integers(share, multiplier, order),
            };
            Some(moment / (order - 1.0))
        })
    }

    /// Returns a bound of the curve of the same noise on a sum over a `share` of the users, drawn
    /// without replacement (Wang, Balle and Kasiviswanathan, AISTATS 2019, theorem 27, for data
    /// sets that differ by the replacement of one user). `multiplier` is against the sensitivity of
    /// such a replacement.
    pub fn of_fixed_cohort(share: f64, multiplier: f64) -> Self {
        if share >= 1.0 || multiplier < LEAST_MULTIPLIER {
            return Self::gaussian(multiplier);
        }
        let bounds = moments::CohortBounds::new(share, multiplier);
        Self::of(|order| Some(bounds.moment(order)? / (order - 1.0)))
    }

    fn of(divergence: impl Fn(f64) -> Option<f64>) -> Self {
        Self {
            points: orders()
                .filter_map(|order| Some((order, divergence(order)?)))
                .collect(),
        }
    }

    /// Returns the least epsilon that the mechanism has for `delta` if it is run this many times. The
    /// conversion is that of Canonne, Kamath and Steinke (NeurIPS 2020, proposition 12) and Balle
    /// et al. (AISTATS 2020, theorem 21).
    pub fn epsilon(&self, times: u32, delta: f64) -> f64 {
        if times == 0 {
            return 0.0;
        }
        let of_order = |&(order, divergence): &(f64, f64)| {
            let divergence = f64::from(times) * divergence;
            // The total variation is at most the square root of 1 - exp(-divergence).
            if delta * delta + math::exp_m1(-divergence) >= 0.0 {
                return 0.0;
            }
            divergence + math::ln_1p(-1.0 / order) - math::ln(delta * order) / (order - 1.0)
        };
        self.points
            .iter()
            .map(of_order)
            .fold(f64::INFINITY, f64::min)
            .max(0.0)
    }
}

#[cfg(test)]
mod tests;
