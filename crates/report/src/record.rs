//! Holds the run record, which is everything that a report says, as plain data.
//!
//! Exporters take it and return bytes. It does not depend on how the run was done.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::groups::UserGroup;
pub(crate) use super::load::NetworkSummary;
use fedrecsim_scenario::{CarbonSpec, FaultSpec, Policy, Scenario};
pub(crate) use fedrecsim_sim::outcome::{
    Accuracy, AuditRecord, BeyondAccuracy, ByDirection, DeviceBytes, Distribution, Energy, Flow,
    ItemRecord, Newcomers, NoEpsilon, PrivacyRecord, ProblemSize, RoundRecord, SPARSITY_THRESHOLDS,
    Sampling, SplitAccuracy, UserRecord, VersionsCost, WorkTotals,
};
use fedrecsim_sim::outcome::{Losses, Outcome};

/// The version of the layout of `run.json` and `rounds.csv`. Version 1 had keys of the scenario at
/// other places.
pub(crate) const FORMAT: u32 = 2;

/// One finished (or stopped) run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord<S = Scenario> {
    /// Version of this layout.
    pub format: u32,
    /// Name of the scenario.
    pub name: String,
    /// The seed.
    pub seed: u64,
    /// Result digest (hexadecimal); wall-clock figures are outside it.
    pub digest: String,
    /// Digest of the model and of what every device keeps after the last round (hexadecimal); time
    /// is not part of it. Absent if the run was stopped early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_digest: Option<String>,
    /// Finished rounds.
    pub rounds: u32,
    /// Whether every round of the scenario was finished.
    pub complete: bool,
    /// Why the run stopped early, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
    /// Whether the run is complete and learned nothing although its method learns from updates, as
    /// none was ever used or none carried a value; absent if not.
    #[serde(default, skip_serializing_if = "is_default")]
    pub learned_nothing: bool,
    /// Whether updates were used but none carried a value; absent if not.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uploads_were_empty: bool,
    /// The round (from 1) that the run is judged by; absent if none was finished.
    pub selected_round: Option<u32>,
    /// Accuracy at the selected round.
    pub accuracy: SplitAccuracy,
    /// Protocol in words, to stand beside every accuracy: pool, ranking, selection.
    pub protocol: String,
    /// Whether the method draws negatives. If not, the pool that the scenario names has no part in
    /// the accuracy.
    #[serde(default = "yes")]
    pub draws_negatives: bool,
    /// The trivial baselines on the same split and candidates, by name.
    #[serde(default)]
    pub baselines: BTreeMap<String, SplitAccuracy>,
    /// What the lists of items are like that users would be shown after the last round; absent where no
    /// item is held out, and in reports of older programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beyond_accuracy: Option<BeyondAccuracy>,
    /// Bytes of the whole run.
    pub bytes: ByDirection<Flow>,
    /// Of these, the bytes that were exchanged with the third party; absent if the method has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub third_party_bytes: Option<ByDirection<Flow>>,
    /// Bytes that the evaluated users would download in order to score after the selected round; no
    /// part of `bytes`. Absent if no round was evaluated.
    pub inference_bytes: Option<u64>,
    /// The memory that the server needed to send differences between versions of the model; absent
    /// unless it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versions_cost: Option<VersionsCost>,
    /// The findings of the audit over all audited rounds; absent without an audit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditRecord>,
    /// The number of these rounds; 0 also in reports of older programs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub audited_rounds: u32,
    /// The privacy claim after the last finished round; absent without a protection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub privacy: Option<PrivacyRecord>,
    /// Participations of the whole run, by what became of them. Those of the round that was under way at
    /// the end are among them, as in the bytes.
    pub participations: ParticipationTotals,
    /// Those of them that were lost, by cause; their sum is `participations.lost`.
    pub losses: LossTotals,
    /// The server's link, the line for connections and the users who were waited for, over the
    /// finished rounds; absent if no virtual time has passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSummary>,
    /// Bytes of single devices.
    #[serde(default)]
    pub device_bytes: DeviceBytes,
    /// Accuracy of fast, of slow and of badly served users; none where `users.csv` is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user_groups: Vec<UserGroup>,
    /// What was found for the users who come in the course of the run; absent if none do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newcomers: Option<Newcomers>,
    /// Training work of the whole run.
    #[serde(default)]
    pub work: WorkTotals,
    /// Energy of the devices; absent where the scenario states none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<Energy>,
    /// Energy of the server over the finished rounds, in joules; absent where the scenario does not
    /// state its power.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_energy_j: Option<f64>,
    /// Carbon dioxide of the electricity for both; absent where the scenario does not say what it emits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carbon: Option<CarbonRecord>,
    /// Virtual time at the end of the last finished round.
    pub virtual_time_s: f64,
    /// Distribution of virtual durations, by phase: `download`, `compute`, `upload`, `round`, and
    /// `preparation`, `request`, `consultation` and `reply` of a method with a third party.
    pub durations: BTreeMap<String, Distribution>,
    /// Size of the problem.
    pub size: ProblemSize,
    /// How the server ran its steps.
    pub policy: Policy,
    /// Every finished round.
    #[serde(skip)]
    pub per_round: Vec<RoundRecord>,
    /// The totals of every user, in the order of users; `None` if the scenario does not have them
    /// kept for this many.
    #[serde(skip)]
    pub per_user: Option<Vec<UserRecord>>,
    /// Every item, in the order of items.
    #[serde(skip)]
    pub per_item: Vec<ItemRecord>,
    /// The scenario as resolved: every preset and default filled in.
    pub scenario: S,
    /// The keys of the scenario file without effect, a line for each; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The command that repeats the run: the program's name and its arguments, without those that
    /// do not change the result; empty where no command line was involved.
    pub command: Vec<String>,
    /// The build of the program that made the record: versions of the program (`fedrecsim`) and the
    /// compiler (`rustc`), the `commit`, and the settings of the `build`.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// BLAKE3 (hexadecimal) of the executable, or of the library that holds this crate; it tells
    /// two builds of the same versions apart. Empty if it cannot be read.
    #[serde(default)]
    pub executable: String,
    /// Other builds of the program that earlier rounds were made by, described; empty unless the
    /// run was resumed with another build.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_builds: Vec<String>,
    /// Figures of the host, outside the digest.
    pub wall: Wall,
}

