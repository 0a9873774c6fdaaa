//! How the server runs its steps, as data: when it invites whom, when a step is due, and what late
//! updates count.
//!
//! A scenario names a [`Mode`](super::Mode); [`Policy::of`] is the one place that knows what each mode means.
//! Server, network and reports read the policy only, so a program may run one that no mode
//! describes ([`World::with_policy`](fedrecsim_sim::World::with_policy)).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::weights::{StepWeights, WeightTotals};
use crate::{choices, variants};
use fedrecsim_core::{SimDuration, math};

/// The server's rules for invitations and steps.
///
/// ```
/// use fedrecsim_scenario::{Invitations, LateUpdates, Policy, StalenessWeight, Stragglers, UpdateRule, UpdatesNeeded};
/// use fedrecsim_core::SimDuration;
///
/// // Twenty clients are always at work, and the server steps every minute with what has arrived.
/// let policy = Policy {
///     name: "every minute".into(),
///     invitations: Invitations::WheneverFree { concurrency: 20 },
///     updates_needed: UpdatesNeeded::NoNumber,
///     deadline: Some(SimDuration::from_secs_f64(60.0)),
///     late_updates: LateUpdates::Used { maximum_staleness: 5, weight: StalenessWeight::Polynomial(0.5) },
///     stragglers: Stragglers::Late,
///     update_rule: UpdateRule::DifferencesPerWeight,
/// };
/// assert_eq!(policy.check(), Ok(()));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// What reports call the policy.
    pub name: Cow<'static, str>,
    /// Whom the server invites when.
    pub invitations: Invitations,
    /// The number of usable updates at which a step is due, before anything else makes it due.
    pub updates_needed: UpdatesNeeded,
    /// The step is due this long after the invitation of its cohort, or, under
    /// [`Invitations::WheneverFree`], after its beginning; `None` is no deadline.
    #[serde(rename = "deadline_ns")]
    pub deadline: Option<SimDuration>,
    /// What an update counts that started from an earlier model than the one that it would change.
    pub late_updates: LateUpdates,
    /// The treatment of users who still take part when a step is made.
    pub stragglers: Stragglers,
    /// How updates change the shared model.
    pub update_rule: UpdateRule,
}

/// Whom the server invites when.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Invitations {
    /// A cohort at the beginning of each step, all at once. When all of it is done or lost, the
    /// step is due.
    AtOnce {
        /// Users invited for each one that `training.participation` asks for; rounded up, at most
        /// everybody.
        over_selection: f64,
    },
    /// Somebody whenever a place is free.
    WheneverFree {
        /// Users who take part at any time.
        concurrency: u32,
    },
}

/// The number of updates at which a step is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpdatesNeeded {
    /// No number makes a step due: its deadline does, or the end of its cohort.
    NoNumber,
    /// As many as `training.participation` asks for.
    Participants,
    /// This many.
    Number(u32),
}

/// What an update counts whose staleness is not 0: the number of steps that the server has made
/// since the model that the update started from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LateUpdates {
    /// Nothing.
    NotUsed,
    /// A weight.
    Used {
        /// A staler update counts nothing.
        maximum_staleness: u32,
        /// Weight by staleness.
        weight: StalenessWeight,
    },
}

choices! {
    /// The treatment of a participation that its round did not wait for.
    pub enum Stragglers {
        /// The server cancels it: its transfer stops, and unfinished training leaves no trace on the
        /// device.
        Cancelled,
        /// It goes on; what arrives is late and not used.
        Late,
    }
}

variants! {
    /// How much an update counts that started from a model s steps old (Xie et al. 2019, section
    /// 5.2).
    #[derive(Copy)]
    pub enum StalenessWeight {
        /// Always 1.
        Constant,
        /// (1 + s)^-a; a = 0.5 is FedBuff's 1 / sqrt(1 + s).
        Polynomial(#[schemars(range(min = 0, max = 10))] f64),
        /// 1 up to s = b, then 1 / (a (s - b) + 1).
        Hinge {
            /// Slope.
            #[schemars(range(min = 0, max = 1000))]
            a: f64,
            /// The largest staleness that has the full weight.
            #[schemars(range(max = 1_000_000))]
            b: u32,
        },
    }
}

/// How updates change the shared model. In formulas, g is the shared model, x the model that a
/// client made of the received model b, w(s) the weight of an update of staleness s, and n the
/// number of updates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpdateRule {
    /// The mean of x (FedAvg).
    Mean,
    /// g + sum of w(s) (x - b) / sum of w(s).
    DifferencesPerWeight,
    /// g + rate x sum of w(s) (x - b) / n (Nguyen et al. 2022, algorithm 1).
    DifferencesPerUpdate {
        /// The server's learning rate.
        server_rate: f64,
    },
    /// (1 - a) g + a x with a = share x w(s), for steps of one update (Xie et al. 2019, algorithm
    /// 1).
    Mixed {
        /// Share of a fresh update.
        share: f64,
    },
}

