//! States what a run may claim of its users' privacy: an epsilon with everything that it depends
//! on, or why there is none.

use serde::{Deserialize, Serialize};

use super::accountant::Curve;
use fedrecsim_methods::OwnNoise;
use fedrecsim_scenario::{Adjacency, PrivacySpec, Trust, USUAL_DELTA};

/// Says how the users of a step are found, as far as that protects them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sampling {
    /// Each user takes part by itself with this probability, which nobody learns (Mironov, Talwar
    /// and Zhang, 2019).
    Poisson(f64),
    /// This share of the users takes part, drawn without replacement, and nobody learns who (Wang,
    /// Balle and Kasiviswanathan, 2019).
    FixedCohort(f64),
    /// It is taken to be known who takes part, so that nothing is amplified and the user who took
    /// part most often is counted.
    Known,
}

/// Says why no epsilon is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoEpsilon {
    /// Nothing is clipped.
    NothingIsClipped,
    /// There is no noise.
    NoNoise,
    /// Uploads list rows.
    RowsTell,
    /// Virtual items hide rows from sight only.
    VirtualItems,
    /// Uploads carry a weight.
    Weights,
    /// Uploads carry values that are no floating-point numbers.
    OtherValues,
    /// Clients ask a third party.
    ThirdParty,
    /// The server picks users by their data.
    SelectionByData,
    /// Devices make more or fewer steps by their data.
    StepsByData,
    /// The noise falls with the learning rate.
    FallsByRound,
}

impl NoEpsilon {
    /// Returns the reason as a sentence without a full stop.
    pub fn words(self) -> &'static str {
        match self {
            Self::NothingIsClipped => {
                "nothing is clipped, so that one user can change an upload without limit"
            }
            Self::NoNoise => "there is no noise",
            Self::RowsTell => "which rows arrive depends on the data",
            Self::VirtualItems => {
                "virtual items hide which rows are rated from sight, and not from inference"
            }
            Self::Weights => "a weight by a user's data travels with each upload as it is",
            Self::OtherValues => {
                "some values that are uploaded are no floating-point numbers, and have no noise"
            }
            Self::ThirdParty => "what clients tell the third party has no noise",
            Self::SelectionByData => "whom the server picks depends on users' data",
            Self::StepsByData => {
                "how many steps a device makes, each with its share of noise, depends on its data"
            }
            Self::FallsByRound => {
                "the noise falls from round to round, and rounds are counted alike"
            }
        }
    }
}

/// Holds what is claimed after a part of a run, with everything that it depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PrivacyRecord {
    /// The epsilon; absent if none is claimed.
    pub epsilon: Option<f64>,
    /// The delta of it; absent where there is no Gaussian noise, as are the three that follow.
    pub delta: Option<f64>,
    /// Which data sets are hard to tell apart: a user is a unit with all its ratings.
    pub adjacency: Option<Adjacency>,
    /// Whom the users trust, and so who adds the noise; absent without Gaussian noise.
    pub trust: Option<Trust>,
    /// How participants are found, as far as that counts.
    pub sampling: Option<Sampling>,
    /// How often noisy sums or uploads are counted: all steps where participants are sampled, else
    /// the participations of the user with the most.
    pub times: u32,
    /// Why no epsilon is claimed; absent if one is.
    pub no_epsilon: Option<NoEpsilon>,
}

/// Describes a run as far as its claim depends on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Circumstances {
    /// Whether some upload lists the rows that training touched.
    pub lists_rows: bool,
    /// Whether uploads carry a weight.
    pub has_weights: bool,
    /// Whether uploads carry values that are no floating-point numbers.
    pub has_other_values: bool,
    /// Whether clients ask a third party.
    pub has_third_party: bool,
    /// Whether the server picks users by their data.
    pub selects_by_data: bool,
    /// How participants are found. Anything but [`Sampling::Known`] says that all users can take
    /// part at any time, and that nobody is left out for any reason that depends on data.
    pub sampling: Sampling,
}

/// Counts what users have given away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// The number of steps.
    pub steps: u32,
    /// The number of invitations of the user who has had the most.
    pub most_invitations: u32,
}

