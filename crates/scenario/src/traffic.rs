//! The traffic of a method in each direction, as far as scenario files depend on it.

use std::sync::Arc;

use serde_json::Value as Json;

/// A block that travels in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficBlock {
    /// The name of the block.
    pub name: String,
    /// Whether it travels to the server, or from it.
    pub is_uploaded: bool,
    /// Whether the values are of single precision. Only those can be changed by a codec.
    pub has_floats: bool,
    /// Whether each row belongs to an item.
    pub has_item_rows: bool,
}

/// The traffic of a method in each direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The blocks of all phases. A block may be named several times.
    pub blocks: Vec<TrafficBlock>,
    /// Whether each user has a download of its own.
    pub has_personal_downloads: bool,
    /// Whether participants download rows that the server chooses for each step, and those who are
    /// evaluated all rows.
    pub sends_chosen_rows: bool,
    /// Whether training reads no other rows of downloaded item tables than those of the
    /// participation's samples.
    pub trains_on_sampled_rows: bool,
    /// Whether each user keeps an item table of its own to score with.
    pub keeps_personal_tables: bool,
    /// Whether a user who misses one step, or is only tested, cannot score any more.
    pub needs_everybody: bool,
    /// The part of the uploads that the server uses.
    pub upload_use: UploadUse,
    /// Whether the server makes sums of what it works out from each upload, such as gradients that
    /// it back-propagates, and adds noise to these sums by itself.
    pub makes_noisy_sums: bool,
    /// Whether it predicts ratings; otherwise it ranks items.
    pub predicts_ratings: bool,
    /// The steps after which the model is whole; 0 if it is one after any number of steps.
    pub least_steps: u32,
}

/// The part of a step's uploads that a server uses; the rest may be hidden from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UploadUse {
    /// The sum of their values; all count alike, so noise on one of them is noise on the sum.
    Sum,
    /// Their sum, but noise cannot be added to it: each is multiplied by a weight that it states,
    /// or has values that are no floating-point numbers.
    WeightedSum,
    /// More than that, such as how many users have sent each row, the median of values, or
    /// something of each user.
    #[default]
    Each,
}

/// Tells the traffic of a method with checked parameters; `None` if that cannot be told before the
/// data are read.
pub type TrafficOf = Arc<dyn Fn(&Json) -> Option<Traffic> + Send + Sync>;
