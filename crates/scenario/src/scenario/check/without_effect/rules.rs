//! The table of keys without an effect: a rule for each.

use super::super::super::modes::{
    ClientSelection, Mode, OortSpec, OverSelectionSpec, StalenessWeight, Stragglers,
};
use super::super::super::presets;
use super::super::super::raw::RawNetwork;
use super::super::super::spec::{
    AvailabilityPattern, AvailabilitySpec, CodecSpec, DailySpec, DeviceClassSpec, DevicesSpec,
    EvaluationSpec, NegativesSpec, NetworkSpec, OverheadsSpec, Participation, PrivacySpec, Ranking,
    ServerSpec, SpeedSpec, TrainingSpec,
};
use super::super::environment;
use super::Case;
use fedrecsim_core::metric::FAMILIES;

/// Answers a question about a scenario.
type Check = fn(&Case) -> bool;

/// A key and the condition under which it has no effect.
pub(super) struct Rule {
    /// The key, from the top of the file.
    pub key: &'static [&'static str],
    /// Returns whether the key has no effect.
    pub is_off: Check,
    /// Returns whether the key has the value that it would have if it were left out.
    pub is_usual: Check,
    /// Why it has no effect, as the end of a sentence without a full stop.
    pub because: &'static str,
}

const FULL_CATALOGUE: &str =
    "`ranking` is `full-catalogue`, which ranks against every item that the user never rated";
const ALWAYS_FRESH: &str =
    "`maximum_staleness` is 0, so that only fresh updates are used, whose weight is always 1";
const ALL_DAY: &str = "`hours_on` is 24, so that users are always available";