/// States what a run may claim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PrivacyClaim {
    /// The record before the first step.
    start: PrivacyRecord,
    /// The curve of what is counted; `None` if no epsilon is claimed.
    curve: Option<Curve>,
}

impl PrivacyClaim {
    /// Returns the claim of a run; `None` if nothing is done to protect uploads.
    pub(crate) fn of(spec: &PrivacySpec, circumstances: &Circumstances) -> Option<Self> {
        if *spec == PrivacySpec::default() {
            return None;
        }
        let Some(gaussian) = spec.gaussian else {
            let none = match spec.laplace {
                Some(_) => NoEpsilon::NothingIsClipped,
                None => NoEpsilon::VirtualItems,
            };
            let start = PrivacyRecord {
                no_epsilon: Some(none),
                ..PrivacyRecord::default()
            };
            return Some(Self { start, curve: None });
        };
        let sampling = amplification(gaussian.trust, gaussian.adjacency, circumstances.sampling);
        let start = PrivacyRecord {
            delta: Some(gaussian.delta),
            adjacency: Some(gaussian.adjacency),
            trust: Some(gaussian.trust),
            sampling: Some(sampling),
            no_epsilon: match gaussian.noise_multiplier {
                0.0 => Some(NoEpsilon::NoNoise),
                _ => reason(spec, gaussian.trust, circumstances),
            },
            ..PrivacyRecord::default()
        };
        let multiplier = gaussian.noise_multiplier / gaussian.adjacency.sensitivity();
        let curve = start.no_epsilon.is_none().then(|| match sampling {
            Sampling::Poisson(share) => Curve::of_poisson_sample(share, multiplier),
            Sampling::FixedCohort(share) => Curve::of_fixed_cohort(share, multiplier),
            Sampling::Known => Curve::gaussian(multiplier),
        });
        Some(Self { start, curve })
    }

    /// Returns the claim of a run without `[privacy]` whose method has devices add `noise` to every
    /// row. The delta is the usual one, unless one over the number of users is less.
    pub(crate) fn of_own_noise(
        noise: OwnNoise,
        users: usize,
        circumstances: &Circumstances,
    ) -> Self {
        let circumstances = Circumstances {
            lists_rows: false,
            ..*circumstances
        };
        let no_epsilon = match noise {
            OwnNoise::Gaussian(_) => reason(&PrivacySpec::default(), Trust::Local, &circumstances),
            OwnNoise::Absent => Some(NoEpsilon::NoNoise),
            OwnNoise::StepsByData => Some(NoEpsilon::StepsByData),
            OwnNoise::FallsByRound => Some(NoEpsilon::FallsByRound),
        };
        let start = PrivacyRecord {
            delta: Some(USUAL_DELTA.min(1.0 / users.max(1) as f64)),
            adjacency: Some(Adjacency::Replace),
            trust: Some(Trust::Local),
            sampling: Some(Sampling::Known),
            no_epsilon,
            ..PrivacyRecord::default()
        };
        let curve = match (noise, no_epsilon) {
            (OwnNoise::Gaussian(multiplier), None) => Some(Curve::gaussian(multiplier)),
            _ => None,
        };
        Self { start, curve }
    }

    /// Returns what is claimed after so much.
    pub(crate) fn after(&self, spent: Spent) -> PrivacyRecord {
        let times = match self.start.sampling {
            Some(Sampling::Poisson(_) | Sampling::FixedCohort(_)) => spent.steps,
            Some(Sampling::Known) | None => spent.most_invitations,
        };
        let of_curve = |curve: &Curve| curve.epsilon(times, self.start.delta.unwrap_or(0.0));
        let epsilon = self
            .curve
            .as_ref()
            .map(of_curve)
            .filter(|epsilon| epsilon.is_finite());
        // Noise that vanishes beside the sensitivity leaves no finite epsilon.
        let no_epsilon = self
            .start
            .no_epsilon
            .or(epsilon.is_none().then_some(NoEpsilon::NoNoise));
        PrivacyRecord {
            epsilon,
            times,
            no_epsilon,
            ..self.start
        }
    }
}

