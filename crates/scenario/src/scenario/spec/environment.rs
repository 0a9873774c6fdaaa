//! The environment of the clients as a checked scenario describes it: links, devices, availability,
//! and what goes wrong.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use fedrecsim_core::units::{BitsPerSecond, Direction};

/// Links, with the preset resolved. Rates are per user and lognormal.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkSpec {
    /// The preset that the numbers started from, if one was named.
    pub preset: Option<String>,
    /// Median downlink rate.
    pub downlink_median_mbit_per_s: f64,
    /// Standard deviation of the logarithm of a user's downlink rate.
    pub downlink_log_sigma: f64,
    /// Median uplink rate.
    pub uplink_median_mbit_per_s: f64,
    /// Standard deviation of the logarithm of a user's uplink rate.
    pub uplink_log_sigma: f64,
    /// Correlation of the two logarithms.
    pub correlation: f64,
    /// Standard deviation of the logarithm of a single transfer's rate around its user's.
    pub transfer_log_sigma: f64,
    /// Median round-trip time; a transfer starts to arrive after half of it.
    pub rtt_ms: f64,
    /// Standard deviation of the logarithm of a user's round-trip time.
    pub rtt_log_sigma: f64,
    /// Probability that a participation is cut off, at a uniformly random instant of it.
    pub dropout: f64,
    /// A file with measured rates, which then take the place of the drawn ones.
    pub trace: Option<LinkTraceSpec>,
    /// How transfers share the server's link.
    pub sharing: Sharing,
    /// The server's own link.
    pub server: ServerLinkSpec,
}

/// How transfers share a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// Equally, as far as their own links let them. A link carries its whole rate, and a frame
    /// arrives after half a round trip.
    #[default]
    Equal,
    /// As TCP does, after SimGrid's model LV08: in inverse proportion to the round-trip time, with
    /// a window of 4 MiB, 97 percent of a link's rate, and 13.01 times half a round trip before the
    /// first byte leaves.
    Tcp,
}

/// A file with a line per change of a user's rates: `user,time_s,down_mbit_per_s,up_mbit_per_s`.
///
/// The rates of a line hold until the user's next line. A user's first line is of time 0. Users are
/// numbered from 0 without gaps; those beyond the last one start again with the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LinkTrace")]
pub struct LinkTraceSpec {
    /// The file, as it is or below a data folder.
    #[schemars(length(min = 1))]
    pub path: PathBuf,
    /// The lines of every user begin again after so many seconds. Without it, a user's last line
    /// holds as long as the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1e9), extend("exclusiveMinimum" = 0.0))]
    pub period_s: Option<f64>,
}

/// The server's link, which all transfers in progress share. By default it is no limit at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerLinkSpec {
    /// The preset that the numbers started from, if one was named.
    pub preset: Option<String>,
    /// What all downloads (server to clients) share; `None` is no limit.
    pub downlink: Option<BitsPerSecond>,
    /// What all uploads (clients to server) share; `None` is no limit.
    pub uplink: Option<BitsPerSecond>,
    /// Transfers at once, both directions together; more wait in line. `None` is no limit.
    pub connections: Option<u32>,
}

/// Computing devices, with the preset resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct DevicesSpec {
    /// The preset that the numbers started from, if one was named.
    pub preset: Option<String>,
    /// How fast they are.
    pub speed: SpeedSpec,
    /// Time of a multiplication with an addition outside row visits, on a device of median speed,
    /// where the class or the trace does not say.
    pub ns_per_multiply_add: f64,
    /// Time that every participation takes beside its operations, where the class or the trace does
    /// not say.
    pub fixed_ms_per_participation: f64,
    /// Memory of a device whose class or trace does not say how much it has; `None` is no limit.
    pub memory: Option<MemorySpec>,
    /// Energy of a byte sent or received, in nanojoules.
    pub energy_nj_per_byte: Option<f64>,
    /// Energy of a row visit, in nanojoules.
    pub energy_nj_per_row_visit: Option<f64>,
    /// Energy of a multiplication with an addition, in nanojoules.
    pub energy_nj_per_multiply_add: Option<f64>,
}

impl DevicesSpec {
    /// Returns devices of this speed without anything else that costs time, limits memory or takes
    /// energy.
    pub fn with_speed(speed: SpeedSpec) -> Self {
        Self {
            preset: None,
            speed,
            ns_per_multiply_add: 0.0,
            fixed_ms_per_participation: 0.0,
            memory: None,
            energy_nj_per_byte: None,
            energy_nj_per_row_visit: None,
            energy_nj_per_multiply_add: None,
        }
    }
}

