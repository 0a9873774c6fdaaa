//! Computes functions of sixteen lanes of single precision, with the same bits on every machine.
//!
//! They are polynomials without fused multiply-add, so that every instruction set rounds alike.

/// Number of lanes of a kernel's partial sums, the same for any width of the machine's vectors.
pub const LANES: usize = 16;

/// One value per lane.
pub type Lanes = [f32; LANES];

/// Returns `exp(-|x|)` for every lane, with a relative error below 2e-7. It underflows to about
/// 1e-38, never to a denormal.
#[inline(always)]
pub fn exp_neg_abs(x: &Lanes) -> Lanes {
    // This is 1.5 * 2^23. Adding and subtracting it rounds to the nearest integer in single
    // precision.
    const ROUND: f32 = 12_582_912.0;
    // ln 2 is split so that n * LN2_HIGH is exact for |n| <= 127 (Cody and Waite 1980).
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    std::array::from_fn(|lane| {
        let t = -x[lane].abs();
        // A comparison is used and not `max`, which would turn a NaN into a number.
        let t = if t < -87.0 { -87.0 } else { t };
        let rounded = t * std::f32::consts::LOG2_E + ROUND;
        let n = rounded - ROUND;
        let r = t - n * LN2_HIGH - n * LN2_LOW;
        // Taylor coefficients suffice on |r| <= ln 2 / 2: the first term left out is r^8/8! < 6e-9.
        let r2 = r * r;
        let low = (1.0 + r) + r2 * (0.5 + r * (1.0 / 6.0));
        let high = (1.0 / 24.0 + r * (1.0 / 120.0)) + r2 * (1.0 / 720.0 + r * (1.0 / 5040.0));
        let polynomial = low + (r2 * r2) * high;
        // The low bits of `rounded` are n itself, in -126..=0, so the exponent field stays in the
        // normal range.
        let scale = f32::from_bits(
            rounded
                .to_bits()
                .wrapping_sub(ROUND.to_bits())
                .wrapping_add(127)
                << 23,
        );
        polynomial * scale
    })
}

/// Returns the logistic function of every lane, with an absolute error below 1e-7.
#[inline(always)]
pub fn sigmoid(x: &Lanes) -> Lanes {
    sigmoid_from(x, &exp_neg_abs(x))
}

/// Returns the logistic function, given `e = exp(-|x|)`.
#[inline(always)]
pub(crate) fn sigmoid_from(x: &Lanes, e: &Lanes) -> Lanes {
    std::array::from_fn(|lane| {
        let numerator = if x[lane] >= 0.0 { 1.0 } else { e[lane] };
        numerator / (1.0 + e[lane])
    })
}

/// Returns `ln(1 + exp(x))` of every lane, given `e = exp(-|x|)`, with an absolute error below 2e-7
/// where the result is below 1, and a relative error below 2e-7 above.
#[inline(always)]
pub(crate) fn softplus_from(x: &Lanes, e: &Lanes) -> Lanes {
    std::array::from_fn(|lane| {
        // ln(1 + e) = 2 artanh(s) with s = e / (2 + e) <= 1/3, whose series needs seven terms.
        let s = e[lane] / (2.0 + e[lane]);
        let s2 = s * s;
        let s4 = s2 * s2;
        let low = (1.0 + s2 * (1.0 / 3.0)) + s4 * (1.0 / 5.0 + s2 * (1.0 / 7.0));
        let high = (1.0 / 9.0 + s2 * (1.0 / 11.0)) + s4 * (1.0 / 13.0);
        x[lane].max(0.0) + 2.0 * s * (low + (s4 * s4) * high)
    })
}

/// Returns two to this power, which is between -126 and 127.
pub(crate) const fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((127 + exponent) as u32) << 23)
}

/// Returns `value`, or zero if its magnitude is below `least`. A NaN stays one.
///
/// Loops over what is left have no denormals, which many processors are slow with.
#[inline(always)]
pub(crate) fn without_tiny(value: f32, least: f32) -> f32 {
    if value.abs() < least { 0.0 } else { value }
}

/// Returns the slope of a loss, or zero if it is below 2^-90, as what is back-propagated from it would be
/// denormals. Along such a slope a step of Adam is less than 1e-19 of its rate times the input.
#[inline(always)]
pub fn felt_slope(slope: f32) -> f32 {
    without_tiny(slope, power_of_two(-90))
}

/// Returns `factor` times the derivative of the binary cross-entropy with respect to each logit z, and
/// adds the cross-entropy to `loss`. A sample with a count c and t positives among them has the loss c
/// ln(1 + exp(z)) - t z, whose derivative is c sigmoid(z) - t.
#[inline(always)]
pub(crate) fn cross_entropy(
    z: &Lanes,
    count: &Lanes,
    positives: &Lanes,
    factor: f32,
    loss: &mut Lanes,
) -> Lanes {
    let e = exp_neg_abs(z);
    let (p, softplus) = (sigmoid_from(z, &e), softplus_from(z, &e));
    let mut gradient = [0.0; LANES];
    for i in 0..LANES {
        loss[i] += count[i] * softplus[i] - positives[i] * z[i];
        gradient[i] = felt_slope((count[i] * p[i] - positives[i]) * factor);
    }
    gradient
}