/// Returns why no epsilon is claimed of Gaussian noise, if none is.
fn reason(spec: &PrivacySpec, trust: Trust, circumstances: &Circumstances) -> Option<NoEpsilon> {
    let run = circumstances;
    let reasons = [
        (spec.virtual_items.is_some(), NoEpsilon::VirtualItems),
        // A trusted server may see rows. Its sums have noise in all of them.
        (run.lists_rows && trust == Trust::Local, NoEpsilon::RowsTell),
        (run.has_weights, NoEpsilon::Weights),
        (run.has_other_values, NoEpsilon::OtherValues),
        (run.has_third_party, NoEpsilon::ThirdParty),
        (run.selects_by_data, NoEpsilon::SelectionByData),
    ];
    reasons
        .into_iter()
        .find(|(is_so, _)| *is_so)
        .map(|(_, reason)| reason)
}

/// Returns how the sampling of participants counts. It protects nobody from a server that sees who
/// sends. A bound is known for Poisson sampling where a user is added or removed, and for cohorts
/// of a fixed size where a user is replaced.
fn amplification(trust: Trust, adjacency: Adjacency, sampling: Sampling) -> Sampling {
    match (trust, adjacency, sampling) {
        (Trust::Central, Adjacency::AddOrRemove, Sampling::Poisson(_))
        | (Trust::Central, Adjacency::Replace, Sampling::FixedCohort(_)) => sampling,
        _ => Sampling::Known,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fedrecsim_scenario::{GaussianSpec, LaplaceSpec, VirtualItemsSpec};

    const WHOLE: Circumstances = Circumstances {
        lists_rows: false,
        has_weights: false,
        has_other_values: false,
        has_third_party: false,
        selects_by_data: false,
        sampling: Sampling::Known,
    };
    const SPENT: Spent = Spent {
        steps: 40,
        most_invitations: 9,
    };

    fn gaussian(trust: Trust, adjacency: Adjacency) -> PrivacySpec {
        let gaussian = GaussianSpec {
            clip: 0.3,
            noise_multiplier: 2.0,
            trust,
            adjacency,
            delta: 1e-6,
        };
        PrivacySpec {
            gaussian: Some(gaussian),
            ..PrivacySpec::default()
        }
    }

    fn claimed(spec: PrivacySpec, circumstances: Circumstances) -> PrivacyRecord {
        PrivacyClaim::of(&spec, &circumstances)
            .unwrap()
            .after(SPENT)
    }

    /// If this fails, an epsilon is claimed for what does not have one, or the reason is not told.
    #[test]
    fn what_noise_does_not_cover_has_no_epsilon() {
        let local = gaussian(Trust::Local, Adjacency::AddOrRemove);
        let central = gaussian(Trust::Central, Adjacency::AddOrRemove);
        assert_eq!(claimed(local, WHOLE).no_epsilon, None);
        let silent = PrivacySpec {
            gaussian: central.gaussian.map(|gaussian| GaussianSpec {
                noise_multiplier: 0.0,
                ..gaussian
            }),
            ..central
        };
        let hidden = PrivacySpec {
            virtual_items: Some(VirtualItemsSpec {
                per_rated_item: 1.0,
            }),
            ..local
        };
        let laplace = PrivacySpec {
            laplace: Some(LaplaceSpec { scale: 1.0 }),
            ..PrivacySpec::default()
        };
        for (spec, circumstances, expected) in [
            (silent, WHOLE, NoEpsilon::NoNoise),
            (hidden, WHOLE, NoEpsilon::VirtualItems),
            (laplace, WHOLE, NoEpsilon::NothingIsClipped),
            (
                local,
                Circumstances {
                    lists_rows: true,
                    ..WHOLE
                },
                NoEpsilon::RowsTell,
            ),
            (
                local,
                Circumstances {
                    has_weights: true,
                    ..WHOLE
                },
                NoEpsilon::Weights,
            ),
            (
                local,
                Circumstances {
                    has_other_values: true,
                    ..WHOLE
                },
                NoEpsilon::OtherValues,
            ),
            (
                central,
                Circumstances {
                    has_third_party: true,
                    ..WHOLE
                },
                NoEpsilon::ThirdParty,
            ),
            (
                central,
                Circumstances {
                    selects_by_data: true,
                    ..WHOLE
                },
                NoEpsilon::SelectionByData,
            ),
        ] {
            let record = claimed(spec, circumstances);
            assert_eq!((record.epsilon, record.no_epsilon), (None, Some(expected)));
        }
        let rows = claimed(
            central,
            Circumstances {
                lists_rows: true,
                ..WHOLE
            },
        );
        assert!(rows.epsilon.is_some(), "a trusted server may see rows");
        assert_eq!(PrivacyClaim::of(&PrivacySpec::default(), &WHOLE), None);
    }

    /// If this fails, what a method's devices add by themselves is taken for more than it is, or
    /// the delta allows to publish all that somebody has.
    #[test]
    fn noise_of_the_method_itself_is_counted_by_participations_or_says_why_not() {
        let claimed = |noise, users, circumstances| {
            PrivacyClaim::of_own_noise(noise, users, &circumstances).after(SPENT)
        };
        let cohort = Circumstances {
            sampling: Sampling::FixedCohort(0.1),
            lists_rows: true,
            ..WHOLE
        };
        for (users, delta) in [(40, 1e-5), (1_000_000, 1e-6)] {
            let record = claimed(OwnNoise::Gaussian(0.3), users, cohort);
            assert_eq!(
                record.epsilon,
                Some(Curve::gaussian(0.3).epsilon(SPENT.most_invitations, delta))
            );
            assert_eq!(
                (record.delta, record.adjacency),
                (Some(delta), Some(Adjacency::Replace))
            );
            assert_eq!(
                (record.trust, record.sampling, record.times),
                (Some(Trust::Local), Some(Sampling::Known), 9)
            );
        }
        for (noise, circumstances, expected) in [
            (OwnNoise::Absent, WHOLE, NoEpsilon::NoNoise),
            (OwnNoise::StepsByData, WHOLE, NoEpsilon::StepsByData),
            (OwnNoise::FallsByRound, WHOLE, NoEpsilon::FallsByRound),
            (
                OwnNoise::Gaussian(2.0),
                Circumstances {
                    selects_by_data: true,
                    ..WHOLE
                },
                NoEpsilon::SelectionByData,
            ),
        ] {
            let record = claimed(noise, 40, circumstances);
            assert_eq!((record.epsilon, record.no_epsilon), (None, Some(expected)));
        }
    }

    /// If this fails, sampling is said to protect users where no bound says so, or a replaced user
    /// is taken for one that is added.
    #[test]
    fn sampling_counts_where_a_bound_is_known() {
        let (poisson, cohort) = (Sampling::Poisson(0.1), Sampling::FixedCohort(0.1));
        let (add, replace) = (Adjacency::AddOrRemove, Adjacency::Replace);
        for (trust, adjacency, sampling, curve, times) in [
            (
                Trust::Central,
                add,
                poisson,
                Curve::of_poisson_sample(0.1, 2.0),
                40,
            ),
            (
                Trust::Central,
                replace,
                cohort,
                Curve::of_fixed_cohort(0.1, 1.0),
                40,
            ),
            (Trust::Central, add, cohort, Curve::gaussian(2.0), 9),
            (Trust::Central, replace, poisson, Curve::gaussian(1.0), 9),
            (Trust::Local, add, poisson, Curve::gaussian(2.0), 9),
            (Trust::Local, replace, cohort, Curve::gaussian(1.0), 9),
        ] {
            let record = claimed(
                gaussian(trust, adjacency),
                Circumstances { sampling, ..WHOLE },
            );
            assert_eq!(
                (record.epsilon, record.times),
                (Some(curve.epsilon(times, 1e-6)), times)
            );
            assert_eq!(record.sampling == Some(Sampling::Known), times == 9);
        }
    }
}
