//! The run record: everything that a report says, as plain data.
//!
//! Exporters take it and return bytes; it knows nothing of how it came about.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::scenario::Scenario;
pub use crate::sim::outcome::{
    ByDirection, Distribution, Figures, Flow, ProblemSize, RoundRecord, SPARSITY_THRESHOLDS, Sparsity, SplitFigures,
    Work,
};

/// One finished (or stopped) run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunRecord {
    /// Version of this layout.
    pub format: u32,
    /// Name of the scenario.
    pub name: String,
    /// The seed.
    pub seed: u64,
    /// Result digest (hexadecimal); wall-clock figures are outside it.
    pub digest: String,
    /// Finished rounds.
    pub rounds: u32,
    /// Whether every round of the scenario was finished.
    pub complete: bool,
    /// Why the run stopped early, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
    /// The round (from 1) that the run is judged by; absent if none was finished.
    pub selected_round: Option<u32>,
    /// Accuracy at the selected round.
    pub accuracy: SplitFigures,
    /// Protocol in words, to stand beside every accuracy: pool, ranking, selection.
    pub protocol: String,
    /// The trivial baselines on the same split and candidates, by name.
    pub baselines: BTreeMap<String, SplitFigures>,
    /// Bytes of the whole run.
    pub bytes: ByDirection<Flow>,
    /// Virtual time at the end of the last finished round.
    pub virtual_time_s: f64,
    /// Distribution of virtual durations, by phase: `download`, `compute`, `upload`, `round`.
    pub durations: BTreeMap<String, Distribution>,
    /// Size of the problem.
    pub size: ProblemSize,
    /// Every finished round.
    #[serde(skip)]
    pub per_round: Vec<RoundRecord>,
    /// The scenario as resolved: every preset and default filled in.
    pub scenario: Scenario,
    /// Arguments that the program was called with (its own name left out), for whoever repeats the run;
    /// empty where no command line was involved.
    pub command: Vec<String>,
    /// Versions of the program that made the record.
    pub versions: BTreeMap<String, String>,
    /// Figures of the host, outside the digest.
    pub wall: Wall,
}

/// Figures of the host that ran the simulation; outside the digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wall {
    /// From the start of the command to the end of the last round.
    pub total_s: f64,
    /// Median wall time of a round, evaluation included.
    pub per_round_ms: f64,
    /// Peak resident memory; absent where the system does not tell.
    pub peak_rss_bytes: Option<u64>,
    /// Worker threads.
    pub threads: u32,
}
