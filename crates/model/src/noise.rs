//! Draws noise for many values at a time.
//!
//! Noise on whole tables takes a draw for each value of each upload, which are billions in a run.
//! So draws are computed in blocks, by branch-free single-precision functions that vectorise: a
//! logarithm, and a sine with a cosine. Every instruction set computes the same bits.

use rand::Rng;

use crate::per_instruction_set;
use fedrecsim_core::rng::Stream;

/// The draws of a block.
const BLOCK: usize = 128;
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
    draws: [f32; BLOCK],
    /// The number of `draws` that have been taken.
    taken: usize,
}

impl Noise {
    /// Makes noise of `law`, whose draws are those of `stream` alone.
    pub fn new(law: Law, stream: Stream) -> Self {
        Self {
            law,
            stream,
            draws: [0.0; BLOCK],
            taken: BLOCK,
        }
    }

    /// Adds a draw to each of `values`, in their order.
    pub fn add_to(&mut self, values: &mut [f32]) {
        self.for_each(values, |value, draw| *value += draw);
    }

    /// Replaces `draws` by the next draws.
    pub fn fill(&mut self, draws: &mut [f32]) {
        self.for_each(draws, |value, draw| *value = draw);
    }

    fn for_each(&mut self, mut values: &mut [f32], visit: impl Fn(&mut f32, f32)) {
        while !values.is_empty() {
            let draws = self.take(values.len());
            let (now, later) = values.split_at_mut(draws.len());
            now.iter_mut()
                .zip(draws)
                .for_each(|(value, draw)| visit(value, *draw));
            values = later;
        }
    }

    /// Returns the next draws of the block: from one to `most`, which is not 0.
    fn take(&mut self, most: usize) -> &[f32] {
        if self.taken == BLOCK {
            let words = words(&mut self.stream);
            match self.law {
                Law::Laplace { scale } => laplace(&words, scale as f32, &mut self.draws),
                Law::Gaussian { deviation } => gaussian(&words, deviation as f32, &mut self.draws),
            }
            self.taken = 0;
        }
        let first = self.taken;
        self.taken = BLOCK.min(first + most);
        &self.draws[first..self.taken]
    }
}

/// Draws the words of a block.
fn words(stream: &mut Stream) -> [u32; BLOCK] {
    let mut bytes = [[0; 4]; BLOCK];
    stream.fill_bytes(bytes.as_flattened_mut());
    bytes.map(u32::from_le_bytes)
}

per_instruction_set! {
    /// Draws by inversion: the lowest bit of a word is the sign, and the others are a number of (0,
    /// 1], whose logarithm is the magnitude. It is less than 22.2 times the scale.
    fn laplace(words: &[u32; BLOCK], scale: f32, draws: &mut [f32; BLOCK]) {
        for (draw, word) in draws.iter_mut().zip(words) {
            let magnitude = -scale * ln(unit(*word));
            *draw = f32::from_bits(magnitude.to_bits() ^ (word << 31));
        }
    }
}

per_instruction_set! {
    /// Draws pairs (Box and Muller, The Annals of Mathematical Statistics 29, 1958), a pair from
    /// two words: one gives the length, which is less than 6.67 standard deviations, and the other
    /// one the direction.
    fn gaussian(words: &[u32; BLOCK], deviation: f32, draws: &mut [f32; BLOCK]) {
        let ((lengths, directions), (first, second)) = (words.split_at(HALF), draws.split_at_mut(HALF));
        for i in 0..HALF {
            let length = deviation * (-2.0 * ln(unit(lengths[i]))).sqrt();
            let (sine, cosine) = of_turn(directions[i]);
            (first[i], second[i]) = (length * cosine, length * sine);
        }
    }
}

/// Returns the number of (0, 1] that the highest 31 bits of a word stand for: it is in the middle
/// of its step, rounded to single precision.
#[inline(always)]
fn unit(word: u32) -> f32 {
    const STEPS: f32 = (1u32 << 31) as f32;
    // Converts a signed number, since few instruction sets convert unsigned ones.
    ((word >> 1) as i32 as f32 + 0.5) / STEPS
}

/// Returns the logarithm of `x`, which is a normal number above 0, to about one unit in the last
/// place. The coefficients are those of FreeBSD's `e_logf.c`.
#[inline(always)]
fn ln(x: f32) -> f32 {
    const HIGH: f32 = 6.931_381e-1;
    const LOW: f32 = 9.058_001e-6;
    const ROOT_OF_HALF: u32 = 0x3f35_04f3;
    const ONE: u32 = 0x3f80_0000;
    const MANTISSA: u32 = 0x007f_ffff;
    // x = 2^k (1 + f), where 1 + f is between the root of 1/2 and that of 2.
    let raised = x.to_bits() + (ONE - ROOT_OF_HALF);
    let k = ((raised >> 23) as i32 - 127) as f32;
    let f = f32::from_bits((raised & MANTISSA) + ROOT_OF_HALF) - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let odd = z * (0.666_666_6 + w * 0.284_987_87);
    let even = w * (0.400_009_72 + w * 0.242_790_79);
    let half_square = 0.5 * f * f;
    s * (half_square + odd + even) + k * LOW - half_square + f + k * HIGH
}

