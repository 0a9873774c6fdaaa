//! Computes exact expectations over all draws of the sampled candidates.
//!
//! Of `items` items that a user has not rated, `rank` score at least as high as a held-out one.
//! Where `drawn` of them are drawn as candidates, uniformly without replacement, the rank among the
//! candidates is hypergeometric: P(q) = C(rank, q) C(items - rank, drawn - q) / C(items, drawn). A
//! mean over these probabilities is what the mean over infinitely many draws would be, so it has no
//! noise of sampling.

use super::ranking::{CataloguePlace, Gain, Standing};

/// The share of the largest probability below which others are left out: they do not change a sum
/// in double precision.
const NEGLIGIBLE: f64 = 1e-25;

/// The probabilities of every rank among the candidates, for one item after another.
#[derive(Clone, Debug, Default)]
pub(super) struct DrawProbabilities {
    /// The first rank with a probability that is not left out.
    first: u32,
    /// The probabilities of the ranks from there on.
    probabilities: Vec<f64>,
}

impl DrawProbabilities {
    /// Computes the probabilities for `place`.
    ///
    /// Starting at the likeliest rank, they follow outwards by the ratio of neighbouring terms, and
    /// are then divided by their sum. No factorial is needed, and only negligible terms underflow.
    pub(crate) fn set(&mut self, place: CataloguePlace) {
        let CataloguePlace { rank, items, drawn } = place;
        let (items, drawn) = (f64::from(items), f64::from(drawn.min(items)));
        let above = f64::from(rank).min(items);
        let least = (drawn - (items - above)).max(0.0);
        let most = drawn.min(above);
        let mode =
            (((drawn + 1.0) * (above + 1.0) / (items + 2.0)) as u32 as f64).clamp(least, most);
        // This is P(q + 1) / P(q).
        let ratio =
            |q: f64| (above - q) * (drawn - q) / ((q + 1.0) * (items - above - drawn + q + 1.0));
        self.probabilities.clear();
        let (mut q, mut weight) = (mode, 1.0);
        while weight > NEGLIGIBLE {
            self.probabilities.push(weight);
            if q <= least {
                break;
            }
            q -= 1.0;
            weight /= ratio(q);
        }
        self.first = mode as u32 + 1 - self.probabilities.len() as u32;
        self.probabilities.reverse();
        (q, weight) = (mode, 1.0);
        while q < most {
            weight *= ratio(q);
            q += 1.0;
            if weight <= NEGLIGIBLE {
                break;
            }
            self.probabilities.push(weight);
        }
        let sum: f64 = self.probabilities.iter().sum();
        self.probabilities
            .iter_mut()
            .for_each(|probability| *probability /= sum);
    }

    /// Returns the expectation of `gain` at `cutoff` of an item that stands behind `before` other
    /// held-out items of its user.
    pub(crate) fn mean(&self, gain: Gain, before: u32, cutoff: u32) -> f64 {
        // The sum ends at the cutoff, beyond which every gain is zero.
        let terms = self
            .probabilities
            .iter()
            .zip(self.first..cutoff.saturating_sub(before));
        terms
            .map(|(probability, among)| probability * gain(Standing { among, before }))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::ranking::{discounted, hit, precision_there, reciprocal};
    use super::*;

    fn expected(place: (u32, u32, u32), gain: Gain, before: u32, cutoff: u32) -> f64 {
        let (rank, items, drawn) = place;
        let mut probabilities = DrawProbabilities::default();
        probabilities.set(CataloguePlace { rank, items, drawn });
        probabilities.mean(gain, before, cutoff)
    }

    /// Returns the logarithm of a binomial coefficient.
    fn ln_choose(n: u32, k: u32) -> f64 {
        libm::lgamma(f64::from(n) + 1.0)
            - libm::lgamma(f64::from(k) + 1.0)
            - libm::lgamma(f64::from(n) - f64::from(k) + 1.0)
    }

    #[test]
    fn probabilities_are_the_hypergeometric_ones() {
        for (rank, items, drawn) in [
            (0, 100, 10),
            (7, 100, 10),
            (95, 100, 10),
            (100, 100, 10),
            (30, 1_600, 99),
            (3_000, 1_000_000, 5_000),
        ] {
            let mut probabilities = DrawProbabilities::default();
            probabilities.set(CataloguePlace { rank, items, drawn });
            let sum: f64 = probabilities.probabilities.iter().sum();
            assert!((sum - 1.0).abs() < 1e-12, "{sum}");
            for (q, probability) in (probabilities.first..).zip(&probabilities.probabilities) {
                let ln = ln_choose(rank, q) + ln_choose(items - rank, drawn - q)
                    - ln_choose(items, drawn);
                let reference = libm::exp(ln);
                assert!(
                    (probability - reference).abs() < 1e-8,
                    "{rank} of {items}, {q}: {probability} {reference}"
                );
            }
        }
    }

    /// If this fails, the expectation differs from the mean over all C(7, 3) draws.
    #[test]
    fn the_expectation_is_the_mean_over_all_draws() {
        let (items, drawn) = (7u32, 3u32);
        for rank in 0..=items {
            let draws: Vec<u32> = (0u32..1 << items)
                .filter(|draw| draw.count_ones() == drawn)
                .collect();
            // The items that score at least as high are the first ones.
            let ranks = || {
                draws
                    .iter()
                    .map(|draw| (draw & ((1 << rank) - 1)).count_ones())
            };
            for (gain, before, cutoff) in [
                (hit as Gain, 0, 2),
                (discounted, 0, 2),
                (discounted, 1, 3),
                (precision_there, 2, 4),
                (reciprocal, 0, u32::MAX),
            ] {
                let worth = |among: u32| match among + before < cutoff {
                    true => gain(Standing { among, before }),
                    false => 0.0,
                };
                let mean = ranks().map(worth).sum::<f64>() / draws.len() as f64;
                let found = expected((rank, items, drawn), gain, before, cutoff);
                assert!((found - mean).abs() < 1e-14, "rank {rank}: {found}, {mean}");
            }
        }
    }

    /// If this fails, a full catalogue, which leaves nothing to chance, has another figure than its
    /// rank says.
    #[test]
    fn without_chance_the_expectation_is_the_gain() {
        assert_eq!(expected((4, 50, 50), hit, 0, 5), 1.0);
        assert_eq!(expected((4, 50, 50), hit, 1, 5), 0.0);
        assert_eq!(expected((5, 50, 50), hit, 0, 5), 0.0);
        assert_eq!(expected((0, 50, 9), discounted, 0, 5), 1.0);
    }
}
