//! Draws the time zones of users.

use fedrecsim_core::ids::UserId;
use fedrecsim_core::rng::{PortableDraws, Purpose, Stream, Streams};
use fedrecsim_scenario::DailySpec;

/// Number of the default time zones, the whole hours from -11 to 12.
const DEFAULT_ZONES: u32 = 24;

/// The time zones of users. All are equally likely.
#[derive(Clone, Debug)]
pub(super) struct TimeZones {
    /// The hours ahead of offset 0; empty for the default ones.
    utc_offsets: Vec<f64>,
    streams: Streams,
}

impl TimeZones {
    pub(super) fn new(spec: &DailySpec, streams: Streams) -> Self {
        Self {
            utc_offsets: spec.utc_offsets.clone(),
            streams,
        }
    }

    /// Returns the user's time zone, as hours ahead of offset 0, which is the first draw of the
    /// stream of its availability, and that stream.
    pub(super) fn draw(&self, user: UserId) -> (f64, Stream) {
        let mut stream = self
            .streams
            .stream(Purpose::Availability, u64::from(user.0), 0);
        let offset = match self.utc_offsets.len() {
            0 => f64::from(stream.below(DEFAULT_ZONES)) - 11.0,
            count => self.utc_offsets[stream.below(count as u32) as usize],
        };
        (offset, stream)
    }
}