/// Returns sine and cosine of the angle that `word` is a share of: 2^32 would be a whole turn. They
/// are within 1.2e-7 of it. The coefficients are those of Cephes' `sinf.c`.
#[inline(always)]
fn of_turn(word: u32) -> (f32, f32) {
    const QUARTER: f32 = (1u32 << 30) as f32;
    // The nearest quarter of a turn, and what is left of it, which is between -1/2 and 1/2 of a
    // quarter.
    let raised = word.wrapping_add(1 << 29);
    let quarter = raised >> 30;
    let rest = (raised & 0x3fff_ffff) as i32 - (1 << 29);
    let x = rest as f32 * (std::f32::consts::FRAC_PI_2 / QUARTER);
    let z = x * x;
    let sine = x + x * z * (-0.166_666_55 + z * (8.332_161e-3 + z * -1.951_529_6e-4));
    let cosine =
        1.0 - 0.5 * z + z * z * (4.166_664_6e-2 + z * (-1.388_731_6e-3 + z * 2.443_315_7e-5));
    let (one, other) = if quarter & 1 == 0 {
        (sine, cosine)
    } else {
        (cosine, sine)
    };
    let signed = |value: f32, bits: u32| f32::from_bits(value.to_bits() ^ ((bits & 2) << 30));
    (signed(one, quarter), signed(other, quarter + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedrecsim_core::rng::Streams;

    fn noise(law: Law) -> Noise {
        Noise::new(law, Streams::new(9).named("noise", 1, 2))
    }

    /// If this fails, noise has other tails than its law says.
    #[test]
    fn functions_agree_with_the_library_s() {
        for step in 0..40_000u32 {
            // Numbers all over (0, 1], and those next to 0 and 1.
            for word in [
                step << 16 | step,
                step,
                !step,
                1 << 31 ^ step,
                1 << 29 ^ step,
            ] {
                let x = unit(word);
                assert!(x > 0.0 && x <= 1.0);
                let expected = libm::log(f64::from(x));
                let error = (f64::from(ln(x)) - expected).abs();
                assert!(
                    error <= 2e-7 * expected.abs(),
                    "ln {x}: {} {expected}",
                    ln(x)
                );
                let (sine, cosine) = of_turn(word);
                let angle = std::f64::consts::TAU * f64::from(word) / (1u64 << 32) as f64;
                assert!(
                    (f64::from(sine) - libm::sin(angle)).abs() < 1.2e-7,
                    "sine of {angle}: {sine}"
                );
                assert!(
                    (f64::from(cosine) - libm::cos(angle)).abs() < 1.2e-7,
                    "cosine of {angle}: {cosine}"
                );
            }
        }
    }

    /// If this fails, noise is stronger or weaker than was asked for, or of another shape.
    #[test]
    fn draws_have_the_moments_of_their_law() {
        for (law, magnitude, square, fourth) in [
            (Law::Laplace { scale: 0.5 }, 0.5, 0.5, 24.0 * 0.0625),
            (
                Law::Gaussian { deviation: 0.5 },
                0.5 * (2.0 / std::f64::consts::PI).sqrt(),
                0.25,
                3.0 * 0.0625,
            ),
        ] {
            let mut noise = noise(law);
            let mut draws = vec![0.0; 400_000];
            noise.fill(&mut draws);
            let draws: Vec<f64> = draws.into_iter().map(f64::from).collect();
            let mean = |of: &dyn Fn(f64) -> f64| {
                draws.iter().map(|draw| of(*draw)).sum::<f64>() / draws.len() as f64
            };
            assert!(mean(&|x| x).abs() < 0.005, "{law:?}");
            assert!((mean(&f64::abs) - magnitude).abs() < 0.005, "{law:?}");
            assert!((mean(&|x| x * x) - square).abs() < 0.01, "{law:?}");
            assert!(
                (mean(&|x| x.powi(4)) / fourth - 1.0).abs() < 0.05,
                "{law:?}"
            );
            // The two draws that come of one pair of words are not correlated.
            let products = draws
                .chunks_exact(BLOCK)
                .flat_map(|block| (0..HALF).map(|i| block[i] * block[i + HALF]));
            assert!(
                (products.sum::<f64>() / draws.len() as f64).abs() < 0.003,
                "{law:?}"
            );
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
        draws
            .iter_mut()
            .for_each(|draw| other.fill(std::slice::from_mut(draw)));
        assert_eq!(values, draws.map(|draw| 1.0 + draw));
    }
}
