//! Finds out what a run does to protect its users, and what may be claimed of it.

use crate::privacy::{Circumstances, PrivacyClaim, Sampling, SumNoise};
use fedrecsim_core::{Error, Result};
use fedrecsim_data::population::Population;
use fedrecsim_methods::OwnNoise;
use fedrecsim_model::{BlockKind, Layout, ValueType};
use fedrecsim_scenario::{ClientSelection, Participants, Policy, Scenario, Trust};

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

/// Checks that a policy makes sums to which noise can be added, if that is asked for.
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

/// Returns what may be claimed of a run under `policy`, with uploads of these layouts; `None` if
/// nothing is done to protect them. What `[privacy]` does goes before what the method does by
/// itself.
pub(super) fn claim<'a>(
    scenario: &Scenario,
    policy: &Policy,
    uploads: impl Iterator<Item = &'a Layout> + Clone,
    (has_third_party, own_noise): (bool, Option<OwnNoise>),
    (population, users, excluded): (&Population, usize, usize),
) -> Option<PrivacyClaim> {
    let is_any = |is_so: &dyn Fn(&Layout) -> bool| uploads.clone().any(is_so);
    let lists_rows = is_any(&|layout| {
        let tables = layout
            .blocks()
            .iter()
            .filter(|block| block.kind == BlockKind::ItemTable);
        tables
            .into_iter()
            .any(|block| scenario.codec.lists_touched_rows_of(&block.name))
    });
    let selection = scenario.training.client_selection;
    let everybody_can =
        excluded == 0 && population.availability.is_always() && population.faults.is_empty();
    let is_uniform =
        selection == ClientSelection::Uniform && policy.waits_for_everybody() && everybody_can;
    let sampling = match scenario.training.participation {
        Participants::Poisson(probability) if is_uniform => Sampling::Poisson(probability),
        Participants::Share(_) | Participants::Cohort(_) if is_uniform => {
            Sampling::FixedCohort(f64::from(scenario.training.needed(users as u32)) / users as f64)
        }
        _ => Sampling::Known,
    };
    let circumstances = Circumstances {
        lists_rows,
        has_weights: is_any(&|layout| layout.weighted || layout.reports_utility),
        has_other_values: is_any(&|layout| {
            layout
                .blocks()
                .iter()
                .any(|block| block.value_type != ValueType::F32)
        }),
        has_third_party,
        selects_by_data: matches!(
            selection,
            ClientSelection::ByDataSize | ClientSelection::Oort(_)
        ),
        sampling,
    };
    let of_method =
        || own_noise.map(|noise| PrivacyClaim::of_own_noise(noise, users, &circumstances));
    PrivacyClaim::of(&scenario.privacy, &circumstances).or_else(of_method)
}