/// Every rule about a key that another key, or the place where the method trains, leaves without an
/// effect.
pub(super) const RULES: &[Rule] = &[
    Rule {
        key: &["evaluation", "candidates"],
        is_off: |case| case.scenario.evaluation.ranking == Ranking::FullCatalogue,
        is_usual: |case| {
            case.scenario.evaluation.candidates == EvaluationSpec::default().candidates
        },
        because: FULL_CATALOGUE,
    },
    Rule {
        key: &["evaluation", "shared_candidates"],
        is_off: |case| case.scenario.evaluation.ranking == Ranking::FullCatalogue,
        is_usual: |case| case.scenario.evaluation.shared_candidates,
        because: FULL_CATALOGUE,
    },
    Rule {
        key: &["evaluation", "shared_candidates"],
        is_off: |case| !case.scenario.dataset.split.has_validation_item(),
        is_usual: |case| case.scenario.evaluation.shared_candidates,
        because: "no validation item is held out that could share the candidates (`dataset.validation_item` is false)",
    },
    Rule {
        key: &["evaluation", "cutoffs"],
        is_off: |case| {
            let without_cutoff = |name: &String| {
                FAMILIES
                    .iter()
                    .any(|known| known.has_cutoff && known.name == name)
            };
            !case.scenario.evaluation.metrics.iter().any(without_cutoff)
        },
        is_usual: |case| {
            let usual = EvaluationSpec::default().cutoffs;
            case.scenario
                .evaluation
                .cutoffs
                .iter()
                .all(|cutoff| usual.contains(cutoff))
        },
        because: "every figure in `metrics` that has a cutoff names its own",
    },
    Rule {
        key: &["training", "waiting_limit_s"],
        is_off: |case| case.scenario.availability.pattern == AvailabilityPattern::Always,
        is_usual: has_usual_waiting_limit,
        because: "all users are always available, so that the server waits for nobody",
    },
    Rule {
        key: &["training", "mode", "over-selection", "stragglers"],
        is_off: |case| over_selects(case, |spec| spec.factor == 1.0 && spec.deadline_s.is_none()),
        is_usual: |case| over_selects(case, |spec| spec.stragglers == Stragglers::Cancelled),
        because: "a round with the `factor` 1 and without a `deadline_s` waits for everybody",
    },
    Rule {
        key: &["training", "mode", "semi-synchronous", "staleness_weight"],
        is_off: uses_fresh_updates_only,
        is_usual: has_usual_staleness_weight,
        because: ALWAYS_FRESH,
    },
    Rule {
        key: &["training", "mode", "fedbuff", "staleness_weight"],
        is_off: uses_fresh_updates_only,
        is_usual: has_usual_staleness_weight,
        because: ALWAYS_FRESH,
    },
    Rule {
        key: &["training", "mode", "fedasync", "staleness_weight"],
        is_off: uses_fresh_updates_only,
        is_usual: has_usual_staleness_weight,
        because: ALWAYS_FRESH,
    },
    Rule {
        key: &["training", "client_selection", "oort", "exploration_decay"],
        is_off: |case| oort(case, |spec| spec.exploration == spec.least_exploration),
        is_usual: |case| {
            oort(case, |spec| {
                spec.exploration_decay == OortSpec::default().exploration_decay
            })
        },
        because: "the share of exploration begins at `least_exploration` and stays there",
    },
    Rule {
        key: &["training", "client_selection", "oort", "preferred_quantile"],
        is_off: |case| oort(case, |spec| spec.straggler_penalty == 0.0),
        is_usual: |case| {
            oort(case, |spec| {
                spec.preferred_quantile == OortSpec::default().preferred_quantile
            })
        },
        because: "`straggler_penalty` is 0, so that no duration is preferred",
    },
    Rule {
        key: &["network", "correlation"],
        is_off: |case| {
            let network = &case.scenario.network;
            network.downlink_log_sigma == 0.0 || network.uplink_log_sigma == 0.0
        },
        is_usual: |case| case.scenario.network.correlation == usual_network(case).correlation,
        because: "the rates of one direction are the same for every user, as its `log_sigma` is 0",
    },
    Rule {
        key: &["network", "rtt_log_sigma"],
        is_off: |case| case.scenario.network.rtt_ms == 0.0,
        is_usual: |case| case.scenario.network.rtt_log_sigma == usual_network(case).rtt_log_sigma,
        because: "`rtt_ms` is 0 for every user",
    },
    Rule {
        key: &["devices", "ns_per_multiply_add"],
        is_off: |case| every_class(case, |class| class.ns_per_multiply_add.is_some()),
        is_usual: |case| case.scenario.devices.ns_per_multiply_add == 0.0,
        because: "every class of devices has its own `ns_per_multiply_add`",
    },
    Rule {
        key: &["devices", "fixed_ms_per_participation"],
        is_off: |case| every_class(case, |class| class.fixed_ms_per_participation.is_some()),
        is_usual: |case| case.scenario.devices.fixed_ms_per_participation == 0.0,
        because: "every class of devices has its own `fixed_ms_per_participation`",
    },
    Rule {
        key: &["availability", "daily", "starts_at_hour"],
        is_off: is_available_all_day,
        is_usual: |case| {
            daily(case, |daily| {
                daily.starts_at_hour == presets::night_charging().starts_at_hour
            })
        },
        because: ALL_DAY,
    },
    Rule {
        key: &["availability", "daily", "jitter_hours"],
        is_off: is_available_all_day,
        is_usual: |case| {
            daily(case, |daily| {
                daily.jitter_hours == presets::night_charging().jitter_hours
            })
        },
        because: ALL_DAY,
    },
    Rule {
        key: &["availability", "daily", "utc_offsets"],
        is_off: is_available_all_day,
        is_usual: |case| daily(case, |daily| daily.utc_offsets.is_empty()),
        because: ALL_DAY,
    },
    Rule {
        key: &["training", "participation"],
        is_off: |case| case.method.runs_at_server,
        is_usual: |case| case.scenario.training.participation == Participation::All,
        because: "the method trains at the server, to which every user sends its ratings",
    },
    Rule {
        key: &["server"],
        is_off: |case| case.method.trains && !case.method.server_computes,
        is_usual: |case| case.scenario.server == ServerSpec::default(),
        because: "the method computes on the devices, and what its server does takes no virtual time",
    },
    Rule {
        key: &["dataset", "negatives"],
        is_off: |case| !case.method.draws_negatives,
        is_usual: |case| case.scenario.dataset.negatives == NegativesSpec::default(),
        because: "the method draws no training negatives from this pool",
    },
];

