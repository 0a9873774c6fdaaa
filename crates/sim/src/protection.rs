//! Finds out what a run does to protect its users, and checks that it can.

use crate::privacy::SumNoise;
use fedrecsim_core::{Error, Result};
use fedrecsim_scenario::{Policy, Scenario, Trust};

/// Checks that delta is not too large for the number of users.
///
/// # Errors
/// [`Error::Usage`] if it is.
pub(super) fn check_delta(scenario: &Scenario, users: usize) -> Result<()> {
    // Data sets with 2^32 users or more are refused on reading.
    match scenario.privacy.too_large_delta(users as u32) {
        Some(message) => Err(Error::Usage(format!("privacy.gaussian.delta: {message}"))),
        None => Ok(()),
    }
}

/// Checks that noise can be added to a policy's sums, if that is asked for.
///
/// # Errors
/// [`Error::Usage`] if it does not.
pub(super) fn check_policy(scenario: &Scenario, policy: &Policy) -> Result<()> {
    if scenario.privacy.is_central() && !policy.has_cohorts() {
        let message = "noise on sums needs a cohort in which nobody is twice";
        return Err(Error::Usage(format!(
            "the policy `{}` has no cohorts: {message}",
            policy.name
        )));
    }
    Ok(())
}

/// Returns the noise that the server adds to sums, if it does.
pub(super) fn sum_noise(scenario: &Scenario, users: usize) -> Option<SumNoise> {
    let gaussian = scenario
        .privacy
        .gaussian
        .filter(|gaussian| gaussian.trust == Trust::Central)?;
    let expected = scenario
        .training
        .drawn_apart()
        .map(|probability| probability * users as f64);
    Some(SumNoise::new(gaussian, expected))
}
