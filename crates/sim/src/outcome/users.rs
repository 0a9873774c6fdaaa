//! What single users took part in, sent, received and spent.

use serde::{Deserialize, Serialize};

use super::{ByDirection, Flow, Metered, WorkTotals};
use fedrecsim_core::UserId;

/// The totals of one user over a run, an unfinished round included.
#[derive(Clone, Debug, PartialEq)]
pub struct UserRecord {
    /// The user.
    pub user: UserId,
    /// The user's name in the ratings file; that of a generated user is its number.
    pub name: String,
    /// The bytes that the user's device exchanged with all peers.
    pub bytes: ByDirection<Flow>,
    /// What else is counted of the user.
    pub account: UserAccount,
    /// What was found on the user's test part at the selected round; `None` if the user was not
    /// evaluated.
    pub test: Option<UserTest>,
}

/// An item of the catalogue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ItemRecord {
    /// The number, from 0.
    pub item: u32,
    /// The name in the ratings file; that of a generated item is its number.
    pub name: String,
    /// The number of training positives.
    pub ratings: u32,
    /// The same for each user.
    pub popularity: f64,
}

/// What was found on the test part of one user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UserTest {
    /// The number of held-out items, or ratings.
    pub held_out: u64,
    /// The value of each of the scenario's metrics, in their order; `None` of one that the user has
    /// none of.
    pub values: Vec<Option<f64>>,
}

/// The counts of a user besides bytes: `invited = completed + late + stale + lost + cancelled +
/// under_way`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserAccount {
    /// The number of invitations.
    pub invited: u32,
    /// Participations whose update was used.
    pub completed: u32,
    /// Participations whose update arrived after its step was over.
    pub late: u32,
    /// Participations whose update was computed from a model too old to be used.
    pub stale: u32,
    /// Participations that were lost to a dropout, a departure or a fault.
    pub lost: u32,
    /// Participations that the server cancelled.
    pub cancelled: u32,
    /// Participations that were under way when the run ended.
    pub under_way: u32,
    /// The bytes that the device would download in order to score after the last evaluation. They
    /// are no part of the bytes, since evaluation is not part of the simulated world.
    pub inference_bytes: u64,
    /// The training work.
    pub work: WorkTotals,
    /// The time that the device took, and what its electricity emits.
    pub metered: Metered,
}

/// How many bytes a device sent and received over a run. Users who never took part count with 0
/// bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceBytes {
    /// The number of users.
    pub users: u64,
    /// The number of users who never took part.
    pub never_took_part: u64,
    /// The median: half of the devices have no more bytes.
    pub median_bytes: u64,
    /// The 99th percentile: 99 of 100 devices have no more bytes.
    pub p99_bytes: u64,
    /// The most bytes of a device.
    pub max_bytes: u64,
}

impl DeviceBytes {
    /// Returns the figures of this many users. `bytes` are those of users who took part, in any
    /// order.
    pub(crate) fn of(mut bytes: Vec<u64>, users: usize) -> Self {
        let never_took_part = users.saturating_sub(bytes.len());
        bytes.resize(bytes.len() + never_took_part, 0);
        bytes.sort_unstable();
        // The quantile is the least value that has at least its share of all values at or below it.
        let quantile = |percent: usize| {
            let rank = (bytes.len() * percent).div_ceil(100).max(1);
            bytes.get(rank - 1).copied().unwrap_or(0)
        };
        Self {
            users: bytes.len() as u64,
            never_took_part: never_took_part as u64,
            median_bytes: quantile(50),
            p99_bytes: quantile(99),
            max_bytes: quantile(100),
        }
    }
}

/// Returns the bytes that a device sent or received. Bytes that a fault swallowed on their way to
/// the device are left out.
pub fn handled_bytes(bytes: &ByDirection<Flow>) -> u64 {
    bytes.up.sent + (bytes.down.sent - bytes.down.unreceived)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, the summary names a device's bytes that no device has, or forgets those who
    /// never took part.
    #[test]
    fn quantiles_are_values_of_devices_and_users_who_never_took_part_have_none() {
        let of = |bytes: DeviceBytes| {
            [
                bytes.median_bytes,
                bytes.p99_bytes,
                bytes.max_bytes,
                bytes.never_took_part,
            ]
        };
        assert_eq!(
            of(DeviceBytes::of((1..=200).rev().collect(), 200)),
            [100, 198, 200, 0]
        );
        assert_eq!(of(DeviceBytes::of(vec![7, 9], 4)), [0, 9, 9, 2]);
        assert_eq!(of(DeviceBytes::of(vec![7, 9, 8], 4)), [7, 9, 9, 1]);
        assert_eq!(DeviceBytes::of(Vec::new(), 0), DeviceBytes::default());
    }
}
