//! Draws noise for many values at a time.
//!
//! Noise on whole tables takes a draw for each value of each upload, which are billions in a run. So they are worked
//! out in blocks, by functions that the compiler can turn into wide vectors: a logarithm, and a sine with a cosine, in
//! double precision and without a branch. Every instruction set computes the same bits.

use rand::Rng;

use super::instruction_sets::per_instruction_set;
use crate::rng::Stream;

/// The draws of a block.
const BLOCK: usize = 64;
const HALF: usize = BLOCK / 2;

/// Says how noise with mean 0 is distributed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// The Laplace distribution with this mean magnitude.
    Laplace {
        /// The mean magnitude b.
        scale: f64,
    },
    /// The normal distribution with this standard deviation.
    Gaussian {
        /// The standard deviation.
        deviation: f64,
    },
}

/// Draws noise of one law from one stream.
#[derive(Clone, Debug)]
pub struct Noise {
    law: Law,
    stream: Stream,
    draws: [f64; BLOCK],
    /// The number of `draws` that have been taken.
    taken: usize,
}

impl Noise {
    /// Makes noise of `law`, whose draws are those of `stream` alone.
    pub fn new(law: Law, stream: Stream) -> Self {
        Self { law, stream, draws: [0.0; BLOCK], taken: BLOCK }
    }

    /// Adds a draw to each of `values`, in their order. Sums are of double precision.
    pub fn add_to(&mut self, values: &mut [f32]) {
        let mut rest = values;
        while !rest.is_empty() {
            let draws = self.take(rest.len());
            let (now, later) = rest.split_at_mut(draws.len());
            for (value, draw) in now.iter_mut().zip(draws) {
                *value = (f64::from(*value) + draw) as f32;
            }
            rest = later;
        }
    }

    /// Replaces `draws` by the next draws.
    pub fn fill(&mut self, draws: &mut [f64]) {
        let mut rest = draws;
        while !rest.is_empty() {
            let draws = self.take(rest.len());
            let (now, later) = rest.split_at_mut(draws.len());
            now.copy_from_slice(draws);
            rest = later;
        }
    }

    /// Returns the next draws of the block: at least one, and `most` at most, which is not 0.
    fn take(&mut self, most: usize) -> &[f64] {
        if self.taken == BLOCK {
            match self.law {
                Law::Laplace { scale } => laplace(&words::<BLOCK>(&mut self.stream), scale, &mut self.draws),
                Law::Gaussian { deviation } => gaussian(&words::<HALF>(&mut self.stream), deviation, &mut self.draws),
            }
            self.taken = 0;
        }
        let first = self.taken;
        self.taken = BLOCK.min(first + most);
        &self.draws[first..self.taken]
    }
}

/// Draws `N` words.
fn words<const N: usize>(stream: &mut Stream) -> [u64; N] {
    let mut bytes = [[0; 8]; N];
    stream.fill_bytes(bytes.as_flattened_mut());
    bytes.map(u64::from_le_bytes)
}

per_instruction_set! {
    /// Draws by inversion: the lowest bit of a word is the sign, and its highest ones are a number of (0, 1), whose
    /// logarithm is the magnitude.
    fn laplace(words: &[u64; BLOCK], scale: f64, draws: &mut [f64; BLOCK]) {
        for (draw, word) in draws.iter_mut().zip(words) {
            let magnitude = -scale * ln(open_unit(*word));
            *draw = f64::from_bits(magnitude.to_bits() ^ (word << 63));
        }
    }
}

per_instruction_set! {
    /// Draws pairs (Box and Muller, The Annals of Mathematical Statistics 29, 1958), a pair from each word: its highest 40
    /// bits give the length, which is at most 7.5 standard deviations, and the other 24 bits the direction.
    fn gaussian(words: &[u64; HALF], deviation: f64, draws: &mut [f64; BLOCK]) {
        let (first, second) = draws.split_at_mut(HALF);
        for ((one, other), word) in first.iter_mut().zip(second).zip(words) {
            let length = deviation * (-2.0 * ln(open_unit_of_bits::<40>(word >> 24))).sqrt();
            let (sine, cosine) = of_turn(open_unit_of_bits::<24>(word & 0x00ff_ffff));
            (*one, *other) = (length * cosine, length * sine);
        }
    }
}

/// Returns the number of (0, 1) that the highest 52 bits of a word stand for.
#[inline(always)]
fn open_unit(word: u64) -> f64 {
    open_unit_of_bits::<52>(word >> 12)
}

/// Returns the number of (0, 1) that `BITS` bits (at most 52) stand for.
#[inline(always)]
fn open_unit_of_bits<const BITS: u32>(bits: u64) -> f64 {
    const ONE: u64 = 0x3ff0_0000_0000_0000;
    // The number of [1, 2) with these bits, less 1, in the middle of its step. Both operations are exact.
    f64::from_bits(ONE | bits << (52 - BITS)) - 1.0 + 0.5 / (1u64 << BITS) as f64
}

