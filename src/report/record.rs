//! The run record: everything that a report says, as plain data.
//!
//! Exporters take it and return bytes; it knows nothing of how it came about.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Accuracy figures by name: `hr@10`, `ndcg@10`, `mrr`, ...
pub type Figures = BTreeMap<String, f64>;

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
    /// The scenario as resolved.
    pub scenario: serde_json::Value,
    /// Versions of the program that made the record.
    pub versions: BTreeMap<String, String>,
    /// Figures of the host, outside the digest.
    pub wall: Wall,
}

/// Figures on the two held-out items.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SplitFigures {
    /// On the validation item; absent where none is held out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<Figures>,
    /// On the test item.
    pub test: Figures,
}

/// One value per direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByDirection<T> {
    /// Clients to server.
    pub up: T,
    /// Server to clients.
    pub down: T,
}

/// Where bytes went. `sent = delivered + lost + cancelled + in_flight`, and `delivered = useful + late + stale`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Bytes that left the sender.
    pub sent: u64,
    /// Bytes of frames that arrived whole.
    pub delivered: u64,
    /// Bytes that were carried for frames that a dropout cut off.
    pub lost: u64,
    /// Bytes that were carried for frames that the server gave up.
    pub cancelled: u64,
    /// Bytes of transfers in progress when the run ended.
    pub in_flight: u64,
    /// Delivered and used.
    pub useful: u64,
    /// Delivered after the deadline of their round.
    pub late: u64,
    /// Delivered, but computed from a model that was too old.
    pub stale: u64,
    /// Sent bytes that were frame headers.
    pub header: u64,
    /// Sent bytes that said which rows or values follow.
    pub index: u64,
    /// Sent bytes that were values.
    pub values: u64,
    /// Frames sent.
    pub frames: u64,
}

/// A distribution of durations in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_s: f64,
    /// Median.
    pub p50_s: f64,
    /// 90th percentile.
    pub p90_s: f64,
    /// 99th percentile.
    pub p99_s: f64,
    /// Largest value.
    pub max_s: f64,
}

/// Size of the problem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemSize {
    /// Users.
    pub users: u64,
    /// Items in the catalogue.
    pub items: u64,
    /// Training interactions.
    pub training_ratings: u64,
    /// Users that accuracy is averaged over.
    pub evaluated_users: u64,
}

/// One finished round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundRecord {
    /// Round, from 1.
    pub round: u32,
    /// Virtual time at its end.
    pub virtual_time_s: f64,
    /// Virtual time from its start to its end.
    pub duration_s: f64,
    /// Users invited.
    pub invited: u32,
    /// Updates that were averaged.
    pub aggregated: u32,
    /// Participations that dropped out.
    pub dropped: u32,
    /// Mean local loss over the averaged updates; absent where nothing was averaged.
    pub loss: Option<f64>,
    /// Accuracy after the round, where it was evaluated.
    pub accuracy: Option<SplitFigures>,
    /// Bytes of this round.
    pub bytes: ByDirection<Flow>,
    /// Share of values with a magnitude above each threshold of [`SPARSITY_THRESHOLDS`].
    pub sparsity: Option<Sparsity>,
}

/// Thresholds on |C| (the papers' Table 3).
pub const SPARSITY_THRESHOLDS: [f32; 7] = [0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1];

/// Share of values of C whose magnitude is above each threshold of [`SPARSITY_THRESHOLDS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sparsity {
    /// Over all uploads that were averaged.
    pub uploads: [f64; 7],
    /// Over the averaged table.
    pub averaged: [f64; 7],
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