/// The keys that say how rounds are run and what happens in them, each with a check whether it has
/// the value that it would have if it were left out. They have no effect for a method that trains
/// nothing.
pub(super) const ABOUT_ROUNDS: &[(&[&str], Check)] = &[
    (&["training", "participation"], |case| {
        case.scenario.training.participation == Participation::All
    }),
    (&["training", "steps_per_round"], |case| {
        case.scenario.training.steps_per_round == 1
    }),
    (&["training", "empty_rounds_limit"], |case| {
        case.scenario.training.empty_rounds_limit == usual_training().empty_rounds_limit
    }),
    (&["training", "waiting_limit_s"], has_usual_waiting_limit),
    (&["training", "divergence_limit"], |case| {
        case.scenario.training.divergence_limit == usual_training().divergence_limit
    }),
    (&["codec"], |case| {
        case.scenario.codec == CodecSpec::default()
    }),
    (&["network"], |case| {
        case.scenario.network == environment::network(RawNetwork::default())
    }),
    (&["devices"], |case| {
        let [uniform, ..] = presets::devices();
        case.scenario.devices
            == DevicesSpec {
                preset: None,
                ..uniform.values
            }
    }),
    (&["server"], |case| {
        case.scenario.server == ServerSpec::default()
    }),
    (&["availability"], |case| {
        case.scenario.availability == AvailabilitySpec::default()
    }),
    (&["faults"], |case| case.scenario.faults.is_empty()),
    (&["privacy"], |case| {
        case.scenario.privacy == PrivacySpec::default()
    }),
    (&["overheads"], |case| {
        case.scenario.overheads == OverheadsSpec::default()
    }),
];

fn usual_training() -> TrainingSpec {
    TrainingSpec::synchronous(1, Participation::All)
}

fn has_usual_waiting_limit(case: &Case) -> bool {
    case.scenario.training.waiting_limit_s == usual_training().waiting_limit_s
}

/// Returns the numbers that keys of `[network]` replace.
fn usual_network(case: &Case) -> NetworkSpec {
    environment::network(RawNetwork {
        preset: case.scenario.network.preset.clone(),
        ..RawNetwork::default()
    })
}

/// Returns whether updates of the mode have staleness weights of which only that of fresh updates
/// is ever used.
fn uses_fresh_updates_only(case: &Case) -> bool {
    staleness(case).is_some_and(|(maximum, _)| maximum == 0)
}

fn has_usual_staleness_weight(case: &Case) -> bool {
    staleness(case).is_none_or(|(_, weight)| weight == StalenessWeight::default())
}

fn staleness(case: &Case) -> Option<(u32, StalenessWeight)> {
    match case.scenario.training.mode {
        Mode::SemiSynchronous(spec) => Some((spec.maximum_staleness, spec.staleness_weight)),
        Mode::FedBuff(spec) => Some((spec.maximum_staleness, spec.staleness_weight)),
        Mode::FedAsync(spec) => Some((spec.maximum_staleness, spec.staleness_weight)),
        Mode::Synchronous | Mode::OverSelection(_) => None,
    }
}

fn over_selects(case: &Case, is_so: impl Fn(OverSelectionSpec) -> bool) -> bool {
    matches!(case.scenario.training.mode, Mode::OverSelection(spec) if is_so(spec))
}

fn oort(case: &Case, is_so: impl Fn(OortSpec) -> bool) -> bool {
    matches!(case.scenario.training.client_selection, ClientSelection::Oort(spec) if is_so(spec))
}

fn every_class(case: &Case, has_its_own: impl Fn(&DeviceClassSpec) -> bool) -> bool {
    matches!(&case.scenario.devices.speed, SpeedSpec::Classes(classes) if classes.iter().all(has_its_own))
}

fn is_available_all_day(case: &Case) -> bool {
    daily(case, |daily| daily.hours_on == 24.0)
}

/// Returns whether the window of availability compares so with the one that keys of `daily` replace
/// numbers of.
fn daily(case: &Case, is_so: impl Fn(&DailySpec) -> bool) -> bool {
    matches!(&case.scenario.availability.pattern, AvailabilityPattern::Daily(daily) if is_so(daily))
}
