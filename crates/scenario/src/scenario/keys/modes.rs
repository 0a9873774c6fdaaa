//! How rounds are run and whom the server picks: the keys `training.mode` and
//! `training.client_selection`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When the server averages, and what becomes of those who are late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A round waits for everybody whom it invited.
    #[default]
    Synchronous,
    /// More are invited than are needed; the first ones count (Bonawitz et al., MLSys 2019).
    OverSelection(OverSelectionSpec),
    /// A round ends at its deadline; late updates join a later round with a smaller weight.
    SemiSynchronous(SemiSynchronousSpec),
    /// A fixed number of clients train at any time; the server steps whenever its buffer is full
    /// (Nguyen et al., Federated Learning with Buffered Asynchronous Aggregation, AISTATS 2022).
    #[serde(rename = "fedbuff")]
    FedBuff(FedBuffSpec),
    /// A fixed number of clients train at any time; every update is mixed in as it arrives (Xie et
    /// al., Asynchronous Federated Optimization, 2019).
    #[serde(rename = "fedasync")]
    FedAsync(FedAsyncSpec),
}

impl Mode {
    /// Returns the mode's name in scenario files.
    pub(crate) fn key(&self) -> &'static str {
        match self {
            Self::Synchronous => "synchronous",
            Self::OverSelection(_) => "over-selection",
            Self::SemiSynchronous(_) => "semi-synchronous",
            Self::FedBuff(_) => "fedbuff",
            Self::FedAsync(_) => "fedasync",
        }
    }
}

/// Over-selection with a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OverSelectionSpec {
    /// Users invited per user needed; rounded up, at most everybody.
    #[schemars(range(min = 1, max = 100))]
    pub factor: f64,
    /// The round ends this long after it began, with what has arrived; without it, when enough have
    /// arrived. Required where everybody is needed, and nobody is left to be invited beyond them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1e-9, max = 1e9))]
    pub deadline_s: Option<f64>,
    /// What becomes of those who are not done then.
    pub stragglers: Stragglers,
}

impl Default for OverSelectionSpec {
    fn default() -> Self {
        Self {
            factor: 1.3,
            deadline_s: None,
            stragglers: Stragglers::Cancelled,
        }
    }
}

/// What becomes of a participation that its round did not wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stragglers {
    /// The server gives it up: its transfer stops, unfinished training leaves no trace on the
    /// device.
    Cancelled,
    /// It goes on; what arrives is late and not used.
    Late,
}

/// Rounds with a deadline whose late updates are not lost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SemiSynchronousSpec {
    /// The round ends this long after it began, or when everybody is done.
    #[schemars(range(min = 1e-9, max = 1e9))]
    pub deadline_s: f64,
    /// Weight of an update by the number of rounds that it is late.
    #[serde(default)]
    pub staleness_weight: StalenessWeight,
    /// An update that is later than this many rounds is stale and not used.
    #[serde(default = "default_maximum_staleness")]
    #[schemars(range(max = 1_000_000))]
    pub maximum_staleness: u32,
}

/// Buffered asynchronous aggregation. One of its rounds is one step of the server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FedBuffSpec {
    /// Clients that take part at any time.
    #[schemars(range(min = 1))]
    pub concurrency: u32,
    /// Updates that make a step.
    #[schemars(range(min = 1))]
    pub buffer: u32,
    /// The server's learning rate: the step is this times the mean of the weighted updates.
    #[serde(default = "default_server_rate")]
    #[schemars(range(max = 10), extend("exclusiveMinimum" = 0.0))]
    pub server_rate: f64,
    /// Weight of an update by its staleness: the server's steps since the model that it started
    /// from.
    #[serde(default)]
    pub staleness_weight: StalenessWeight,
    /// An update staler than this is not used.
    #[serde(default = "default_maximum_staleness")]
    #[schemars(range(max = 1_000_000))]
    pub maximum_staleness: u32,
}

/// Asynchronous aggregation without a buffer. One of its rounds is one update.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FedAsyncSpec {
    /// Clients that take part at any time.
    #[schemars(range(min = 1))]
    pub concurrency: u32,
    /// Share of a fresh update in the new model (alpha).
    #[serde(default = "default_mixing")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))]
    pub mixing: f64,
    /// Factor of that share by the update's staleness.
    #[serde(default)]
    pub staleness_weight: StalenessWeight,
    /// An update staler than this is not used.
    #[serde(default = "default_maximum_staleness")]
    #[schemars(range(max = 1_000_000))]
    pub maximum_staleness: u32,
}

fn default_maximum_staleness() -> u32 {
    5
}

fn default_server_rate() -> f64 {
    1.0
}

/// Returns the alpha of Xie et al.'s experiments.
fn default_mixing() -> f64 {
    0.6
}

/// How much an update counts that started from a model s steps old (Xie et al. 2019, section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
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

impl Default for StalenessWeight {
    fn default() -> Self {
        Self::Polynomial(0.5)
    }
}

/// Whom the server picks among those who can take part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClientSelection {
    /// Uniformly at random.
    #[default]
    Uniform,
    /// One after another by number, and from the start again.
    RoundRobin,
    /// Those first who stay available longest from now on: an oracle, the most that a forecast of
    /// availability could be worth.
    LongestAvailable,
    /// Uniformly, but nobody twice in a row: no update of a user is used in two steps in a row, as
    /// a server could tell more about a user from them (FedRAP, section 3.3). In modes with cohorts
    /// nobody is invited to two in a row either, so there must be twice as many users as are
    /// invited to a round; in the asynchronous modes, twice as many as make a step. A step in which
    /// everybody who is there has to rest ends with what has arrived.
    NeverTwiceInARow,
    /// At random, in proportion to the number of training ratings.
    ByDataSize,
    /// By utility: high loss, much data, a fast device, not seen for long (Lai et al., Oort, OSDI
    /// 2021).
    Oort(OortSpec),
}

/// Parameters of Oort; the defaults are those of its paper and code.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OortSpec {
    /// Share of a cohort that is drawn from users never seen, in the first round.
    #[schemars(range(min = 0, max = 1))]
    pub exploration: f64,
    /// Factor of that share from round to round.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))]
    pub exploration_decay: f64,
    /// The least that this share falls to.
    #[schemars(range(min = 0, max = 1))]
    pub least_exploration: f64,
    /// Exponent of the penalty of a participation that takes longer than preferred.
    #[schemars(range(min = 0, max = 10))]
    pub straggler_penalty: f64,
    /// The preferred duration, as a share of the users seen so far who are faster.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))]
    pub preferred_quantile: f64,
}

impl Default for OortSpec {
    fn default() -> Self {
        Self {
            exploration: 0.9,
            exploration_decay: 0.98,
            least_exploration: 0.2,
            straggler_penalty: 2.0,
            preferred_quantile: 0.8,
        }
    }
}