impl Policy {
    /// Checks that every step can come to its end and that the parts fit together. What
    /// [`Self::of`] returns for a checked scenario always passes.
    ///
    /// # Errors
    /// Returns what is wrong, as a sentence without a full stop.
    pub fn check(&self) -> Result<(), String> {
        let refuse = |message: &str| Err(message.to_owned());
        match self.invitations {
            Invitations::AtOnce { over_selection }
                if !(over_selection >= 1.0 && over_selection.is_finite()) =>
            {
                return Err(format!(
                    "a cohort cannot be {over_selection} times the users who are needed"
                ));
            }
            Invitations::WheneverFree { concurrency: 0 } => {
                return refuse("nobody is ever invited");
            }
            Invitations::WheneverFree { .. }
                if self.updates_needed == UpdatesNeeded::NoNumber && self.deadline.is_none() =>
            {
                return refuse("a step without a deadline and a number of updates is never due");
            }
            _ => {}
        }
        if self.updates_needed == UpdatesNeeded::Number(0) {
            return refuse("a step of 0 updates is no step");
        }
        match self.update_rule {
            UpdateRule::Mixed { .. } if self.updates_needed != UpdatesNeeded::Number(1) => {
                refuse("each update is mixed in by a step of its own, so a step needs 1 update")
            }
            UpdateRule::Mixed { share: factor }
            | UpdateRule::DifferencesPerUpdate {
                server_rate: factor,
            } if !(factor > 0.0 && factor.is_finite()) => Err(format!(
                "the updates' factor {factor} is not a positive number"
            )),
            _ => Ok(()),
        }
    }

    /// Returns whether cohorts are invited, so that `training.participation` says how large they
    /// are.
    pub fn has_cohorts(&self) -> bool {
        matches!(self.invitations, Invitations::AtOnce { .. })
    }

    /// Returns whether a step waits for everybody who was invited to it, so that nobody is still at
    /// work at its end.
    pub fn waits_for_everybody(&self) -> bool {
        let cohorts = self.invitations
            == Invitations::AtOnce {
                over_selection: 1.0,
            };
        cohorts && self.updates_needed == UpdatesNeeded::NoNumber && self.deadline.is_none()
    }

    /// Returns how many users are invited to a step at once if `needed` of `users` users are asked
    /// for; 0 without cohorts.
    pub fn invited(&self, needed: u32, users: u32) -> u32 {
        match self.invitations {
            Invitations::AtOnce { over_selection } => {
                ((over_selection * f64::from(needed)).ceil() as u32).min(users)
            }
            Invitations::WheneverFree { .. } => 0,
        }
    }

    /// Returns the number of usable updates at which a step is due if `participants` are asked for;
    /// `None` if no number makes it due.
    pub fn updates(&self, participants: u32) -> Option<u32> {
        match self.updates_needed {
            UpdatesNeeded::NoNumber => None,
            UpdatesNeeded::Participants => Some(participants),
            UpdatesNeeded::Number(number) => Some(number),
        }
    }

    /// Returns the staleness beyond which an update counts nothing.
    pub(super) fn maximum_staleness(&self) -> u32 {
        match self.late_updates {
            LateUpdates::NotUsed => 0,
            LateUpdates::Used {
                maximum_staleness, ..
            } => maximum_staleness,
        }
    }

    /// Returns the weight that the model x of an update of this staleness has in the step.
    pub fn weight(&self, staleness: u32) -> f64 {
        let weight = match self.late_updates {
            LateUpdates::NotUsed => 1.0,
            LateUpdates::Used { weight, .. } => weight.at(staleness),
        };
        match self.update_rule {
            UpdateRule::Mean => 1.0,
            UpdateRule::DifferencesPerWeight => weight,
            UpdateRule::DifferencesPerUpdate { server_rate } => server_rate * weight,
            UpdateRule::Mixed { share } => share * weight,
        }
    }

    /// Returns the weight of b, the model that an update of this staleness started from, which is
    /// subtracted. It is 0 for a fresh update: its b is g, which [`Self::step_weights`] has
    /// counted.
    pub fn base_weight(&self, staleness: u32) -> f64 {
        match self.update_rule {
            UpdateRule::DifferencesPerWeight | UpdateRule::DifferencesPerUpdate { .. }
                if staleness > 0 =>
            {
                self.weight(staleness)
            }
            _ => 0.0,
        }
    }

