//! Compares gradients with central differences.
//!
//! To check a hand-derived gradient, state the loss once more, in double precision and as plainly
//! as possible.

/// Returns the gradient of `loss` at `parameters` by central differences, for a loss that is smooth
/// there.
///
/// A parameter x is moved by a millionth of max(1, |x|) to either side.
pub fn numeric_gradient(parameters: &[f64], mut loss: impl FnMut(&[f64]) -> f64) -> Vec<f64> {
    let mut at = parameters.to_vec();
    let mut gradient = Vec::with_capacity(at.len());
    for (coordinate, &parameter) in parameters.iter().enumerate() {
        let step = 1e-6 * parameter.abs().max(1.0);
        let (above, below) = (parameter + step, parameter - step);
        at[coordinate] = above;
        let loss_above = loss(&at);
        at[coordinate] = below;
        let loss_below = loss(&at);
        at[coordinate] = parameter;
        // Divides by the distance of the rounded numbers that were really used.
        gradient.push((loss_above - loss_below) / (above - below));
    }
    gradient
}

/// Compares `gradient`, which an author has derived, with the gradient of `loss` at `parameters` by
/// central differences. Returns the coordinate where the two differ most.
///
/// A difference is relative to the larger of the two derivatives, or to a hundredth of the largest
/// derivative if both are smaller. A correct gradient of single precision keeps a tolerance of
/// 1e-3.
///
/// # Errors
/// [`WrongGradient::OtherLength`] if `gradient` has another length than `parameters`, and
/// [`WrongGradient::Differs`], with the worst coordinate, if the gradient is wrong or has a value
/// that is not finite.
pub fn gradient_check(
    tolerance: f64,
    parameters: &[f64],
    gradient: &[f64],
    loss: impl FnMut(&[f64]) -> f64,
) -> Result<Coordinate, WrongGradient> {
    if gradient.len() != parameters.len() {
        return Err(WrongGradient::OtherLength {
            parameters: parameters.len(),
            gradient: gradient.len(),
        });
    }
    let numeric = numeric_gradient(parameters, loss);
    let largest = numeric
        .iter()
        .fold(0.0, |largest: f64, value| largest.max(value.abs()));
    let mut worst = Coordinate::default();
    for (number, (&analytic, &numeric)) in gradient.iter().zip(&numeric).enumerate() {
        let size = analytic.abs().max(numeric.abs()).max(largest / 100.0);
        let difference = (analytic - numeric).abs();
        // If both are zero, the quotient would be NaN. If one is not finite, the error exceeds any
        // tolerance.
        let error = match difference {
            0.0 => 0.0,
            difference if difference.is_finite() => difference / size,
            _ => f64::INFINITY,
        };
        if error > worst.relative_error || number == 0 {
            worst = Coordinate {
                number,
                analytic,
                numeric,
                relative_error: error,
            };
        }
    }
    if worst.relative_error <= tolerance {
        Ok(worst)
    } else {
        Err(WrongGradient::Differs { worst, tolerance })
    }
}

/// One coordinate of two gradients that were compared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Coordinate {
    /// The number of the coordinate, from 0.
    pub number: usize,
    /// The derivative that was given.
    pub analytic: f64,
    /// The derivative by central differences.
    pub numeric: f64,
    /// The difference of the two as a share, as [`gradient_check`] describes it.
    pub relative_error: f64,
}

/// Says why a gradient is wrong.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WrongGradient {
    /// There is not one derivative for each parameter.
    #[error("the gradient has {gradient} coordinates for {parameters} parameters")]
    OtherLength {
        /// The number of parameters.
        parameters: usize,
        /// The number of coordinates.
        gradient: usize,
    },
    /// The gradient is not that of the loss.
    #[error(
        "the gradient is wrong: coordinate {} is {:e}, and central differences give {:e} (relative error {:.1e}), where {tolerance:.0e} is allowed; this is the worst coordinate",
        worst.number, worst.analytic, worst.numeric, worst.relative_error
    )]
    Differs {
        /// The worst coordinate.
        worst: Coordinate,
        /// The largest relative error that was allowed.
        tolerance: f64,
    },
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Returns x^2 y + exp(z) and its gradient.
    fn loss(at: &[f64]) -> f64 {
        at[0] * at[0] * at[1] + libm::exp(at[2])
    }

    fn gradient(at: &[f64]) -> Vec<f64> {
        vec![2.0 * at[0] * at[1], at[0] * at[0], libm::exp(at[2])]
    }

    const AT: [f64; 3] = [1.5, -0.25, 0.75];

    #[test]
    fn the_gradient_of_a_loss_passes_in_double_and_in_single_precision() {
        let exact = gradient(&AT);
        assert!(gradient_check(1e-8, &AT, &exact, loss).is_ok());
        let single: Vec<f64> = exact.iter().map(|value| f64::from(*value as f32)).collect();
        assert!(
            gradient_check(1e-3, &AT, &single, loss)
                .unwrap()
                .relative_error
                < 1e-6
        );
        assert!(gradient_check(1e-3, &[], &[], loss_of_nothing).is_ok());
        assert!(
            gradient_check(1e-3, &[3.0], &[0.0], |_| 7.0).is_ok(),
            "a loss that is constant has the gradient zero"
        );
    }

    fn loss_of_nothing(_at: &[f64]) -> f64 {
        0.0
    }

    /// If this fails, an author is not told where to look.
    #[test]
    fn a_wrong_gradient_is_named_by_its_worst_coordinate() {
        let mut wrong = gradient(&AT);
        wrong[1] *= 1.01;
        wrong[0] = -wrong[0];
        let error = gradient_check(1e-3, &AT, &wrong, loss).unwrap_err();
        let WrongGradient::Differs { worst, .. } = error else {
            panic!("{error}")
        };
        assert_eq!((worst.number, worst.analytic), (0, 0.75));
        assert!((worst.numeric + 0.75).abs() < 1e-8 && (worst.relative_error - 2.0).abs() < 1e-6);
        let message = error.to_string();
        assert!(
            message.contains("coordinate 0 is 7.5e-1, and central differences give -7."),
            "{message}"
        );
    }

    #[test]
    fn a_gradient_that_is_not_finite_or_too_short_is_wrong() {
        for value in [f64::NAN, f64::INFINITY] {
            let wrong = [gradient(&AT)[0], value, gradient(&AT)[2]];
            let found = gradient_check(1e-3, &AT, &wrong, loss);
            assert!(
                matches!(found, Err(WrongGradient::Differs { worst, .. }) if worst.number == 1),
                "{found:?}"
            );
        }
        let message = gradient_check(1e-3, &AT, &[0.0], loss)
            .unwrap_err()
            .to_string();
        assert_eq!(message, "the gradient has 1 coordinates for 3 parameters");
    }
}
