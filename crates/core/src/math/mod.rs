//! Computes functions portably, with the same bits on every machine.
//!
//! The platform's `exp`, `ln` and `tanh` differ between systems, so nothing on a result path calls
//! them. They come from the `libm` crate.

pub mod gradient;

pub use libm::{acos, cos, expm1 as exp_m1, log1p as ln_1p, log2, pow, sin, sqrt, tanh};

/// A number of single or double precision.
pub trait Real: Copy {
    /// Returns what `function` makes of the number, which is rounded if that is of single precision.
    fn through(self, function: impl Fn(f64) -> f64) -> Self;
}

impl Real for f64 {
    fn through(self, function: impl Fn(f64) -> f64) -> Self {
        function(self)
    }
}

impl Real for f32 {
    fn through(self, function: impl Fn(f64) -> f64) -> Self {
        function(f64::from(self)) as f32
    }
}

/// Returns e to the power of x.
#[inline]
pub fn exp<X: Real>(x: X) -> X {
    x.through(libm::exp)
}

/// Returns the natural logarithm of x.
#[inline]
pub fn ln<X: Real>(x: X) -> X {
    x.through(libm::log)
}

/// Returns the inverse of the standard normal distribution function on (0, 1).
///
/// The method is algorithm AS 241, PPND16 (Wichura 1988, Applied Statistics 37, 477-484), with a
/// relative error of about 1e-16. Outside (0, 1) the result is not finite.
pub(crate) fn inverse_normal_cdf(p: f64) -> f64 {
    #[rustfmt::skip]
    const CENTRE: ([f64; 8], [f64; 8]) = (
        [3.387_132_872_796_366_6, 1.331_416_678_917_843_8e2, 1.971_590_950_306_551_3e3, 1.373_169_376_550_946e4,
         4.592_195_393_154_987e4, 6.726_577_092_700_87e4, 3.343_057_558_358_813e4, 2.509_080_928_730_122_7e3],
        [1.0, 4.231_333_070_160_091e1, 6.871_870_074_920_579e2, 5.394_196_021_424_751e3,
         2.121_379_430_158_659_7e4, 3.930_789_580_009_271e4, 2.872_908_573_572_194_3e4, 5.226_495_278_852_855e3],
    );
    #[rustfmt::skip]
    const TAIL: ([f64; 8], [f64; 8]) = (
        [1.423_437_110_749_683_5, 4.630_337_846_156_545, 5.769_497_221_460_691, 3.647_848_324_763_204_5,
         1.270_458_252_452_368_4, 2.417_807_251_774_506e-1, 2.272_384_498_926_918_4e-2, 7.745_450_142_783_414e-4],
        [1.0, 2.053_191_626_637_759, 1.676_384_830_183_803_8, 6.897_673_349_851e-1,
         1.481_039_764_274_800_8e-1, 1.519_866_656_361_645_7e-2, 5.475_938_084_995_345e-4, 1.050_750_071_644_416_9e-9],
    );
    #[rustfmt::skip]
    const FAR_TAIL: ([f64; 8], [f64; 8]) = (
        [6.657_904_643_501_103, 5.463_784_911_164_114, 1.784_826_539_917_291_3, 2.965_605_718_285_048_7e-1,
         2.653_218_952_657_612_4e-2, 1.242_660_947_388_078_4e-3, 2.711_555_568_743_487_6e-5, 2.010_334_399_292_288_1e-7],
        [1.0, 5.998_322_065_558_88e-1, 1.369_298_809_227_358e-1, 1.487_536_129_085_061_5e-2,
         7.868_691_311_456_133e-4, 1.846_318_317_510_054_7e-5, 1.421_511_758_316_446e-7, 2.044_263_103_389_939_8e-15],
    );
    let rational = |(numerator, denominator): &([f64; 8], [f64; 8]), x: f64| {
        let horner =
            |coefficients: &[f64; 8]| coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c);
        horner(numerator) / horner(denominator)
    };
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        return q * rational(&CENTRE, 0.180_625 - q * q);
    }
    let r = sqrt(-ln(if q < 0.0 { p } else { 1.0 - p }));
    let magnitude = if r <= 5.0 {
        rational(&TAIL, r - 1.6)
    } else {
        rational(&FAR_TAIL, r - 5.0)
    };
    if q < 0.0 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, a function has other bits in single precision than the rounded ones of double
    /// precision.
    #[test]
    fn single_precision_is_double_precision_rounded() {
        assert_eq!(
            (exp(1.0f32), exp(1.0)),
            (std::f32::consts::E, libm::exp(1.0))
        );
        assert_eq!(
            (ln(2.0f32), ln(2.0)),
            (std::f32::consts::LN_2, libm::log(2.0))
        );
    }

    #[test]
    fn the_inverse_normal_matches_published_values() {
        // These values are from Wichura (1988), section "test data".
        for (p, expected) in [
            (0.25, -0.674_489_750_196_081_7),
            (0.001, -3.090_232_306_167_814),
            (1e-20, -9.262_340_089_798_408),
            (0.975, 1.959_963_984_540_054),
        ] {
            let value = inverse_normal_cdf(p);
            assert!(
                (value - expected).abs() < 1e-13 * expected.abs(),
                "{p}: {value} against {expected}"
            );
        }
    }
}