/// The server as a computer, for methods that run there. The defaults are assumptions: one core at
/// the speed of this project's own kernels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Server")]
pub struct ServerSpec {
    /// Time that the server needs for one row visit.
    #[schemars(range(min = 0, max = 1e9))]
    pub ns_per_row_visit: f64,
    /// Time that the server needs for one multiplication with an addition outside row visits.
    #[schemars(range(min = 0, max = 1e9))]
    pub ns_per_multiply_add: f64,
}

impl Default for ServerSpec {
    fn default() -> Self {
        Self {
            ns_per_row_visit: 10.0,
            ns_per_multiply_add: 0.1,
        }
    }
}

/// How the speed of devices is spread over users.
#[derive(Clone, Debug, PartialEq)]
pub enum SpeedSpec {
    /// Lognormal.
    Lognormal {
        /// Median time that a device needs for one row visit (one item row in one local epoch).
        median_ns_per_row_visit: f64,
        /// Standard deviation of the logarithm of that time over users.
        log_sigma: f64,
    },
    /// Each user's device is of one of these classes. Their shares add up to 1, within 1e-6.
    Classes(Vec<DeviceClassSpec>),
    /// A file with a line per user: `user,ns_per_row_visit` and, if it has the columns,
    /// `memory_mb`, `ns_per_multiply_add` and `fixed_ms_per_participation`.
    Trace(PathBuf),
}

/// A class of devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "DeviceClass")]
pub struct DeviceClassSpec {
    /// What it is called in reports.
    #[schemars(length(min = 1, max = 64))]
    pub name: String,
    /// Share of the users with such a device. All shares together are 1.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))]
    pub share: f64,
    /// Median time that such a device needs for one row visit (one item row in one local epoch).
    #[schemars(range(max = 1e12), extend("exclusiveMinimum" = 0.0))]
    pub ns_per_row_visit: f64,
    /// Standard deviation of the logarithm of that time within the class.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 5))]
    pub log_sigma: f64,
    /// Time of a multiplication with an addition outside row visits. Without it that of `[devices]`
    /// counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1e9))]
    pub ns_per_multiply_add: Option<f64>,
    /// Time that every participation takes beside its operations. Without it that of `[devices]`
    /// counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1e9))]
    pub fixed_ms_per_participation: Option<f64>,
    /// Memory for training, in MB (10^6 bytes). Without it that of `[devices]` counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1e-6, max = 1e9))]
    pub memory_mb: Option<f64>,
}

fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

/// Memory that a device has for training, lognormal over users. A user whose tables need more
/// cannot take part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemorySpec {
    /// Median, in MB (10^6 bytes).
    pub median_mb: f64,
    /// Standard deviation of the logarithm over users; 0 gives every device the same.
    pub log_sigma: f64,
}

/// When users can take part, with the preset resolved.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AvailabilitySpec {
    /// The preset that the numbers started from, if one was named.
    pub preset: Option<String>,
    /// The pattern.
    pub pattern: AvailabilityPattern,
}

/// When users can take part.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum AvailabilityPattern {
    /// At any time.
    #[default]
    Always,
    /// In a window of their local day.
    Daily(DailySpec),
    /// In stays of random length with random gaps.
    OnOff(OnOffSpec),
    /// In the stays that a file lists.
    Trace(AvailabilityTraceSpec),
}

/// A window of local time, every day. Virtual time 0 is midnight in the time zone with offset 0.
#[derive(Clone, Debug, PartialEq)]
pub struct DailySpec {
    /// Length of the window, in hours; 24 is always.
    pub hours_on: f64,
    /// The local hour at which it opens, from 0 up to 24.
    pub starts_at_hour: f64,
    /// Each user's window opens earlier or later by up to so many hours, uniformly, and every day
    /// alike.
    pub jitter_hours: f64,
    /// Time zones as hours ahead of offset 0, equally likely; empty for the 24 whole hours from -11
    /// to 12.
    pub utc_offsets: Vec<f64>,
}

impl DailySpec {
    /// Returns the time zones, each of which is equally likely.
    pub(crate) fn offsets(&self) -> Vec<f64> {
        if self.utc_offsets.is_empty() {
            (-11..=12).map(f64::from).collect()
        } else {
            self.utc_offsets.clone()
        }
    }
}

