//! Provides named streams of randomness.
//!
//! Every draw comes from a ChaCha stream that is named by (seed, purpose, user, round). No
//! generator is shared, so one more draw, or one more user, moves no other draw (contract 1).

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::math;

/// The purpose of a stream. The numbers are part of every pinned digest, so new ones are appended
/// and none is renumbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u64)]
pub enum Purpose {
    /// Parameters that the server broadcasts in round 0.
    GlobalInit = 1,
    /// Private parameters; the user is 0 if one draw is shared by everybody.
    PrivateInit = 2,
    /// Which users take part in a round.
    Cohort = 3,
    /// Training negatives of a user in a round.
    Negatives = 4,
    /// The order of a user's mini-batches in a round.
    Shuffle = 5,
    /// The items that the held-out one is ranked against.
    Candidates = 6,
    /// The speed of a user's device.
    Device = 7,
    /// Bandwidth and round-trip time of a user's link.
    Link = 8,
    /// The variation of single transfers.
    Transfer = 9,
    /// Whether and when a user drops out of a participation.
    Dropout = 10,
    /// The items of the generator: tastes and popularity.
    GeneratedItems = 11,
    /// The users of the generator: tastes, ratings, times.
    GeneratedRatings = 12,
    /// Scores of the `random` baseline.
    RandomScores = 13,
    /// Which users are evaluated, if not all are.
    EvaluatedUsers = 14,
    /// The class of a user's device.
    DeviceClass = 15,
    /// The memory of a user's device.
    DeviceMemory = 16,
    /// When a user is available: its time zone and window, or its stays.
    Availability = 17,
    /// Whether a fault rule hits a transfer, and which bit it flips.
    Fault = 18,
    /// Which users a fault rule applies to.
    FaultUsers = 19,
    /// The order of a cohort in the line for the server's connections.
    Line = 20,
    /// Which part of a k-fold split every rating belongs to.
    Folds = 21,
    /// When the outages of a fault rule are; the rule takes the place of the user.
    Outage = 22,
    /// Other items to be found, which show what training knows of the held-out ones.
    OtherTargets = 23,
}

/// The generator behind every stream.
pub type Stream = ChaCha8Rng;

/// All streams of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    seed: u64,
}

impl Streams {
    /// Returns the streams of the run with this seed.
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Returns the seed.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the stream for `purpose`, `user` and `round`. The four numbers are the 256-bit
    /// ChaCha key itself, so distinct names cannot collide.
    pub fn stream(&self, purpose: Purpose, user: u64, round: u64) -> Stream {
        self.keyed(purpose as u64, user, round)
    }

    /// Returns a stream of a method, a codec or a privacy mechanism, which `name` tells apart from
    /// all other streams of the same user and round. Names are chosen by their owner
    /// (`fedrecon/user-vector`); their first 63 bits of BLAKE3 stand in the key, with a bit that no
    /// [`Purpose`] has.
    pub fn named(&self, name: &str, user: u64, round: u64) -> Stream {
        let hash = blake3::hash(name.as_bytes());
        let word = hash
            .as_bytes()
            .first_chunk::<8>()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes));
        self.keyed(word | 1 << 63, user, round)
    }

    fn keyed(&self, purpose: u64, user: u64, round: u64) -> Stream {
        let mut key = [0; 32];
        for (bytes, word) in key
            .chunks_exact_mut(8)
            .zip([self.seed, purpose, user, round])
        {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        ChaCha8Rng::from_seed(key)
    }
}