/// Returns the logarithm of `x`, which is a normal number above 0, to about one unit in the last place. The
/// coefficients are those of FreeBSD's `e_log.c`.
#[inline(always)]
fn ln(x: f64) -> f64 {
    const HIGH: f64 = 6.931_471_803_691_238e-1;
    const LOW: f64 = 1.908_214_929_270_587_7e-10;
    const ROOT_OF_HALF: u64 = 0x3fe6_a09e_0000_0000;
    const MANTISSA: u64 = 0x000f_ffff_ffff_ffff;
    const TWO_TO_52: u64 = 0x4330_0000_0000_0000;
    // x = 2^k (1 + f), where 1 + f is between the root of 1/2 and that of 2.
    let raised = x.to_bits() + (0x3ff0_0000_0000_0000 - ROOT_OF_HALF);
    let k = f64::from_bits(TWO_TO_52 | raised >> 52) - (4_503_599_627_370_496.0 + 1023.0);
    let f = f64::from_bits((raised & MANTISSA) + ROOT_OF_HALF) - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let odd = z
        * (6.666_666_666_666_735e-1
            + w * (2.857_142_874_366_239e-1 + w * (1.818_357_216_161_805e-1 + w * 1.479_819_860_511_658_6e-1)));
    let even = w * (3.999_999_999_940_942e-1 + w * (2.222_219_843_214_978_4e-1 + w * 1.531_383_769_920_937_3e-1));
    let half_square = 0.5 * f * f;
    s * (half_square + odd + even) + k * LOW - half_square + f + k * HIGH
}

/// Returns sine and cosine of 2 pi `turn`, for a turn of (0, 1), to about one unit in the last place of 1. The
/// coefficients are those of FreeBSD's `k_sin.c` and `k_cos.c`.
#[inline(always)]
fn of_turn(turn: f64) -> (f64, f64) {
    // Added to a number below 2^50, this leaves the nearest integer in the last bits of the sum.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let rounded = 4.0 * turn + ROUND;
    let quarter = rounded.to_bits();
    let x = std::f64::consts::TAU * (turn - 0.25 * (rounded - ROUND));
    let z = x * x;
    let sine = x + x
        * z
        * (-1.666_666_666_666_663_2e-1
            + z * (8.333_333_333_322_49e-3
                + z * (-1.984_126_982_985_795e-4
                    + z * (2.755_731_370_707_007e-6
                        + z * (-2.505_076_025_340_686_3e-8 + z * 1.589_690_995_211_55e-10)))));
    let cosine = 1.0 - 0.5 * z
        + z * z
            * (4.166_666_666_666_66e-2
                + z * (-1.388_888_888_887_411e-3
                    + z * (2.480_158_728_947_673e-5
                        + z * (-2.755_731_435_139_066_3e-7
                            + z * (2.087_572_321_298_175e-9 + z * -1.135_964_755_778_82e-11)))));
    let (one, other) = if quarter & 1 == 0 { (sine, cosine) } else { (cosine, sine) };
    let signed = |value: f64, bits: u64| f64::from_bits(value.to_bits() ^ ((bits & 2) << 62));
    (signed(one, quarter), signed(other, quarter.wrapping_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Streams;

    fn noise(law: Law) -> Noise {
        Noise::new(law, Streams::new(9).named("noise", 1, 2))
    }

    /// If this fails, noise has other tails than its law says, or differs from one machine to the next.
    #[test]
    fn functions_agree_with_the_library_s() {
        for step in 0..40_000u64 {
            // Numbers all over (0, 1), and those next to 0 and 1.
            for word in [step << 49 | step << 12, step << 12, !(step << 12), 1 << 63 ^ step << 12] {
                let x = open_unit(word);
                assert!(x > 0.0 && x < 1.0);
                let expected = libm::log(x);
                assert!((ln(x) - expected).abs() <= 4e-16 * expected.abs().max(1e-16), "ln {x}: {} {expected}", ln(x));
                let (sine, cosine) = of_turn(x);
                let angle = std::f64::consts::TAU * x;
                assert!((sine - libm::sin(angle)).abs() < 2e-15, "sine of {x}");
                assert!((cosine - libm::cos(angle)).abs() < 2e-15, "cosine of {x}");
            }
        }
    }

    /// If this fails, noise is stronger or weaker than was asked for, or of another shape.
    #[test]
    fn draws_have_the_moments_of_their_law() {
        for (law, magnitude, square, fourth) in [
            (Law::Laplace { scale: 0.5 }, 0.5, 0.5, 24.0 * 0.0625),
            (Law::Gaussian { deviation: 0.5 }, 0.5 * (2.0 / std::f64::consts::PI).sqrt(), 0.25, 3.0 * 0.0625),
        ] {
            let mut noise = noise(law);
            let mut draws = vec![0.0; 400_000];
            noise.fill(&mut draws);
            let mean = |of: &dyn Fn(f64) -> f64| draws.iter().map(|draw| of(*draw)).sum::<f64>() / draws.len() as f64;
            assert!(mean(&|x| x).abs() < 0.005, "{law:?}");
            assert!((mean(&f64::abs) - magnitude).abs() < 0.005, "{law:?}");
            assert!((mean(&|x| x * x) - square).abs() < 0.01, "{law:?}");
            assert!((mean(&|x| x.powi(4)) / fourth - 1.0).abs() < 0.05, "{law:?}");
            // The two draws that come of one pair of words are independent.
            let products = draws.chunks(BLOCK).flat_map(|block| (0..HALF).map(|i| block[i] * block[i + HALF]));
            assert!((products.sum::<f64>() / draws.len() as f64).abs() < 0.003, "{law:?}");
        }
    }

    /// If this fails, noise depends on how many values it is added to at a time.
    #[test]
    fn draws_are_the_same_however_they_are_taken() {
        let law = Law::Gaussian { deviation: 2.0 };
        let (mut one, mut other) = (noise(law), noise(law));
        let (mut values, mut draws) = ([1.0f32; 150], [0.0; 150]);
        one.add_to(&mut values[..7]);
        one.add_to(&mut values[7..]);
        draws.iter_mut().for_each(|draw| other.fill(std::slice::from_mut(draw)));
        assert_eq!(values, draws.map(|draw| (1.0 + draw) as f32));
    }
}