/// Returns four partial sums of sixteen: lane i of the result is (x_i + x_i+4) + (x_i+8 + x_i+12).
#[inline(always)]
pub(crate) fn quad(x: &Lanes) -> [f32; 4] {
    std::array::from_fn(|i| (x[i] + x[i + 4]) + (x[i + 8] + x[i + 12]))
}

/// Returns the sum of sixteen partial sums, always in the same tree: [`quad`], then (0 + 2) + (1 +
/// 3).
#[inline(always)]
pub(crate) fn quad_sum(x: &Lanes) -> f32 {
    let [a, b, c, d] = quad(x);
    (a + c) + (b + d)
}

/// Returns sixteen sums from sixteen consecutive [`quad`]s, with the tree of [`quad_sum`] for each.
#[inline(always)]
pub(crate) fn quads_to_sums(quads: &[f32; 4 * LANES]) -> Lanes {
    let mut sums = [0.0; LANES];
    for (r, sum) in sums.iter_mut().enumerate() {
        *sum = (quads[4 * r] + quads[4 * r + 2]) + (quads[4 * r + 1] + quads[4 * r + 3]);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedrecsim_core::math::exp;

    fn lanes_from(start: f32, step: f32) -> Lanes {
        std::array::from_fn(|lane| start + step * lane as f32)
    }

    #[test]
    fn sigmoid_and_softplus_agree_with_double_precision() {
        for block in 0..400 {
            let x = lanes_from(-100.0 + block as f32 * 0.5, 0.031_25);
            let e = exp_neg_abs(&x);
            let (p, l) = (sigmoid(&x), softplus_from(&x, &e));
            for lane in 0..LANES {
                let z = f64::from(x[lane]);
                let reference = 1.0 / (1.0 + exp(-z));
                assert!(
                    (f64::from(p[lane]) - reference).abs() < 1e-7,
                    "sigmoid({z})"
                );
                let reference = z.max(0.0) + libm::log1p(exp(-z.abs()));
                assert!(
                    (f64::from(l[lane]) - reference).abs() < 2e-7 * reference.max(1.0),
                    "softplus({z})"
                );
            }
        }
    }

    /// If this fails, training takes many times as long once a model is sure of itself.
    #[test]
    fn slopes_are_no_denormals() {
        let (count, positives) = (&[1.0; LANES], &[0.0; LANES]);
        for block in 0..200 {
            let z = lanes_from(-100.0 + block as f32 * 0.5, 0.031_25);
            for slope in cross_entropy(&z, count, positives, 1.0 / 256.0, &mut [0.0; LANES]) {
                assert!(slope == 0.0 || slope >= 1e-30, "{slope}");
            }
        }
        assert!(felt_slope(f32::NAN).is_nan(), "divergence is seen");
        assert_eq!(felt_slope(-1e-26), -1e-26);
    }

    #[test]
    fn the_exponential_keeps_its_relative_error_down_to_where_it_stops() {
        // With sixteen and more values per binade of the reduced argument, a lost term of the
        // polynomial shows.
        for block in 0..8_700 {
            let x = lanes_from(block as f32 * 0.01, 0.000_625);
            for (x, e) in x.into_iter().zip(exp_neg_abs(&x)) {
                let reference = exp(-f64::from(x).min(87.0));
                assert!(
                    (f64::from(e) - reference).abs() < 2e-7 * reference,
                    "exp(-{x}) is {e}, not {reference}"
                );
            }
        }
        assert_eq!(exp_neg_abs(&[-3.5; LANES]), exp_neg_abs(&[3.5; LANES]));
        assert_eq!(
            exp_neg_abs(&[f32::INFINITY; LANES]),
            exp_neg_abs(&[87.0; LANES])
        );
        assert!(exp_neg_abs(&[87.0; LANES])[0].is_normal());
    }

    #[test]
    fn a_non_finite_logit_is_not_hidden() {
        // A diverged model must not come out as a probability.
        let p = sigmoid(&[f32::NAN; LANES]);
        let l = softplus_from(&[f32::NAN; LANES], &exp_neg_abs(&[f32::NAN; LANES]));
        assert!(p.iter().all(|v| v.is_nan()) || l.iter().all(|v| v.is_nan()));
    }

    #[test]
    fn lanes_are_summed_as_a_tree() {
        let x = lanes_from(1.0, 1.0);
        assert_eq!(quad_sum(&x), 136.0);
        // 2^24 + 1 rounds down in single precision, so only the stated order gives this sum.
        let mut x = [0.0; LANES];
        (x[0], x[1], x[2]) = (16_777_216.0, 1.0, 1.0);
        assert_eq!(quad_sum(&x), 16_777_216.0);
        (x[2], x[3]) = (0.0, 1.0);
        assert_eq!(quad_sum(&x), 16_777_218.0);
    }
}