/// Makes draws that are the same on every platform.
pub trait PortableDraws: Rng {
    /// Draws uniformly from the open interval (0, 1), with 52 bits. With 53, the largest draw would
    /// round up to 1.
    fn open_unit(&mut self) -> f64 {
        ((self.next_u64() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }

    /// Draws uniformly from the open interval (-`reach`, `reach`).
    fn uniform_within(&mut self, reach: f64) -> f64 {
        (2.0 * self.open_unit() - 1.0) * reach
    }

    /// Draws an integer uniformly from `0..bound`; `bound` must not be 0.
    fn below(&mut self, bound: u32) -> u32 {
        self.random_range(0..bound)
    }

    /// Draws from the standard normal distribution, by inversion.
    fn standard_normal(&mut self) -> f64 {
        math::inverse_normal_cdf(self.open_unit())
    }

    /// Draws from the lognormal distribution with the given median and standard deviation of the
    /// logarithm.
    fn lognormal(&mut self, median: f64, log_sigma: f64) -> f64 {
        median * libm::exp(log_sigma * self.standard_normal())
    }

    /// Draws from the exponential distribution with the given mean.
    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * math::ln(self.open_unit())
    }

    /// Keeps `count` of `values`, drawn uniformly without replacement and in the order of the draws;
    /// all of them if there are fewer.
    fn keep_drawn<T>(&mut self, values: &mut Vec<T>, count: usize)
    where
        Self: Sized,
    {
        for place in 0..count.min(values.len()) {
            let chosen = place + self.below((values.len() - place) as u32) as usize;
            values.swap(place, chosen);
        }
        values.truncate(count);
    }

    /// Shuffles `values` in place into a uniformly random permutation (Fisher-Yates from the end).
    fn shuffle_portably<T>(&mut self, values: &mut [T])
    where
        Self: Sized,
    {
        for last in (1..values.len()).rev() {
            let chosen = self.below(last as u32 + 1) as usize;
            values.swap(last, chosen);
        }
    }
}

impl<R: Rng> PortableDraws for R {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_with_different_names_differ_and_equal_names_repeat() {
        let streams = Streams::new(7);
        let first = |purpose, user, round| streams.stream(purpose, user, round).next_u64();
        let reference = first(Purpose::Negatives, 3, 5);
        assert_eq!(reference, first(Purpose::Negatives, 3, 5));
        for other in [
            first(Purpose::Shuffle, 3, 5),
            first(Purpose::Negatives, 4, 5),
            first(Purpose::Negatives, 3, 6),
            Streams::new(8).stream(Purpose::Negatives, 3, 5).next_u64(),
        ] {
            assert_ne!(reference, other);
        }
    }

    #[test]
    fn streams_know_their_seed() {
        assert_eq!(Streams::new(7).seed(), 7);
    }

    #[test]
    fn lognormal_draws_have_their_median_and_the_spread_of_their_logarithm() {
        let stream = || Streams::new(1).stream(Purpose::Device, 0, 0);
        let (mut normal, mut lognormal) = (stream(), stream());
        for _ in 0..100 {
            let expected = 40.0 * math::exp(0.5 * normal.standard_normal());
            assert!((lognormal.lognormal(40.0, 0.5) - expected).abs() < 1e-12 * expected);
        }
    }

    #[test]
    fn draws_are_pinned() {
        // Every digest depends on these values, so a dependency that changes them must not pass
        // unnoticed.
        let mut stream = Streams::new(1).stream(Purpose::Cohort, 2, 3);
        let draws = (
            stream.next_u32(),
            stream.below(1000),
            stream.open_unit(),
            stream.standard_normal(),
        );
        insta::assert_debug_snapshot!(draws);
    }

    #[test]
    fn normal_draws_have_the_right_moments() {
        let mut stream = Streams::new(1).stream(Purpose::Device, 0, 0);
        let draws: Vec<f64> = (0..100_000).map(|_| stream.standard_normal()).collect();
        let mean = draws.iter().sum::<f64>() / 1e5;
        let variance = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 1e5;
        assert!(
            mean.abs() < 0.015 && (variance - 1.0).abs() < 0.02,
            "mean {mean}, variance {variance}"
        );
    }

    /// If this fails, some values are drawn more often than others, or one is drawn twice.
    #[test]
    fn a_draw_without_replacement_takes_every_value_equally_often() {
        let mut stream = Streams::new(1).stream(Purpose::Shuffle, 0, 0);
        let mut counts = [0; 5];
        for _ in 0..5_000 {
            let mut values = vec![0, 1, 2, 3, 4];
            stream.keep_drawn(&mut values, 2);
            assert!(values.len() == 2 && values[0] != values[1]);
            values.iter().for_each(|value| counts[*value] += 1);
        }
        assert!(
            counts.iter().all(|count| (1_850..2_150).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn a_shuffle_is_uniform_over_permutations() {
        let mut stream = Streams::new(1).stream(Purpose::Shuffle, 0, 0);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut values = [0, 1, 2];
            stream.shuffle_portably(&mut values);
            *counts.entry(values).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(
            counts.values().all(|&count| (850..1150).contains(&count)),
            "{counts:?}"
        );
    }
}
