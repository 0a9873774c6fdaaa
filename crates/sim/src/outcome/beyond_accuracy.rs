//! What the lists of items are like that users would be shown.

use serde::{Deserialize, Serialize};

use fedrecsim_core::metric::ListFigures;

/// Figures beyond accuracy, of the lists after the last evaluated round. A list has the best items of the
/// whole catalogue without those that the user has rated. Nothing of it is in the digest of a run, since
/// it follows from the model and from what devices keep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BeyondAccuracy {
    /// The number of items of a list.
    pub list_length: u32,
    /// The number of users with a list.
    pub users: u64,
    /// The number of items in the long tail.
    pub long_tail_items: u64,
    /// The share of the long tail in the training ratings of these users, as a mean over users; absent if
    /// they have none.
    pub history_long_tail_share: Option<f64>,
    /// Of the lists of the method.
    pub method: ListFigures,
    /// Of the lists that popularity would show the same users.
    pub popularity: ListFigures,
}
