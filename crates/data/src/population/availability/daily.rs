//! Availability in a window of local time, every day.

use super::Stay;
use fedrecsim_core::{PortableDraws, Purpose, Stream, Streams, UserId};
use fedrecsim_scenario::DailySpec;

const HOUR: f64 = 3.6e12;
const DAY: u64 = 86_400_000_000_000;
/// Number of the default time zones, the whole hours from -11 to 12.
const DEFAULT_ZONES: u32 = 24;

#[derive(Clone, Debug)]
pub(crate) struct Daily {
    spec: DailySpec,
    /// Length of the window, in nanoseconds.
    length: u64,
    streams: Streams,
}

impl Daily {
    pub(crate) fn new(spec: &DailySpec, streams: Streams) -> Self {
        // A window of less than a nanosecond would open with nobody in it.
        Self {
            spec: spec.clone(),
            length: ((spec.hours_on * HOUR + 0.5) as u64).max(1),
            streams,
        }
    }

    /// Returns the user's time zone, as hours ahead of offset 0, which is the first draw of the stream
    /// of its availability, and that stream. All zones are equally likely.
    pub(crate) fn zone(&self, user: UserId) -> (f64, Stream) {
        let number = u64::from(user.0);
        let mut stream = self.streams.stream(Purpose::Availability, number, 0);
        let offset = match self.spec.utc_offsets.len() {
            0 => f64::from(stream.below(DEFAULT_ZONES)) - 11.0,
            count => self.spec.utc_offsets[stream.below(count as u32) as usize],
        };
        (offset, stream)
    }

    /// Returns whether the window is never closed.
    pub(super) fn is_always(&self) -> bool {
        self.length >= DAY
    }

    /// Returns the first stay that ends after `at`.
    pub(super) fn stay_after(&self, user: UserId, at: u64) -> Option<Stay> {
        // This is the time since the window last opened, which may be before the run began.
        let since = (at % DAY + DAY - self.opens_at(user)) % DAY;
        if since < self.length {
            return Some(Stay {
                from: at.saturating_sub(since),
                until: at.checked_add(self.length - since),
            });
        }
        let from = at.checked_add(DAY - since)?;
        Some(Stay {
            from,
            until: from.checked_add(self.length),
        })
    }

    /// Returns the nanoseconds after midnight at offset 0 when the user's window opens.
    fn opens_at(&self, user: UserId) -> u64 {
        let (offset, mut stream) = self.zone(user);
        let jitter = stream.uniform_within(self.spec.jitter_hours);
        // Adding 72 hours keeps the sum positive, as the terms are at most 24 + 12 + 24 hours in
        // either direction.
        let hours = self.spec.starts_at_hour + jitter - offset + 72.0;
        (hours * HOUR + 0.5) as u64 % DAY
    }
}