/// Says that negatives were drawn, where an older report says nothing about it.
fn yes() -> bool {
    true
}

/// Returns whether a field has its default and is left out.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Participations by what became of them:
/// `invited = aggregated + lost + cancelled + late + under_way`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParticipationTotals {
    /// Invitations sent.
    pub invited: u64,
    /// Updates that were averaged.
    pub aggregated: u64,
    /// Participations that were lost to a dropout, a departure or a fault.
    #[serde(alias = "dropped")]
    pub lost: u64,
    /// Participations that the server cancelled.
    pub cancelled: u64,
    /// Updates that came after their round was over, or from a model too old to be used.
    pub late: u64,
    /// Those of the late ones that came from a model too old to be used.
    #[serde(default)]
    pub stale: u64,
    /// Participations that were neither of these when the run ended. Their update may have arrived for a
    /// step that was not made any more.
    pub under_way: u64,
}

impl ParticipationTotals {
    /// Returns the totals over `rounds`.
    pub(crate) fn of<'r>(rounds: impl Iterator<Item = &'r RoundRecord> + Clone) -> Self {
        let sum =
            |of: fn(&RoundRecord) -> u32| rounds.clone().map(|round| u64::from(of(round))).sum();
        let mut totals = Self {
            invited: sum(|round| round.invited),
            aggregated: sum(|round| round.aggregated),
            lost: sum(|round| round.lost),
            cancelled: sum(|round| round.cancelled),
            late: sum(|round| round.late),
            stale: sum(|round| round.stale),
            under_way: 0,
        };
        let ended = totals.aggregated + totals.lost + totals.cancelled + totals.late;
        totals.under_way = totals.invited.saturating_sub(ended);
        totals
    }
}

/// Participations that were lost, by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossTotals {
    /// Those that dropped out (`network.dropout`).
    pub dropouts: u64,
    /// Those whose users left (`[availability]`).
    pub departures: u64,
    /// Those that fault rules have cost, for each rule of the scenario in its order.
    pub faults: Vec<FaultLosses>,
}

/// Participations that a fault rule has cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultLosses {
    /// The number of the rule among `[[faults]]`, counted from 0.
    pub rule: u32,
    /// The preset of the rule, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// The name of the rule's effect.
    pub effect: String,
    /// The number of participations.
    pub lost: u64,
}

impl LossTotals {
    /// Returns the totals over `rounds`, which were run with these fault rules.
    pub(crate) fn of<'r>(
        rounds: impl Iterator<Item = &'r RoundRecord>,
        rules: &[FaultSpec],
    ) -> Self {
        let mut sum = Losses::default();
        rounds.for_each(|round| sum += &round.losses);
        let rule = |(rule, spec): (u32, &FaultSpec)| FaultLosses {
            rule,
            preset: spec.preset.clone(),
            effect: spec.effect.name(),
            lost: sum.by_fault(rule as usize),
        };
        let faults = (0..).zip(rules).map(rule).collect();
        Self {
            dropouts: sum.dropouts,
            departures: sum.departures,
            faults,
        }
    }
}

/// Carbon dioxide of the electricity of a run, in grams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CarbonRecord {
    /// The carbon dioxide of the electricity of all devices.
    pub devices_g: f64,
    /// The carbon dioxide of the server's electricity over the finished rounds; 0 if the scenario does
    /// not state its power.
    pub server_g: f64,
}

impl CarbonRecord {
    /// Returns what was emitted; `None` if `scenario` does not say what electricity emits.
    pub(crate) fn of(scenario: &Scenario, outcome: &Outcome) -> Option<Self> {
        if scenario.carbon == CarbonSpec::default() {
            return None;
        }
        let of_server = outcome.rounds.iter().map(|round| round.server_co2_ng);
        Some(Self {
            devices_g: grams(outcome.metered.co2_ng),
            server_g: grams(of_server.sum()),
        })
    }
}

/// Returns nanograms in grams.
pub(crate) fn grams(nanograms: u128) -> f64 {
    nanograms as f64 / 1e9
}

/// Figures of the host that ran the simulation; outside the digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wall {
    /// Seconds from the start of the command to the end of the last round.
    pub total_s: f64,
    /// Median wall time of a round in milliseconds, evaluation included.
    pub per_round_ms: f64,
    /// Peak resident memory; absent if the system does not tell, or if the run shares its process.
    pub peak_rss_bytes: Option<u64>,
    /// Number of worker threads.
    pub threads: u32,
}