    /// Returns what a step keeps of the model and divides by, for updates whose weights add up to
    /// `totals`.
    pub fn step_weights(&self, totals: &WeightTotals) -> StepWeights {
        let WeightTotals {
            updates,
            weights,
            fresh_weights,
            stale_weights,
        } = *totals;
        let (kept, divisor) = match self.update_rule {
            UpdateRule::Mean => (0.0, weights),
            UpdateRule::DifferencesPerWeight => (stale_weights, weights),
            UpdateRule::DifferencesPerUpdate { .. } => (updates - fresh_weights, updates),
            UpdateRule::Mixed { .. } => (1.0 - weights, 1.0),
        };
        StepWeights { kept, divisor }
    }
}

impl StalenessWeight {
    /// The weight that scenarios have by default, which is that of FedBuff.
    pub(super) const FEDBUFF: Self = Self::Polynomial(0.5);

    /// Returns w(s), the weight of an update of this staleness.
    fn at(self, staleness: u32) -> f64 {
        match self {
            Self::Constant => 1.0,
            // A fresh update has its whole weight exactly, as ln 1 is 0 and exp 0 is 1.
            Self::Polynomial(exponent) => {
                math::exp(-exponent * math::ln(1.0 + f64::from(staleness)))
            }
            Self::Hinge { b, .. } if staleness <= b => 1.0,
            Self::Hinge { a, b } => 1.0 / (a * f64::from(staleness - b) + 1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, OverSelectionSpec};

    fn fedasync() -> Policy {
        let staleness_weight = StalenessWeight::Polynomial(0.5);
        Policy::of(&Mode::FedAsync {
            concurrency: 3,
            mixing: 0.6,
            staleness_weight,
            maximum_staleness: 5,
        })
    }

    /// If this fails, a policy that a program made runs forever or computes a model that nobody
    /// asked for.
    #[test]
    fn policies_whose_steps_have_no_end_or_no_meaning_are_refused() {
        assert_eq!(fedasync().check(), Ok(()));
        let factor = |over_selection| Policy {
            invitations: Invitations::AtOnce { over_selection },
            ..Policy::of(&Mode::Synchronous)
        };
        let rate = |server_rate| Policy {
            update_rule: UpdateRule::DifferencesPerUpdate { server_rate },
            ..fedasync()
        };
        for (policy, reason) in [
            (
                Policy {
                    invitations: Invitations::WheneverFree { concurrency: 0 },
                    ..fedasync()
                },
                "nobody is ever",
            ),
            (
                Policy {
                    updates_needed: UpdatesNeeded::NoNumber,
                    update_rule: UpdateRule::Mean,
                    ..fedasync()
                },
                "never due",
            ),
            (
                Policy {
                    updates_needed: UpdatesNeeded::Number(0),
                    ..fedasync()
                },
                "no step",
            ),
            (
                Policy {
                    updates_needed: UpdatesNeeded::Number(2),
                    ..fedasync()
                },
                "needs 1 update",
            ),
            (factor(0.5), "0.5 times"),
            (factor(f64::NAN), "NaN times"),
            (rate(0.0), "positive"),
            (rate(f64::INFINITY), "positive"),
        ] {
            assert!(
                policy
                    .check()
                    .is_err_and(|message| message.contains(reason)),
                "{policy:?}"
            );
        }
    }

    #[test]
    fn only_a_step_that_nobody_outlives_waits_for_everybody() {
        let over_selection = OverSelectionSpec {
            factor: 1.0,
            deadline_s: Some(9.0),
            ..OverSelectionSpec::default()
        };
        assert!(Policy::of(&Mode::Synchronous).waits_for_everybody());
        assert!(!Policy::of(&Mode::OverSelection(over_selection)).waits_for_everybody());
        assert!(!fedasync().waits_for_everybody());
    }

    #[test]
    fn more_are_invited_than_are_needed_but_never_more_than_there_are() {
        let policy = Policy::of(&Mode::OverSelection(OverSelectionSpec {
            factor: 1.6,
            ..OverSelectionSpec::default()
        }));
        assert_eq!((policy.invited(4, 100), policy.invited(4, 5)), (7, 5));
        assert_eq!(
            (policy.updates(4), Policy::of(&Mode::Synchronous).updates(4)),
            (Some(4), None)
        );
        assert_eq!(
            (fedasync().invited(4, 100), fedasync().updates(4)),
            (0, Some(1))
        );
    }
}