/// Alternation of stays and gaps, both exponential: a two-state Markov chain, stationary from the
/// start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OnOffSpec {
    /// Mean length of a stay, in seconds.
    pub mean_on_s: f64,
    /// Mean length of a gap, in seconds.
    pub mean_off_s: f64,
}

/// A file with a line per stay: `user,on,off`, both in seconds.
///
/// Users are numbered from 0 without gaps; those beyond the last one start again with the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AvailabilityTrace")]
pub struct AvailabilityTraceSpec {
    /// The file, as it is or below a data folder.
    #[schemars(length(min = 1))]
    pub path: PathBuf,
    /// The trace starts again after so many seconds. Without it, at its last `off`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1e-9, max = 1e9))]
    pub period_s: Option<f64>,
}

/// A rule that spoils transfers or keeps users away, with the preset resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultSpec {
    /// The preset that the rule started from, if one was named.
    pub preset: Option<String>,
    /// What it does to a transfer.
    pub effect: FaultEffect,
    /// Which transfers it concerns; `None` is both directions, as for every outage.
    pub direction: Option<Direction>,
    /// It concerns transfers that start at this virtual time or later, in seconds. An outage is not
    /// before it.
    pub from_s: f64,
    /// It concerns transfers that start before this virtual time, in seconds; `None` is for ever.
    /// An outage ends then.
    pub until_s: Option<f64>,
    /// Whom it concerns; `None` is everybody.
    pub users: Option<FaultUsers>,
    /// Probability that it hits a transfer that it concerns, drawn for each; 1 for an outage.
    pub probability: f64,
}

impl FaultSpec {
    /// Returns a rule that does this to every transfer.
    pub fn always(effect: FaultEffect) -> Self {
        Self {
            preset: None,
            effect,
            direction: None,
            from_s: 0.0,
            until_s: None,
            users: None,
            probability: 1.0,
        }
    }
}

/// What becomes of a transfer, or of users.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub enum FaultEffect {
    /// It arrives so many seconds later.
    #[serde(rename = "delay_s")]
    Delay(#[schemars(range(min = 1e-9, max = 1e9))] f64),
    /// It is sent and never arrives.
    #[serde(rename = "drop")]
    Drop,
    /// It ends after so many bytes.
    #[serde(rename = "cut_at_byte")]
    CutAtByte(u64),
    /// One bit of the frame arrives wrong; the receiver has to notice.
    #[serde(rename = "corrupt")]
    Corrupt,
    /// The users whom the rule concerns are all gone from its beginning to its end: they do not
    /// start, and what they are at is lost.
    #[serde(rename = "outage")]
    Outage,
    /// The users whom the rule concerns are all gone at the same times, again and again.
    #[serde(rename = "recurring_outage")]
    RecurringOutage(RecurringOutageSpec),
}

impl FaultEffect {
    /// Returns its name, as scenario files write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delay(_) => "delay_s",
            Self::Drop => "drop",
            Self::CutAtByte(_) => "cut_at_byte",
            Self::Corrupt => "corrupt",
            Self::Outage => "outage",
            Self::RecurringOutage(_) => "recurring_outage",
        }
    }

    /// Returns whether it keeps users away, rather than spoiling transfers.
    pub fn is_outage(self) -> bool {
        matches!(self, Self::Outage | Self::RecurringOutage(_))
    }
}

/// The times between outages and the lengths of outages, both exponential and drawn from the seed,
/// once for all users of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RecurringOutage")]
pub struct RecurringOutageSpec {
    /// Mean time from the end of an outage to the beginning of the next one, in seconds.
    #[schemars(range(min = 1, max = 1e9))]
    pub mean_gap_s: f64,
    /// Mean length of an outage, in seconds.
    #[schemars(range(min = 1, max = 1e9))]
    pub mean_duration_s: f64,
}

/// The users whom a rule concerns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultUsers {
    /// A fixed set of about this share of them, drawn for the rule.
    Share(#[schemars(range(max = 1), extend("exclusiveMinimum" = 0.0))] f64),
    /// Those with these numbers, counted from 0.
    Numbers(#[schemars(length(min = 1, max = 1000))] Vec<u32>),
    /// Those whose devices are of these classes (`devices.classes`), by name.
    DeviceClasses(
        #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 64)))] Vec<String>,
    ),
    /// Those in these time zones of the daily availability, as hours ahead of offset 0.
    UtcOffsets(#[schemars(length(min = 1, max = 64), inner(range(min = -24, max = 24)))] Vec<f64>),
}
