//! Holds what methods share that learn from pairs of a positive and a negative of the same user.
//!
//! Source: Rendle et al., BPR: Bayesian Personalized Ranking from Implicit Feedback, UAI 2009.

use super::central::UserRatings;
use super::protocol::Protocol;
use super::samples::draw_shuffled;
use super::server::{StepContext, StepReport};
use fedrecsim_core::error::Result;
use fedrecsim_core::math::{exp, ln};

/// Is a user with one of its positives and a negative for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Triple {
    /// The user.
    pub user: u32,
    /// The positive.
    pub positive: u32,
    /// The negative.
    pub negative: u32,
}

/// Draws the triples of a pass in random order: every positive stands with each of its negatives
/// once. `name` is that of the method, which names the streams.
///
/// # Errors
/// Those of [`Protocol::draw_negatives`].
pub(super) fn draw(
    protocol: &Protocol,
    data: (&[UserRatings], usize),
    step: &StepContext<'_>,
    name: &str,
) -> Result<Vec<Triple>> {
    draw_shuffled(
        protocol,
        data,
        (step, name),
        |triples, user, positive, negatives| {
            triples.extend(negatives.iter().map(|&negative| Triple {
                user,
                positive,
                negative,
            }));
        },
    )
}

/// Returns the report of a pass over `triples`, whose losses add up to `loss`. Three rows are
/// visited for each of them.
pub(super) fn report(triples: &[Triple], loss: f64) -> StepReport {
    let loss = (!triples.is_empty()).then(|| loss / triples.len() as f64);
    StepReport {
        row_visits: 3 * triples.len() as u64,
        loss,
        ..StepReport::default()
    }
}

/// Returns the loss -ln sigmoid(d) of the difference d between the scores of a positive and a
/// negative, and its slope.
pub(super) fn loss_and_slope(difference: f32) -> (f64, f32) {
    let d = f64::from(difference);
    let e = exp(-d.abs());
    let slope = if d >= 0.0 {
        -e / (1.0 + e)
    } else {
        -1.0 / (1.0 + e)
    };
    // A difference that is not a number stays one in both.
    let loss = ln(1.0 + e) + if d < 0.0 { -d } else { 0.0 };
    (loss, slope as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedrecsim_core::math::gradient::gradient_check_within;

    /// If this fails, pairs are weighted by another slope than that of their loss, or a divergence
    /// goes unnoticed.
    #[test]
    fn the_slope_is_that_of_the_loss() {
        for d in [-40.0, -3.0, -0.25, 0.0, 0.5, 2.0, 30.0f32] {
            let (loss, slope) = loss_and_slope(d);
            let by_definition = |at: &[f64]| libm::log1p(libm::exp(-at[0]));
            assert!((loss - by_definition(&[f64::from(d)])).abs() < 1e-9, "{d}");
            gradient_check_within(1e-4, &[f64::from(d)], &[f64::from(slope)], by_definition)
                .unwrap_or_else(|wrong| panic!("{d}: {wrong}"));
        }
        let (loss, slope) = loss_and_slope(f32::NAN);
        assert!(loss.is_nan() && slope.is_nan());
        assert_eq!(loss_and_slope(f32::NEG_INFINITY), (f64::INFINITY, -1.0));
    }
}
