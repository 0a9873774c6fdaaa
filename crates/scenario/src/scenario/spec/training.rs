//! How a run trains: rounds, steps and participants.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::modes::{ClientSelection, Mode};
use fedrecsim_core::ids::{Round, Step};

/// Rounds and participation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrainingSpec {
    /// Rounds: after each of them there is a record, which may have an evaluation.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub rounds: u32,
    /// Steps of the server in a round. With more than one, what is said of rounds elsewhere in this
    /// table (participation, selection, mode) holds for steps.
    #[serde(default = "one_step", skip_serializing_if = "is_one_step")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub steps_per_round: u32,
    /// Who takes part in a round.
    #[serde(default)]
    pub participation: Participation,
    /// Whom the server picks.
    #[serde(default)]
    pub client_selection: ClientSelection,
    /// When the server averages, and what becomes of those who are late.
    #[serde(default)]
    pub mode: Mode,
    /// This many steps in a row without a single update end the run; in an asynchronous mode, this
    /// many times the larger of concurrency and buffer participations in a row that come to
    /// nothing. Where steps count, another limit than the default must not be above the number of
    /// steps of the run.
    #[serde(default = "default_empty_rounds")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub empty_rounds_limit: u32,
    /// Where nobody is available, the server waits for the first to be, but no longer than this;
    /// then the run ends.
    #[serde(default = "default_waiting_limit_s")]
    #[schemars(range(min = 1, max = 1e9))]
    pub waiting_limit_s: f64,
    /// A parameter whose magnitude passes this ends the run as diverged.
    #[serde(default = "default_divergence_limit")]
    #[schemars(range(max = 3e38), extend("exclusiveMinimum" = 0.0))]
    pub divergence_limit: f32,
}

fn one_step() -> u32 {
    1
}

/// Returns whether the number of steps is the default. It is taken by reference because serde
/// passes one.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_one_step(steps: &u32) -> bool {
    *steps == 1
}

fn default_empty_rounds() -> u32 {
    10
}

/// Returns a week in seconds, after which every weekly pattern has come round.
fn default_waiting_limit_s() -> f64 {
    604_800.0
}

impl TrainingSpec {
    /// Returns the spec of this many synchronous rounds with these participants, everything else by
    /// default.
    pub fn synchronous(rounds: u32, participation: Participation) -> Self {
        Self {
            rounds,
            steps_per_round: one_step(),
            participation,
            client_selection: ClientSelection::default(),
            mode: Mode::default(),
            empty_rounds_limit: default_empty_rounds(),
            waiting_limit_s: default_waiting_limit_s(),
            divergence_limit: default_divergence_limit(),
        }
    }
}

impl TrainingSpec {
    /// Returns the number of steps of the whole run. A checked scenario has fewer than 2^32.
    pub(crate) fn steps(&self) -> u32 {
        self.rounds.saturating_mul(self.steps_per_round)
    }

    /// Returns the steps of `round`.
    pub fn steps_of(&self, round: Round) -> Range<u32> {
        let first = round.0.saturating_mul(self.steps_per_round);
        first..first.saturating_add(self.steps_per_round)
    }

    /// Returns the round to which `step` belongs.
    pub fn round_of(&self, step: Step) -> Round {
        Round(step.0 / self.steps_per_round)
    }
}

fn default_divergence_limit() -> f32 {
    1e6
}

/// Who takes part in a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Participation {
    /// Every user.
    #[default]
    All,
    /// A share of the users, uniformly without replacement; rounded to the nearest count, at least
    /// one.
    Share(#[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))] f64),
    /// This many users, uniformly without replacement.
    Cohort(#[schemars(range(min = 1))] u32),
    /// Each user by itself with this probability, so that a round may have any number of
    /// participants, or none. It belongs to modes in which a round needs no certain number of them,
    /// and to uniform selection.
    Poisson(#[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))] f64),
}
